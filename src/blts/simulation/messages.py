"""What several agents sent one another: messages, and the numbers in them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import numpy as np

from .. import loop
from .._random import as_key
from .._typing import Tree
from ..agents.beliefs.private import PrivateState
from ..agents.beliefs.restarting import Restarts
from ..agents.conversions import Plays
from ..history import Log, Recent
from ..record import Sent
from ..trace import Messages

BY_ROW = (Log, Recent, Plays)
"""Memories that have the rows of plays, whatever else they keep count of."""


class Content(NamedTuple):
    """How many numbers a message has."""

    up: int
    """For each message to the server: summaries of new plays."""
    row: int
    """For each new play, where plays are sent one by one."""
    down: int

    def __str__(self) -> str:
        rows = f"the rows of its new plays ({self.row} numbers a play)" if self.row else ""
        summary = f"a summary of its new plays ({self.up} numbers a message)" if self.up or not self.row else ""
        what = " and ".join(part for part in (rows, summary) if part)
        return f"An agent sends {what} and is sent what it draws from ({self.down} numbers)."


def content(env: Any, agent: Any) -> Content:
    """What a message holds: the memory of the agent goes up, summaries or rows; the state that it draws from comes down.

    Args:
        env: the environment.
        agent: the agent.

    Returns:
        The sizes. A summary is counted as it is kept, with the digits that rounding would lose.
    """
    key = as_key(0)
    row = jax.eval_shape(lambda key: loop.example_row(env, key), key)
    history = jax.eval_shape(lambda row: agent.empty(row, 1), row)
    held = lambda node: node.belief if isinstance(node, PrivateState) else node.held if isinstance(node, Restarts) else node  # noqa: E731
    state = jax.tree.map(held, jax.eval_shape(agent.init, key), is_leaf=lambda node: isinstance(node, PrivateState | Restarts))
    parts = jax.tree.leaves(history, is_leaf=lambda node: isinstance(node, BY_ROW))
    rows = [part.rows for part in parts if isinstance(part, BY_ROW)]
    return Content(_numbers([part for part in parts if not isinstance(part, BY_ROW)]), _one_row(rows), _numbers(state))


def _one_row(rows: list[Tree]) -> int:
    """The numbers of one play."""
    return sum(math.prod(leaf.shape[1:]) for leaf in jax.tree.leaves(rows))


def _numbers(tree: Tree) -> int:
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(tree))


def messages(sent: Sent, env: Any, agent: Any) -> Messages:
    """What the agents of a simulation sent.

    Args:
        sent: the messages counted by the batching scheme, of every replication.
        env: the environment.
        agent: the agent.

    Returns:
        Messages and numbers of every replication.
    """
    sizes = content(env, agent)
    up, down, plays = (np.asarray(count, np.int64) for count in sent)
    return Messages(up, down, sizes.up * up + sizes.row * plays + sizes.down * down, str(sizes))
