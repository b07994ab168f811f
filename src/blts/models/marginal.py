"""Laws of one number, the mean reward of an arm: mean, sd, distribution function and quantile."""

from __future__ import annotations

from typing import Protocol

import jax.numpy as jnp
from jax import lax
from jax.scipy import special

from .._module import array, module
from .._typing import Array, Float, Scalar


class Marginal(Protocol):
    @property
    def mean(self) -> Scalar: ...
    @property
    def sd(self) -> Scalar: ...
    def cdf(self, x: Float[Array, "..."]) -> Float[Array, "..."]: ...
    def quantile(self, u: Float[Array, "..."]) -> Float[Array, "..."]: ...


@module
class Normal:
    mean: Array = array()
    sd: Array = array()

    def cdf(self, x):
        return special.ndtr((x - self.mean) / self.sd)

    def survival(self, x):
        return special.ndtr((self.mean - x) / self.sd)

    def quantile(self, u):
        return self.mean + self.sd * special.ndtri(u)


def _bisect(cdf, u, low, high):
    """The quantile by 60 halvings of a bracket, each half an exact digit in base two."""

    def halve(_, bracket):
        low, high = bracket
        middle = 0.5 * (low + high)
        below = cdf(middle) < u
        return jnp.where(below, middle, low), jnp.where(below, high, middle)

    low, high = lax.fori_loop(
        0, 60, halve, (jnp.broadcast_to(low, jnp.shape(u)) + 0.0 * u, jnp.broadcast_to(high, jnp.shape(u)) + 0.0 * u)
    )
    return 0.5 * (low + high)


@module
class Beta:
    a: Array = array()
    b: Array = array()

    @property
    def mean(self):
        return self.a / (self.a + self.b)

    @property
    def sd(self):
        total = self.a + self.b
        return jnp.sqrt(self.a * self.b / (total + 1.0)) / total

    def cdf(self, x):
        return special.betainc(self.a, self.b, jnp.clip(x, 0.0, 1.0))

    def quantile(self, u):
        return _bisect(self.cdf, u, 0.0, 1.0)


@module
class Gamma:
    """A Gamma law with shape `a` and rate `b`."""

    a: Array = array()
    b: Array = array()

    @property
    def mean(self):
        return self.a / self.b

    @property
    def sd(self):
        return jnp.sqrt(self.a) / self.b

    def cdf(self, x):
        return special.gammainc(self.a, self.b * jnp.maximum(x, 0.0))

    def quantile(self, u):
        # Chernoff: P(X > mean + 2c(√(c·a)+c)/b) is far below float32's 6e-8 at c = 20, for every shape.
        return _bisect(self.cdf, u, 0.0, self.mean + (2.0 * jnp.sqrt(20.0 * self.a) + 40.0) / self.b)


@module
class InverseGamma:
    """The law of b / G for a Gamma variable G with shape `a` and rate 1: the mean of rewards with a Gamma rate."""

    a: Array = array()
    b: Array = array()

    @property
    def mean(self):
        return jnp.where(self.a > 1.0, self.b / jnp.where(self.a > 1.0, self.a - 1.0, 1.0), jnp.inf)

    @property
    def sd(self):
        ok = self.a > 2.0
        return jnp.where(ok, self.mean / jnp.sqrt(jnp.where(ok, self.a - 2.0, 1.0)), jnp.inf)

    def cdf(self, x):
        return special.gammaincc(self.a, self.b / jnp.maximum(x, 1e-30))

    def quantile(self, u):
        return self.b / jnp.maximum(Gamma(self.a, jnp.ones(())).quantile(1.0 - u), 1e-30)


@module
class StudentT:
    df: Array = array()
    loc: Array = array()
    scale: Array = array()

    @property
    def mean(self):
        return self.loc + 0.0 * self.df

    @property
    def sd(self):
        ok = self.df > 2.0
        return jnp.where(ok, self.scale * jnp.sqrt(self.df / jnp.where(ok, self.df - 2.0, 1.0)), jnp.inf)

    def cdf(self, x):
        z = (x - self.loc) / self.scale
        tail = 0.5 * special.betainc(0.5 * self.df, 0.5, self.df / (self.df + z * z))
        return jnp.where(z > 0, 1.0 - tail, tail)

    def quantile(self, u):
        # The tail of a Student-t is below (√df / |z|)^df, so this bracket holds 1e-7 on each side for df ≥ 1.
        reach = self.scale * jnp.sqrt(self.df) * 10.0 ** (8.0 / jnp.maximum(self.df, 1.0))
        return _bisect(self.cdf, u, self.loc - reach, self.loc + reach)
