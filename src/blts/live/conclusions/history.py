"""How an experiment came to where it is: allocations of policy versions, and cumulative counts and means, few enough to draw."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import sqlalchemy as sa

from .. import schema
from ..database import record
from ..export import DecisionTable
from ..pages import allocations
from .counted import Counted
from .feedback import DAY
from .words import few_digits

if TYPE_CHECKING:
    from ..session import Session

AT_ONCE = 100_000  # decisions that are counted at a time
VERSIONS, BINS = 200, 100


def versions(session: Session, c: sa.Connection, last: int, labels: list[str]) -> dict[str, Any]:
    """The policy versions that were in use, evenly chosen where there are many.

    Args:
        session: the experiment.
        c: a connection.
        last: the last version that was written.
        labels: of all arms there have been.

    Returns:
        Columns: "version", the decisions "t" before it, the time "at", and the "allocation" of each arm, 0 where it was not active
        and None where it depended on the decision.
    """
    most = int(np.clip(4000 // len(labels), 10, VERSIONS))
    chosen = np.unique(np.linspace(1, last, most).round().astype(int)).tolist()
    table = schema.policies
    query = sa.select(table.c.version, table.c.t, table.c.at, table.c.arms, table.c.law).where(table.c.experiment == session.id)
    found = c.execute(query.where(table.c.version.in_(chosen), table.c.in_use == sa.true()).order_by(table.c.version))
    rows = [record(row) for row in found]
    shares: dict[str, list[float | None]] = {label: [] for label in labels}
    for own in allocations(session, labels, rows):
        for label, column in shares.items():
            column.append(own.get(label, 0.0))
    drawn = {label: few_digits(np.array(column, float)) for label, column in shares.items()}
    return {"version": [r.version for r in rows], "t": [r.t for r in rows], "at": [r.at for r in rows], "allocation": drawn}


def cumulative(table: DecisionTable, known: Counted) -> dict[str, Any]:
    """Decisions and mean rewards up to some moments, by the time of the decision.

    Args:
        table: all decisions.
        known: what each has earned by now.

    Returns:
        "at": the ends of days, or of at most 100 equal bins; and "arms": for each the "decisions", the "rewards" that count and
        their "mean" up to each of them.
    """
    K = len(table.labels)
    ends = _ends(table.asked_at, int(np.clip(2000 // K, 10, BINS)))
    counts, rewards, totals = (np.zeros(len(ends) * K) for _ in range(3))
    for start in range(0, len(table.arms), AT_ONCE):
        some = slice(start, start + AT_ONCE)
        place = np.searchsorted(ends, table.asked_at[some]) * K + table.arms[some]
        paid, earned = ~np.isnan(known.rewards[some]), known.rewards[some]
        counts += np.bincount(place, minlength=counts.size)
        rewards += np.bincount(place[paid], minlength=counts.size)
        totals += np.bincount(place[paid], weights=earned[paid], minlength=counts.size)
    made, n, total = (np.cumsum(x.reshape(len(ends), K), 0).T for x in (counts, rewards, totals))
    mean = np.divide(total, n, out=np.full_like(total, math.nan), where=n > 0)
    arms = [
        {
            "arm": label,
            "decisions": made[k].astype(int).tolist(),
            "rewards": n[k].astype(int).tolist(),
            "mean": few_digits(mean[k]),
        }
        for k, label in enumerate(table.labels)
    ]
    return {"at": ends.tolist(), "arms": arms}


def _ends(at: np.ndarray, most: int) -> np.ndarray:
    """The ends of bins of time: days (UTC) where there are a few, else `most` equal ones; the last is the last moment."""
    if not at.size:
        return np.zeros(0)
    first, last = float(at.min()), float(at.max())
    if 2 * DAY <= last - first <= (most - 2) * DAY:
        days = np.arange(math.floor(first / DAY) + 1, math.ceil(last / DAY)) * DAY
        return np.append(days, last)
    return np.unique(np.append(np.linspace(first, last, min(most, at.size) + 1)[1:-1], last))
