"""A Gamma law of an unknown rate λ, in θ = log λ: what Poisson and Gamma rewards share."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax.scipy.special import gammaln

from .. import _random
from .._typing import Array, Int, PRNGKey, Scalar
from .moments import Moments, Sum


def draw(key: PRNGKey, a: Scalar, b: Scalar) -> Scalar:
    """log λ for λ ~ Gamma(a, rate b)."""
    return _random.log_gamma(key, a) - jnp.log(b)


def log_density(x: Scalar, a: Scalar, b: Scalar) -> Scalar:
    """The log-density of x = log λ: Gamma(a, rate b) times the Jacobian λ."""
    return a * (jnp.log(b) + x) - b * jnp.exp(x) - gammaln(a)


class Totals(NamedTuple):
    """Moments of the rewards, and the sum of what in their log-densities does not depend on θ."""

    rows: Int[Array, ""]
    rewards: Moments
    base: Sum

    @staticmethod
    def zero() -> Totals:
        return Totals(jnp.zeros((), int), Moments.zero(), Sum.zero())

    def plus(self, reward: Scalar, base: Scalar) -> Totals:
        return Totals(self.rows + 1, self.rewards.plus(reward), self.base.plus(base))

    @staticmethod
    def of_sum(n: Int[Array, ""], total: Scalar) -> Totals:
        """Of n rewards of which the sum alone is known; what does not depend on θ is left out."""
        return Totals(n, Moments.of_mean(n, total / jnp.maximum(n, 1)), Sum.zero())

    def join(self, other: Totals) -> Totals:
        return Totals(self.rows + other.rows, self.rewards.join(other.rewards), self.base.plus(other.base.value))

    def scaled(self, factor: Scalar) -> Totals:
        """The totals of rows that count `factor` times as much."""
        return Totals(factor * self.rows, self.rewards.scaled(factor), self.base.scaled(factor))

    @property
    def total(self) -> Scalar:
        return self.rewards.total
