"""Schemes that depend on the round alone: their batch ends are known in advance."""

from __future__ import annotations

import itertools
import math
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jax import lax

from .._module import at_least, module, static
from ..declared import fact, rests_on
from ..errors import ConfigError, whole
from .base import NEVER, Batching


class _Clock:
    """Counts rounds; `ends(t)` says whether a batch ends with round t (from 1)."""

    noun: ClassVar[str] = ""

    ends: Any
    next_end: Any
    """The first round after t with which a batch ends."""
    by_rounds = fact("init", "step", "ends")

    def init(self, key, actions):
        return jnp.zeros((), int)

    def step(self, state, obs, action):
        return state + 1, self.ends(state + 1)

    @rests_on("init", "step")
    def room(self, state):
        return jnp.asarray(NEVER, state.dtype), self.next_end(state) - state

    @rests_on("init", "step")
    def advance(self, state, plays):
        t = state + jnp.sum(plays)
        return t, self.ends(t)

    def __str__(self) -> str:
        return self.noun.format(**vars(self))


@module
class Sequential(_Clock, Batching):
    """Batches of one round: every reward is seen before the next action.

    >>> from blts.batching import Sequential
    >>> print(Sequential())
    Rewards are seen after every round.
    """

    noun: ClassVar[str] = "Rewards are seen after every round."

    def ends(self, t):
        return jnp.asarray(True)  # a constant: the loop then holds one state of an agent, not one more for the running batch

    @rests_on("ends")
    def next_end(self, t):
        return t + 1

    @rests_on("init", "step", "ends")
    def max_batches(self, horizon, actions):
        return horizon


@module
class Fixed(_Clock, Batching):
    """Batches of `size` rounds.

    Args:
        size: rounds per batch.

    >>> from blts.batching import Fixed
    >>> print(Fixed(10))
    Rewards are seen every 10 rounds.
    """

    size: int = static()
    noun: ClassVar[str] = "Rewards are seen every {size} rounds."

    def check(self):
        at_least(self, "size", 1)

    def ends(self, t):
        return t % self.size == 0

    @rests_on("ends")
    def next_end(self, t):
        return (t // self.size + 1) * self.size

    @rests_on("init", "step", "ends")
    def max_batches(self, horizon, actions):
        return horizon // self.size


@module
class StaticDoubling(_Clock, Batching):
    """Static doubling: batches of 1, 2, 4, … rounds, which end at rounds 1, 3, 7, … (the paper's Section 5).

    >>> from blts.batching import StaticDoubling
    >>> [t for t in range(1, 20) if StaticDoubling().ends(t)]
    [1, 3, 7, 15]
    """

    noun: ClassVar[str] = "Rewards are seen in batches of 1, 2, 4, … rounds."

    def ends(self, t):
        return (t + 1) & t == 0  # t + 1 is a power of two

    @rests_on("ends")
    def next_end(self, t):
        digits = jnp.iinfo(t.dtype).bits - lax.clz(t + 1)
        return (jnp.ones_like(t) << digits) - 1

    @rests_on("init", "step", "ends")
    def max_batches(self, horizon, actions):
        return (horizon + 1).bit_length() - 1


@module
class Grid(_Clock, Batching):
    """Batches that end at the given rounds. `minimax` and `geometric` are the grids of Gao et al. (2019).

    Args:
        times: the rounds with which batches end, in increasing order.

    >>> from blts.batching import Grid
    >>> print(Grid((10, 100)))
    Rewards are seen after rounds 10, 100.
    """

    times: tuple[int, ...] = static()

    def check(self):
        whole = isinstance(self.times, tuple | list | np.ndarray) and all(isinstance(t, int | np.integer) for t in self.times)
        times = tuple(int(t) for t in self.times) if whole else ()
        if not times or times[0] < 1 or any(b <= a for a, b in itertools.pairwise(times)):
            raise ConfigError(f"Grid: times must be rounds from 1 upwards in increasing order; got {self.times!r}.")
        object.__setattr__(self, "times", times)

    def __str__(self) -> str:
        return f"Rewards are seen after rounds {', '.join(map(str, self.times))}."

    def ends(self, t):
        return jnp.any(jnp.asarray(self.times) == t)

    @rests_on("ends")
    def next_end(self, t):
        times = jnp.asarray(self.times, t.dtype)
        return jnp.min(jnp.where(times > t, times, NEVER))

    @rests_on("init", "step", "ends")
    def max_batches(self, horizon, actions):
        return sum(t <= horizon for t in self.times)

    @classmethod
    def minimax(cls, horizon: int, batches: int) -> Grid:
        """u₁ = a, u_j = a √u_{j-1} with a = T^{1/(2 - 2^{1-M})}: minimax regret with M batches.

        Args:
            horizon: T.
            batches: M.

        Returns:
            The grid; its last batch ends at the horizon.

        >>> Grid.minimax(650, 3).times
        (40, 257, 650)
        """
        whole("Grid: batches", batches, 1, horizon)
        a = horizon ** (1 / (2 - 2 ** (1 - batches)))
        u = [a]
        for _ in range(batches - 1):
            u.append(a * math.sqrt(u[-1]))
        return cls(_rounded(u, horizon))

    @classmethod
    def geometric(cls, horizon: int, batches: int) -> Grid:
        """u_j = b^j with b = T^{1/M}: problem-dependent regret with M batches.

        Args:
            horizon: T.
            batches: M.

        Returns:
            The grid; its last batch ends at the horizon.

        >>> Grid.geometric(650, 3).times
        (8, 75, 650)
        """
        whole("Grid: batches", batches, 1, horizon)
        return cls(_rounded([horizon ** (j / batches) for j in range(1, batches + 1)], horizon))


def _rounded(ends: list[float], horizon: int) -> tuple[int, ...]:
    """Whole, increasing rounds, the last of them the horizon."""
    whole = np.floor(np.asarray(ends[:-1]) + 1e-9).astype(int)
    return (*sorted({int(t) for t in whole if 1 <= t < horizon}), horizon)
