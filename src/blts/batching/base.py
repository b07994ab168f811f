"""What a batching scheme is: a tiny pure state machine that says after which rounds the rewards are collected.

It sees actions and never a reward; its key is for schemes that toss coins. `due` after a round means that the batch ends
with it; how many batches a scheme can close by a horizon is `most(horizon, actions)`, which sizes the record of their ends.
"""

from __future__ import annotations

import numpy as np

from .._module import Contract
from .._typing import Array, Bool, Int, PRNGKey, Tree
from ..declared import default, optional, required


class Batching(Contract):
    """When rewards are seen: inherit from this to write a batching scheme.

    A scheme sees actions and never a reward. Its methods are written for one replication, in JAX: `simulate` compiles them and maps
    them over replications. A subclass is a frozen dataclass whose annotated fields are its arguments (see `module`); it must define
    `init` and `step`. With `room` and `advance` as well, whole batches can be drawn at once (`engine="leap"`).

    >>> import jax.numpy as jnp
    >>> from blts import Batching
    >>> class Every(Batching):
    ...     size: int = 10
    ...
    ...     def init(self, key, actions):
    ...         return jnp.zeros((), int)
    ...
    ...     def step(self, state, obs, action):
    ...         return state + 1, (state + 1) % self.size == 0
    >>> Every(5).step(4, (), 0)
    (5, True)
    """

    states = default(None)
    """For how many states of an MDP visits are counted; None where none are."""

    @required
    def init(self, key: PRNGKey, actions: int) -> Tree:
        """Begin a replication.

        Args:
            key: for schemes that toss coins; the same for all rounds, so fold the round in.
            actions: how many actions there are.

        Returns:
            The scheme's state, any pytree of arrays.
        """
        raise NotImplementedError

    @required
    def step(self, state: Tree, obs: Tree, action: Int[Array, ""]) -> tuple[Tree, Bool[Array, ""]]:
        """Count one round.

        Args:
            state: as `init` or the last `step` returned it.
            obs: what the agent saw before it acted; `()` for a bandit without contexts.
            action: what it played, a number of shape `()`.

        Returns:
            The new state, of the same structure, shapes and types, and whether the batch ends with this round.
        """
        raise NotImplementedError

    def most(self, horizon: int, actions: int) -> int:
        """How many batches can be closed by the horizon: it sizes the record of their ends.

        Args:
            horizon: the number of rounds.
            actions: how many actions there are.

        Returns:
            An upper bound; by default one batch a round.
        """
        del actions
        return horizon

    @optional
    def room(self, state: Tree) -> tuple[Int[Array, "*actions"], Int[Array, ""]]:
        """What the batch can still take.

        Args:
            state: after some rounds.

        Returns:
            With how many more plays of each action, and with how many more rounds, the batch ends; NEVER where it does not.
        """
        raise NotImplementedError

    @optional
    def advance(self, state: Tree, plays: Int[Array, " actions"]) -> tuple[Tree, Bool[Array, ""]]:
        """Many calls of `step` at once.

        Args:
            state: after some rounds.
            plays: of each action, which end no batch before the last of them.

        Returns:
            What `step` gives after so many plays: the state, and whether the batch ends.
        """
        raise NotImplementedError


NEVER = int(np.iinfo(np.int32).max)
"""More plays or rounds than any run has."""
