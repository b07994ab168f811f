"""Mean cumulative regret against time, with simultaneous bands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...drawing.labels import end_labels, spread
from ...drawing.style import band, grid, leftmost, log_ticks, looks, settle
from ...statistics import band as band_of
from ..csvs import Row, column, groups
from ..outcome import Outcome
from .base import CsvRows, Kind, across, places, thinned, whom

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def rows(outcome: Outcome) -> list[Row]:
    found: list[Row] = []
    for measured, block, panel, label in places(outcome):
        curves = measured.arrays["curve"]
        finite = curves[np.isfinite(curves).all(1)]
        if len(finite) < 2:
            continue
        chosen = thinned(measured.about["times"])
        bands, times = band_of(finite[:, chosen]), [measured.about["times"][i] for i in chosen]
        for time, mean, low, high in zip(times, bands.mean, bands.low, bands.high, strict=True):
            row = {"block": block, "panel": panel, "line": label, "time": int(time), "mean": float(mean)}
            found.append(row | {"low": float(low), "high": float(high), "n": len(finite)})
    return found


def draw(rows: CsvRows) -> Figure:
    panels = groups(rows, "panel")
    look = looks([row["line"] for row in rows])
    figure, axes = grid(len(panels), rows_each=2, across=across(rows))
    tops = [top(found) for found in panels.values()]
    shared = max(tops) < 3 * max(min(tops), 1e-300)  # panels of one scale are compared at a glance
    marks = []
    for (panel, found), pair in zip(panels.items(), axes, strict=True):
        limit = 1.04 * (max(tops) if shared else top(found))
        for ax, scale in zip(pair, ("linear", "log"), strict=True):
            ends, words = [], {}
            for label, line in groups(found, "line").items():
                t, mean = column(line, "time"), column(line, "mean")
                band(ax, t, column(line, "low"), column(line, "high"), look[label])
                ax.plot(t, mean, color=look[label].colour, linestyle=look[label].dash, linewidth=1.5)
                ends.append((label, t[-1], min(mean[-1], limit)))
                if mean[-1] > limit:
                    words[label] = f"{label} ↑ {mean[-1]:.0f}" if mean[-1] >= 100 else f"{label} ↑ {mean[-1]:.3g}"
            ax.set_xscale(scale)
            times = column(found, "time")
            ax.set_xlim((0 if scale == "linear" else min(times)), max(times))
            ax.set_ylim(min(0.0, min(column(found, "low"))), limit)
            marks.append((ax, end_labels(ax, ends, look, words)))
            if scale == "log":
                log_ticks(ax)
            ax.set_xlabel(f"round, {scale} scale")
        pair[0].set_title(panel)
        for ax in pair if leftmost(pair[0]) else ():
            ax.set_ylabel("mean cumulative regret")
    settle(figure)
    for ax, labels in marks:
        spread(ax, labels)
    return figure


def top(found: CsvRows) -> float:
    """The top of a panel: its highest line, unless that is 2.5 times as high as all others, which it would flatten."""
    highs = sorted(max(column(line, "high")) for line in groups(found, "line").values())
    while len(highs) > 2 and highs[-1] > 2.5 * highs[-2] > 0:
        highs.pop()
    return highs[-1]


def caption(outcome: Outcome) -> str:
    n = outcome.study.replications
    return (
        f"Mean cumulative regret of {n} replications, on linear and on logarithmic time. Each shaded band covers its "
        "whole mean curve with probability 95 % (sup-t bootstrap); on the lower panels logarithmic growth is a straight line. "
        "A line far above all others leaves the panel; its label has an arrow and its last value."
    )


def alt(outcome: Outcome) -> str:
    ends = [
        f"{label}{f' ({panel})' if panel else ''} {np.nanmean(m.arrays['curve'][:, -1]):.3g}"
        for m, _, panel, label in places(outcome)
    ]
    return f"Line chart of mean cumulative regret against the round for {whom(outcome)}. At the last round: {'; '.join(ends)}."


CURVES = Kind("curves", ("curve",), rows, draw, caption, alt)
