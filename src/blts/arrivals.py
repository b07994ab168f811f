"""Late rewards of one replication: rows in flight, and who is told of them when.

Rows are kept by the round of their play. Those that are told in the same round form a linked list, whose first is kept by that
round: memory is O(T), and a round costs as many iterations as the lane with most arrivals has. Agents are told of rows by
`remember`, as of any others, so that logs, summaries and batching schemes need not know that there are delays.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from ._typing import Array, Bool, Int, Row, Tree
from .lanes import any_lane

NOBODY = -1


class Waiting(NamedTuple):
    """What is in flight."""

    rows: Row
    """By the round of the play, which is not in them: `[rounds]`."""
    after: Int[Array, " rounds"]
    """By the round of the play: another play that is told in the same round."""
    first: Int[Array, " rounds"]
    """By the round in which rewards are told: one of their plays."""
    plays: Int[Array, ""]
    """Plays whose rewards are not told yet, or never will be."""


def nothing(row: Row, capacity: int) -> Waiting:
    """Nothing in flight.

    Args:
        row: a row of zeros, for its shapes and types.
        capacity: for how many rounds there is room.

    Returns:
        The state before round 1.
    """
    rows = jax.tree.map(lambda x: jnp.zeros((capacity + 1, *x.shape), x.dtype), row._replace(t=()))
    links = jnp.full(capacity + 1, NOBODY)
    return Waiting(rows, links, links, jnp.zeros((), int))


def exchange(agent: Any, waiting: Waiting, history: Tree, row: Row, arrival: Any, live: Bool[Array, ""]) -> tuple[Waiting, Tree]:
    """One round: its play is in flight from now on, and what is told at its end is remembered.

    Args:
        agent: who remembers.
        waiting: what is in flight.
        history: what is remembered.
        row: the round, with its number `t` and its reward.
        arrival: when the reward is told, and as what.
        live: False where nothing is to be changed.

    Returns:
        Both after the round.
    """
    told = row._replace(reward=jnp.asarray(arrival.reward, row.reward.dtype))
    waiting = _sent(waiting, told, arrival.delay, live)
    if agent.counts_plays:
        history = agent.expect(history, row._replace(reward=jnp.zeros_like(row.reward)), live)
    place = jnp.where(live, _at(waiting.first, row.t), NOBODY)

    def more(carry: tuple[Array, ...]) -> Array:
        return carry[0]

    def tell(carry: tuple) -> tuple:
        _, place, count, history = carry
        some = place != NOBODY
        told = jax.tree.map(lambda store: _at(store, place), waiting.rows)
        history = agent.remember(history, told._replace(t=place), some)
        place = jnp.where(some, _at(waiting.after, place), NOBODY)
        return any_lane(place != NOBODY), place, count - some, history

    carry = (any_lane(place != NOBODY), place, waiting.plays, history)
    _, _, count, history = lax.while_loop(more, tell, carry)
    return waiting._replace(plays=count), history


def _at(store: Array, i: Int[Array, ""]) -> Array:
    return lax.dynamic_index_in_dim(store, jnp.maximum(i, 0), keepdims=False)


def _sent(waiting: Waiting, row: Row, delay: Int[Array, ""], live: Bool[Array, ""]) -> Waiting:
    """With one play more. A row that is told after the last round, or never, is not linked."""
    outside = waiting.after.shape[0]
    play = jnp.where(live, row.t, outside)
    comes = live & (delay >= 0) & (delay < outside - row.t)
    told = jnp.where(comes, row.t + delay, outside)
    put = lambda store, place, new: store.at[place].set(new, mode="drop")  # noqa: E731
    rows = jax.tree.map(lambda store, new: put(store, play, new), waiting.rows, row._replace(t=()))
    # XLA copies an array that is read after it is written to; no link is smaller than NOBODY, but this says what comes first.
    other = _at(waiting.first, jnp.minimum(told, outside - 1))
    told = jnp.where(other < NOBODY, outside, told)
    return Waiting(rows, put(waiting.after, play, other), put(waiting.first, told, row.t), waiting.plays + live)
