"""Exact Dirichlet rows."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from ... import _random
from ..._module import module
from ..._typing import Array, Key
from ...errors import ConfigError
from .base import Draw, Lanes, LogPrior, RowSampler, by_state, fold_each, softmax


@module
class ExactRows(RowSampler):
    """Dirichlet(alpha + counts) from Gamma variables, normalised in logarithms so that small shapes do not underflow.

    >>> import jax.numpy as jnp
    >>> from blts import random
    >>> from blts.samplers.rows import ExactRows
    >>> counts = jnp.array([[0, 10, 90]])
    >>> rows, _ = ExactRows().draw(random.split(random.key(0), 1), jnp.ones((1, 3)), counts, jnp.full((1, 3), 1 / 3))
    >>> bool(jnp.allclose(rows.sum(1), 1))
    True
    """

    def draw(
        self, keys: Key[Array, " lanes"], alpha: Lanes, counts: Lanes, start: Lanes, log_prior: LogPrior | None = None
    ) -> Draw:
        del start
        if log_prior is not None:
            raise ConfigError("ExactRows: a log_prior of the row is not conjugate; use LogGammaRows or MirroredRows.")
        a = by_state(alpha, counts)
        # A loop over the states, so that the draws are in memory before each of them is looked at S times.
        log_g = lax.map(lambda at: jax.vmap(_random.log_gamma)(fold_each(keys, at[0]), at[1]), (jnp.arange(a.shape[0]), a))
        return Draw(softmax(log_g).T, jnp.ones(a.shape[1]))
