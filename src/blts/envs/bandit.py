"""Bandits whose rewards are drawn from a model, with parameters that are given or drawn from its prior."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .. import _random, models
from .._module import array, module, short, static
from .._typing import Array, Float, Numbers
from ..arrays import pick
from ..declared import fact, provides, rests_on, why_lost
from ..errors import ConfigError, counted, require_object
from ..models.custom import cannot_draw
from ..models.support import support_of_samples
from .base import Env, Step, gaps_of


class Instance(NamedTuple):
    """The arms of one replication."""

    theta: Float[Array, "arms dim"]
    gaps: Float[Array, " arms"]
    """What a play of each arm loses."""


@module
class Bandit(Env):
    """A bandit whose rewards are drawn from `model`. With `theta=None` each replication draws its arms from the prior.

    Args:
        model: the distribution of the arms' rewards; it needs `sample`.
        theta: the arms' parameters `[arms, dim]`; None to draw them from the prior for each replication.
        arms: how many arms; only needed where neither theta nor the model's numbers have one entry per arm.

    >>> from blts.envs import Bandit
    >>> from blts.models import Bernoulli
    >>> print(Bandit.with_means(Bernoulli(), [0.02, 0.03, 0.05]))
    A bandit of 3 arms with mean rewards [0.02, 0.03, 0.05].
    """

    model: models.Model
    theta: Numbers = array(default=None, ndim=2)
    arms: int | None = static(default=None)

    def check(self):
        require_object("Bandit: model", self.model, ("mean_reward", "init", "dim"), "Gaussian()")
        if not provides(self.model, "sample"):
            raise ConfigError(f"Bandit: {cannot_draw(self.model)}")
        models.require_model("Bandit", self.model)
        arms = self.arms or models.arm_count(self.model)
        if self.theta is not None:
            shape = np.shape(self.theta)
            if len(shape) != 2 or shape[1] != self.model.dim:
                raise ConfigError(f"Bandit: theta must have shape (arms, {self.model.dim}); got {shape}.")
            arms = shape[0]
        if arms is None:
            raise ConfigError(
                "Bandit: nothing says how many arms there are; give theta, arms=…, or a model with one number per arm."
            )
        object.__setattr__(self, "model", models.stack(self.model, arms))
        object.__setattr__(self, "arms", arms)

    @classmethod
    def with_means(cls, model: models.Model, means: Numbers) -> Bandit:
        """A bandit with the given mean rewards, for models whose mean determines θ.

        Args:
            model: the distribution of the rewards; it needs `sample` and `theta_of_mean`.
            means: the mean reward of each arm.

        Returns:
            The bandit.

        Raises:
            ConfigError: the mean does not determine θ, or the model cannot have these means.
        """
        require_object("Bandit: model", model, ("mean_reward", "init", "dim"), "Gaussian()")
        if not provides(model, "theta_of_mean"):
            why = f" ({lost.rstrip('.')})" if (lost := why_lost(model, "theta_of_mean")) else ""
            raise ConfigError(
                f"Bandit: {type(model).__name__} has no theta_of_mean{why}, so its means do not say what θ is; define that method, "
                f"or give Bandit(model, theta) with theta of shape (arms, {model.dim})."
            )
        try:
            means = np.asarray(means, float)
        except (TypeError, ValueError):
            raise ConfigError(f"Bandit: means must be one finite number for each arm; got {means!r}.") from None
        if means.ndim != 1 or means.size < 1 or not np.isfinite(means).all():
            raise ConfigError(f"Bandit: means must be one finite number for each arm; got {short(means)}.")
        stacked = models.stack(model, means.size)
        theta = np.asarray(jax.vmap(lambda single, mean: single.theta_of_mean(mean))(stacked, means), float)
        if not np.isfinite(theta).all():
            raise ConfigError(f"Bandit: the means {short(means)} are outside what {type(model).__name__} rewards can have.")
        return cls(stacked, theta)

    def __str__(self) -> str:
        return self._text

    @cached_property
    def _text(self) -> str:
        kind = "A bandit" if self.pays_as_model else f"{type(self).__name__}, changed from a bandit"
        if self.theta is None:
            return f"{kind} of {self.actions} arms drawn from the prior for each replication. {self.model}"
        return f"{kind} of {counted(self.actions, 'arm')} with mean rewards {short(np.asarray(_means(self)))}."

    @property
    def actions(self) -> int:
        """How many arms there are."""
        assert self.arms is not None
        return self.arms

    def means(self, theta, obs=()):
        """The mean rewards of the arms.

        Args:
            theta: the parameters `[arms, dim]`.
            obs: the context, for contextual models.

        Returns:
            One number per arm.
        """
        return jax.vmap(lambda single, x, a: single.mean_reward(x, obs, a))(
            self.model, jnp.asarray(theta, float), jnp.arange(self.actions)
        )

    def parameters(self, key):
        """The arms' θ: as given, or drawn from the prior.

        Args:
            key: for the draws.

        Returns:
            θ `[arms, dim]`.
        """
        if self.theta is not None:
            return jnp.asarray(self.theta, float)
        return jax.vmap(lambda single, k: single.init(k))(self.model, _random.split(key, self.actions))

    pays_as_model = fact("reset", "step", "means")

    @rests_on("reset", "step")
    @property
    def support(self) -> str | None:
        """Which rewards can occur, one of `models.support.SUPPORTS`; None where that is not known."""
        return support_of_samples(self.model)

    def reset(self, key):
        theta = self.parameters(key)
        return Instance(theta, gaps_of(self.means(theta))), ()

    def step(self, key, state, action):
        single = models.arm(self.model, action)
        reward = single.sample(key, pick(state.theta, action), (), action)
        return state, Step((), reward, pick(state.gaps, action))


@jax.jit
def _means(env: Bandit) -> Array:
    """The mean rewards of the arms, in one compiled program."""
    return env.means(env.theta)
