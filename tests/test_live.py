"""Live experiments: the same decisions as a simulation, every reward once, and a ledger that proves itself."""

from __future__ import annotations

import itertools
import json
import math
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blts import _random, from_json, loop, registry, simulate, to_json
from blts._module import module
from blts._typing import Row
from blts.agents import UCB1, Exact, Perturb, Pool, Thompson
from blts.batching import DoublingCounts, Fixed, Geometric, Sequential, StaticDoubling
from blts.declared import provides
from blts.envs import Bandit
from blts.errors import BltsError, ConfigError, StoreError, UnknownName
from blts.live import Experiment, Spec, ledger, policy, schema, store
from blts.live.aggregate import NEEDS
from blts.live.aggregate import rows as rows_of_totals
from blts.live.checks import outside
from blts.live.export import table_of
from blts.live.figures import draw
from blts.models import (
    Bernoulli,
    Exponential,
    Gamma,
    Gaussian,
    GaussianUnknownVariance,
    Laplace,
    LogNormal,
    Model,
    Poisson,
    ZeroInflatedLogNormal,
)
from blts.models.custom import from_functions, from_numpyro
from blts.samplers import mala, sgld, ula

LABELS = ("A", "B", "C")
WORLD = Bandit.with_means(Gaussian(sd=0.5), (0.0, 0.4, 0.8))
PRIOR = Gaussian(prior_mean=[0.0, 0.1, 0.2], prior_sd=1.0, sd=0.5)


class Hand:
    """A clock that is set by hand."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def created(url, name="mail", **options) -> Experiment:
    defaults = {"arms": LABELS, "model": "gaussian", "sampler": "exact", "batching": {"name": "fixed", "size": 6}}
    return Experiment.create(url, name, **defaults | options)


def made(tmp_path, name="mail", **options) -> Experiment:
    return created(tmp_path / "blts.db", name, **options)


def rewarded(answer, value=1.0):
    return [(decision.id, value) for decision in answer.decisions]


# Live equals simulated


@jax.jit
def reward_of(key, t, action):
    """What the simulated world pays in round t."""
    replication = _random.fold_in(key, 0)
    state, _ = WORLD.reset(_random.split(_random.fold_in(replication, 0))[0])
    _, step = WORLD.step(_random.round_key(replication, _random.Round.of(t), _random.ENV), state, action)
    return step.reward


def simulated(agent, batching, horizon: int, seed: int) -> list[int]:
    trace = simulate(seed, WORLD, agent, batching, horizon=horizon, replications=1, keep_actions=True)
    assert trace.actions is not None
    return np.asarray(trace.actions[0]).tolist()


def lived(experiment: Experiment, horizon: int, seed: int) -> list[int]:
    """The arms of a live experiment that is paid by the simulated world, its rewards told backwards."""
    key, played = _random.as_key(seed), []
    while len(played) < horizon:
        answer = experiment.ask(min(7, horizon - len(played)))
        told = []
        for decision in answer.decisions:
            played.append(LABELS.index(decision.arm))
            told.append((decision.id, float(reward_of(key, len(played), played[-1]))))
        experiment.tell(told[::-1])
        if answer.feedback_due:
            assert experiment.refresh().in_use
    return played


SGLD = Perturb(sgld(0.1, 10, 8))
AGENTS = {"exact": (Exact(), Thompson(PRIOR, Exact())), "blts": (SGLD, Thompson(PRIOR, SGLD)), "ucb1": (UCB1(3), UCB1(3))}
SCHEMES = {
    "sequential": (Sequential(), 12),
    "static": (StaticDoubling(), 63),
    "dynamic": (DoublingCounts(), 60),
    "fixed": (Fixed(9), 50),
}
DEFAULT = {("exact", "dynamic"), ("exact", "fixed"), ("blts", "dynamic"), ("ucb1", "static")}


@pytest.mark.parametrize(
    ("agent", "scheme"),
    [pytest.param(a, s, marks=[] if (a, s) in DEFAULT else pytest.mark.slow) for a in AGENTS for s in SCHEMES],
)
def test_live_equals_simulated(tmp_path, agent, scheme):
    """Fed a simulation's rewards, an experiment makes its decisions, whatever the order in which they are told."""
    (sampler, player), (batching, horizon), seed = AGENTS[agent], SCHEMES[scheme], 5
    experiment = made(tmp_path, model=PRIOR, sampler=sampler, batching=batching, seed=seed)
    assert lived(experiment, horizon, seed) == simulated(player, batching, horizon, seed)
    assert experiment.verify() == []


