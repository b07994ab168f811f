"""Score against the number of batches: what fewer batches cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...drawing.labels import Point, place
from ...drawing.style import GREY, grid, log_ticks, looks, settle, spans
from ..csvs import Row, column, groups, number
from ..outcome import Outcome
from ..words import listed, metric_of
from .base import CsvRows, Kind, names

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def rows(outcome: Outcome) -> list[Row]:
    lines, panels = names(outcome)
    leading = [name for name in lines[:1] if name != "batching"]
    panels_kept = [name for name in panels if name != "batching"]
    rest = [name for name in (*lines, *panels) if name not in leading and name not in panels_kept]
    quantity = metric_of(outcome.score, outcome.study.labels)
    found: list[dict[str, str | float | int | None]] = []
    for m in outcome.measured:
        score, batches = m.summary(outcome.score), m.summary("batches")
        if score is None or batches is None:
            continue
        row: dict[str, str | float | int | None] = {
            "panel": outcome.label(m, panels_kept),
            "line": outcome.label(m, leading, "all"),
            "label": outcome.label(m, rest) or outcome.label(m, leading),
            "quantity": quantity.words,
        }
        for name, summary, scale in (("batches", batches, 1.0), ("score", score, quantity.scale)):
            row |= {name: summary.mean * scale, f"{name}_low": summary.low * scale, f"{name}_high": summary.high * scale}
        found.append(row)
    sign = -1.0 if quantity.better == "more" else 1.0
    for row in found:
        rivals = [other for other in found if other["panel"] == row["panel"] and other is not row]
        row["front"] = int(not any(_dominates(other, row, sign) for other in rivals))
    return list(found)


def _dominates(other: Row, row: Row, sign: float) -> bool:
    a = (float(other["batches"] or 0), sign * float(other["score"] or 0))
    b = (float(row["batches"] or 0), sign * float(row["score"] or 0))
    return a[0] <= b[0] and a[1] <= b[1] and a != b


def draw(rows: CsvRows) -> Figure:
    panels = groups(rows, "panel")
    look = looks([row["line"] for row in rows])
    figure, axes = grid(len(panels), across=2, panel=(5.0, 3.7) if len(panels) > 1 else (8.4, 4.8))
    points = []
    for (panel, found), (ax,) in zip(panels.items(), axes, strict=True):
        front = sorted((row for row in found if row["front"] == "1"), key=lambda row: number(row["batches"]))
        ax.plot(
            column(front, "batches"),
            column(front, "score"),
            color=GREY,
            linewidth=0.9,
            linestyle=(0, (4, 3)),
            zorder=1,
            label="Pareto front",
        )
        for label, line in groups(found, "line").items():
            x, y = column(line, "batches"), column(line, "score")
            bars = {f"{axis}err": _arms(line, name) for axis, name in (("x", "batches"), ("y", "score"))}
            style = {"color": look[label].colour, "marker": look[label].marker, "markersize": 6.5, "linestyle": "none"}
            ax.errorbar(x, y, **bars, **style, elinewidth=1.2, markeredgecolor="white", markeredgewidth=0.6, label=label)
        ax.set_xscale("log")
        ax.margins(x=0.14, y=0.14)
        wide = spans(column(found, "score_low"))
        if wide:
            ax.set_yscale("log")
        log_ticks(ax, "xy" if wide else "x")
        ax.set_xlabel("mean batches, log scale")
        ax.set_ylabel(found[0]["quantity"] + (", log scale" if wide else ""))
        ax.set_title(panel)
        points.append(
            (ax, [Point(number(row["batches"]), number(row["score"]), row["label"], look[row["line"]].ink) for row in found])
        )
    handles, labels = axes[0][0].get_legend_handles_labels()
    for (ax,) in axes[1:]:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            if label not in labels:
                handles, labels = [*handles, handle], [*labels, label]
    figure.legend(handles, labels, loc="outside lower center", ncols=max(1, int(figure.get_figwidth() / 1.9)))
    settle(figure)
    for ax, found in points:
        place(ax, found)
    return figure


def _arms(line: CsvRows, name: str) -> list[list[float]]:
    """Lengths of error bars to both sides."""
    ends = zip(column(line, f"{name}_low"), column(line, name), column(line, f"{name}_high"), strict=True)
    return [list(side) for side in zip(*((max(0.0, mean - low), max(0.0, high - mean)) for low, mean, high in ends), strict=True)]


def caption(outcome: Outcome) -> str:
    quantity = metric_of(outcome.score, outcome.study.labels)
    return (
        f"Mean {quantity.words} against mean batches, with 95 % intervals: {_whose(outcome)}, a point each. "
        f"{'Higher' if quantity.better == 'more' else 'Lower'} and further left is better. The dashed line joins those whose "
        f"means no other's beat on both: {_front(outcome)}."
    )


def _front(outcome: Outcome) -> str:
    """What the dashed lines join, panel by panel where there are several."""
    panels: dict[str, list[str]] = {}
    for row in rows(outcome):
        here = panels.setdefault(str(row["panel"]), [])
        if row["front"]:
            here.append(f"{row['line']} {row['label']}")
    if len(panels) == 1:
        return listed(next(iter(panels.values())))
    return "; ".join(f"{listed(front)} ({panel})" for panel, front in panels.items())


def _whose(outcome: Outcome) -> str:
    """How many conditions, of what."""
    counts = [
        f"{n} {word}" for name, word in (("agent", "agents"), ("batching", "batching schemes")) if (n := outcome.count(name)) > 1
    ]
    return f"{len(outcome.measured)} conditions" + (f" ({listed(counts)})" if counts else "")


def alt(outcome: Outcome) -> str:
    every = rows(outcome)
    found, several = [row for row in every if row["front"] == 1], len({row["panel"] for row in every}) > 1
    words = "; ".join(
        f"{row['line']} {row['label']}{', ' + str(row['panel']) if several else ''} "
        f"({float(row['batches'] or 0):.4g} batches, {float(row['score'] or 0):.4g})"
        for row in found
    )
    return f"Scatter plot of score against batches. On the Pareto front: {words}."


TRADEOFF = Kind("tradeoff", ("batches",), rows, draw, caption, alt)
