"""The figure of a rehearsal: who gets the traffic, what that earns, when a winner is named, when the stopping rule holds and when
guardrails have alarms, all over units."""

from __future__ import annotations

import os
import pathlib
import warnings
from typing import TYPE_CHECKING

import numpy as np

from ...drawing.files import write
from ...drawing.labels import end_labels, spread
from ...drawing.style import COLOURS, GREY, Look, band, grid, looks, plain, settle

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Annotation

    from .results import Rehearsal

LOW, HIGH = 0.1, 0.9  # the quantiles that bands reach
LAST = 0.07  # the width of the last bar, as a share of the units
RIGHT, WRONG = Look(COLOURS[2], "-", "o"), Look(COLOURS[1], "-", "s")
GAIN, BOUND = Look(COLOURS[0], "-", "o"), Look(GREY, (0, (5, 2)), "s")


def draw(found: Rehearsal, path: str | os.PathLike[str]) -> pathlib.Path:
    """Write the figure as SVG; see `write`."""
    return write(path, lambda: figure_of(found))


def figure_of(found: Rehearsal) -> Figure:
    """Panels beside each other. Where all arms are equal there is nothing to gain, and no panel for it; nor for rules that the
    specification does not have."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    panels = [_traffic, _winners] if found.all_equal else [_traffic, _gain, _winners]
    panels += ([] if found.stops is None else [_stops]) + ([_alarms] if found.guardrails else [])
    figure, axes = grid(len(panels))
    marks: list[tuple[Axes, list[Annotation]]] = []
    for panel, [one] in zip(panels, axes, strict=True):
        one.set(xlabel="units", xlim=(0, found.units))
        one.set_xticks([float(x) for x in MaxNLocator(5).tick_values(0, found.units) if 0 <= x <= found.units])
        one.xaxis.set_major_formatter(FuncFormatter(lambda value, _: plain(value)))
        marks.append((one, panel(found, one)))
    settle(figure)
    for one, labels in marks:
        spread(one, labels)
    return figure


def percent(axes: Axes) -> None:
    """A vertical axis of shares, from 0 to 100 %."""
    from matplotlib.ticker import PercentFormatter

    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))


def _traffic(found: Rehearsal, axes: Axes) -> list[Annotation]:
    """The share of each bin's decisions that every arm had; bins without decisions are left out."""
    plays = found.plays.mean(0)
    coloured = looks([found.labels[k] for k in sorted(np.argsort(-plays, kind="stable")[: len(COLOURS)])])
    with warnings.catch_warnings(), np.errstate(invalid="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # a bin in which no replication decided
        share = found.counts / found.counts.sum(2, keepdims=True)
        mean, (low, high) = np.nanmean(share, 0), np.nanquantile(share, [LOW, HIGH], axis=0)
    x = (found.edges[1:] + found.edges[:-1]) / 2
    for k, label in enumerate(found.labels):
        look = coloured.get(label, Look(GREY, "-", "o"))
        if label in coloured:
            band(axes, list(x), list(low[:, k]), list(high[:, k]), look)
        axes.plot(x, mean[:, k], color=look.colour, linestyle=look.dash, linewidth=1.5 if label in coloured else 0.7)
    axes.set(xlabel="units (bands: 8 of 10 rehearsals)", ylabel="share of the decisions", title="Traffic")
    percent(axes)
    ends = [(label, float(mean[-1, k])) for k, label in enumerate(found.labels) if label in coloured]
    return end_labels(axes, [(label, found.units, y) for label, y in ends if np.isfinite(y)], coloured)


def _gain(found: Rehearsal, axes: Axes) -> list[Annotation]:
    """What the decisions so far earned more than an equal split of them, and what the best arm alone would have."""
    over = found.counts.cumsum(1) @ (found.means - found.means.mean())
    bound = found.counts.sum(2).cumsum(1).mean(0) * (found.means.max() - found.means.mean())
    start = np.zeros((len(over), 1))
    over, bound = np.hstack([start, over]), np.append(0.0, bound)
    low, high = np.quantile(over, [LOW, HIGH], axis=0)
    band(axes, list(found.edges), list(low), list(high), GAIN)
    axes.plot(found.edges, bound, color=BOUND.colour, linestyle=BOUND.dash, linewidth=1.0)
    axes.plot(found.edges, over.mean(0), color=GAIN.colour, linewidth=1.5)
    axes.axhline(0, color="black", linewidth=0.7)
    axes.set(ylabel="total reward", title="Gain over an equal split")
    best = f"{found.labels[found.best]} alone"
    ends = [(best, found.units, bound[-1]), ("rehearsed", found.units, over.mean(0)[-1])]
    return end_labels(axes, ends, {best: BOUND, "rehearsed": GAIN})


def _winners(found: Rehearsal, axes: Axes) -> list[Annotation]:
    """The share of replications that had named a winner, the wrong ones below the right ones."""
    kinds = [(_false(found), found.wrong, WRONG), ("right winner", ~found.wrong & (found.winner >= 0), RIGHT)]
    return _shares(found, axes, "A winner is named", found.named_at, kinds, "none yet")


def _stops(found: Rehearsal, axes: Axes) -> list[Annotation]:
    """The share of replications that the rule had stopped: at a wrong winner, a right one, or without one."""
    stops = found.stops
    assert stops is not None
    kinds = [(_false(found), stops.wrong, WRONG), ("right winner", ~stops.wrong & (stops.arm >= 0), RIGHT)]
    kinds.append(("no winner", stops.held & (stops.arm < 0), Look(GREY, "-", "o")))
    return _shares(found, axes, "The stopping rule holds", stops.units, kinds, "goes on")


def _false(found: Rehearsal) -> str:
    return "false winner" if found.all_equal else "wrong winner"


def _shares(
    found: Rehearsal, axes: Axes, title: str, at: np.ndarray, kinds: list[tuple[str, np.ndarray, Look]], rest: str
) -> list[Annotation]:
    """The share of replications of each kind over units, stacked; `at` says from how many units on each counts."""
    end = found.units * (1 + LAST)  # those of the last look are drawn beyond the last unit
    x = np.append(np.unique(np.append([0.0, found.units], at[~np.isnan(at)])), end)
    by = at[None] <= x[:, None]  # False for NaN
    low, ends = np.zeros(len(x)), []
    for name, which, look in kinds:
        high = low + (by & which).mean(1)
        axes.fill_between(x, low, high, step="post", color=look.colour, alpha=0.75 if look is WRONG else 0.45, linewidth=0)
        if high[-1] > low[-1]:
            ends.append((name, end, float(low[-1] + high[-1]) / 2))
        low = high
    if low[-1] < 1:
        ends.append((rest, end, float(1 + low[-1]) / 2))
    axes.axvline(found.units, color="white", linewidth=0.9)
    axes.set(xlabel="units (last bar: after all)", ylabel="share of the rehearsals", title=title, xlim=(0, end))
    axes.grid(visible=False, axis="x")
    percent(axes)
    return end_labels(axes, ends, {name: look for name, _, look in kinds})


def _alarms(found: Rehearsal, axes: Axes) -> list[Annotation]:
    """The share of replications that had an alarm, of each arm on each guardrail; false ones are dashed."""
    names = {f"{one.metric}: {one.arm}": one for one in found.guardrails}
    coloured, ends = looks(list(names)[: len(COLOURS)]), []
    for name, one in names.items():
        look, at = coloured.get(name, Look(GREY, "-", "o")), one.alarm_at
        x = np.unique(np.append([0.0, found.units], at[one.alarmed]))
        y = (at[None] <= x[:, None]).mean(1)
        axes.step(x, y, where="post", color=look.colour, linestyle="-" if one.worse else (0, (4, 2)), linewidth=1.5)
        ends += [(name, found.units, float(y[-1]))] if name in coloured else []
    dashed = any(not one.worse for one in found.guardrails)
    axes.set(xlabel=f"units{' (dashed: a false alarm)' if dashed else ''}", ylabel="share of the rehearsals", title="Alarms")
    percent(axes)
    return end_labels(axes, ends, coloured)
