"""Linear rewards whose spread is learned too."""

from __future__ import annotations

import math
from typing import ClassVar

import jax.numpy as jnp
from jax.scipy.special import gammaln

from .. import _random
from .._module import array, module, positive
from .._typing import Numbers
from ..declared import rests_on
from ..factors import cholesky, solve, solve_lower, solve_transposed
from . import marginal
from .base import Model, Theory
from .coefficients import Coefficients
from .linear import Equations
from .moments import Sum
from .normal import HALF_LOG_2PI


@module
class LinearUnknownVariance(Coefficients, Model):
    """Rewards N(x·β, σ²) for the features x of a round; θ = (β, log σ).

    The prior is σ² ~ InverseGamma(a, b) and β | σ ~ N(prior_mean, σ² diag(prior_sd²)): normal-inverse-gamma, as the posterior is.

    Args:
        prior_mean: of β, `[features]` or one row for each arm.
        prior_sd: of the coordinates of β in units of σ: a number, one for each coordinate, or one row of either for each arm.
        a: shape of the inverse Gamma prior of σ².
        b: scale of that prior; σ² is about b/a.
        centre: what is subtracted from the features of a round; None for nothing (see `standardised`).
        scale: what they are then divided by; None for 1.

    >>> from blts.models import LinearUnknownVariance
    >>> LinearUnknownVariance(prior_mean=[0.0, 0.0]).dim
    3
    """

    prior_mean: Numbers = array(ndim=1)
    prior_sd: Numbers = array(default=1.0, ndim=1, or_number=True)
    a: Numbers = array(default=2.0)
    b: Numbers = array(default=2.0)
    centre: Numbers = array(default=None, ndim=1)
    scale: Numbers = array(default=None, ndim=1)
    noun: ClassVar[str] = "linear rewards of unknown variance"

    def check(self):
        super().check()
        positive(self, "a", "b")

    @property
    def dim(self) -> int:
        return self.width + 1

    @rests_on("log_prior")
    def init(self, key):
        key_variance, key_mean = _random.split(key)
        log_sd = 0.5 * (jnp.log(self.b) - _random.log_gamma(key_variance, self.a))
        beta = self.prior_mean + jnp.exp(log_sd) * self._sd * _random.normal(key_mean, (self.width,))
        return jnp.append(beta, log_sd)

    @rests_on("init")
    def log_prior(self, theta):
        beta, log_sd = theta[:-1], theta[-1]
        z = (beta - self.prior_mean) * jnp.exp(-log_sd) / self._sd
        # The inverse gamma density of σ², times its Jacobian 2σ² in log σ.
        spread = self.a * jnp.log(self.b) - gammaln(self.a) - 2.0 * self.a * log_sd - self.b * jnp.exp(-2.0 * log_sd)
        scales = self.width * (jnp.mean(jnp.log(self._sd)) + log_sd + HALF_LOG_2PI)
        return spread + math.log(2.0) - 0.5 * jnp.sum(jnp.square(z)) - scales

    def log_likelihood(self, theta, row):
        z = (row.reward - self._x(row.obs) @ theta[:-1]) * jnp.exp(-theta[-1])
        return -0.5 * jnp.square(z) - theta[-1] - HALF_LOG_2PI

    @rests_on("log_likelihood")
    def mean_reward(self, theta, obs, action):
        return self._x(obs) @ theta[:-1]

    @rests_on("log_likelihood")
    def sample(self, key, theta, obs, action):
        return self._x(obs) @ theta[:-1] + jnp.exp(theta[-1]) * _random.normal(key)

    @rests_on("log_likelihood")
    def information(self, theta):
        """For coordinates of mean square 1."""
        return jnp.append(jnp.full(self.width, jnp.exp(-2.0 * theta[-1])), 2.0)

    @rests_on("init", "log_prior")
    def prior_precision(self):
        """Curvature of -log prior at σ² = b/a."""
        coefficients = jnp.broadcast_to(self.a / self.b / jnp.square(self._sd), (self.width,))
        return jnp.append(coefficients, 4.0 * jnp.asarray(self.a, float))

    @rests_on("log_likelihood")
    def theory(self):
        return Theory(False, "log p is not concave in (β, log σ) for every reward, so m and L do not exist.")

    # The exact posterior

    def empty(self):
        d = self.width
        return Equations(jnp.zeros((), int), Sum.zero((d, d)), Sum.zero((d,)), Sum.zero())

    def add(self, summary, row):
        x = self._x(row.obs)
        e = row.reward - x @ jnp.asarray(self.prior_mean)
        rows, gram, moment, square = summary
        return Equations(rows + 1, gram.plus(jnp.outer(x, x)), moment.plus(x * e), square.plus(e * e))

    def _squares(self, summary, delta):
        """Σ (r - x·β)² at β = prior_mean + delta."""
        return summary.square.value - 2.0 * delta @ summary.moment.value + delta @ summary.gram.value @ delta

    @rests_on("log_likelihood", "empty", "add")
    def log_likelihood_of(self, theta, summary):
        squares = self._squares(summary, theta[:-1] - self.prior_mean)
        return -0.5 * squares * jnp.exp(-2.0 * theta[-1]) - summary.rows * (theta[-1] + HALF_LOG_2PI)

    def _posterior(self, summary):
        """Mean of β, the Cholesky factor of its precision in units of 1/σ², and shape and scale of the law of σ²."""
        factor = cholesky(jnp.eye(self.width) / jnp.square(self._sd) + summary.gram.value)
        delta = solve(factor, summary.moment.value)
        squares = jnp.maximum(self._squares(summary, delta), 0.0) + jnp.sum(jnp.square(delta / self._sd))
        return self.prior_mean + delta, factor, self.a + 0.5 * summary.rows, self.b + 0.5 * squares

    @rests_on("init", "log_prior", "log_likelihood", "log_likelihood_of", "empty", "add", "marginal")
    def draw(self, key, summary):
        key_variance, key_mean = _random.split(key)
        mean, factor, a, b = self._posterior(summary)
        log_sd = 0.5 * (jnp.log(b) - _random.log_gamma(key_variance, a))
        z = solve_transposed(factor, _random.normal(key_mean, (self.width,)))
        return jnp.append(mean + jnp.exp(log_sd) * z, log_sd)

    @rests_on("init", "log_prior", "log_likelihood", "log_likelihood_of", "empty", "add", "draw", "mean_reward")
    def marginal(self, summary, obs, action):
        mean, factor, a, b = self._posterior(summary)
        x = self._x(obs)
        width = jnp.linalg.norm(solve_lower(factor, x))
        return marginal.StudentTLaw(2.0 * a, x @ mean, jnp.maximum(width * jnp.sqrt(b / a), marginal.LEAST_SD))
