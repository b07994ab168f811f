"""How many gradients a refresh takes with a tuned kernel, by exact laws (`laws.py`): nothing here is sampled.

The target is N(0, Σ) with given precisions. A chain starts at N(one sd in each coordinate, 2Σ), velocities at N(0, I): about where
the posterior of half the data is. Its error is the root of the mean, over coordinates, of W₂² in units of that coordinate's
variance: √(mean of m² + (s - 1)²), with mean m and sd s in posterior sds. A step takes one gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from . import laws

KERNELS: dict[str, Callable[..., laws.Step]] = {
    "ula": lambda precision, h, friction: laws.langevin(precision, h + 0 * friction),
    "ulmc": laws.exponential,
    "baoab": laws.baoab,
}
"""By the names of their samplers: a step of a kernel for precisions, step sizes and frictions."""
MOST = 100_000
"""Gradients beyond which none are looked for."""


class Tuned(NamedTuple):
    """The best setting of a kernel."""

    error: float
    step_size: float
    friction: float
    """Of no meaning for "ula", which has none."""


def error(kernel: str, precision: np.ndarray, steps: int, h: np.ndarray, friction: np.ndarray) -> np.ndarray:
    """The error after some steps, of each pair of step size and friction."""
    λ = precision[:, None]
    with np.errstate(all="ignore"):  # unstable steps
        mean, variance = KERNELS[kernel](λ, h, friction).after(steps, λ**-0.5, 2 / λ)
        squares = λ * mean**2 + (np.sqrt(λ * variance) - 1) ** 2
        found = np.sqrt(np.mean(squares, 0))
    return np.where(np.isfinite(found), found, np.inf)


def tuned(kernel: str, precision: np.ndarray, steps: int) -> Tuned:
    """The least error after some steps, and its step size and friction: on a grid, refined around its three best points."""
    widest = np.log(precision.max())
    if kernel == "ula":
        h, γ = np.log(np.geomspace(1e-5, 2.0, 200)) - widest, np.zeros(200)
        apart = np.array([np.log(2e5) / 199, 0.0])
    else:
        grid = np.meshgrid(np.log(np.geomspace(3e-3, 2.0, 36)) - widest / 2, np.log(np.geomspace(0.03, 1e3, 36)))
        h, γ = (part.ravel() for part in grid)
        apart = np.log([2.0 / 3e-3, 1e3 / 0.03]) / 35
    lowest = Tuned(np.inf, np.nan, np.nan)
    for level in range(6):
        errors = error(kernel, precision, steps, np.exp(h), np.exp(γ))
        best = np.argsort(errors)[: 3 if level < 5 else 1]
        near = np.linspace(-1, 1, 7)
        points = [(h[i] + a * apart[0], γ[i] + b * apart[1]) for i in best for a in near for b in (near if apart[1] else (0.0,))]
        lowest = Tuned(float(errors[best[0]]), float(np.exp(h[best[0]])), float(np.exp(γ[best[0]])))
        h, γ = np.array(points).T
        apart = apart / 3
    return lowest


def least(kernel: str, precision: np.ndarray, tolerance: float) -> tuple[int | None, Tuned]:
    """The least number of gradients with which the tuned error is within a tolerance.

    Args:
        kernel: one of `KERNELS`.
        precision: of each coordinate of the target.
        tolerance: of the error, in posterior sds.

    Returns:
        The number, None above `MOST`, and the setting there.

    >>> import numpy as np
    >>> from blts.samplers.refreshing import least
    >>> [least(kernel, np.ones(1), 0.1)[0] for kernel in ("ula", "ulmc", "baoab")]
    [9, 6, 2]
    """
    low, high = 0, 1
    while (found := tuned(kernel, precision, high)).error > tolerance:
        low, high = high, 2 * high
        if high > MOST:
            return None, found
    while high - low > 1:
        middle = (low + high) // 2
        at = tuned(kernel, precision, middle)
        low, high, found = (middle, high, found) if at.error > tolerance else (low, middle, at)
    return high, found
