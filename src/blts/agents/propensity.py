"""The probability that each arm is played within a batch: a frozen Thompson policy is one fixed vector.

p_a = ∫ ∏_{b≠a} F_b dF_a for independent laws of the arms' mean rewards.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from .._typing import Array, Float
from ..models.marginal import Marginal

NODES = 41  # an arm; on the sorted union of all arms' nodes a rare arm (p ≈ 1e-4) comes out to 1e-4 relative
REACH = 6.0  # sds; a Gaussian has 2e-9 of its mass beyond
_Z = np.linspace(-REACH, REACH, NODES)


def of_laws(laws: Marginal) -> Float[Array, " arms"]:
    """By the trapezoid rule in dF_a on the union of the nodes mean ± z·sd of all arms, with F_b exact at each node.

    The rule is applied with and without the nodes' midpoints, and extrapolated: (4 fine - coarse)/3 has error O(h⁴).
    """
    sd = jnp.where(jnp.isfinite(laws.sd), laws.sd, 0.0)  # a law without a variance is covered by its quantiles below
    nodes = jnp.sort(jnp.concatenate([(laws.mean[:, None] + sd[:, None] * _Z).ravel(), _quantiles(laws).ravel()]))
    middle = 0.5 * (nodes[1:] + nodes[:-1])
    x = jnp.append(jnp.stack([nodes[:-1], middle], 1).ravel(), nodes[-1])
    F, upper = jax.vmap(lambda law: (law.cdf(x), law.survival(x)))(laws)  # [arms, nodes]
    others = _product_of_others(F)
    # Near F = 1 the increments of F have no digits left, those of 1 - F do: rare arms live there.
    rise = jnp.where(F[:, 1:] > 0.5, upper[:, :-1] - upper[:, 1:], F[:, 1:] - F[:, :-1])
    fine = jnp.sum(0.5 * (others[:, 1:] + others[:, :-1]) * rise, axis=1)
    coarse = jnp.sum(0.5 * (others[:, 2::2] + others[:, :-2:2]) * (rise[:, ::2] + rise[:, 1::2]), axis=1)
    p = (4 * fine - coarse) / 3 + others[:, 0] * F[:, 0] + others[:, -1] * upper[:, -1]
    p = jnp.maximum(p, 0.0)
    return p / jnp.sum(p)


def of_values(values: Float[Array, "arms size"]) -> Float[Array, " arms"]:
    """Exactly, for arms that each draw one of their own values at random. Of equal arms the first is played, as `argmax` does."""
    arms, size = values.shape

    def share_below(own, b):
        """For every arm and value: the share of arm b's values that lose against it."""
        ordered, first = jnp.sort(own), jnp.arange(arms)[:, None] < b
        left, right = (jnp.searchsorted(ordered, values, side=side) for side in ("left", "right"))
        return jnp.where(first, right, left) / size

    F = jax.vmap(share_below)(values, jnp.arange(arms)).reshape(arms, arms * size)
    others = _product_of_others(F).reshape(arms, arms, size)
    p = jnp.mean(others[jnp.arange(arms), jnp.arange(arms)], axis=-1)
    return p / jnp.sum(p)


def _product_of_others(F: Float[Array, "arms nodes"]) -> Float[Array, "arms nodes"]:
    """∏_{b≠a} F_b from running products on both sides, which no zero can spoil."""
    one = jnp.ones_like(F[:1])
    below = jnp.concatenate([one, jnp.cumprod(F[:-1], axis=0)])
    above = jnp.concatenate([jnp.cumprod(F[::-1][:-1], axis=0)[::-1], one])
    return below * above


def _quantiles(laws: Marginal) -> Float[Array, "arms nodes"]:
    """Quantiles as nodes too: they follow skewed and heavy-tailed laws where mean ± z·sd does not."""
    u = jnp.asarray((np.arange(NODES) + 0.5) / NODES)
    return jax.vmap(lambda law: law.quantile(u))(laws)
