"""Batches that also end when they are old."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from .._module import at_least, module, require_part, static
from .._typing import Array, Int, Tree
from ..declared import provides, rests_on
from ..errors import ConfigError
from .base import Batching


class Age(NamedTuple):
    """The state of `Aged`."""

    scheme: Tree
    """That of the other scheme."""
    rounds: Int[Array, ""]
    """Rounds of the current batch so far."""


@module
class Aged(Batching):
    """A batch ends when it does under another scheme, or after `rounds` rounds, whichever comes first.

    Where means drift, batches that grow for ever leave the agent with what it believed long ago. The other scheme counts on as if
    it alone ended batches.

    Args:
        scheme: the other scheme.
        rounds: the largest number of rounds in a batch.

    >>> from blts.batching import Aged, DoublingCounts
    >>> print(Aged(DoublingCounts(), 50))
    Rewards are seen when an arm's plays reach the next power of two (Algorithm 2), and after 50 rounds at the latest.
    """

    scheme: Batching
    rounds: int = static()

    def check(self):
        require_part("Aged: scheme", self.scheme, Batching, "DoublingCounts()")
        at_least(self, "rounds", 1)
        if provides(self.scheme, "sent"):
            raise ConfigError(
                f"Aged: {type(self.scheme).__name__} counts the messages of its own batches, and none of those that end by age; "
                "give it a rule such as Exchanges(10, Fixed(65))."
            )

    def __str__(self) -> str:
        return f"{str(self.scheme).rstrip('.')}, and after {self.rounds} rounds at the latest."

    @property
    def states(self) -> int | None:
        return self.scheme.states

    def init(self, key, actions):
        return Age(self.scheme.init(key, actions), jnp.zeros((), int))

    def step(self, state, obs, action):
        scheme, due = self.scheme.step(state.scheme, obs, action)
        return self._after(scheme, due, state.rounds + 1)

    def _after(self, scheme, due, rounds):
        due = due | (rounds >= self.rounds)
        return Age(scheme, jnp.where(due, 0, rounds)), due

    @rests_on("init", "step", "_after")
    def room(self, state):
        plays, rounds = self.scheme.room(state.scheme)
        return plays, jnp.minimum(rounds, (self.rounds - state.rounds).astype(rounds.dtype))

    @rests_on("init", "step", "_after")
    def advance(self, state, plays):
        scheme, due = self.scheme.advance(state.scheme, plays)
        return self._after(scheme, due, state.rounds + jnp.sum(plays))

    @rests_on("init", "step", "_after")
    def max_batches(self, horizon, actions):
        return min(horizon, self.scheme.max_batches(horizon, actions) + horizon // self.rounds)