def test_live_equals_simulated_without_a_closed_law(tmp_path):
    """Where propensities can only be estimated, `draw="agent"` makes the simulation's decisions, and "auto" does not."""
    pool, seed = Pool(ula(0.1, 5), 8), 5
    settings = {"model": PRIOR, "sampler": pool, "batching": Fixed(9), "seed": seed, "rhat": 1e30}  # five steps do not mix
    same = made(tmp_path, draw="agent", **settings)
    player = simulated(Thompson(PRIOR, pool), Fixed(9), 27, seed)
    assert lived(same, 27, seed) == player
    assert same.verify() == []
    other = made(tmp_path, "other", **settings)
    assert lived(other, 27, seed) != player


def test_live_with_another_seed_is_another_experiment(tmp_path):
    """The mutant of the test above."""
    experiment = made(tmp_path, model=PRIOR, sampler=Exact(), batching=Fixed(9), seed=6)
    assert lived(experiment, 50, 5) != simulated(AGENTS["exact"][1], Fixed(9), 50, 5)


def test_keys_are_those_of_the_loop():
    assert policy.LAST == loop.LAST


# Asking


def test_decisions_are_stored_and_numbered(tmp_path):
    experiment = made(tmp_path)
    answer = experiment.ask(4)
    assert not answer.feedback_due
    assert answer.why is None
    assert [d.id.split("-")[1] for d in answer.decisions] == ["1", "2", "3", "4"]
    assert {d.batch for d in answer.decisions} == {d.policy for d in answer.decisions} == {1}
    for decision in answer.decisions:
        assert set(decision.propensities) == set(LABELS)
        assert sum(decision.propensities.values()) == pytest.approx(1, abs=1e-6)
    cut = experiment.ask(10)
    assert len(cut.decisions) == 2
    assert cut.feedback_due
    assert cut.awaited == 6
    assert cut.why == "batch 1 is closed and awaits 6 rewards"
    assert experiment.ask(1).decisions == ()


def test_the_same_request_has_the_same_answer(tmp_path):
    experiment = made(tmp_path)
    first = experiment.ask(3, request_id="r1")
    assert experiment.ask(3, request_id="r1").decisions == first.decisions
    assert Experiment.open(tmp_path / "blts.db", "mail").ask(3, request_id="r1").decisions == first.decisions
    assert experiment.ask(3, request_id="r2").decisions != first.decisions
    with pytest.raises(ConfigError, match="something else"):
        experiment.ask(4, request_id="r1")
    told = experiment.tell(rewarded(first), request_id="t1")
    assert experiment.tell(rewarded(first), request_id="t1") == told
    assert told.accepted == 3
    with pytest.raises(ConfigError, match="something else"):
        experiment.tell(rewarded(first, 2.0), request_id="t1")


def test_chunks_are_the_whole(tmp_path):
    """Decisions do not depend on how many are asked for at once."""
    whole = made(tmp_path, "whole", batching="external").ask(40)
    parts = made(tmp_path, "parts", batching="external")
    arms = [d.arm for n in (1, 16, 3, 20) for d in parts.ask(n).decisions]
    assert arms == [d.arm for d in whole.decisions]


def test_more_than_the_largest_chunk(tmp_path, monkeypatch):
    monkeypatch.setattr(policy, "LARGEST", 16)
    answer = made(tmp_path, batching="external").ask(40)
    assert len(answer.decisions) == 40
    monkeypatch.undo()
    again = made(tmp_path, "again", batching="external").ask(40)
    assert [d.arm for d in again.decisions] == [d.arm for d in answer.decisions]


@pytest.mark.parametrize("n", [0, -1, 1.5, "3", True, None, 10**7])
def test_bad_numbers_of_decisions_are_refused(tmp_path, n):
    with pytest.raises(ConfigError, match="n must be a whole number"):
        made(tmp_path).ask(n)


