"""Every reward has a fate and counts once; totals are as good as rows where they determine the posterior."""

from __future__ import annotations

import math
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from blts._module import module
from blts._typing import Row
from blts.errors import ConfigError, UnknownName
from blts.live.aggregate import NEEDS, scattered
from blts.live.aggregate import rows as rows_of_totals
from blts.live.checks import outside
from blts.live.export import table_of
from blts.live.ledger import Fold
from blts.models import (
    Bernoulli,
    Gamma,
    Gaussian,
    GaussianUnknownVariance,
    Laplace,
    LogNormal,
    Poisson,
    ZeroInflatedLogNormal,
)
from blts.models.functions import from_functions
from blts.models.numpyro import from_numpyro
from experiments import LABELS, Hand, created, log_likelihood, log_prior, made, prior_draw, rewarded

# Telling


def test_every_row_has_a_fate(tmp_path):
    experiment, other = made(tmp_path), made(tmp_path, "other")
    a, b, c, d = (decision.id for decision in experiment.ask(4).decisions)
    stranger = other.ask(1).decisions[0].id
    assert experiment.tell([(a, 1.0), (a, 1.0), (a, 2.0)])[:5] == (1, 1, 1, 0, 0)
    code = a.split("-")[0]
    rows = [
        (a, 1.0),
        (a, 1.5),
        (stranger, 1.0),
        (f"{code}-99", 1.0),
        (f"{code}-0", 1.0),
        (f"{code}-01", 1.0),
        (None, 1.0),
        (7, 1.0),
        ("", 1.0),
        (b, math.nan),
        (b, math.inf),
        (b, -math.inf),
        (b, "1.0"),
        (b, None),
        (b, 1e300),
        (b, 10**400),
        (b, [1.0]),
        (b, 1 + 2j),
        (c, True),
        (d, np.float32(0.5)),
        "nonsense",
        (a,),
        17,
    ]
    told = experiment.tell(rows)
    assert told[:5] == (2, 1, 1, 7, 12)
    assert told.ids["duplicate"] == told.ids["conflict"] == [a]
    assert set(told.ids["unknown"]) == {stranger, f"{code}-99", f"{code}-0", f"{code}-01", "None", "7", ""}
    assert {i for i, _ in told.ids["invalid"]} == {b, "'nonsense'", f"('{a}',)", "17"}
    assert told.awaited == 1
    assert other.status()["entries"] == 0
    assert experiment.tell([])[:5] == (0, 0, 0, 0, 0)
    assert experiment.verify() == []


@pytest.mark.parametrize(
    ("model", "good", "bad"),
    [
        (Bernoulli(), [0, 1], [0.5, -1, 2]),
        (Poisson(), [0, 3], [0.5, -1]),
        (Gamma(), [0.1], [0, -1]),
        (LogNormal(), [0.1], [0, -1]),
        (ZeroInflatedLogNormal(), [0, 3.5], [-0.1]),
        (Gaussian(), [-3, 0, 1e29], [1e31, math.nan, math.inf]),
    ],
    ids=lambda x: type(x).__name__,
)
def test_rewards_outside_the_support_are_invalid(model, good, bad):
    assert [outside(model, float(reward)) for reward in good] == [None] * len(good)
    assert None not in [outside(model, float(reward)) for reward in bad]


