"""Comparisons with numbers that others printed.

Interval, p-value and verdict come from one procedure: the verdict is whether the interval excludes 0, and the p-value is the least
level at which it would.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from ..errors import ConfigError
from ..statistics import Summary

AGREES = 0.99
"""A printed mean differs from ours where this interval of the difference, Welch's, excludes 0."""


class Agreement(NamedTuple):
    """Our mean against a printed one."""

    difference: float
    """Ours less theirs."""
    low: float
    high: float
    """Welch's 99 % interval."""
    p: float
    """Below 0.01 where the interval excludes 0, and only there."""

    @property
    def verdict(self) -> Literal["agrees", "differs"]:
        return "agrees" if self.low <= 0 <= self.high else "differs"


def agreement(ours: Summary, mean: float, sd: float, n: int) -> Agreement:
    """Welch's interval and test from summaries. Where neither has spread, the means are equal or not."""
    from scipy.special import stdtr, stdtrit

    if n < 2:
        raise ConfigError(f"A printed number can be tested where it has an sd over n ≥ 2 runs; got n = {n}.")
    a, b = ours.sd**2 / ours.n, sd**2 / n
    difference = ours.mean - mean
    if a + b == 0:
        same = bool(np.isclose(ours.mean, mean, rtol=1e-9, atol=0))
        exact = 0.0 if same else difference
        return Agreement(exact, exact, exact, float(same))
    freedom = (a + b) ** 2 / (a**2 / (ours.n - 1) + b**2 / (n - 1))
    se = float(np.sqrt(a + b))
    half = float(stdtrit(freedom, (1 + AGREES) / 2)) * se
    return Agreement(difference, difference - half, difference + half, float(2 * stdtr(freedom, -abs(difference) / se)))


def totals(mean: float, runs: int) -> list[int]:
    """The whole totals of so many whole numbers whose mean, rounded as it is printed, is this one.

    >>> from blts.report.comparing import totals
    >>> totals(15.33, 10), totals(15.33, 15)
    ([], [230])
    """
    places = len(f"{mean:.10g}".partition(".")[2])
    slack = 0.5 * 10.0**-places + 1e-9
    near = round(mean * runs)
    return [total for total in (near - 1, near, near + 1) if abs(total / runs - mean) <= slack]
