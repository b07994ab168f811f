"""The normal-inverse-gamma law of θ = (μ, log σ), and Gaussian likelihoods of it: what three models share."""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

import jax.numpy as jnp
from jax.scipy.special import gammaln

from .. import _random
from .._module import finite, positive
from .._typing import Array, PRNGKey, Scalar, Theta
from ..declared import fact, rests_on
from .arms import arm_count
from .moments import Moments
from .normal import HALF_LOG_2PI


class NormalInverseGamma(NamedTuple):
    """σ² ~ InverseGamma(a, b) and μ | σ ~ N(mean, σ²/weight)."""

    mean: Scalar
    weight: Scalar
    a: Scalar
    b: Scalar

    def draw(self, key: PRNGKey) -> Theta:
        key_variance, key_mean = _random.split(key)
        log_sd = 0.5 * (jnp.log(self.b) - _random.log_gamma(key_variance, self.a))
        return jnp.stack([self.mean + jnp.exp(log_sd) / jnp.sqrt(self.weight) * _random.normal(key_mean), log_sd])

    def log_density(self, theta: Theta) -> Scalar:
        mu, log_sd = theta
        precision = jnp.exp(-2.0 * log_sd)
        # The inverse gamma density of σ², times its Jacobian 2σ² in log σ.
        spread = self.a * jnp.log(self.b) - gammaln(self.a) - 2.0 * self.a * log_sd - self.b * precision + math.log(2.0)
        location = 0.5 * jnp.log(self.weight) - HALF_LOG_2PI - log_sd - 0.5 * self.weight * precision * jnp.square(mu - self.mean)
        return spread + location

    def after(self, data: Moments) -> NormalInverseGamma:
        """The law after the data (Murphy 2007, §6)."""
        weight = self.weight + data.n
        share = self.weight / weight
        gap = (self.mean - data.mean) - data.low
        # From the data's mean towards the prior's, which rounds only once where n is large.
        return NormalInverseGamma(
            data.mean + (data.low + share * gap),
            weight,
            self.a + 0.5 * data.n,
            self.b + 0.5 * (data.m2 + share * data.n * jnp.square(gap)),
        )

    @property
    def precision(self) -> Theta:
        """Curvature of -log density about its mode: weight/σ² in μ at σ² = b/a, and 4a in log σ."""
        return jnp.stack([self.weight * self.a / self.b, 4.0 * self.a + 0.0 * self.b])


def log_likelihood(theta: Theta, x: Scalar) -> Scalar:
    """log N(x; μ, σ²) at θ = (μ, log σ)."""
    mu, log_sd = theta
    return -0.5 * jnp.square((x - mu) * jnp.exp(-log_sd)) - log_sd - HALF_LOG_2PI


def log_likelihood_of(theta: Theta, data: Moments) -> Scalar:
    mu, log_sd = theta
    return -0.5 * data.about(mu) * jnp.exp(-2.0 * log_sd) - data.n * (log_sd + HALF_LOG_2PI)


def information(theta: Theta) -> Theta:
    return jnp.stack([jnp.exp(-2.0 * theta[1]), 2.0 + 0.0 * theta[1]])


class NormalInverseGammaPrior:
    """What the models with θ = (μ, log σ) alone share; `add` and the likelihoods say what is normal about a reward."""

    prior_mean: Array
    weight: Array
    a: Array
    b: Array
    dim: ClassVar[int] = 2

    def check(self):
        arm_count(self)
        finite(self, "prior_mean")
        positive(self, "weight", "a", "b")

    @property
    def _prior(self):
        return NormalInverseGamma(self.prior_mean, self.weight, self.a, self.b)

    @rests_on("log_prior")
    def init(self, key):
        return self._prior.draw(key)

    @rests_on("init")
    def log_prior(self, theta):
        return self._prior.log_density(theta)

    information_sets_step = fact("log_likelihood", "log_prior", "information")

    @rests_on("log_likelihood")
    def information(self, theta):
        return information(theta)

    @rests_on("init", "log_prior")
    def prior_precision(self):
        return self._prior.precision

    def empty(self):
        return Moments.zero()

    @rests_on("init", "log_prior", "log_likelihood", "log_likelihood_of", "empty", "add", "marginal")
    def draw(self, key, summary):
        return self._prior.after(summary).draw(key)
