"""Any BlackJAX kernel as a sampler: HMC, NUTS, slice, … on the full potential of every arm.

>>> from blts.samplers import nuts
>>> nuts(step_size=0.8, steps=10).steps
10
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from .. import _random
from .._module import array, at_least, module, positive, static
from .._typing import Numbers, Scalar, Theta
from ..errors import ConfigError
from .base import Potential, Sampler, State, StepInfo
from .chain import Chain

LogDensity = Callable[[Theta], Scalar]
Build = Callable[[LogDensity, Theta], Any]


@module
class BlackJAX(Sampler):
    """Runs the kernel that `build(log_density, scale)` returns; every chain has its own key.

    `scale` is about the posterior variance of each coordinate, so it serves as inverse mass matrix, and step sizes are
    then in posterior sds. The kernel's state is made anew from the position at each step, so a kernel that remembers
    more than its position (a persistent momentum) forgets it.

    Args:
        build: a function from the log-density and the scale of each coordinate to a BlackJAX sampling algorithm.

    >>> from blts.samplers import BlackJAX, Chain
    >>> def barker(log_density, scale):
    ...     import blackjax
    ...
    ...     return blackjax.barker_proposal(log_density, step_size=scale[0] ** 0.5)
    >>> print(Chain(BlackJAX(barker), steps=30))
    30 BlackJAX steps on all data
    """

    build: Build
    needs_value: ClassVar[bool] = True

    def check(self):
        if not callable(self.build):
            raise ConfigError(f"BlackJAX: build must be a function (log_density, scale) -> blackjax kernel; got {self.build!r}.")

    def init(self, theta: Theta) -> State:
        return State(theta, jnp.zeros((), int))

    def step(self, key, state: State, potential: Potential) -> tuple[State, StepInfo]:
        if state.position.ndim != 1:
            raise ConfigError(
                f"BlackJAX: a kernel moves one chain of shape (dim,); map it over chains, got {state.position.shape}."
            )
        kernel = self.build(_log_density(potential), potential.scale)
        new, info = kernel.step(key, kernel.init(state.position))
        return State(new.position, state.iteration + 1), StepInfo(jnp.asarray(getattr(info, "acceptance_rate", 1.0), float))


def _log_density(potential: Potential) -> LogDensity:
    """-U with the potential's own gradient: a sum over a changing number of rows cannot be differentiated backwards."""

    @jax.custom_vjp
    def log_density(x):
        return -potential.value(x)

    log_density.defvjp(lambda x: (-potential.value(x), x), lambda x, slope: (-slope * potential.grad(_random.as_key(0), x),))
    return log_density


@module
class _NUTS:
    step_size: Numbers = array(default=0.5)

    def check(self):
        positive(self, "step_size")

    def __call__(self, log_density: LogDensity, scale: Theta):
        return _blackjax().nuts(log_density, step_size=self.step_size, inverse_mass_matrix=scale)


@module
class _HMC:
    step_size: Numbers = array(default=0.5)
    leapfrogs: int = static(default=4)

    def check(self):
        positive(self, "step_size")
        at_least(self, "leapfrogs", 1)

    def __call__(self, log_density: LogDensity, scale: Theta):
        return _blackjax().hmc(
            log_density, step_size=self.step_size, inverse_mass_matrix=scale, num_integration_steps=self.leapfrogs
        )


def nuts(step_size: float = 0.8, steps: int = 20) -> Chain:
    """BlackJAX's no-U-turn sampler; the step size is in posterior sds.

    Args:
        step_size: of the leapfrog integrator.
        steps: how many steps a refresh takes.

    Returns:
        The chain, for `Pool`.

    >>> from blts.samplers import nuts
    >>> nuts().steps
    20
    """
    _blackjax()
    return Chain(BlackJAX(_NUTS(step_size)), steps)


def hmc(step_size: float = 0.5, leapfrogs: int = 4, steps: int = 10) -> Chain:
    """BlackJAX's Hamiltonian Monte Carlo; the step size is in posterior sds.

    Args:
        step_size: of the leapfrog integrator.
        leapfrogs: how many of its steps a proposal takes.
        steps: how many proposals a refresh makes.

    Returns:
        The chain, for `Pool`.

    >>> from blts.samplers import hmc
    >>> hmc().steps
    10
    """
    _blackjax()
    return Chain(BlackJAX(_HMC(step_size, leapfrogs)), steps)


def _blackjax() -> Any:
    try:
        import blackjax
    except ImportError:
        raise ConfigError('HMC and NUTS come from BlackJAX, which is not installed; run pip install "blts[blackjax]".') from None
    return blackjax
