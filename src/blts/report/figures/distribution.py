"""The bad tail of the score over replications: the upper one of regret, the lower one of reward."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...drawing.labels import Point, place
from ...drawing.style import Look, grid, leftmost, log_ticks, looks, settle, spans
from ..csvs import Row, column, groups
from ..outcome import Outcome
from ..words import metric_of
from .base import CsvRows, Kind, across, places, whom

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST = 200
"""Steps drawn a line: the last half of them one by one, the others thinned."""
CROWDED = 4
"""Lines from which a panel's labels stand in a key below the figure: beside as many lines they would cover them."""


def rows(outcome: Outcome) -> list[Row]:
    quantity = metric_of(outcome.score, outcome.study.labels)
    found: list[Row] = []
    for m, block, panel, label in places(outcome):
        values = m.values(outcome.score)
        x = np.sort(values[np.isfinite(values)]) * quantity.scale
        x = x[::-1] if quantity.better == "more" else x
        n = len(x)
        early = np.unique(np.linspace(0, n - 1, min(n, MOST // 2)).astype(int))
        for i in np.union1d(early, np.arange(max(0, n - MOST // 2), n)):
            row = {
                "block": block,
                "panel": panel,
                "line": label,
                "quantity": quantity.words,
                "tail": "≤" if quantity.better == "more" else "≥",
            }
            found.append(row | {"value": float(x[i]), "share": float((n - i) / n), "n": n})
    return found


def draw(rows: CsvRows) -> Figure:
    panels = groups(rows, "panel")
    look = looks([row["line"] for row in rows])
    figure, axes = grid(len(panels), across=across(rows))
    least = min(column(rows, "share"))
    marks, in_key = [], []
    for (panel, found), (ax,) in zip(panels.items(), axes, strict=True):
        points, steps = [], []
        lines = groups(found, "line")
        for k, (label, line) in enumerate(lines.items()):
            x, share = column(line, "value"), column(line, "share")
            ax.step(
                [*x, x[-1]], [*share, least * 0.7], where="pre", color=look[label].colour, linestyle=look[label].dash, linewidth=1.4
            )
            height = least ** ((k + 0.6) / (len(lines) + 0.4))  # labels at different heights, each beside its own line
            at = min(range(len(x)), key=lambda i, share=share, height=height: abs(np.log(share[i] / height)))
            points.append(Point(x[at], share[at], label, look[label].ink))
            steps += list(zip(x, share, strict=True))
        ax.set_yscale("log")
        ax.set_ylim(least * 0.8, 1.15)
        wide = spans(column(found, "value"), 6.0)
        if wide:
            ax.set_xscale("log")
        log_ticks(ax, "xy" if wide else "y")
        ax.margins(x=0.08)
        if len(lines) >= CROWDED:
            in_key += [label for label in lines if label not in in_key]
            points = []
        ax.set_title(panel)
        ax.set_xlabel(found[0]["quantity"] + (", log scale" if wide else ""))
        marks.append((ax, points, steps))
        if leftmost(ax):
            ax.set_ylabel(f"share of replications {found[0]['tail']} x")
    if in_key:
        _key(figure, in_key, look)
    settle(figure)
    for ax, points, steps in marks:
        place(ax, points, steps)
    return figure


def _key(figure: Figure, labels: list[str], look: dict[str, Look]) -> None:
    """A key of some lines below the figure, which is made higher by as much."""
    from matplotlib.lines import Line2D

    samples = [Line2D([], [], color=look[label].colour, linestyle=look[label].dash, linewidth=1.4) for label in labels]
    across = 3 if figure.get_figwidth() > 8 else 1
    key = figure.legend(samples, labels, loc="outside lower left", ncols=across, handlelength=2.6)
    for text in key.get_texts():
        text.set_color(look[text.get_text()].ink)
    figure.set_figheight(figure.get_figheight() + 0.1 + 0.2 * -(-len(labels) // across))


def caption(outcome: Outcome) -> str:
    quantity = metric_of(outcome.score, outcome.study.labels)
    tail, side, away = ("lower", "below", "left") if quantity.better == "more" else ("upper", "above", "right")
    return (
        f"The {tail} tail of {quantity.words}: the share of {outcome.study.replications} replications at or {side} a value, "
        f"on a log scale. A line that ends early has no bad runs; one that goes on to the {away} has a few very bad ones."
    )


def alt(outcome: Outcome) -> str:
    worst = np.min if metric_of(outcome.score, outcome.study.labels).better == "more" else np.max
    words = []
    for m, _, panel, label in places(outcome):
        x = m.values(outcome.score)
        x = x[np.isfinite(x)]
        if len(x):
            words.append(f"{label}{f' ({panel})' if panel else ''} median {np.median(x):.3g}, worst {worst(x):.3g}")
    return f"Tails of the score for {whom(outcome)}. {'; '.join(words)}."


DISTRIBUTION = Kind("distribution", (), rows, draw, caption, alt)
