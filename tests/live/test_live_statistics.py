"""Propensities are frequencies, and weighted estimates cover where naive means do not. Each test has its mutant."""

from __future__ import annotations

from functools import cache

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from blts.agents import EpsilonGreedy, Exact, Perturb, Pool, Thompson, Uniform
from blts.live import Experiment, Spec, learning, policy
from blts.live.conclusions import estimates
from blts.live.conclusions.sample_ratio import sample_ratio
from blts.models import Gaussian, Laplace
from blts.samplers import sgld, ula
from laws import LEVEL, counts_p, ks_p

LABELS = ("A", "B", "C")
N = policy.SIZES[-1]
DATA = learning.Data(np.array([0, 0, 1, 1, 2, 2, 2]), np.array([0.1, 0.5, 0.6, 0.9, 0.3, 1.2, 0.4]))


def decided(model, sampler, *, draw="auto", data=DATA, seed=0, **settings):
    """Many decisions of one policy that has learned from some data: its law, the arms and the stored propensities."""
    spec = Spec.of(LABELS, model, sampler, "external", seed=seed, draw=draw, **settings)
    built = spec.build((0, 1, 2), spec.arms)
    key = policy.root_key(seed)
    state, _ = learning.learn(key, built.agent, policy.start(key, built.agent), data, t=7, repeat=0)
    frozen = policy.freeze(built.agent, state, draw)
    ticks = policy.start_clock(key, built.batching, 3)
    _, found = policy.decide_many(key, built.agent, built.batching, frozen, ticks, built.mixture, N, size=N, strict=False)
    assert np.asarray(found.live).all()
    return frozen, np.asarray(found.arms), np.asarray(found.propensities, float)


POLICIES = {
    "exact": (Gaussian(), Exact(), {}),
    "perturbed": (Laplace(), Perturb(sgld(0.1, 20, 8)), {}),
    "pool": (Gaussian(), Pool(ula(0.1, 20), 32), {}),
    "from the vector": (Gaussian(), Exact(), {"draw": "vector"}),
    "floors": (Gaussian(), Exact(), {"floor": 0.04, "control": "B", "control_share": 0.3}),
    "floors and burn-in": (Gaussian(), Exact(), {"floor": 0.04, "burn_in": 500}),
    "uniform": (Gaussian(), Uniform(3), {}),
    "ε-greedy": (Gaussian(), EpsilonGreedy(3, 2000.0), {}),
}


@pytest.mark.parametrize("name", POLICIES)
def test_propensities_are_frequencies(name):
    """16,384 decisions against the propensities stored with them, which may change from one to the next."""
    model, sampler, settings = POLICIES[name]
    frozen, arms, p = decided(model, sampler, **settings)
    assert np.abs(p.sum(1) - 1).max() < 1e-5
    assert sample_ratio(arms, p).p_value > LEVEL
    if (p == p[0]).all():
        assert counts_p(np.bincount(arms, minlength=3), p[0]) > LEVEL
    if settings and "draw" not in settings:  # the mutant: the agent's propensities without what was mixed in
        law = np.broadcast_to(np.asarray(frozen.law, float), p.shape)
        assert sample_ratio(arms, law).p_value < LEVEL
    elif name == "exact":  # the mutant: those of another state
        other, _, _ = decided(model, sampler, data=learning.Data(DATA.arms[:-1], DATA.rewards[:-1] + 0.1 * DATA.arms[:-1]))
        assert sample_ratio(arms, np.broadcast_to(np.asarray(other.law, float), p.shape)).p_value < LEVEL


def test_half_a_burn_in_is_found():
    """The mutant of burn-in: a uniform share throughout, whoever lacks units."""
    _, arms, p = decided(Gaussian(), Exact(), burn_in=500)
    assert (np.bincount(arms, minlength=3) >= 500).all()
    assert sample_ratio(arms, np.full_like(p, 1 / 3)).p_value < LEVEL


def test_only_exact_propensities_leave_the_choice_to_the_agent():
    assert not decided(Gaussian(), Exact())[0].by_law
    spec = Spec.of(LABELS, "zero-inflated-log-normal", "exact", "external")
    built = spec.build((0, 1, 2), spec.arms)
    assert not policy.has_exact_law(built.agent, built.agent.belief.init(None, built.agent.model))
    pool = Thompson(Gaussian(), Pool(ula(0.1, 5), 8), 3)
    state = policy.start(policy.root_key(0), pool)
    assert not policy.has_exact_law(pool, state)  # arms without data draw from the prior
    assert policy.has_exact_law(pool, state._replace(n=jnp.ones(3, int)))


@pytest.mark.parametrize("weights", [[0.2, 0.5, 0.3], [0.0, 1.0, 0.0], [0.5, 0.0, 0.5], [0.3, 0.7, 0.0]])
def test_pick_draws_by_weight(weights):
    u = (np.arange(1000) + 0.5) / 1000
    arms = [int(policy.pick(jnp.asarray(x), jnp.asarray(weights))) for x in (*u[::50], 0.0, 1 - 2**-24)]
    assert all(weights[arm] > 0 for arm in arms)
    shares = np.bincount(arms[:-2], minlength=3) / 20
    assert np.abs(shares - weights).max() <= 0.05 + 1e-9


