"""Fixed quasi-random points: a lattice of rank one with random shifts, which are always the same."""

from __future__ import annotations

import functools
import math

import jax.numpy as jnp
import numpy as np

from ..._typing import Array, Float

SHIFTS = 8
"""Independent random shifts of the lattice, from whose differences the error is estimated."""
LEAST, MOST = 256, 2048
"""Points of a shift."""
# Chosen component by component for 2^10 to 2^20 points with weights 1/j² (Cools, Kuo and Nuyens 2006). The estimate is unbiased
# with any numbers; with these the tests find the errors small.
GENERATOR = (
    *(1, 182667, 469891, 498753, 110745, 446247, 250185, 118627, 245333, 283199, 408519, 391023, 246327, 126539, 399185, 461527),
    *(300343, 69681, 516695, 436179, 106383, 238523, 413283, 70841, 47719, 300129, 113029, 123925, 410745, 211325, 17489, 511893),
    *(40767, 186077, 519471, 255369, 101819, 243573, 66189, 152143, 503455, 113217, 132603, 463967, 297717, 157383, 224015, 502917),
    *(36237,),
)


def points_for(work: float) -> int:
    """How many points a shift has.

    Args:
        work: how many may be afforded.

    Returns:
        The power of two below it, from `LEAST` to `MOST`.
    """
    return int(min(max(2 ** math.floor(math.log2(work)), LEAST), MOST))


@functools.cache
def shifts(dims: int) -> np.ndarray:
    """The random shifts.

    Args:
        dims: coordinates of a point.

    Returns:
        `[SHIFTS, dims]`, always the same numbers.
    """
    return np.random.default_rng(20111208).random((SHIFTS, dims))


def lattice(shift: Float[Array, " dims"], count: int) -> Float[Array, "dims points"]:
    """A shifted lattice in the unit cube, folded by the tent map, as if the integrand were periodic.

    Args:
        shift: one of `shifts`.
        count: how many points, a power of two.

    Returns:
        The points.
    """
    more = 2 * np.random.default_rng(1).integers(0, 2**19, max(shift.shape[0] - len(GENERATOR), 0)) + 1  # the least of coordinates
    generator = jnp.asarray(np.append(GENERATOR, more)[: shift.shape[0]] % count, jnp.int32)
    u = (generator[:, None] * jnp.arange(count, dtype=jnp.int32) % count).astype(shift.dtype) / count + shift[:, None]
    return 1.0 - jnp.abs(2.0 * (u - jnp.floor(u)) - 1.0)
