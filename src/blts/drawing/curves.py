"""Mean curves with bands, and labels at their ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from .labels import end_labels, spread
from .style import Look, band, grid, log_ticks, looks, settle

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Annotation

    from .picture import Picture


class Curve(NamedTuple):
    """A mean over time with its band."""

    label: str
    times: Sequence[float]
    mean: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]


def draw_lines(axes: Axes, curves: Sequence[Curve], look: dict[str, Look], scale: str, limit: float) -> list[Annotation]:
    """Draw curves into a panel.

    Args:
        axes: the panel.
        curves: what to draw.
        look: of each label.
        scale: of the time, "linear" or "log".
        limit: the top of the panel; the label of a line that ends above it has an arrow and its last value.

    Returns:
        The labels at the ends, to be spread when the layout is settled.
    """
    ends, words = [], {}
    for label, times, mean, low, high in curves:
        band(axes, times, low, high, look[label])
        axes.plot(times, mean, color=look[label].colour, linestyle=look[label].dash, linewidth=1.5)
        ends.append((label, times[-1], min(mean[-1], limit)))
        if mean[-1] > limit:
            words[label] = f"{label} ↑ {mean[-1]:.0f}" if mean[-1] >= 100 else f"{label} ↑ {mean[-1]:.3g}"
    axes.set_xscale(scale)
    axes.set_xlim(0 if scale == "linear" else min(c.times[0] for c in curves), max(c.times[-1] for c in curves))
    axes.set_ylim(min(0.0, *(min(c.low) for c in curves)), limit)
    labels = end_labels(axes, ends, look, words)
    if scale == "log":
        log_ticks(axes)
    axes.set_xlabel("round, log scale" if scale == "log" else "round")
    return labels


def top(curves: Sequence[Curve]) -> float:
    """The top of a panel: its highest line, unless that is 2.5 times as high as all others, which it would flatten."""
    highs = sorted(max(curve.high) for curve in curves)
    while len(highs) > 2 and highs[-1] > 2.5 * highs[-2] > 0:
        highs.pop()
    return highs[-1]


def picture(curves: Sequence[Curve], scale: str, quantity: str) -> Picture:
    """One panel with curves.

    Args:
        curves: what to draw.
        scale: of the time, "linear" or "log".
        quantity: the label of the vertical axis.

    Returns:
        The figure.
    """
    figure, ((axes,),) = grid(1)
    labels = draw_lines(axes, curves, looks([curve.label for curve in curves]), scale, 1.04 * max(top(curves), 1e-9))
    axes.set_ylabel(quantity)
    settle(figure)
    spread(axes, labels)
    return figure
