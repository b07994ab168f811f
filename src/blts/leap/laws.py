"""Approximate supports and log-densities of the posterior distributions of mean rewards, in closed form, for the quadrature.

Distribution functions of Beta and Gamma variables are slow and inaccurate for large parameters, so the quadrature sums
densities instead.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax.scipy import special

from .._typing import Scalar
from ..models.marginal import BetaLaw, GammaLaw, InverseGammaLaw, Marginal, NormalLaw

REACH = 6.0  # half-width in Gaussian sds; the probability beyond is 1e-9


class Ends(NamedTuple):
    """An interval with almost all of the probability, and a point near its median."""

    low: Scalar
    middle: Scalar
    high: Scalar


def ends(law: Marginal) -> Ends:
    """The approximate support of a distribution.

    Args:
        law: the distribution.

    Returns:
        Its ends and about its median.
    """
    if isinstance(law, NormalLaw):
        return Ends(law.mean - REACH * law.sd, law.mean, law.mean + REACH * law.sd)
    if isinstance(law, GammaLaw):
        return Ends(*(_gamma_quantile(law.a, z) / law.b for z in (-REACH, 0.0, REACH)))
    if isinstance(law, InverseGammaLaw):
        return Ends(*(law.b / _gamma_quantile(law.a, z) for z in (REACH, 0.0, -REACH)))
    assert isinstance(law, BetaLaw)
    return Ends(_beta_quantile(law.a, law.b, -REACH), law.mean, 1.0 - _beta_quantile(law.b, law.a, -REACH))


def log_density(law: Marginal, x: Scalar) -> Scalar:
    """The log-density of a distribution other than the normal.

    Args:
        law: the distribution.
        x: a point.

    Returns:
        The log-density at it.
    """
    if isinstance(law, GammaLaw):
        return _log_gamma_density(law.a, law.b * x) + jnp.log(law.b)
    if isinstance(law, InverseGammaLaw):
        return _log_gamma_density(law.a, law.b / x) + jnp.log(law.b) - 2.0 * jnp.log(x)
    assert isinstance(law, BetaLaw)
    return (law.a - 1.0) * jnp.log(x) + (law.b - 1.0) * jnp.log1p(-x) - special.betaln(law.a, law.b)


def _log_gamma_density(a, x):
    return (a - 1.0) * jnp.log(x) - x - special.gammaln(a)


def _gamma_quantile(a, z):
    """The approximate quantile at Φ(z) for rate 1 (Wilson and Hilferty), and at least the bound from P(G ≤ x) ≤ x^a/Γ(a + 1)."""
    root = jnp.maximum(1.0 - 1.0 / (9.0 * a) + z / (3.0 * jnp.sqrt(a)), 0.0)
    return jnp.maximum(a * root**3, jnp.exp((special.log_ndtr(z) + special.gammaln(a + 1.0)) / a))


def _beta_quantile(a, b, z):
    """The approximate quantile of G_a/(G_a + G_b): z is split between the two by their shares of the variance of its logit."""
    total = a + b
    x, y = _gamma_quantile(a, z * jnp.sqrt(b / total)), _gamma_quantile(b, -z * jnp.sqrt(a / total))
    return x / (x + y)


LAWS = (NormalLaw, BetaLaw, GammaLaw, InverseGammaLaw)
