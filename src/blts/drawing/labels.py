"""Labels that cover nothing: beside the ends of lines, and beside points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .style import GREY, Look

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Annotation


def end_labels(
    axes: Axes, ends: Sequence[tuple[str, float, float]], look: dict[str, Look], words: dict[str, str] | None = None
) -> list[Annotation]:
    """Labels beside the ends of lines, to be spread by `spread` when the layout is settled."""
    return [
        axes.annotate(
            (words or {}).get(label, label),
            (x, y),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            color=look[label].ink if label in look else GREY,
            fontsize=8.5,
            annotation_clip=False,
        )
        for label, x, y in ends
    ]


def spread(axes: Axes, labels: Sequence[Annotation], least: float = 11.0) -> None:
    """Move labels up and down until they are `least` points apart, as little as that takes, with a leader where one moved."""
    if not labels:
        return
    scale = 72.0 / axes.get_figure(root=True).dpi  # type: ignore[union-attr]
    wanted = np.array([axes.transData.transform(label.xy)[1] * scale for label in labels])
    low, high = (axes.bbox.y0 * scale, axes.bbox.y1 * scale)
    found = apart(np.clip(wanted, low, high), least, low, high)
    for label, want, got in zip(labels, wanted, found, strict=True):
        shift = float(got - want)
        label.set_position((10.0 if abs(shift) > 3 else 5.0, shift))
        if abs(shift) > 3:
            axes.annotate(
                "",
                label.xy,
                xytext=(9, shift),
                textcoords="offset points",
                arrowprops={"arrowstyle": "-", "color": label.get_color(), "linewidth": 0.6, "shrinkA": 0, "shrinkB": 1},
                annotation_clip=False,
            )


def apart(wanted: np.ndarray, least: float, low: float, high: float) -> np.ndarray:
    """The nearest places, in squares, that keep the order and are `least` apart: isotonic regression of wanted − least · rank.

    They stay below `high`, and above `low` where there is room for all.
    """
    order = np.argsort(wanted, kind="stable")
    blocks: list[list[float]] = []  # mean and size of pooled neighbours
    for rank, i in enumerate(order):
        blocks.append([float(wanted[i]) - least * rank, 1.0])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (a, n), (b, m) = blocks[-2:]
            blocks[-2:] = [[(a * n + b * m) / (n + m), n + m]]
    levels = np.repeat([mean for mean, _ in blocks], [int(n) for _, n in blocks])
    found = np.empty_like(wanted, dtype=float)
    ranks = np.arange(len(wanted))
    placed = np.maximum(levels + least * ranks, low + least * ranks)
    found[order] = np.minimum(placed, high - least * ranks[::-1])
    return found


# Where a label may stand, in points from its point: near before far, right before left.
OFFSETS = [
    (r * np.cos(angle), r * np.sin(angle))
    for r in (7, 12, 18, 26, 36)
    for angle in np.pi * np.array([0, 0.25, -0.25, 1, 0.75, -0.75, 0.5, -0.5])
]
HALF_POINT = 4.0


class Point(NamedTuple):
    x: float
    y: float
    label: str
    colour: str


def place(axes: Axes, points: Sequence[Point], obstacles: Sequence[tuple[float, float]] = ()) -> None:
    """Write a label beside each point, each in turn where it overlaps the least with points, obstacles and labels so far."""
    from matplotlib.backends.backend_agg import RendererAgg
    from matplotlib.patheffects import withStroke

    measure = RendererAgg(10, 10, 72)
    halo = [withStroke(linewidth=2.2, foreground="white")]
    root = axes.get_figure(root=True)
    scale = 72.0 / root.dpi  # type: ignore[union-attr]
    at = [np.asarray(axes.transData.transform((p.x, p.y))) * scale for p in points]
    taken = [(x - HALF_POINT, y - HALF_POINT, x + HALF_POINT, y + HALF_POINT) for x, y in at]
    for x, y in (np.asarray(axes.transData.transform(place)) * scale for place in obstacles):
        taken.append((x - 1, y - 1, x + 1, y + 1))
    frame = tuple(np.array([axes.bbox.x0, axes.bbox.y0, axes.bbox.x1, axes.bbox.y1]) * scale)
    for point, (x, y) in zip(points, at, strict=True):
        text = axes.annotate(point.label, (point.x, point.y), (0, 0), textcoords="offset points", fontsize=8.5, color=point.colour)
        text.set(path_effects=halo, annotation_clip=False)
        width, height, _ = measure.get_text_width_height_descent(point.label or " ", text.get_fontproperties(), False)
        boxes = [_box(x + dx, y + dy, dx, width, height) for dx, dy in OFFSETS]
        costs = [sum(_overlap(box, other) for other in taken) + 3 * _outside(box, frame) + 0.4 * i for i, box in enumerate(boxes)]
        best = int(np.argmin(costs))
        dx, dy = OFFSETS[best]
        text.set_position((dx, dy))
        text.set_horizontalalignment("left" if dx > 1 else "right" if dx < -1 else "center")
        text.set_verticalalignment("center")
        taken.append(boxes[best])
        if np.hypot(dx, dy) > 15:
            line = {"arrowstyle": "-", "color": point.colour, "linewidth": 0.5, "shrinkA": 0, "shrinkB": 2}
            axes.annotate("", (point.x, point.y), xytext=(dx, dy), textcoords="offset points", arrowprops=line)


Box = tuple[float, float, float, float]


def _box(x: float, y: float, dx: float, width: float, height: float) -> Box:
    left = x if dx > 1 else x - width if dx < -1 else x - width / 2
    return (left - 1, y - height / 2 - 1, left + width + 1, y + height / 2 + 1)


def _overlap(a: Box, b: Box) -> float:
    wide, deep = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    return wide * deep if wide > 0 and deep > 0 else 0.0


def _outside(box: Box, frame: Box) -> float:
    """The area of a box that is not inside the frame."""
    return (box[2] - box[0]) * (box[3] - box[1]) - _overlap(box, frame)
