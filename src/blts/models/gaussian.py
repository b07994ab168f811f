"""Gaussian rewards: known variance (the paper's bandit), and unknown variance."""

from __future__ import annotations

import math
from typing import ClassVar

import jax.numpy as jnp
from jax.scipy.special import gammaln

from .. import _random
from .._module import array, finite, is_concrete, module, positive
from .._typing import Array
from . import marginal
from .base import Described, Moments, Theory

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


@module
class Gaussian(Described):
    """Rewards N(θ, sd²) with a prior N(prior_mean, prior_sd²) on θ.

    >>> from blts.models import Gaussian
    >>> print(Gaussian(prior_mean=[14.0, 17.0, 20.0], prior_sd=1.6, sd=0.5))
    3 arms with Gaussian rewards (prior mean [14, 17, 20], prior sd 1.6, sd 0.5), inside the paper's theory: m = L = ν = 4.
    """

    prior_mean: Array = array(0.0)
    prior_sd: Array = array(1.0)
    sd: Array = array(1.0)
    noun: ClassVar[str] = "Gaussian rewards"

    def check(self):
        finite(self, "prior_mean")
        positive(self, "prior_sd", "sd")

    def init(self, key):
        return self.prior_mean + self.prior_sd * _random.normal(key, (1,))

    def log_prior(self, theta):
        return -0.5 * jnp.square((theta[0] - self.prior_mean) / self.prior_sd) - jnp.log(self.prior_sd) - HALF_LOG_2PI

    def log_likelihood(self, theta, row):
        return -0.5 * jnp.square((row.reward - theta[0]) / self.sd) - jnp.log(self.sd) - HALF_LOG_2PI

    def mean_reward(self, theta, obs, action):
        return theta[0]

    def theta_of_mean(self, mean):
        return jnp.asarray(mean, float)[None]

    def sample(self, key, theta, obs, action):
        return theta[0] + self.sd * _random.normal(key)

    def information(self, theta):
        return jnp.reshape(1.0 / jnp.square(self.sd), (1,))

    def prior_precision(self):
        return jnp.reshape(1.0 / jnp.square(self.prior_sd), (1,))

    def theory(self):
        m = 1.0 / self.sd**2
        return Theory(True, f"m = L = ν = {_range(m)}.", m, m, m)

    # The exact posterior

    def empty(self):
        return Moments.zero()

    def add(self, summary, row):
        return summary.plus(row.reward)

    def log_likelihood_of(self, theta, summary):
        square = summary.m2 + summary.n * jnp.square(summary.mean - theta[0])
        return -0.5 * square / jnp.square(self.sd) - summary.n * (jnp.log(self.sd) + HALF_LOG_2PI)

    def marginal(self, summary, obs, action):
        tau, data = 1.0 / jnp.square(self.prior_sd), summary.n / jnp.square(self.sd)
        return marginal.Normal((tau * self.prior_mean + data * summary.mean) / (tau + data), 1.0 / jnp.sqrt(tau + data))

    def draw(self, key, summary):
        law = self.marginal(summary, (), 0)
        return law.mean + law.sd * _random.normal(key, (1,))


def _range(x) -> str:
    if not is_concrete(x):
        return "traced"
    low, high = float(jnp.min(x)), float(jnp.max(x))
    return f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"


@module
class GaussianUnknownVariance(Described):
    """Rewards N(μ, σ²), θ = (μ, log σ), with the prior σ² ~ InverseGamma(a, b), μ | σ ~ N(prior_mean, σ²/weight).

    `weight` is worth that many rewards about the mean; `a` and `b` say that σ² is about b/a.
    """

    prior_mean: Array = array(0.0)
    weight: Array = array(1.0)
    a: Array = array(2.0)
    b: Array = array(2.0)
    dim: ClassVar[int] = 2
    noun: ClassVar[str] = "Gaussian rewards of unknown variance"

    def check(self):
        finite(self, "prior_mean")
        positive(self, "weight", "a", "b")

    def _prior(self):
        return self.prior_mean, self.weight, self.a, self.b

    def _posterior(self, summary):
        """Parameters of the normal-inverse-gamma law after the data (Murphy 2007, §6)."""
        n, weight = summary.n, self.weight + summary.n
        mean = (self.weight * self.prior_mean + n * summary.mean) / weight
        gap = self.weight * n * jnp.square(summary.mean - self.prior_mean) / weight
        return mean, weight, self.a + 0.5 * n, self.b + 0.5 * (summary.m2 + gap)

    @staticmethod
    def _draw(key, mean, weight, a, b):
        key_variance, key_mean = _random.split(key)
        variance = b / _random.gamma(key_variance, a)
        return jnp.stack([mean + jnp.sqrt(variance / weight) * _random.normal(key_mean), 0.5 * jnp.log(variance)])

    def init(self, key):
        return self._draw(key, *self._prior())

    def log_prior(self, theta):
        mu, log_sd = theta
        precision = jnp.exp(-2.0 * log_sd)
        # The inverse gamma density of σ², times its Jacobian 2σ² in log σ.
        spread = self.a * jnp.log(self.b) - gammaln(self.a) - 2.0 * self.a * log_sd - self.b * precision + math.log(2.0)
        location = 0.5 * jnp.log(self.weight) - HALF_LOG_2PI - log_sd - 0.5 * self.weight * precision * jnp.square(mu - self.prior_mean)
        return spread + location

    def log_likelihood(self, theta, row):
        mu, log_sd = theta
        return -0.5 * jnp.square(row.reward - mu) * jnp.exp(-2.0 * log_sd) - log_sd - HALF_LOG_2PI

    def mean_reward(self, theta, obs, action):
        return theta[0]

    def sample(self, key, theta, obs, action):
        return theta[0] + jnp.exp(theta[1]) * _random.normal(key)

    def information(self, theta):
        return jnp.stack([jnp.exp(-2.0 * theta[1]), 2.0 + 0.0 * theta[1]])

    def prior_precision(self):
        return jnp.stack([self.weight * self.a / self.b, 2.0 * self.a + 0.0 * self.b])

    def theory(self):
        return Theory(False, "log p is not concave in (μ, log σ) for every reward, so m and L do not exist.")

    def empty(self):
        return Moments.zero()

    def add(self, summary, row):
        return summary.plus(row.reward)

    def log_likelihood_of(self, theta, summary):
        mu, log_sd = theta
        square = summary.m2 + summary.n * jnp.square(summary.mean - mu)
        return -0.5 * square * jnp.exp(-2.0 * log_sd) - summary.n * (log_sd + HALF_LOG_2PI)

    def draw(self, key, summary):
        return self._draw(key, *self._posterior(summary))

    def marginal(self, summary, obs, action):
        mean, weight, a, b = self._posterior(summary)
        return marginal.StudentT(2.0 * a, mean, jnp.sqrt(b / (a * weight)))
