"""Posteriors by quadrature, to hold samplers against: in one dimension and in two."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._typing import Float, Row, Tree
from ..errors import ConfigError


class GridPosterior(NamedTuple):
    """Each coordinate's marginal: grid points, and the probability of the cell around each.

    >>> import numpy as np
    >>> from blts.dynamics import GridPosterior
    >>> law = GridPosterior(np.array([[0.0, 1.0, 2.0]]), np.array([[0.25, 0.5, 0.25]]))
    >>> law.mean.tolist(), law.sd.round(3).tolist(), law.quantile(0.5).tolist()
    ([1.0], [0.707], [1.0])
    """

    points: Float[np.ndarray, "dim points"]
    mass: Float[np.ndarray, "dim points"]

    @property
    def mean(self) -> Float[np.ndarray, " dim"]:
        return np.sum(self.points * self.mass, axis=1)

    @property
    def sd(self) -> Float[np.ndarray, " dim"]:
        return np.sqrt(np.sum(np.square(self.points - self.mean[:, None]) * self.mass, axis=1))

    def cdf(self) -> Float[np.ndarray, "dim points"]:
        """At the grid points: half of a point's own cell lies below it."""
        return np.cumsum(self.mass, axis=1) - 0.5 * self.mass

    def quantile(self, q: float) -> Float[np.ndarray, " dim"]:
        return np.array([np.interp(q, F, x) for F, x in zip(self.cdf(), self.points, strict=True)])

    def distance(self, draws: Any) -> Float[np.ndarray, " dim"]:
        """W1 = ∫ |F - F_draws| of each coordinate, in posterior sds, for draws `[n, dim]`."""
        draws = np.asarray(draws, float)
        level = (np.arange(draws.shape[0]) + 0.5) / draws.shape[0]
        exact = np.stack([np.interp(level, F, x) for F, x in zip(self.cdf(), self.points, strict=True)], axis=1)
        return np.mean(np.abs(np.sort(draws, axis=0) - exact), axis=0) / self.sd


def quadrature(model: Any, data: Row | Tree, low: Any, high: Any, points: int | None = None) -> GridPosterior:
    """The posterior on an even grid over the box low … high: of stacked rows, or of the model's summary.

    A box that cuts off more than a thousandth of the mass at an edge is refused.

    Args:
        model: a dynamics, or a model.
        data: rows, stacked along a first axis, or a summary.
        low: the lower corner of the box, one number or one for each coordinate of θ.
        high: the upper corner.
        points: along each coordinate; None for as many as its dimension allows.

    Returns:
        The marginal of every coordinate.

    Raises:
        ConfigError: the box cuts off too much.

    >>> from blts import random
    >>> from blts.dynamics import Inventory, rollout, summary_of
    >>> shop = Inventory()
    >>> rows = rollout(random.key(0), shop, shop.true, shop.plan(shop.true), 50).rows
    >>> law = quadrature(shop, summary_of(shop, rows), -1.0, 3.0)
    >>> bool(abs(law.mean[0] - 1.386) < 3 * law.sd[0])
    True
    """
    low, high = (np.broadcast_to(np.asarray(x, float), (model.dim,)) for x in (low, high))
    if model.dim > 2:
        raise ConfigError(f"quadrature: grids are for one or two coordinates; this model has {model.dim}.")
    if not (low < high).all():
        raise ConfigError(f"quadrature: low must be below high; got {low.tolist()} and {high.tolist()}.")
    points = points or (4001 if model.dim == 1 else 401)
    axes = np.stack([np.linspace(*ends, points) for ends in zip(low, high, strict=True)])
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, model.dim)

    def log_density(theta):
        if isinstance(data, Row):
            return model.log_prior(theta) + jnp.sum(jax.vmap(lambda row: model.log_likelihood(theta, row))(data))
        return model.log_prior(theta) + model.log_likelihood_of(theta, data)

    value = np.asarray(jax.jit(lambda x: jax.lax.map(log_density, x, batch_size=256))(jnp.asarray(grid, float)), float)
    joint = np.exp(value - value.max()).reshape((points,) * model.dim)
    joint /= joint.sum()
    mass = np.stack([joint.sum(axis=tuple(j for j in range(model.dim) if j != i)) for i in range(model.dim)])
    if (mass[:, [0, -1]] * points > 1e-3).any():
        raise ConfigError(f"quadrature: the posterior reaches the edge of the box {low.tolist()} … {high.tolist()}; widen it.")
    return GridPosterior(axes, mass)
