"""The exact law of unadjusted kernels on a Gaussian target, discretisation bias included, without sampling.

A step on U(x) = λx²/2 is linear: (x, v) ← M (x, v) + ε with Cov ε = N, for each eigenvalue λ of the precision separately. Means
and covariances after any number of steps follow, by repeated squaring. The overdamped kernel has no velocity.
Arguments are arrays that broadcast: precisions, step sizes and frictions of a whole grid at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike


class Step(NamedTuple):
    """One step of a kernel: M and N, as the entries of 2 × 2 matrices of position and velocity."""

    matrix: np.ndarray
    """`[2, 2, …]`."""
    noise: np.ndarray
    """`[2, 2, …]`, symmetric."""

    def then(self, other: Step) -> Step:
        """This step and after it another."""
        return Step(_product(other.matrix, self.matrix), _moved(other.matrix, self.noise) + other.noise)

    def after(self, steps: int, mean: ArrayLike, variance: ArrayLike, temperature: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the position after some steps.

        Args:
            steps: how many.
            mean: of the position at the start, its distance from the target's mean.
            variance: of the position at the start. Velocities start as N(0, temperature).
            temperature: the kernel's.

        Returns:
            The mean, as a distance from the target's, and the variance.
        """
        whole, power = None, self
        while True:
            if steps & 1:
                whole = power if whole is None else whole.then(power)
            steps >>= 1
            if not steps:
                break
            power = power.then(power)
        assert whole is not None
        (a, b), _ = whole.matrix
        return a * mean, np.square(a) * variance + np.square(b) * temperature + whole.noise[0, 0]


def langevin(precision: ArrayLike, step_size: ArrayLike, temperature: float = 1.0) -> Step:
    """A step of `Langevin` (ULA), with h = step_size."""
    shrink = 1 - np.multiply(step_size, precision)
    zero = np.zeros_like(shrink)
    return Step(_matrix(shrink, zero, zero, zero), _matrix(2 * temperature * np.asarray(step_size) + zero, zero, zero, zero))


def baoab(precision: ArrayLike, step_size: ArrayLike, friction: ArrayLike, temperature: float = 1.0) -> Step:
    """A step of `BAOAB`, composed of its five parts."""
    λ, h, γ = np.broadcast_arrays(*(np.asarray(x, float) for x in (precision, step_size, friction)))
    zero, one, c = np.zeros_like(λ), np.ones_like(λ), np.exp(-γ * h)
    still = _matrix(zero, zero, zero, zero)
    kick = Step(_matrix(one, zero, -h / 2 * λ, one), still)
    drift = Step(_matrix(one, h / 2, zero, one), still)
    rub = Step(_matrix(one, zero, zero, c), _matrix(zero, zero, zero, temperature * (1 - c**2)))
    return kick.then(drift).then(rub).then(drift).then(kick)


def exponential(precision: ArrayLike, step_size: ArrayLike, friction: ArrayLike, temperature: float = 1.0) -> Step:
    """A step of `ExponentialIntegrator`."""
    λ, h, γ = np.broadcast_arrays(*(np.asarray(x, float) for x in (precision, step_size, friction)))
    a, c = γ * h, np.exp(-γ * h)
    lag, fading = (a - 1 + c) / γ**2, (1 - c) / γ
    cov, spread = (1 - c) ** 2 / γ, (2 * a - 3 + 4 * c - c**2) / γ**2
    return Step(_matrix(1 - lag * λ, fading, -fading * λ, c), temperature * _matrix(spread, cov, cov, 1 - c**2))


def _matrix(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> np.ndarray:
    return np.stack([np.stack([a, b]), np.stack([c, d])])


def _product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    (a, b), (c, d) = left
    (e, f), (g, h) = right
    return _matrix(a * e + b * g, a * f + b * h, c * e + d * g, c * f + d * h)


def _moved(by: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    return _product(_product(by, covariance), np.swapaxes(by, 0, 1))
