"""The probability that each arm is played, by quadrature: accurate, and fast enough to compute for every batch.

p_a = ∫ ∏_{b≠a} F_b dF_a = ∫ H f_a/F_a dx with H = ∏ F_b, the distribution function of the maximum. H is negligible below `low`, the
largest of the arms' lower ends. Every arm's distribution starts below `low`, so features at a distance d above it have a scale of
about d. Nodes at low + scale · e^v, equally spaced in v, therefore resolve all arms: a posterior of width 10⁻⁵ beside a prior of
width 1, whichever is larger. The integrand is smooth in v and vanishes at both ends, so the trapezoid rule converges exponentially.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import special

from .._typing import Array, Float, Scalar
from ..models.marginal import Marginal, NormalLaw
from .laws import REACH, ends, log_density

Values = Float[Array, "arms nodes"]
NODES = 96
NEAREST = -2.0  # v of the first node, for Gaussian distributions
# Others may start like a power of x and end abruptly, so there are more nodes, dense at both ends.
OTHER_NODES = 161
OTHER_NEAREST, OTHER_FARTHEST = -6.0, 14.0
# Lobatto's rule of five points on [0, 1], whose first and last are nodes
_POINTS = 0.5 + 0.5 * np.array([-1.0, -math.sqrt(3 / 7), 0.0, math.sqrt(3 / 7)])
_WEIGHTS = np.array([1 / 10, 49 / 90, 32 / 45, 49 / 90, 1 / 10]) / 2


def propensities(laws: Marginal) -> Float[Array, " arms"]:
    """The probability that each arm has the largest mean reward.

    Args:
        laws: the distributions of the arms' mean rewards, stacked; of one of the kinds in `laws.py`.

    Returns:
        One probability per arm.
    """
    low, middle, high = jax.vmap(ends)(laws)
    last = jnp.argmax(low)
    low, scale, high = low[last], (middle[last] - low[last]) / REACH, jnp.max(high)
    span = (high - low) / scale
    if isinstance(laws, NormalLaw):
        F, f, weight = _gaussian((laws.mean - low) / scale, laws.sd / scale, span)
    else:
        F, f, weight = _summed(laws, low, scale, span)
    F = jnp.maximum(F, jnp.finfo(F.dtype).tiny)
    p = jnp.sum((f / F * (jnp.prod(F, axis=0) * weight)).astype(float), axis=1)
    return p / jnp.sum(p)


def _gaussian(mean, sd, span) -> tuple[Values, Values, Float[Array, " nodes"]]:
    """F, f and dx/dv, up to common factors. Relative to `low`, single precision is accurate enough and twice as fast."""
    x = jnp.exp(jnp.linspace(NEAREST, jnp.log(span), NODES))
    mean, sd, x = mean[:, None].astype(jnp.float32), sd[:, None].astype(jnp.float32), x.astype(jnp.float32)
    z = (x - mean) / sd
    return 0.5 * special.erfc(-math.sqrt(0.5) * z), jnp.exp(-0.5 * z * z) / sd, x


def _summed(laws: Marginal, low: Scalar, scale: Scalar, span: Scalar) -> tuple[Values, Values, Float[Array, " nodes"]]:
    """The same for any density: 1 - F is summed from the upper end, and x = low + (high - low) · sigmoid(v)."""
    begin = OTHER_NEAREST - jnp.log(span)
    h = (OTHER_FARTHEST - begin) / (OTHER_NODES - 1)
    v = (begin + h * (jnp.arange(OTHER_NODES)[:, None] + _POINTS)).ravel()
    share = jax.nn.sigmoid(v)
    slope = scale * span * share * jax.nn.sigmoid(-v)
    f = jax.vmap(lambda law: jnp.exp(log_density(law, low + scale * span * share)))(laws)
    parts = (f * slope).reshape(f.shape[0], OTHER_NODES, 4)
    pieces = h * (parts[:, :-1] @ _WEIGHTS[:4] + parts[:, 1:, 0] * _WEIGHTS[4])
    above = jnp.cumsum(pieces[:, ::-1], axis=1)[:, ::-1]
    return 1 - jnp.pad(above, ((0, 0), (0, 1))), f[:, ::4], slope[::4]
