"""Underdamped Langevin dynamics by the splitting BAOAB (Leimkuhler and Matthews 2013)."""

from __future__ import annotations

from typing import Any, ClassVar

import jax.numpy as jnp

from .. import _random
from .._module import array, module
from .._typing import Numbers, Schedule
from ..registry import register
from .base import Chains, Potential, Sampler, StepInfo
from .chain import Chain, Steps
from .langevin import step_at
from .underdamped import Moving, at_rest, check_underdamped, velocity


@module
class BAOAB(Sampler):
    """Half a kick (B), half a drift (A), friction and noise (O), half a drift (A), half a kick (B), with c = e^{-γh}:

        v ← v - (h/2) √s ∇U(x)    x ← x + (h/2) √s v    v ← c v + √(1 - c²) ξ    x ← x + (h/2) √s v    v ← v - (h/2) √s ∇U(x)

    with s the potential's scale. On a Gaussian target the positions have no bias at any stable step, h < 2 in units of the
    smallest sd; elsewhere it is of order h². The last kick and the next step's first are at the same point, so they
    are one kick, made by the next step: n steps take n gradients. The velocity of a state is that before its last half kick.

    Args:
        step_size: h, in units of the root of the potential's scale, about a posterior sd: a number or a schedule.
        friction: γ, per unit of h: a number or a schedule.
        temperature: 0 is damped gradient descent without noise, 1 samples the posterior.

    >>> import jax.numpy as jnp
    >>> from blts import random
    >>> from blts.samplers import BAOAB, Potential
    >>> U = Potential(lambda x: 0.5 * jnp.sum(x**2, -1), lambda key, x: x, scale=jnp.ones(1))
    >>> kernel = BAOAB(step_size=1.4, friction=1.0)
    >>> state = kernel.init(jnp.full((4000, 1), 3.0))
    >>> for i in range(8):
    ...     state, info = kernel.step(random.fold_in(random.key(0), i), state, U)
    >>> bool(abs(state.position.std() - 1) < 0.05)
    True
    """

    step_size: Numbers = array(default=0.8)
    friction: Numbers = array(default=1.4)
    temperature: Numbers = array(default=1.0)
    step_unit: ClassVar[str] = "the posterior sd"

    def check(self):
        check_underdamped(self)

    def init(self, theta: Chains) -> Any:
        return at_rest(theta)

    def step(self, key, state: Any, potential: Potential) -> tuple[Any, StepInfo]:
        key_grad, key_noise, key_velocity = (_random.part(key, i) for i in (1, 2, 3))
        x, v, i = state.position, velocity(key_velocity, state, self.temperature), state.iteration
        h, γ = step_at(self.step_size, i), step_at(self.friction, i)
        before = jnp.where(i > 0, step_at(self.step_size, jnp.maximum(i - 1, 0)), 0.0)
        root = jnp.sqrt(potential.scale)
        v = v - (before + h) / 2 * root * potential.grad(key_grad, x)  # the last step's B, and B
        x = x + h / 2 * root * v  # A
        v = jnp.exp(-γ * h) * v + jnp.sqrt(-jnp.expm1(-2 * γ * h) * self.temperature) * _random.normal(key_noise, x.shape)  # O
        return Moving(x + h / 2 * root * v, v, i + 1), StepInfo(jnp.ones(()))  # A


@register("sampler", "baoab")
def baoab(
    step_size: float | Schedule = 0.8,
    steps: Steps = 20,
    minibatch: int | None = None,
    *,
    friction: float | Schedule = 1.4,
    control_variate: bool = False,
    scale: str = "information",
) -> Chain:
    """Underdamped Langevin by BAOAB, on all data or on minibatches; the step size is in posterior sds.

    The default step is stable where the posterior is up to 2.5 times as narrow as its scale says, and 20 steps from the posterior
    of half the data end within 0.01 sd of a Gaussian whose variances are 0.25 to 3 times the scale.

    Args:
        step_size: h: a number or a schedule.
        steps: how many steps a refresh takes.
        minibatch: how many rewards a gradient is estimated from; None for all.
        friction: γ, per unit of h.
        control_variate: whether minibatch gradients are corrected by the gradient at the mode.
        scale: what step sizes are in units of; see `Chain`.

    Returns:
        The chain, for `Perturb` and `Pool`.

    >>> from blts import baoab
    >>> print(baoab())
    20 BAOAB steps of 0.8 times the posterior sd on all data
    """
    return Chain(BAOAB(step_size, friction), steps, minibatch, control_variate, scale)
