"""What an environment is. The instance is drawn once, in `reset`."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from .._typing import Array, Bool, Int, PRNGKey, Scalar, Tree


class Step(NamedTuple):
    obs: Tree
    reward: Scalar
    regret: Scalar
    """What the action loses in expectation against the best one (pseudo-regret): 0 for the best action of a bandit. In an
    MDP, the optimal average reward less this round's: only its sum over rounds means something."""
    best: Bool[Array, ""] | None = None
    """Whether a best action was played; None means where the regret is 0."""


class Env(Protocol):
    actions: int
    """How many there are; 0 where they are continuous."""

    def reset(self, key: PRNGKey) -> tuple[Tree, Tree]: ...

    def step(self, key: PRNGKey, state: Tree, action: Int[Array, ""]) -> tuple[Tree, Step]: ...
