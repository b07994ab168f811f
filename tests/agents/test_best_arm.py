"""Top-two sampling, sequential halving and stopping rules: what they play, how often they are wrong, and what they recommend."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import blts.evidence
from blts import (
    Bandit,
    Bernoulli,
    ConfigError,
    DoublingCounts,
    Exact,
    Fixed,
    Gaussian,
    Grid,
    Laplace,
    Linear,
    Pool,
    Sequential,
    SequentialHalving,
    StopAtEvidence,
    StopAtLoss,
    StopAtProbability,
    Thompson,
    TopTwo,
    Uniform,
    ZeroInflatedLogNormal,
    _random,
    random,
    samplers,
    simulate,
)
from blts._typing import Played
from blts.agents.index import phase_ends
from blts.agents.stopping import expected_losses
from blts.evidence import ArmRewards, log_evidence
from blts.models.marginal import NormalLaw
from blts.studies.tasks.simulate import Simulate

# Top two

MEANS, SDS = np.array([0.3, 0.0, 0.25, -0.5]), np.array([0.2, 0.4, 0.1, 0.6])
GAUSSIAN = Gaussian(prior_mean=[0.0] * 4, prior_sd=10.0)
DRAWS = 100_000


def played(agent) -> np.ndarray:
    """How often each arm is played in a state with these posteriors, from `act` alone."""
    state, keys = NormalLaw(jnp.asarray(MEANS), jnp.asarray(SDS)), random.split(_random.as_key(3), DRAWS)
    now = Played(jnp.ones((), int), jnp.zeros(4, int))
    return np.bincount(np.asarray(jax.jit(jax.vmap(lambda k: agent.act(k, state, (), now)))(keys)), minlength=4)


def by_hand(leader: float) -> np.ndarray:
    """The same from draws of NumPy's and the definition of the challenger."""
    leads = np.argmax(np.random.default_rng(0).normal(MEANS, SDS, (2_000_000, 4)), axis=1)
    cost = (MEANS[:, None] - MEANS) ** 2 / (SDS[:, None] ** 2 + SDS**2)
    challenger = np.argmin(np.where(np.eye(4), np.inf, cost), axis=1)
    p = np.bincount(leads, minlength=4) / len(leads)
    return leader * p + (1 - leader) * np.bincount(challenger[leads], minlength=4) / len(leads)


def chi_square(counts: np.ndarray, p: np.ndarray) -> float:
    return float(stats.chisquare(counts, counts.sum() * p / p.sum()).pvalue)


def test_top_two_plays_by_its_propensities():
    agent = TopTwo(GAUSSIAN, leader=0.6)
    counts = played(agent)
    p = np.asarray(agent.propensities(NormalLaw(jnp.asarray(MEANS), jnp.asarray(SDS))), float)
    assert p.sum() == pytest.approx(1, abs=1e-6)
    assert np.abs(p - by_hand(0.6)).max() < 2e-3
    assert chi_square(counts, p) > 1e-4
    # Mutants: the leader's share off by 5 %; the challenger always the second best mean; plain Thompson sampling.
    leads = np.asarray(Thompson(GAUSSIAN).propensities(NormalLaw(jnp.asarray(MEANS), jnp.asarray(SDS))), float)
    second = np.array([2, 0, 0, 0])
    for wrong in (by_hand(0.57), 0.6 * leads + 0.4 * np.bincount(second, leads, 4), leads):
        assert chi_square(counts, np.maximum(wrong, 1e-6)) < 1e-6


def test_challengers_of_equal_arms_are_equally_likely():
    agent = TopTwo(Gaussian(prior_mean=[0.0, 0.0, 0.0]))
    state = agent.init(_random.as_key(0))
    assert agent.challengers(state) == pytest.approx((np.ones((3, 3)) - np.eye(3)) / 2)
    assert agent.propensities(state) == pytest.approx(np.full(3, 1 / 3), abs=1e-5)


def test_a_pool_leads_and_challenges_by_its_members():
    model = Laplace(prior_mean=[0.0] * 3)
    agent = TopTwo(model, Pool(samplers.mala(steps=2), 8))
    env = Bandit.with_means(Laplace(), [0.0, 0.5, 1.0])
    trace = simulate(0, env, agent, Fixed(25), horizon=100, replications=4)
    assert (trace.plays.sum(1) == 100).all()
    state = agent.init(_random.as_key(0))
    assert not agent.propensities_are_exact(state)
    assert float(agent.propensities(state).sum()) == pytest.approx(1, abs=1e-5)