def test_models_of_ones_own_say_their_support(tmp_path):
    """A model made of functions, or an object of anybody's, takes the rewards that its `support` names."""

    def made_with(name, **options):
        model = from_functions(log_prior, log_likelihood, L=1.0, init=prior_draw, **options)
        return made(tmp_path, name, model=model, sampler="mala")

    first = made_with("counts", support="count")
    a, b, c = (d.id for d in first.ask(3).decisions)
    told = first.tell([(a, 3), (b, 0.5), (c, -1)])
    assert (told.accepted, told.invalid) == (1, 2)
    assert told.ids["invalid"][0] == [b, "rewards of this model are 0, 1, 2, …"]
    with pytest.raises(ConfigError, match="must be finite"):
        first.correct(b, math.nan)
    silent = made_with("silent")  # without a word every finite number is taken
    assert silent.tell([(d.id, -0.5) for d in silent.ask(2).decisions]).accepted == 2
    with pytest.raises(ConfigError, match="support must be one of binary"):
        made_with("wrong", support="prime")

    class Plain:
        """Not a pytree: JAX knows nothing of this class."""

        def __getattr__(self, name):
            return getattr(Gaussian(), name)

    with pytest.raises(ConfigError, match=r"write class Plain\(blts\.Model\)"):
        made(tmp_path, "plain", model=Plain())

    @module
    class Odd(Gaussian):
        support: ClassVar[str] = "odd"

    with pytest.raises(ConfigError, match="Odd has 'odd'"):
        made(tmp_path, "odd", model=Odd())


def test_the_support_of_a_numpyro_model_is_its_likelihood_s():
    dist = pytest.importorskip("numpyro.distributions")
    prior = {"rate": dist.LogNormal(0.0, 1.0)}
    waiting, counts = (from_numpyro(law, prior) for law in (dist.Exponential, dist.Poisson))
    assert outside(waiting, 0.5) is None
    assert outside(waiting, -0.5) == "rewards of this model are above zero"
    assert outside(counts, 0.5) is not None
    assert outside(from_numpyro(lambda rate: dist.Normal(0.0, rate), prior), -0.5) is None


def test_corrections_and_cancellations_enter_the_next_refresh(tmp_path):
    experiment = made(tmp_path)
    answer = experiment.ask(6)
    ids = [d.id for d in answer.decisions]
    experiment.tell(rewarded(answer))
    experiment.refresh()
    before = experiment.policy()["data"]
    assert experiment.correct(ids[0], 5.0, "typo")
    assert not experiment.correct(ids[0], 5.0)
    assert not experiment.correct(ids[1], 1.0)
    assert experiment.cancel([ids[1], ids[1]]) == 1
    assert experiment.cancel(ids[1]) == 0
    assert experiment.tell([(ids[1], 1.0), (ids[0], 5.0), (ids[0], 1.0)])[:5] == (0, 1, 2, 0, 0)
    refreshed = experiment.refresh(force=True)
    assert refreshed.refreshed
    entry = experiment.policy()
    assert entry["data"] != before
    assert sum(entry["n"].values()) == 5
    with pytest.raises(ConfigError, match="no decision"):
        experiment.correct("elsewhere-1", 1.0)
    with pytest.raises(ConfigError, match="must be finite"):
        experiment.correct(ids[0], math.nan)
    with pytest.raises(ConfigError, match="is cancelled and counts for nothing"):
        experiment.correct(ids[1], 2.0)
    assert experiment.verify() == []
    assert [e["what"] for e in experiment.audit()][-3:] == ["cancel", "tell", "refresh"]


def test_cancelled_decisions_are_not_awaited(tmp_path):
    experiment = made(tmp_path)
    answer = experiment.ask(6)
    experiment.cancel([d.id for d in answer.decisions[:2]])
    assert experiment.tell(rewarded(answer)[2:]).awaited == 0
    assert experiment.refresh().refreshed


def test_the_window_settles_what_is_silent(tmp_path):
    clock = Hand()
    experiment = made(tmp_path, window=60.0, default_reward=0.0, clock=clock)
    answer = experiment.ask(6)
    experiment.tell(rewarded(answer)[:4])
    assert experiment.refresh().why == "batch 1 awaits the end of 6 windows"
    clock.now -= 1e6  # a clock that goes backwards settles nothing
    assert not experiment.refresh().refreshed
    clock.now += 1e6 + 61
    done = experiment.refresh()
    assert done.in_use
    assert sum(experiment.policy()["n"].values()) == 6
    late = experiment.tell(rewarded(answer)[4:])
    assert late.accepted == 2
    assert experiment.tell(rewarded(answer)[4:]).duplicate == 2
    experiment.refresh(force=True)
    assert experiment.verify() == []


