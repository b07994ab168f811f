"""Numbers with as many digits as their error allows."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def number(x: float | None) -> float | None:
    """A number as JSON can hold it; None where it is not finite. -0.0 becomes 0.0."""
    return float(x) + 0.0 if x is not None and math.isfinite(x) else None


def few_digits(values: np.ndarray) -> list[float | None]:
    """Numbers for a curve, with six digits each; None where one is not finite.

    >>> few_digits(np.array([1 / 3, 123456.789, np.nan]))
    [0.333333, 123457.0, None]
    """
    return [float(f"{x:.6g}") if math.isfinite(x) else None for x in values.tolist()]


def rounded(x: float, error: float) -> float:
    """A number without the digits that its standard error makes meaningless.

    Args:
        x: the number.
        error: its standard error; 0 or NaN where there is none.

    Returns:
        The number, rounded to the place of the first digit of the error, or the next where that is above.

    >>> rounded(0.98765, 0.0004), rounded(0.98765, 0.004), rounded(1234.5, 20.0)
    (0.988, 0.99, 1200.0)
    """
    if not (math.isfinite(x) and math.isfinite(error) and error > 0):
        return float(x)
    return round(float(x), math.floor(-math.log10(error)))


def shares(values: Sequence[float | None], error: float | None) -> list[float | None]:
    """Probabilities of arms with the digits that their error allows. Where they may all be equal, they are shown as equal.

    Args:
        values: the probabilities; None where there is none.
        error: their standard error; None where they are exact.

    Returns:
        What to show.

    >>> shares([0.3301, 0.3403, 0.3296], 0.007), shares([0.25, 0.75], None), shares([0.1234, 0.8766], 0.005)
    ([0.333, 0.333, 0.333], [0.25, 0.75], [0.12, 0.88])
    """
    known = [x for x in values if x is not None]
    if error is None or not error > 0 or len(known) < len(values):
        return list(values)
    if max(abs(x - 1 / len(known)) for x in known) <= 3 * error:
        return [round(1 / len(known), 3)] * len(known)
    return [round(x, max(0, math.floor(-math.log10(error)))) for x in known]


def probability(p: float, error: float = 0.0) -> str:
    """A probability in words, with three digits at most and never 0 or 1.

    Args:
        p: the probability.
        error: its standard error.

    Returns:
        The words.

    >>> probability(0.98765), probability(0.99999), probability(1.0, 0.002)
    ('0.988', 'above 0.999', 'above 0.996')
    """
    nearest = max(0.001, 2 * error)
    if p > 1 - nearest:
        return f"above {1 - nearest:.3g}"
    return f"below {nearest:.3g}" if p < nearest else f"{p:.3g}"


def not_counted_yet(count: int) -> str:
    """Rewards whose window is open, without a full stop.

    >>> not_counted_yet(1), not_counted_yet(1200)
    ('1 reward does not count yet, because its window is open', '1,200 rewards do not count yet, because their windows are open')
    """
    if count == 1:
        return "1 reward does not count yet, because its window is open"
    return f"{count:,} rewards do not count yet, because their windows are open"


def windows_of(count: int) -> str:
    """Open windows as the subject of a sentence, with its verb.

    >>> windows_of(1), windows_of(10)
    ('the window of 1 is', 'the windows of 10 are')
    """
    return "the window of 1 is" if count == 1 else f"the windows of {count} are"
