"""Genz's rule (1992; Genz and Kwong 2000 for singular covariances).

Arm a is the largest where (root_b - root_a) · z < mean_a - mean_b for all b. z is rotated so that one inequality after another
bounds the next coordinate alone, given those before it. Each coordinate is drawn within its bounds, and the product of the
probabilities of the bounds is averaged over lattice points.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy import special

from ..._typing import Array, Bool, Float, Int, Scalar
from . import lattice

DEPENDENT = 32
"""A row whose rest is below so many units of rounding depends on the rows before it."""
WORK = 2**18
"""About how many coordinates are drawn in all."""


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
    arms, rank = root.shape
    steps = min(rank, max(arms - 1, 1))
    halves = jax.vmap(lambda a: _half_spaces(a, mean, root, chosen, steps))(jnp.arange(arms))
    # With one coordinate nothing is drawn: its interval is exact.
    count = 1 if steps == 1 else points or lattice.points_for(WORK / (lattice.SHIFTS * arms * (steps - 1)))
    shifts = jnp.asarray(lattice.shifts(steps), root.dtype)
    return lax.map(lambda shift: jax.vmap(lambda half: _inside(half, lattice.lattice(shift, count)))(halves), shifts)


class _HalfSpaces(NamedTuple):
    """The inequalities `factor @ y <= bound` in rotated coordinates y, and the step at which each is applied."""

    factor: Float[Array, "arms steps"]
    bound: Float[Array, " arms"]
    last: Int[Array, " arms"]
    """The last coordinate that the inequality has; -1 where it has none, and `steps` where it is not to be applied."""


def _half_spaces(a, mean, root, chosen, steps: int) -> _HalfSpaces:
    """Where arm a is the largest. The coordinate of a step is along the inequality that is least likely given those before."""
    arms, rank = root.shape
    rows, bound = root - root[a], mean[a] - mean
    size = jnp.linalg.norm(rows, axis=1)
    tiny = DEPENDENT * jnp.finfo(root.dtype).eps * size
    ignored = ~chosen | (jnp.arange(arms) == a)
    last = jnp.where(ignored, steps, jnp.where(size > 0, steps - 1, -1))

    def step(carry, j):
        rest, directions, factor, y, last, open_ = carry
        norm = jnp.linalg.norm(rest, axis=1)
        t = (bound - factor @ y) / jnp.where(open_, norm, 1.0)
        i = jnp.argmin(jnp.where(open_, t, jnp.inf))
        some = jnp.any(open_)
        q = rest[i] / jnp.where(open_[i], norm[i], 1.0)
        q = q - directions.T @ (directions @ q)  # once more: what is left of a row that nearly depends on others is not orthogonal
        q = jnp.where(some, q / jnp.maximum(jnp.linalg.norm(q), 0.5), 0.0)
        along = jnp.where(open_, rest @ q, 0.0)
        rest = rest - along[:, None] * q
        ends = open_ & ((jnp.linalg.norm(rest, axis=1) <= tiny) | (jnp.arange(arms) == i))
        x = jnp.maximum(t[i], -5.0)  # below it the mean of a normal below t is nearly t
        mean_below = t[i] - x - jnp.exp(-0.5 * x * x) / (math.sqrt(2 * math.pi) * _ndtr(x))
        y = y.at[j].set(jnp.where(some, mean_below, 0.0))
        carry = (rest, directions.at[j].set(q), factor.at[:, j].set(along), y, jnp.where(ends, j, last), open_ & ~ends)
        return carry, None

    zeros = functools.partial(jnp.zeros, dtype=root.dtype)
    open_ = ~ignored & (size > 0)
    start = (rows, zeros((steps, rank)), zeros((arms, steps)), zeros(steps), last, open_)
    _, _, factor, _, last, _ = lax.scan(step, start, jnp.arange(steps))[0]
    return _HalfSpaces(factor, bound, last)


def _inside(half: _HalfSpaces, u: Float[Array, "steps points"]) -> Scalar:
    """The probability of all inequalities, from points of the unit cube."""
    dtype, tiny, steps = u.dtype, jnp.finfo(u.dtype).tiny, u.shape[0]

    def bounds(j, column, room):
        """The limits of coordinate j; where both are above 0, those of its negative."""
        t, now = room / jnp.where(column == 0, 1.0, column)[:, None], half.last == j
        high = jnp.min(jnp.where((now & (column > 0))[:, None], t, jnp.inf), 0)
        low = jnp.max(jnp.where((now & (column < 0))[:, None], t, -jnp.inf), 0)
        flip = low > 0  # in the lower tail probabilities have all their digits
        return flip, jnp.where(flip, -high, low), jnp.where(flip, -low, high)

    def step(carry, x):
        j, column, u = x
        weight, room = carry
        flip, low, high = bounds(j, column, room)
        below, total = _ndtr(low), _ndtr(high)
        y = special.ndtri(jnp.clip(below + u * (total - below), tiny, 1.0 - jnp.finfo(dtype).eps))
        y = jnp.clip(y, low, high)
        return (weight * jnp.maximum(total - below, 0.0), room - column[:, None] * jnp.where(flip, -y, y)), None

    never = jnp.any((half.last < 0) & (half.bound < 0))
    start = jnp.ones(u.shape[1], dtype), jnp.broadcast_to(half.bound[:, None], (half.bound.shape[0], u.shape[1]))
    weight, room = lax.scan(step, start, (jnp.arange(steps - 1), half.factor.T[:-1], u[:-1]))[0]
    _, low, high = bounds(steps - 1, half.factor[:, -1], room)
    return jnp.where(never, 0.0, jnp.mean(weight * jnp.maximum(_ndtr(high) - _ndtr(low), 0.0)))


def _ndtr(x):
    """Φ with all digits of the lower tail; JAX's own evaluates two functions and selects one."""
    return 0.5 * lax.erfc(-math.sqrt(0.5) * x)
