"""A model: Cauchy rewards, whose posterior has no closed form and may have several modes."""

import jax.numpy as jnp

from blts import Model, array, random


class Cauchy(Model):
    """Rewards with Cauchy tails around a location θ, which has a normal prior."""

    prior_mean: float = array(default=0.0)
    prior_sd: float = array(default=1.0)
    scale: float = array(default=1.0)
    dim = 1

    def init(self, key):
        return self.prior_mean + self.prior_sd * random.normal(key, (1,))

    def log_prior(self, theta):
        return -0.5 * jnp.square((theta[0] - self.prior_mean) / self.prior_sd)

    def log_likelihood(self, theta, row):
        return -jnp.log1p(jnp.square((row.reward - theta[0]) / self.scale))

    def mean_reward(self, theta, obs, action):
        return theta[0]  # the median: the mean does not exist

    def information(self, theta):
        return jnp.full(1, 0.5) / jnp.square(self.scale)

    def prior_precision(self):
        return jnp.full(1, 1.0) / jnp.square(self.prior_sd)

    def sample(self, key, theta, obs, action):
        return theta[0] + self.scale * jnp.tan(jnp.pi * (random.uniform(key) - 0.5))
