"""All experiments of a database at a glance: two queries, whatever their sizes. No experiment is opened."""

from __future__ import annotations

import threading
from collections import OrderedDict, defaultdict
from typing import Any, TypeAlias

import sqlalchemy as sa

from ..errors import StoreError
from . import reports, schema
from .database import Database, DbRow, checked, record
from .standing import is_paused

KEPT = 1000  # reports whose conclusions are remembered

_experiments, _arms, _reports = schema.experiments, schema.arms, schema.reports
_last_report = sa.select(sa.func.max(_reports.c.version)).where(_reports.c.experiment == _experiments.c.id).scalar_subquery()
_policies, _audit = schema.policies, schema.audit
# When a version was written is in the audit log too. A row of the policies is large, and its time at the end of it.
_refreshed_at = (
    sa.select(_audit.c.at)
    .join(_policies, sa.and_(_policies.c.experiment == _audit.c.experiment, _policies.c.position == _audit.c.position))
    .where(_policies.c.experiment == _experiments.c.id, _policies.c.version == _experiments.c.version)
    .scalar_subquery()
)
_ROWS = sa.select(_experiments, _last_report.label("report"), _refreshed_at.label("refreshed_at")).order_by(_experiments.c.id)
_ARMS = sa.select(_arms.c.experiment, _arms.c.label, _arms.c.retired).order_by(_arms.c.experiment, _arms.c.arm)

Conclusions: TypeAlias = dict[str, Any]
_known: OrderedDict[tuple[str, int], Conclusions] = OrderedDict()
"""Conclusions of stored reports, which never change, by the experiment's code and the version."""
_lock = threading.Lock()


def experiments(database: Database) -> list[dict[str, Any]]:
    """Where every experiment stands, and what its last stored report concludes.

    >>> from blts.live import Experiment
    >>> from blts.live.overview import experiments
    >>> mail = Experiment.create("sqlite://", "mail", ["A", "B"], "conversions")
    >>> [(row["name"], row["decisions"], row["active"], row["report"]) for row in experiments(mail.database)]
    [('mail', 0, ['A', 'B'], None)]

    Args:
        database: where they are.

    Returns:
        A table for each, in the order of their creation: the columns of `Experiment.status` that need no model, "position" of the
        last entry of the ledger, which changes with everything that is done, and "report" (None before the worker stored one): its
        "version", "as_of", "recommendation", "winner", the "leader" and its "p_best", the "allocation" of the active arms, "alarms"
        and "misfit" in sentences, whether the "sample_ratio" is alarming, and the sentence of a "feedback_share" that is.
        "awaited" also counts rewards whose window is over.
    """
    with database.read() as c:
        rows = [checked(record(row)) for row in c.execute(_ROWS)]
        arms: dict[int, list[tuple[str, int | None]]] = defaultdict(list)
        for experiment, label, retired in c.execute(_ARMS):
            arms[experiment].append((label, retired))
        found = {row.id: _remembered(row) for row in rows if row.report is not None}
        for row in rows:
            if row.report is not None and found[row.id] is None:
                found[row.id] = _read(c, row)
    return [_standing(row, arms[row.id]) | {"report": found.get(row.id)} for row in rows]


def _standing(row: DbRow, arms: list[tuple[str, int | None]]) -> dict[str, Any]:
    return {
        "name": row.name,
        "created_at": row.created_at,
        "decisions": row.t,
        "entries": row.entries,
        "without_reward": row.t - row.settled,
        "batch": row.batch,
        "feedback_due": bool(row.due),
        "awaited": row.awaited,
        "policy": row.version,
        "policies": row.versions,
        "paused": is_paused(row),
        "stopped": row.stopped is not None,
        "promoted": row.stopped or None,
        "refreshed_at": row.refreshed_at,
        "position": row.position,
        "arms": [label for label, _ in arms],
        "active": [label for label, retired in arms if retired is None],
    }


def _conclusions(version: int, report: dict[str, Any]) -> Conclusions:
    """What is shown of a report, of this or an earlier version of the library."""
    ratio, arms = report.get("sample_ratio"), report.get("arms", [])
    leader = (report.get("evidence") or {}).get("leader")
    return {
        "version": version,
        "as_of": report.get("as_of"),
        "recommendation": report["recommendation"],
        "winner": report.get("winner"),
        "leader": leader,
        "p_best": next((arm["p_best"] for arm in arms if arm["arm"] == leader), None),
        "allocation": {arm["arm"]: arm["allocation"] for arm in arms if arm["active"]},
        "alarms": [sentence for metric in report.get("metrics", []) for sentence in metric["alarms"]],
        "misfit": report.get("misfit", []),
        "sample_ratio": bool(ratio and ratio["alarm"]),
        "feedback_share": (report.get("feedback_share") or {}).get("words"),
    }


def _remembered(row: DbRow) -> Conclusions | None:
    with _lock:
        return _known.get((row.code, row.report))


def _read(c: sa.Connection, row: DbRow) -> Conclusions:
    """The conclusions of a stored report; where it was changed, a sentence that says so instead of a recommendation."""
    stored = c.execute(sa.select(_reports).where(_reports.c.experiment == row.id, _reports.c.version == row.report)).one()
    try:
        report = reports.read(row.code, row.name, stored)
    except StoreError as error:  # one experiment's trouble is not that of the others
        return _conclusions(row.report, {"recommendation": str(error)})
    found = _conclusions(row.report, report)
    with _lock:
        _known[row.code, row.report] = found
        while len(_known) > KEPT:
            _known.popitem(last=False)
    return found
