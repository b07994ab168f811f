"""A finite dynamics from one function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import _random
from .._module import array, finite, module, positive, static
from .._typing import Array, Float, Numbers
from ..declared import rests_on
from ..errors import ConfigError
from ..models.nig import HALF_LOG_2PI
from .base import Dynamics
from .finite import Finite


@module
class Parametric(Finite, Dynamics):
    """Next states by a function of θ, rewards by a table, and the prior N(prior_mean, prior_sd² I).

    Args:
        law: the probabilities of the next state, a function of θ, state and action.
        reward_table: the known rewards, `[states, actions]`.
        prior_mean: of θ.
        prior_sd: of every coordinate of θ.
        L: the curvature of one transition's log-likelihood, for each coordinate.
        theta: the truth in simulations.

    >>> import jax, jax.numpy as jnp
    >>> from blts.dynamics import from_probabilities
    >>> coin = lambda theta, state, action: jnp.stack([jax.nn.sigmoid(theta[0]), jax.nn.sigmoid(-theta[0])])
    >>> world = from_probabilities(coin, [[0.0], [1.0]], prior_mean=[0.0])
    >>> type(world).__name__, world.states, world.actions
    ('Parametric', 2, 1)
    """

    law: Callable[..., Float[Array, " states"]] = static()
    reward_table: Numbers = array(ndim=2)
    prior_mean: Numbers = array(ndim=1)
    prior_sd: Numbers = array(default=1.0)
    L: Numbers = array(default=0.25, ndim=1)
    theta: Numbers = array(default=None, ndim=1)

    def check(self):
        name = "from_probabilities"
        if np.ndim(self.reward_table) != 2 or self.states < 2:
            raise ConfigError(
                f"{name}: rewards must be a table [states, actions] with at least two states; got {np.shape(self.reward_table)}."
            )
        if np.ndim(self.prior_mean) != 1 or self.dim < 1:
            raise ConfigError(f"{name}: prior_mean must have one number for each coordinate of θ; got {np.shape(self.prior_mean)}.")
        if np.shape(self.theta) != (self.dim,) or np.shape(self.L) not in ((), (self.dim,)):
            raise ConfigError(
                f"{name}: theta and L must have {self.dim} numbers; got {np.shape(self.theta)} and {np.shape(self.L)}."
            )
        finite(self, "reward_table", "prior_mean", "theta")
        positive(self, "prior_sd", "L")
        found = jax.eval_shape(self.law, *map(jnp.asarray, (self.prior_mean, 0, 0)))
        if found.shape != (self.states,):
            raise ConfigError(f"{name}: probabilities must return one number for each of {self.states} states; got {found.shape}.")
        p = np.asarray(jax.jit(self.transitions)(jnp.asarray(self.prior_mean, float)))
        if not ((p >= 0).all() and np.allclose(p.sum(-1), 1, atol=1e-4)):
            worst = p.sum(-1).flat[np.nanargmax(np.abs(p.sum(-1) - 1))]
            raise ConfigError(f"{name}: probabilities must be ≥ 0 and sum to 1; at prior_mean a row sums to {worst:.4g}.")

    @property
    def dim(self) -> int:
        return np.shape(self.prior_mean)[-1]

    @property
    def states(self) -> int:
        return np.shape(self.reward_table)[-2]

    @property
    def actions(self) -> int:
        return np.shape(self.reward_table)[-1]

    def __str__(self) -> str:
        name = getattr(self.law, "__name__", "a function")
        return (
            f"A world of {self.states} states and {self.actions} actions that moves by {name}(θ, state, action), θ ∈ R^{self.dim}."
        )

    @property
    def true(self):
        return jnp.asarray(self.theta, float)

    def probabilities(self, theta, state, action):
        return self.law(theta, state, action)

    def rewards(self):
        return jnp.asarray(self.reward_table, float)

    def inside(self, theta):
        """Within 20 prior standard deviations of the prior mean."""
        theta = jnp.where(jnp.isnan(theta), self.prior_mean, theta)
        return jnp.clip(theta, self.prior_mean - 20.0 * self.prior_sd, self.prior_mean + 20.0 * self.prior_sd)

    @rests_on("log_prior")
    def init(self, key):
        return self.prior_mean + self.prior_sd * _random.normal(key, (self.dim,))

    @rests_on("init")
    def log_prior(self, theta):
        z = (theta - self.prior_mean) / self.prior_sd
        return -0.5 * jnp.sum(jnp.square(z)) - self.dim * (jnp.log(self.prior_sd) + HALF_LOG_2PI)

    @rests_on("log_likelihood")
    def information(self, theta):
        return jnp.broadcast_to(jnp.asarray(self.L, float), (self.dim,))

    @rests_on("log_prior")
    def prior_precision(self):
        return jnp.full(self.dim, 1.0 / jnp.square(self.prior_sd))


def from_probabilities(
    probabilities: Callable[..., Float[Array, " states"]],
    rewards: Any,
    prior_mean: Any,
    prior_sd: float = 1.0,
    *,
    L: Any = 0.25,
    theta: Any = None,
) -> Parametric:
    """A dynamics on finite states from `probabilities(theta, state, action) -> [states]`.

    Args:
        probabilities: a JAX function, for every θ ∈ R^d: map what is constrained, a share by its logit, a rate by its log.
        rewards: the known expected reward of each pair, `[states, actions]`.
        prior_mean: of θ, which has as many coordinates; the prior is N(prior_mean, prior_sd² I).
        prior_sd: of every coordinate.
        L: the curvature of one transition, in all or in each coordinate: 1/4 for a logit. It sets the samplers' step size.
        theta: the truth in simulations; without it, prior_mean.

    Returns:
        The dynamics.

    >>> import jax, jax.numpy as jnp
    >>> flip = lambda theta, state, action: jnp.stack([jax.nn.sigmoid(theta[0]), jax.nn.sigmoid(-theta[0])])
    >>> print(from_probabilities(flip, [[0.0], [1.0]], prior_mean=[0.0]))
    A world of 2 states and 1 actions that moves by <lambda>(θ, state, action), θ ∈ R^1.
    """
    L = np.broadcast_to(np.asarray(L, float), np.shape(prior_mean)) if np.ndim(L) == 0 else L
    return Parametric(probabilities, rewards, prior_mean, prior_sd, L, prior_mean if theta is None else theta)