def test_top_two_without_closed_distributions():
    """Moments and propensities are then those of fixed draws; it still prefers the best arm."""
    model = ZeroInflatedLogNormal()
    agent = TopTwo(model, arms=2)
    assert not agent.incremental
    state = agent.init(_random.as_key(0))
    assert not agent.propensities_are_exact(state)
    assert agent.challengers(state).tolist() == [[0, 1], [1, 0]]
    assert agent.propensities(state) == pytest.approx([0.5, 0.5], abs=0.05)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: TopTwo(Gaussian(prior_mean=[0.0, 0.0]), leader=1.5), "leader must be a probability between 0 and 1; got 1.5"),
        (lambda: TopTwo(Gaussian(prior_mean=[0.0])), "at least two arms"),
        (lambda: TopTwo(Linear(prior_mean=[0.0, 0.0]), arms=3), "without contexts"),
        (lambda: StopAtEvidence(Uniform(2), error=0.0), "error must be a probability"),
        (lambda: StopAtEvidence(Thompson(Linear(prior_mean=[0.0, 0.0]), arms=3)), "without contexts"),
        (lambda: StopAtProbability(Uniform(2), Laplace()), "exact posterior"),
        (lambda: StopAtLoss(Uniform(2), Gaussian(), loss=-1.0), "loss must be > 0"),
        (lambda: SequentialHalving(8, 9), "horizon must be at least 10"),
        (lambda: simulate(0, WORLD, StopAtEvidence(Uniform(3)), Fixed(9), horizon=9, replications=1, engine="leap"), "concludes"),
    ],
)
def test_what_cannot_be_is_refused(make, words):
    with pytest.raises(ConfigError, match=words):
        make()


# Stopping

WORLD = Bandit.with_means(Gaussian(), [0.0, 0.0, 0.5])
FLAT = Gaussian(prior_mean=[0.0] * 3, prior_sd=10.0)


def stopped(agent, env=WORLD, runs: int = 400, horizon: int = 800):
    return simulate(0, env, agent, Fixed(40), horizon=horizon, replications=runs, times=2)


def error(trace) -> tuple[float, float]:
    """How often it stopped at a wrong arm, and the standard error that 5 % would have."""
    return trace.summary()["wrong_stop_mean"], np.sqrt(0.05 * 0.95 / trace.replications)


CLOSE = Bandit.with_means(Gaussian(), [0.0, 0.45, 0.5])


def check_error(runs: int) -> None:
    """Evidence errs in at most 5 % of the runs, where two arms are nearly equal; its mutant is P(best) ≥ 0.95."""
    for agent in (TopTwo(FLAT), Uniform(3)):
        wrong, se = error(stopped(StopAtEvidence(agent), CLOSE, runs))
        assert wrong <= 0.05 + 3 * se
        wrong, se = error(stopped(StopAtProbability(agent, FLAT), CLOSE, runs))
        assert wrong > 0.05 + 3 * se


def test_stopping_at_evidence_is_seldom_wrong():
    check_error(400)


@pytest.mark.slow
def test_stopping_at_evidence_is_seldom_wrong_in_2000_runs():
    """Also of rates, for which the evidence is exact. Top-two needs fewer rounds than equal allocation."""
    check_error(2000)
    rates = Bandit.with_means(Bernoulli(), [0.1, 0.28, 0.3])
    for agent in (TopTwo(Bernoulli(), arms=3), Uniform(3)):
        wrong, se = error(stopped(StopAtEvidence(agent, binary=True), rates, 2000))
        assert wrong <= 0.05 + 3 * se
    five = Bandit.with_means(Gaussian(), [0.0] * 4 + [0.5])
    model = Gaussian(prior_mean=[0.0] * 5, prior_sd=10.0)
    rounds = {}
    for agent in (TopTwo(model), Uniform(5)):
        s = stopped(StopAtEvidence(agent), five, 2000, 3000).summary()
        assert s["stopped_mean"] == 1
        assert s["wrong_stop_mean"] <= 0.05
        rounds[type(agent).__name__] = s["stop_round_mean"], s["stop_round_se"]
    print(rounds)
    (mine, se), (equal, other) = rounds["TopTwo"], rounds["Uniform"]
    assert mine + 3 * np.hypot(se, other) < equal


