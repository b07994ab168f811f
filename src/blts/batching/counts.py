"""Schemes that count plays, of an action or of a state–action pair: the two readings of "dynamic doubling"."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import jax.numpy as jnp

from .. import theory
from .._module import at_least, module, static
from .._typing import Array, Int
from ..history import count


class Levels(NamedTuple):
    counts: Int[Array, " pairs"]
    next: Int[Array, " pairs"]
    """The count at which each pair closes its next batch, 2^l of Algorithm 2."""


class Marks(NamedTuple):
    counts: Int[Array, " pairs"]
    mark: Int[Array, " pairs"]
    """The counts when the current batch began."""


def _pair(obs, action, states: int, pairs: int):
    """A bandit counts actions whatever its context; an MDP counts pairs (s, a)."""
    return action if states == 1 else obs * (pairs // states) + action


@module
class DoublingCounts:
    """Algorithm 2's rule: each arm has its own level l, and a batch closes when its plays reach 2^l; then l grows by one.

    With `states` > 1 the counts are those of state–action pairs.
    """

    states: int = static(default=1)

    def check(self):
        at_least(self, "states", 1)

    def __str__(self) -> str:
        return "Rewards are seen when an arm's plays reach the next power of two (Algorithm 2)."

    def init(self, actions):
        return Levels(jnp.zeros(self.states * actions, int), jnp.ones(self.states * actions, int))

    def step(self, state, obs, action):
        pair = _pair(obs, action, self.states, state.counts.shape[0])
        counts = count(state.counts, pair, jnp.asarray(True))
        reached = counts == state.next
        return Levels(counts, jnp.where(reached, 2 * state.next, state.next)), jnp.any(reached)

    def most(self, horizon, actions):
        return theory.batches_sharp(self.states * actions, horizon)


@module
class DoubledSinceSwitch:
    """TSDE's rule: a batch closes when some count exceeds twice what it was when the batch began.

    The first play of anything exceeds twice zero, so it closes a batch.
    """

    states: int = static(default=1)
    noun: ClassVar[str] = "Rewards are seen when a count exceeds twice its value at the last batch."

    def check(self):
        at_least(self, "states", 1)

    def __str__(self) -> str:
        return self.noun

    def init(self, actions):
        zeros = jnp.zeros(self.states * actions, int)
        return Marks(zeros, zeros)

    def step(self, state, obs, action):
        pair = _pair(obs, action, self.states, state.counts.shape[0])
        counts = count(state.counts, pair, jnp.asarray(True))
        due = jnp.any(counts > 2 * state.mark)
        return Marks(counts, jnp.where(due, counts, state.mark)), due

    def most(self, horizon, actions):
        # A pair closes batches at its 1st, 3rd, 7th, … play at the earliest: others' switches only raise its mark.
        return theory.most_closings(self.states * actions, horizon, lambda level: 2**level)
