"""What an agent is: it acts every round from a frozen state, and learns once a batch from what it remembered."""

from __future__ import annotations

from typing import Protocol

import jax.numpy as jnp

from .._typing import Array, Bool, Float, Info, Int, Key, Played, PRNGKey, Row, Tree


class Agent(Protocol):
    actions: int

    @property
    def incremental(self) -> bool:
        """Whether `observe` is so cheap (a few operations an arm) that running it in every lane each round beats waiting."""
        ...

    @property
    def observes_first(self) -> bool:
        """Whether `observe` is also called before the first round, on no data: what plans does so there, and only there."""
        ...

    def init(self, key: PRNGKey) -> Tree: ...

    def act(self, key: PRNGKey, state: Tree, obs: Tree, played: Played) -> Int[Array, ""]:
        """Cheap and read-only. `played` counts plays inside the batch; rewards are seen through `observe` alone."""
        ...

    def empty(self, row: Row, capacity: int) -> Tree:
        """An empty memory for rows like `row`."""
        ...

    def remember(self, history: Tree, row: Row, live: Bool[Array, ""]) -> Tree:
        """The memory with one more row where `live`."""
        ...

    def observe(self, keys: Key[Array, " block"], states: Tree, histories: Tree) -> tuple[Tree, Info]:
        """Costly, once a batch. Unlike the others this is given a block of replications, in front of every array: a
        refresh is fastest when all chains of all arms of all replications are one flat axis."""
        ...


def argmax(values: Float[Array, " actions"]) -> Int[Array, ""]:
    """The first index of the largest value; a NaN is never the largest.

    Two plain reductions: XLA's own argmax takes several times as long on a CPU.
    """
    actions = values.shape[0]
    order = jnp.where(jnp.isnan(values), -jnp.inf, values)
    return jnp.min(jnp.where(order == jnp.max(order), jnp.arange(actions), actions))
