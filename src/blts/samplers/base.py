"""What a sampler is: a kernel on a potential U = -log posterior, for many chains at once.

Positions have shape `[…, dim]`: the leading axes are independent chains, drawn from one key, which on a CPU costs a
third of one key for each chain. The potential is an argument of `step`, so data grow without compiling again, and
ULA and SGLD are one kernel on two potentials.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from .._typing import Array, Float, Int, PRNGKey, Scalar

Chains = Float[Array, "*chains dim"]


class Potential(NamedTuple):
    """U = -log posterior of every chain's arm."""

    value: Callable[[Chains], Float[Array, "*chains"]]
    grad: Callable[[PRNGKey, Chains], Chains]
    """Exact, or an unbiased estimate from a minibatch."""
    scale: Chains
    """Step sizes are in units of this: about the posterior variance of each coordinate (1 makes them absolute)."""
    both: Callable[[Chains], tuple[Float[Array, "*chains"], Chains]] | None = None
    """Value and exact gradient in one pass over the data, where a kernel may ask for both."""


class StepInfo(NamedTuple):
    acceptance: Scalar
    """Share of chains whose proposal was accepted; 1 for an unadjusted kernel."""


class State(NamedTuple):
    position: Chains
    iteration: Int[Array, ""]
    known: tuple = ()
    """Value and gradient at the position, for a kernel that was started with a potential; empty elsewhere."""


class Sampler(Protocol):
    def init(self, theta: Chains) -> State: ...

    def step(self, key: PRNGKey, state: State, potential: Potential) -> tuple[State, StepInfo]: ...
