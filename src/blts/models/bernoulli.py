"""Rewards 0 or 1: a conversion, a click."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import betaln

from .. import _draws, _random
from .._module import array, module, positive
from .._typing import Array, Int, Numbers, PRNGKey, Scalar
from ..declared import fact, rests_on
from . import marginal
from .arms import arm_count
from .base import Model, Theory


def draw_logit(key: PRNGKey, a: Scalar, b: Scalar) -> Scalar:
    """logit p for p ~ Beta(a, b): a difference of logarithms of Gamma draws, which no p near 0 or 1 can overflow."""
    key_a, key_b = _random.split(key)
    return _random.log_gamma(key_a, a) - _random.log_gamma(key_b, b)


def log_density_of_logit(x: Scalar, a: Scalar, b: Scalar) -> Scalar:
    """The log-density of logit p: Beta(a, b) times the Jacobian p (1 - p)."""
    return -a * jax.nn.softplus(-x) - b * jax.nn.softplus(x) - betaln(a, b)


def logit_precision(a: Scalar, b: Scalar) -> Scalar:
    """Curvature of that log-density at its mode, (a + b) p (1 - p) with p = a / (a + b)."""
    return a * b / (a + b)


class Successes(NamedTuple):
    rows: Int[Array, ""]
    ones: Int[Array, ""]

    def join(self, other: Successes) -> Successes:
        return Successes(self.rows + other.rows, self.ones + other.ones)

    def scaled(self, factor: Scalar) -> Successes:
        """The counts of rows that count `factor` times as much."""
        return Successes(factor * self.rows, factor * self.ones)

    @property
    def total(self) -> Scalar:
        return self.ones.astype(float)


@module
class Bernoulli(Model):
    """Rewards 1 with probability p and 0 otherwise; θ = logit p, with the prior p ~ Beta(a, b).

    Args:
        a: pseudo-count of successes of the Beta prior, one number or one for each arm.
        b: pseudo-count of failures.

    >>> from blts.models import Bernoulli
    >>> Bernoulli(a=[1.0, 2.0], b=50.0)
    Bernoulli(a=[1, 2], b=50)
    """

    a: Numbers = array(default=1.0)
    b: Numbers = array(default=1.0)
    dim: ClassVar[int] = 1
    noun: ClassVar[str] = "Bernoulli rewards"
    support: ClassVar[str] = "binary"

    def check(self):
        arm_count(self)
        positive(self, "a", "b")

    @rests_on("log_prior")
    def init(self, key):
        return draw_logit(key, self.a, self.b)[None]

    @rests_on("init")
    def log_prior(self, theta):
        return log_density_of_logit(theta[0], self.a, self.b)

    @rests_on("support")
    def log_likelihood(self, theta, row):
        return row.reward * theta[0] - jax.nn.softplus(theta[0])

    @rests_on("log_likelihood")
    def mean_reward(self, theta, obs, action):
        return jax.nn.sigmoid(theta[0])

    @rests_on("mean_reward")
    def theta_of_mean(self, mean):
        return (jnp.log(mean) - jnp.log1p(-mean))[None]

    @rests_on("log_likelihood")
    def sample(self, key, theta, obs, action):
        return (_random.uniform(key) < jax.nn.sigmoid(theta[0])).astype(float)

    @rests_on("sample", "empty", "add")
    def sample_summary(self, key, theta, n):
        return Successes(n, _draws.binomial(key, n, jax.nn.sigmoid(theta[0])))

    information_sets_step = fact("log_likelihood", "log_prior", "information")

    @rests_on("log_likelihood")
    def information(self, theta):
        return jax.nn.sigmoid(theta) * jax.nn.sigmoid(-theta)

    @rests_on("init", "log_prior")
    def prior_precision(self):
        return jnp.reshape(logit_precision(self.a, self.b), (1,))

    @rests_on("log_likelihood")
    def theory(self):
        return Theory(
            False, "L = 0.25, but the curvature p(1 - p) has no lower bound m, and a reward of 0 or 1 has no density.", L=0.25
        )

    # The exact posterior

    def empty(self):
        return Successes(jnp.zeros((), int), jnp.zeros((), int))

    def add(self, summary, row):
        return Successes(summary.rows + 1, summary.ones + (row.reward > 0.5))

    counts_ones = fact("empty", "add")
    """Whether the summary of rows is how many they are, and how many of them are 1."""

    @rests_on("log_likelihood", "empty", "add")
    def log_likelihood_of(self, theta, summary):
        return summary.ones * theta[0] - summary.rows * jax.nn.softplus(theta[0])

    def _posterior(self, summary):
        return self.a + summary.ones, self.b + (summary.rows - summary.ones)

    @rests_on("init", "log_prior", "log_likelihood", "log_likelihood_of", "empty", "add", "marginal")
    def draw(self, key, summary):
        return draw_logit(key, *self._posterior(summary))[None]

    @rests_on("init", "log_prior", "log_likelihood", "log_likelihood_of", "empty", "add", "draw", "mean_reward")
    def marginal(self, summary, obs, action):
        return marginal.BetaLaw(*self._posterior(summary))