def test_without_a_default_the_silent_are_left_out(tmp_path):
    clock = Hand()
    experiment = made(tmp_path, window=60.0, clock=clock)
    experiment.tell(rewarded(experiment.ask(6))[:4])
    clock.now += 60
    assert experiment.refresh().in_use
    assert sum(experiment.policy()["n"].values()) == 4
    assert experiment.report()["missing_feedback_rate"] == pytest.approx(2 / 6)
    assert experiment.verify() == []


# Totals


def posterior(model, rewards):
    """Differences of log-likelihoods, in which what is constant in θ is gone."""

    @jax.jit
    def gap(rewards):
        theta, other = jnp.full(model.dim, 0.3), jnp.linspace(-0.5, 0.2, model.dim)
        each = lambda x: jnp.sum(jax.vmap(lambda r: model.log_likelihood(x, Row((), jnp.asarray(0), r)))(rewards))  # noqa: E731
        return each(theta) - each(other)

    return float(gap(jnp.asarray(rewards, float)))


def totals_of(model, rewards):
    """What a total of these rewards says, as the model needs it."""
    logs = [math.log(r) for r in rewards if r > 0]
    every = {
        "total": float(sum(rewards)),
        "total_of_squares": float(sum(r * r for r in rewards)),
        "positive": len(logs),
        "total_of_logs": sum(logs),
        "total_of_squared_logs": sum(x * x for x in logs),
    }
    return {name: every[name] for name in NEEDS[type(model)]}


@pytest.mark.parametrize(
    ("model", "rewards"),
    [
        (Bernoulli(), [1, 0, 0, 1, 1]),
        (Poisson(), [0, 3, 1, 7]),
        (Gamma(2.0), [0.5, 1.5, 0.25]),
        (Gaussian(), [1.0, 2.5, -1.0, 0.5, 0.0]),
        (GaussianUnknownVariance(), [1.0, 2.5, -1.0, 0.5]),
        (LogNormal(), [0.5, 2.0, 1.5]),
        (ZeroInflatedLogNormal(), [0.0, 2.0, 0.0, 1.5, 3.0]),
    ],
    ids=lambda x: type(x).__name__,
)
def test_totals_give_the_posterior_of_the_rows(model, rewards):
    totals = totals_of(model, rewards)
    again = rows_of_totals(model, len(rewards), totals)
    for made_up in (again, *(scattered(model, again, np.random.default_rng(seed)) for seed in range(5))):
        assert len(made_up) == len(rewards)
        assert all(outside(model, reward) is None for reward in made_up)
        assert posterior(model, made_up) == pytest.approx(posterior(model, rewards), rel=1e-4)
    wrong = rows_of_totals(model, len(rewards), totals)[:-1]  # the mutant
    assert posterior(model, wrong) != pytest.approx(posterior(model, rewards), rel=1e-4)


def test_totals_settle_decisions(tmp_path):
    experiment = made(tmp_path, batching={"name": "fixed", "size": 16})
    decisions = experiment.ask(16).decisions
    for label in LABELS:
        mine = [d for d in decisions if d.arm == label]
        if mine:
            totals = {"total": 1.0, "total_of_squares": 1.0, "request_id": f"day 1, {label}"}
            told = experiment.tell_aggregate(label, len(mine), **totals)
            assert experiment.tell_aggregate(label, len(mine), **totals) == told
    assert told.awaited == 0
    first = decisions[0]
    assert experiment.tell([(first.id, 1.0)]).conflict == 1
    with pytest.raises(ConfigError, match="0 decisions that wait"):
        experiment.tell_aggregate("A", 1, total=1, total_of_squares=1, request_id="day 2")
    with pytest.raises(ConfigError, match="needs total"):
        experiment.tell_aggregate("A", 1, request_id="day 3")
    with pytest.raises(UnknownName):
        experiment.tell_aggregate("Z", 1, total=1, total_of_squares=1, request_id="day 4")
    assert experiment.refresh().in_use
    assert experiment.verify() == []


