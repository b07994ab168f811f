"""How the means of a bandit change from round to round."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from .. import _random
from .._module import Contract, array, finite, is_concrete, module, positive, require, short, static
from .._typing import Array, Float, Int, Numbers, PRNGKey
from ..declared import required, rests_on
from ..errors import ConfigError

Means = Float[Array, " arms"]


class Drift(Contract):
    """How the means of a bandit change: inherit from this to write a drift for `Drifting`.

    A subclass is a frozen dataclass whose annotated fields are its arguments (see `module`); it must define `after` and `limits`.

    >>> from blts import Drift, Seasonal
    >>> issubclass(Seasonal, Drift)
    True
    """

    def first(self, base: Means) -> Means:
        """The means of round 1.

        Args:
            base: the means that the bandit was given.

        Returns:
            By default the same.
        """
        return base

    @required
    def after(self, key: PRNGKey, t: Int[Array, ""], base: Means, means: Means) -> Means:
        """The means of the next round.

        Args:
            key: for this round.
            t: the round that was played, from 1.
            base: the means that the bandit was given.
            means: those of round t.

        Returns:
            The means of round t + 1.
        """
        raise NotImplementedError

    @required
    def limits(self, base: np.ndarray) -> tuple[float, float]:
        """Between which numbers all means stay, whatever is drawn; the model must allow both.

        Args:
            base: the means that the bandit was given.

        Returns:
            The lowest and the highest; infinite where there is no limit.
        """
        raise NotImplementedError


@module
class RandomWalk(Drift):
    """Each mean moves by an independent N(0, sd²) a round; it is reflected at `low` and at `high`, where these are given.

    Args:
        sd: of the change of a mean in one round.
        low: the lowest mean; None for no limit.
        high: the highest mean; None for no limit.

    >>> from blts.envs import RandomWalk
    >>> print(RandomWalk(0.02, low=0.0, high=1.0))
    each mean moves by N(0, 0.02²) a round, reflected at 0 and 1
    """

    sd: Numbers = array()
    low: Numbers = array(default=None)
    high: Numbers = array(default=None)

    def check(self):
        positive(self, "sd")
        for name in ("low", "high"):
            if getattr(self, name) is not None:
                finite(self, name)
        if self.low is not None and self.high is not None and is_concrete(self.low):
            require(self, self.low < self.high, f"low must be below high; got {short(self.low)} and {short(self.high)}.")

    def __str__(self) -> str:
        named = [short(limit) for limit in (self.low, self.high) if limit is not None]
        return f"each mean moves by N(0, {short(self.sd)}²) a round" + (f", reflected at {' and '.join(named)}" if named else "")

    def after(self, key, t, base, means):
        moved = means + self.sd * _random.normal(key, means.shape)
        if self.low is not None:
            moved = jnp.where(moved < self.low, 2 * self.low - moved, moved)
        if self.high is not None:
            moved = jnp.where(moved > self.high, 2 * self.high - moved, moved)
        return jnp.clip(moved, self.low, self.high)  # a step longer than the whole interval ends at its limit

    @rests_on("after")
    def limits(self, base):
        low = -np.inf if self.low is None else float(self.low)
        high = np.inf if self.high is None else float(self.high)
        if base.min() < low or base.max() > high:
            raise ConfigError(f"RandomWalk: the means must begin between low and high; got {short(base)}.")
        return low, high


@module
class AbruptChanges(Drift):
    """At some rounds the means change places: each arm takes the mean of the arm k places on, k drawn from 1 … arms - 1.

    So the best arm is another one after every change, and the means are the same numbers throughout.

    Args:
        times: the rounds after which they change; None where `rate` is given.
        rate: the probability that they change after a round; None where `times` are given.

    >>> from blts.envs import AbruptChanges
    >>> print(AbruptChanges(times=(500, 800)))
    the arms exchange their means after rounds 500, 800
    """

    times: tuple[int, ...] | None = static(default=None)
    rate: Numbers = array(default=None)

    def check(self):
        if (self.times is None) == (self.rate is None):
            raise ConfigError("AbruptChanges: give either times, the rounds of the changes, or rate, their probability a round.")
        if self.rate is not None:
            ok = (self.rate > 0) & (self.rate <= 1) if is_concrete(self.rate) else True
            require(self, ok, f"rate must be a probability above 0; got {short(self.rate)}.")
            return
        whole = isinstance(self.times, tuple | list | np.ndarray) and all(isinstance(t, int | np.integer) for t in self.times)
        times = tuple(int(t) for t in self.times) if whole else ()  # type: ignore[union-attr]
        if not times or min(times) < 1:
            raise ConfigError(
                f"AbruptChanges: times must be a list of rounds from 1 upwards, such as [500, 1000]; got {self.times!r}."
            )
        object.__setattr__(self, "times", times)

    def __str__(self) -> str:
        if self.times is None:
            return f"the arms exchange their means after a round with probability {short(self.rate)}"
        return f"the arms exchange their means after rounds {', '.join(map(str, self.times))}"

    def after(self, key, t, base, means):
        key_when, key_which = _random.split(key)
        arms = means.shape[0]
        now = _random.uniform(key_when) < self.rate if self.times is None else jnp.any(jnp.asarray(self.times) == t)
        places = 1 + jnp.minimum((_random.uniform(key_which) * (arms - 1)).astype(int), arms - 2)
        return jnp.where(now, means[(jnp.arange(arms) + places) % arms], means)

    @rests_on("after")
    def limits(self, base):
        if base.size < 2:
            raise ConfigError("AbruptChanges: one arm has none to exchange its mean with; give two arms or more.")
        return float(base.min()), float(base.max())


@module
class Seasonal(Drift):
    """The mean of arm a of K in round t is base + amplitude · sin 2π (t/period + a/K): seasons that each arm has at its own time.

    Args:
        period: the rounds after which means repeat.
        amplitude: by how much a mean rises above its base, and falls below it.

    >>> from blts.envs import Seasonal
    >>> print(Seasonal(period=500, amplitude=0.2))
    each mean rises and falls by 0.2 with a period of 500 rounds, at its own time
    """

    period: Numbers = array()
    amplitude: Numbers = array()

    def check(self):
        positive(self, "period", "amplitude")

    def __str__(self) -> str:
        size, period = short(self.amplitude), short(self.period)
        return f"each mean rises and falls by {size} with a period of {period} rounds, at its own time"

    def _at(self, t, base: Means) -> Means:
        arms = base.shape[0]
        return base + self.amplitude * jnp.sin(2 * jnp.pi * (t / self.period + jnp.arange(arms) / arms))

    def first(self, base):
        return self._at(1, base)

    def after(self, key, t, base, means):
        return self._at(t + 1, base)

    @rests_on("after")
    def limits(self, base):
        return float(base.min() - self.amplitude), float(base.max() + self.amplitude)
