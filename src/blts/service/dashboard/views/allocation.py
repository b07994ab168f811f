"""Allocation: where traffic went over time, and how the arms' means settled."""

from __future__ import annotations

from typing import Any

from .. import charts, numbers, scales
from ..facts import Facts
from ..tables import Column, Table
from .base import View


def allocation(facts: Facts) -> View:
    """The page of an experiment's history."""
    history = None if facts.report is None else facts.report.get("history")
    drawn: list[charts.Chart] = []
    if history is not None:
        drawn = [
            chart
            for chart in (planned(facts) or _by_period(facts, history), _played(facts, history), _means(facts, history))
            if chart
        ]
    return View("Allocation", "allocation", {}, tuple(drawn))


def planned(facts: Facts, height: int = 280) -> charts.Chart | None:
    """The propensities of the policies in use, from each version to the next; None where there are none.

    Args:
        facts: of the experiment.
        height: of the chart, in pixels.
    """
    history = None if facts.report is None else facts.report.get("history")
    if history is None:
        return None
    versions = history["policies"]
    end = facts.report["as_of"]["at"] if facts.report else facts.now
    rows = [i for i in range(len(versions["at"])) if all(p[i] is not None for p in versions["allocation"].values())]
    if not rows or not facts.status["decisions"]:
        return None
    at = [versions["at"][i] for i in rows] + [max(end, versions["at"][rows[-1]] + 1)]
    shares = {label: [p[i] for i in rows] for label, p in versions["allocation"].items()}
    series = [charts.Series(label, facts.looks[label], at, [*y, y[-1]]) for label, y in shares.items() if label in facts.looks]
    now = ", ".join(f"{label} {numbers.percent(y[-1])}" for label, y in shares.items())
    about = ("planned", f"Share of decisions that each policy gives to each arm, over time; now {now}.")
    svg = charts.stacked(series, scales.times(at), about=about, y=scales.shares(), height=height)
    columns = [Column("version", "count"), Column("from", "moment"), *(Column(label, "share") for label in shares)]
    plain = [[versions["version"][i], versions["at"][i], *(y[k] for y in shares.values())] for k, i in enumerate(rows)]
    table = Table("planned", "Share of decisions by policy version", columns, plain)
    note = "the share of new decisions that each arm gets, by the policy in use; it changes at refreshes"
    return charts.Chart("Where traffic goes", note, svg, [(one.label, one.look) for one in series], table, filled=True)


def _by_period(facts: Facts, history: dict[str, Any]) -> charts.Chart | None:
    """The share of decisions that each arm got from one moment to the next, where no share is the same for all decisions."""
    at, made = history["at"], {arm["arm"]: [0, *arm["decisions"]] for arm in history["arms"]}
    if len(at) < 2:
        return None
    sizes = [sum(n[i + 1] - n[i] for n in made.values()) for i in range(len(at))]
    first = facts.status["created_at"]
    shares = {label: [(n[i + 1] - n[i]) / max(1, sizes[i]) for i in range(len(at))] for label, n in made.items()}
    x = [min(first, at[0]), *at]
    series = [charts.Series(label, facts.looks[label], x, [*y, y[-1]]) for label, y in shares.items()]
    about = ("by-period", "Share of the decisions of each period that each arm got.")
    svg = charts.stacked(series, scales.times(x), about=about, y=scales.shares(), height=280)
    columns = [Column("until", "moment"), *(Column(label, "share") for label in shares)]
    table = Table(
        "by-period", "Share of decisions by period", columns, [[t, *(y[i] for y in shares.values())] for i, t in enumerate(at)]
    )
    legend = [(one.label, one.look) for one in series]
    return charts.Chart("Where traffic went", "share of the decisions of each period", svg, legend, table, filled=True)


def _played(facts: Facts, history: dict[str, Any]) -> charts.Chart | None:
    """Decisions of each arm so far."""
    at = history["at"]
    if len(at) < 2:
        return None
    series = [charts.Series(arm["arm"], facts.looks[arm["arm"]], at, arm["decisions"]) for arm in history["arms"]]
    top = max(max(arm["decisions"]) for arm in history["arms"])
    last = ", ".join(f"{one.label} {one.y[-1]:,}" for one in series)
    about = ("played", f"Decisions of each arm up to each moment; at the end {last}.")
    svg = charts.lines(series, scales.times(at), scales.linear([top], zero=True, label=numbers.count), about=about)
    columns = [Column("until", "moment"), *(Column(one.label, "count") for one in series)]
    table = Table("played", "Decisions so far", columns, [[t, *(one.y[i] for one in series)] for i, t in enumerate(at)])
    return charts.Chart("Decisions so far", "cumulative, by arm", svg, [(one.label, one.look) for one in series], table)


def _means(facts: Facts, history: dict[str, Any]) -> charts.Chart | None:
    """The mean reward of each arm up to each moment."""
    at = history["at"]
    known = [v for arm in history["arms"] for v in arm["mean"] if v is not None]
    if len(at) < 2 or not known:
        return None
    series = [charts.Series(arm["arm"], facts.looks[arm["arm"]], at, arm["mean"]) for arm in history["arms"]]
    last = ", ".join(f"{one.label} {numbers.reward(one.y[-1], facts.unit)}" for one in series)
    about = ("means-so-far", f"Mean reward of each arm's decisions up to each moment; at the end {last}.")
    axis = scales.linear(known, zero=facts.unit == "rate", label=lambda v: numbers.reward(v, facts.unit))
    svg = charts.lines(series, scales.times(at), axis, about=about)
    columns = [Column("until", "moment"), *(Column(one.label, facts.unit) for one in series)]
    table = Table("means-so-far", "Mean reward so far", columns, [[t, *(one.y[i] for one in series)] for i, t in enumerate(at)])
    note = "naive means of all decisions up to a moment; for conclusions read Estimates"
    return charts.Chart("Mean reward so far", note, svg, [(one.label, one.look) for one in series], table)
