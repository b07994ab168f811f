"""P(arm a has the largest mean reward) where the arms' mean rewards are jointly normal: one Gaussian θ shared by all arms.

No covariance is inverted, so there may be more arms than coordinates of θ.
"""

from __future__ import annotations

import math

import jax.numpy as jnp

from ..._typing import Array, Bool, Float, Scalar
from ...errors import ConfigError
from . import half_spaces, lines
from .lattice import SHIFTS

FEW = 12
"""Up to so many arms take the rule of half-spaces, whose error is smaller and whose cost grows faster with their number."""
STANDARD_ERRORS = 4.0
"""The error in standard errors; a t distribution with 7 degrees of freedom exceeds it once in 190."""


def of_joint(
    mean: Float[Array, " arms"],
    root: Float[Array, "arms rank"],
    available: Bool[Array, " arms"] | None = None,
    *,
    points: int | None = None,
) -> tuple[Float[Array, " arms"], Scalar]:
    """The probability that each arm has the largest of jointly normal values mean + root · z, z ~ N(0, I).

    For θ ~ N(m, L Lᵀ) and features X: `of_joint(X @ m, X @ L)`. The points are fixed, so the same numbers give the same answer.

    Args:
        mean: of the arms' values; an arm whose mean is -inf or NaN is not available.
        root: whose product with its transpose is the covariance of the values; it may be singular.
        available: the arms that can be played; None for all.
        points: lattice points of each of 8 shifts, a power of two; None for what takes about ten milliseconds or less.

    Returns:
        Probabilities that sum to 1, and a limit of their absolute error: four standard errors of the least certain arm. Of
        arms with the same value for every z (up to rounding) the first has the probability of all, as in `argmax`. All are NaN
        where no arm is available or a number is not finite. Up to 12 arms, rare ones have a relative accuracy of a few
        percent too; with more, those below the error may be 0.

    Raises:
        ConfigError: `points` is not a power of two.

    >>> import jax.numpy as jnp
    >>> from blts.agents import joint
    >>> X = jnp.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8], [0.6, 0.8]])  # the last two arms are the same
    >>> p, error = joint.of_joint(X @ jnp.array([0.2, 0.1]), X)
    >>> [round(float(x), 3) for x in p], bool(error < 1e-4)
    ([0.462, 0.38, 0.158, 0.0], True)
    """
    if points is not None and (points < 1 or points & (points - 1) or points > 2**15):
        raise ConfigError(f"of_joint: points must be a power of two up to 32768; got {points}.")
    dtype = jnp.result_type(mean, root, jnp.float32)
    mean, root = jnp.asarray(mean, dtype), jnp.asarray(root, dtype)
    arms = root.shape[0]
    playable = mean > -jnp.inf
    playable = playable if available is None else playable & available
    chosen = playable & ~_repeated(mean, root, playable)
    finite = (mean < jnp.inf) & jnp.all(jnp.isfinite(root), 1)
    defined = jnp.any(chosen) & jnp.all(finite | ~playable)
    mean, root = jnp.where(chosen, mean, 0.0), jnp.where(chosen[:, None], root, 0.0)
    rule = half_spaces if arms <= FEW else lines
    parts = rule.parts(mean, root, chosen, points)
    parts = jnp.where(chosen, parts, 0.0)
    p = jnp.mean(parts, 0)
    spread = jnp.std(parts / jnp.sum(parts, 1, keepdims=True), 0, ddof=1)
    error = STANDARD_ERRORS * jnp.max(spread) / math.sqrt(SHIFTS) + 10 * jnp.finfo(dtype).eps
    return jnp.where(defined, p / jnp.sum(p), jnp.nan), jnp.where(defined, error, jnp.nan)


def _repeated(mean, root, playable) -> Bool[Array, " arms"]:
    """Whether a playable arm before it has the same value for every z, up to rounding."""
    tiny = 4 * jnp.finfo(mean.dtype).eps
    size = jnp.max(jnp.abs(root), 1)
    rows = jnp.max(jnp.abs(root[:, None] - root[None]), -1) <= tiny * size[:, None]
    means = jnp.abs(mean[:, None] - mean[None]) <= tiny * jnp.abs(mean)[:, None]
    before = jnp.tril(jnp.ones(rows.shape, bool), -1)
    return jnp.any(rows & means & before & playable[None], 1)
