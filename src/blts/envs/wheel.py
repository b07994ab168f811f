"""The wheel of Riquelme et al. (2018), a world where exploring pays rarely and much."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from .. import _random
from .._module import array, module, positive, require
from .._typing import Array, Float, Numbers
from ..contexts import Features
from ..declared import rests_on
from .base import Env, Step, gaps_of


def with_constant(obs: Float[Array, " dim"], action) -> Float[Array, " dim"]:
    """The context followed by a constant, for linear agents.

    Args:
        obs: the context.
        action: any.

    Returns:
        One number more than the context has.
    """
    del action
    return jnp.append(obs, 1.0)


@module
class Wheel(Env):
    """Five arms, and contexts that are uniform on the unit disc (Riquelme et al. 2018, section 5.4).

    Arm 0 always pays `safe`. The others pay `low`, but outside the radius `delta` the arm of the context's quadrant pays `high`.
    That is a share 1 - delta² of the rounds: the larger `delta`, the rarer is what must be found.

    Args:
        delta: the radius within which arm 0 is best, between 0 and 1.
        low: the mean reward of arms 1 to 4 elsewhere than in their own quadrant outside.
        safe: the mean reward of arm 0.
        high: the mean reward of an arm in its own quadrant outside.
        sd: of the rewards.

    >>> from blts.envs import Wheel
    >>> print(Wheel(0.95))
    The wheel of five arms: 1.2 from arm 0, 50 from the arm of a quadrant in the 9.75 % of rounds outside the radius 0.95, else 1.
    """

    delta: Numbers = array(default=0.95)
    low: Numbers = array(default=1.0)
    safe: Numbers = array(default=1.2)
    high: Numbers = array(default=50.0)
    sd: Numbers = array(default=0.01)

    def check(self):
        positive(self, "sd")
        require(self, (self.delta > 0) & (self.delta < 1), f"delta must be between 0 and 1; got {self.delta}.")
        require(self, (self.low < self.safe) & (self.safe < self.high), "low < safe < high must hold.")

    def __str__(self) -> str:
        rare = f"{self.high:g} from the arm of a quadrant in the {100 * (1 - self.delta**2):.4g} % of rounds outside the radius"
        return f"The wheel of five arms: {self.safe:g} from arm 0, {rare} {self.delta:g}, else {self.low:g}."

    @property
    def actions(self) -> int:
        return 5

    @property
    def features(self) -> Features:
        """What linear agents are given; the rewards themselves are not linear in it."""
        return with_constant

    @rests_on("reset", "step")
    @property
    def support(self) -> str:
        return "real"

    def means(self, x: Float[Array, "2"]) -> Float[Array, "5"]:
        """The mean rewards of the arms.

        Args:
            x: the context.

        Returns:
            One number an arm. The quadrants are in the order (+, +), (+, -), (-, +), (-, -) of the signs of x.
        """
        quadrant = 2 * (x[0] <= 0) + (x[1] <= 0)
        found = (jnp.sum(jnp.square(x)) > jnp.square(self.delta)) & (jnp.arange(4) == quadrant)
        return jnp.append(jnp.asarray(self.safe, float), jnp.where(found, self.high, self.low))

    def _context(self, key) -> Float[Array, "2"]:
        key_radius, key_angle = _random.split(key)
        radius, angle = jnp.sqrt(_random.uniform(key_radius)), 2 * np.pi * _random.uniform(key_angle)
        return radius * jnp.stack([jnp.cos(angle), jnp.sin(angle)])

    def reset(self, key):
        x = self._context(key)
        return x, x

    def step(self, key, state, action):
        key_reward, key_context = _random.split(key)
        means = self.means(state)
        x = self._context(key_context)
        return x, Step(x, means[action] + self.sd * _random.normal(key_reward), gaps_of(means)[action])
