"""The least ratio of rewards observed to plays, against the lemma's one half."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...drawing.style import COLOURS, grid, leftmost, settle
from ..csvs import Row, column, groups, number
from ..outcome import Outcome
from ..tables import label_names
from .base import CsvRows, Kind

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BINS = np.linspace(0, 1, 41)


def rows(outcome: Outcome) -> list[Row]:
    found: list[Row] = []
    for m in outcome.measured:
        least = m.values("least")
        least = least[np.isfinite(least)]
        if not len(least):
            continue
        counts, _ = np.histogram(least, BINS)
        for left, right, count in zip(BINS[:-1], BINS[1:], counts, strict=True):
            row = {"panel": outcome.label(m, label_names(outcome), "all"), "left": float(left), "right": float(right)}
            found.append(
                row | {"count": int(count), "least": float(least.min()), "below": int((least < 0.5).sum()), "n": len(least)}
            )
    return found


def draw(rows: CsvRows) -> Figure:
    panels = groups(rows, "panel")
    figure, axes = grid(len(panels), panel=(3.3, 2.1))
    for (panel, found), (ax,) in zip(panels.items(), axes, strict=True):
        left, n = np.array(column(found, "left")), number(found[0]["n"])
        share = np.array(column(found, "count")) / n
        ax.bar(
            left, share, np.array(column(found, "right")) - left, align="edge", color=COLOURS[0], edgecolor="white", linewidth=0.4
        )
        ax.axvline(0.5, color="black", linewidth=1, linestyle=(0, (4, 3)))
        ax.axvspan(0, 0.5, color="#eeeeee", zorder=0)
        ax.set_xlim(0, 1)
        words = f"least {number(found[0]['least']):.3g}; {found[0]['below']} of {n:.0f} below ½"
        ax.set_title(f"{panel}\n{words}" if panel else words)
        ax.set_xlabel("least observed / played")
        if leftmost(ax):
            ax.set_ylabel("share")
    settle(figure)
    return figure


def caption(outcome: Outcome) -> str:
    below = [
        f"{label} ({found[0]['below']} of {found[0]['n']})" for label, found in _by(rows(outcome)).items() if found[0]["below"]
    ]
    said = f"There are such replications for {'; '.join(below)}." if below else "There is no such replication."
    return (
        "The least ratio of rewards observed to plays, over all arms and all rounds after an arm's first play; "
        f"one number a replication, {outcome.study.replications} of them. The lemma, which is about dynamic doubling, says that "
        f"none is in the grey region, below ½. {said}"
    )


def alt(outcome: Outcome) -> str:
    words = "; ".join(f"{label} {float(found[0]['least'] or 0):.3g}" for label, found in _by(rows(outcome)).items())
    return f"Histograms of the least ratio of observed to played, with a line at one half. Least: {words}."


def _by(rows: list[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(str(row["panel"]), []).append(row)
    return found


RATIO = Kind("ratio", ("least",), rows, draw, caption, alt)
