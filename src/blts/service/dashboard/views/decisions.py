"""Decisions: one by its id or unit, or all of them page by page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import charts, numbers
from ..facts import Facts
from ..tables import Column, Table
from .base import View

STATUSES = {
    "pending": ("waiting", "info"),
    "told": ("told", "good"),
    "corrected": ("corrected", "warn"),
    "aggregate": ("part of a total", "good"),
    "default": ("silent", "info"),
    "missing": ("silent, left out", "warn"),
    "cancelled": ("cancelled", "done"),
}


def decisions(
    facts: Facts, rows: Sequence[dict[str, Any]], older: str | None, first: bool, sought: str = "", problem: str | None = None
) -> View:
    """One page of decisions, or what was sought.

    Args:
        facts: of the experiment.
        rows: the decisions, newest first, as `Experiment.decisions` gives them.
        older: the cursor of the next page; None on the last.
        first: whether this is the first page.
        sought: the id or unit that somebody looks for.
        problem: why it was not found.

    Returns:
        The view.
    """
    shown = [_row(facts, row) for row in rows]
    columns = [
        Column("id", "text"),
        Column("at", "moment"),
        Column("arm", "arm"),
        Column("policy", "count"),
        Column("batch", "count"),
    ]
    columns += [Column("propensity"), Column("status", "text"), Column("reward")]
    plain = [[r["id"], r["at"], r["arm"], r["policy"], r["batch"], _p(r), r["status"], r["reward"]] for r in rows]
    values = {"rows": shown, "older": older, "first": first, "sought": sought, "problem": problem}
    return View("Decisions", "decisions", values, (), (Table("decisions", "Decisions", columns, plain),))


def _p(row: dict[str, Any]) -> float | None:
    """The probability that the decision gave its arm."""
    return (row.get("propensities") or {}).get(row["arm"])


def _row(facts: Facts, row: dict[str, Any]) -> dict[str, Any]:
    word, tone = STATUSES.get(row["status"], (row["status"], "info"))
    laws = row.get("propensities") or {}
    return {
        "id": row["id"],
        "at": row["at"],
        "arm": row["arm"],
        "look": facts.looks.get(row["arm"], charts.Look(0)),
        "policy": row["policy"],
        "batch": numbers.count(row["batch"]),
        "propensity": numbers.percent(_p(row)),
        "propensities": [(label, facts.looks.get(label, charts.Look(0)), numbers.percent(p)) for label, p in laws.items()],
        "status": word,
        "tone": tone,
        "reward": numbers.NONE if row["reward"] is None else numbers.number(row["reward"], 6),
        "told_at": row.get("told_at"),
        "exposed_at": row.get("exposed_at"),
        "context": sorted((row.get("context") or {}).items()),
    }
