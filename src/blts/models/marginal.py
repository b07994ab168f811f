"""Laws of one number, the mean reward of an arm: mean, sd, distribution function and quantile."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax
from jax.scipy import special

from .._module import Contract, array, module
from .._typing import Array, Float, Numbers
from ..declared import attribute, required

LEAST_SD = 1e-20
"""Features that are all zero have the mean reward 0, without spread; with this one such arms are equally likely to be the best."""


class Marginal(Contract):
    """The law of one number."""

    mean = attribute("Its mean.")
    sd = attribute("Its standard deviation; infinite where it has none.")

    @required
    def cdf(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        """P(X ≤ x)."""
        raise NotImplementedError

    @required
    def quantile(self, u: Float[Array, "..."]) -> Float[Array, "..."]:
        """The x with P(X ≤ x) = u."""
        raise NotImplementedError

    def survival(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        """P(X > x), which a law overrides where it can be had without cancellation."""
        return 1.0 - self.cdf(x)


@module
class NormalLaw(Marginal):
    mean: Numbers = array()
    sd: Numbers = array()

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


# With large parameters float32 cannot take the differences of log-gammas inside the incomplete functions: at
# BetaLaw(1, 10⁵) they are off by 0.01. From there on the classical approximations are far better.


def gamma_cdf(a, x):
    """P(G ≤ x) for shape a and rate 1; by Wilson and Hilferty's cube root above a = 200, where that is within 3e-5."""
    large = a > 200.0
    root = jnp.expm1(jnp.log(jnp.maximum(x, 1e-30) / a) / 3.0)
    return jnp.where(
        large, special.ndtr((root + 1.0 / (9.0 * a)) * 3.0 * jnp.sqrt(a)), special.gammainc(jnp.where(large, 1.0, a), x)
    )


def beta_cdf(a, b, x):
    """P(X ≤ x) for BetaLaw(a, b), within 6e-4: the incomplete beta function while a + b ≤ 300 or so; above, Paulson's cube
    roots where both are large (A&S 26.5.22), and Wise's Gamma law of -log(1 - X) where one is small."""
    total, least = a + b, jnp.minimum(a, b)
    paulson, wise = (least > 50.0) & (total > 300.0), (least <= 50.0) & (total > 1000.0)
    plain = special.betainc(jnp.where(paulson | wise, 1.0, a), jnp.where(paulson | wise, 1.0, b), x)
    u, v = jnp.cbrt(b * x), jnp.cbrt(a * (1.0 - x))
    z = 3.0 * (u * (1.0 - 1.0 / (9.0 * b)) - v * (1.0 - 1.0 / (9.0 * a))) / jnp.sqrt(u * u / b + v * v / a)
    flip = a > b
    near = jnp.where(flip, 1.0 - x, x)
    one_sided = gamma_cdf(least, jnp.minimum(-jnp.log1p(-near), 1e6) * (jnp.maximum(a, b) + 0.5 * (least - 1.0)))
    return jnp.where(paulson, special.ndtr(z), jnp.where(wise, jnp.where(flip, 1.0 - one_sided, one_sided), plain))


def student_cdf(df, z):
    """P(T ≤ z); by Wallace's normal approximation above df = 50, where that is within 5e-6."""
    large = df > 50.0
    few = jnp.where(large, 1.0, df)
    tail = 0.5 * special.betainc(0.5 * few, 0.5, few / (few + z * z))
    normal = (8.0 * df + 1.0) / (8.0 * df + 3.0) * jnp.sqrt(df * jnp.log1p(z * z / df))
    return jnp.where(large, special.ndtr(jnp.sign(z) * normal), jnp.where(z > 0, 1.0 - tail, tail))


@module
class BetaLaw(Marginal):
    a: Numbers = array()
    b: Numbers = array()

    @property
    def mean(self):
        return self.a / (self.a + self.b)

    @property
    def sd(self):
        total = self.a + self.b
        return jnp.sqrt(self.a * self.b / (total + 1.0)) / total

    def cdf(self, x):
        return beta_cdf(self.a, self.b, jnp.clip(x, 0.0, 1.0))

    def quantile(self, u):
        return _bisect(self.cdf, u, 0.0, 1.0)


@module
class GammaLaw(Marginal):
    """A Gamma law with shape `a` and rate `b`."""

    a: Numbers = array()
    b: Numbers = array()

    @property
    def mean(self):
        return self.a / self.b

    @property
    def sd(self):
        return jnp.sqrt(self.a) / self.b

    def cdf(self, x):
        return gamma_cdf(self.a, self.b * jnp.maximum(x, 0.0))

    def quantile(self, u):
        # Chernoff: P(X > mean + 2c(√(c·a)+c)/b) is far below float32's 6e-8 at c = 20, for every shape.
        return _bisect(self.cdf, u, 0.0, self.mean + (2.0 * jnp.sqrt(20.0 * self.a) + 40.0) / self.b)


@module
class InverseGammaLaw(Marginal):
    """The law of b / G for a Gamma variable G with shape `a` and rate 1: the mean of rewards with a Gamma rate."""

    a: Numbers = array()
    b: Numbers = array()

    @property
    def mean(self):
        return jnp.where(self.a > 1.0, self.b / jnp.where(self.a > 1.0, self.a - 1.0, 1.0), jnp.inf)

    @property
    def sd(self):
        ok = self.a > 2.0
        return jnp.where(ok, self.mean / jnp.sqrt(jnp.where(ok, self.a - 2.0, 1.0)), jnp.inf)

    def cdf(self, x):
        return 1.0 - gamma_cdf(self.a, self.b / jnp.maximum(x, 1e-30))

    def quantile(self, u):
        return self.b / jnp.maximum(GammaLaw(self.a, jnp.ones(())).quantile(1.0 - u), 1e-30)


@module
class StudentTLaw(Marginal):
    df: Numbers = array()
    loc: Numbers = array()
    scale: Numbers = array()

    @property
    def mean(self):
        return self.loc + 0.0 * self.df

    @property
    def sd(self):
        ok = self.df > 2.0
        return jnp.where(ok, self.scale * jnp.sqrt(self.df / jnp.where(ok, self.df - 2.0, 1.0)), jnp.inf)

    def cdf(self, x):
        return student_cdf(self.df, (x - self.loc) / self.scale)

    def quantile(self, u):
        # The tail of a Student-t is below (√df / |z|)^df, so this bracket holds 1e-7 on each side for df ≥ 1.
        reach = self.scale * jnp.sqrt(self.df) * 10.0 ** (8.0 / jnp.maximum(self.df, 1.0))
        return _bisect(self.cdf, u, self.loc - reach, self.loc + reach)