def test_batching_that_tosses_coins_keeps_its_key(tmp_path):
    experiment = made(tmp_path, batching=Geometric(0.2))
    sizes = []
    for _ in range(5):
        answer = Experiment.open(tmp_path / "blts.db", "mail").ask(100)
        sizes.append(len(answer.decisions))
        experiment.tell(rewarded(answer))
        experiment.refresh()
    state = Geometric(0.2).init(_random.fold_in(policy.root_key(0), policy.LAST), 3)
    ends = []
    for t in range(1, sum(sizes) + 1):
        state, due = Geometric(0.2).step(state, (), jnp.asarray(0))
        ends += [t] * bool(due)
    assert ends == np.cumsum(sizes).tolist()
    assert experiment.verify() == []


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
    assert experiment.correct(ids[1], 2.0)  # it was exposed after all
    assert experiment.verify() == []
    assert [e["what"] for e in experiment.audit()][-3:] == ["tell", "refresh", "correct"]


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
    assert experiment.refresh().why == "batch 1 awaits 2 rewards"
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
    logs = [math.log(r) for r in rewards if r > 0]
    every = {
        "total": float(sum(rewards)),
        "total_of_squares": sum(r * r for r in rewards),
        "positive": len(logs),
        "total_of_logs": sum(logs),
        "total_of_squared_logs": sum(x * x for x in logs),
    }
    totals = {name: every[name] for name in NEEDS[type(model)]}
    again = rows_of_totals(model, len(rewards), totals)
    assert len(again) == len(rewards)
    assert posterior(model, again) == pytest.approx(posterior(model, rewards), rel=1e-4)
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


# Refreshing


def test_a_refresh_waits_for_its_batch(tmp_path):
    experiment = made(tmp_path)
    assert experiment.refresh().why == "batch 1 is still open after 0 decisions"
    answer = experiment.ask(6)
    assert experiment.refresh().why == "batch 1 awaits 6 rewards"
    experiment.tell(rewarded(answer))
    done = experiment.refresh()
    assert done[:4] == (True, 2, True, 2)
    entry = experiment.policy(2)
    assert entry["watermark"] == 2 + 1 + 6 + 1
    assert entry["seed"] == 0
    assert sum(entry["n"].values()) == 6
    assert {"blts", "jax", "numpy"} <= entry["versions"].keys()
    with pytest.raises(ConfigError, match="no policy version 9"):
        experiment.policy(9)


def test_a_refresh_that_fails_is_kept_out_of_use(tmp_path):
    experiment = made(tmp_path, model={"name": "gaussian-unknown-variance"}, batching={"name": "fixed", "size": 8})
    answer = experiment.ask(8)
    experiment.tell([(d.id, (-1) ** i * 1e30) for i, d in enumerate(answer.decisions)])  # squares overflow
    done = experiment.refresh()
    assert done.refreshed
    assert not done.in_use
    assert "version 2 is kept out of use: the posterior is not finite" in done.why
    assert experiment.status()["policy"] == 1
    assert experiment.status()["last_refresh_failed"] == ["the posterior is not finite"]
    after = experiment.ask(8)  # the old policy goes on
    assert {d.policy for d in after.decisions} == {1}
    assert {d.batch for d in after.decisions} == {2}
    for decision in answer.decisions:
        experiment.correct(decision.id, 1.0)
    experiment.tell(rewarded(after))
    assert experiment.refresh().in_use
    assert experiment.status()["policy"] == 3
    assert experiment.verify() == []


def test_chains_that_disagree_are_kept_out_of_use(tmp_path):
    """R-hat is looked at where there is one: two steps from a wide prior do not mix."""
    wide = {"model": Gaussian(prior_sd=100.0), "sampler": Pool(mala(0.01, 4), 8)}
    experiment = made(tmp_path, **wide)
    experiment.tell(rewarded(experiment.ask(6)))
    done = experiment.refresh()
    assert not done.in_use
    assert "R-hat" in done.why
    lenient = made(tmp_path, "lenient", rhat=1e30, **wide)
    lenient.tell(rewarded(lenient.ask(6)))
    assert lenient.refresh().in_use


def test_external_batches_refresh_when_told(tmp_path):
    experiment = made(tmp_path, batching="external")
    answer = experiment.ask(20)
    assert len(answer.decisions) == 20
    assert not answer.feedback_due
    experiment.tell(rewarded(answer)[:5])
    assert experiment.status()["policy"] == 2
    experiment.tell(rewarded(answer)[:5])  # nothing new
    assert experiment.status()["policy"] == 2
    experiment.tell(rewarded(answer))
    assert experiment.status()["policy"] == 3
    assert experiment.ask(1).decisions[0].policy == 3
    assert "outside the theorem" in experiment.report()["outside_theory"]
    assert experiment.verify() == []


