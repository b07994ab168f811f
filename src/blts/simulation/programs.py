"""The compiled programs of a simulation: their array sizes, the threads and devices that run them.

Another horizon or number of replications need not be compiled again: array sizes are rounded up to one of a few, the number of
rounds is an argument, and what was computed too much is cut off. The numbers are the same, up to the last bits of diagnostics.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from .. import freshness, leap, loop
from .._typing import PRNGKey
from ..compilation import make_room, on_one_piece_of_stack
from ..record import Record
from . import stored

LONGEST = int(np.iinfo(np.int32).max)  # rounds and replications are counted in 32 bits
WORTH_SPLITTING = 64  # fewer replications take no longer on one core than on two
CHAINS_WORTH_SPLITTING = 8  # the same where an agent runs chains: those of a pool are hundreds an arm
VECTOR = 16  # numbers of a vector: blocks of so many lanes, or a multiple, leave no remainder
COARSE = (1, 2, 5, 10, 20, 50, 100, 150, 200, 300, 500)  # sizes of programs for so few replications or rounds that more are cheap

# XLA hands reductions to a library whose calls cost more than these reductions take; and wide vectors pay here.
CPU_OPTIONS = {"xla_cpu_experimental_ynn_fusion_type": "", "xla_cpu_prefer_vector_width": 512}
# XLA divides large kernels among all cores. Where each core has replications of its own, dividing and waiting only cost time.
WITHIN_THREAD = {**CPU_OPTIONS, "xla_disable_hlo_passes": "cpu-parallel-task-assigner"}


class Sizes(NamedTuple):
    """The array sizes of a run, each of which is compiled for."""

    rounds: int
    """For how many rounds there is room."""
    points: int
    """For how many recorded rounds."""
    replications: int
    keep_actions: bool

    def rounded_up(self) -> Sizes:
        """The sizes of the program that runs this."""
        return Sizes(rounded_up(self.rounds), rounded_up(self.points), rounded_up(self.replications), self.keep_actions)


def rounded_up(size: int) -> int:
    """The size of the program that runs this many: one of a few up to 500, and two significant digits from there on.

    These are decimal because people choose round numbers, which then cost nothing; and because rows of 2¹⁰ numbers lie on one
    another in a CPU's cache, and take a tenth longer than rows of 1000.

    Args:
        size: at least 1.

    Returns:
        That or a larger size: at most 9 % larger from 500 on.

    >>> [rounded_up(n) for n in (1, 20, 80, 250, 500, 1000, 1234)]
    [1, 20, 100, 300, 500, 1000, 1300]
    """
    if size <= COARSE[-1]:
        return next(some for some in COARSE if some >= size)
    unit = 10 ** (len(str(size)) - 2)
    return -(-size // unit) * unit


class Run(NamedTuple):
    """What is simulated."""

    key: PRNGKey
    env: Any
    agent: Any
    batching: Any
    times: np.ndarray
    """The rounds at which the regret is recorded."""
    horizon: int
    block: int
    """How many replications of a thread run together at most; see `memory.block`."""

    def parts(self, replications: int, threads: int) -> tuple[int, int]:
        """How replications are divided.

        Args:
            replications: how many.
            threads: how many parts there are at least.

        Returns:
            The number of parts, and the replications of each; the last may have fewer.
        """
        size = -(-replications // threads)
        if size > self.block:
            even = -(-replications // -(-replications // self.block))
            size = -(-even // VECTOR) * VECTOR
        return -(-replications // size), size


@cache
def stepping(threaded: bool) -> Callable[..., Record]:
    """`loop.run`, compiled for this machine's devices; `threaded` where each core runs its own replications."""
    on_cpu = jax.default_backend() == "cpu"
    run = loop.run if on_cpu or jax.local_device_count() == 1 else on_all_devices
    options = (WITHIN_THREAD if threaded else CPU_OPTIONS) if on_cpu else None
    return jax.jit(run, static_argnames=("capacity", "replications", "keep_actions"), compiler_options=options)


