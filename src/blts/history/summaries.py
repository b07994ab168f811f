"""Summaries of each arm's rewards, as a history."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from .._typing import Array, Bool, Int, Row, Tree
from ..models.arms import arm
from .log import Log


def remember_summary(model: Any, summaries: Tree, row: Row, live: Bool[Array, ""]) -> Tree:
    """Add a row to the summary of its own arm. Written by comparison: scatters are slow on a CPU.

    Args:
        model: stacked, with `add`.
        summaries: of every arm.
        row: the round; `row.action` is the arm.
        live: False where nothing is to be added.

    Returns:
        The new summaries.
    """
    return remember_arm(lambda single, summary: single.add(summary, row), model, summaries, row.action, live)


def remember_arm(
    add: Callable[[Any, Tree], Tree], model: Any, histories: Tree, action: Int[Array, ""], live: Bool[Array, ""]
) -> Tree:
    """Change what is remembered of one arm.

    Args:
        add: from the model of that arm and its history to its new history.
        model: stacked.
        histories: of every arm.
        action: the arm.
        live: False where nothing is to be changed.

    Returns:
        The new histories.
    """
    added = add(arm(model, action), arm(histories, action))
    mine = (jnp.arange(jax.tree.leaves(histories)[0].shape[0]) == action) & live
    return jax.tree.map(lambda new, old: jnp.where(mine.reshape(mine.shape + (1,) * (old.ndim - 1)), new, old), added, histories)


def counts_of(history: Tree) -> Int[Array, "*block arms"]:
    """How many rewards each arm has.

    Args:
        history: a log, or summaries with a count of rows.

    Returns:
        The counts.
    """
    return history.counts if isinstance(history, Log) else history.rows
