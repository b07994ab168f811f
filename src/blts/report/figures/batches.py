"""Batches closed by time, with the printed bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...drawing.labels import end_labels, spread
from ...drawing.style import GREY, band, grid, leftmost, log_ticks, looks, settle
from ...statistics import band as band_of
from ..csvs import Row, column, groups, number
from ..outcome import Outcome
from ..words import listed
from .base import CsvRows, Kind, across, names, placed, thinned

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BOUND = "N log₂(T + 1)"


def rows(outcome: Outcome) -> list[Row]:
    """Lines are batching schemes and panels are agents: under one scheme most agents close the same batches."""
    lines, panels = names(outcome)
    schemes = [name for name in panels if name == "batching"]
    by, apart = (schemes, [*lines, *(name for name in panels if name not in schemes)]) if schemes else (lines, panels)
    found: list[Row] = []
    for m, block, panel, label in placed(outcome, by, apart):
        chosen = thinned(m.about["times"])
        bands = band_of(m.arrays["batches_by"][:, chosen])
        bound = m.about.get("batches_bound")
        for k, i in enumerate(chosen):
            found.append(
                {
                    "block": block,
                    "panel": panel,
                    "line": label,
                    "time": int(m.about["times"][i]),
                    "mean": float(bands.mean[k]),
                    "low": float(bands.low[k]),
                    "high": float(bands.high[k]),
                    "bound": None if bound is None or bound[i] is None else float(bound[i]),
                }
            )
    return found


def draw(rows: CsvRows) -> Figure:
    panels = groups(rows, "panel")
    look = looks([row["line"] for row in rows])
    figure, axes = grid(len(panels), across=across(rows))
    most = max(column(rows, "high"))
    wide = most > 1.5 * max((number(row["bound"]) for row in rows if row["bound"]), default=most)
    marks = []
    for (panel, found), (ax,) in zip(panels.items(), axes, strict=True):
        ends = []
        for label, line in groups(found, "line").items():
            t, mean = column(line, "time"), column(line, "mean")
            band(ax, t, column(line, "low"), column(line, "high"), look[label])
            ax.plot(t, mean, color=look[label].colour, linestyle=look[label].dash, linewidth=1.5)
            ends.append((label, t[-1], mean[-1]))
        bounded = [row for row in next(iter(groups(found, "line").values())) if row["bound"]]
        if bounded:
            ax.plot(column(bounded, "time"), column(bounded, "bound"), color=GREY, linestyle=(0, (4, 3)), linewidth=1)
            ends.append((BOUND, number(bounded[-1]["time"]), number(bounded[-1]["bound"])))
        ax.set_xscale("log")
        ax.set_xlim(min(column(found, "time")), max(column(found, "time")))
        if wide:
            ax.set_yscale("log")
            ax.set_ylim(bottom=0.8)
            log_ticks(ax, "xy")
        else:
            ax.set_ylim(bottom=0)
            log_ticks(ax)
        marks.append((ax, end_labels(ax, ends, look)))
        ax.set_xlabel("round, log scale")
        ax.set_title(panel)
        if leftmost(ax):
            ax.set_ylabel("mean batches closed" + (", log scale" if wide else ""))
    settle(figure)
    for ax, labels in marks:
        spread(ax, labels)
    return figure


def caption(outcome: Outcome) -> str:
    return (
        "Batches closed by each round, on logarithmic time: means with simultaneous 95 % bands. "
        f"Dashed in grey: {BOUND}, the paper's bound for dynamic doubling with N actions. {_exceeded(outcome)}"
    )


def _exceeded(outcome: Outcome) -> str:
    """Under which schemes some replication closes more batches than the bound, in some recorded round."""
    found: dict[str, list[bool]] = {}
    for m in outcome.measured:
        bound = m.about.get("batches_bound")
        if bound is not None:
            limit = np.array([np.inf if b is None else float(b) for b in bound])
            above = bool((m.arrays["batches_by"] > limit).any())
            found.setdefault(outcome.label(m, ["batching"], "all"), []).append(above)
    over = [f"{scheme} ({sum(above)} of {len(above)} conditions)" for scheme, above in found.items() if any(above)]
    under = [scheme for scheme, above in found.items() if not any(above)]
    more = f"Some replication closes more under {listed(over)}." if over else ""
    return " ".join(filter(None, (more, f"No replication closes more under {listed(under)}." if under else "")))


def alt(outcome: Outcome) -> str:
    names_of = names(outcome)
    ends = [
        f"{outcome.label(m, [*names_of[0], *names_of[1]], 'all')} {m.arrays['batches_by'][:, -1].mean():.4g}"
        for m in outcome.measured
    ]
    return f"Line chart of batches closed against the round. At the last round: {'; '.join(ends)}."


BATCHES = Kind("batches", ("batches_by",), rows, draw, caption, alt)
