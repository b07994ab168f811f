"""`simulate`: thousands of replications in one call, checked before they start."""

from __future__ import annotations

import dataclasses
import math
import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from . import leap, loop
from ._module import require_part
from ._random import as_key
from ._typing import PRNGKey
from .agents import Agent
from .batching import Batching
from .compilation import keep_programs
from .envs import Env
from .errors import ConfigError, MemoryNeeded, whole
from .specification import check_rewards, stale_regret
from .trace import Trace
from .wrong_returns import explained

# The carry of the loop, a second copy while XLA moves it, and the log sorted by arm at a refresh.
COPIES = 3
LONGEST = int(np.iinfo(np.int32).max)  # rounds and replications are counted in 32 bits
WORTH_SPLITTING = 64  # fewer replications take no longer on one core than on two

# XLA hands reductions to a library whose calls cost more than these reductions take; and wide vectors pay here.
CPU_OPTIONS = {"xla_cpu_experimental_ynn_fusion_type": "", "xla_cpu_prefer_vector_width": 512}


@cache
def _stepping() -> Callable[..., loop.Record]:
    on_cpu = jax.default_backend() == "cpu"
    run = loop.run if on_cpu or jax.local_device_count() == 1 else _on_all_devices
    options = CPU_OPTIONS if on_cpu else None
    return jax.jit(run, static_argnames=("horizon", "replications", "keep_actions"), compiler_options=options)


