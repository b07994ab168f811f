"""Draws of transition rows: every (replication, state, action) is a lane with a key of its own.

The posterior of a row is Dirichlet(a), a = alpha + counts, times e^{log_prior(x)} where the user adds a log-density of his
own. Inside, rows have shape [S, lanes]: sums over the states are then straight vector code, ten times faster on a CPU
than over a short last axis. What a lane gets does not depend on which lanes run beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import NamedTuple

import jax
import jax.numpy as jnp

from ... import _random
from ..._module import Contract
from ..._typing import Array, Float, Int, Key, Scalar
from ...declared import required

Row = Float[Array, " S"]
Lanes = Float[Array, "lanes S"]
LogPrior = Callable[[Row], Scalar]
BLOCK = 512  # lanes that run together: long enough for vectors, short enough that few wait for the longest


class Draw(NamedTuple):
    rows: Lanes
    acceptance: Float[Array, " lanes"]
    """Share of accepted proposals; 1 where nothing is refused."""


class RowSampler(Contract):
    """How rows of transition probabilities are drawn: inherit from this to write a row sampler.

    A subclass is a frozen dataclass whose annotated fields are its arguments (see `module`); it must define `draw`.

    >>> import jax.numpy as jnp
    >>> from blts import RowSampler
    >>> from blts.samplers.rows import Draw
    >>> class PosteriorMean(RowSampler):  # certainty equivalence
    ...     def draw(self, keys, alpha, counts, start, log_prior=None):
    ...         total = alpha + counts
    ...         return Draw(total / total.sum(-1, keepdims=True), jnp.ones(len(total)))
    >>> PosteriorMean().draw(None, jnp.ones((1, 2)), jnp.array([[2, 0]]), None).rows.tolist()
    [[0.75, 0.25]]
    """

    @required
    def draw(
        self, keys: Key[Array, " lanes"], alpha: Lanes, counts: Lanes, start: Lanes, log_prior: LogPrior | None = None
    ) -> Draw:
        """Draw all rows of all pairs of all replications at once.

        Args:
            keys: one for each row.
            alpha: the Dirichlet parameters of each row, of shape `(lanes, S)`.
            counts: how often each next state was seen, of shape `(lanes, S)`.
            start: the rows of the last refresh, where chains begin.
            log_prior: a log-density of one row that is added to the Dirichlet's; None for none.

        Returns:
            The rows, and the share of accepted proposals of each.
        """
        raise NotImplementedError


def softmax(z: Float[Array, "S lanes"]) -> Float[Array, "S lanes"]:
    """Over the states, written out: a reduction is fused in ways that round differently for other numbers of lanes."""
    e = jnp.exp(z - reduce(jnp.maximum, list(z)))
    return e / reduce(jnp.add, list(e))


def by_state(alpha: Lanes, counts: Lanes) -> Float[Array, "S lanes"]:
    return (jnp.asarray(alpha, float) + jnp.asarray(counts)).T


def fold_each(keys: Key[Array, " lanes"], i: Int[Array, ""] | int) -> Key[Array, " lanes"]:
    return jax.vmap(lambda key: _random.fold_in(key, i))(keys)


def normals(keys: Key[Array, " lanes"], S: int) -> Float[Array, "S lanes"]:
    return jax.vmap(lambda key: _random.normal(key, (S,)), out_axes=1)(keys)


def uniforms(keys: Key[Array, " lanes"], S: int) -> Float[Array, "S lanes"]:
    return jax.vmap(lambda key: _random.uniform(key, (S,)), out_axes=1)(keys)