def test_p_best_is_right_on_average_over_its_prior():
    """Where arms are drawn from the prior, P(best) ≥ 0.7 is wrong in at most 30 %, however often one looks."""
    drawn = Bandit(Gaussian(prior_mean=[0.0] * 3, prior_sd=0.1))
    right, wide = (Gaussian(prior_mean=[0.0] * 3, prior_sd=sd) for sd in (0.1, 10.0))
    share = {}
    for name, model in {"its": right, "a wider": wide}.items():
        trace = stopped(StopAtProbability(Uniform(3), model, 0.7), drawn)
        s = trace.summary()
        share[name] = s["wrong_stop_mean"] / s["stopped_mean"]
        print(name, s["stopped_mean"], share[name])
    se = np.sqrt(0.3 * 0.7 / (400 * s["stopped_mean"]))
    assert share["its"] <= 0.3 + 3 * se
    assert share["a wider"] > 0.3 + 3 * se  # the mutant: another prior than the one that arms are drawn from


def test_before_it_stops_a_wrapped_agent_plays_as_it_would_and_then_one_arm():
    agent, options = TopTwo(FLAT), {"horizon": 600, "replications": 20, "keep_actions": True}
    plain = simulate(0, WORLD, agent, Fixed(20), **options)
    trace = simulate(0, WORLD, StopAtEvidence(agent), Fixed(20), **options)
    assert plain.concluded is None
    stops, arms = (np.asarray(x) for x in (trace.concluded.stopped, trace.concluded.arm))
    assert (stops > 0).any()
    assert (stops % 20 == 0).all()
    for r in range(20):
        end = stops[r] or 600
        assert (trace.actions[r, :end] == plain.actions[r, :end]).all()
        assert (trace.actions[r, end:] == arms[r]).all()


@pytest.mark.parametrize("horizon", [300, 330])  # of a batch that ends with the last round, and of one that does not
def test_the_last_batch_counts(horizon):
    """At the first look, after the last round, everything is known."""
    far = Bandit.with_means(Gaussian(), [0.0, 0.0, 10.0])
    trace = simulate(0, far, StopAtEvidence(Uniform(3)), Fixed(400 if horizon > 300 else 300), horizon=horizon, replications=8)
    assert (np.asarray(trace.concluded.stopped) == horizon).all()
    assert (np.asarray(trace.concluded.arm) == 2).all()
    assert (trace.diagnostics.refreshes == 1).all()


def test_expected_losses_of_normals():
    """E[(Y - X)⁺] = s φ(d/s) - d Φ(-d/s) for a difference of d with sd s; of more arms by simulation."""
    for d, s in ((0.0, 1.0), (1.0, 0.5), (2.0, 0.5)):
        exact = s * stats.norm.pdf(d / s) - d * stats.norm.cdf(-d / s)
        laws = NormalLaw(jnp.array([d, 0.0]), jnp.array([0.6 * s, 0.8 * s]))
        assert float(expected_losses(laws)[0]) == pytest.approx(exact, rel=2e-3)
    x = np.random.default_rng(1).normal(MEANS, SDS, (1_000_000, 4))
    assert expected_losses(NormalLaw(jnp.asarray(MEANS), jnp.asarray(SDS))) == pytest.approx(x.max(1).mean() - x.mean(0), abs=2e-3)


def test_an_expected_loss_stops_equal_arms_too():
    equal = Bandit.with_means(Gaussian(), [0.0, 0.0, 0.0])
    s = stopped(StopAtLoss(Uniform(3), FLAT, 0.05), equal, 100).summary()
    assert s["stopped_mean"] == 1
    assert s["simple_regret_mean"] == 0


@pytest.mark.parametrize("binary", [True, False])
def test_evidence_is_the_same_in_jax(binary):
    rng = np.random.default_rng(0)
    n = rng.integers(10, 10_000, (2, 200)).astype(float)
    mean = rng.binomial(n.astype(int), rng.beta(1, 4, (2, 200))) / n
    arms = [ArmRewards(n[k], mean[k], n[k] * mean[k] * (1 - mean[k]) + 0.01) for k in (0, 1)]
    exact = log_evidence(*arms, binary=binary)
    single = np.asarray(log_evidence(*(ArmRewards(*map(jnp.asarray, arm)) for arm in arms), binary=binary, xp=jnp), float)
    assert ((exact == -np.inf) == (single == -np.inf)).all()
    near = np.isfinite(exact) & (exact < 30)  # where it matters: log 20 is 3
    assert near.sum() > 20
    assert (np.abs(single[near] - exact[near]) < 0.05).all()
    assert (single[exact >= 30] > 25).all()
    assert blts.evidence.needed(3, 0.1) == 20