# Estimates after a bandit

ARMS, BATCHES, SIZE, RUNS, FLOOR, PRIOR_SD = 3, 60, 20, 2000, 0.02, 3.0
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(21)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def winning(mean: np.ndarray, sd: np.ndarray) -> np.ndarray:
    """P(arm a has the largest of independent normals), by Gauss–Hermite quadrature: not the library's own."""
    out = np.ones_like(mean)
    for a in range(ARMS):
        x = mean[:, a, None] + sd[:, a, None] * NODES
        others = [special.ndtr((x - mean[:, b, None]) / sd[:, b, None]) for b in range(ARMS) if b != a]
        out[:, a] = np.prod(others, axis=0) @ WEIGHTS
    return out / out.sum(1, keepdims=True)


@cache
def adaptive_runs():
    """Batched exact Thompson sampling on equal Gaussian arms of mean 0 with a floor, replicated: arms, rewards, p."""
    rng = np.random.default_rng(7)
    n, total = np.zeros((RUNS, ARMS)), np.zeros((RUNS, ARMS))
    arms, rewards, ps = [], [], []
    for _ in range(BATCHES):
        precision = n + PRIOR_SD**-2
        p = FLOOR + (1 - ARMS * FLOOR) * winning(total / precision, precision**-0.5)
        a = (rng.random((RUNS, SIZE, 1)) > p.cumsum(1)[:, None]).sum(-1).clip(0, ARMS - 1)
        r = rng.normal(size=a.shape)
        for k in range(ARMS):
            n[:, k] += (a == k).sum(1)
            total[:, k] += np.where(a == k, r, 0).sum(1)
        arms.append(a)
        rewards.append(r)
        ps.append(np.repeat(p[:, None], SIZE, 1))
    return np.concatenate(arms, 1), np.concatenate(rewards, 1), np.concatenate(ps, 1)


def covers(estimate_of) -> bool:
    """Whether 95 % intervals have the truth in 95 % of runs or more, up to chance: a z-test of each run's share of arms."""
    arms, rewards, p = adaptive_runs()
    shares = np.empty(RUNS)
    for i in range(RUNS):
        low, high = estimate_of(arms[i], rewards[i], p[i]).interval(0.95)
        shares[i] = ((low <= 0) & (high >= 0)).mean()
    return bool(stats.norm.cdf((shares.mean() - 0.95) / (shares.std(ddof=1) / np.sqrt(RUNS))) > LEVEL)


def normal(estimate):
    """The estimate with a normal interval."""
    return estimates.Estimate(estimate.value, estimate.se)


