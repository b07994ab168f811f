"""Underdamped Langevin dynamics, dx = v dt, dv = -∇U(x) dt - γ v dt + √(2γ) dW: what its kernels share.

Units are those of the potential's scale s, about the posterior variance: a step is h√s, a velocity √s, and a friction γ is per unit
of h. On a target that s makes N(0, I), h < 2 is stable and γ = 2 damps critically.

**Velocities are drawn anew at every refresh.** Under the target they are independent of the positions, so a fresh draw leaves it
invariant, and a warm start of the positions is all there is to keep. A velocity kept from the last refresh would be in units
of the last scale and point where the last data pulled.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from .. import _random
from .._module import positive
from .._typing import Array, Int, PRNGKey
from .base import Chains, Sampler
from .langevin import check_step, check_temperature


class Moving(NamedTuple):
    """The state of an underdamped kernel."""

    position: Chains
    velocity: Chains
    """In units of √scale; zero before the first step, which draws it."""
    iteration: Int[Array, ""]


def at_rest(theta: Chains) -> Moving:
    """The state before the first step."""
    return Moving(theta, jnp.zeros_like(theta), jnp.zeros((), int))


def velocity(key: PRNGKey, state: Moving, temperature: Array) -> Chains:
    """The velocity before a step: N(0, temperature) before the first."""
    draw = lambda: jnp.sqrt(temperature) * _random.normal(key, state.velocity.shape).astype(state.velocity.dtype)  # noqa: E731
    return lax.cond(state.iteration == 0, draw, lambda: state.velocity)


def check_underdamped(kernel: Sampler) -> None:
    """Refuse a step size, a friction or a temperature that is out of range."""
    check_step(kernel)
    if not callable(kernel.friction):  # type: ignore[attr-defined]
        positive(kernel, "friction")
    check_temperature(kernel)
