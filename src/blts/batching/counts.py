"""Schemes that count plays, of an action or of a state–action pair: the two readings of "dynamic doubling"."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from .. import theory
from .._module import array, at_least, is_concrete, module, require, short, static
from .._typing import Array, Int, Numbers
from ..arrays import count, pick
from ..declared import rests_on
from .base import NEVER, Batching


class Levels(NamedTuple):
    counts: Int[Array, " pairs"]
    next: Int[Array, " pairs"]
    """The count at which each pair closes its next batch, 2^l of Algorithm 2."""


class Marks(NamedTuple):
    counts: Int[Array, " pairs"]
    mark: Int[Array, " pairs"]
    """The counts when the current batch began."""
    length: Int[Array, ""]
    """Rounds of the current batch so far."""
    previous: Int[Array, ""]
    """Rounds of the batch before it."""


def _pair(obs, action, states: int, pairs: int):
    """A bandit counts actions whatever its context; an MDP counts pairs (s, a)."""
    return action if states == 1 else obs * (pairs // states) + action


def _whose(states: int) -> str:
    return "an arm's plays" if states == 1 else "a state–action pair's visits"


@module
class DoublingCounts(Batching):
    """Algorithm 2's rule: each arm has its own level l, and a batch closes when its plays reach 2^l; then l grows by one.

    With `states` > 1 the counts are those of state–action pairs.

    Args:
        states: how many states an MDP has; 1 for a bandit.
    """

    states: int = static(default=1)

    def check(self):
        at_least(self, "states", 1)

    def __str__(self) -> str:
        return f"Rewards are seen when {_whose(self.states)} reach the next power of two (Algorithm 2)."

    def init(self, key, actions):
        return Levels(jnp.zeros(self.states * actions, int), jnp.ones(self.states * actions, int))

    def step(self, state, obs, action):
        pair = _pair(obs, action, self.states, state.counts.shape[0])
        after, _ = self._after(state, count(state.counts, pair, jnp.asarray(True)))
        # One more play reaches a level where it makes a power of two: nothing in a run then reads the levels, or carries them.
        n = pick(after.counts, pair)
        return after, n & (n - 1) == 0

    @rests_on("init", "step", "_after")
    def room(self, state):
        return state.next - state.counts, jnp.asarray(NEVER, state.next.dtype)

    @rests_on("init", "step", "_after")
    def advance(self, state, plays):
        return self._after(state, state.counts + plays)

    def _after(self, state, counts):
        reached = counts == state.next
        return Levels(counts, jnp.where(reached, 2 * state.next, state.next)), jnp.any(reached)

    @rests_on("init", "step", "_after")
    def most(self, horizon, actions):
        return theory.batches_sharp(self.states * actions, horizon)


@module
class DoubledSinceSwitch(Batching):
    """A batch closes when some count, with the prior's pseudo-count c, exceeds twice what it was when the batch began:
    N_t + c > 2 (N_{t_k} + c).

    With c = 0 the first play of anything exceeds twice zero, so it closes a batch. Two variants have names of their own:
    `tsde` adds the linear growth of Ouyang et al. (2017), `ucrl2` closes as soon as the count *is* doubled.

    Args:
        states: how many states an MDP has; 1 for a bandit.
        pseudo_count: c, what the prior is worth to a pair.
        linear_growth: whether to also close a batch that is longer than the one before.
        inclusive: whether to close as soon as a count is doubled.
    """

    states: int = static(default=1)
    pseudo_count: Numbers = array(default=0.0)
    """What the prior is worth to a pair: the sum of its Dirichlet parameters, where the prior counts as visits."""
    linear_growth: bool = static(default=False)
    """Also close a batch that is longer than the one before it: lengths grow by at most one."""
    inclusive: bool = static(default=False)
    """Close when a pair's visits in the batch reach max(1, its visits before), as UCRL2 does."""

    def check(self):
        at_least(self, "states", 1)
        ok = (self.pseudo_count >= 0) & (self.pseudo_count < np.inf) if is_concrete(self.pseudo_count) else True
        require(self, ok, f"pseudo_count must be ≥ 0 and finite; got {short(self.pseudo_count)}.")

    @classmethod
    def tsde(cls, states: int, pseudo_count: float = 0.0) -> DoubledSinceSwitch:
        """TSDE's rule: a count has doubled, or the batch is longer than the one before it."""
        return cls(states, pseudo_count, linear_growth=True)

    @classmethod
    def ucrl2(cls, states: int) -> DoubledSinceSwitch:
        """UCRL2's rule: a pair was visited as often in the batch as before it."""
        return cls(states, inclusive=True)

    def __str__(self) -> str:
        verb = "reach" if self.inclusive else "exceed"
        prior = f" with {short(self.pseudo_count)} pseudo-counts" if is_concrete(self.pseudo_count) and self.pseudo_count else ""
        growth = ", or when a batch is longer than the one before" if self.linear_growth else ""
        return f"Rewards are seen when {_whose(self.states)}{prior} {verb} twice their value at the last batch{growth}."

    def init(self, key, actions):
        zeros, zero = jnp.zeros(self.states * actions, int), jnp.zeros((), int)
        return Marks(zeros, zeros, zero, zero)

    def step(self, state, obs, action):
        pair = _pair(obs, action, self.states, state.counts.shape[0])
        return self._after(state, count(state.counts, pair, jnp.asarray(True)), state.length + 1)

    @rests_on("init", "step", "_after")
    def room(self, state):
        goal = state.mark + self.pseudo_count
        enough = jnp.ceil(jnp.maximum(1, goal)) if self.inclusive else jnp.floor(goal) + 1
        longer = state.previous + 1 - state.length if self.linear_growth else NEVER
        return enough.astype(state.mark.dtype) - (state.counts - state.mark), jnp.asarray(longer, state.length.dtype)

    @rests_on("init", "step", "_after")
    def advance(self, state, plays):
        return self._after(state, state.counts + plays, state.length + jnp.sum(plays))

    def _after(self, state, counts, length):
        new = counts - state.mark
        doubled = new >= jnp.maximum(1, state.mark + self.pseudo_count) if self.inclusive else new > state.mark + self.pseudo_count
        due = jnp.any(doubled)
        if self.linear_growth:
            due = due | (length > state.previous)
        mark = jnp.where(due, counts, state.mark)
        return Marks(counts, mark, jnp.where(due, 0, length), jnp.where(due, length, state.previous)), due

    @rests_on("init", "step", "_after")
    def most(self, horizon, actions):
        # A pair with count N at a switch needs more than N + c further plays: 1, 2, 4, … with c = 0. Others' switches
        # only raise its mark. A larger c costs more, so c = 0 bounds them all.
        cost = (lambda level: 2 ** max(level - 1, 0)) if self.inclusive else (lambda level: 2**level)
        doublings = theory.most_closings(self.states * actions, horizon, cost)
        if not self.linear_growth:
            return doublings
        # Between two doublings m batches last at least 1 + … + m rounds, or the horizon would allow fewer.
        return min(horizon, doublings + math.isqrt(2 * horizon * (doublings + 1)) + 1)
