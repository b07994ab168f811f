"""How much memory a simulation takes, and whether that is free."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax

from .. import freshness, loop
from .._random import as_key
from .._typing import Tree
from ..agents import Agent
from ..batching import Batching
from ..envs import Env
from ..errors import MemoryNeeded
from . import stored
from .programs import VECTOR, Sizes, rounded_up, shape_of

# The carry of the loop, a second copy while XLA moves it, and the log sorted by arm at a refresh.
COPIES = 3

# A core's second cache. What every round reads and writes is several times faster there than in memory.
CACHE = 2**20
SMALLEST_BLOCK = 112  # lanes; with fewer, starting the kernels of XLA takes as long as the cache saves


class Bytes(NamedTuple):
    """Of one replication."""

    all: int
    round: int
    """What every round reads and writes, where all lanes are in the same round (`Agent.incremental`); 0 elsewhere."""


_BYTES: dict[Any, Bytes] = freshness.emptied({})
"""By shape: tracing takes longer than many a run."""


def needed(env: Env, agent: Agent, batching: Batching, sizes: Sizes) -> int:
    """An estimate of the memory that a run takes while it plays.

    Args:
        env: the environment.
        agent: the agent.
        batching: the batching scheme.
        sizes: the run's array sizes; its replications are those that run at once.

    Returns:
        Bytes.
    """

    return COPIES * sizes.replications * _bytes(env, agent, batching, sizes).all


def block(env: Env, agent: Agent, batching: Batching, sizes: Sizes) -> int:
    """How many replications run together at most, so that what a round reads and writes stays in a core's cache.

    Args:
        env: the environment.
        agent: the agent.
        batching: the batching scheme.
        sizes: the run's array sizes.

    Returns:
        That many, a multiple of `VECTOR`; all replications on other devices, and where rounds read little.
    """
    read = _bytes(env, agent, batching, sizes).round if jax.default_backend() == "cpu" else 0
    if read * sizes.replications <= CACHE:
        return sizes.replications
    return max(SMALLEST_BLOCK, CACHE // read // VECTOR * VECTOR)


def _bytes(env: Env, agent: Agent, batching: Batching, sizes: Sizes) -> Bytes:
    def one_replication(key):
        kept = {"capacity": sizes.rounds, "keep_actions": sizes.keep_actions}
        return loop.start(key[None], env, agent, batching, sizes.points, **kept)[1:]

    shape = (shape_of((env, agent, batching)), sizes._replace(replications=1))
    if shape not in _BYTES:
        where = stored.address("bytes", sizes._replace(replications=1), (env, agent, batching))
        found = where and stored.read(where)
        if not found:
            lane, written = jax.eval_shape(one_replication, as_key(0))
            read = _size(lane._replace(waiting=())) if agent.incremental else 0  # of what is in flight a round reads a few rows
            found = b"%d %d" % (_size(lane) + _size(written), read)
            if where:
                stored.write(where, found)
        _BYTES[shape] = Bytes(*map(int, found.split()))
    return _BYTES[shape]


def _size(tree: Tree) -> int:
    return sum(math.prod(array.shape) * array.dtype.itemsize for array in jax.tree.leaves(tree))


def available() -> int | None:
    """Free memory of the machine in bytes, or None where the system does not say."""
    try:
        with open("/proc/meminfo") as lines:
            sizes = {line.split(":")[0]: int(line.split()[1]) for line in lines}
        return 1024 * sizes["MemAvailable"]
    except (OSError, KeyError, ValueError, IndexError):
        return None


def check(env: Env, agent: Agent, batching: Batching, sizes: Sizes, replications: int) -> None:
    """Refuse a run on the CPU that does not fit into the free memory.

    Args:
        env: the environment.
        agent: the agent.
        batching: the batching scheme.
        sizes: the run's array sizes; its replications are those that run at once.
        replications: how many are kept in all.

    Raises:
        MemoryNeeded: with what to change.
    """
    if jax.default_backend() != "cpu":
        return
    kept = sizes.points + sizes.keep_actions * sizes.rounds + batching.max_batches(sizes.rounds, env.actions)
    wanted, free = needed(env, agent, batching, sizes) + 4 * replications * kept, available()
    if free is not None and wanted > free:
        fits = max(1, int(sizes.replications * 0.5 * free / wanted))
        fits = next(n for n in range(fits, 0, -1) if rounded_up(n) == n)  # a program of that size, and not of the next
        raise MemoryNeeded(
            f"This run needs about {_gigabytes(wanted)} of memory and {_gigabytes(free)} are free; "
            f"give times=100 for a thinned trace, or chunk={fits} to run fewer replications at once."
        )


def _gigabytes(size: float) -> str:
    return f"{size / 2**30:.3g} GiB"
