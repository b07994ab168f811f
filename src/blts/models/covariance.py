"""A covariance as a square root, and its update by one row."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from .._typing import Array, Float, Scalar, Theta


class Updated(NamedTuple):
    """The result of `rank_one`."""

    root: Float[Array, "dim dim"]
    """S' with S' S'ᵀ = (V + xxᵀ)⁻¹."""
    ratio: Scalar
    """det(V + xxᵀ) / det V = 1 + xᵀV⁻¹x."""
    gain: Theta
    """(V + xxᵀ)⁻¹ x."""


def rank_one(root: Float[Array, "dim dim"], x: Theta) -> Updated:
    """Add xxᵀ to a precision V that is held as a root of its inverse, V⁻¹ = S Sᵀ, in O(dim²) (Potter's square-root filter, 1963).

    With f = Sᵀx and a = 1 + fᵀf, the new root is S (I - f fᵀ / (a + √a)). The Sherman–Morrison formula is its square, and in
    float32 can leave a matrix that is not positive definite; S' S'ᵀ cannot. Rounding errors of a row shrink with later rows as the
    covariance itself does.

    Args:
        root: S.
        x: the row, in units of the noise.

    Returns:
        The new root, by what factor the determinant of V grows, and (V + xxᵀ)⁻¹ x.

    >>> import jax.numpy as jnp
    >>> from blts.models.covariance import rank_one
    >>> new = rank_one(jnp.eye(2), jnp.array([1.0, 0.0]))
    >>> (new.root @ new.root.T).round(3).tolist(), float(new.ratio)
    ([[0.5, 0.0], [0.0, 1.0]], 2.0)
    """
    # Sums of products, and not `@`: with the replications as the last axis they are vector code.
    f = jnp.sum(root * x[:, None], 0)
    ratio = 1.0 + jnp.sum(jnp.square(f))
    g = jnp.sum(root * f, 1)
    return Updated(root - g[:, None] * (f / (ratio + jnp.sqrt(ratio))), ratio, g / ratio)