ESTIMATORS = {
    "ipw": (lambda a, r, p: estimates.ipw(a, r, p), True),
    "aipw": (lambda a, r, p: estimates.aipw(a, r, p), True),
    "naive": (lambda a, r, p: estimates.naive(a, r, ARMS), False),
    # Mutants: the shares that arms ended up with for propensities, and a spread that forgets the weights.
    "ipw with shares": (
        lambda a, r, p: normal(estimates.ipw(a, r, np.broadcast_to(np.bincount(a, minlength=ARMS) / len(a), p.shape))),
        False,
    ),
    "aipw with the spread of its rewards": (
        lambda a, r, p: estimates.Estimate(estimates.aipw(a, r, p).value, np.full(ARMS, r.std() / np.sqrt(len(r)))),
        False,
    ),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_intervals_cover(name):
    estimate_of, right = ESTIMATORS[name]
    assert covers(estimate_of) == right


def reports(folder, runs: int, batches: int = 4, size: int = 60) -> list[dict]:
    """Experiments with two equal arms and a season: rewards are N(-1, 1) in the first batch, N(1, 1) in the last, 0 on average."""
    found = []
    for i in range(runs):
        rng = np.random.default_rng(i)
        settings = {"batching": {"name": "fixed", "size": size}, "seed": i, "floor": 0.1}
        with Experiment.create(folder / "blts.db", f"run {i}", LABELS[:2], Gaussian(), "exact", **settings) as experiment:
            for level in np.linspace(-1, 1, batches):
                decisions = experiment.ask(size).decisions
                experiment.tell([(d.id, float(x)) for d, x in zip(decisions, rng.normal(level, 1, size), strict=True)])
                experiment.refresh()
            found.append(experiment.report())
    return found


@pytest.mark.parametrize("runs", [20, pytest.param(300, marks=pytest.mark.slow)])
def test_the_intervals_of_reports_cover_where_those_of_naive_means_do_not(tmp_path, runs):
    """An arm that was played more in good times looks better than it is; weighting undoes that. The mutant is the naive mean."""
    arms = [arm for report in reports(tmp_path, runs) for arm in report["arms"]]
    inside = {kind: [arm[kind]["low"] < 0 < arm[kind]["high"] for arm in arms] for kind in ("naive", "ipw", "aipw")}
    shares = {kind: np.mean(np.reshape(hits, (runs, 2)), 1) for kind, hits in inside.items()}
    z = {kind: (x.mean() - 0.95) / max(x.std(ddof=1) / np.sqrt(runs), 1e-9) for kind, x in shares.items()}
    assert z["ipw"] > stats.norm.ppf(LEVEL)
    assert z["aipw"] > stats.norm.ppf(LEVEL)
    assert z["naive"] < stats.norm.ppf(LEVEL)
    assert shares["naive"].mean() < 0.7


def test_naive_means_are_biased_and_weighted_ones_are_not():
    arms, rewards, p = adaptive_runs()
    kinds = {
        "naive": lambda i: estimates.naive(arms[i], rewards[i], ARMS).value,
        "ipw": lambda i: estimates.ipw(arms[i], rewards[i], p[i]).value,
    }
    z = {}
    for name, value in kinds.items():
        values = np.array([value(i).mean() for i in range(RUNS)])
        z[name] = values.mean() / (values.std(ddof=1) / np.sqrt(RUNS))
    assert z["naive"] < -6
    assert abs(z["ipw"]) < stats.norm.isf(LEVEL / 2)


def test_sample_ratio_p_values_are_uniform_and_find_a_leak():
    arms, _, p = adaptive_runs()
    values = np.array([sample_ratio(arms[i], p[i]).p_value for i in range(RUNS)])
    assert ks_p(values, stats.uniform.cdf) > LEVEL
    rng = np.random.default_rng(1)  # the mutant: every tenth decision of arm 1 is lost
    keep = [(arms[i] == 0) | (rng.random(arms.shape[1]) > 0.1) for i in range(RUNS)]
    leaky = np.array([sample_ratio(arms[i][k], p[i][k]).p_value for i, k in enumerate(keep)])
    assert ks_p(leaky, stats.uniform.cdf) < LEVEL


def test_sample_ratio_where_nothing_is_left_to_chance():
    certain = np.eye(3)[[0, 1, 2, 0]]
    assert not sample_ratio(np.array([0, 1, 2, 0]), certain).alarm
    many = np.eye(3)[np.zeros(50, int)]
    assert sample_ratio(np.ones(50, int), many).alarm
    once = np.concatenate([np.full((200, 3), [0.5, 0.5, 0.0]), np.eye(3)[[0]]])
    arms = np.append(np.arange(200) % 2, 2)  # as often as expected, but for one play that could not be
    found = sample_ratio(arms, once)
    assert (found.alarm, found.p_value) == (True, 0.0)  # an alarm never stands beside a p-value that says otherwise


def test_value_against_equal_allocation_covers():
    """Equal arms: no allocation earns more than equal shares. With one better arm, the gain is its share."""
    arms, rewards, p = adaptive_runs()
    gains = [estimates.value_against_equal(arms[i], rewards[i], p[i]) for i in range(RUNS)]
    z = np.array([g.per_unit / g.se for g in gains])
    assert stats.binom.cdf((np.abs(z) < 1.96).sum(), RUNS, 0.95) > LEVEL
    better = [estimates.value_against_equal(arms[i], rewards[i] + arms[i], p[i]).per_unit for i in range(RUNS)]
    expected = np.array([arms[i].mean() - (ARMS - 1) / 2 for i in range(RUNS)])
    gap = np.array(better) - expected
    assert abs(gap.mean()) / (gap.std(ddof=1) / np.sqrt(RUNS)) < stats.norm.isf(LEVEL / 2)


def test_earlier_means_see_only_earlier_decisions():
    arms, rewards = np.array([0, 1, 0, 0, 1]), np.array([1.0, 2.0, 3.0, 5.0, 4.0])
    found = estimates.earlier_means(arms, rewards, 3)
    assert found.tolist() == [[0, 0, 0], [1, 1, 1], [1, 2, 1.5], [2, 2, 2], [3, 2, 11 / 4]]


def test_estimates_by_hand():
    arms, rewards = np.array([0, 1, 0, 1]), np.array([1.0, 2.0, 3.0, 6.0])
    p = np.array([[0.5, 0.5], [0.5, 0.5], [0.25, 0.75], [0.25, 0.75]])
    assert estimates.naive(arms, rewards, 2).value.tolist() == [2, 4]
    assert estimates.ipw(arms, rewards, p).value.tolist() == [(2 + 12) / 4, (4 + 8) / 4]
    absent = np.array([[1.0, 0.0], [0.5, 0.5], [0.5, 0.5], [0.5, 0.5]])  # arm 1 came later
    assert estimates.ipw(arms, rewards, absent).value[1] == pytest.approx((4 + 12) / 3)
    arms, rewards, p = np.append(arms, 0), np.append(rewards, 4.0), np.append(p, [[0.25, 0.75]], 0)
    scores = np.array([1, 1 + (3 - 1) / 0.25, 2, 2 + (4 - 2) / 0.25])  # arm 0 from the second decision on, with m = 1, 1, 2, 2
    assert estimates.aipw(arms, rewards, p).value[0] == pytest.approx(scores.mean())
    assert estimates.aipw(arms, rewards, p).se[0] == pytest.approx(scores.std() / 2)
