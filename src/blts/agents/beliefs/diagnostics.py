"""Figures of a refresh: acceptance, R-hat, effective sizes, and the distance from the exact posterior."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from ..._typing import Array, Bool, Float, Int, Tree
from ...history import Log
from ...models.drawing import marginals
from ...samplers.chain import has_oracle
from ...samplers.comparing import ChainInfo


def all_finite(theta: Array, n: Int[Array, " arms"]) -> Bool[Array, ""]:
    return jnp.all(jnp.isfinite(theta).reshape(theta.shape[0], -1).all(-1) | (n == 0))


def finite_numbers(states: Tree, block: tuple[int, ...]) -> Bool[Array, " block"]:
    """Whether all numbers of each state are finite: a reward that a model cannot give may have made one that is not."""
    leaves = [x for x in jax.tree.leaves(states) if jnp.issubdtype(x.dtype, jnp.floating)]
    return functools.reduce(lambda ok, x: ok & jnp.isfinite(x).reshape(x.shape[0], -1).all(-1), leaves, jnp.ones(block, bool))


def least_of_seen(x: Float[Array, "arms chains"], n: Int[Array, " arms"]) -> Array:
    """The smallest mean of an arm with data; 1 where there is none."""
    return jnp.min(jnp.where(n > 0, jnp.mean(x, 1), 1.0))


def mean_over_seen(x: Float[Array, "arms chains"], n: Int[Array, " arms"]) -> Array:
    return jnp.sum(jnp.mean(x, 1) * (n > 0)) / jnp.maximum(jnp.sum(n > 0), 1)


def split_rhat(
    info: ChainInfo, stuck: Bool[Array, "arms chains"] | None = None
) -> tuple[Float[Array, "arms dim"], Float[Array, "arms dim"]]:
    """Split R-hat over the half chains of a pool, and the effective number of draws in their last half.

    R̂ = √((W (s-1)/s + B) / W) with W the mean variance within half chains of s steps and B the variance of their
    means (Vehtari et al. 2021). The variance of the chain means, over that of a draw, gives the effective size of the
    chains that are not stuck, of which the share 1/R̂² is counted: that of the pool's variance that a chain has seen
    itself. Without it, chains that never move would count as that many independent draws.
    """
    s = info.half_steps[:, :1]  # [arms, 1]
    within = jnp.mean(info.half_variances, (1, 2))
    arms, chains, _, dim = info.half_means.shape
    between = jnp.var(info.half_means.reshape(arms, 2 * chains, dim), 1, ddof=1)
    total = within * (s - 1) / s + between
    rhat = jnp.sqrt(total / jnp.maximum(within, 1e-30))
    moving = chains if stuck is None else jnp.sum(~stuck, 1)[:, None]
    ess = moving * total / jnp.maximum(jnp.var(jnp.mean(info.half_means, 2), 1, ddof=1), 1e-30)
    return rhat, jnp.minimum(ess, 2 * moving * s) / jnp.square(jnp.maximum(rhat, 1.0))


def oracle_distance(model: Any, history: Tree, n: Int[Array, " arms"], moments: Callable[[], tuple[Array, Array]]) -> Array:
    """Largest W2 over arms with data, in posterior sds, of the Gaussians with the moments of the two laws.

    NaN where there is no closed posterior, or where it depends on a context.
    """
    if not has_oracle(model):
        return jnp.asarray(jnp.nan)
    summary = history.summary if isinstance(history, Log) else history
    exact = marginals(model, summary, ())
    if exact is None:
        return jnp.asarray(jnp.nan)
    mean, sd = moments()
    gap = jnp.square((mean - exact.mean) / exact.sd) + jnp.square(sd / exact.sd - 1)
    return jnp.sqrt(jnp.max(jnp.where(n > 0, gap, 0.0)))