def test_refreshes_at_one_decision_have_keys_of_their_own(tmp_path):
    experiment = made(tmp_path, sampler=SGLD, model=PRIOR)
    experiment.tell(rewarded(experiment.ask(6)))
    thetas = []
    for _ in range(3):
        experiment.refresh(force=True)
        thetas.append(json.dumps(experiment.policy()["theta"]))
    assert len(set(thetas)) == 3
    assert experiment.verify() == []


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["exact", "blts"])
def test_revenue_from_the_first_decision_to_the_report(tmp_path, sampler):
    """Zero-inflated log-normal rewards: zeros, a heavy tail whose posterior mean may be infinite, and no closed law."""
    experiment = made(tmp_path, model="zero-inflated-log-normal", sampler=sampler, batching={"name": "fixed", "size": 40}, cap=50.0)
    rng, pays = np.random.default_rng(2), {"A": 0.2, "B": 0.8, "C": 0.2}
    for batch in range(3):
        decisions = experiment.ask(40).decisions
        assert sum(decisions[0].propensities.values()) == pytest.approx(1, abs=1e-5)
        amounts = np.where(rng.random(40) < [pays[d.arm] for d in decisions], rng.lognormal(1.0, 0.5, 40), 0.0)
        told = experiment.tell([(d.id, float(x)) for d, x in zip(decisions, amounts, strict=True)])
        assert told.accepted == 40
        assert experiment.tell([(decisions[0].id, -1.0)]).invalid == 1
        assert experiment.refresh().in_use, batch
    report = experiment.report()
    arms = {arm["arm"]: arm for arm in report["arms"]}
    assert max(arms, key=lambda label: arms[label]["p_best"]) == "B"
    for arm in arms.values():  # a mean of exp(1 + 0.5²/2) where somebody pays
        assert 0 < arm["posterior_low"] < arm["posterior_high"]
    mean = 0.8 * math.exp(1.125)
    assert arms["B"]["posterior_low"] < mean < arms["B"]["posterior_high"]
    assert arms["B"]["aipw"]["low"] < mean < arms["B"]["aipw"]["high"]
    assert not report["sample_ratio"]["alarm"]
    assert [path.name for path in draw(experiment, tmp_path)] == ["allocation.svg", "posterior.svg", "rewards.svg"]
    assert experiment.export(tmp_path / "x.csv") == 120
    assert experiment.verify() == []
    assert Experiment.open(tmp_path / "blts.db", "mail").verify() == []


# Arms, floors, burn-in


@pytest.mark.parametrize("sampler", [Exact(), pytest.param(SGLD, marks=pytest.mark.slow)], ids=["exact", "sgld"])
def test_arms_come_and_go(tmp_path, sampler):
    experiment = made(tmp_path, sampler=sampler, batching="dynamic", model=Gaussian(sd=0.5))
    for _ in range(4):
        experiment.tell(rewarded(experiment.ask(20)))
        experiment.refresh()
    theta = experiment.policy()["theta"]
    assert experiment.add_arm("D", {"colour": "red"}, prior_mean=3.0) == experiment.status()["policy"]
    if theta is not None:
        assert {k: v for k, v in experiment.policy()["theta"].items() if k != "D"} == theta
    answer = experiment.ask(20)
    assert answer.decisions[0].propensities["D"] > 0.5  # its prior is far above the others
    experiment.tell(rewarded(answer))
    experiment.refresh()
    experiment.retire_arm("B", "broken")
    for _ in range(3):
        answer = experiment.ask(20)
        assert all(d.arm != "B" and d.propensities["B"] == 0 for d in answer.decisions)
        experiment.tell(rewarded(answer))
        experiment.refresh()
    assert experiment.status()["active"] == ["A", "C", "D"]
    assert experiment.verify() == []
    again = Experiment.open(tmp_path / "blts.db", "mail")
    assert again.verify() == []
    for wrong in (
        lambda: experiment.add_arm("A"),
        lambda: experiment.retire_arm("B"),
        lambda: experiment.add_arm("E", nothing=3.0),
    ):
        with pytest.raises(BltsError):
            wrong()
    experiment.retire_arm("A")
    experiment.retire_arm("C")
    with pytest.raises(ConfigError, match="last active arm"):
        experiment.retire_arm("D")


