"""Average reward up to a round, against the optimum."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...drawing.labels import end_labels, spread
from ...drawing.style import band, grid, leftmost, log_ticks, looks, settle
from ...errors import ConfigError
from ...statistics import band as band_of
from ..csvs import Row, column, groups, number
from ..outcome import Outcome
from .base import CsvRows, Kind, across, places, thinned, whom

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OPTIMUM = "optimal gain"


def rows(outcome: Outcome) -> list[Row]:
    """The optimal gain less regret a round: the expected reward of what was played, without the noise of rewards."""
    found: list[Row] = []
    for measured, block, panel, label in places(outcome):
        gain = measured.about.get("gain")
        if gain is None:
            raise ConfigError(
                f"The figure 'rewards' of the study {outcome.study.name!r} needs environments with one optimal gain; "
                f"{measured.condition.get('env')!r} has none: choose 'curves'."
            )
        curves = measured.arrays["curve"][np.isfinite(measured.arrays["curve"]).all(1)]
        if len(curves) < 2:
            continue
        chosen = thinned(measured.about["times"])
        times = np.asarray(measured.about["times"])[chosen]
        bands = band_of(gain - curves[:, chosen] / times)
        for time, mean, low, high in zip(times, bands.mean, bands.low, bands.high, strict=True):
            row = {"block": block, "panel": panel, "line": label, "time": int(time), "mean": float(mean)}
            found.append(row | {"low": float(low), "high": float(high), "gain": float(gain), "n": len(curves)})
    return found


def draw(rows: CsvRows) -> Figure:
    panels = groups(rows, "panel")
    look = looks([row["line"] for row in rows])
    figure, axes = grid(len(panels), across=across(rows))
    marks = []
    for (panel, found), (ax,) in zip(panels.items(), axes, strict=True):
        ends = []
        for label, line in groups(found, "line").items():
            t, mean = column(line, "time"), column(line, "mean")
            band(ax, t, column(line, "low"), column(line, "high"), look[label])
            ax.plot(t, mean, color=look[label].colour, linestyle=look[label].dash, linewidth=1.5)
            ends.append((label, t[-1], mean[-1]))
        for gain in groups(found, "gain"):
            ax.axhline(float(gain), color="black", linewidth=0.9, linestyle=(0, (4, 3)))
            ends.append((OPTIMUM, max(column(found, "time")), number(gain)))
        ax.set_xscale("log")
        ax.set_xlim(min(column(found, "time")), max(column(found, "time")))
        log_ticks(ax)
        marks.append((ax, end_labels(ax, ends, look)))
        ax.set_title(panel)
        ax.set_xlabel("round, log scale")
        if leftmost(ax):
            ax.set_ylabel("average reward so far")
    settle(figure)
    for ax, labels in marks:
        spread(ax, labels)
    return figure


def caption(outcome: Outcome) -> str:
    return (
        f"Average reward up to each round, on logarithmic time: means of {outcome.study.replications} replications with "
        "simultaneous 95 % bands. It is the expected reward of the actions taken, the optimal gain less regret a round. "
        "Dashed: the optimal gain."
    )


def alt(outcome: Outcome) -> str:
    ends = {f"{row['line']} {row['panel']}".strip(): f"{float(row['mean'] or 0):.3g}" for row in rows(outcome)}
    words = "; ".join(f"{label} {value}" for label, value in ends.items())
    return f"Line chart of average reward against the round for {whom(outcome)}. At the last round: {words}."


REWARDS = Kind("rewards", ("curve",), rows, draw, caption, alt)
