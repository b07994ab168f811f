"""Dynamic doubling: schemes that count the plays of each action or state–action pair. There are two readings of the rule."""

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
    """The state of `DoublingCounts`."""

    counts: Int[Array, " pairs"]
    next: Int[Array, " pairs"]
    """The count at which each pair ends a batch next: 2^l of Algorithm 2."""


class Marks(NamedTuple):
    """The state of `DoubledSinceSwitch`."""

    counts: Int[Array, " pairs"]
    mark: Int[Array, " pairs"]
    """The counts when the current batch began."""
    length: Int[Array, ""]
    """Rounds of the current batch so far."""
    previous: Int[Array, ""]
    """Rounds of the batch before it."""


def _pair(obs, action, states: int, pairs: int):
    """The index of a count: the action in a bandit, the pair (s, a) in an MDP."""
    return action if states == 1 else obs * (pairs // states) + action


def _whose(states: int) -> str:
    return "an arm's plays" if states == 1 else "a state–action pair's visits"


@module
class DoublingCounts(Batching):
    """Dynamic doubling as in Algorithm 2: a batch ends when the plays of some arm reach 2^l; that arm's l then grows by one.

    With `states` > 1 the counts are those of state–action pairs. On the command line and in studies its name is "dynamic".

    Args:
        states: how many states an MDP has; 1 for a bandit.
        first: the plays of an arm that end its first batch; then twice as many, and so on. Algorithm 2 has 1.

    >>> from blts.batching import DoublingCounts
    >>> print(DoublingCounts())
    Rewards are seen when an arm's plays reach the next power of two (Algorithm 2).
    >>> print(DoublingCounts(first=32))
    Rewards are seen when an arm's plays reach 32, 64, 128 and so on (Algorithm 2 from 32 plays on).
    """

    states: int = static(default=1)
    first: int = static(default=1)

    def check(self):
        at_least(self, "states", 1)
        at_least(self, "first", 1)

    def __str__(self) -> str:
        if self.first > 1:
            some = f"{self.first}, {2 * self.first}, {4 * self.first} and so on"
            return f"Rewards are seen when {_whose(self.states)} reach {some} (Algorithm 2 from {self.first} plays on)."
        return f"Rewards are seen when {_whose(self.states)} reach the next power of two (Algorithm 2)."

    def init(self, key, actions):
        return Levels(jnp.zeros(self.states * actions, int), jnp.full(self.states * actions, self.first, int))

    def step(self, state, obs, action):
        pair = _pair(obs, action, self.states, state.counts.shape[0])
        after, _ = self._after(state, count(state.counts, pair, jnp.asarray(True)))
        # Counts grow by one, so a level is reached exactly at powers of two. The loop then need not carry the levels.
        n = pick(after.counts, pair)
        if self.first == 1:
            return after, n & (n - 1) == 0
        levels = n // self.first
        return after, (levels * self.first == n) & (levels & (levels - 1) == 0)

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
    def max_batches(self, horizon, actions):
        return theory.max_closings(self.states * actions, horizon, lambda level: self.first * 2 ** max(level - 1, 0))


@module
class DoubledSinceSwitch(Batching):
    """Dynamic doubling relative to the start of the batch: a batch ends when N_t + c > 2 (N_{t_k} + c) for some count.

    N_{t_k} is the count when the batch began and c the prior's pseudo-count. With c = 0 the first play of any arm ends a batch.
    `tsde` also ends a batch that is longer than the one before (Ouyang et al. 2017); `ucrl2` uses ≥ in place of >.

    Args:
        states: how many states an MDP has; 1 for a bandit.
        pseudo_count: c, the prior's weight of a pair in plays.
        linear_growth: whether to also end a batch that is longer than the one before.
        inclusive: whether to end a batch as soon as a count is doubled.

    >>> from blts.batching import DoubledSinceSwitch
    >>> print(DoubledSinceSwitch.tsde(states=6))
    Rewards are seen when a state–action pair's visits exceed twice their value at the last batch, or when a batch is longer than
    the one before.
    """

    states: int = static(default=1)
    pseudo_count: Numbers = array(default=0.0)
    """The prior's weight of a pair in plays, such as the sum of its Dirichlet parameters."""
    linear_growth: bool = static(default=False)
    """Also end a batch that is longer than the one before it: lengths grow by at most one."""
    inclusive: bool = static(default=False)
    """End a batch when a pair's visits in it reach max(1, its visits before), as in UCRL2."""

    def check(self):
        at_least(self, "states", 1)
        ok = (self.pseudo_count >= 0) & (self.pseudo_count < np.inf) if is_concrete(self.pseudo_count) else True
        require(self, ok, f"pseudo_count must be ≥ 0 and finite; got {short(self.pseudo_count)}.")

    @classmethod
    def tsde(cls, states: int, pseudo_count: float = 0.0) -> DoubledSinceSwitch:
        """TSDE's rule: a count has doubled, or the batch is longer than the one before it.

        Args:
            states: how many states the MDP has.
            pseudo_count: the prior's weight of a pair in plays.

        Returns:
            The scheme.
        """
        return cls(states, pseudo_count, linear_growth=True)

    @classmethod
    def ucrl2(cls, states: int) -> DoubledSinceSwitch:
        """UCRL2's rule: a pair was visited as often in the batch as before it.

        Args:
            states: how many states the MDP has.

        Returns:
            The scheme.
        """
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
    def max_batches(self, horizon, actions):
        # A pair with count N at the start of a batch needs more than N + c further plays: 1, 2, 4, … with c = 0. Batches that
        # other pairs end only raise N. A larger c needs more plays, so c = 0 gives the bound.
        cost = (lambda level: 2 ** max(level - 1, 0)) if self.inclusive else (lambda level: 2**level)
        doublings = theory.max_closings(self.states * actions, horizon, cost)
        if not self.linear_growth:
            return doublings
        # The m batches between two doublings last at least 1 + … + m rounds.
        return min(horizon, doublings + math.isqrt(2 * horizon * (doublings + 1)) + 1)
