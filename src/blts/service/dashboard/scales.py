"""Axes: which numbers or moments to mark, and where they are on a line from 0 to 1."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from . import numbers

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
_STEPS = [1, 5, 15, 30, MINUTE, 5 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR]
_STEPS += [DAY * n for n in (1, 2, 3, 7, 14, 28, 91, 182, 365, 730, 1825, 3650, 36500)]


class Axis(NamedTuple):
    """A line from `low` to `high` with marks."""

    low: float
    high: float
    ticks: list[tuple[float, str]]
    """Values and their labels."""

    def at(self, value: float) -> float:
        """Where a value is: 0 at the low end, 1 at the high one, and never beyond."""
        return min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))


def step_of(span: float, most: int) -> float:
    """A step of 1, 2 or 5 times a power of ten that divides a span into at most so many parts.

    >>> step_of(10, 5), step_of(0.7, 5), step_of(3, 4)
    (2.0, 0.2, 1.0)
    """
    rough = span / most
    power = 10.0 ** math.floor(math.log10(rough))
    return next(m * power for m in (1.0, 2.0, 5.0, 10.0) if m * power >= rough * (1 - 1e-9))


TINY = 1e-300  # smaller values are 0 on an axis: a fifth of the smallest numbers there are would be 0


def linear(values: Sequence[float], *, zero: bool = False, most: int = 5, label: Callable[[float], str] = numbers.number) -> Axis:
    """An axis with round marks that covers some values.

    Args:
        values: what it covers.
        zero: whether 0 is on it.
        most: of parts between marks.
        label: how a mark is written.

    Returns:
        The axis.
    """
    known = [v if abs(v) > TINY else 0.0 for v in values if v is not None and math.isfinite(v)] or [0.0, 1.0]
    low, high = min(known), max(known)
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if high - low <= 1e-12 * max(abs(low), abs(high), 1e-30):
        low, high = (0.0, 1.0) if high == 0 else sorted((low - 0.5 * abs(low), high + 0.5 * abs(high)))
    step = step_of(high - low, most)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    marks = [k * step for k in range(first, last + 1)]
    return Axis(first * step, last * step, [(m, label(0.0 if abs(m) < step / 1e6 else m)) for m in marks])


def shares(label: Callable[[float], str] = numbers.percent) -> Axis:
    """An axis from 0 to 1, in per cent."""
    return Axis(0.0, 1.0, [(k / 4, label(k / 4)) for k in range(5)])


def times(values: Sequence[float], most: int = 5) -> Axis:
    """An axis of moments in UTC, with marks at round ones.

    Args:
        values: seconds since 1970.
        most: of marks.

    Returns:
        The axis, from the first to the last of the values.
    """
    low, high = min(values), max(values)
    if high - low < 1:
        low, high = low - 30, high + 30
    step = next((s for s in _STEPS if (high - low) / s <= most), _STEPS[-1])
    first = math.ceil(low / step)
    marks = [k * step for k in range(first, math.floor(high / step) + 1)]
    return Axis(low, high, [(m, _clock(m, step)) for m in marks])


def _clock(at: float, step: float) -> str:
    found = datetime.datetime.fromtimestamp(at, datetime.UTC)
    if step >= DAY:
        return f"{found.day} {found:%b}" if step < 182 * DAY else f"{found:%b %Y}"
    midnight = found.hour == found.minute == found.second == 0
    return f"{found.day} {found:%b}" if midnight else f"{found:%H:%M}" if step >= MINUTE else f"{found:%H:%M:%S}"


def durations(longest: float, most: int = 5) -> Axis:
    """An axis of durations from 0, with marks at round ones."""
    longest = max(longest, 1.0)
    step = next((s for s in _STEPS if longest / s <= most), _STEPS[-1])
    last = math.ceil(longest / step - 1e-9)
    return Axis(0.0, last * step, [(k * step, _span(k * step)) for k in range(last + 1)])


def _span(seconds: float) -> str:
    for size, sign in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min")):
        if seconds >= size:
            return f"{seconds / size:.3g} {sign}"
    return f"{seconds:g} s" if seconds else "0"
