"""Means with intervals, one line a condition, the paper's beside ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...drawing.style import GREY, log_ticks, looks, settle, spans
from ...statistics import student
from ..csvs import Row, column, groups, number
from ..outcome import Outcome
from ..tables import label_names
from ..words import metric_of
from .base import CsvRows, Kind

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PROBLEM = ("env", "horizon", "drawn")
"""Names that make panels: means of different problems have different scales."""


def rows(outcome: Outcome, metric: str = "") -> list[Row]:
    """Of the score, or of another metric."""
    metric = metric or outcome.score
    quantity = metric_of(metric, outcome.study.labels)
    names = label_names(outcome)
    problem = [name for name in names if name in PROBLEM]
    names = [name for name in names if name not in PROBLEM]
    found: list[Row] = []
    for m in outcome.measured:
        summary, printed = m.summary(metric), outcome.printed(m, metric)
        if summary is None:
            continue
        row: dict[str, str | float | int | None] = {
            "panel": outcome.label(m, problem),
            "group": outcome.label(m, names[:1], "all"),
            "label": outcome.label(m, names, outcome.study.name),
            "quantity": quantity.words,
            "mean": summary.mean * quantity.scale,
            "low": summary.low * quantity.scale,
            "high": summary.high * quantity.scale,
            "paper_mean": printed.mean * quantity.scale if printed else None,
        }
        half = (
            student(printed.n) * printed.sd / printed.n**0.5
            if printed and printed.sd is not None and printed.n and printed.n > 1
            else None
        )
        row |= {"paper_half_width": None if half is None else half * quantity.scale}
        found.append(row | {"optimum": m.about.get("gain") if metric == "reward" else None})
    return found


def draw(rows: CsvRows) -> Figure:
    from matplotlib.figure import Figure

    panels = groups(rows, "panel")
    look = looks([row["group"] for row in rows])
    heights = [len(found) * 0.27 + 0.75 for found in panels.values()]
    figure = Figure(figsize=(8.6, sum(heights) + 0.4), layout="constrained")
    axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
    for (panel, found), ax in zip(panels.items(), axes, strict=True):
        for y, row in enumerate(found):
            shown, mean = look[row["group"]], number(row["mean"])
            lift = 0.17 if row["paper_mean"] else 0.0
            ax.plot([number(row["low"]), number(row["high"])], [y - lift] * 2, color=shown.colour, linewidth=1.6)
            ax.plot(mean, y - lift, marker=shown.marker, color=shown.colour, markersize=6, linestyle="none")
            if row["paper_mean"]:
                paper, half = number(row["paper_mean"]), number(row["paper_half_width"]) if row["paper_half_width"] else 0.0
                ax.plot([paper - half, paper + half], [y + lift] * 2, color=GREY, linewidth=1.1)
                ax.plot(paper, y + lift, marker="D", color="white", markeredgecolor=GREY, markersize=5, linestyle="none")
        for optimum in sorted({row["optimum"] for row in found if row["optimum"]}, key=float):
            ax.axvline(float(optimum), color="black", linewidth=0.9, linestyle=(0, (4, 3)))
            ax.annotate(
                "optimum",
                (float(optimum), 1),
                xycoords=ax.get_xaxis_transform(),
                xytext=(0, 3),
                textcoords="offset points",
                ha="center",
                fontsize=8,
            )
        ax.set_yticks(range(len(found)), [row["label"] for row in found])
        ax.set_ylim(len(found) - 0.4, -0.6)
        ax.tick_params(axis="y", length=0)
        ax.spines["left"].set_visible(False)
        wide = spans(column(found, "low"))
        if wide:
            ax.set_xscale("log")
            log_ticks(ax)
        ax.set_xlabel(found[0]["quantity"] + (", log scale" if wide else ""))
        ax.set_title(panel)
    if any(row["paper_mean"] for row in rows):
        ours = axes[0].plot([], [], marker="o", color="black", linestyle="-", label="here, 95 % interval")[0]
        paper = axes[0].plot([], [], marker="D", color=GREY, markerfacecolor="white", linestyle="-", label="paper, 95 % interval")[
            0
        ]
        figure.legend(handles=[ours, paper], loc="outside lower right", ncols=2)
    settle(figure)
    return figure


def caption(outcome: Outcome, metric: str = "") -> str:
    metric = metric or outcome.score
    words = metric_of(metric, outcome.study.labels).words
    paper = any(outcome.printed(m, metric) for m in outcome.measured)
    beside = " Open diamonds are the paper's means with Student's intervals from its sd and number of runs." if paper else ""
    best = " Dashed: the optimal gain." if metric == "reward" and any("gain" in m.about for m in outcome.measured) else ""
    return f"Mean {words} of {outcome.study.replications} replications with 95 % bootstrap-t intervals.{beside}{best}"


def alt(outcome: Outcome, metric: str = "") -> str:
    found = rows(outcome, metric)
    words = [" ".join(filter(None, (str(row["label"]), str(row["panel"]), f"{float(row['mean'] or 0):.4g}"))) for row in found]
    return f"Dot plot of mean {found[0]['quantity'] if found else 'score'}: {'; '.join(words)}."


def of(name: str, metric: str) -> Kind:
    """The same of one metric, whatever the score."""
    return Kind(name, (metric,), lambda o: rows(o, metric), draw, lambda o: caption(o, metric), lambda o: alt(o, metric))


DOTS = Kind("dots", (), rows, draw, caption, alt)
SWITCHES = of("switches", "switches")
