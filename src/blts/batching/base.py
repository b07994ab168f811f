"""What a batching scheme is: a tiny pure state machine that says after which rounds the rewards are collected.

It sees actions and never a reward; its key is for schemes that toss coins. `due` after a round means that the batch ends
with it; how many batches a scheme can close by a horizon is `most(horizon, actions)`, which sizes the record of their ends.
"""

from __future__ import annotations

from typing import Protocol

from .._typing import Array, Bool, Int, PRNGKey, Tree


class Batching(Protocol):
    def init(self, key: PRNGKey, actions: int) -> Tree: ...

    def step(self, state: Tree, obs: Tree, action: Int[Array, ""]) -> tuple[Tree, Bool[Array, ""]]: ...

    def most(self, horizon: int, actions: int) -> int: ...
