"""The overdamped kernel. On the full potential it is ULA, on a minibatch one it is SGLD (Algorithm 1)."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from .. import _random
from .._module import array, is_concrete, module, positive, require, short
from .._typing import Array, Int, Numbers, Scalar, Schedule
from .base import Chains, Potential, Sampler, State, StepInfo


def step_at(step_size: Array | Schedule, iteration: Int[Array, ""]) -> Scalar:
    """A number, or the value of a schedule at this iteration."""
    return step_size(iteration) if callable(step_size) else jnp.asarray(step_size)


def check_step(owner) -> None:
    if not callable(owner.step_size):
        positive(owner, "step_size")


def check_temperature(owner) -> None:
    ok = (owner.temperature >= 0) & (owner.temperature < np.inf) if is_concrete(owner.temperature) else True
    require(owner, ok, f"temperature must be ≥ 0 and finite; got {short(owner.temperature)}.")


@module
class Langevin(Sampler):
    """θ ← θ - h ∇U(θ) + √(2h) ξ, with h = step_size · scale (Algorithm 1, line 5).

    Args:
        step_size: in units of the potential's scale: a number or a schedule.
        temperature: 0 is gradient descent, 1 samples the posterior.

    >>> import jax.numpy as jnp
    >>> from blts import random
    >>> from blts.samplers import Langevin, Potential
    >>> U = Potential(lambda x: 0.5 * jnp.sum(x**2, -1), lambda key, x: x, scale=jnp.ones(1))
    >>> kernel = Langevin(step_size=0.1)
    >>> state, info = kernel.step(random.key(0), kernel.init(jnp.zeros((1000, 1))), U)
    >>> bool(abs(state.position.std() - 0.2**0.5) < 0.02)
    True
    """

    step_size: Numbers = array(default=0.1)
    temperature: Numbers = array(default=1.0)
    """0 is gradient descent exactly; 1 samples the posterior."""

    def check(self):
        check_step(self)
        check_temperature(self)

    def init(self, theta: Chains) -> State:
        return State(theta, jnp.zeros((), int))

    def step(self, key, state: State, potential: Potential) -> tuple[State, StepInfo]:
        key_grad, key_noise = _random.part(key, 1), _random.part(key, 2)
        x = state.position
        g, xi = potential.grad(key_grad, x), _random.normal(key_noise, x.shape)
        h = step_at(self.step_size, state.iteration) * potential.scale
        return State(x - h * g + jnp.sqrt(2 * h * self.temperature) * xi, state.iteration + 1), StepInfo(jnp.ones(()))
