"""Delays of rewards: how many rounds after its own a reward is told. One law a class.

A delay of 0 is no delay: the reward is told at the end of its round. A negative one says that the reward never comes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from . import _random
from ._module import Contract, array, module, parts_within, positive, require_part, short, static
from ._typing import Array, Float, Int, Numbers, PRNGKey, Tree
from .arrays import pick
from .declared import optional, provides, required, rests_on, why_lost
from .errors import ConfigError, counted, shown
from .untraceable import untraceable

NEVER = -1
LAST_BLOCK = 2**24 - 1  # of the key of a delay: a law draws from the first ones
LONGEST = 2**30  # rounds: whole numbers of 32 bits have room for a round and a delay


class Delay(Contract):
    """The distribution of delays. Inherit from this to write one; it must define `sample`.

    With `share_by` it can also be what `Conversions` corrects by.

    >>> import jax.numpy as jnp
    >>> from blts import random
    >>> from blts.delays import Delay
    >>> class Uniform(Delay):
    ...     longest: int
    ...
    ...     def sample(self, key, obs, action):
    ...         return jnp.floor(random.uniform(key) * (self.longest + 1)).astype(int)
    >>> int(Uniform(5).sample(random.key(0), (), 0)) <= 5
    True
    """

    @required
    def sample(self, key: PRNGKey, obs: Tree, action: Int[Array, ""]) -> Int[Array, ""]:
        """Draw the delay of one reward.

        Args:
            key: of the round.
            obs: what the round showed.
            action: what was played.

        Returns:
            Rounds, a whole number; negative for a reward that never comes.
        """
        raise NotImplementedError

    @optional
    def share_by(self, age: Int[Array, "..."], action: Int[Array, "..."]) -> Float[Array, "..."]:
        """P(delay ≤ age): the share of rewards that are told when so many rounds have passed.

        Args:
            age: rounds since that of the play, 0 at its end.
            action: what was played, of the same shape.

        Returns:
            Numbers from 0 to 1.
        """
        raise NotImplementedError


def knows_shares(delay: Delay) -> bool:
    """Whether a law says which share of rewards has come by an age, and so do the laws that it is made of.

    Args:
        delay: the law. A subclass that overrides `sample` alone has lost `share_by`.

    Returns:
        Whether `Conversions` can correct by it.

    >>> from blts.delays import DelayFunction, GeometricDelay, LostRewards, knows_shares
    >>> knows_shares(LostRewards(0.5, GeometricDelay(50)))
    True
    >>> knows_shares(LostRewards(0.5, DelayFunction(lambda key, obs, action: 1)))
    False
    """
    return without_shares(delay) is None


def without_shares(delay: Delay) -> Delay | None:
    """The law that does not say which share of rewards has come: itself, or the one that it is made of; None where all do."""
    if not provides(delay, "share_by"):
        return delay
    return next(filter(None, map(without_shares, _inner(delay))), None)


def check_shares(name: str, delay: Delay) -> None:
    """Refuse a law whose `share_by` is missing, or does not return a share for each age.

    Args:
        name: of what needs it.
        delay: the law.

    Raises:
        ConfigError: what to change.
    """
    if lacking := without_shares(delay):
        why = why_lost(lacking, "share_by")
        mend = why.rstrip(".") if why else "give it share_by"
        raise ConfigError(
            f"{name}: {type(lacking).__name__} does not say which share of rewards has come; {mend}, or take delay='learned'."
        )
    some = jnp.zeros(2, int)
    try:
        found: Any = jax.eval_shape(lambda law, age: _shares(law.share_by(age, jnp.zeros_like(age))), delay, some)
    except (TypeError, ValueError) as error:
        why = untraceable(error)
        if why is None:
            raise
        raise ConfigError(f"{name}: {why}") from error
    if found is None or found.shape not in ((), some.shape):
        got = (
            "no numbers" if found is None else f"an array of the shape {list(found.shape)} for ages of the shape {list(some.shape)}"
        )
        raise ConfigError(f"{name}: share_by of {type(delay).__name__} must return a number for each age; it returned {got}.")
    own = next((each for each in parts_within(delay) if not type(each).__module__.startswith("blts.")), None)
    if own is not None:
        age = jnp.arange(1000)
        shares = np.broadcast_to(np.asarray(delay.share_by(age, jnp.zeros_like(age)), float), age.shape)
        if not (shares[0] >= 0 and (np.diff(shares) >= -1e-5).all() and shares[-1] <= 1 + 1e-5):
            raise ConfigError(
                f"{name}: share_by of {type(own).__name__} must return shares from 0 to 1 that do not decrease with the age; for "
                f"ages of 0, 1, 10, 100 and 999 rounds it returned {short(shares[[0, 1, 10, 100, 999]])}."
            )


def _shares(found: Any) -> Any:
    """What `share_by` returned as an array; None where it is none."""
    return jnp.asarray(found) if isinstance(found, jax.Array | np.ndarray | np.generic | float | int) else None


def _inner(delay: Delay) -> tuple[Delay, ...]:
    """The laws that a law is made of."""
    return delay.laws if isinstance(delay, DelayByArm) else (delay.delay,) if isinstance(delay, LostRewards) else ()


def check_arms(name: str, delay: Delay, arms: int) -> None:
    """Refuse laws by arm that are more or fewer than the arms.

    Args:
        name: of what is late.
        delay: the law.
        arms: how many arms there are.

    Raises:
        ConfigError: the numbers differ.
    """
    if isinstance(delay, DelayByArm) and len(delay.laws) != arms:
        raise ConfigError(f"{name}: DelayByArm has {len(delay.laws)} laws for {arms} arms; give one law for each arm.")
    for law in _inner(delay):
        check_arms(name, law, arms)


def _whole(delay: Array) -> Int[Array, "..."]:
    return jnp.minimum(jnp.floor(delay), LONGEST).astype(int)


@module
class FixedDelay(Delay):
    """Every reward is told so many rounds later.

    Args:
        rounds: how many.

    >>> from blts import FixedDelay
    >>> print(FixedDelay(10))
    10 rounds late
    """

    rounds: Numbers = array(dtype=int)

    def check(self):
        if not 0 <= self.rounds <= LONGEST:
            raise ConfigError(f"FixedDelay: rounds must be a whole number from 0 to {LONGEST}; got {self.rounds}.")

    def __str__(self) -> str:
        return f"{counted(int(self.rounds), 'round')} late"

    def sample(self, key, obs, action):
        return jnp.asarray(self.rounds, int)

    @rests_on("sample")
    def share_by(self, age, action):
        return jnp.where(age >= self.rounds, 1.0, 0.0)


@module
class GeometricDelay(Delay):
    """Every round each reward that is due is told with the same probability: P(delay = d) = q (1 - q)^d, q = 1 / (1 + mean).

    Args:
        mean: the mean delay in rounds.

    >>> from blts import GeometricDelay
    >>> print(GeometricDelay(50))
    late by a geometric delay of mean 50 rounds
    """

    mean: Numbers = array()

    def check(self):
        positive(self, "mean")

    def __str__(self) -> str:
        return f"late by a geometric delay of mean {float(self.mean):g} rounds"

    def sample(self, key, obs, action):
        # P(⌊E / r⌋ ≥ d) = exp(-r d) for E ~ Exp(1): r = -log(1 - q) = log(1 + 1 / mean).
        return _whole(-jnp.log1p(-_random.uniform(key)) / jnp.log1p(1 / self.mean))

    @rests_on("sample")
    def share_by(self, age, action):
        return -jnp.expm1(-(age + 1) * jnp.log1p(1 / self.mean))


@module
class ParetoDelay(Delay):
    """Heavy tails: P(delay ≥ d) = (1 + d / scale)^-shape. With shape ≤ 1 the mean is infinite.

    Args:
        shape: the exponent of the tail.
        scale: in rounds; half of all delays are below scale · (2^(1/shape) - 1).

    >>> from blts import ParetoDelay
    >>> print(ParetoDelay(1.5, 10.0))
    late by a Pareto delay of shape 1.5 and scale 10 rounds
    """

    shape: Numbers = array()
    scale: Numbers = array(default=1.0)

    def check(self):
        positive(self, "shape", "scale")

    def __str__(self) -> str:
        return f"late by a Pareto delay of shape {float(self.shape):g} and scale {float(self.scale):g} rounds"

    def sample(self, key, obs, action):
        return _whole(self.scale * jnp.expm1(-jnp.log1p(-_random.uniform(key)) / self.shape))

    @rests_on("sample")
    def share_by(self, age, action):
        return 1 - (1 + (age + 1) / self.scale) ** -self.shape


@module
class EmpiricalDelay(Delay):
    """A delay that was recorded, each with the same probability.

    Args:
        rounds: the recorded delays, whole numbers; negative ones are rewards that never came.

    >>> from blts import EmpiricalDelay
    >>> print(EmpiricalDelay([0, 2, 2, 7, -1]))
    late by one of 5 recorded delays
    """

    rounds: Numbers = array(ndim=1, dtype=int)

    def check(self):
        if not (np.size(self.rounds) and np.max(self.rounds) <= LONGEST):
            raise ConfigError(f"EmpiricalDelay: rounds must be recorded delays of at most {LONGEST} rounds, one at least.")

    def __str__(self) -> str:
        return f"late by one of {np.size(self.rounds)} recorded delays"

    def sample(self, key, obs, action):
        n = np.size(self.rounds)
        return jnp.asarray(self.rounds, int)[jnp.minimum((n * _random.uniform(key)).astype(int), n - 1)]

    @rests_on("sample")
    def share_by(self, age, action):
        rounds = jnp.asarray(self.rounds, int)
        return jnp.mean((rounds >= 0) & (rounds <= jnp.asarray(age)[..., None]), -1)


@module
class LostRewards(Delay):
    """A share of the rewards never comes; the others are as late as another law says.

    Args:
        share: the probability that a reward never comes.
        delay: of the others; by default they are told at once.

    >>> from blts import LostRewards
    >>> float(LostRewards(0.5).share)
    0.5
    """

    share: Numbers = array()
    delay: Delay = None  # type: ignore[assignment]

    def check(self):
        if not 0 <= self.share <= 1:
            raise ConfigError(f"LostRewards: share must be a probability; got {float(self.share):g}.")
        delay = FixedDelay(0) if self.delay is None else self.delay
        require_part("LostRewards: delay", delay, Delay, "GeometricDelay(50)")
        object.__setattr__(self, "delay", delay)

    def __str__(self) -> str:
        return f"{self.delay}, and {100 * float(self.share):g} % never come"

    def sample(self, key, obs, action):
        lost = _random.uniform_pair(key, LAST_BLOCK)[0] < self.share
        return jnp.where(lost, NEVER, self.delay.sample(key, obs, action))

    @rests_on("sample")
    def share_by(self, age, action):
        return (1 - self.share) * self.delay.share_by(age, action)


@module
class DelayByArm(Delay):
    """Each arm has its own law.

    Args:
        laws: one for each arm, in the order of the arms.

    >>> from blts import DelayByArm, FixedDelay
    >>> print(DelayByArm((FixedDelay(1), FixedDelay(20))))
    1 round late (arm 0), 20 rounds late (arm 1)
    """

    laws: tuple[Delay, ...]

    def check(self):
        object.__setattr__(self, "laws", tuple(self.laws))
        if not self.laws:
            raise ConfigError("DelayByArm: give a law for each arm, one at least.")
        for law in self.laws:
            require_part("DelayByArm: laws", law, Delay, "GeometricDelay(50)")

    def __str__(self) -> str:
        return ", ".join(f"{law} (arm {i})" for i, law in enumerate(self.laws))

    def sample(self, key, obs, action):
        return pick(jnp.stack([law.sample(key, obs, action) for law in self.laws]), action)

    @rests_on("sample")
    def share_by(self, age, action):
        shares = jnp.stack([law.share_by(age, action) for law in self.laws])
        return jnp.take_along_axis(shares, jnp.asarray(action)[None], 0)[0]


@module
class DelayFunction(Delay):
    """A function of what the round showed and of the action, such as a delay that depends on the context.

    Args:
        function: `function(key, obs, action)`, written in JAX, gives a whole number of rounds; negative for never.

    >>> from blts import DelayFunction
    >>> def by_hour(key, obs, action):
    ...     return obs[0]
    >>> print(DelayFunction(by_hour))
    late by by_hour of context and action
    """

    function: Callable[..., Any] = static()

    def check(self):
        if not callable(self.function):
            raise ConfigError(f"DelayFunction: function must be a function(key, obs, action); got {shown(self.function)}.")

    def __str__(self) -> str:
        return f"late by {getattr(self.function, '__name__', 'a function')} of context and action"

    def sample(self, key, obs, action):
        return jnp.asarray(self.function(key, obs, action))  # `Late` refuses what is not a whole number


WORDS: dict[str, tuple[type[Delay], tuple[str, ...]]] = {
    "fixed": (FixedDelay, ("rounds",)),
    "geometric": (GeometricDelay, ("mean",)),
    "pareto": (ParetoDelay, ("shape", "scale")),
}
"""The laws that can be written in words, and their numbers in order."""
EXAMPLES = '"fixed 10", "geometric 50" or "pareto 1.5 10"'


def delay_of(given: Delay | str | float) -> Delay:
    """A law from its words.

    Args:
        given: "fixed 10", "geometric 50", "pareto 1.5 10" (shape and scale), a number of rounds, or a law as it is.

    Returns:
        The law.

    Raises:
        ConfigError: it is none of these.

    >>> from blts.delays import delay_of
    >>> delay_of("geometric 50")
    GeometricDelay(mean=50)
    """
    if isinstance(given, Delay):
        return given
    if not isinstance(given, str | int | float | np.number):
        require_part("delay", given, Delay, 'GeometricDelay(50), or words such as "geometric 50"')
    name, *numbers = str(given).split() if isinstance(given, str) else ("fixed", str(given))
    try:
        kind, names = WORDS[name]
        values = dict(zip(names, map(float, numbers), strict=True))
    except (KeyError, ValueError):
        raise ConfigError(f"delay must be a number of rounds or words such as {EXAMPLES}; got {given!r}.") from None
    if kind is FixedDelay:
        if not (math.isfinite(values["rounds"]) and values["rounds"] == int(values["rounds"])):
            raise ConfigError(f"delay must be a whole number of rounds; got {given!r}.")
        return FixedDelay(int(values["rounds"]))
    return kind(**values)