def test_an_arm_of_a_model_with_numbers_for_each_needs_its_own(tmp_path):
    experiment = made(tmp_path, model=PRIOR)
    with pytest.raises(ConfigError, match="The model has a prior_mean for each arm; give prior_mean for the arm 'D' too"):
        experiment.add_arm("D")
    experiment.add_arm("D", prior_mean=0.3)
    assert len(experiment.ask(3).decisions) == 3


def test_index_agents_have_propensities_of_0_and_1(tmp_path):
    experiment = made(tmp_path, sampler="ucb1")
    answer = experiment.ask(6)
    for decision in answer.decisions:
        assert decision.propensities[decision.arm] == 1
        assert sorted(decision.propensities.values()) == [0, 0, 1]
    experiment.tell(rewarded(answer))
    experiment.refresh()
    experiment.add_arm("D")
    assert experiment.ask(1).decisions[0].arm == "D"  # never played
    report = experiment.report()
    assert report["arms"][0]["ipw"]["value"] is None
    assert not report["sample_ratio"]["alarm"]
    assert experiment.verify() == []


def test_floors_and_control_share_are_added(tmp_path):
    floored = made(tmp_path, "floored", floor=0.05, control="B", control_share=0.2)
    plain = made(tmp_path, "plain")
    p = plain.ask(1).decisions[0].propensities
    q = floored.ask(1).decisions[0].propensities
    for label in LABELS:
        assert q[label] == pytest.approx(0.05 + 0.2 * (label == "B") + 0.65 * p[label], abs=1e-6)


def test_burn_in_gives_every_arm_its_units(tmp_path):
    experiment = made(tmp_path, model=Gaussian(prior_mean=[0.0, 5.0, 0.0]), burn_in=5, batching="external")
    decisions = experiment.ask(60).decisions
    counts = dict.fromkeys(LABELS, 0)
    for decision in decisions:
        lacking = [label for label in LABELS if counts[label] < 5]
        for label in lacking:
            assert decision.propensities[label] >= 1 / 3 - 1e-6
        counts[decision.arm] += 1
    assert min(counts.values()) >= 5
    assert decisions[-1].propensities["B"] > 0.99
    assert experiment.verify() == []


def test_pause_and_resume(tmp_path):
    experiment = made(tmp_path)
    answer = experiment.ask(2)
    experiment.pause("holiday")
    experiment.pause()
    assert experiment.ask(2)[0] == ()
    assert experiment.ask(2).why == "the experiment is paused"
    assert experiment.tell(rewarded(answer)).accepted == 2
    assert experiment.verify() == []
    experiment.resume()
    assert len(experiment.ask(2).decisions) == 2
    assert [e["what"] for e in experiment.audit()] == ["create", "ask", "pause", "tell", "resume", "ask"]
    assert experiment.verify() == []


# The ledger proves itself


def tamper(experiment, statement: str) -> None:
    """A change behind the library's back, with the database's own guard taken away first."""
    with experiment.store.engine.connect() as c:
        for table in schema.LEDGER:
            for action in ("update", "delete"):
                c.exec_driver_sql(f"DROP TRIGGER IF EXISTS {table.name}_no_{action}")
        c.exec_driver_sql(statement)
        c.commit()


TAMPERING = {
    "a reward": "UPDATE blts_rewards SET reward = 2 WHERE t = 3",
    "a reward that nothing was learned from yet": "UPDATE blts_rewards SET reward = 2 WHERE t = 8",
    "a reward gone": "DELETE FROM blts_rewards WHERE t = 3",
    "an arm": "UPDATE blts_decisions SET arm = (arm + 1) % 3 WHERE t = 2",
    "a decision gone": "DELETE FROM blts_decisions WHERE t = 8",
    "a vector": "UPDATE blts_vectors SET probabilities = '[0.5, 0.25, 0.25]'",
    "a policy": "UPDATE blts_policies SET law = (SELECT law FROM blts_policies WHERE version = 1) WHERE version = 2",
    "a count": "UPDATE blts_experiments SET awaited = awaited + 1",
    "a batch": "UPDATE blts_experiments SET batch = batch + 1",
    "a clock": "UPDATE blts_experiments SET clock = (SELECT replace(clock, '[[', '[[1') FROM blts_experiments)",
    "a pause": "UPDATE blts_experiments SET paused = 1",
    "an audit entry gone": "DELETE FROM blts_audit WHERE position = 3",
}


