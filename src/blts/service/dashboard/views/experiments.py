"""Experiments: what runs, and what needs somebody."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import charts, numbers
from .base import View


def experiments(rows: Sequence[dict[str, Any]], may_create: bool) -> View:
    """The first page.

    Args:
        rows: the experiments, as `live.overview.experiments` gives them.
        may_create: whether who looks may create one.

    Returns:
        The view.
    """
    shown = [_row(row) for row in rows]
    running = [row for row in shown if not row["over"]]
    values = {
        "needs": [row for row in running if row["needs"]],
        "running": running,
        "over": [row for row in shown if row["over"]],
        "decisions": numbers.count(sum(row["decisions"] for row in rows)),
        "may_create": may_create,
    }
    return View("Experiments", "experiments", values)


def _row(row: dict[str, Any]) -> dict[str, Any]:
    looks, found = charts.looks_of(row["arms"]), row["report"] or {}
    shares = found.get("allocation") or {}
    if row["stopped"]:
        shares = {row["promoted"]: 1.0} if row["promoted"] else {}
    parts = [charts.Bar(label, looks[label], p) for label, p in shares.items() if p and label in looks]
    words = ", ".join(f"{numbers.short(label)} {numbers.percent(p)}" for label, p in shares.items())
    state, tone = _state(row)
    problems = _problems(row)
    winner = None if row["stopped"] else found.get("winner")
    return {
        "name": row["name"],
        "state": state,
        "state_tone": tone,
        "over": row["stopped"],
        "tone": "bad" if problems else "good" if winner else "warn" if row["paused"] else "info",
        "needs": bool(problems or winner or row["paused"]),
        "sentence": problems[0] if problems else _sentence(row, winner),
        "winner": winner,
        "leader": found.get("leader"),
        "leader_look": looks.get(found.get("leader") or ""),
        "p_best": numbers.chance(found.get("p_best")),
        "arms": numbers.plural(len(row["arms"]), "arm"),
        "decisions": numbers.count(row["decisions"]),
        "bar": charts.share_bar(parts, words) if parts else None,
        "created_at": row["created_at"],
        "refreshed_at": row["refreshed_at"],
    }


def _state(row: dict[str, Any]) -> tuple[str, str]:
    if row["stopped"]:
        return ("Promoted", "done") if row["promoted"] else ("Stopped", "done")
    if row["paused"]:
        return "Paused", "warn"
    return ("Running", "good") if row["decisions"] else ("Ready", "info")


def _problems(row: dict[str, Any]) -> list[str]:
    """What somebody should look at before anything else, in sentences."""
    found = row["report"]
    if found is None or row["stopped"]:
        return []
    out = [f"Guardrail: {alarm}." for alarm in found["alarms"]]
    if found["sample_ratio"]:
        out.append("Arms were not played as often as their propensities say.")
    if found["feedback_share"]:
        out.append(found["feedback_share"])
    out += [f"The model does not fit the rewards. {sentence}" for sentence in found["misfit"]]
    return out or ([found["recommendation"]] if found["recommendation"].startswith("Look ") else [])


def _sentence(row: dict[str, Any], winner: str | None) -> str:
    """How it goes."""
    if row["stopped"]:
        return f"Everybody new gets {numbers.short(row['promoted'])}." if row["promoted"] else "There are no more decisions."
    if winner is not None:
        return f"{numbers.short(winner)} wins: promote it, or let it go on."
    if row["paused"]:
        return "No decisions are made until somebody resumes it."
    if not row["decisions"]:
        return "Waiting for the first decision."
    found = row["report"]
    return "Collecting rewards; the first report follows the first refresh." if found is None else found["recommendation"]
