"""Running sums and moments of rewards that lose no digits in float32."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp

from .._typing import Array, Int, Scalar


class Sum(NamedTuple):
    """A running sum that keeps what rounding drops (Knuth's two-sum), so that 10⁵ float32 terms lose no digits."""

    high: Array
    low: Array

    @staticmethod
    def zero(shape: tuple[int, ...] = ()) -> Sum:
        return Sum(jnp.zeros(shape), jnp.zeros(shape))

    @staticmethod
    def of(x: Array) -> Sum:
        """The sum that is a number."""
        return Sum(x, jnp.zeros_like(x))

    def plus(self, x: Array) -> Sum:
        y = x + self.low
        high = self.high + y
        part = high - self.high
        return Sum(high, (self.high - (high - part)) + (y - part))

    @property
    def value(self) -> Array:
        return self.high + self.low

    def scaled(self, factor: Scalar) -> Sum:
        """The sum of the same terms, each multiplied by a number."""
        return Sum(factor * self.high, factor * self.low)


class Moments(NamedTuple):
    """Count, mean and sum of squared deviations (Welford), of the rows with weight 1, and the count of all rows.

    Unlike Σr and Σr², these lose no digits when the mean is far from zero. `low` is what rounding dropped of the
    mean: without it a float32 mean stops moving once (r - mean)/n is below half a unit in its last place.

    >>> from blts.models import Moments
    >>> moments = Moments.zero().plus(1.0).plus(3.0)
    >>> int(moments.n), float(moments.mean), float(moments.m2)
    (2, 2.0, 2.0)
    """

    rows: Int[Array, ""]
    n: Int[Array, ""]
    mean: Scalar
    m2: Scalar
    low: Any = 0.0

    @staticmethod
    def zero() -> Moments:
        return Moments(jnp.zeros((), int), jnp.zeros((), int), jnp.zeros(()), jnp.zeros(()), jnp.zeros(()))

    def plus(self, x: Scalar, weight: Any = 1) -> Moments:
        """One more row; a weight of 0 counts the row but not its value."""
        n = self.n + jnp.asarray(weight, int)
        change = jnp.where(weight > 0, (x - self.mean) - self.low, 0.0)
        step = change / jnp.maximum(n, 1)
        mean = Sum(self.mean, jnp.asarray(self.low, float)).plus(step)
        return Moments(self.rows + 1, n, mean.high, self.m2 + change * (change - step), mean.low)

    @staticmethod
    def of_mean(n: Int[Array, ""], mean: Scalar) -> Moments:
        """Of n rows of which the mean alone is known; that they are all equal stands in for their spread."""
        return Moments(n, n, jnp.where(n > 0, mean, 0.0), jnp.zeros_like(mean), jnp.zeros_like(mean))

    def join(self, other: Moments) -> Moments:
        """The moments of both (Chan et al. 1979)."""
        n = self.n + other.n
        gap, share = (other.mean - self.mean) + (other.low - self.low), other.n / jnp.maximum(n, 1)
        mean = Sum(self.mean, jnp.asarray(self.low, float)).plus(share * gap)
        return Moments(self.rows + other.rows, n, mean.high, self.m2 + other.m2 + self.n * share * gap * gap, mean.low)

    def scaled(self, factor: Scalar) -> Moments:
        """The moments of rows that count `factor` times as much: the mean is the same."""
        return Moments(factor * self.rows, factor * self.n, self.mean, factor * self.m2, self.low)

    @property
    def total(self) -> Scalar:
        return self.n * self.mean + self.n * self.low

    def about(self, x: Scalar) -> Scalar:
        """Σ (r - x)² over the rows with weight 1."""
        return self.m2 + self.n * jnp.square((self.mean - x) + self.low)
