"""Policies: every version, who made it, and whether it is used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import charts, numbers
from ..facts import Facts
from ..tables import Column, Table
from .base import View

KINDS = {"start": "start", "refresh": "refresh", "arms": "arms changed"}


def policies(facts: Facts, rows: Sequence[dict[str, Any]], older: str | None, first: bool) -> View:
    """One page of policy versions.

    Args:
        facts: of the experiment.
        rows: the versions, newest first, as `Experiment.policies` gives them.
        older: the cursor of the next page; None on the last.
        first: whether this is the first page.

    Returns:
        The view.
    """
    shown = [_row(facts, row) for row in rows]
    columns = [Column("version", "count"), Column("kind", "text"), Column("in use", "text"), Column("at", "moment")]
    columns += [Column("decisions before", "count"), Column("failings", "text")]
    plain = [[r["version"], r["kind"], str(r["in_use"]).lower(), r["at"], r["t"], "; ".join(r["failings"])] for r in rows]
    table = Table("policies", "Policy versions", columns, plain)
    return View("Policies", "policies", {"rows": shown, "older": older, "first": first}, (), (table,))


def _row(facts: Facts, row: dict[str, Any]) -> dict[str, Any]:
    allocation = row.get("allocation") or {}
    parts = [charts.Bar(label, facts.looks[label], share) for label, share in allocation.items() if label in facts.looks and share]
    words = ", ".join(f"{numbers.short(label)} {numbers.percent(share)}" for label, share in allocation.items())
    return {
        "version": row["version"],
        "kind": KINDS.get(row["kind"], row["kind"]),
        "current": row["version"] == facts.status["policy"],
        "in_use": row["in_use"],
        "failings": row["failings"],
        "at": row["at"],
        "decisions": numbers.count(row["t"]),
        "learned": numbers.count(sum((row.get("n") or {}).values())),
        "bar": charts.share_bar(parts, words) if parts else None,
    }
