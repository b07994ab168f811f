"""Where the laws of arms begin and end, and their log-densities: what the quadrature asks of them, in closed form.

Distribution functions of Beta and Gamma laws are slow to compute, and not exact enough for large parameters; the
quadrature sums densities instead.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax.scipy import special

from .._typing import Scalar
from ..models.marginal import BetaLaw, GammaLaw, InverseGammaLaw, Marginal, NormalLaw

REACH = 6.0  # in sds of a Gaussian, which leaves 1e-9 beyond


class Ends(NamedTuple):
    low: Scalar
    middle: Scalar
    high: Scalar


def ends(law: Marginal) -> Ends:
    """Points with next to nothing below, about half of the law below, and next to nothing above."""
    if isinstance(law, NormalLaw):
        return Ends(law.mean - REACH * law.sd, law.mean, law.mean + REACH * law.sd)
    if isinstance(law, GammaLaw):
        return Ends(*(_gamma_quantile(law.a, z) / law.b for z in (-REACH, 0.0, REACH)))
    if isinstance(law, InverseGammaLaw):
        return Ends(*(law.b / _gamma_quantile(law.a, z) for z in (REACH, 0.0, -REACH)))
    assert isinstance(law, BetaLaw)
    return Ends(_beta_quantile(law.a, law.b, -REACH), law.mean, 1.0 - _beta_quantile(law.b, law.a, -REACH))


def log_density(law: Marginal, x: Scalar) -> Scalar:
    if isinstance(law, GammaLaw):
        return _log_gamma_density(law.a, law.b * x) + jnp.log(law.b)
    if isinstance(law, InverseGammaLaw):
        return _log_gamma_density(law.a, law.b / x) + jnp.log(law.b) - 2.0 * jnp.log(x)
    assert isinstance(law, BetaLaw)
    return (law.a - 1.0) * jnp.log(x) + (law.b - 1.0) * jnp.log1p(-x) - special.betaln(law.a, law.b)


def _log_gamma_density(a, x):
    return (a - 1.0) * jnp.log(x) - x - special.gammaln(a)


def _gamma_quantile(a, z):
    """About the quantile at Φ(z) for rate 1: Wilson and Hilferty's, and no less than what P(G ≤ x) ≤ x^a/Γ(a + 1) allows."""
    root = jnp.maximum(1.0 - 1.0 / (9.0 * a) + z / (3.0 * jnp.sqrt(a)), 0.0)
    return jnp.maximum(a * root**3, jnp.exp((special.log_ndtr(z) + special.gammaln(a + 1.0)) / a))


def _beta_quantile(a, b, z):
    """Of G_a/(G_a + G_b), with z shared between the two as their shares of the variance of its logit."""
    total = a + b
    x, y = _gamma_quantile(a, z * jnp.sqrt(b / total)), _gamma_quantile(b, -z * jnp.sqrt(a / total))
    return x / (x + y)


LAWS = (NormalLaw, BetaLaw, GammaLaw, InverseGammaLaw)
