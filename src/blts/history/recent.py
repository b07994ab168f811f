"""The last rounds, in order: what beliefs that forget keep."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from .._typing import Array, Bool, Int, Row, Tree


class Recent(NamedTuple):
    """The rows of the last rounds, as many as there is room for: that of round t is at place (t - 1) modulo the room."""

    rows: Row
    size: Int[Array, ""]
    """How many rounds there were, all in all."""

    @staticmethod
    def empty(row: Row, room: int) -> Recent:
        """No rounds yet.

        Args:
            row: a round of zeros, for its shapes and types.
            room: how many rounds are kept.

        Returns:
            The memory.
        """
        rows = jax.tree.map(lambda leaf: jnp.zeros((room, *jnp.shape(leaf)), jnp.result_type(leaf)), row)
        return Recent(rows, jnp.zeros((), int))

    @property
    def room(self) -> int:
        return self.rows.reward.shape[-1]

    @property
    def kept(self) -> Int[Array, "*block"]:
        """How many rounds are kept."""
        return jnp.minimum(self.size, self.room)

    def append(self, row: Row, live: Bool[Array, ""]) -> Recent:
        """The memory with one more round, in place of the oldest where it is full; as it was where not `live`."""
        place = jnp.where(live, self.size % self.room, self.room)
        rows = jax.tree.map(lambda store, new: store.at[place].set(new, mode="drop"), self.rows, row)
        return Recent(rows, self.size + live)

    def in_order(self) -> tuple[Row, Int[Array, " room"]]:
        """The rows from the oldest to the newest, and their ages in rounds: 0 for the last round. Beyond `kept` they are undefined,
        and ages are negative."""
        i = jnp.arange(self.room)
        first = self.size - self.kept
        return jax.tree.map(lambda x: x[(first + i) % self.room], self.rows), self.kept - 1 - i


def told_again(recent: Recent, remember: Callable[..., Tree], empty: Tree, *own: Array) -> Tree:
    """The memory of a belief that is told the kept rows one by one, the oldest first, for a block of replications.

    Args:
        recent: with the replications as first axis.
        remember: `remember(history, row, age, live, *own)` of that belief.
        empty: its memory of no rounds, of one replication.
        own: numbers that each replication has of its own, with the replications as first axis.

    Returns:
        The memories, with the replications as first axis.
    """
    rows, ages = jax.vmap(Recent.in_order)(recent)

    def tell(i: Int[Array, ""], histories: Tree) -> Tree:
        row, age = jax.tree.map(lambda x: x[:, i], (rows, ages))
        return jax.vmap(lambda history, row, age, *own: remember(history, row, age, age >= 0, *own))(histories, row, age, *own)

    block = recent.size.shape[0]
    histories = jax.tree.map(lambda x: jnp.broadcast_to(x, (block, *jnp.shape(x))), empty)
    return lax.fori_loop(0, jnp.max(recent.kept), tell, histories)


def example_row(recent: Recent) -> Row:
    """A round of zeros, like those of a block of memories."""
    return jax.tree.map(lambda x: jnp.zeros(x.shape[2:], x.dtype), recent.rows)
