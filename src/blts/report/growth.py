"""How a score grows with the number of rounds: its local exponent, and what a doubling of T adds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .statistics import interval_of, summarise


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
    """What the doubling before it added. For a score linear in log T the two are equal."""
    start: float
    """The round at which the last half of log T begins."""


def growth(times: np.ndarray, curves: np.ndarray) -> Growth:
    """Growth of curves [replications, times], with 95 % intervals from the bootstrap over replications."""
    begun = np.asarray(times) > 0  # round 0 has no logarithm
    times, curves = np.asarray(times, float)[begun], np.asarray(curves, float)[:, begun]
    start = last_half(times)
    late = times >= start
    last, before = (_added(times, curves, times[-1] / ratio) for ratio in (1, 2))
    return Growth(_exponent(times[late], curves[:, late]), last, before, start)


def last_half(times: np.ndarray) -> float:
    """Where the last half of log T begins: the geometric middle of the recorded rounds."""
    return float(np.sqrt(times[0] * times[-1]))


def slope(times: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Least-squares slope of log(score) on log T, for scores [..., times]."""
    return np.log(scores) @ _contrast(times)


def _contrast(times: np.ndarray) -> np.ndarray:
    x = np.log(times) - np.log(times).mean()
    return x / (x @ x)


def _exponent(times: np.ndarray, curves: np.ndarray) -> Estimate | None:
    mean = curves.mean(0)
    if len(times) < 3 or (mean <= 0).any():
        return None
    found = interval_of(curves, lambda means: slope(times, means), lambda means: _contrast(times) / means)
    return Estimate(float(slope(times, mean)), *found) if found else None  # else the sign of the mean is in doubt


def _added(times: np.ndarray, curves: np.ndarray, end: float) -> Estimate:
    """Score at `end` less score at half of it, between recorded rounds by a line in log T."""
    found = summarise(curves @ (_at(times, end) - _at(times, end / 2)))
    return Estimate(found.mean, found.low, found.high)


def _at(times: np.ndarray, t: float) -> np.ndarray:
    """Weights of the recorded rounds whose sum is the value at t."""
    unit = np.eye(len(times))
    return np.array([np.interp(np.log(t), np.log(times), row) for row in unit])
