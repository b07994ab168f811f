"""What a batching scheme is: a tiny pure state machine that says after which rounds the rewards are collected.

It sees actions and never a reward; its key is for schemes that toss coins. `due` after a round means that the batch ends
with it; how many batches a scheme can close by a horizon is `most(horizon, actions)`, which sizes the record of their ends.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from .._typing import Array, Bool, Int, PRNGKey, Tree


class Batching(Protocol):
    def init(self, key: PRNGKey, actions: int) -> Tree: ...

    def step(self, state: Tree, obs: Tree, action: Int[Array, ""]) -> tuple[Tree, Bool[Array, ""]]: ...

    def most(self, horizon: int, actions: int) -> int: ...


class Foreseeable(Batching, Protocol):
    """Optional: a scheme that says what a batch can still take, so that all of that can be played at once."""

    def room(self, state: Tree) -> tuple[Int[Array, "*actions"], Int[Array, ""]]:
        """With how many more plays of each action, and with how many more rounds, the batch ends."""
        ...

    def advance(self, state: Tree, plays: Int[Array, " actions"]) -> tuple[Tree, Bool[Array, ""]]:
        """What `step` gives after so many plays of each action, which end no batch before the last of them."""
        ...


def most_batches(batching: Any, horizon: int, actions: int) -> int:
    """How many batches a scheme can close by the horizon: what it says, or one a round where it does not (any longer) say."""
    return batching.most(horizon, actions) if hasattr(batching, "most") else horizon


NEVER = int(np.iinfo(np.int32).max)
"""More plays or rounds than any run has."""