def test_totals_are_refused_where_they_do_not_determine_the_posterior():
    with pytest.raises(ConfigError, match="one by one"):
        rows_of_totals(Laplace(), 3, {"total": 1.0})
    for totals in ({"total": 1.5}, {"total": -1}, {"total": 4}, {"total": math.nan}):
        with pytest.raises(ConfigError, match="total"):
            rows_of_totals(Bernoulli(), 3, totals)
    with pytest.raises(ConfigError, match="cannot have"):
        rows_of_totals(Gaussian(), 3, {"total": 3.0, "total_of_squares": 1.0})


def oldest_first(model, found, rng):
    """The mutant: the rows as they were made up, the high ones and the odd ones first."""
    return found


LAWS = {
    "conversions": (Bernoulli(), lambda rng, n: (rng.random(n) < 0.2) * 1.0),
    "counts": (Poisson(), lambda rng, n: rng.poisson(0.4, n) * 1.0),
    "gamma": (Gamma(2.0), lambda rng, n: rng.gamma(2.0, 1.5, n)),
    "numbers": (Gaussian(), lambda rng, n: rng.normal(10.0, 5.0, n)),
    "log-normal": (LogNormal(), lambda rng, n: rng.lognormal(0.0, 0.5, n)),
    "revenue": (ZeroInflatedLogNormal(), lambda rng, n: rng.lognormal(3.0, 0.5, n) * (rng.random(n) < 0.2)),
}
"""By name a model, and what draws rewards of it."""


def weighted_z(pairs):
    """How far weighted sums of made-up rewards are from those that chance would give, in standard errors.

    Args:
        pairs: weights of decisions and their rewards. Given its rewards, every order of them is as likely.
    """
    off, var = 0.0, 0.0
    for weights, rewards in pairs:
        w, r = weights - weights.mean(), rewards - rewards.mean()
        off, var = off + (w * r).sum(), var + (w @ w) * (r @ r) / (len(w) - 1)
    return off / math.sqrt(var)


@pytest.mark.parametrize("law", LAWS)
def test_totals_are_spread_as_chance_spreads_rewards(law):
    """Weighted sums as of inverse propensities: right in expectation, and with the spread of the rows' own."""
    model, draw = LAWS[law]
    rng = np.random.default_rng(1)
    weights = np.repeat([2.0, 20.0], 200)  # propensities fell
    zs = {"totals": [], "rows": [], "mutant": []}
    for _ in range(300):
        rewards = draw(rng, 400)
        found = rows_of_totals(model, 400, totals_of(model, rewards))
        every = {"totals": scattered(model, found, rng), "rows": rewards, "mutant": oldest_first(model, found, rng)}
        for name, some in every.items():
            if np.ptp(some) > 0:
                zs[name].append(weighted_z([(weights, np.asarray(some))]))
    for name in ("totals", "rows"):
        assert abs(np.mean(zs[name])) < 4 / math.sqrt(300)
        assert abs(np.var(zs[name]) - 1) < 4 * math.sqrt(2 / 300)
    assert not zs["mutant"] or abs(np.mean(zs["mutant"])) > 10 / math.sqrt(300)  # without one where its rewards are all the same


@pytest.mark.parametrize(("law", "variance", "kurtosis"), [("counts", 0.4, 3 + 1 / 0.4), ("gamma", 4.5, 3 + 6 / 2)])
def test_made_up_rewards_vary_as_those_of_the_model(law, variance, kurtosis):
    model, draw = LAWS[law]
    rng, n = np.random.default_rng(2), 20_000
    found = rows_of_totals(model, n, totals_of(model, draw(rng, n)))
    z = lambda some: (np.var(some, ddof=1) / variance - 1) / math.sqrt((kurtosis - 1) / n)  # noqa: E731
    assert abs(z(scattered(model, found, rng))) < 4
    assert z(oldest_first(model, found, rng)) < -10
    assert math.fsum(scattered(model, found, rng)) == pytest.approx(math.fsum(found), rel=1e-12)


