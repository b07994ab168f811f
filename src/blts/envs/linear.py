"""A contextual bandit with linear arms."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from .. import _random
from .._module import array, module
from .._typing import Numbers
from ..errors import ConfigError
from ..models import Linear, Model
from .bandit import Bandit
from .base import Env, Step


@module
class LinearBandit(Env):
    """A contextual bandit: each round shows a context x ~ N(0, I/dim), and arm a pays x·θ_a plus the noise of its `Linear` model.

    Args:
        model: a `Linear` model without alpha.
        theta: the arms' parameters `[arms, dim]`; None to draw them from the prior for each replication.

    >>> from blts import Linear, LinearBandit
    >>> print(LinearBandit(Linear(prior_mean=[0.0, 0.0]), [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]))
    A contextual bandit of 3 linear arms in 2 dimensions.
    """

    model: Model
    theta: Numbers = array(default=None, ndim=2)

    def check(self):
        if isinstance(self.model, Linear) and self.model.alpha is not None:
            raise ConfigError("LinearBandit: the model has a fixed alpha and needs no context; use Bandit.")
        bandit = Bandit(self.model, self.theta)
        object.__setattr__(self, "model", bandit.model)

    @property
    def _arms(self) -> Bandit:
        return Bandit(self.model, self.theta)

    @property
    def actions(self) -> int:
        """How many arms there are."""
        return self._arms.actions

    def __str__(self) -> str:
        return f"A contextual bandit of {self.actions} linear arms in {self.model.dim} dimensions."

    def _context(self, key):
        return _random.normal(key, (self.model.dim,)) / jnp.sqrt(self.model.dim)

    def reset(self, key):
        key_arms, key_context = _random.split(key)
        theta = self._arms.parameters(key_arms)
        obs = self._context(key_context)
        return (theta, obs), obs

    def step(self, key, state, action):
        key_reward, key_context = _random.split(key)
        theta, obs = state
        means = self._arms.means(theta, obs)
        single = jax.tree.map(lambda leaf: jnp.asarray(leaf)[action], self.model)
        reward = single.sample(key_reward, theta[action], obs, action)
        following = self._context(key_context)
        # XLA may round the same formula in two ways; the best arm's regret must be exactly 0.
        regret = jnp.where(action == jnp.argmax(means), 0.0, jnp.max(means) - means[action])
        return (theta, following), Step(following, reward, jnp.maximum(regret, 0.0))
