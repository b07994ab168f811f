"""Which rows a policy has learned from: on these its estimated value tends to be too high."""

from __future__ import annotations

import weakref
from typing import Any

import jax
import numpy as np

from .log import Log

SHARED = 0.1
"""The share of a log's rows that may also be in another log by chance, where contexts take few values."""

_LOGS: dict[int, Log] = {}
"""From the id of an array of a state that `learn` returned to what it learned from; an entry goes with its array."""


def remember(state: Any, log: Log) -> None:
    """Note what a state was learned from. A state is a tree of arrays, with no place for it.

    Args:
        state: as `learn` returns it.
        log: the rows.
    """
    for leaf in jax.tree.leaves(state):
        _LOGS[id(leaf)] = log
        weakref.finalize(leaf, _LOGS.pop, id(leaf), None)


def log_of(state: Any) -> Log | None:
    """What a state was learned from.

    Args:
        state: of an agent.

    Returns:
        The log; None where it is not known.
    """
    return next((_LOGS[id(leaf)] for leaf in jax.tree.leaves(state) if id(leaf) in _LOGS), None)


def learned_from(log: Log, policy: Any) -> list[str]:
    """A sentence where a policy learned from rows of a log.

    Args:
        log: on which it is evaluated.
        policy: of `policy_of`, or any other.

    Returns:
        The sentence in a list; an empty list where it has not, or where that is not known.
    """
    known = getattr(policy, "learned_from", None)
    shared = _shared(log, known) if isinstance(known, Log) else 0
    if not shared:
        return []
    return [
        f"The policy learned from {shared} of these {len(log)} rows, so its estimated value tends to be too high; learn from "
        "one part of the log and evaluate on the other (log.split)."
    ]


def _shared(log: Log, known: Log) -> int:
    """How many rows are in both logs: all where the logs are equal, else those that neither has twice, if they are many."""
    ours, theirs = _rows(log), _rows(known)
    if ours.dtype != theirs.dtype:
        return 0
    if len(ours) == len(theirs) and (np.sort(ours) == np.sort(theirs)).all():
        return len(log)
    both = len(np.intersect1d(_single(ours), _single(theirs), assume_unique=True))
    return both if both > SHARED * len(log) else 0


def _rows(log: Log) -> np.ndarray:
    """Every row as one number of many bytes."""
    table = np.ascontiguousarray(np.column_stack([log.contexts, log.actions, log.rewards]), float)
    return table.view(np.dtype((np.void, table.itemsize * table.shape[1])))[:, 0]


def _single(rows: np.ndarray) -> np.ndarray:
    """The rows that occur once."""
    values, counts = np.unique(rows, return_counts=True)
    return values[counts == 1]
