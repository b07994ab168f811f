"""When a refresh is due and which rewards it learns from: pure functions, for experiments and their rehearsals alike."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .delays import weighed
from .ledger import Fold, Rewards
from .parts import EXTERNAL
from .spec import Spec


def by_cadence(spec: Spec, seconds: float, entries: int) -> bool:
    """Whether a refresh is due although the batch is open: batches are the user's own, or a stated cadence says so.

    Args:
        spec: of the experiment.
        seconds: since the last refresh; below 0 where the clock was set back, and then nobody knows.
        entries: of rewards since the last refresh.

    Returns:
        Whether to refresh, if there is anything new to learn from.
    """
    if spec.refresh_rewards is None and spec.refresh_seconds is None:
        return spec.batching.name == EXTERNAL
    if spec.refresh_seconds is not None and not 0 <= seconds < spec.refresh_seconds:
        return True
    return spec.refresh_rewards is not None and entries >= spec.refresh_rewards


def next_began(due: bool, closing: int, t: int) -> int:
    """How many decisions were before the batch that begins with a refresh after t: those until the end of a closed one."""
    return closing if due else t


class Closed(NamedTuple):
    """What can be learned from at some moment."""

    fold: Fold
    starts: np.ndarray
    """When each decision's window began; NaN where it was not exposed."""
    over: np.ndarray
    """Whether it is over; never without a window."""
    cutoff: float | None
    """Decisions whose window began later are not learned from yet."""
    since: float | None
    """Decisions whose window began earlier are forgotten."""
    default: float | None
    weighed_at: float | None = None
    """The moment for which silence is weighed by its age, where delays are learned; None elsewhere."""
    window: float | None = None

    @staticmethod
    def at(spec: Spec, fold: Fold, now: float, before: float | None = None) -> Closed:
        """The decisions and rewards of an experiment as they stand now.

        Args:
            spec: of the experiment.
            fold: its decisions and rewards.
            now: the time.
            before: the cutoff of the last refresh, or the moment that it weighed silence for: what was learned once is not
                forgotten where a clock is set back.

        Returns:
            What can be learned from.
        """
        starts = fold.starts(spec.exposure == "explicit")
        if spec.delay is not None:
            now = now if before is None else max(now, before)
        over = starts <= now - spec.window if spec.window is not None else np.zeros(len(starts), bool)
        cutoff = (
            max(now - spec.window, -np.inf if before is None else before)
            if spec.window is not None and spec.learn == "closed" and spec.delay is None
            else None
        )
        since = None if spec.forget is None else now - spec.forget
        weighed_at = None if spec.delay is None else now
        return Closed(fold, starts, over, cutoff, since, spec.default_reward, weighed_at, spec.window)

    def awaited(self, began: int, closing: int) -> int:
        """How many decisions of a closed batch cannot be learned from yet: their reward, or with a window its end, is awaited.
        None are where silence is weighed."""
        if self.weighed_at is not None:
            return 0
        batch = slice(began, closing)
        settled = self.fold.settled[batch]
        dropped = settled & np.isnan(self.fold.rewards[batch])  # cancelled, or missing
        ready = self.over[batch] | (dropped if self.cutoff is not None else settled)
        return int((~ready & ~np.isnan(self.starts[batch])).sum())

    def silent(self) -> np.ndarray:
        """Places of the decisions whose window has passed without a word."""
        return np.flatnonzero(self.over & ~self.fold.settled)

    def rows(self, explicit: bool) -> Rewards:
        """The rewards to learn from, with the default reward of silent decisions."""
        if self.weighed_at is not None:
            return weighed(self.fold, explicit, self.weighed_at, self.window or 0.0, self.since)
        return self.fold.with_reward(self.silent(), self.default).rows(explicit, self.cutoff, self.since)
