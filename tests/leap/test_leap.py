"""Runs of the leap engine against those of the step engine, in law, and what can leap."""

from __future__ import annotations

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend import core
from scipy import stats

import blts
from blts import (
    Bandit,
    Bernoulli,
    DoublingCounts,
    Exact,
    Fixed,
    Gaussian,
    Perturb,
    Sequential,
    StaticDoubling,
    Thompson,
    _random,
    lanes,
    leap,
    sgld,
    simulate,
    ula,
)
from blts._random import as_key
from blts.batching import Geometric, OneOf
from blts.errors import ConfigError
from blts.leap import engine
from blts.models import Laplace
from blts.trace import Trace
from compiling import optimised
from laws import LEVEL
from leaps import same_law_p


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def simulated(*arguments, **settings) -> Trace:
    """As a user calls it, in single precision."""
    with jax.enable_x64(False):
        return simulate(*arguments, **settings)


# Whole runs

T, RUNS = 300, {"Gaussian": 6000, "Bernoulli": 2000}
TIMES = (1, 2, 5, 31, 60, 61, 150, T)
WORLDS = {
    "Gaussian": (
        Bandit.with_means(Gaussian(sd=1.0), [0.0, 0.4, 0.8, 1.0]),
        Gaussian(prior_mean=[0.5, 0.0, 0.5, 0.2], prior_sd=1.0),
    ),
    "Bernoulli": (Bandit.with_means(Bernoulli(), [0.2, 0.35, 0.5, 0.55]), Bernoulli(a=[1.0, 2.0, 1.0, 1.0], b=1.5)),
}
BATCHING = {"dynamic": 0, "static": 1, "fixed": 2}


def one_of(batching: str) -> OneOf:
    """The three schemes as one program."""
    return OneOf((DoublingCounts(), StaticDoubling(), Fixed(40)), BATCHING[batching])


def run_of(world: str, batching: str, how: str, seed: int) -> Trace:
    env, model = WORLDS[world]
    settings = {"horizon": T, "replications": RUNS[world], "times": TIMES, "threads": 1, "engine": how}
    with optimised():
        return simulated(seed, env, Thompson(model, Exact()), one_of(batching), **settings)


run_of = cache(run_of)


def p_values(a: Trace, b: Trace) -> dict[str, float]:
    # The engines add the same few gaps in two precisions; what rounding makes of ties is not a law.
    regret = [np.round(np.asarray(trace.regret, float), 3) for trace in (a, b)]
    out = {f"regret at {t}": stats.ks_2samp(regret[0][:, i], regret[1][:, i]).pvalue for i, t in enumerate(TIMES)}
    out |= {f"plays of {arm}": same_law_p(a.plays[:, arm], b.plays[:, arm]) for arm in range(a.plays.shape[1])}
    out |= {"batches": same_law_p(a.batches, b.batches), "first end": same_law_p(a.ends[:, 0], b.ends[:, 0])}
    out |= {"third end": same_law_p(a.ends[:, 2], b.ends[:, 2])}
    out |= {"reward": stats.ks_2samp(a.mean_reward, b.mean_reward).pvalue}
    out |= {"best": stats.ks_2samp(np.rint(T * a.best_share), np.rint(T * b.best_share)).pvalue}
    return {name: float(p) for name, p in out.items()}


@pytest.mark.parametrize(
    ("world", "batching"), [*(("Gaussian", name) for name in BATCHING), ("Bernoulli", "dynamic"), ("Bernoulli", "static")]
)
def test_both_engines_have_one_law(world, batching):
    found = p_values(run_of(world, batching, "leap", 1), run_of(world, batching, "step", 2))
    assert min(found.values()) > LEVEL, found


@pytest.mark.parametrize("batching", BATCHING)
def test_a_leap_plays_every_round_and_records_what_it_played(batching):
    trace = run_of("Gaussian", batching, "leap", 1)
    gaps = np.array([1.0, 0.6, 0.2, 0.0])
    assert (trace.plays.sum(1) == T).all()
    np.testing.assert_allclose(trace.final_regret, trace.plays @ gaps, rtol=1e-6)
    np.testing.assert_allclose(trace.best_share, trace.plays[:, 3] / T)
    assert (np.diff(trace.regret, axis=1) >= 0).all()
    assert ((trace.ends > 0).sum(1) == trace.batches).all()
    if batching == "static":
        assert trace.ends[0].tolist() == [1, 3, 7, 15, 31, 63, 127, 255]
    if batching == "dynamic":
        assert (trace.batches == np.floor(np.log2(np.maximum(trace.plays, 0.5)) + 1).sum(1)).all()
    assert (trace.diagnostics.refreshes == (trace.ends[:, : trace.ends.shape[1]] % T > 0).sum(1)).all()