def test_totals_of_extreme_rewards():
    rng = np.random.default_rng(3)
    assert scattered(Poisson(), [1e29] * 3, rng) == [1e29] * 3  # more than NumPy can draw
    assert scattered(Poisson(), [7.0], rng) == [7.0]
    tiny = scattered(Gamma(1e-4), [1.0] * 50, rng)
    assert min(tiny) > 0
    assert sum(tiny) == pytest.approx(50)
    assert max(scattered(Gamma(1e-4), [1e30] * 50, rng)) <= 1e30


def with_totals(chance, seed=0):
    """An experiment whose propensities changed between two asks; the rewards of both are told as one total of each arm."""
    experiment = created("sqlite://", arms=["A", "B"], model="conversions", batching="external", floor=0.05, seed=seed)
    first = experiment.ask(400).decisions
    rates = {"A": 0.3, "B": 0.5}
    experiment.tell([(d.id, float(chance.random() < rates[d.arm])) for d in first[:200]])
    experiment.refresh()
    mine = [*first[200:], *experiment.ask(600).decisions]
    for label, rate in rates.items():
        count = sum(d.arm == label for d in mine)
        total = float(chance.binomial(count, rate))
        told = experiment.tell_aggregate(label, count, total=total, request_id=label)
        rewards = table_of(experiment).rewards
        assert experiment.tell_aggregate(label, count, total=total, request_id=label) == told
        assert np.array_equal(table_of(experiment).rewards, rewards, equal_nan=True)
    return experiment


def by_arm(experiment):
    """Of the decisions that were settled by totals, inverse propensities and rewards, arm by arm."""
    table = table_of(experiment)
    own = table.p[np.arange(len(table.arms)), table.arms]
    return [(1 / own[some], table.rewards[some]) for k in (0, 1) for some in [np.flatnonzero(table.arms[200:] == k) + 200]]


def test_inverse_propensities_of_totals(monkeypatch):
    chance = np.random.default_rng(4)
    pairs = [pair for seed in range(3) for pair in by_arm(with_totals(chance, seed))]
    assert all(np.ptp(weights) > 0.1 for weights, _ in pairs)
    assert abs(weighted_z(pairs[::2])) < 4
    assert abs(weighted_z(pairs[1::2])) < 4
    monkeypatch.setattr("blts.live.aggregate.scattered", oldest_first)
    pairs = [pair for seed in range(3) for pair in by_arm(with_totals(chance, seed))]
    assert weighted_z(pairs[::2]) < -4  # the arm that was played less and less
    assert weighted_z(pairs[1::2]) > 4


def test_totals_are_scattered_the_same_way_where_all_is_repeated():
    a, b = (with_totals(np.random.default_rng(5)) for _ in range(2))
    assert np.array_equal(table_of(a).rewards, table_of(b).rewards)
    assert a.refresh().in_use
    assert a.verify() == []


def recent_rate():
    """The mean reward that a policy learns from which forgets all but the last twelve of 24 hours, of which there is one total."""
    clock, rng = Hand(), np.random.default_rng(6)
    settings = {"arms": ["A", "B"], "model": "conversions", "batching": "external", "floor": 0.2, "forget": "12h", "clock": clock}
    experiment = created("sqlite://", **settings)
    count = dict.fromkeys("AB", 0)
    for _ in range(24):
        for decision in experiment.ask(50).decisions:
            count[decision.arm] += 1
        clock.now += 3600
    for label in "AB":
        experiment.tell_aggregate(label, count[label], total=float(rng.binomial(count[label], 0.3)), request_id=label)
    assert experiment.refresh().in_use
    assert experiment.verify() == []
    with experiment.database.read() as c:
        row = experiment.session.row(c)
        known = Fold(experiment.session.id).until(c, row.position, row.t).rows(False, None, clock.now - 12 * 3600)
    assert len(known.rewards) == 600
    return known.rewards.mean()


def test_what_is_forgotten_of_a_total(monkeypatch):
    assert abs(recent_rate() - 0.3) < 4 * math.sqrt(0.3 * 0.7 / 600)
    monkeypatch.setattr("blts.live.aggregate.scattered", oldest_first)
    assert recent_rate() < 0.05
