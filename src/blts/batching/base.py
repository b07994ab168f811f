"""The base class of batching schemes: pure state machines that decide after which rounds the rewards are collected.

A scheme sees actions and never a reward; its key is for random schemes. `due` after a round means that the batch ends with it.
`max_batches(horizon, actions)` bounds how many batches end by a horizon, and sizes the array that records them.
"""

from __future__ import annotations

import numpy as np

from .._module import Contract
from .._typing import Array, Bool, Int, PRNGKey, Tree
from ..declared import default, optional, required
from ..record import Sent


class Batching(Contract):
    """A batching scheme. Inherit from this to write one.

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
    """How many MDP states visits are counted for; None where visits are not counted."""

    by_rounds = default(False)
    """Whether batch ends depend on the number of rounds alone (and on the key), and not on what is played."""

    @required
    def init(self, key: PRNGKey, actions: int) -> Tree:
        """Begin a replication.

        Args:
            key: for random schemes; the same for all rounds, so fold the round in.
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
            obs: the observation before the action; `()` for a bandit without contexts.
            action: the action played, an integer of shape `()`.

        Returns:
            The new state, of the same structure, shapes and types, and whether the batch ends with this round.
        """
        raise NotImplementedError

    def max_batches(self, horizon: int, actions: int) -> int:
        """An upper bound on the number of batches that end by the horizon. It sizes the array of batch ends.

        Args:
            horizon: the number of rounds.
            actions: how many actions there are.

        Returns:
            The bound, which must not decrease with the horizon; by default one batch per round.
        """
        del actions
        return horizon

    @optional
    def room(self, state: Tree) -> tuple[Int[Array, "*actions"], Int[Array, ""]]:
        """How many more plays or rounds end the current batch.

        Args:
            state: after some rounds.

        Returns:
            How many more plays of each action would end the batch, and how many more rounds; NEVER where they would not.
        """
        raise NotImplementedError

    @optional
    def advance(self, state: Tree, plays: Int[Array, " actions"]) -> tuple[Tree, Bool[Array, ""]]:
        """Many calls of `step` at once.

        Args:
            state: after some rounds.
            plays: how often each action is played; the batch does not end before the last of these plays.

        Returns:
            The state after these plays, and whether the batch ends with them.
        """
        raise NotImplementedError

    @optional
    def sent(self, state: Tree) -> Sent:
        """What several agents have sent one another.

        Args:
            state: after some rounds.

        Returns:
            The number of messages in both directions, and of the plays that they were about.
        """
        raise NotImplementedError


NEVER = int(np.iinfo(np.int32).max)
"""A number of plays or rounds that no run reaches."""