@pytest.mark.parametrize("what", TAMPERING)
def test_verify_finds_tampering(tmp_path, what):
    experiment = made(tmp_path)
    experiment.tell(rewarded(experiment.ask(6)))
    experiment.refresh()
    experiment.tell(rewarded(experiment.ask(4))[:3])
    assert experiment.verify() == []
    tamper(experiment, TAMPERING[what])
    assert Experiment.open(tmp_path / "blts.db", "mail").verify() != []


@pytest.mark.parametrize("table", [table.name for table in schema.LEDGER])
def test_the_database_refuses_to_change_the_ledger(tmp_path, table):
    experiment = made(tmp_path)
    experiment.tell(rewarded(experiment.ask(2, request_id="r")))
    for statement in (f"UPDATE {table} SET experiment = 5", f"DELETE FROM {table}"):
        with experiment.store.engine.connect() as c, pytest.raises(sa.exc.DatabaseError, match="append-only"):
            c.exec_driver_sql(statement)


# Databases


def test_other_schema_versions_are_refused_and_migrated(url, monkeypatch):
    created(url)

    def add_column(connection):
        connection.exec_driver_sql("ALTER TABLE blts_experiments ADD COLUMN note TEXT")

    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, add_column))
    with pytest.raises(StoreError, match="schema version 1 and this blts needs 2"):
        Experiment.open(url, "mail")
    assert store.Store.migrate(url) == (1, 2)
    assert store.Store.migrate(url) == (2, 2)
    experiment = Experiment.open(url, "mail")
    assert len(experiment.ask(2).decisions) == 2
    assert experiment.verify() == []
    monkeypatch.undo()
    with pytest.raises(StoreError, match="schema version 2 and this blts knows 1"):
        Experiment.open(url, "mail")
    with pytest.raises(StoreError, match="newer"):
        store.Store.migrate(url)


def test_a_migration_that_fails_changes_nothing(url, monkeypatch):
    created(url)

    def fail(connection):
        connection.exec_driver_sql("ALTER TABLE blts_experiments ADD COLUMN note TEXT")
        raise StoreError("This step fails.")

    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, fail))
    with pytest.raises(StoreError, match="This step fails"):
        store.Store.migrate(url)
    monkeypatch.undo()
    assert len(Experiment.open(url, "mail").ask(2).decisions) == 2


def test_places_that_cannot_be_used_are_refused(tmp_path, monkeypatch):
    with pytest.raises(StoreError, match="no database"):
        Experiment.open(tmp_path / "nothing.db", "mail")
    with pytest.raises(StoreError, match="no database"):
        store.Store.migrate(tmp_path / "nothing.db")
    assert not (tmp_path / "nothing.db").exists()
    with pytest.raises(StoreError, match="3 is not a database URL"):
        store.Store(3)  # type: ignore[arg-type]
    with pytest.raises(StoreError, match="SQLite or PostgreSQL"):
        store.Store("mysql://host/name")
    with pytest.raises(StoreError, match="not a database URL"):
        store.Store("sqlite://:x:/:")
    with pytest.raises(StoreError, match="cannot be used"):
        store.Store(tmp_path / "no" / "folder" / "x.db")
    (tmp_path / "text.db").write_text("This is no database, and long enough to be seen as such. " * 20)
    with pytest.raises(StoreError, match="cannot be used"):
        store.Store(tmp_path / "text.db")
    made(tmp_path)
    with pytest.raises(UnknownName, match="Did you mean 'mail'"):
        Experiment.open(tmp_path / "blts.db", "mial")
    monkeypatch.setenv("BLTS_DB", str(tmp_path / "blts.db"))
    assert Experiment.open(None, "mail").name == "mail"


def test_creating_twice_is_creating_once(tmp_path):
    first = made(tmp_path)
    first.ask(3)
    assert made(tmp_path).status()["decisions"] == 3
    with pytest.raises(ConfigError, match="another specification"):
        made(tmp_path, seed=1)


# Specifications


