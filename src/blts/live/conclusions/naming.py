"""The winner that a report would name, without the rest of the report: for rehearsals, which read thousands of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...models import Model
from ...models.support import support_of_likelihood
from . import evidence
from .posterior import posterior
from .recommendation import WINNER

WinnerRule = Callable[[Model, np.ndarray, np.ndarray, tuple[int, ...]], int | None]
"""(model, arms, rewards, active arms) -> the arm that a report on these rewards names the best, or None."""


def named_by_reports(model: Model, arms: np.ndarray, rewards: np.ndarray, active: tuple[int, ...]) -> int | None:
    """The winner by the rule of `recommendation.recommend`, where nothing else stands against it.

    Args:
        model: of the active arms, stacked.
        arms: of the rewards, among the active ones.
        rewards: in the order of their decisions.
        active: numbers of the active arms.

    Returns:
        The arm's number; None where there is none.
    """
    K, binary = len(active), support_of_likelihood(model) == "binary"
    counts = np.bincount(arms, minlength=K)
    varied = counts if binary else evidence.varied(arms, rewards, K)
    if K < 2 or varied.min() < (evidence.LEAST_BINARY if binary else evidence.LEAST):
        return None
    top = int((np.bincount(arms, rewards, K) / counts).argmax())
    others = [k for k in range(K) if k != top]
    summaries = evidence.summarise(arms, rewards, K)
    E = evidence.log_evidence(summaries.at([top] * len(others)), summaries.at(others), binary=binary)
    if E.min() < np.log(evidence.needed(K)):  # cheap, so it comes first
        return None
    found = posterior(model, arms, rewards)
    best = found.shown.best[top] - 2 * found.error.best[top]
    return active[top] if not found.failings and best >= WINNER else None
