"""When rewards come: the delay from a decision to its first reward, and how old the decisions are that still wait for one."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..export import WAITING, DecisionTable
from .counted import Counted
from .words import few_digits

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
HOUR, DAY = 3600.0, 86400.0
AGES = (0.0, 60.0, 600.0, HOUR, 6 * HOUR, DAY, 3 * DAY, 7 * DAY, 14 * DAY, 30 * DAY, 90 * DAY, 365 * DAY)
"""Where the bins of ages begin, in seconds."""


def feedback(table: DecisionTable, known: Counted, now: float) -> dict[str, Any]:
    """When rewards came, and which decisions still wait.

    Args:
        table: all decisions.
        known: what each has earned by now.
        now: seconds, on the clock of `asked_at`.

    Returns:
        "arms": for each the number of first "rewards", "quantiles" of their delay in seconds, and the "curve", the share of them
        that had come after so many seconds. "pending": bins of the ages of decisions without a reward; one may have no end.
        Cancelled decisions are left out.
    """
    waiting = now - table.asked_at[known.are(WAITING)]
    told = ~np.isnan(table.delays) & ~known.are("cancelled")
    points = _points(len(table.labels))
    arms = [_arm(label, np.sort(table.delays[told & (table.arms == k)]), points) for k, label in enumerate(table.labels)]
    return {"arms": arms, "pending": _ages(waiting)}


def _points(arms: int) -> int:
    """Of a curve: fewer where there are many arms, so that a report stays small."""
    return int(np.clip(1000 // arms, 5, 50))


def _arm(label: str, delays: np.ndarray, points: int) -> dict[str, Any]:
    """What is said of an arm; `delays` are sorted."""
    if not delays.size:
        return {"arm": label, "rewards": 0, "quantiles": {}, "curve": {"seconds": [], "share": []}}
    places = np.ceil(np.array(QUANTILES) * delays.size).astype(int) - 1
    chosen = np.unique(delays[np.ceil(np.linspace(0, 1, points) * (delays.size - 1)).astype(int)])
    share = np.searchsorted(delays, chosen, side="right") / delays.size
    return {
        "arm": label,
        "rewards": int(delays.size),
        "quantiles": dict(zip(map(str, QUANTILES), few_digits(delays[places]), strict=True)),
        "curve": {"seconds": few_digits(chosen), "share": few_digits(share)},
    }


def _ages(ages: np.ndarray) -> list[dict[str, Any]]:
    """How many decisions are of which age; bins past the oldest are left out."""
    ends = [*AGES[1:], None]
    counts = np.bincount(np.searchsorted(AGES, np.maximum(ages, 0.0), side="right") - 1, minlength=len(AGES)).tolist()
    last = max((i for i, count in enumerate(counts) if count), default=-1)
    return [{"from": AGES[i], "to": ends[i], "count": counts[i]} for i in range(last + 1)]
