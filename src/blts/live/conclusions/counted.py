"""Which rewards a report counts: those that can no longer change because time passes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..export import STATUSES, WAITING, DecisionTable, having
from ..spec import Spec


class Counted(NamedTuple):
    """What every decision has earned by now; arrays `[decisions]`."""

    kinds: np.ndarray
    """As in the table, with what windows that have passed since the last refresh settle: "default" or "missing"."""
    rewards: np.ndarray
    """The rewards that count, at most the cap; NaN elsewhere."""
    open: int
    """Rewards that are told and do not count yet, because their window has not passed."""
    capped: int
    """Rewards above the cap."""
    waits: np.ndarray
    """Which decisions have a window that has begun and not passed."""

    def are(self, *statuses: str) -> np.ndarray:
        """Which decisions have one of some statuses."""
        return having(self.kinds, *statuses)


def closed(table: DecisionTable, spec: Spec, now: float) -> np.ndarray:
    """Which decisions are closed: their window has passed; without a window, those that have a reward.

    An early reward may not count before its window has passed, because an early reward is often a large one: purchases come in at
    once, and zeros at the end of the window.

    Args:
        table: all decisions.
        spec: with the window.
        now: seconds, on the clock of `asked_at`.

    Returns:
        A mask, `[decisions]`.
    """
    starts = _starts(table, spec)
    if spec.window is None:
        return ~np.isnan(table.rewards) & ~np.isnan(starts)
    return starts + spec.window <= now


def _starts(table: DecisionTable, spec: Spec) -> np.ndarray:
    """When each decision's window begins; NaN where it was not exposed, if exposure is told explicitly."""
    return table.exposed_at if spec.exposure == "explicit" else table.asked_at


def counted(table: DecisionTable, spec: Spec, now: float) -> Counted:
    """The rewards that count.

    Args:
        table: all decisions.
        spec: with window and default reward.
        now: seconds, on the clock of `asked_at`.

    Returns:
        The rewards of closed decisions, those that passed in silence with the default reward if there is one.
    """
    kinds, rewards = table.kinds.copy(), table.rewards.copy()
    done = closed(table, spec, now)
    if spec.window is not None:
        silent = done & having(kinds, WAITING)
        kinds[silent] = STATUSES.index("missing" if spec.default_reward is None else "default")
        rewards[silent] = np.nan if spec.default_reward is None else spec.default_reward
    early = ~done & ~np.isnan(rewards)
    rewards[early] = np.nan
    cap = np.inf if spec.cap is None else spec.cap
    waits = ~np.isnan(_starts(table, spec)) & ~done & (spec.window is not None)
    return Counted(kinds, np.minimum(rewards, cap), int(early.sum()), int((rewards > cap).sum()), waits)
