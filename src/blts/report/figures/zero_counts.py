"""How well a row sampler draws the probability of what has never been seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...drawing.labels import end_labels, spread
from ...drawing.style import GREY, grid, leftmost, log_ticks, looks, settle
from ..csvs import Row, column, groups, number
from ..outcome import Outcome
from .base import CsvRows, Kind

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def rows(outcome: Outcome) -> list[Row]:
    """W₁ between the draws and draws of the exact law, in sds of the exact ones."""
    names = outcome.lines("steps")
    panels = ["sampler"] if "sampler" in names and len(names) > 1 else []
    lines = [name for name in names if name not in panels]
    found: list[Row] = []
    for m in outcome.measured:
        share, exact = m.values("share"), m.values("exact")
        share = share[np.isfinite(share)]
        sd = exact.std(ddof=1)
        if not len(share) or sd == 0:
            continue
        half = len(exact) // 2
        found.append(
            {
                "panel": outcome.label(m, panels),
                "line": outcome.label(m, lines, "draws"),
                "steps": m.condition["steps"],
                "w1": distance(share, exact) / sd,
                # Two exact samples of half the size, scaled to the whole: W₁ of empirical laws falls like 1/√n.
                "floor": distance(exact[:half], exact[half : 2 * half]) / sd / np.sqrt(2),
                "n": len(share),
            }
        )
    return found


def distance(x: np.ndarray, y: np.ndarray) -> float:
    """W₁ of two samples: the mean gap of their sorted numbers, or of their quantiles where sizes differ."""
    if len(x) == len(y):
        return float(np.abs(np.sort(x) - np.sort(y)).mean())
    from scipy.stats import wasserstein_distance

    return float(wasserstein_distance(x, y))


def draw(rows: CsvRows) -> Figure:
    panels = groups(rows, "panel")
    look = looks([row["line"] for row in rows])
    figure, axes = grid(len(panels), panel=(4.4, 3.2))
    floor = float(np.median(column(rows, "floor")))
    low, high = min(floor / 2, *column(rows, "w1")) * 0.8, max(*column(rows, "w1"), floor) * 1.4
    marks = []
    for (panel, found), (ax,) in zip(panels.items(), axes, strict=True):
        ends = []
        for label, line in groups(found, "line").items():
            points = sorted(line, key=lambda row: number(row["steps"]))
            x, y, shown = column(points, "steps"), column(points, "w1"), look[label]
            ax.plot(x, y, color=shown.colour, linestyle=shown.dash, marker=shown.marker, markersize=4.5, linewidth=1.4)
            ends.append((label, x[-1], y[-1]))
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_ylim(low, high)
        ax.axhspan(low, floor, color="#eeeeee", zorder=0)
        ax.annotate("two exact samples differ by as much", (0.02, 0.02), xycoords="axes fraction", fontsize=8, color=GREY)
        log_ticks(ax, "xy")
        marks.append((ax, end_labels(ax, ends, look)))
        ax.set_title(panel)
        ax.set_xlabel("steps, log scale")
        if leftmost(ax):
            ax.set_ylabel("W₁ in sds of the exact law, log scale")
    settle(figure)
    for ax, labels in marks:
        spread(ax, labels)
    return figure


NEAR = 2.0
"""Draws whose distance is at most so many times that of two exact samples count as exact in the caption."""


def caption(outcome: Outcome) -> str:
    return (
        "Error of the draws of a probability whose count is zero: the Wasserstein distance W₁ from exact draws, in sds of the "
        f"exact law, against the number of steps, on log scales; {outcome.study.replications} draws a point. "
        f"In the grey region draws are as near as a second sample of exact ones. {_needed(rows(outcome))}"
    )


def _needed(found: Sequence[Row]) -> str:
    """How many of the numbers of steps that were tried each line needs."""
    if not found:
        return ""
    floor = float(np.median([float(row["floor"] or 0) for row in found]))
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in found:
        label = " · ".join(filter(None, (str(row["panel"]), str(row["line"]))))
        lines.setdefault(label, []).append((float(row["steps"] or 0), float(row["w1"] or 0)))
    words = []
    for label, points in lines.items():
        enough = [steps for steps, error in points if error <= NEAR * floor]
        words.append(f"{label} {min(enough):.0f}" if enough else f"{label} more than {max(steps for steps, _ in points):.0f}")
    return f"Steps, of those tried, until the distance is at most twice that: {'; '.join(words)}."


def alt(outcome: Outcome) -> str:
    words = "; ".join(f"{row['panel']} {row['line']}, {row['steps']} steps: {float(row['w1'] or 0):.2g}" for row in rows(outcome))
    return f"Error of row samplers against steps. {words}."


ZERO_COUNTS = Kind("zero-counts", ("share", "exact"), rows, draw, caption, alt)
