"""`simulate`: equalities that must hold bit for bit, and a trace that agrees with itself."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from blts import (
    UCB1,
    Bandit,
    ConfigError,
    DoubledSinceSwitch,
    DoublingCounts,
    Env,
    Exact,
    Fixed,
    Gaussian,
    Grid,
    Perturb,
    Sequential,
    StaticDoubling,
    Step,
    Thompson,
    Trace,
    condition,
    sgld,
    simulate,
    statistics,
)
from blts.errors import MemoryNeeded
from blts.simulation import memory, programs

MEANS = np.array([0.0, 0.4, 0.7, 1.0])
ENV = Bandit.with_means(Gaussian(sd=0.5), MEANS)
MODEL = Gaussian(prior_mean=0.5, prior_sd=1.0, sd=0.5)
AGENTS = {
    "exact": Thompson(MODEL, Exact(), 4),
    "sgld": Thompson(MODEL, Perturb(sgld(steps=5, minibatch=8)), 4),
    "ucb1": UCB1(4),
}
HORIZON = 60


def run(agent="sgld", batching=None, *, seed=3, replications=6, **settings) -> Trace:
    chosen = AGENTS[agent] if isinstance(agent, str) else agent
    settings = {"horizon": HORIZON, "keep_actions": True} | settings
    return simulate(seed, ENV, chosen, batching or DoublingCounts(), replications=replications, **settings)


def arrays(trace: Trace) -> dict[str, np.ndarray]:
    fields = {f.name: getattr(trace, f.name) for f in dataclasses.fields(trace)}
    diagnostics = fields.pop("diagnostics")._asdict()
    return {name: value for name, value in (fields | diagnostics).items() if isinstance(value, np.ndarray)}


def same(a: Trace, b: Trace, *, but: tuple[str, ...] = ()) -> bool:
    """Bit for bit. The record of batch ends is as wide as the longest of its replications, so zeros are cut."""
    left, right = arrays(a), arrays(b)
    width = max(left["ends"].shape[1], right["ends"].shape[1])
    for part in (left, right):
        part["ends"] = np.pad(part["ends"], ((0, 0), (0, width - part["ends"].shape[1])))
    assert left.keys() == right.keys()
    return all(np.array_equal(left[name], right[name], equal_nan=left[name].dtype.kind == "f") for name in left if name not in but)


def rows(trace: Trace, which: slice) -> Trace:
    """Some replications of a trace."""
    cut = lambda x: x[which] if isinstance(x, np.ndarray) and x is not trace.times else x  # noqa: E731
    fields = {f.name: cut(getattr(trace, f.name)) for f in dataclasses.fields(trace) if f.name != "diagnostics"}
    return Trace(**fields, diagnostics=jax.tree.map(lambda x: x[which], trace.diagnostics))


# Equalities


@pytest.mark.parametrize("agent", AGENTS)
def test_chunked_is_whole(agent):
    whole = run(agent)
    assert same(run(agent, chunk=3), whole)
    assert not same(run(agent, seed=4), whole)  # the comparison can fail


@pytest.mark.parametrize("agent", AGENTS)
def test_a_later_first_is_the_tail(agent):
    whole = run(agent)
    assert same(run(agent, first=3, replications=3), rows(whole, slice(3, 6)))
    assert not same(run(agent, first=2, replications=3), rows(whole, slice(3, 6)))


@pytest.mark.parametrize("replications", [1, 3])
def test_a_replication_does_not_depend_on_the_others(replications):
    """Lanes wait for each other at the end of a batch; whom they wait for must not show."""
    assert same(run("sgld", replications=replications), rows(run("sgld"), slice(replications)))


@pytest.mark.parametrize("agent", [pytest.param(name, marks=pytest.mark.slow if name == "sgld" else ()) for name in AGENTS])
def test_fixed_of_one_is_sequential(agent):
    sequential = run(agent, Sequential())
    assert same(run(agent, Fixed(1)), sequential)
    if agent == "exact":
        assert not same(run(agent, Fixed(2)), sequential)


def test_a_seed_and_its_key_are_the_same():
    assert same(run("exact", seed=5), run("exact", seed=jax.random.key(5)))


@pytest.mark.parametrize("times", [8, [1, 2, 30], range(5, 61, 5)])
def test_a_thinned_trace_is_the_full_one_at_its_times(times):
    full, thin = run("exact"), run("exact", times=times)
    assert thin.times[-1] == HORIZON
    assert np.array_equal(thin.regret, full.regret[:, thin.times - 1])
    assert same(thin, full, but=("regret", "times"))
    if not isinstance(times, int):
        assert set(times) <= set(thin.times.tolist())


def test_a_longer_horizon_begins_like_a_shorter_one():
    """Neither UCB1 nor exact Thompson sampling knows the horizon."""
    for agent in ("exact", "ucb1"):
        assert np.array_equal(run(agent, horizon=40).regret, run(agent).regret[:, :40])


# A trace agrees with itself

SCHEMES = {
    "sequential": Sequential(),
    "fixed": Fixed(7),
    "static": StaticDoubling(),
    "dynamic": DoublingCounts(),
    "since-switch": DoubledSinceSwitch(),
    "grid": Grid((5, 20, 45)),
}


@pytest.mark.parametrize("name", SCHEMES)
def test_actions_plays_regret_and_batches_agree(name):
    trace = run("exact", SCHEMES[name])
    assert trace.actions is not None
    assert trace.actions.shape == (6, HORIZON)
    plays = np.stack([np.bincount(row, minlength=4) for row in trace.actions])
    assert np.array_equal(plays, trace.plays)
    gaps = (MEANS.max() - MEANS).astype(np.float32)
    assert np.allclose(np.cumsum(gaps[trace.actions], 1), trace.regret, rtol=1e-5, atol=1e-5)
    assert np.allclose((trace.actions == 3).mean(1), trace.best_share)
    assert not np.allclose(np.cumsum(gaps[::-1][trace.actions], 1), trace.regret, rtol=1e-5, atol=1e-5)

    for row, batches in zip(trace.ends, trace.batches, strict=True):
        ends = row[:batches]
        assert (row[batches:] == 0).all()
        assert (np.diff(ends) > 0).all()
        assert ends.min(initial=1) >= 1
        assert ends.max(initial=1) <= HORIZON
    assert np.array_equal(trace.batches_by([HORIZON])[:, 0], trace.batches)
    by = trace.batches_by()
    for r in range(6):
        assert np.array_equal(by[r], [(trace.ends[r][: trace.batches[r]] <= t).sum() for t in trace.times])
    # What is learned after the last round decides nothing, so a batch that ends with it is not refreshed.
    assert np.array_equal(trace.diagnostics.refreshes, (trace.batches - (trace.ends == HORIZON).any(1)))


def test_batch_ends_by_the_clock():
    assert run("exact", Sequential()).ends[0].tolist() == list(range(1, 61))
    assert run("exact", Fixed(7)).ends[0].tolist() == list(range(7, 61, 7))
    assert run("exact", StaticDoubling()).ends[0].tolist() == [1, 3, 7, 15, 31]
    assert run("exact", Grid((5, 20, 45))).ends[0].tolist() == [5, 20, 45]


def counts_at_last_batch(trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """k_a(t) and k_a(B(t)) for every replication, round and arm, B(t) the last batch end before round t."""
    k = np.cumsum(np.eye(4, dtype=int)[trace.actions], 1)
    closes = np.zeros((k.shape[0], trace.horizon + 1), int)
    np.put_along_axis(closes, trace.ends, trace.ends, 1)  # column t is t where a batch ended with round t
    last = np.maximum.accumulate(closes, 1)[:, :-1]
    before = np.concatenate([np.zeros((k.shape[0], 1, 4), int), k], 1)
    return k, np.take_along_axis(before, last[:, :, None], 1)


def doubling_lemma(trace: Trace) -> bool:
    """k_a(t)/2 ≤ k_a(B(t)) ≤ k_a(t) wherever arm a has been observed.

    An arm's first play has k_a(t) = 1 and k_a(B(t)) = 0, so there the lemma as printed fails; but that play closes
    its batch, so it never fails for more than that one round.
    """
    k, known = counts_at_last_batch(trace)
    first = known == 0
    return bool((known <= k).all() and (k[~first] <= 2 * known[~first]).all() and (k[first] <= 1).all())


@pytest.mark.parametrize("agent", AGENTS)
def test_the_doubling_lemma_holds_on_every_trace(agent):
    assert doubling_lemma(run(agent))


def test_the_doubling_lemma_holds_for_thousands_of_traces():
    assert doubling_lemma(run("exact", replications=2000))


@pytest.mark.parametrize("scheme", [Fixed(7), StaticDoubling()])
def test_the_doubling_lemma_is_not_true_of_everything(scheme):
    assert not doubling_lemma(run("exact", scheme))


def test_bands_and_summaries():
    trace = run("exact")
    band = trace.band(0.9)
    assert np.array_equal(band.mean, trace.regret.astype(float).mean(0))
    same = statistics.band(trace.regret, 0.9)  # what reports draw; its coverage is tested there
    assert np.allclose(band.high, same.high, atol=1e-4)
    assert np.allclose(band.low, same.low, atol=1e-4)
    assert same.critical > 1.6448536  # the whole curve needs more than a point
    summary = trace.summary()
    assert summary["regret_mean"] == pytest.approx(trace.regret[:, -1].mean())
    assert summary["regret_sd"] == pytest.approx(trace.regret[:, -1].std(ddof=1))
    assert summary["batches_mean"] == pytest.approx(trace.batches.mean())
    assert summary["replications"] == 6
    assert repr(trace).startswith("6 replications of 60 rounds: regret ")
    assert "<table>" in trace._repr_html_()
    for level in (95, "0.9", None):
        with pytest.raises(ConfigError, match="level must be a number between 0 and 1"):
            trace.band(level)  # type: ignore[arg-type]


def test_a_band_is_in_double_precision_and_of_all_times():
    """Regrets of 10⁷ differ by less than a sum of them in single precision does; and 256 times are not all of a long run."""
    trace = run("exact", replications=300, horizon=400)
    far = np.float32(1e7) + np.arange(300, dtype=np.float32)[:, None] % 7 + 0 * trace.regret
    band = dataclasses.replace(trace, regret=far).band()
    np.testing.assert_allclose(band.mean, far.astype(float).mean(0), rtol=1e-12)
    np.testing.assert_allclose(band.high - band.mean, (band.high - band.mean)[0], rtol=1e-9)
    some = set(np.linspace(0, 399, 256).round().astype(int))
    lost = trace.regret.copy()
    lost[3, next(i for i in range(400) if i not in some)] = np.nan
    assert lost.shape[1] == 400
    with pytest.raises(ConfigError, match="A band needs finite regrets"):
        dataclasses.replace(trace, regret=lost).band()


def test_one_replication_of_one_round():
    trace = run("exact", replications=1, horizon=1)
    assert trace.regret.shape == (1, 1)
    assert trace.batches.tolist() == [1]
    assert "±" not in repr(trace)


# Memory


def test_a_run_that_does_not_fit_is_refused_before_any_work(monkeypatch):
    def work(*args, **kwargs):
        raise AssertionError("work was done")

    monkeypatch.setattr(programs, "stepping", lambda threaded: work)
    monkeypatch.setattr(memory, "available", lambda: 100_000)
    with pytest.raises(MemoryNeeded, match=r"GiB.*chunk=\d+"):
        run("sgld", replications=1000)
    monkeypatch.setattr(memory, "available", lambda: 10**9)
    with pytest.raises(AssertionError, match="work was done"):  # it fits, so the run begins
        run("sgld", replications=1000)
    monkeypatch.setattr(memory, "available", lambda: None)
    with pytest.raises(AssertionError, match="work was done"):
        run("sgld", replications=1000)


def test_memory_is_linear_in_the_horizon_and_in_replications():
    def needed(horizon, replications, arms=4):
        agent = Thompson(MODEL, Perturb(sgld()), arms)
        env = Bandit.with_means(Gaussian(sd=0.5), np.linspace(0, 1, arms))
        return memory.needed(env, agent, StaticDoubling(), programs.Sizes(horizon, 10, replications, keep_actions=False))

    assert needed(1000, 20) == 2 * needed(1000, 10)
    slope = needed(2000, 1) - needed(1000, 1)
    assert needed(3000, 1) - needed(2000, 1) == pytest.approx(slope, rel=0.05)
    # O(T) a replication, not O(arms · T): the log has one row a round, whatever the number of arms.
    assert needed(2000, 1, arms=16) - needed(1000, 1, arms=16) == pytest.approx(slope, rel=0.05)


@pytest.mark.parametrize("free", [600_000, 1_000_000, 3_000_000])
def test_the_chunk_that_is_advised_fits(free, monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: free)
    with pytest.raises(MemoryNeeded) as refused:
        run("sgld", replications=2000, times=1, keep_actions=False)
    chunk = int(str(refused.value).split("chunk=")[1].split()[0])
    assert 1 <= chunk < 2000
    monkeypatch.setattr(programs, "stepping", lambda threaded: lambda *a, **k: (_ for _ in ()).throw(InterruptedError))
    with pytest.raises(InterruptedError):
        run("sgld", replications=2000, times=1, keep_actions=False, chunk=chunk)


# Sizes of programs


@pytest.mark.parametrize("agent", ["exact", "sgld"])
def test_other_horizons_and_replications_run_the_same_program(agent, monkeypatch, compiled):
    """The second run finds its program compiled; numbers are those of programs without a row too many."""
    rounded = [run(agent, replications=R, horizon=T, times=None, keep_actions=True) for R, T in ((25, 90), (27, 80))]
    before = compiled.count("jit(run)")
    rounded.append(run(agent, replications=30, horizon=77, times=None, keep_actions=True))
    assert compiled.count("jit(run)") == before
    monkeypatch.setattr(programs, "rounded_up", lambda size: size)
    for trace in rounded:
        exact = run(agent, replications=trace.replications, horizon=trace.horizon, times=None, keep_actions=True)
        assert same(trace, exact, but=("distance",))
        # XLA's rsqrt has other last bits in a vector than at the end of an array, which is elsewhere in a larger array.
        np.testing.assert_allclose(trace.diagnostics.distance, exact.diagnostics.distance, rtol=1e-6)
    assert compiled.count("jit(run)") > before, "every size of its own is compiled on its own"


@pytest.mark.parametrize("size", [1, 2, 3, 255, 499, 500, 501, 1000, 1001, 1023, 9999, 10**6 + 1, 2**31 - 1])
def test_sizes_are_rounded_up_by_at_most_a_tenth_where_it_matters(size):
    rounded = programs.rounded_up(size)
    assert size <= rounded < (2.5 if size <= 500 else 1.1) * size + 1
    assert programs.rounded_up(rounded) == rounded


def test_parts_may_have_room_for_different_numbers_of_batches():
    """An accelerator sends back the ends of those batches alone that its part has closed."""
    parts = condition("gaussian", "exact-ts", "dynamic", horizon=30)
    run = lambda **chunks: simulate(0, parts.env, parts.agent, parts.batching, horizon=30, replications=6, **chunks)  # noqa: E731
    whole, (of,) = run(), [Trace.of]
    seen = []

    def cut(records, *rest, **settings):
        shorter = [r._replace(ends=r.ends[: r.batches.max()]) for r in records]
        seen.extend(r.ends.shape[0] for r in shorter)
        return of(shorter, *rest, **settings)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trace, "of", staticmethod(cut))
        again = run(chunk=1)
    assert len(set(seen)) > 1
    np.testing.assert_array_equal(again.ends, whole.ends)
    np.testing.assert_array_equal(again.regret, whole.regret)


TWO_DEVICES = """
import jax, numpy as np
from blts import condition, loop, simulation
from blts._random import as_key

