"""Estimates: what each arm earns, by four methods side by side, and what the allocation gained."""

from __future__ import annotations

from typing import Any

from .. import charts, numbers, scales
from ..facts import Facts
from ..tables import Column, Table
from .base import View

KINDS = {"posterior": "Posterior", "aipw": "AIPW", "ipw": "IPW", "naive": "Naive"}


def estimates(facts: Facts) -> View:
    """The page of an experiment's estimates."""
    report = facts.report
    if report is None or not report["rewards"]:
        return View("Estimates", "estimates", {"report": report, "groups": [], "gain": None})
    shown = [kind for kind in KINDS if kind != "posterior" or not facts.contextual]
    ends = [end for arm in facts.arms for kind in shown for end in _of(facts, arm, kind).values() if end is not None]
    axis = scales.linear(ends, label=lambda v: numbers.reward(v, facts.unit))
    drawn = tuple(_chart(facts, arm, shown, axis, i) for i, arm in enumerate(facts.arms) if arm["rewards"])
    values = {
        "report": report,
        "gain": _gain(facts, report["value_against_equal"]),
        "kinds": [(kind, KINDS[kind]) for kind in shown],
    }
    return View("Estimates", "estimates", values, drawn, (_table(facts, shown),))


def _of(facts: Facts, arm: dict[str, Any], kind: str) -> dict[str, float | None]:
    found = facts.mean(arm) if kind == "posterior" else arm[kind]
    return {key: found[key] for key in ("value", "low", "high")}


def _chart(facts: Facts, arm: dict[str, Any], kinds: list[str], axis: scales.Axis, i: int) -> charts.Chart:
    """One arm's estimates below each other."""
    look = facts.looks[arm["arm"]]
    rows = [
        charts.Interval(KINDS[kind], look, **_of(facts, arm, kind), text=facts.interval(_of(facts, arm, kind))) for kind in kinds
    ]
    said = "; ".join(f"{row.label} {row.text}" for row in rows)
    svg = charts.intervals(rows, axis, about=(f"estimates-{i}", f"Estimates of the mean reward of {arm['arm']}: {said}."))
    columns = [Column("estimate", "text"), *(Column(name, facts.unit) for name in ("mean reward", "low", "high"))]
    table = Table(
        f"estimates-{i}", f"Estimates of {numbers.visible(arm['arm'])}", columns, [[r.label, r.value, r.low, r.high] for r in rows]
    )
    return charts.Chart(arm["arm"], f"{numbers.plural(arm['rewards'], 'reward')} that count", svg, [(arm["arm"], look)], table)


def _table(facts: Facts, kinds: list[str]) -> Table:
    columns = [Column("arm", "arm"), Column("rewards", "count")]
    columns += [Column(f"{KINDS[kind]}{end}", facts.unit) for kind in kinds for end in ("", " low", " high")]
    rows = [[arm["arm"], arm["rewards"], *(v for kind in kinds for v in _of(facts, arm, kind).values())] for arm in facts.arms]
    return Table("all", "All estimates", columns, rows)


def _gain(facts: Facts, gain: dict[str, Any] | None) -> dict[str, Any] | None:
    """What the allocation earned compared with equal shares, in words."""
    if gain is None or gain["per_unit"] is None:
        return None
    low, high = gain["low"], gain["high"]
    noun = "conversions" if facts.unit == "rate" else "in total"
    known, tone = False, "info"
    if low is not None and high is not None:
        known, tone = True, "good" if low > 0 else "bad" if high < 0 else "info"
    return {
        "total": f"{numbers.number(abs(gain['total']))} {noun} {'more' if gain['per_unit'] >= 0 else 'less'}",
        "each": numbers.difference(gain["per_unit"], facts.unit),
        "interval": f"{numbers.difference(low, facts.unit)} and {numbers.difference(high, facts.unit)}" if known else None,
        "sure": tone != "info",
        "tone": tone,
    }
