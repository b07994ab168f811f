"""Batches of random length."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from .. import _random
from .._module import array, is_concrete, module, require, short
from .._typing import Array, Int, Numbers, PRNGKey
from ..declared import fact
from .base import Batching


class Coin(NamedTuple):
    """The state of `Geometric`."""

    key: PRNGKey
    t: Int[Array, ""]


@module
class Geometric(Batching):
    """A batch ends after each round with probability `rate`, so lengths are geometric (continuing PSRL, Xu et al. 2022).

    Args:
        rate: the probability that a batch ends with a round.

    >>> from blts.batching import Geometric
    >>> print(Geometric(0.01))
    Rewards are seen after a round with probability 0.01.
    """

    rate: Numbers = array(default=0.01)
    by_rounds = fact("init", "step")

    def check(self):
        ok = (self.rate > 0) & (self.rate <= 1) if is_concrete(self.rate) else True
        require(self, ok, f"rate must be a probability above 0; got {short(self.rate)}.")

    def __str__(self) -> str:
        return f"Rewards are seen after a round with probability {short(self.rate)}."

    def init(self, key, actions):
        return Coin(key, jnp.zeros((), int))

    def step(self, state, obs, action):
        t = state.t + 1
        return Coin(state.key, t), _random.uniform(_random.fold_in(state.key, t)) < self.rate
