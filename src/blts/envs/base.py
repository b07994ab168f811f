"""What an environment is. The instance is drawn once, in `reset`."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from .._typing import Array, Int, PRNGKey, Scalar, Tree


class Step(NamedTuple):
    obs: Tree
    reward: Scalar
    regret: Scalar
    """What the action loses in expectation against the best one (pseudo-regret): 0 for the best action."""


class Env(Protocol):
    actions: int

    def reset(self, key: PRNGKey) -> tuple[Tree, Tree]: ...

    def step(self, key: PRNGKey, state: Tree, action: Int[Array, ""]) -> tuple[Tree, Step]: ...
