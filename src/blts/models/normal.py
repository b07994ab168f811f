"""The Gaussian prior of a location, for models whose θ is the mean reward."""

from __future__ import annotations

import math
from typing import ClassVar

import jax.numpy as jnp

from .. import _random
from .._typing import Array
from ..declared import fact, rests_on

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


class NormalPrior:
    """θ is the mean reward, with the prior N(prior_mean, prior_sd²): what the three location models share."""

    prior_mean: Array
    prior_sd: Array
    dim: ClassVar[int] = 1
    gaussian_prior_and_linear_mean = fact("init", "init_from", "mean_reward", "prior_mean_reward")

    @rests_on("log_prior")
    def init(self, key):
        # Not by `init_from`, which a subclass has lost whose own `init` calls this one.
        return self.prior_mean + self.prior_sd * _random.normal(key, (1,))

    @rests_on("init", "log_prior")
    def init_from(self, z):
        return self.prior_mean + self.prior_sd * z

    @rests_on("init", "init_from")
    def log_prior(self, theta):
        return -0.5 * jnp.square((theta[0] - self.prior_mean) / self.prior_sd) - jnp.log(self.prior_sd) - HALF_LOG_2PI

    @rests_on("log_likelihood")
    def mean_reward(self, theta, obs, action):
        return theta[0]

    @rests_on("init", "init_from", "mean_reward")
    def prior_mean_reward(self, obs, action):
        """Mean and sd of the mean reward under the prior."""
        return self.prior_mean, self.prior_sd

    @rests_on("mean_reward")
    def theta_of_mean(self, mean):
        return jnp.asarray(mean, float)[None]

    @rests_on("init", "init_from", "log_prior")
    def prior_precision(self):
        return jnp.reshape(1.0 / jnp.square(self.prior_sd), (1,))
