"""The figure of a plan: how soon the right winner is named, and what that loses, over units."""

from __future__ import annotations

import os
import pathlib
from typing import TYPE_CHECKING

import numpy as np

from ...drawing.files import write
from ...drawing.labels import end_labels, spread
from ...drawing.style import COLOURS, GREY, Look, band, grid, plain, settle
from .figure import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Annotation

    from .results import Rehearsal
    from .sizing import Sizing

OURS, EQUAL, WRONG = Look(COLOURS[0], "-", "o"), Look(GREY, (0, (5, 2)), "s"), Look(COLOURS[1], "-", "s")


def draw(sizing: Sizing, path: str | os.PathLike[str]) -> pathlib.Path:
    """Write the figure as SVG; see `drawing.files.write`."""
    return write(path, lambda: figure_of(sizing))


def figure_of(sizing: Sizing) -> Figure:
    """Two panels: winners and losses, of the plan and of an equal split."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    figure, axes = grid(2)
    marks: list[tuple[Axes, list[Annotation]]] = []
    for panel, [one] in zip((_winners, _losses), axes, strict=True):
        one.set(xlabel="units", xlim=(0, sizing.units))
        one.set_xticks([float(x) for x in MaxNLocator(5).tick_values(0, sizing.units) if 0 <= x <= sizing.units])
        one.xaxis.set_major_formatter(FuncFormatter(lambda value, _: plain(value)))
        marks.append((one, panel(sizing, one)))
    settle(figure)
    for one, labels in marks:
        spread(one, labels)
    return figure


def _winners(sizing: Sizing, axes: Axes) -> list[Annotation]:
    """The share of experiments in which the right winner, and a wrong one, was named by so many units."""
    ends = []
    found = sizing.found
    for name, one, which, look in (
        ("the plan", found, found.winner == found.best, OURS),
        ("an equal split", sizing.equal, sizing.equal.winner == sizing.equal.best, EQUAL),
        ("a wrong winner", found, found.wrong, WRONG),
    ):
        x, y = _named_by(one, which)
        axes.step(x, y, where="post", color=look.colour, linestyle=look.dash, linewidth=1.5)
        ends.append((name, float(x[-1]), float(y[-1])))
    axes.axhline(sizing.power, color="black", linewidth=0.7)
    axes.annotate(
        f"wanted {sizing.power:.0%}", (0, sizing.power), xytext=(3, 3), textcoords="offset points", fontsize=8.5, color="black"
    )
    axes.set(ylabel="share of the experiments", title="The right winner is named")
    percent(axes)
    return end_labels(axes, ends, {"the plan": OURS, "an equal split": EQUAL, "a wrong winner": WRONG})


def _named_by(found: Rehearsal, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    x = np.unique(np.append([0.0, found.units], found.named_at[which]))
    return x, (which & (found.named_at[None] <= x[:, None])).mean(1)


def _losses(sizing: Sizing, axes: Axes) -> list[Annotation]:
    """What the units so far earned less than the best arm would have: mean, and 9 of 10 experiments."""
    from .sizing import interval_of

    found, gaps = sizing.found, sizing.found.means.max() - sizing.found.means
    lost = np.hstack([np.zeros((found.replications, 1)), found.counts.cumsum(1) @ gaps])
    low, high = np.transpose([interval_of(at) for at in lost.T])
    band(axes, list(found.edges), list(low), list(high), OURS)
    axes.plot(found.edges, lost.mean(0), color=OURS.colour, linewidth=1.5)
    equal = float(gaps.mean())
    axes.plot(found.edges, found.edges * equal, color=EQUAL.colour, linestyle=EQUAL.dash, linewidth=1.0)
    axes.set(xlabel="units (band: 9 of 10 experiments)", ylabel="total reward", title="Loss against the best arm", ylim=(0, None))
    ends = [("the plan", found.units, float(lost.mean(0)[-1])), ("an equal split", found.units, found.units * equal)]
    return end_labels(axes, ends, {"the plan": OURS, "an equal split": EQUAL})