def test_a_point_inside_a_batch_is_not_taken_from_its_beginning():
    """The mutant: regret at round 60 as it was at round 31, where its static batch began."""
    leap, step = run_of("Gaussian", "static", "leap", 1), run_of("Gaussian", "static", "step", 2)
    assert stats.ks_2samp(leap.regret[:, 3], step.regret[:, 4]).pvalue < LEVEL


def test_other_batches_are_found():
    """The mutant: batches of 40 rounds in place of those that double, the same arms and rewards."""
    found = p_values(run_of("Gaussian", "fixed", "leap", 1), run_of("Gaussian", "static", "step", 2))
    assert all(found[name] < LEVEL for name in ("batches", "regret at 300", "reward", "plays of 3"))


def test_a_replication_does_not_depend_on_its_company():
    env, model = WORLDS["Gaussian"]
    run = partial(simulated, 1, env, Thompson(model, Exact()), one_of("dynamic"), horizon=T, times=TIMES, engine="leap")
    whole = run(replications=96, threads=1)
    parts = [run(replications=96, threads=2), run(replications=96, chunk=48), run(replications=48, first=48, threads=1)]
    for part in parts:
        for name in ("regret", "plays", "ends", "batches", "mean_reward"):
            mine, all_of_it = getattr(part, name), getattr(whole, name)[-part.replications :]
            width = min(mine.shape[-1], all_of_it.shape[-1])
            np.testing.assert_array_equal(mine[..., :width], all_of_it[..., :width])
    np.testing.assert_array_equal(whole.plays, run_of("Gaussian", "dynamic", "leap", 1).plays[:96])


def test_blocks_of_another_size_give_the_same_numbers(monkeypatch):
    """As on an accelerator, which takes larger ones."""
    env, model = WORLDS["Gaussian"]
    arguments = (as_key(1), env, Thompson(model, Exact()), one_of("dynamic"), np.asarray(TIMES, np.int32), np.int32(0))
    run = lambda: jax.jit(partial(engine.run, horizon=T, replications=80, keep_actions=False))(*arguments)  # noqa: E731
    ours = run()
    monkeypatch.setattr(engine, "on_cpu", lambda: False)
    for mine, theirs in zip(jax.tree.leaves(ours), jax.tree.leaves(run()), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12)


def test_the_whole_numbers_of_a_leap_are_those_of_single_precision():
    """A call in single precision gets them on an accelerator, and takes them apart there; warnings are errors here."""
    env, model = WORLDS["Gaussian"]
    arguments = (as_key(1), env, Thompson(model, Exact()), one_of("dynamic"), np.asarray(TIMES, np.int32), np.int32(0))
    with jax.enable_x64(False):
        record = leap.run(*arguments, np.int32(T), capacity=T, replications=48, keep_actions=False)
        whole = [x for x in jax.tree.leaves(record) if jnp.issubdtype(x.dtype, jnp.integer)]
        assert len(whole) >= 4
        assert {x.dtype.name for x in whole} == {"int32"}
        assert int(record.batches.max()) == int(record.ends[: int(record.batches.max())].astype(bool).sum(0).max())


# Kernels


def generators_in_a_row(f, *arguments) -> int:
    """The longest chain of generators, each of words from the one before, that no optimization barrier takes apart."""
    depth: dict = {}
    for eqn in lanes.Program.of(f, *arguments).jaxpr.eqns:  # calls inlined, which JAX 0.11 leaves to the compiler
        before = max((depth.get(v, 0) for v in eqn.invars if not isinstance(v, core.Literal)), default=0)
        is_generator = eqn.params.get("name") == _random.threefry.__name__
        depth |= dict.fromkeys(eqn.outvars, 0 if eqn.primitive.name == "optimization_barrier" else before + is_generator)
    return max(depth.values())