def test_specifications_from_files(tmp_path):
    toml = tmp_path / "spec.toml"
    toml.write_text(
        'arms = ["A", "B"]\nsampler = "exact"\nseed = 7\nfloor = 0.01\n[model]\nname = "gaussian"\nprior_mean = [0.0, 1.0]\n'
        '[batching]\nname = "fixed"\nsize = 5\n'
    )
    spec = Spec.read(toml)
    assert spec.batching.options == {"size": 5}
    assert Spec.from_json(spec.to_json()).to_json() == spec.to_json()
    other = tmp_path / "spec.json"
    other.write_text(json.dumps({"arms": [{"label": "A", "metadata": {"cost": 2}}, {"label": "B"}], "model": "bernoulli"}))
    assert Spec.read(other).arms[0].metadata == {"cost": 2}
    experiment = Experiment.create(tmp_path / "x.db", "x", spec=spec)
    assert len(experiment.ask(9).decisions) == 5
    for text in ("arms = [", "[1, 2]", '{"arms": ["A"]}', '{"arms": ["A"], "model": "gaussian", "colour": 3}'):
        wrong = tmp_path / ("wrong.toml" if text.startswith("arms") else "wrong.json")
        wrong.write_text(text)
        with pytest.raises(ConfigError):
            Spec.read(wrong)
    with pytest.raises(ConfigError, match="cannot be read"):
        Spec.read(tmp_path / "nowhere.toml")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"arms": []}, "between 1 and"),
        ({"arms": "ABC"}, "list of labels"),
        ({"arms": ["A", "A"]}, "given twice"),
        ({"arms": ["A", ""]}, "not empty"),
        ({"arms": ["A", "\x00"]}, "NUL"),
        ({"arms": ["A", "\ud800"]}, "surrogates"),
        ({"arms": ["A", 3]}, "must be text"),
        ({"model": "gausian"}, "Did you mean 'gaussian'"),
        ({"model": {"name": "gaussian", "sdd": 1.0}}, "no option 'sdd'"),
        ({"model": {"name": "gaussian", "sd": -1.0}}, "must be > 0"),
        ({"model": {"name": "gaussian", "sd": "wide"}}, "number"),
        ({"model": PRIOR, "arms": ["A", "B"]}, "3 arms"),
        ({"model": 3}, "log_likelihood"),
        ({"model": Laplace()}, "conjugate"),
        ({"sampler": "tsde"}, "MDPs"),
        ({"sampler": 3}, "A sampler is"),
        ({"sampler": UCB1(2)}, "2 arms"),
        ({"batching": "sometimes"}, "no batching"),
        ({"batching": 3}, "The batching must be an object"),
        ({"batching": {"name": "external", "size": 3}}, "no options"),
        ({"seed": -1}, "seed"),
        ({"seed": 1.5}, "seed"),
        ({"floor": 0.5}, "leave nothing"),
        ({"floor": -0.1}, "probability"),
        ({"control": "Z"}, "none of the arms"),
        ({"burn_in": -1}, "burn_in"),
        ({"window": math.nan}, "window"),
        ({"default_reward": 1.0}, "attribution window"),
        ({"model": "bernoulli", "window": 1.0, "default_reward": 0.5}, "cannot occur"),
        ({"cap": math.inf}, "cap"),
        ({"draw": "lots"}, "draw must be"),
        ({"colour": 3}, "no setting 'colour'"),
    ],
)
def test_specifications_are_checked_before_anything_is_stored(tmp_path, change, words):
    with pytest.raises(BltsError, match=words):
        made(tmp_path, **change)
    assert not (tmp_path / "blts.db").exists()


def log_prior(theta):
    return -0.5 * (theta**2).sum()


def log_likelihood(theta, reward):
    return -0.5 * (reward - theta[0]) ** 2


def prior_draw(key):
    return _random.normal(key, (1,))


def test_models_made_of_functions_are_given_again(tmp_path):
    """No database holds a function; the same one is asked for at every opening."""
    model = from_functions(log_prior, log_likelihood, L=1.0, init=prior_draw)
    experiment = made(tmp_path, model=model, sampler="mala")
    experiment.ask(2)
    with pytest.raises(ConfigError, match="open it with model="):
        Experiment.open(tmp_path / "blts.db", "mail")
    with pytest.raises(ConfigError, match="this is Gaussian"):
        Experiment.open(tmp_path / "blts.db", "mail", model=Gaussian())
    assert len(Experiment.open(tmp_path / "blts.db", "mail", model=model).ask(2).decisions) == 2


