"""A covariance as a square root, and its update by one row."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from .._typing import Array, Float, Scalar, Theta


class Updated(NamedTuple):
    """The result of `rank_one`."""

    root: Float[Array, "dim dim"]
    """S' with S' S'ᵀ = (V + w xxᵀ)⁻¹."""
    ratio: Scalar
    """det(V + w xxᵀ) / det V = 1 + w xᵀV⁻¹x."""
    gain: Theta
    """(V + w xxᵀ)⁻¹ w x."""


def rank_one(root: Float[Array, "dim dim"], x: Theta, weight: float | Scalar = 1.0) -> Updated:
    """Add w xxᵀ to a precision V that is held as a root of its inverse, V⁻¹ = S Sᵀ, in O(dim²) (Potter's square-root filter, 1963).

    With f = Sᵀx and a = 1 + w fᵀf, the new root is S (I - w f fᵀ / (a + √a)). The Sherman–Morrison formula is its square, and in
    float32 can leave a matrix that is not positive definite; S' S'ᵀ cannot. Rounding errors of a row shrink with later rows as the
    covariance itself does.

    Args:
        root: S.
        x: the row.
        weight: w.

    Returns:
        The new root, by what factor the determinant of V grows, and (V + w xxᵀ)⁻¹ w x.

    >>> import jax.numpy as jnp
    >>> from blts.models.covariance import rank_one
    >>> new = rank_one(jnp.eye(2), jnp.array([1.0, 0.0]))
    >>> (new.root @ new.root.T).round(3).tolist(), float(new.ratio)
    ([[0.5, 0.0], [0.0, 1.0]], 2.0)
    """
    f = along(root, x)
    ratio = 1.0 + weight * square_norm(f)
    g = jnp.sum(root * f, 1)
    return Updated(root - g[:, None] * (f * (weight / (ratio + jnp.sqrt(ratio)))), ratio, g * (weight / ratio))


def along(root: Float[Array, "dim dim"], x: Theta) -> Theta:
    """Sᵀx, whose squared norm is the variance of x·θ.

    Args:
        root: S, a root of the covariance of θ.
        x: the row.

    Returns:
        One number for each coordinate.
    """
    # A sum of products, and not `@`: with the replications as the last axis it is vector code.
    return jnp.sum(x[:, None] * root, 0)


def square_norm(f: Theta) -> Scalar:
    """The squared norm of what `along` returns.

    Args:
        f: the vector.

    Returns:
        The sum of squares.
    """
    # Two sums, because XLA would compute `along` within a single one, number by number: five times slower at dim 20.
    first, second = jnp.split(f, [f.shape[0] // 2])
    return jnp.sum(jnp.square(first)) + jnp.sum(jnp.square(second))
