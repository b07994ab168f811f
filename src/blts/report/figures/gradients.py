"""Gradients that a refresh takes, against the condition number of the posterior."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...drawing.labels import end_labels, spread
from ...drawing.style import grid, leftmost, log_ticks, looks, settle
from ..csvs import Row, column, groups, number
from ..outcome import Outcome
from ..words import listed
from .base import CsvRows, Kind

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def rows(outcome: Outcome) -> list[Row]:
    """Mean gradients, with the fewest and the most of all targets."""
    names = outcome.lines("condition_number")
    panels = ["tolerance"] if "tolerance" in names and len(names) > 1 else []
    lines = [name for name in names if name not in panels]
    found: list[Row] = []
    for m in outcome.measured:
        summary, values = m.summary("gradients"), m.values("gradients")
        if summary is None:
            continue
        place = {"panel": outcome.label(m, panels), "line": outcome.label(m, lines, "gradients")}
        numbers = {"mean": summary.mean, "fewest": float(values.min()), "most": float(values.max()), "n": len(values)}
        found.append({**place, "condition_number": m.condition["condition_number"], **numbers})
    return found


def draw(rows: CsvRows) -> Figure:
    panels = groups(rows, "panel")
    look = looks([row["line"] for row in rows])
    figure, axes = grid(len(panels), panel=(4.8, 3.2))
    low, high = min(column(rows, "fewest")) / 1.5, max(column(rows, "most")) * 1.5
    marks = []
    for (panel, found), (ax,) in zip(panels.items(), axes, strict=True):
        ends = []
        for label, line in groups(found, "line").items():
            points = sorted(line, key=lambda row: number(row["condition_number"]))
            x, y, shown = column(points, "condition_number"), column(points, "mean"), look[label]
            ax.vlines(x, column(points, "fewest"), column(points, "most"), color=shown.colour, linewidth=1)
            ax.plot(x, y, color=shown.colour, linestyle=shown.dash, marker=shown.marker, markersize=4.5, linewidth=1.4)
            ends.append((label, x[-1], y[-1]))
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_ylim(low, high)
        log_ticks(ax, "xy")
        marks.append((ax, end_labels(ax, ends, look)))
        ax.set_title(panel)
        ax.set_xlabel("condition number, log scale")
        if leftmost(ax):
            ax.set_ylabel("gradients a refresh, log scale")
    settle(figure)
    for ax, labels in marks:
        spread(ax, labels)
    return figure


def caption(outcome: Outcome) -> str:
    return (
        f"Gradients that a refresh takes with tuned kernels, against the condition number, on log scales: means over "
        f"{outcome.study.replications} targets, and bars from the fewest to the most. {_widest(outcome)}"
    )


def _widest(outcome: Outcome) -> str:
    """The mean of every line at the largest condition number."""
    found = rows(outcome)
    if not found:
        return ""
    most = max(float(row["condition_number"] or 0) for row in found)
    at = [row for row in found if float(row["condition_number"] or 0) == most]
    words = [" ".join(filter(None, (str(row["line"]), str(row["panel"]), f"{float(row['mean'] or 0):.0f}"))) for row in at]
    return f"At condition number {most:g}: {listed(words)}."


def alt(outcome: Outcome) -> str:
    words = "; ".join(
        f"{row['line']}{' ' if row['panel'] else ''}{row['panel']}, condition number {float(row['condition_number'] or 0):g}: "
        f"{float(row['mean'] or 0):.0f}"
        for row in rows(outcome)
    )
    return f"Gradients a refresh against the condition number. {words}."


GRADIENTS = Kind("gradients", ("gradients",), rows, draw, caption, alt)