def _on_all_devices(*arguments: Any, replications: int, **settings: Any) -> loop.Record:
    """`loop.run` with the replications in equal parts, one for each device; what the last has too many is cut off."""
    devices = jax.local_devices()
    size = -(-replications // len(devices))
    mesh = Mesh(np.asarray(devices), ("device",))

    run: Any = partial(loop.run, replications=size, **settings)

    def part(*inputs: Any) -> loop.Record:
        *rest, first = inputs
        return run(*rest, first + size * jax.lax.axis_index("device"))

    shapes = jax.eval_shape(run, *arguments)
    last = jax.tree.map(lambda x: P(*[None] * (x.ndim - 1), "device"), shapes)
    record = jax.shard_map(part, mesh=mesh, in_specs=P(), out_specs=last, check_vma=False)(*arguments)
    return jax.tree.map(lambda x: x[..., :replications], record)


def simulate(
    key: int | PRNGKey,
    env: Env,
    agent: Agent,
    batching: Batching,
    *,
    horizon: int,
    replications: int,
    first: int = 0,
    times: int | Iterable[int] | None = None,
    keep_actions: bool = False,
    chunk: int | None = None,
    threads: int | None = None,
    engine: str = "auto",
    misspecified: bool = False,
) -> Trace:
    """Run `replications` independent runs of `horizon` rounds, numbered from `first`.

    Replication r has the same numbers in whatever call it appears, so chunks and shards add up to the whole.

    Args:
        key: a seed or a key from `jax.random.key`.
        env: what decisions are made about.
        agent: what acts and learns; it has as many actions as the environment.
        batching: when the agent sees its rewards.
        horizon: the number of rounds.
        replications: how many independent runs.
        first: the number of the first of them.
        times: at which rounds the cumulative regret is recorded: every round (None), this many log-spaced rounds
            (a number), or the rounds given. The log of rewards that SGLD agents need is O(horizon) all the same.
        keep_actions: also record every action.
        chunk: how many replications run at once (None: all); a smaller chunk needs less memory.
        threads: over how many cores the replications are spread (None: all, on a CPU); the numbers are the same.
        engine: "step" plays round by round; "leap" goes from one batch's end or recorded round to the next, at a cost that
            does not grow with the rounds between, for `Thompson` with closed laws on a `Bandit`. They agree in law, not in
            numbers, and a leap's numbers depend on `times`. "auto" leaps where that can be done and pays; it chooses from the
            condition alone (environment, agent, batching, horizon, what is recorded), and `trace.engine` says which it took.
        misspecified: run an agent whose model cannot give the environment's rewards, instead of refusing it.

    Returns:
        A `Trace`: regret, plays, batches and diagnostics of every replication.

    Raises:
        ConfigError: what cannot run, and what to change.
        MemoryNeeded: where it would not fit.

    >>> from blts import Exact, Gaussian, Thompson, DoublingCounts, simulate
    >>> from blts.envs import Bandit
    >>> model = Gaussian(prior_mean=[0.0, 0.0, 0.0], prior_sd=2.0, sd=0.5)
    >>> env = Bandit.with_means(Gaussian(sd=0.5), [0.0, 0.5, 1.0])
    >>> trace = simulate(0, env, Thompson(model, Exact()), DoublingCounts(), horizon=200, replications=50)
    >>> trace.regret.shape
    (50, 200)
    """
    for name, value in {
        "horizon": horizon,
        "replications": replications,
        "chunk": replications if chunk is None else chunk,
        "threads": 1 if threads is None else threads,
    }.items():
        whole(name, value)
    whole("first", first, 0)
    for name, value in {"horizon": horizon, "first + replications": first + replications}.items():
        if value > LONGEST:
            raise ConfigError(f"{name} must be at most {LONGEST}, the largest whole number of 32 bits; got {value}.")
    if not isinstance(keep_actions, bool | np.bool_):
        raise ConfigError(f"keep_actions must be True or False; got {keep_actions!r}.")
    names = ": blts.condition(env, agent, batching) makes objects of names"
    require_part("env", env, Env, "Bandit.with_means(Gaussian(), [0.0, 1.0])", names)
    require_part("agent", agent, Agent, "UCB1(10)", names)
    require_part("batching", batching, Batching, "DoublingCounts()", names)
    if env.actions != agent.actions:
        raise ConfigError(
            f"The environment has {env.actions} actions and the agent {agent.actions}; give both the same number of arms."
        )
    counted, states = batching.states, env.states
    if counted is not None and counted != states:
        raise ConfigError(
            f"The batching counts visits of {counted} states and the environment has "
            + (f"{states}; give it states={states}." if states else "no table of them; use StaticDoubling, Fixed or Geometric.")
        )
    keep_programs()
    root, rounds = as_key(key), recorded_times(times, horizon)
    settings = {"horizon": int(horizon), "keep_actions": bool(keep_actions)}
    with explained(env, agent, batching, int(horizon)):
        if not misspecified:
            check_rewards(env, agent)
        chosen = leap.choose(engine, env, agent, batching, points=len(rounds), **settings)
        run = leap.run if chosen == "leap" else _stepping()
        sizes = [min(chunk or replications, replications - done) for done in range(0, replications, chunk or replications)]
        _check_memory(env, agent, batching, rounds, replications, max(sizes), settings)
        records, start = [], first
        for size in sizes:
            records += _run_in_threads(run, (root, env, agent, batching, rounds), start, int(size), threads, settings)
            start += size
    _check_records(records, env, agent, batching, int(horizon))
    trace = Trace.of(records, rounds, horizon=int(horizon), engine=chosen, names=(str(env), str(agent), str(batching)))
    return dataclasses.replace(trace, notes=stale_regret(env, trace.plays, trace.mean_reward, trace.final_regret))


def _check_records(records: list[loop.Record], env: Any, agent: Any, batching: Any, horizon: int) -> None:
    """Refuse a run with actions that do not exist, or one whose ends of batches did not all fit."""
    played = min(int(record.plays.sum(0).min()) for record in records) if env.actions else horizon
    if played < horizon:
        raise ConfigError(
            f"{type(agent).__name__} played actions that do not exist in up to {horizon - played} of {horizon} rounds; "
            f"its act must return whole numbers from 0 to {env.actions - 1}."
        )
    closed, most = max(int(record.batches.max()) for record in records), batching.max_batches(horizon, env.actions)
    if closed > most:
        raise ConfigError(f"{type(batching).__name__} closed {closed} batches, and its max_batches() returns {most}; mend it.")


_SEEN: set[Any] = set()
"""Shapes that are compiled. The first run of a shape is not split over threads, and other threads wait for it: each would
compile it again."""
_COMPILING: dict[Any, threading.Lock] = {}


def _run_in_threads(
    run: Any, arguments: tuple, first: int, replications: int, threads: int | None, settings: dict
) -> list[loop.Record]:
    """The replications in equal parts, one for each thread: XLA runs a part in the thread that calls it.

    Parts are of one size, so that they are compiled once; what the last one has too many is cut off.
    """
    parts = (threads or cores()) if jax.default_backend() == "cpu" and replications >= WORTH_SPLITTING else 1
    size = -(-replications // parts)

    def part(i: int) -> loop.Record:
        record = run(*arguments, np.int32(first + i * size), replications=size, **settings)
        if jax.default_backend() != "cpu":  # few of the batches that there can be are closed, and the way to the host is slow
            record = record._replace(ends=record.ends[: max(1, int(record.batches.max()))])
        return jax.tree.map(lambda x: np.asarray(x)[..., : replications - i * size], record)

    shape = (run, _shape_of(arguments), size, *settings.values())
    if shape not in _SEEN:
        with _COMPILING.setdefault(shape, threading.Lock()):
            if shape not in _SEEN:
                records = [part(i) for i in range(parts)]
                _SEEN.add(shape)
                return records
    if parts == 1:
        return [part(0)]
    others = _pool(parts - 1).map(part, range(1, parts))
    return [part(0), *others]


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, "blts")


def _shape_of(tree: Any) -> Any:
    """What decides a compilation: the structure of a tree, and the shapes and types of its leaves."""
    leaves, structure = jax.tree.flatten(tree)
    return structure, tuple((np.shape(leaf), jax.numpy.result_type(leaf)) for leaf in leaves)


def cores() -> int:
    """How many cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def recorded_times(times: int | Iterable[int] | None, horizon: int) -> np.ndarray:
    """The rounds at which a trace is recorded; the horizon is always one of them."""
    if times is None:
        return np.arange(1, horizon + 1, dtype=np.int32)
    if _is_whole(times):
        if times < 1:  # type: ignore[operator]
            raise ConfigError(f"times must be at least 1 point; got {times}.")
        points = np.unique(np.round(np.geomspace(1, horizon, int(times))).astype(np.int64))  # type: ignore[call-overload]
    else:
        points = np.unique(np.asarray(list(times) if isinstance(times, Iterable) else 0.5))
        if points.size == 0 or points.dtype.kind not in "iu" or points[0] < 1 or points[-1] > horizon:
            raise ConfigError(f"times must be whole rounds between 1 and the horizon {horizon}, or how many; got {times!r}.")
    return np.union1d(points, [horizon]).astype(np.int32)


def memory_needed(
    env: Any, agent: Any, batching: Any, times: np.ndarray, replications: int, *, horizon: int, keep_actions: bool
) -> int:
    """An estimate, in bytes, of what a run of so many replications at once takes."""

    def one_lane(key):
        return loop.start(key[None], env, agent, batching, len(times), horizon=horizon, keep_actions=keep_actions)

    shape = (_shape_of((env, agent, batching)), len(times), horizon, keep_actions)
    if shape not in _LANE_BYTES:  # tracing takes longer than many a run
        _LANE_BYTES[shape] = sum(_bytes(leaf) for leaf in jax.tree.leaves(jax.eval_shape(one_lane, as_key(0))))
    return COPIES * replications * _LANE_BYTES[shape]


_LANE_BYTES: dict[Any, int] = {}


def _bytes(leaf: Any) -> int:
    return math.prod(leaf.shape) * leaf.dtype.itemsize


def available_memory() -> int | None:
    """Free memory of the machine in bytes, or None where the system does not say."""
    try:
        with open("/proc/meminfo") as lines:
            sizes = {line.split(":")[0]: int(line.split()[1]) for line in lines}
        return 1024 * sizes["MemAvailable"]
    except (OSError, KeyError, ValueError, IndexError):
        return None


def _check_memory(env, agent, batching, times, replications: int, chunk: int, settings: dict) -> None:
    if jax.default_backend() != "cpu":
        return
    lanes = memory_needed(env, agent, batching, times, chunk, **settings)
    kept = (
        4
        * replications
        * (len(times) + settings["keep_actions"] * settings["horizon"] + batching.max_batches(settings["horizon"], env.actions))
    )
    free = available_memory()
    if free is not None and lanes + kept > free:
        fits = max(1, int(chunk * 0.5 * free / (lanes + kept)))
        raise MemoryNeeded(
            f"This run needs about {_gigabytes(lanes + kept)} of memory and {_gigabytes(free)} are free; "
            f"give times=100 for a thinned trace, or chunk={fits} to run fewer replications at once."
        )


def _gigabytes(size: float) -> str:
    return f"{size / 2**30:.3g} GiB"
