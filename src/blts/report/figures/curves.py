"""Mean cumulative regret against time, with simultaneous bands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...drawing.curves import Curve, draw_lines, top
from ...drawing.labels import spread
from ...drawing.style import grid, leftmost, looks, settle
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
    panels = {
        panel: [_curve(label, line) for label, line in groups(found, "line").items()]
        for panel, found in groups(rows, "panel").items()
    }
    look = looks([row["line"] for row in rows])
    figure, axes = grid(len(panels), rows_each=2, across=across(rows))
    tops = [top(curves) for curves in panels.values()]
    shared = max(tops) < 3 * max(min(tops), 1e-300)  # panels of one scale are compared at a glance
    marks = []
    for (panel, curves), pair in zip(panels.items(), axes, strict=True):
        limit = 1.04 * (max(tops) if shared else top(curves))
        for ax, scale in zip(pair, ("linear", "log"), strict=True):
            marks.append((ax, draw_lines(ax, curves, look, scale, limit)))
        pair[0].set_title(panel)
        for ax in pair if leftmost(pair[0]) else ():
            ax.set_ylabel("mean cumulative regret")
    settle(figure)
    for ax, labels in marks:
        spread(ax, labels)
    return figure


def _curve(label: str, line: CsvRows) -> Curve:
    return Curve(label, *(column(line, name) for name in ("time", "mean", "low", "high")))


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
