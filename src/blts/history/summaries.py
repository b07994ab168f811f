"""Summaries of each arm's rewards, as a history."""

from __future__ import annotations

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
    added = arm(model, row.action).add(arm(summaries, row.action), row)
    return keep_arm(added, summaries, row.action, live)


def keep_arm(new: Tree, old: Tree, action: Int[Array, ""], live: Bool[Array, ""]) -> Tree:
    """Change what is remembered of one arm.

    Args:
        new: the changed history of that arm, or of every arm as if it were that one.
        old: the histories of every arm.
        action: the arm.
        live: False where nothing is to be changed.

    Returns:
        The new histories.
    """
    mine = (jnp.arange(jax.tree.leaves(old)[0].shape[0]) == action) & live
    return jax.tree.map(lambda a, b: jnp.where(mine.reshape(mine.shape + (1,) * (b.ndim - 1)), a, b), new, old)


def counts_of(history: Tree) -> Int[Array, "*block arms"]:
    """How many rewards each arm has.

    Args:
        history: a log, or summaries with a count of rows.

    Returns:
        The counts; where rows have weights, as in `Discounted`, how many rewards they count for: no whole numbers.
    """
    if not isinstance(history, Log):
        return history.rows
    return history.counts if isinstance(history.worth, tuple) else history.worth
