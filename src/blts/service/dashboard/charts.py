"""Charts as inline SVG: classes for colours and dashes, no style attributes and no library.

An SVG is the area of the data, as wide as its place on the page; marks and labels reach into the padding around it, so that text
has the same size on a phone and on a wide screen. Lines are in a nested SVG that is stretched, with strokes that are not; points
are placed in per cent. The colours are those of `drawing.style`, in the style sheet as `arm-0` to `arm-6`, with dashes and markers
beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from markupsafe import Markup

from . import numbers
from .scales import Axis
from .tables import Table

MARKED = 40  # points of a line up to which each has a marker
_MARKERS = (
    "M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0z",
    "M-3.2-3.2h6.4v6.4h-6.4z",
    "M0-4.2L4 3H-4z",
    "M0-4.4L4.4 0 0 4.4-4.4 0z",
    "M0 4.2L4-3H-4z",
    "M-1.4-4h2.8v2.6H4v2.8H1.4V4h-2.8V1.4H-4v-2.8h2.6z",
    "M-4-2.4L-2.4-4 0-1.6 2.4-4 4-2.4 1.6 0 4 2.4 2.4 4 0 1.6-2.4 4-4 2.4-1.6 0z",
    "M-4.2 0L3-4V4z",
)


class Look(NamedTuple):
    """The colour, the dash and the marker of an arm, the same in every chart: those of its place among all arms."""

    place: int

    @property
    def classes(self) -> str:
        return f"arm-{self.place % 7} dash-{(self.place + self.place // 7) % 7}"

    @property
    def marker(self) -> str:
        return _MARKERS[self.place % 8]

    @property
    def swatch(self) -> Markup:
        """A short line with the marker, for legends and tables."""
        return Markup('<svg class="swatch {}" width="22" height="12" aria-hidden="true"><path class="line" d="M0 6H22"/>').format(
            self.classes
        ) + Markup('<path class="marker" transform="translate(11 6)" d="{}"/></svg>').format(self.marker)

    @property
    def block(self) -> Markup:
        """A filled square, for legends of bars and areas."""
        square = Markup('<rect class="bar" width="12" height="12" rx="3"/></svg>')
        return Markup('<svg class="swatch {}" width="12" height="12" aria-hidden="true">').format(self.classes) + square


class Series(NamedTuple):
    """Points of one line, from left to right; None where there is none."""

    label: str
    look: Look
    x: Sequence[float]
    y: Sequence[float | None]


class Interval(NamedTuple):
    """A value with its interval; either may be missing."""

    label: str
    look: Look
    value: float | None
    low: float | None
    high: float | None
    text: str
    """As people read it."""


class Bar(NamedTuple):
    """A part of a bar."""

    label: str
    look: Look
    value: float


class Chart(NamedTuple):
    """A drawing with what it needs around it: title, note, legend, and its numbers as a table."""

    title: str
    note: str
    svg: Markup
    legend: Sequence[tuple[str, Look]]
    table: Table
    filled: bool = False
    """Whether it has bars or areas, and not lines."""

    @property
    def id(self) -> str:
        return self.table.id


def lines(series: Sequence[Series], x: Axis, y: Axis, *, about: tuple[str, str], steps: bool = False, height: int = 240) -> Markup:
    """Lines over a common axis.

    Args:
        series: the lines.
        x: the horizontal axis.
        y: the vertical axis.
        about: the id of the chart and a sentence that describes it.
        steps: whether a value holds until the next point.
        height: in pixels.

    Returns:
        The SVG.
    """
    paths, points = [], []
    for one in series:
        known = [(x.at(a), 1 - y.at(b)) if b is not None else None for a, b in zip(one.x, one.y, strict=True)]
        paths.append(Markup('<path class="line {}" d="{}"/>').format(one.look.classes, _path(known, steps)))
        if len(known) <= MARKED:
            words = [f"{one.label}: {_tick(y, b)}" for b in one.y if b is not None]
            points += [_marker(one.look, *p, text) for p, text in zip((p for p in known if p), words, strict=True)]
    return _svg(about, height, _grid(x, y) + _stretched(paths) + Markup("").join(points))


def stacked(series: Sequence[Series], x: Axis, *, about: tuple[str, str], y: Axis, height: int = 240) -> Markup:
    """Areas on top of each other: parts of a whole over time. A value holds until the next point.

    Args:
        series: the parts, from the bottom; all have the same points, of which the last says where the whole ends.
        x: the horizontal axis.
        about: the id of the chart and a sentence that describes it.
        y: the vertical axis, from 0.
        height: in pixels.

    Returns:
        The SVG.
    """
    base = [0.0] * len(series[0].x) if series else []
    paths, edges = [], []
    for one in series:
        top = [b + (v or 0.0) for b, v in zip(base, one.y, strict=True)]
        up = _path([(x.at(a), 1 - y.at(v)) for a, v in zip(one.x, top, strict=True)], steps=True)
        down = _path([(x.at(a), 1 - y.at(v)) for a, v in zip(one.x, base, strict=True)][::-1], steps=True, backwards=True)
        paths.append(Markup('<path class="area {}" d="{}L{}z"/>').format(one.look.classes, up, down[1:]))
        edges.append(Markup('<path class="edge" d="{}"/>').format(up))
        base = top
    return _svg(about, height, _stretched([*paths, *edges[:-1]]) + _grid(x, y, over=True))


def intervals(rows: Sequence[Interval], x: Axis, *, about: tuple[str, str], zero: float | None = None) -> Markup:
    """Values with intervals, one below the other, each under its label.

    Args:
        rows: from the top.
        x: the axis.
        about: the id of the chart and a sentence that describes it.
        zero: where a vertical line is drawn, for what is compared with.

    Returns:
        The SVG.
    """
    each = 46
    height = max(1, len(rows)) * each
    out = [_grid(x, None)]
    if zero is not None:
        out.append(Markup('<line class="zero" x1="{0}%" x2="{0}%" y1="0" y2="100%"/>').format(_pc(x.at(zero))))
    for i, row in enumerate(rows):
        y, name = i * each + 30, numbers.short(row.label, 36)
        out.append(Markup('<text class="row-label" x="0" y="{}">{}</text>').format(y - 14, name))
        out.append(Markup('<text class="row-value" x="100%" y="{}">{}</text>').format(y - 14, numbers.visible(row.text)))
        if row.low is not None and row.high is not None:
            ends = (row.look.classes, _pc(x.at(row.low)), _pc(x.at(row.high)), y)
            out.append(Markup('<line class="whisker {0}" x1="{1}%" x2="{2}%" y1="{3}" y2="{3}"/>').format(*ends))
        if row.value is not None:
            at = Markup('<svg x="{}%" y="{}" class="{}"><path class="marker large" d="{}"/></svg>')
            out.append(at.format(_pc(x.at(row.value)), y, row.look.classes, row.look.marker))
    return _svg(about, height, Markup("").join(out), "intervals")


def bars(groups: Sequence[tuple[str, Sequence[Bar]]], y: Axis, *, about: tuple[str, str], height: int = 220) -> Markup:
    """Bars of stacked parts, side by side.

    Args:
        groups: the label of each bar, and its parts from the bottom.
        y: the axis, from 0.
        about: the id of the chart and a sentence that describes it.
        height: in pixels.

    Returns:
        The SVG.
    """
    out, each, many = [_grid(None, y)], 1 / max(1, len(groups)), len(groups) > 5
    wide = min(0.7 * each, 0.16)
    for i, (name, parts) in enumerate(groups):
        base, middle = 0.0, (i + 0.5) * each
        for part in parts:
            size = y.at(base + part.value) - y.at(base)
            place = (_pc(middle - wide / 2), _pc(1 - y.at(base) - size), _pc(wide), _pc(size))
            bar = Markup('<rect class="bar {}" x="{}%" y="{}%" width="{}%" height="{}%"><title>{}: {}</title></rect>')
            out.append(bar.format(part.look.classes, *place, numbers.visible(part.label), numbers.number(part.value)))
            base += part.value
        less = " less" if many and i % 2 else ""
        out.append(
            Markup('<text class="tick x{}" x="{}%" y="100%" dy="18">{}</text>').format(less, _pc(middle), numbers.visible(name))
        )
    return _svg(about, height, Markup("").join(out))


def share_bar(parts: Sequence[Bar], words: str) -> Markup:
    """A thin bar of shares that add up to 1, for rows of tables."""
    out, left = [], 0.0
    for part in parts:
        out.append(
            Markup('<rect class="bar {}" x="{}%" width="{}%" height="100%"><title>{}: {}</title></rect>').format(
                part.look.classes, _pc(left), _pc(part.value), numbers.visible(part.label), numbers.percent(part.value)
            )
        )
        left += part.value
    body = Markup("").join(out)
    return Markup('<svg class="share-bar" width="100%" height="10" role="img" aria-label="{}">{}</svg>').format(
        numbers.visible(words), body
    )


def gauge(value: float | None) -> Markup:
    """A thin bar that is full at 1, behind a number; the number itself says it in words."""
    if value is None:
        return Markup("")
    return Markup(
        '<svg class="gauge" width="100%" height="4" aria-hidden="true"><rect class="whole" width="100%" height="4" rx="2"/>'
    ) + Markup('<rect class="part" width="{}%" height="4" rx="2"/></svg>').format(_pc(min(1.0, max(0.0, value))))


def _svg(about: tuple[str, str], height: int, body: Markup, kind: str = "") -> Markup:
    name, words = about
    head = Markup('<svg class="plot {}" width="100%" height="{}" role="img" aria-labelledby="{}-about">').format(kind, height, name)
    return head + Markup('<desc id="{}-about">{}</desc>').format(name, numbers.visible(words)) + body + Markup("</svg>")


def _grid(x: Axis | None, y: Axis | None, over: bool = False) -> Markup:
    out = []
    if y is not None:
        for value, label in y.ticks:
            at = _pc(1 - y.at(value))
            out.append(Markup('<line class="grid{}" x1="0" x2="100%" y1="{}%" y2="{}%"/>').format(" over" if over else "", at, at))
            out.append(Markup('<text class="tick y" x="-8" y="{}%" dy="4">{}</text>').format(at, label))
    if x is not None:
        many = len(x.ticks) > 4
        for i, (value, label) in enumerate(x.ticks):
            at, less = _pc(x.at(value)), " less" if many and i % 2 else ""
            if y is None:
                out.append(Markup('<line class="grid" x1="{0}%" x2="{0}%" y1="0" y2="100%"/>').format(at))
            else:
                out.append(Markup('<line class="notch" x1="{0}%" x2="{0}%" y1="100%" y2="100%"/>').format(at))
            out.append(Markup('<text class="tick x{}" x="{}%" y="100%" dy="18">{}</text>').format(less, at, label))
    return Markup("").join(out)


def _stretched(paths: Sequence[Markup]) -> Markup:
    inside = Markup("").join(paths)
    return Markup(
        '<svg class="data" viewBox="0 0 1000 1000" preserveAspectRatio="none" width="100%" height="100%">{}</svg>'
    ).format(inside)


def _path(points: Sequence[tuple[float, float] | None], steps: bool = False, backwards: bool = False) -> str:
    """The path through points; a missing one ends a piece and the next begins another."""
    out, before = [], None
    for point in points:
        if point is None:
            before = None
            continue
        a, b = (round(1000 * v, 1) for v in point)
        if before is None:
            out.append(f"M{a:g} {b:g}")
        elif steps:
            out.append(f"V{b:g}H{a:g}" if backwards else f"H{a:g}V{b:g}")
        else:
            out.append(f"L{a:g} {b:g}")
        before = point
    return "".join(out)


def _marker(look: Look, x: float, y: float, words: str) -> Markup:
    at = Markup('<svg x="{}%" y="{}%" class="{}"><path class="marker" d="{}"><title>{}</title></path></svg>')
    return at.format(_pc(x), _pc(y), look.classes, look.marker, numbers.visible(words))


def _tick(axis: Axis, value: float) -> str:
    """A value written as the axis writes its marks, roughly."""
    per_cent = any(label.endswith("%") for _, label in axis.ticks)
    return numbers.percent(value) if per_cent else numbers.number(value)


def _pc(share: float) -> str:
    """A share of the width or height, in per cent and without needless digits."""
    return f"{100 * share:.2f}".rstrip("0").rstrip(".") or "0"


def looks_of(labels: Sequence[Any]) -> dict[str, Look]:
    """The look of each arm, by its place among all there have been."""
    return {str(label): Look(i) for i, label in enumerate(labels)}
