"""Cholesky factors and triangular systems, written out as loops over rows.

XLA leaves these to LAPACK. For many small matrices at once that is slower than vector code over the batch axis, and it can hang:
jaxlib (0.10) divides a batch among the threads of a pool and waits for them inside the pool, for ever where all of its
threads wait. Two threads that factorise 192 matrices of 20 × 20 at the same time do.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from ._typing import Array, Float


def cholesky(matrix: Float[Array, "dim dim"]) -> Float[Array, "dim dim"]:
    """The Cholesky factor of a symmetric matrix.

    Args:
        matrix: A, of which the lower triangle is read.

    Returns:
        The lower triangular L with L Lᵀ = A; NaN throughout where A is not positive definite.

    >>> import jax.numpy as jnp
    >>> from blts.factors import cholesky
    >>> cholesky(jnp.array([[4.0, 2.0], [2.0, 5.0]])).tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """
    place = jnp.arange(matrix.shape[0])

    def column(j, L):
        rest = matrix[:, j] - jnp.sum(L * L[j], 1)
        new = jnp.where(place >= j, rest / jnp.sqrt(rest[j]), 0.0)
        return jnp.where(place == j, new[:, None], L)

    L = lax.fori_loop(0, matrix.shape[0], column, jnp.zeros_like(matrix))
    return jnp.where(jnp.all(jnp.isfinite(L)), L, jnp.nan)


def solve_lower(factor: Float[Array, "dim dim"], b: Float[Array, "dim *columns"]) -> Float[Array, "dim *columns"]:
    """The solution x of L x = b.

    Args:
        factor: L, lower triangular.
        b: a vector, or a matrix for several.

    Returns:
        x, of the shape of b.
    """
    return _substituted(factor, b, factor, jnp.arange(b.shape[0]))


def solve_transposed(factor: Float[Array, "dim dim"], b: Float[Array, "dim *columns"]) -> Float[Array, "dim *columns"]:
    """The solution x of Lᵀx = b.

    Args:
        factor: L, lower triangular.
        b: a vector, or a matrix for several.

    Returns:
        x, of the shape of b.
    """
    return _substituted(factor, b, factor.T, jnp.arange(b.shape[0])[::-1])


def solve(factor: Float[Array, "dim dim"], b: Float[Array, "dim *columns"]) -> Float[Array, "dim *columns"]:
    """The solution x of L Lᵀx = b.

    Args:
        factor: L, as `cholesky` returns it.
        b: a vector, or a matrix for several.

    Returns:
        x, of the shape of b.

    >>> import jax.numpy as jnp
    >>> from blts.factors import cholesky, solve
    >>> solve(cholesky(jnp.array([[4.0, 2.0], [2.0, 5.0]])), jnp.array([8.0, 12.0])).tolist()
    [1.0, 2.0]
    """
    return solve_transposed(factor, solve_lower(factor, b))


def _substituted(factor: Array, b: Array, rows: Array, order: Array) -> Array:
    """Substitution: the rows of a triangular system are solved in this order."""
    place = jnp.arange(b.shape[0]).reshape(-1, *[1] * (b.ndim - 1))

    def row(k, x):
        i = order[k]
        known = jnp.sum(rows[i].reshape(place.shape) * x, 0)
        return jnp.where(place == i, (b[i] - known) / factor[i, i], x)

    return lax.fori_loop(0, b.shape[0], row, jnp.zeros_like(b))
