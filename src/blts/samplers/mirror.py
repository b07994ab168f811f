"""Mirror maps: the charts in which a constrained position becomes an unconstrained one.

A convex h gives the dual position y = ∇h(x) and back x = ∇h*(y). A law e^{-U(x)} on the constrained set is the law e^{-W(y)}
with W(y) = U(x) - log|det ∂x/∂y| in the dual, and

    ∇W(y) = (∂x/∂y)ᵀ ∇U(x) - ∇ log|det ∂x/∂y|,

which is what `slope` computes. Maps work along the last axis.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from .._module import Contract, module, static
from .._typing import Array, Float
from ..declared import required
from .base import Chains

Dual = Float[Array, "*chains dual"]


class Mirror(Contract):
    """A mirror map, for `Mirrored`: inherit from this to write one. Methods work along the last axis, for any leading axes.

    >>> import numpy as np
    >>> from blts import Mirror
    >>> class Logarithm(Mirror):
    ...     def dual(self, x):
    ...         return np.log(x)
    ...
    ...     def primal(self, y):
    ...         return np.exp(y)
    ...
    ...     def log_det(self, y):
    ...         return y.sum(-1)
    ...
    ...     def slope(self, y, x, g):
    ...         return x * g - 1.0
    >>> Logarithm().primal(Logarithm().dual(np.array([1.0, 2.0])))
    array([1., 2.])
    """

    @required
    def dual(self, x: Chains) -> Dual:
        """y = ∇h(x)."""
        raise NotImplementedError

    @required
    def primal(self, y: Dual) -> Chains:
        """x = ∇h*(y)."""
        raise NotImplementedError

    @required
    def log_det(self, y: Dual) -> Float[Array, "*chains"]:
        """log|det ∂x/∂y|."""
        raise NotImplementedError

    @required
    def slope(self, y: Dual, x: Chains, g: Chains) -> Dual:
        """∇W(y), from x = primal(y) and g = ∇U(x)."""
        raise NotImplementedError


def smallest(x: Chains) -> float:
    """The least coordinate a primal position may have: 5e-31 in float32, so that x · (a/x) is a for any a up to 1e8."""
    return float(jnp.finfo(x.dtype).tiny) ** 0.8


@module
class Identity(Mirror):
    """h = |x|²/2: the whole space, its own dual.

    >>> import numpy as np
    >>> from blts.samplers import Identity
    >>> Identity().primal(np.array([1.0, 2.0])).tolist()
    [1.0, 2.0]
    """

    def dual(self, x: Chains) -> Dual:
        return x

    def primal(self, y: Dual) -> Chains:
        return y

    def log_det(self, y: Dual) -> Float[Array, "*chains"]:
        return jnp.zeros(y.shape[:-1])

    def slope(self, y: Dual, x: Chains, g: Chains) -> Dual:
        return g


@module
class Entropic(Mirror):
    """The simplex of S numbers: h = Σ_l x_l log x_l, with x_S = 1 - x_1 - … - x_{S-1} no coordinate of its own.

    y_l = log(x_l/x_S) for l < S, x = softmax(y, 0) and log|det ∂x/∂y| = Σ_{l≤S} log x_l. The last coordinate is the
    reference; make it the one with the largest count, or every y moves when a rare x_S does. (The paper's h, below
    Algorithm 4, sums to |S| and has one coordinate too many.)

    With v_l = x_l ∂U/∂x_l - 1, the slope is v_l - x_l Σv. For Dirichlet(a), v = -a, and ∇W = A x - a with A = Σa.
    Coordinates below 5e-31 (float32) are given to the potential as that; their y is exact.

    >>> import numpy as np
    >>> from blts.samplers import Entropic
    >>> mirror = Entropic()
    >>> y = mirror.dual(np.array([0.2, 0.3, 0.5]))  # the last one is the reference: y has two coordinates
    >>> [round(float(p), 3) for p in mirror.primal(y)]
    [0.2, 0.3, 0.5]
    """

    axis: int = static(default=-1)
    """The axis of the S numbers. The first is the faster one on a CPU; kernels want the last."""

    def dual(self, x: Chains) -> Dual:
        log_x = jnp.log(jnp.maximum(x, smallest(x)))
        return self._but_last(log_x) - self._last(log_x)

    def primal(self, y: Dual) -> Chains:
        x = jnp.exp(self._log_primal(y))
        return jnp.maximum(x, smallest(x))

    def log_det(self, y: Dual) -> Float[Array, "*chains"]:
        return jnp.sum(self._log_primal(y), self.axis)

    def slope(self, y: Dual, x: Chains, g: Chains) -> Dual:
        v = x * g - 1
        return self._but_last(v - x * jnp.sum(v, self.axis, keepdims=True))

    def _log_primal(self, y: Dual) -> Chains:
        """log softmax(y, 0), exact where x itself underflows."""
        return jax.nn.log_softmax(jnp.concatenate([y, jnp.zeros_like(self._last(y))], self.axis), self.axis)

    def _but_last(self, x: Array) -> Array:
        return lax.slice_in_dim(x, 0, -1, axis=self.axis)

    def _last(self, x: Array) -> Array:
        return lax.slice_in_dim(x, x.shape[self.axis] - 1, None, axis=self.axis)


@module
class EntropicOrthant(Mirror):
    """The positive orthant: h = Σ x log x - x, y = log x, x = e^y, log|det ∂x/∂y| = Σy. The dual is the whole space."""

    def dual(self, x: Chains) -> Dual:
        return jnp.log(jnp.maximum(x, smallest(x)))

    def primal(self, y: Dual) -> Chains:
        x = jnp.exp(y)
        return jnp.maximum(x, smallest(x))

    def log_det(self, y: Dual) -> Float[Array, "*chains"]:
        return jnp.sum(y, -1)

    def slope(self, y: Dual, x: Chains, g: Chains) -> Dual:
        return x * g - 1


@module
class LogBarrier(Mirror):
    """The positive orthant by h = -Σ log x: y = -1/x, x = -1/y, log|det ∂x/∂y| = Σ 2 log x.

    The dual is the negative orthant, not the whole space, and a step can leave it. So W is continued to the other side by
    symmetry, x = 1/|y|, which is reflection at the boundary: a kernel that is exact for the continued law, such as MALA,
    is exact for x. It suits laws with a polynomial tail in x, whose 1/x is tame. With an exponential tail, as Gamma's, W is like
    1/|y| at the boundary and ∇W has no bound: an unadjusted step is thrown far away, and MALA refuses nearly all
    there. Use `EntropicOrthant` for those.

    >>> import numpy as np
    >>> from blts.samplers import LogBarrier
    >>> LogBarrier().dual(np.array([0.5, 2.0])).tolist()
    [-2.0, -0.5]
    """

    def dual(self, x: Chains) -> Dual:
        return -1 / x

    def primal(self, y: Dual) -> Chains:
        return 1 / jnp.abs(y)

    def log_det(self, y: Dual) -> Float[Array, "*chains"]:
        return -2 * jnp.sum(jnp.log(jnp.abs(y)), -1)

    def slope(self, y: Dual, x: Chains, g: Chains) -> Dual:
        return -jnp.sign(y) * x * (x * g - 2)