# Sequential halving


def test_phases_end_where_stated():
    assert phase_ends(8, 600) == (200, 400, 600)
    assert phase_ends(5, 100) == (33, 66, 100)
    assert phase_ends(15, 30) == (15, 20, 25, 30)  # no arm is dropped that was not played
    assert phase_ends(1, 10) == phase_ends(2, 10) == (10,)


RATES = (0.2, 0.4, 0.5, 0.6)


def exact_wrong(first: int, second: int) -> float:
    """P(the recommended of four arms is not the last): `first` plays of each, then `second` of the better half, ties at random."""
    pmf = [stats.binom.pmf(np.arange(first + 1), first, p) for p in RATES]
    more = [stats.binom.pmf(np.arange(second + 1), second, p) for p in RATES]
    right, orders = 0.0, list(itertools.permutations(range(4)))
    for sums in itertools.product(range(first + 1), repeat=4):
        p = np.prod([pmf[a][sums[a]] for a in range(4)])
        for order in orders:
            kept = sorted(range(4), key=lambda a: (-sums[a], -order[a]))[:2]
            if 3 not in kept:
                continue
            other = next(a for a in kept if a != 3)
            ahead = np.add.outer(sums[3] + np.arange(second + 1), -(sums[other] + np.arange(second + 1)))
            wins = np.where(ahead == 0, order[3] > order[other], ahead > 0)
            right += p / len(orders) * (more[3] @ wins @ more[other])
    return 1 - right


class KeepsThree(SequentialHalving):
    """A mutant: drops one arm too few."""

    def _still_alive(self, state, seen):
        over = jnp.sum(seen.rows) >= self.ends[0]
        value = jnp.where(state.alive, seen.mean, -jnp.inf) + 1e-6 * state.order
        return state.alive & (~over | (value > jnp.min(value)))


@pytest.mark.parametrize("batching", [Grid((8, 16)), Sequential(), Fixed(4)])
def test_sequential_halving_against_enumeration(batching):
    """2 plays of each of 4 arms, then 4 of the better two, whatever the batches are."""
    env, runs = Bandit.with_means(Bernoulli(), list(RATES)), 100_000
    wrong = exact_wrong(2, 4)
    s = simulate(0, env, SequentialHalving(4, 16), batching, horizon=16, replications=runs).summary()
    z = (s["wrong_mean"] - wrong) / np.sqrt(wrong * (1 - wrong) / runs)
    assert abs(z) < 4
    # The simple regret is that of the arms recommended: between the smallest and the largest gap of a wrong one.
    assert 0.1 * s["wrong_mean"] - 1e-4 <= s["simple_regret_mean"] <= 0.4 * s["wrong_mean"] + 1e-4


def test_a_halving_that_keeps_too_many_is_noticed():
    env, runs = Bandit.with_means(Bernoulli(), list(RATES)), 100_000
    wrong = exact_wrong(2, 4)
    s = simulate(0, env, KeepsThree(4, 16), Grid((8, 16)), horizon=16, replications=runs).summary()
    assert abs(s["wrong_mean"] - wrong) / np.sqrt(wrong * (1 - wrong) / runs) > 4


def test_simple_regret_is_the_gap_of_the_recommended_arm():
    env = Bandit.with_means(Gaussian(), [0.0, 0.3, 0.5])
    trace = simulate(0, env, StopAtEvidence(Thompson(FLAT, Exact())), DoublingCounts(), horizon=40, replications=200)
    gaps = np.array([0.5, 0.2, 0.0])
    assert trace.concluded.simple_regret == pytest.approx(gaps[np.asarray(trace.concluded.arm)], abs=1e-6)
    assert len(np.unique(trace.concluded.arm)) == 3
    assert "Recommended: not the best arm in" in repr(trace)


def test_a_study_keeps_the_prior_that_a_rule_looks_at():
    """The prior of an agent that has none is not part of a condition, unless a stopping rule is."""
    given = {"env": "gaussian-close", "agent": "uniform", "prior": "uninformative", "batching": "fixed"}
    assert Simulate().normal(given)["prior"] == "informative"
    assert Simulate().normal(given | {"stop": "p-best"}) == Simulate().normal(given) | {"prior": "uninformative", "stop": "p-best"}
