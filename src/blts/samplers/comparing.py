"""By what the chains of an arm are compared: θ, or what a model that is not identifiable predicts; and its running moments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .. import _random
from .._typing import Array, Float, Theta
from ..models.base import Model
from .modes import Whitening
from .potential import Rows

Watch = Callable[[Theta], Float[Array, " coordinates"]]
"""What chains are compared by, as a function of θ."""
PROBES = 8  # rows at which chains of a model that is not identifiable are compared: a quarter of a minibatch


class ChainInfo(NamedTuple):
    """How chains went, in the coordinates in which those of an arm are compared.

    They are those of θ, around each chain's own mode where modes were looked for. Of a model that is not `identifiable` they are
    its mean rewards at PROBES rows of the arm: chains that predict alike agree, whatever their θ.
    """

    acceptance: Float[Array, "*lanes"]
    half_means: Float[Array, "*lanes 2 coordinates"]
    """Means of each chain over the third and the last quarter of its steps: what split R-hat compares."""
    half_variances: Float[Array, "*lanes 2 coordinates"]
    half_steps: Float[Array, "*lanes"]
    place: Float[Array, "*lanes coordinates"]
    """Where each chain ended."""
    root: Any = ()
    """A square root of each arm's covariance at the mode of its first chain, `[block, arms, dim, dim]`; empty where no mode was
    looked for."""


def by_predictions(model: Model, compared: bool) -> bool:
    """Whether the chains of an arm are compared, and by what they predict."""
    return compared and not model.identifiable


def predictions(model: Model, rows: Rows | None) -> Watch:
    """The mean rewards at PROBES rows of an arm, the same for all of its chains; not finite where θ is not."""
    assert rows is not None, "`needs_log` says so"
    # One row in each of PROBES equal parts, at a random place: evenly spaced rows of periodic data would all be alike.
    within = _random.uniform(_random.as_key(0), (PROBES,))
    probes = rows.at(((jnp.arange(PROBES) + within) * (rows.n / PROBES)).astype(int))

    def predict(theta: Theta) -> Float[Array, " probes"]:
        means = jax.vmap(lambda obs, action: model.mean_reward(theta, obs, action))(probes.obs, probes.action)
        return jnp.where(jnp.all(jnp.isfinite(theta)), means, jnp.nan)

    return predict


def in_coordinates(watch: Watch | None, white: Whitening) -> Watch | None:
    """What is watched, as a function of whitened coordinates."""
    return None if watch is None else lambda z: watch(white.centre + white.root @ z)


def accumulate(moments: tuple[Array, Array, Array], x: Array, inside: Array) -> tuple[Array, Array, Array]:
    """Numbers, means and sums of squared deviations (Welford), with x where `inside`."""
    count, mean, m2 = moments
    count = count + inside
    change = jnp.where(inside, x - mean, 0.0)
    mean = mean + change / jnp.maximum(count, 1)
    return count, mean, m2 + change * jnp.where(inside, x - mean, 0.0)
