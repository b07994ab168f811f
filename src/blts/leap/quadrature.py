"""The probability that each arm is played, in double precision and fast enough to be asked for at every batch.

p_a = ∫ ∏_{b≠a} F_b dF_a = ∫ H f_a/F_a dx with H = ∏ F_b, the law of the largest. Below `low`, the largest of the arms' lower
ends, H is next to nothing; every arm's law begins before it. So whatever bends at a distance d above `low` does so on a
scale of about d, and nodes at low + scale · e^v, equally spaced in v, see all of it: a posterior of width 10⁻⁵ beside a prior
of width 1, whichever leads. The integrand is smooth in v and vanishes at both ends, where the trapezoid rule converges
exponentially.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax.scipy import special

from .._typing import Array, Float
from ..models.marginal import Marginal, NormalLaw

NODES = 96
TAIL = 1e-9  # what is cut off an arm's law at each end; a Gaussian ends at 6 sds
NEAREST = -2.0  # the first node's v


def propensities(laws: Marginal) -> Float[Array, " arms"]:
    """For stacked laws with light lower tails: Gaussian, Beta, Gamma and inverse Gamma ones."""
    ends = jax.vmap(lambda law: law.quantile(jnp.array([TAIL, 0.5, 1 - TAIL])))(laws)
    last = jnp.argmax(ends[:, 0])
    low, high = ends[last, 0], jnp.max(ends[:, 2])
    scale = (ends[last, 1] - low) / 6  # the sd of a Gaussian
    reach = jnp.exp(jnp.linspace(NEAREST, jnp.log((high - low) / scale), NODES))
    if isinstance(laws, NormalLaw):
        F, f = _gaussian(((laws.mean - low) / scale)[:, None], (laws.sd / scale)[:, None], reach)
    else:
        x = low + scale * reach
        F, f = jax.vmap(lambda law: jax.jvp(law.cdf, (x,), (jnp.ones_like(x),)))(laws)
    F = jnp.maximum(F, jnp.finfo(F.dtype).tiny)  # [arms, nodes]
    p = jnp.sum((f / F * (jnp.prod(F, axis=0) * reach)).astype(float), axis=1)
    return p / jnp.sum(p)


def _gaussian(mean, sd, x) -> tuple[Float[Array, "arms nodes"], Float[Array, "arms nodes"]]:
    """Distribution functions and densities. Counted from `low`, single precision is exact enough, and twice as fast."""
    mean, sd, x = (number.astype(jnp.float32) for number in (mean, sd, x))
    z = (x - mean) / sd
    return 0.5 * special.erfc(-math.sqrt(0.5) * z), jnp.exp(-0.5 * z * z) / sd
