"""How a score grows with the number of rounds: its local exponent, and what a doubling of T adds."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..statistics import interval_of, summarise

LOGARITHM = "O(log T)"
CLAIMS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    LOGARITHM: lambda t: np.log(t),
    "O(√T)": lambda t: np.sqrt(t),
    "O(√(T log T))": lambda t: np.sqrt(t * np.log(t)),
    "O(T)": lambda t: t,
    "O(T/H)": lambda t: t,
}
"""Growths that can be claimed, as functions of T."""
ROUNDING = 1e-3
"""A change of less than this share of what a doubling adds is none: where all replications have the same counts, it is rounding."""
STEPS = 0.02
"""Exponents of whole counts, which are staircases in T, are known to this much: T/H policies have T^1.01 at T = 16,383."""
FASTER, NO_FASTER = "faster than claimed", "no faster than claimed"


class Estimate(NamedTuple):
    value: float
    low: float
    high: float


class Growth(NamedTuple):
    """Growth of a mean curve over the last half of log T."""

    exponent: Estimate | None
    """Slope of log(score) on log T: 1/2 for √T, towards 0 for log T. None where the mean curve is not positive."""
    last: Estimate
    """What the last doubling of T added to the score."""
    before: Estimate
    """What the doubling before it added."""
    change: Estimate
    """What the last doubling added less what the one before added: 0 for a score linear in log T."""
    start: float
    """The round at which the last half of log T begins."""
    late: np.ndarray
    """The recorded rounds from there on."""

    def judged(self, claim: str) -> str:
        """Whether the score grows faster than claimed over the last half of log T; "" for a claim that is not known.

        A claimed logarithm is compared with the change between doublings, any other claim with the exponent: the verdict is
        whether the 95 % interval lies above what the claim has over the same rounds.
        """
        if claim not in CLAIMS:
            return ""
        if claim == LOGARITHM:
            return FASTER if self.change.low > ROUNDING * abs(self.last.value) else NO_FASTER
        if self.exponent is None:
            return ""
        return FASTER if self.exponent.low > self.claimed(claim) + STEPS else NO_FASTER

    def claimed(self, claim: str) -> float:
        """The exponent that a claimed growth has over these rounds."""
        return float(slope(self.late, CLAIMS[claim](self.late)))


def growth(times: np.ndarray, curves: np.ndarray) -> Growth:
    """Growth of curves [replications, times], with 95 % intervals from the bootstrap over replications."""
    begun = np.asarray(times) > 0  # round 0 has no logarithm
    times, curves = np.asarray(times, float)[begun], np.asarray(curves, float)[:, begun]
    start = last_half(times)
    late = times >= start
    added = [curves @ (_at(times, end) - _at(times, end / 2)) for end in (times[-1], times[-1] / 2)]
    last, before, change = (_estimate(x) for x in (*added, added[0] - added[1]))
    return Growth(_exponent(times[late], curves[:, late]), last, before, change, start, times[late])


def last_half(times: np.ndarray) -> float:
    """Where the last half of log T begins: the geometric middle of the recorded rounds."""
    return float(np.sqrt(times[0] * times[-1]))


def slope(times: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Least-squares slope of log(score) on log T, for scores [..., times]."""
    return np.log(scores) @ contrast(times)


def contrast(times: np.ndarray) -> np.ndarray:
    """Weights whose sum over log(score) is the slope."""
    x = np.log(times) - np.log(times).mean()
    return x / (x @ x)


def _exponent(times: np.ndarray, curves: np.ndarray) -> Estimate | None:
    mean = curves.mean(0)
    if len(times) < 3 or (mean <= 0).any():
        return None
    found = interval_of(curves, lambda means: slope(times, means), lambda means: contrast(times) / means)
    return Estimate(float(slope(times, mean)), *found) if found else None  # else the sign of the mean is in doubt


def _estimate(values: np.ndarray) -> Estimate:
    found = summarise(values)
    return Estimate(found.mean, found.low, found.high)


def _at(times: np.ndarray, t: float) -> np.ndarray:
    """Weights of the recorded rounds whose sum is the value at t, between recorded rounds by a line in log T."""
    unit = np.eye(len(times))
    return np.array([np.interp(np.log(t), np.log(times), row) for row in unit])
