"""A batching scheme: batches that grow by half."""

from typing import NamedTuple

import jax.numpy as jnp

from blts import Batching, ConfigError, array


class Round(NamedTuple):
    number: jnp.ndarray
    end: jnp.ndarray
    """The round with which the batch ends."""


class Growing(Batching):
    """Each batch ends at `factor` times the round of the last end, rounded up: 1, 2, 3, 5, 8, 12, …"""

    factor: float = array(default=1.5)

    def check(self):
        if not self.factor > 1:
            raise ConfigError(f"Growing: factor must be above 1; got {self.factor}.")

    def init(self, key, actions):
        return Round(jnp.zeros((), int), jnp.ones((), int))

    def step(self, state, obs, action):
        number = state.number + 1
        due = number >= state.end
        later = jnp.maximum(jnp.ceil(self.factor * number).astype(int), number + 1)
        return Round(number, jnp.where(due, later, state.end)), due
