"""The rule of lines, for many arms.

z is rotated so that its first coordinate t changes the comparison of the arms most. Given the other coordinates, every arm's value
is a line in t, so the arms that are the largest for some t are those of the upper envelope of these lines, each on one interval of
t, whose normal probability is exact. These are averaged over lattice points in the other coordinates. A point costs the square of
the number of arms, and serves all of them.
"""

from __future__ import annotations

import math

import jax.numpy as jnp
from jax import lax
from jax.scipy import special

from ..._typing import Array, Bool, Float
from . import lattice

UNLIKELY = 1e-3
"""The least weight of an arm in the choice of coordinates, so that all arms are seen."""
WORK = 2**25
"""About how many pairs of lines are compared in all."""


def parts(
    mean: Float[Array, " arms"], root: Float[Array, "arms rank"], chosen: Bool[Array, " arms"], points: int | None
) -> Float[Array, "shifts arms"]:
    """P(largest) of each arm from each shift of the lattice.

    Args:
        mean: of the arms' values.
        root: of their covariance.
        chosen: the arms that are compared.
        points: of a shift; None for what `WORK` allows.

    Returns:
        The probabilities; those of arms that are not chosen mean nothing.
    """
    leader = jnp.argmax(jnp.where(chosen, mean, -jnp.inf))
    gap = jnp.where(chosen, mean - mean[leader], 0.0)
    root = jnp.where(chosen[:, None], root - root[leader], 0.0)
    root = root @ _coordinates(gap, root, chosen)
    # An arm that is not chosen never wins: its line is level and far below the leader's, which is the axis.
    gap = jnp.where(chosen, gap, -1e6 * (1.0 + jnp.max(jnp.abs(gap)) + jnp.max(jnp.abs(root))))
    arms, rank = root.shape
    count = 1 if rank == 1 else points or lattice.points_for(WORK / (lattice.SHIFTS * arms * arms))
    order = jnp.argsort(root[:, 0])
    shifts = jnp.asarray(lattice.shifts(rank), root.dtype)
    found = lax.map(lambda shift: jnp.mean(_given_others(gap[order], root[order], lattice.lattice(shift[1:], count)), 1), shifts)
    return jnp.zeros_like(found).at[:, order].set(found)


def _coordinates(gap, root, chosen) -> Float[Array, "rank kept"]:
    """Directions of z by decreasing effect on the differences of arms, those that are likely to be the largest weighing most."""
    sd = jnp.linalg.norm(root, axis=1)
    z = jnp.where(sd > 0, gap / jnp.where(sd > 0, sd, 1.0), 0.0)
    weights = jnp.where(chosen, jnp.exp(-0.5 * z * z) + UNLIKELY, 0.0)
    weights = weights / jnp.maximum(jnp.sum(weights), UNLIKELY)
    rows = jnp.sqrt(weights)[:, None] * jnp.where(chosen[:, None], root - weights @ root, 0.0)
    scale = jnp.max(jnp.abs(rows))
    return jnp.linalg.svd(rows / jnp.where(scale > 0, scale, 1.0), full_matrices=False)[2].T


def _given_others(gap, root, u) -> Float[Array, "arms points"]:
    """P(largest) given all coordinates but the first, at some points; arms in the order of their slopes."""
    arms, tiny = root.shape[0], jnp.finfo(root.dtype).eps / 2
    value = gap[:, None] + root[:, 1:] @ special.ndtri(jnp.clip(u, tiny, 1.0 - tiny))
    slope = root[:, 0]
    apart = slope[None] - slope[:, None]
    index = jnp.arange(arms)
    # Parallel lines meet at infinity: at +inf, seen from the first, if that is above.
    far = math.sqrt(float(jnp.finfo(root.dtype).max))
    rate = jnp.where(apart != 0, 1.0 / jnp.where(apart != 0, apart, 1.0), jnp.where(index[:, None] < index, far, -far))

    def beside(b, ends):
        low, high = ends
        meet = (value - value[b]) * rate[:, b, None]
        return (
            jnp.where((index > b)[:, None], jnp.maximum(low, meet), low),
            jnp.where((index < b)[:, None], jnp.minimum(high, meet), high),
        )

    none = jnp.full(value.shape, jnp.inf, root.dtype)
    low, high = lax.fori_loop(0, arms, beside, (-none, none))
    half = math.sqrt(0.5)
    return jnp.maximum(0.5 * (lax.erf(half * high) - lax.erf(half * low)), 0.0)
