"""How far a chain's end is from the posterior, against the number of rewards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...drawing.labels import end_labels, spread
from ...drawing.style import GREY, grid, log_ticks, looks, settle
from ...statistics import percentiles, resampled_means
from ..csvs import Row, column, groups, number
from ..outcome import Outcome
from ..words import listed
from .base import CsvRows, Kind

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def rows(outcome: Outcome) -> list[Row]:
    """W₂ between N(0, 1) and the Gaussian with z's moments: W₂² = mean² + (sd − 1)²."""
    setting = outcome.lines("n")
    found: list[Row] = []
    for m in outcome.measured:
        z = m.values("z")
        z = z[np.isfinite(z)]
        if len(z) < 2:
            continue
        draws = resampled_means(np.stack([z, z**2], axis=1))
        sds = np.sqrt(np.maximum(draws[:, 1] - draws[:, 0] ** 2, 0) * len(z) / (len(z) - 1))
        low, high = percentiles(np.hypot(draws[:, 0], sds - 1))
        sd_low, sd_high = percentiles(sds)
        bound = m.about.get("bound")
        found.append(
            {
                "line": outcome.label(m, setting, "chain"),
                "n": m.condition["n"],
                "w2": float(np.hypot(z.mean(), z.std(ddof=1) - 1)),
                "low": low,
                "high": high,
                "floor": float(np.sqrt(1.5 / len(z))),
                "sd": float(z.std(ddof=1)),
                "sd_low": sd_low,
                "sd_high": sd_high,
                "bound": float(bound) if bound is not None and np.isfinite(bound) else None,
            }
        )
    return found


def draw(rows: CsvRows) -> Figure:
    look = looks([row["line"] for row in rows])
    figure, ((left,), (right,)) = grid(2, across=2, panel=(4.9, 3.6))
    bounds = _bounds(rows)
    marks = []
    for ax, name, ends_of in ((left, "w2", ("low", "high")), (right, "sd", ("sd_low", "sd_high"))):
        ends = []
        for label, line in groups(rows, "line").items():
            found = sorted(line, key=lambda row: number(row["n"]))
            n, value, shown = column(found, "n"), column(found, name), look[label]
            for x, a, b in zip(n, *(column(found, end) for end in ends_of), strict=True):
                ax.plot([x, x], [a, b], color=shown.colour, linewidth=1)
            ax.plot(n, value, color=shown.colour, linestyle=shown.dash, marker=shown.marker, markersize=4.5, linewidth=1.4)
            ends.append((label, n[-1], value[-1]))
        for label, line in bounds.items() if name == "w2" else ():
            colour = look[label].colour if label in look else GREY
            ax.plot(column(line, "n"), column(line, "bound"), color=colour, linestyle=(0, (4, 3)), linewidth=0.9)
            if label not in look:
                ends.append((label, number(line[-1]["n"]), number(line[-1]["bound"])))
        ax.set_xscale("log")
        ax.set_xlabel("rewards n, log scale")
        marks.append((ax, end_labels(ax, ends, look)))
    left.set_yscale("log")
    floor = max(column(rows, "floor"))
    left.annotate("noise of the estimate", (0.02, 0.02), xycoords="axes fraction", fontsize=8, color=GREY)
    left.set_ylim(bottom := min(left.get_ylim()[0], floor / 2), left.get_ylim()[1])
    left.axhspan(bottom, floor, color="#eeeeee", zorder=0)
    log_ticks(left, "xy")
    log_ticks(right)
    right.axhline(1, color="black", linewidth=0.8, linestyle=(0, (4, 3)))
    left.set_title("Distance from the posterior")
    left.set_ylabel("W₂ in posterior sds, log scale")
    right.set_title("Spread of the chain's end")
    right.set_ylabel("sd in posterior sds")
    settle(figure)
    for ax, labels in marks:
        spread(ax, labels)
    return figure


def _bounds(rows: CsvRows) -> dict[str, CsvRows]:
    """The bound of each line against n, or one for all where they have the same."""
    lines = groups([row for row in rows if row["bound"]], "line")
    found = {label: sorted(line, key=lambda row: number(row["n"])) for label, line in lines.items()}
    distinct = {tuple((row["n"], row["bound"]) for row in line) for line in found.values()}
    return {"Theorem 1": next(iter(found.values()))} if len(distinct) == 1 else dict(found)


def caption(outcome: Outcome) -> str:
    found = rows(outcome)
    bounded = any(row["bound"] is not None for row in found)
    bound = (
        " Dashed without markers: Theorem 1's bound, in the colour of its line where lines have different ones." if bounded else ""
    )
    return (
        "Left: the Wasserstein distance between the law of the chain's end and the posterior, both as Gaussians with their own "
        f"mean and sd, in posterior sds. In the grey region an exact sampler would be found too.{bound} "
        "Right: the sd of the chain's end, which should be 1. "
        f"{outcome.study.replications} chains a point, 95 % bootstrap intervals. {' '.join((*_beyond(found), *_widest(found)))}"
    )


def _beyond(found: Sequence[Row]) -> list[str]:
    """Where the distance is above the bound, its whole interval."""
    bounded = [row for row in found if row["bound"] is not None]
    over = [row for row in bounded if float(row["low"] or 0) > float(row["bound"] or 0)]
    if not bounded:
        return []
    if not over:
        return [f"The distance is above the bound at none of {len(bounded)} points."]
    words = [f"{row['line']}, n = {row['n']} ({float(row['w2'] or 0):.3g} for {float(row['bound'] or 0):.3g})" for row in over]
    return [f"The distance is above the bound at {len(over)} of {len(bounded)} points: {'; '.join(words)}."]


def _widest(found: Sequence[Row]) -> list[str]:
    """The sd of every line at the largest n that there is."""
    if not found:
        return []
    n = max(float(row["n"] or 0) for row in found)
    words = [
        f"{float(row['sd'] or 0):.3g} [{float(row['sd_low'] or 0):.3g}, {float(row['sd_high'] or 0):.3g}] ({row['line']})"
        for row in found
        if float(row["n"] or 0) == n
    ]
    return [f"At n = {n:.0f} the sd is {listed(words)}."]


def alt(outcome: Outcome) -> str:
    words = "; ".join(
        f"{row['line']}, n = {row['n']}: W2 {float(row['w2'] or 0):.2g}, sd {float(row['sd'] or 0):.3g}" for row in rows(outcome)
    )
    return f"Distance of chains from the posterior against the number of rewards. {words}."


DISTANCE = Kind("distance", ("z",), rows, draw, caption, alt)
