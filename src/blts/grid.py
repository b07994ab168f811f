"""Posteriors of one or two parameters by quadrature on a grid, in double precision: the reference for `Posterior.check`.

No code is shared with the samplers. The range of the grid is found automatically: modes are searched for from draws of the prior,
and the grid covers all of them, until the density at its edges is 30 nats below the maximum.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import optimize

from . import _random
from ._typing import Row
from .errors import ConfigError

DEEP = 30.0
"""How many nats below the maximum the density is cut off."""
POINTS = {1: 4001, 2: 201}
"""Grid points along each axis, by dimension. Odd, so that every second point is a grid of the same range."""
SCANNED, CLIMBED = 2048, 16  # prior draws evaluated; mode searches start from the best of them, and from as many others
PASSES = 40
FEW = 3.5  # effective points per axis: as many as a normal distribution has on a grid of spacing one sd
AT_ONCE = 2**21  # log-likelihoods of single rewards evaluated together


class GridPosterior(NamedTuple):
    """A posterior as weighted points on a grid."""

    points: np.ndarray
    """θ, `[points, dim]`."""
    weights: np.ndarray
    """Their probabilities, which sum to 1."""
    shape: tuple[int, ...]
    """Points along each axis, in C order."""
    error: float = 0.0
    """The estimated quadrature error: the change of means and sds, in posterior sds, on every second point. Infinite where too few
    points carry the probability."""

    def moments(self, values: np.ndarray) -> tuple[float, float]:
        """Mean and sd of a function of θ.

        Args:
            values: its values at the points.

        Returns:
            The mean and the sd.
        """
        mean = float(self.weights @ values)
        return mean, float(np.sqrt(self.weights @ np.square(values - mean)))

    def cdf(self, values: np.ndarray, at: np.ndarray) -> np.ndarray:
        """The distribution function of a function of θ. The probability of a point is spread evenly over its cell.

        Args:
            values: the values of the function at the points.
            at: where to evaluate the distribution function.

        Returns:
            P(function ≤ x) for each x in `at`.
        """
        slopes = np.gradient(values.reshape(self.shape))
        width = np.maximum(sum(np.abs(slope) for slope in (slopes if len(self.shape) > 1 else [slopes])), 1e-300).ravel()
        some = self.weights > 1e-9 * self.weights.max()
        v, e, w = values[some], width[some], self.weights[some] / self.weights[some].sum()
        return np.array([w @ np.clip((x - v) / e + 0.5, 0.0, 1.0) for x in np.ravel(at)])


def grid(model: Any, rows: Row, starts: np.ndarray | None = None) -> GridPosterior:
    """The posterior of one arm on a grid.

    Args:
        model: a model of one arm with one or two parameters.
        rows: the observed rounds, at least one, stacked.
        starts: further points to search for modes from, `[starts, dim]`.

    Returns:
        The weighted points.

    Raises:
        ConfigError: the model has more than two parameters, or its posterior no finite maximum.

    >>> import numpy as np
    >>> from blts._typing import Row
    >>> from blts.grid import grid
    >>> from blts.models import Gaussian
    >>> found = grid(Gaussian(), Row((), np.zeros(3, int), np.array([1.0, 2.0, 3.0])))
    >>> mean, sd = found.moments(found.points[:, 0])
    >>> round(mean, 6), round(sd, 6)
    (1.5, 0.5)
    """
    if model.dim not in POINTS:
        raise ConfigError(
            f"A grid is for one or two parameters, and {type(model).__name__} has {model.dim}; compare samplers instead."
        )
    with jax.enable_x64(True):
        rows = jax.tree.map(jnp.asarray, rows)
        scanned = np.asarray(jax.vmap(model.init)(_random.split(_random.as_key(1), SCANNED)), float)
        best = scanned[np.argsort(-_heights(model, rows, scanned))[:CLIMBED]]
        others = scanned[:CLIMBED] if starts is None else np.concatenate([scanned[:CLIMBED], np.asarray(starts, float)])
        modes = _climbed(model, rows, np.concatenate([best, others]))
        heights = _heights(model, rows, modes)
        if not np.isfinite(heights.max()):
            raise ConfigError(f"{type(model).__name__}: no θ was found that gives these rewards a density.")
        highest = modes[heights.argmax()]
        return _covering(model, rows, modes[heights > heights.max() - DEEP], highest, _root(model, rows, highest))


def _log_posterior(model: Any, rows: Row, theta: Any) -> Any:
    return model.log_prior(theta) + jnp.sum(jax.vmap(lambda row: model.log_likelihood(theta, row))(rows))


@partial(jax.jit, static_argnames="size")
def _at_all(model: Any, rows: Row, points: Any, size: int) -> Any:
    return jax.lax.map(lambda theta: _log_posterior(model, rows, theta), points, batch_size=size)


def _heights(model: Any, rows: Row, points: np.ndarray) -> np.ndarray:
    """The log posterior, up to a constant, at many points; -∞ where it is not finite."""
    size = min(max(1, AT_ONCE // len(rows.reward)), len(points))
    found = np.asarray(_at_all(model, rows, jnp.asarray(points), size))
    return np.where(np.isfinite(found), found, -np.inf)


_uphill = jax.jit(jax.value_and_grad(_log_posterior, 2))
_curvature = jax.jit(jax.hessian(_log_posterior, 2))


def _climbed(model: Any, rows: Row, starts: np.ndarray) -> np.ndarray:
    """The local maxima reached from the starts."""

    def downhill(theta: np.ndarray) -> tuple[float, np.ndarray]:
        height, slope = map(np.asarray, _uphill(model, rows, jnp.asarray(theta)))
        ok = np.isfinite(height) and np.isfinite(slope).all()
        return (-float(height), -slope) if ok else (1e300, np.zeros_like(theta))

    return np.stack([optimize.minimize(downhill, start, jac=True, method="L-BFGS-B").x for start in starts])


def _root(model: Any, rows: Row, mode: np.ndarray) -> np.ndarray:
    """A square root of the covariance at a mode; where the Hessian is not positive definite, widths at which the log-density drops
    by 0.5."""
    hessian = -np.asarray(_curvature(model, rows, jnp.asarray(mode)))
    if np.isfinite(hessian).all() and (np.linalg.eigvalsh(hessian) > 1e-12).all():
        return np.linalg.cholesky(np.linalg.inv(hessian))
    powers, axes = 2.0 ** np.arange(-40, 41), np.eye(len(mode))
    falls = [_heights(model, rows, mode[None])[0] - _heights(model, rows, mode + powers[:, None] * axis) for axis in axes]
    return np.diag([powers[np.argmax(~(fall < 0.5))] for fall in falls])


def _covering(model: Any, rows: Row, modes: np.ndarray, centre: np.ndarray, root: np.ndarray) -> GridPosterior:
    """The grid over all modes, in the coordinates z of θ = centre + root z."""
    dim = len(centre)
    places = np.linalg.solve(root, (modes - centre).T).T
    low, high = places.min(0) - 8, places.max(0) + 8
    size, points, heights = POINTS[dim], centre, np.zeros(1)
    for _ in range(PASSES):
        axes = [np.linspace(a, b, size) for a, b in zip(low, high, strict=True)]
        points = centre + np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, dim) @ root.T
        heights = _heights(model, rows, points).reshape((size,) * dim)
        kept = np.argwhere(heights > heights.max() - DEEP)
        first, last, cell = kept.min(0), kept.max(0), (high - low) / (size - 1)
        at_edge = (first == 0) | (last == size - 1)
        if at_edge.any():
            extent = high - low
            low, high = np.where(first == 0, low - extent, low), np.where(last == size - 1, high + extent, high)
        elif ((last - first) < 0.6 * size).any():
            low, high = low + (first - 2) * cell, low + (last + 2) * cell
        else:
            break
    weights = np.exp(heights - heights.max())
    weights /= weights.sum()
    second = (slice(None, None, 2),) * dim
    half = weights[second]
    coarse = GridPosterior(points.reshape(*[size] * dim, dim)[second].reshape(-1, dim), half.ravel() / half.sum(), half.shape)
    fine = GridPosterior(points, weights.ravel(), weights.shape)
    gaps = []
    for i in range(dim):
        (mean, sd), (other, other_sd) = fine.moments(fine.points[:, i]), coarse.moments(coarse.points[:, i])
        gaps += [abs(mean - other) / sd, abs(sd - other_sd) / sd]
    few = 1 / np.sum(np.square(fine.weights)) < FEW**dim
    return fine._replace(error=np.inf if few else float(max(gaps)))