@pytest.mark.parametrize("name", registry.entries("model"))
def test_every_model_has_a_name(name):
    """What is registered are the models themselves, with their own defaults, and their words survive JSON."""
    model = registry.build("model", name)
    assert provides(model, Model)
    own = Exponential() if name == "exponential" else type(model)()
    assert repr(model) == repr(own)
    assert repr(from_json(to_json(model))) == repr(model)
    assert outside(model, 1.0) is None


def test_any_label_goes(tmp_path):
    labels = ["Ä ß", "日本語", "🦊🐻", "'; DROP TABLE blts_arms; --", 'a,b\n"c"', "[bold]x[/]"]
    experiment = made(tmp_path, "n'am\"e; ✓", arms=labels, batching="external")
    answer = experiment.ask(30)
    assert set(answer.decisions[0].propensities) == set(labels)
    experiment.tell(rewarded(answer))
    assert experiment.export(tmp_path / "x.csv") == 30
    assert experiment.verify() == []


# Anything at all


ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.binary(max_size=3),
    st.lists(st.integers(), max_size=2),
    st.complex_numbers(),
)


def is_reward(x) -> bool:
    return isinstance(x, int | float) and -1e30 <= x <= 1e30


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_sequence_of_calls_is_answered_and_verifies(tmp_path_factory, data):
    check_any_calls(tmp_path_factory.mktemp("any") / "x.db", data)


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_any_sequence_of_calls_on_postgresql(url, data):
    check_any_calls(url, data)


NUMBERS = itertools.count()


def check_any_calls(url, data) -> None:
    """Random calls with random arguments against a plain dict; nothing but sentences is raised."""
    clock = Hand()
    text = st.text(min_size=1, max_size=20).filter(lambda s: s.strip() and "\x00" not in s and s.isprintable())
    experiment = Experiment.create(
        url,
        f"{data.draw(text)} {next(NUMBERS)}",
        LABELS,
        "gaussian",
        "exact",
        {"name": "fixed", "size": 5},
        window=10.0,
        default_reward=0.0,
        clock=clock,
    )
    ids: list[str] = []
    stands: dict[str, float] = {}
    final: set[str] = set()
    for _ in range(data.draw(st.integers(1, 8))):
        clock.now += data.draw(st.floats(-20, 20))
        match data.draw(st.sampled_from(["ask", "tell", "refresh", "correct", "cancel", "pause"])):
            case "ask":
                ids += [d.id for d in experiment.ask(data.draw(st.integers(1, 12))).decisions]
            case "tell":
                some = st.one_of(st.sampled_from(ids or ["x"]), ANYTHING)
                reward = st.one_of(st.floats(-10, 10), ANYTHING)
                rows = data.draw(st.lists(st.one_of(st.tuples(some, reward), ANYTHING), max_size=8))
                told = experiment.tell(rows)
                assert sum(told[:5]) == len(rows)
                assert sum(len(x) for x in told.ids.values()) == len(rows) - told.accepted
                for row in rows:
                    if isinstance(row, tuple) and row[0] in ids and row[0] not in final and is_reward(row[1]):
                        stands.setdefault(row[0], float(row[1]))
            case "refresh":
                experiment.refresh(force=data.draw(st.booleans()))
            case "correct" if ids:
                i = data.draw(st.sampled_from(ids))
                experiment.correct(i, 7.0)
                stands[i] = 7.0
                final.discard(i)
            case "cancel" if ids:
                i = data.draw(st.sampled_from(ids))
                experiment.cancel([i])
                stands.pop(i, None)
                final.add(i)
            case "pause":
                experiment.pause() if data.draw(st.booleans()) else experiment.resume()
    assert len(set(ids)) == len(ids) == experiment.status()["decisions"]
    table = table_of(experiment)
    for i, status, reward in zip(table.ids, table.status, table.rewards, strict=True):
        if i in stands:
            assert reward == stands[i]
        else:
            assert status in ("pending", "default", "cancelled")
    with experiment.store.read() as c:  # what was read on from refresh to refresh is what a fresh reading finds
        end = experiment.context.row(c).position
        standing = ledger.Fold(experiment.id).until(c, end).rows
        np.testing.assert_equal(experiment.context.fold.until(c, end).rows, standing)
    assert standing.rewards.tolist() == table.rewards[~np.isnan(table.rewards)].tolist()
    assert experiment.verify() == []
