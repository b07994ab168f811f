"""Underdamped Langevin dynamics by the exponential integrator of Cheng, Chatterji, Bartlett and Jordan (2018)."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import jax.numpy as jnp

from .. import _random
from .._module import array, module
from .._typing import Array, Float, Numbers, Scalar, Schedule
from ..registry import register
from .base import Chains, Potential, Sampler, StepInfo
from .chain import Chain, Steps
from .langevin import step_at
from .underdamped import Moving, at_rest, check_underdamped, velocity

TERMS = 12  # of a series in a ≤ 1/2: the next one is below 10⁻¹⁰ of the first


@module
class ExponentialIntegrator(Sampler):
    """The linear equation that is left when the gradient is frozen for a step, solved exactly (ULMC): with a = γh, c = e^{-a},

        v ← c v - (1 - c)/γ · √s ∇U(x) + ε_v
        x ← x + √s [(1 - c)/γ · v - (a - 1 + c)/γ² · √s ∇U(x) + ε_x]

    with s the potential's scale, v on the right the old velocity, and (ε_v, ε_x) normal with the covariance

        [[1 - c², (1 - c)²/γ], [., (2a - 3 + 4c - c²)/γ²]]

    Unlike BAOAB it is biased on Gaussian targets too, by an amount of order h. Cheng et al. take γ = 2, and steps in units of
    1/√L.

    Args:
        step_size: h, in units of the root of the potential's scale, about a posterior sd: a number or a schedule.
        friction: γ, per unit of h: a number or a schedule.
        temperature: 0 is damped gradient descent without noise, 1 samples the posterior.

    >>> from blts import Chain
    >>> from blts.samplers import ExponentialIntegrator
    >>> print(Chain(ExponentialIntegrator(step_size=0.3), steps=40))
    40 ExponentialIntegrator steps of 0.3 times the posterior sd on all data
    """

    step_size: Numbers = array(default=0.3)
    friction: Numbers = array(default=2.0)
    temperature: Numbers = array(default=1.0)
    step_unit: ClassVar[str] = "the posterior sd"

    def check(self):
        check_underdamped(self)

    def init(self, theta: Chains) -> Any:
        return at_rest(theta)

    def step(self, key, state: Any, potential: Potential) -> tuple[Any, StepInfo]:
        key_grad, key_noise, key_velocity = (_random.part(key, i) for i in (1, 2, 3))
        x, v = state.position, velocity(key_velocity, state, self.temperature)
        h, γ = step_at(self.step_size, state.iteration), step_at(self.friction, state.iteration)
        root, a = jnp.sqrt(potential.scale), γ * h
        g = root * potential.grad(key_grad, x)
        fading = -jnp.expm1(-a)  # 1 - c
        along, across = jnp.sqrt(self.temperature) * _random.normal(key_noise, (2, *x.shape))
        # The Cholesky factor of the covariance above.
        var_v, cov, var_x = -jnp.expm1(-2 * a), fading**2 / γ, _spread(a) / γ**2
        noise_v = jnp.sqrt(var_v) * along
        noise_x = cov / jnp.sqrt(var_v) * along + jnp.sqrt(jnp.maximum(var_x - cov**2 / var_v, 0.0)) * across
        moved = x + root * (fading / γ * v - _lag(a) / γ**2 * g + noise_x)
        return Moving(moved, (1 - fading) * v - fading / γ * g + noise_v, state.iteration + 1), StepInfo(jnp.ones(()))


def _lag(a: Scalar) -> Scalar:
    """a - 1 + e^{-a}, about a²/2, without the cancellation of a small a."""
    return jnp.where(a < 0.5, _series(a, [(-1) ** k / math.factorial(k) for k in range(2, TERMS)], 2), a + jnp.expm1(-a))


def _spread(a: Scalar) -> Scalar:
    """2a - 3 + 4e^{-a} - e^{-2a}, about 2a³/3, without the cancellation of a small a."""
    small = _series(a, [(-1) ** k * (4 - 2**k) / math.factorial(k) for k in range(3, TERMS + 4)], 3)
    return jnp.where(a < 0.5, small, 2 * a + 4 * jnp.expm1(-a) - jnp.expm1(-2 * a))


def _series(a: Float[Array, ""], coefficients: list[float], power: int) -> Scalar:
    """Σ coefficients[k] a^(power + k)."""
    return a**power * jnp.polyval(jnp.asarray(coefficients[::-1]), a)


@register("sampler", "ulmc")
def ulmc(
    step_size: float | Schedule = 0.3,
    steps: Steps = 40,
    minibatch: int | None = None,
    *,
    friction: float | Schedule = 2.0,
    control_variate: bool = False,
    scale: str = "information",
) -> Chain:
    """Underdamped Langevin by the exponential integrator, beside which `baoab` is measured; the step size is in posterior sds.

    Args:
        step_size: h: a number or a schedule.
        steps: how many steps a refresh takes.
        minibatch: how many rewards a gradient is estimated from; None for all.
        friction: γ, per unit of h.
        control_variate: whether minibatch gradients are corrected by the gradient at the mode.
        scale: what step sizes are in units of; see `Chain`.

    Returns:
        The chain, for `Perturb` and `Pool`.

    >>> from blts.samplers import ulmc
    >>> print(ulmc())
    40 ExponentialIntegrator steps of 0.3 times the posterior sd on all data
    """
    return Chain(ExponentialIntegrator(step_size, friction), steps, minibatch, control_variate, scale)
