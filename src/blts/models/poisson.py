"""Rewards that count: visits, sales, events."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp
from jax.scipy.special import gammaln

from .. import _draws
from .._module import array, module, positive
from .._typing import Numbers
from ..declared import fact, rests_on
from . import marginal, rate
from .arms import arm_count
from .base import Model, Theory


@module
class Poisson(Model):
    """Rewards Poisson(λ); θ = log λ, with the prior λ ~ Gamma(a, rate b).

    Args:
        a: shape of the Gamma prior of the rate, one number or one for each arm.
        b: rate of that prior.

    >>> from blts.models import Poisson
    >>> Poisson(a=2.0, b=[1.0, 0.5])
    Poisson(a=2, b=[1, 0.5])
    """

    a: Numbers = array(default=1.0)
    b: Numbers = array(default=1.0)
    dim: ClassVar[int] = 1
    noun: ClassVar[str] = "Poisson rewards"
    support: ClassVar[str] = "count"

    def check(self):
        arm_count(self)
        positive(self, "a", "b")

    @rests_on("log_prior")
    def init(self, key):
        return rate.draw(key, self.a, self.b)[None]

    @rests_on("init")
    def log_prior(self, theta):
        return rate.log_density(theta[0], self.a, self.b)

    @rests_on("support")
    def log_likelihood(self, theta, row):
        return row.reward * theta[0] - jnp.exp(theta[0]) - gammaln(row.reward + 1.0)

    @rests_on("log_likelihood")
    def mean_reward(self, theta, obs, action):
        return jnp.exp(theta[0])

    @rests_on("mean_reward")
    def theta_of_mean(self, mean):
        return jnp.log(mean)[None]

    @rests_on("log_likelihood")
    def sample(self, key, theta, obs, action):
        return _draws.poisson(key, jnp.exp(theta[0])).astype(float)

    @rests_on("sample", "empty", "add")
    def sample_summary(self, key, theta, n):
        return rate.Totals.of_sum(n, _draws.poisson(key, n * jnp.exp(theta[0])).astype(float))

    information_sets_step = fact("log_likelihood", "log_prior", "information")

    @rests_on("log_likelihood")
    def information(self, theta):
        return jnp.exp(theta)

    @rests_on("init", "log_prior")
    def prior_precision(self):
        # The curvature b·λ of -log prior at its mode λ = a/b.
        return jnp.reshape(self.a + 0.0 * self.b, (1,))

    @rests_on("log_likelihood")
    def theory(self):
        return Theory(False, "the curvature λ has no bounds m and L, and a count has no density, so no ν.")

    # The exact posterior

    def empty(self):
        return rate.Totals.zero()

    def add(self, summary, row):
        return summary.plus(row.reward, -gammaln(row.reward + 1.0))

    @rests_on("log_likelihood", "empty", "add")
    def log_likelihood_of(self, theta, summary):
        return summary.rewards.total * theta[0] - summary.rows * jnp.exp(theta[0]) + summary.base.value

    def _posterior(self, summary):
        return self.a + summary.rewards.total, self.b + summary.rows

    @rests_on("init", "log_prior", "log_likelihood", "log_likelihood_of", "empty", "add", "marginal")
    def draw(self, key, summary):
        return rate.draw(key, *self._posterior(summary))[None]

    @rests_on("init", "log_prior", "log_likelihood", "log_likelihood_of", "empty", "add", "draw", "mean_reward")
    def marginal(self, summary, obs, action):
        return marginal.GammaLaw(*self._posterior(summary))
