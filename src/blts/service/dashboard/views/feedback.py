"""Feedback: how long rewards take, and which decisions still wait for theirs."""

from __future__ import annotations

import math
from typing import Any

from .. import charts, numbers, scales
from ..facts import Facts
from ..tables import Column, Table
from .base import Tile, View


def feedback(facts: Facts) -> View:
    """The page of an experiment's feedback."""
    found = None if facts.report is None else facts.report.get("feedback")
    if found is None:
        return View("Feedback", "feedback", {"tiles": [], "sentence": None})
    drawn = tuple(chart for chart in (_delays(facts, found["arms"]), _ages(found["pending"], facts.status["window"])) if chart)
    return View(
        "Feedback", "feedback", {"tiles": _tiles(facts, found), "sentence": _sentence(facts, found)}, drawn, (_quantiles(found),)
    )


def _slowest(arms: list[dict[str, Any]], q: str) -> float | None:
    """The largest quantile of any arm."""
    return max((arm["quantiles"][q] for arm in arms if arm["rewards"]), default=None)


def _tiles(facts: Facts, found: dict[str, Any]) -> list[Tile]:
    waiting, window = sum(one["count"] for one in found["pending"]), facts.status["window"]
    half, most = _slowest(found["arms"], "0.5"), _slowest(found["arms"], "0.9")
    return [
        Tile("Waiting for a reward", numbers.count(waiting), "" if window is None else "their window is open"),
        Tile("Half of rewards come within", numbers.duration(half), "for the slowest arm"),
        Tile("Nine in ten within", numbers.duration(most), "for the slowest arm"),
        Tile("Window", "none" if window is None else numbers.duration(window), "", "window"),
    ]


def _sentence(facts: Facts, found: dict[str, Any]) -> str | None:
    """Whether the window fits the delays."""
    window, late = facts.status["window"], _slowest(found["arms"], "0.99")
    if window is None or late is None:
        return None
    longest, stated = numbers.duration(late), numbers.duration(window)
    if late > window:
        said = f"One reward in a hundred takes longer than {longest}, which is more than the window of {stated}"
        return f"{said}: until they come, such decisions count as silent. A longer window would lose less."
    if late < window / 5:
        return f"Nearly all rewards come within {longest}; a window shorter than {stated} would learn sooner."
    return f"The window of {stated} fits: 99 % of rewards come within {longest}."


def _delays(facts: Facts, arms: list[dict[str, Any]]) -> charts.Chart | None:
    """The share of rewards that had come after so long."""
    shown = [arm for arm in arms if arm["rewards"]]
    if not shown:
        return None
    longest = max(arm["curve"]["seconds"][-1] for arm in shown)
    axis = scales.durations(longest)
    series = []
    for arm in shown:
        x, y = arm["curve"]["seconds"], arm["curve"]["share"]
        series.append(charts.Series(arm["arm"], facts.looks[arm["arm"]], [0.0, *x, axis.high], [0.0, *y, y[-1]]))
    half = "; ".join(f"{arm['arm']} half within {numbers.duration(arm['quantiles']['0.5'])}" for arm in shown)
    about = ("delays", f"Share of rewards that had come after so long: {half}.")
    svg = charts.lines(series, axis, scales.shares(), about=about, steps=True)
    names = list(shown[0]["quantiles"])
    columns = [Column("arm", "arm"), Column("rewards", "count"), *(Column(f"{float(q):.0%} within", "duration") for q in names)]
    table = Table(
        "delays", "How long rewards take", columns, [[a["arm"], a["rewards"], *(a["quantiles"][q] for q in names)] for a in shown]
    )
    legend = [(one.label, one.look) for one in series]
    return charts.Chart("How long rewards take", "share of rewards that had come, by time since the decision", svg, legend, table)


def _quantiles(found: dict[str, Any]) -> Table:
    rows = [
        [arm["arm"], s, p] for arm in found["arms"] for s, p in zip(arm["curve"]["seconds"], arm["curve"]["share"], strict=True)
    ]
    return Table("curves", "Delay curves", [Column("arm", "arm"), Column("seconds"), Column("share")], rows)


def _ages(bins: list[dict[str, Any]], window: float | None) -> charts.Chart | None:
    """How old the decisions are that still wait."""
    if not bins:
        return None
    look = charts.Look(6)
    groups = [(_age(one), [charts.Bar(_words(one), look, float(one["count"]))]) for one in bins]
    axis = scales.linear([one["count"] for one in bins], zero=True, label=numbers.count)
    said = "; ".join(f"{_words(one)}: {one['count']:,}" for one in bins if one["count"])
    svg = charts.bars(groups, axis, about=("ages", f"Decisions without a reward by their age: {said}."))
    columns = [Column("age", "text"), Column("decisions", "count")]
    table = Table("ages", "Decisions that wait, by age", columns, [[_words(one), one["count"]] for one in bins])
    note = (
        "decisions without a reward"
        if window is None
        else f"decisions without a reward; the window ends after {numbers.duration(window)}"
    )
    return charts.Chart("Who still waits", note, svg, [], table)


def _age(one: dict[str, Any]) -> str:
    """The label of a bar."""
    end = one["to"] if one["to"] is not None else math.inf
    for size, sign in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if end <= 86400 * 365 and end >= size:
            return f"< {end / size:g} {sign}"
    return "older"


def _words(one: dict[str, Any]) -> str:
    if one["to"] is None:
        return f"more than {numbers.duration(one['from'])}"
    return (
        f"{numbers.duration(one['from'])} to {numbers.duration(one['to'])}"
        if one["from"]
        else f"up to {numbers.duration(one['to'])}"
    )