def on_all_devices(*arguments: Any, replications: int, **settings: Any) -> Record:
    """`loop.run` with the replications in equal parts, one for each device; what the last has too many is cut off."""
    devices = jax.local_devices()
    size = -(-replications // len(devices))
    mesh = Mesh(np.asarray(devices), ("device",))

    run: Any = partial(loop.run, replications=size, **settings)

    def part(*inputs: Any) -> Record:
        *rest, first, horizon, used = inputs
        done = size * jax.lax.axis_index("device")
        return run(*rest, first + done, horizon, used - done)

    shapes = jax.eval_shape(run, *arguments)
    last = jax.tree.map(lambda x: P(*[None] * (x.ndim - 1), "device"), shapes)
    record = jax.shard_map(part, mesh=mesh, in_specs=P(), out_specs=last, check_vma=False)(*arguments)
    return jax.tree.map(lambda x: x[..., :replications], record)


_PROGRAMS: dict[Any, Callable[..., Record]] = freshness.emptied({})
"""Compiled programs, by all that they depend on. Threads wait for the first to compile one: each would compile it again."""
_COMPILING: dict[Any, threading.Lock] = {}


def execute(run: Run, engine: str, first: int, replications: int, threads: int | None, keep_actions: bool) -> list[Record]:
    """Run replications in equal parts, one or more for each thread: XLA runs a part in the thread that calls it.

    Args:
        run: what is simulated.
        engine: "step" or "leap".
        first: the number of the first replication.
        replications: how many.
        threads: over how many cores they are spread (None: all, on a CPU).
        keep_actions: whether every action is recorded.

    Returns:
        The records of the parts, as NumPy arrays, in the order of the replications.
    """
    on_cpu = jax.default_backend() == "cpu"
    in_chains = not run.agent.incremental and not run.agent.observes_first
    threaded = on_cpu and replications >= (CHAINS_WORTH_SPLITTING if in_chains else WORTH_SPLITTING)
    threads = (threads or cores()) if threaded else 1
    parts, size = run.parts(replications, threads)
    exact = Sizes(run.horizon, len(run.times), size, keep_actions)
    sizes = exact.rounded_up()
    if parts > threads:
        sizes = sizes._replace(replications=size)
    times = np.concatenate([run.times, np.full(sizes.points - exact.points, LONGEST, np.int32)])
    inputs = (run.key, run.env, run.agent, run.batching, times)
    batches = run.batching.max_batches(run.horizon, run.env.actions) + 1
    program = _program(engine, inputs, sizes, threaded)

    def part(i: int) -> Record:
        wanted = min(size, replications - i * size)
        record = program(*inputs, np.int32(first + i * size), np.int32(run.horizon), np.int32(wanted))
        if not on_cpu:  # few of the batches that there can be are closed, and the way to the host is slow
            record = record._replace(ends=record.ends[: max(1, int(record.batches.max()))])
        record = jax.tree.map(lambda x: np.asarray(x)[..., :wanted], record)
        return record._replace(
            regret=record.regret[: exact.points], ends=record.ends[:batches], actions=record.actions[: keep_actions * run.horizon]
        )

    if threads == 1:
        return [part(i) for i in range(parts)]
    return list(_pool(threads).map(part, range(parts)))


def _program(engine: str, inputs: tuple[Any, ...], sizes: Sizes, threaded: bool) -> Callable[..., Record]:
    """The program of these sizes, compiled: kept from before, if there is one."""
    shape = (engine, shape_of(inputs), sizes, threaded, tuple(jax.config.values.values()))  # type: ignore[attr-defined]
    if shape not in _PROGRAMS:
        with _COMPILING.setdefault(shape, threading.Lock()):
            if shape not in _PROGRAMS:
                make_room()
                _PROGRAMS[shape] = on_one_piece_of_stack(partial(_compiled, engine, inputs, sizes, threaded))
    return _PROGRAMS[shape]


def _compiled(engine: str, inputs: tuple[Any, ...], sizes: Sizes, threaded: bool) -> Callable[..., Record]:
    settings = {"capacity": sizes.rounds, "replications": sizes.replications, "keep_actions": sizes.keep_actions}
    nothing = (np.int32(0),) * 3  # no rounds of no replications
    program = _kept(engine, (*inputs, *nothing), settings, threaded) or _traced(engine, settings, threaded)
    program(*inputs, *nothing)
    return program


def _traced(engine: str, settings: dict[str, Any], threaded: bool) -> Callable[..., Record]:
    return partial(leap.run if engine == "leap" else stepping(threaded), **settings)


def _kept(engine: str, inputs: tuple[Any, ...], settings: dict[str, Any], threaded: bool) -> Callable[..., Record] | None:
    if engine != "leap":
        return stored.program(loop.run, WITHIN_THREAD if threaded else CPU_OPTIONS, inputs, settings)
    with leap.PRECISE():
        program = stored.program(leap.engine.run, None, inputs, settings)
    return program and leap.PRECISE()(program)


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, "blts")


def shape_of(tree: Any) -> Any:
    """What decides a compilation: the structure of a tree, and the shapes and types of its leaves."""
    leaves, structure = jax.tree.flatten(tree)
    return structure, tuple((np.shape(leaf), jax.numpy.result_type(leaf)) for leaf in leaves)


def cores() -> int:
    """How many cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1
