"""Metropolis-adjusted Langevin: the same proposal on the full potential, accepted so that the law is exact."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp

from .. import _random
from .._module import array, module
from .._typing import Numbers
from .base import Chains, Potential, Sampler, State, StepInfo
from .langevin import check_step, step_at


@module
class MALA(Sampler):
    """Propose y = x - h ∇U(x) + √(2h) ξ and accept with probability min(1, e^{U(x)-U(y)} q(x|y) / q(y|x)).

    Needs the exact gradient: on a minibatch potential the acceptance test is not valid, and `Chain` refuses it.

    Args:
        step_size: in units of the potential's scale: a number or a schedule.

    >>> from blts import MALA, Chain
    >>> print(Chain(MALA(step_size=0.5), steps=20))
    20 MALA steps of 0.5 times the posterior variance on all data
    """

    step_size: Numbers = array(default=0.5)
    needs_value: ClassVar[bool] = True

    def check(self):
        check_step(self)

    def init(self, theta: Chains) -> State:
        return State(theta, jnp.zeros((), int))

    def start(self, theta: Chains, potential: Potential) -> State:
        """As `init`, with value and gradient: each step then passes once over the data, where it would do so four times."""
        assert potential.both is not None
        return State(theta, jnp.zeros((), int), potential.both(theta))

    def step(self, key, state: State, potential: Potential) -> tuple[State, StepInfo]:
        key_noise, key_accept = _random.split(key)
        x, known = state.position, bool(state.known)
        h = step_at(self.step_size, state.iteration) * potential.scale
        both = potential.both if known and potential.both else lambda z: (potential.value(z), potential.grad(key_noise, z))
        value, slope = state.known if known else both(x)
        forward = x - h * slope
        y = forward + jnp.sqrt(2 * h) * _random.normal(key_noise, x.shape)
        new_value, new_slope = both(y)
        backward = y - h * new_slope
        log_q = jnp.sum((jnp.square(y - forward) - jnp.square(x - backward)) / (4 * h), -1)
        log_ratio = value - new_value + log_q
        accept = jnp.log(_random.uniform(key_accept, log_ratio.shape)) < log_ratio  # NaN is refused
        kept = (jnp.where(accept, new_value, value), jnp.where(accept[..., None], new_slope, slope)) if known else ()
        new = State(jnp.where(accept[..., None], y, x), state.iteration + 1, kept)
        return new, StepInfo(jnp.mean(accept, dtype=float))
