"""What a sampler is: a kernel on a potential U = -log posterior, for many chains at once.

Positions have shape `[…, dim]`: the leading axes are independent chains, drawn from one key, which on a CPU costs a
third of one key for each chain. The potential is an argument of `step`, so data grow without compiling again, and
ULA and SGLD are one kernel on two potentials.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from .._module import Contract
from .._typing import Array, Float, Int, PRNGKey, Scalar
from ..declared import default, required

Chains = Float[Array, "*chains dim"]


class Potential(NamedTuple):
    """U = -log posterior of every chain's arm.

    >>> import jax.numpy as jnp
    >>> from blts.samplers import Potential
    >>> U = Potential(lambda x: 0.5 * jnp.sum(x**2, -1), lambda key, x: x, scale=jnp.ones(2))
    >>> float(U.value(jnp.array([1.0, 2.0])))
    2.5
    """

    value: Callable[[Chains], Float[Array, "*chains"]]
    grad: Callable[[PRNGKey, Chains], Chains]
    """Exact, or an unbiased estimate from a minibatch."""
    scale: Chains
    """Step sizes are in units of this: about the posterior variance of each coordinate (1 makes them absolute). Those of
    underdamped kernels, which are times, are in units of its root."""
    both: Callable[[Chains], tuple[Float[Array, "*chains"], Chains]] | None = None
    """Value and exact gradient in one pass over the data, where a kernel may ask for both."""


class StepInfo(NamedTuple):
    """How one step went: what a kernel returns beside its state.

    >>> from blts.samplers import StepInfo
    >>> StepInfo(acceptance=0.57)
    StepInfo(acceptance=0.57)
    """

    acceptance: Scalar
    """Share of chains whose proposal was accepted; 1 for an unadjusted kernel."""


class State(NamedTuple):
    """Where chains are: what a kernel is given and returns.

    >>> import numpy as np
    >>> from blts import Langevin
    >>> Langevin(step_size=0.1).init(np.zeros((4, 1))).position.shape
    (4, 1)
    """

    position: Chains
    iteration: Int[Array, ""]
    known: tuple = ()
    """Value and gradient at the position, for a kernel that was started with a potential; empty elsewhere."""


class Sampler(Contract):
    """A Markov kernel on U = -log posterior, which `Chain` runs: inherit from this to write a sampler.

    A subclass is a frozen dataclass whose annotated fields are its arguments (see `module`); it must define `init` and `step`. One
    call moves all chains, `[…, dim]`, at once.

    >>> import jax.numpy as jnp
    >>> from blts import Chain, Sampler, array, random
    >>> from blts.samplers import State, StepInfo
    >>> class Walk(Sampler):  # random-walk Metropolis
    ...     step_size: float = array(default=1.0)
    ...     needs_value = True
    ...
    ...     def init(self, theta):
    ...         return State(theta, jnp.zeros((), int))
    ...
    ...     def step(self, key, state, potential):
    ...         key_move, key_accept = random.split(key)
    ...         x = state.position
    ...         y = x + jnp.sqrt(self.step_size * potential.scale) * random.normal(key_move, x.shape)
    ...         log_ratio = potential.value(x) - potential.value(y)
    ...         accept = jnp.log(random.uniform(key_accept, log_ratio.shape)) < log_ratio
    ...         return State(jnp.where(accept[..., None], y, x), state.iteration + 1), StepInfo(jnp.mean(accept, dtype=float))
    >>> print(Chain(Walk(0.5), steps=20))
    20 Walk steps of 0.5 times the posterior variance on all data
    """

    @required
    def init(self, theta: Chains) -> State:
        """Begin a refresh.

        Args:
            theta: where the chains start, of shape `[…, dim]`.

        Returns:
            A `State`, or any pytree of arrays with `position` and `iteration`.
        """
        raise NotImplementedError

    @required
    def step(self, key: PRNGKey, state: State, potential: Potential) -> tuple[State, StepInfo]:
        """Move every chain once.

        Args:
            key: this step's own, for all chains.
            state: as `init` or the last `step` returned it.
            potential: U, its gradient, and the units of the step size.

        Returns:
            The new state, and a `StepInfo` with the share of accepted proposals.
        """
        raise NotImplementedError

    needs_value = default(False)
    """Whether it has an acceptance test: `Chain` then gives it all data, and adapts its `step_size` in the first half of a run."""
    step_size = default(None)
    """In units of `Potential.scale`, or of its root; None where it has none."""
    temperature = default(1.0)
    """What multiplies the posterior's covariance: 1 samples the posterior."""
    step_unit = default("the posterior variance")
    """What `step_size` is a multiple of, in words: the scale, or "the posterior sd" where it is the scale's root."""
