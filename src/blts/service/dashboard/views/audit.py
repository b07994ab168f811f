"""Audit: everything that was done, by whom and why."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from .. import numbers
from ..facts import Facts
from ..tables import Column, Table
from .base import View

WORDS = {
    "create": "created the experiment",
    "ask": "asked for decisions",
    "tell": "told rewards",
    "refresh": "refreshed the policy",
    "pause": "paused",
    "resume": "resumed",
    "stop": "stopped",
    "add arm": "added an arm",
    "retire arm": "retired an arm",
    "correct": "corrected a reward",
    "cancel": "cancelled decisions",
    "expose": "told exposures",
}
WEIGHTY = {"create", "pause", "resume", "stop", "add arm", "retire arm", "correct", "cancel"}
"""What people decide; the rest is traffic."""


def audit(facts: Facts, rows: Sequence[dict[str, Any]], older: str | None, first: bool) -> View:
    """One page of the audit log.

    Args:
        facts: of the experiment.
        rows: the operations, newest first, as `Experiment.audit_page` gives them.
        older: the cursor of the next page; None on the last.
        first: whether this is the first page.

    Returns:
        The view.
    """
    columns = [
        Column("position", "count"),
        Column("at", "moment"),
        Column("actor", "text"),
        Column("what", "text"),
        Column("detail", "text"),
    ]
    plain = [[r["position"], r["at"], r["actor"], r["what"], json.dumps(r["detail"])] for r in rows]
    values = {"rows": [_row(row) for row in rows], "older": older, "first": first}
    return View("Audit", "audit", values, (), (Table("audit", "Audit log", columns, plain),))


def _row(row: dict[str, Any]) -> dict[str, Any]:
    detail = dict(row["detail"])
    reason = detail.pop("reason", "")
    return {
        "position": numbers.count(row["position"]),
        "at": row["at"],
        "actor": row["actor"],
        "what": WORDS.get(row["what"], row["what"]),
        "weighty": row["what"] in WEIGHTY,
        "reason": reason,
        "detail": _summary(row["what"], detail),
    }


def _summary(what: str, detail: dict[str, Any]) -> str:
    """The facts that matter, short."""
    match what:
        case "ask":
            return numbers.plural(int(detail.get("count", detail.get("n", 0)) or 0), "decision")
        case "tell":
            bad = [f"{detail[k]:,} {k}" for k in ("duplicate", "conflict", "unknown", "invalid") if detail.get(k)]
            return ", ".join([f"{detail.get('accepted', 0):,} accepted", *bad])
        case "refresh":
            used = "in use" if detail.get("in_use") else "not used: " + "; ".join(detail.get("failings", []))
            return f"version {detail.get('version')}, {used}"
        case "create":
            spec = detail.get("spec") or {}
            model = spec.get("model") or {}
            named = model.get("said") or model.get("name") or "a model of its own"
            return f"{numbers.plural(len(spec.get('arms', [])), 'arm')}, {named}"
        case _:
            return "; ".join(f"{key}: {_value(value)}" for key, value in detail.items() if value not in (None, {}, []))


def _value(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return numbers.short(text, 300)