parts = condition("gaussian", "exact-ts", "dynamic", horizon=40)
arguments = as_key(3), parts.env, parts.agent, parts.batching, simulation.recorded_times(None, 40), np.int32(5)
settings = {"capacity": 40, "replications": 9, "keep_actions": True}
run = lambda f: jax.jit(f, static_argnames=[*settings])(*arguments, np.int32(40), np.int32(9), **settings)
assert jax.local_device_count() == 2
same = jax.tree.map(lambda a, b: np.array_equal(a, b, equal_nan=True), run(simulation.programs.on_all_devices), run(loop.run))
assert jax.tree.all(same), same
print("same")
"""


def test_replications_are_spread_over_devices():
    """Two devices, as a machine with two accelerators has them: an odd number of replications, numbered from 5."""
    settings = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    done = subprocess.run([sys.executable, "-c", TWO_DEVICES], env=settings, capture_output=True, text=True)
    assert done.stdout == "same\n", done.stderr


class Broken(Env):
    """Its regret is a number, so that only its rewards show what is wrong."""

    actions = 2

    def reset(self, key):
        return (), ()

    def step(self, key, state, action):
        return state, Step((), jnp.where(action == 1, jnp.nan, 1.0), jnp.zeros(()))


def test_rewards_that_are_not_finite_are_the_first_warning():
    trace = simulate(0, Broken(), UCB1(2), Fixed(5), horizon=20, replications=2)
    assert trace.warnings[0].startswith(
        "the environment paid rewards that are not finite (in 2 of 2 replications their mean is nan)"
    )
    assert "WARNING: the environment paid" in repr(trace)
    assert not run().warnings
