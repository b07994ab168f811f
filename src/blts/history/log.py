"""What a learner keeps of its rounds: a log of rows, in which each action's rows can be found at once."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from .._typing import Array, Bool, Int, Row, Tree
from ..arrays import count, pick

CHUNK = 64  # rows that are moved at a time: most refreshes come early, when a log is short


class Grouped(NamedTuple):
    """The rows in the order of their actions: those of action a are `start[a] … start[a] + counts[a] - 1`."""

    rows: Row
    start: Int[Array, " actions"]
    counts: Int[Array, " actions"]


class Log(NamedTuple):
    """One log, two cursors: rows `seen … size` are new in this batch, `… size` is all data.

    The capacity is a shape, the cursors are traced, so data grow without compiling again. `rank` is a row's number
    among those of its action, which makes grouping by action a single scatter: memory stays O(T), not O(actions · T).
    """

    rows: Row
    rank: Int[Array, " capacity"]
    counts: Int[Array, " actions"]
    seen: Int[Array, ""]
    size: Int[Array, ""]
    summary: Tree = ()
    """Each action's summary where its model has an exact posterior: what a sampler is measured against."""
    worth: Any = ()
    """How many rows those of each action count for, `[actions]`, where rows have weights; empty where each counts for one."""

    @staticmethod
    def empty(row: Row, capacity: int, actions: int, summary: Tree = ()) -> Log:
        """An empty log for rows like `row`."""
        rows = jax.tree.map(lambda leaf: jnp.zeros((capacity, *jnp.shape(leaf)), jnp.result_type(leaf)), row)
        zero = jnp.zeros((), int)
        return Log(rows, jnp.zeros(capacity, int), jnp.zeros(actions, int), zero, zero, summary)

    def append(self, row: Row, live: Bool[Array, ""]) -> Log:
        """The log with one more row, or as it was where not `live` (the write falls outside and is dropped)."""
        capacity = self.rank.shape[0]
        place = jnp.where(live, self.size, capacity)
        rows = jax.tree.map(lambda store, new: store.at[place].set(new, mode="drop"), self.rows, row)
        rank = self.rank.at[place].set(self.counts[row.action], mode="drop")
        return Log(rows, rank, count(self.counts, row.action, live), self.seen, self.size + live, self.summary)

    def grouped(self, most: Int[Array, ""] | int | None = None) -> Grouped:
        """A counting sort by action: row i of action a goes to start[a] + rank[i].

        `most` bounds the size, and the work; it is the same for all logs that are sorted together.
        """
        start = jnp.cumsum(self.counts) - self.counts
        capacity = self.rank.shape[0]
        chunk = min(CHUNK, capacity)

        def sort_chunk(c, grouped: Row) -> Row:
            begin = jnp.minimum(c * chunk, capacity - chunk)  # the last chunk writes some rows again
            part = lambda x: lax.dynamic_slice_in_dim(x, begin, chunk)  # noqa: E731
            rows = jax.tree.map(part, self.rows)
            to = jax.vmap(partial(pick, start))(rows.action)
            place = jnp.where(begin + jnp.arange(chunk) < self.size, to + part(self.rank), capacity)
            return jax.tree.map(lambda x, new: x.at[place].set(new, mode="drop", unique_indices=True), grouped, rows)

        chunks = (capacity if most is None else most) + chunk - 1
        rows = lax.fori_loop(0, chunks // chunk, sort_chunk, jax.tree.map(jnp.zeros_like, self.rows))
        return Grouped(rows, start, self.counts)


def block_of(histories: Tree, lanes: Int[Array, " block"], used: Bool[Array, " block"] | bool = True) -> Tree:
    """The histories of some lanes, from the last axis of every array to the first; of logs, the rows that are written.

    Args:
        histories: with the lanes last.
        lanes: which of them.
        used: false for lanes whose results are not used: their logs are empty, so that no chain runs on them.

    Returns:
        The histories of the block.
    """

    def of_array(x: Array) -> Array:
        return jnp.moveaxis(x[..., lanes], -1, 0)

    def of_log(log: Log) -> Log:
        rest = jax.tree.map(of_array, log._replace(rows=(), rank=()))
        none = lambda x: jnp.where(jnp.reshape(used, (-1, *[1] * (x.ndim - 1))), x, 0)  # noqa: E731
        rest = rest._replace(counts=none(rest.counts), size=none(rest.size))
        stores = (log.rows, log.rank)
        capacity = log.rank.shape[0]
        chunk = min(CHUNK, capacity)

        def move(c, block: Tree) -> Tree:
            begin = jnp.minimum(c * chunk, capacity - chunk)
            part = lambda x: of_array(lax.dynamic_slice_in_dim(x, begin, chunk))  # noqa: E731
            return jax.tree.map(lambda new, x: lax.dynamic_update_slice_in_dim(new, part(x), begin, 1), block, stores)

        empty = jax.tree.map(lambda x: jnp.zeros((lanes.shape[0], *x.shape[:-1]), x.dtype), stores)
        rows, rank = lax.fori_loop(0, (jnp.max(rest.size) + chunk - 1) // chunk, move, empty)
        return rest._replace(rows=rows, rank=rank)

    is_log = lambda node: isinstance(node, Log)  # noqa: E731
    return jax.tree.map(lambda node: of_log(node) if is_log(node) else of_array(node), histories, is_leaf=is_log)
