"""A choice among several schemes that shares one compiled program."""

from __future__ import annotations

import jax.numpy as jnp

from .._module import array, module
from .._typing import Numbers
from ..declared import fact, rests_on
from ..errors import ConfigError
from .base import Batching


@module
class OneOf(Batching):
    """Scheme `number` of several. All advance and one decides, so changing the number does not compile again.

    Args:
        schemes: the schemes to choose from.
        number: which one decides, from 0.

    >>> from blts.batching import DoublingCounts, OneOf, Sequential
    >>> print(OneOf((Sequential(), DoublingCounts()), 0))
    Rewards are seen after every round.
    """

    schemes: tuple[Batching, ...]
    number: Numbers = array(default=0, dtype=int)

    def check(self):
        if not self.schemes or not 0 <= int(self.number) < len(self.schemes):
            raise ConfigError(f"OneOf: number must be from 0 to {len(self.schemes) - 1}; got {self.number}.")

    @property
    def by_rounds(self) -> bool:
        """Whether that holds for the one that decides."""
        return self._steps_as_schemes and self.schemes[int(self.number)].by_rounds

    _steps_as_schemes = fact("init", "step")

    def __str__(self) -> str:
        return str(self.schemes[int(self.number)])

    def init(self, key, actions):
        return tuple(scheme.init(key, actions) for scheme in self.schemes)

    def step(self, state, obs, action):
        states, due = zip(*(scheme.step(one, obs, action) for scheme, one in zip(self.schemes, state, strict=True)), strict=True)
        return states, jnp.stack(due)[self.number]

    @rests_on("init", "step")
    def room(self, state):
        left, rounds = zip(*(scheme.room(one) for scheme, one in zip(self.schemes, state, strict=True)), strict=True)
        return jnp.stack(jnp.broadcast_arrays(*left))[self.number], jnp.stack(rounds)[self.number]

    @rests_on("init", "step")
    def advance(self, state, plays):
        # Inactive schemes also advance; their result is ignored.
        states, due = zip(*(scheme.advance(one, plays) for scheme, one in zip(self.schemes, state, strict=True)), strict=True)
        return states, jnp.stack(due)[self.number]

    @rests_on("init", "step")
    def max_batches(self, horizon, actions):
        return max(scheme.max_batches(horizon, actions) for scheme in self.schemes)