def test_no_kernel_can_have_a_generator_of_a_generator():
    """Where LLVM's vectoriser follows every path through a kernel, as in JAX 0.11, one with two would take minutes to compile."""

    def drawn(words, what=lambda words: words):
        key = _random._split(_random._fold_in(words, 1), (4,))[2]
        return _random._block(what(key), np.uint32(0))

    words = jax.random.key_data(as_key(0))
    assert generators_in_a_row(drawn, words) == 1
    # The mutant: words of words, which are not made keys.
    assert (
        generators_in_a_row(partial(drawn, what=lambda words: jnp.stack([*_random._block(words, np.uint32(1)), *words[2:]])), words)
        == 2
    )


# What can leap

GAUSSIAN = WORLDS["Gaussian"][0]
EXACT = Thompson(WORLDS["Gaussian"][1], Exact())


@pytest.mark.parametrize(
    ("env", "agent", "batching", "keep", "why"),
    [
        (GAUSSIAN, EXACT, DoublingCounts(), True, "keep_actions"),
        (GAUSSIAN, blts.UCB1(4), DoublingCounts(), False, "UCB1 has no closed probabilities"),
        (GAUSSIAN, Thompson(EXACT.model, Perturb(sgld())), DoublingCounts(), False, "every single reward"),
        (GAUSSIAN, EXACT, Geometric(), False, "Geometric does not say"),
        (GAUSSIAN, EXACT, OneOf((Sequential(), Geometric()), 0), False, "Geometric does not say"),
        (Bandit.with_means(Laplace(), [0.0] * 4), EXACT, DoublingCounts(), False, "sum of Laplace rewards"),
        (WORLDS["Bernoulli"][0], EXACT, DoublingCounts(), False, "give both the same model"),
        (WORLDS["Bernoulli"][0], Thompson(WORLDS["Bernoulli"][1], Perturb(ula())), DoublingCounts(), False, "not closed"),
    ],
)
def test_what_cannot_leap_says_why(env, agent, batching, keep, why):
    settings = {"horizon": 10**7, "points": 100, "keep_actions": keep}
    with pytest.raises(ConfigError, match=why):
        leap.choose("leap", env, agent, batching, **settings)
    assert leap.choose("auto", env, agent, batching, **settings) == "step"


@pytest.mark.parametrize(
    ("horizon", "points", "batching", "best"),
    [
        (650, 100, DoublingCounts(), "step"),
        (10**7, 100, DoublingCounts(), "leap"),
        (10**7, 100, StaticDoubling(), "leap"),
        (10**7, 10**7, DoublingCounts(), "step"),
        (10**7, 100, Sequential(), "step"),
        (10**7, 100, Fixed(50), "step"),
        (10**5, 100, DoublingCounts(), "step"),
    ],
)
def test_the_engine_depends_on_the_condition_alone(horizon, points, batching, best):
    settings = {"horizon": horizon, "points": points, "keep_actions": False}
    assert leap.choose("auto", GAUSSIAN, EXACT, batching, **settings) == best
    assert leap.choose("step", GAUSSIAN, EXACT, batching, **settings) == "step"


def test_an_engine_has_a_name_and_a_horizon_an_end():
    settings = {"points": 1, "keep_actions": False}
    with pytest.raises(ConfigError, match="engine must be one of 'auto', 'step', 'leap'"):
        leap.choose("jump", GAUSSIAN, EXACT, DoublingCounts(), horizon=10, **settings)
    with pytest.raises(ConfigError, match="at most 2147483647"):
        leap.choose("leap", GAUSSIAN, EXACT, DoublingCounts(), horizon=2**31, **settings)


def test_chains_on_summaries_leap_too():
    trace = simulated(
        0, GAUSSIAN, Thompson(EXACT.model, Perturb(ula())), DoublingCounts(), horizon=1000, replications=20, times=5, engine="leap"
    )
    assert (trace.plays.sum(1) == 1000).all()
    assert trace.diagnostics.finite.all()


def test_a_study_says_which_engine_its_numbers_come_from():
    """Conditions that say nothing keep the address that they had before there were two."""
    from blts.studies.tasks.simulate import Simulate

    condition = {"env": "gaussian", "agent": "exact-ts", "batching": "dynamic", "horizon": 50}
    plain, leaping = Simulate().normal(condition), Simulate().normal(condition | {"engine": "leap"})
    assert "engine" not in plain
    assert Simulate().normal(condition | {"engine": "step"}) == plain
    assert leaping == plain | {"engine": "leap"}
    with pytest.raises(ConfigError, match='engine must be "step" or "leap"'):
        Simulate().normal(condition | {"engine": "auto"})
