"""Poisson demand: its probabilities, its tail, and the newsvendor's level."""

from __future__ import annotations

import math
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.special import gammaln

from .._typing import Scalar

SERIES = 24  # terms of the tail beyond those in which its factors λ/(y + j) are near 1


def log_pmf(k, log_rate: Scalar):
    return k * log_rate - jnp.exp(log_rate) - gammaln(k + 1.0)


@partial(jax.custom_jvp, nondiff_argnums=(0, 2))
def log_tail(y, log_rate: Scalar, levels: int):
    """log P(D ≥ y) for Poisson demand and y < levels, by sums of positive terms on either side of the mean.

    λ ≤ y + 1:  log pmf(y) + log(1 + λ/(y+1) (1 + λ/(y+2) (1 + …)))
    λ > y + 1:  log(1 - pmf(y-1) (1 + (y-1)/λ (1 + (y-2)/λ (1 + …))))
    """
    y = jnp.asarray(y, float)
    above = jnp.exp(log_rate) > y + 1.0
    low_log, high_log = jnp.where(above, jnp.log(y + 1.0), log_rate), jnp.where(above, log_rate, jnp.log(y + 2.0))
    low, high, one = jnp.exp(low_log), jnp.exp(high_log), jnp.ones_like(y + log_rate)
    # The j-th term is below exp(-j²/(2y + 2j)): 6 √levels of them leave 1e-7 of the sum.
    near = min(levels, math.ceil(6 * math.sqrt(levels)))
    terms = near + SERIES
    up = lax.fori_loop(0, terms, lambda i, sum: 1.0 + low / (y + (terms - i)) * sum, one)
    down = lax.fori_loop(0, terms, lambda i, sum: 1.0 + jnp.maximum(y - (terms - i), 0.0) / high * sum, one)
    below = jnp.where(y > 0, jnp.exp(log_pmf(jnp.maximum(y - 1.0, 0.0), high_log)) * down, 0.0)
    return jnp.where(y == 0, 0.0, jnp.where(above, jnp.log1p(-below), log_pmf(y, low_log) + jnp.log(up)))


@log_tail.defjvp
def _log_tail_jvp(y, levels, primals, tangents):
    """d log P(D ≥ y)/d log λ = λ pmf(y - 1)/P(D ≥ y)."""
    (log_rate,), (change,) = primals, tangents
    value = log_tail(y, log_rate, levels)
    below = jnp.maximum(jnp.asarray(y, float) - 1.0, 0.0)
    slope = jnp.where(y == 0, 0.0, jnp.exp(log_rate + log_pmf(below, log_rate) - value))
    return value, slope * change


def newsvendor(at: float, holding: float, margin: float) -> tuple[int, float]:
    """The best level for Poisson demand of a rate, and its cost a period; in NumPy, without a largest level.

    >>> newsvendor(30.0, 1.0, 4.0)[0]
    35
    """
    from scipy.special import gammainc

    allowed = holding / (holding + margin)  # P(D > S)
    low, high = 0, 1
    while gammainc(high + 1.0, at) > allowed:
        low, high = high, 2 * high
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if gammainc(middle + 1.0, at) <= allowed else (middle + 1, high)
    beyond = (at - low) * gammainc(low + 1.0, at) + at * math.exp(low * math.log(at) - at - math.lgamma(low + 1.0))
    return low, holding * (low - at + beyond) + margin * beyond
