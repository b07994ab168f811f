"""Mirrored Langevin dynamics (Algorithm 4): a kernel that runs in the dual of a mirror map."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp

from .._module import module, require_part
from .._typing import Array, Int
from ..errors import ConfigError
from .base import Chains, Potential, Sampler, StepInfo
from .mirror import Mirror


class MirroredState(NamedTuple):
    position: Chains
    """Primal: what the potential is a function of."""
    inner: Any
    """The inner kernel's state, whose position is dual. It is kept, since a primal position may have underflowed."""

    @property
    def iteration(self) -> Int[Array, ""]:
        return self.inner.iteration


@module
class Mirrored(Sampler):
    """Run `inner` on W(y) = U(x) - log|det ∂x/∂y| where y = ∇h(x), and give x = ∇h*(y) back (Algorithm 4).

    The gradient is the chain rule on the potential's own, so it may come from a minibatch. `scale` of the potential is
    passed through and is in dual units: about the posterior variance of each y.

    Args:
        inner: the kernel that runs in the dual.
        mirror: the mirror map, such as `Entropic()`.

    >>> import jax.numpy as jnp
    >>> from blts import random
    >>> from blts.samplers import MALA, Potential
    >>> from blts.samplers.mirror import Entropic
    >>> from blts.samplers.mirrored import Mirrored
    >>> a = jnp.array([2.0, 3.0, 5.0])  # the law Dirichlet(a)
    >>> U = Potential(lambda x: -jnp.sum((a - 1) * jnp.log(x), -1), lambda key, x: -(a - 1) / x, scale=1 / a.sum())
    >>> kernel = Mirrored(MALA(0.5), Entropic())
    >>> state, info = kernel.step(random.key(0), kernel.init(jnp.full((1000, 3), 1 / 3)), U)
    >>> bool(jnp.allclose(state.position.sum(-1), 1))
    True
    """

    inner: Sampler
    mirror: Mirror

    def check(self):
        require_part("Mirrored: inner", self.inner, Sampler, "MALA(0.5)")
        require_part("Mirrored: mirror", self.mirror, Mirror, "Entropic()")

    @property
    def needs_value(self) -> bool:
        return self.inner.needs_value

    def init(self, theta: Chains) -> Any:
        return MirroredState(theta, self.inner.init(self.mirror.dual(theta)))

    def step(self, key, state: Any, potential: Potential) -> tuple[Any, StepInfo]:
        dim, units = state.inner.position.shape[-1], jnp.shape(potential.scale)
        if units and units[-1] not in (1, dim):
            raise ConfigError(f"Mirrored: the potential's scale is in dual units, {dim} numbers or one; got {units[-1]}.")
        inner, info = self.inner.step(key, state.inner, self.dual_of(potential))
        return MirroredState(self.mirror.primal(inner.position), inner), info

    def dual_of(self, potential: Potential) -> Potential:
        """W as a potential on the dual."""
        mirror = self.mirror

        def value(y):
            return potential.value(mirror.primal(y)) - mirror.log_det(y)

        def grad(key, y):
            x = mirror.primal(y)
            return mirror.slope(y, x, potential.grad(key, x))

        return Potential(value, grad, potential.scale)
