"""What several agents sent one another: messages, and the numbers in them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import numpy as np

from .. import loop
from .._random import as_key
from .._typing import Tree
from ..history import Log
from ..record import Sent
from ..trace import Messages


class Content(NamedTuple):
    """How many numbers a message has."""

    up: int
    """For each message to the server, or for each play where `rows`."""
    down: int
    rows: bool
    """Whether plays are sent one by one, and not as a summary."""

    def __str__(self) -> str:
        unit = "play" if self.rows else "message"
        what = "the rows of its new plays" if self.rows else "a summary of its new plays"
        return f"An agent sends {what} ({self.up} numbers a {unit}) and is sent what it draws from ({self.down} numbers)."


def content(env: Any, agent: Any) -> Content:
    """What a message holds: the memory of the agent goes up, a summary or rows; its state, from which it draws, comes down.

    Args:
        env: the environment.
        agent: the agent.

    Returns:
        The sizes. A summary is counted as it is kept, with the digits that rounding would lose.
    """
    key = as_key(0)
    row = jax.eval_shape(lambda key: loop.example_row(env, key), key)
    history = jax.eval_shape(lambda row: agent.empty(row, 1), row)
    state = jax.eval_shape(agent.init, key)
    rows = isinstance(history, Log)
    return Content(_numbers(history.rows if rows else history), _numbers(state), rows)


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
    return Messages(up, down, sizes.up * (plays if sizes.rows else up) + sizes.down * down, str(sizes))
