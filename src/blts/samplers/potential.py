"""Potentials of the arms' posteriors, from a summary, from all rows, or from minibatches.

Chains have shape `[arms, chains, dim]`. Minibatches are drawn with replacement, and are all the data while n ≤ their
size, so that the estimate is exact there and unbiased beyond.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from .. import _random
from .._typing import Array, Float, Int, Row, Tree
from ..history import Grouped, Log
from ..models.base import Model, Sufficient
from .base import Chains, Potential


def curvature(model: Model, theta: Float[Array, "arms dim"], n: Int[Array, " arms"]) -> Float[Array, "arms dim"]:
    """Prior precision + n · information at θ: about one over the posterior variance of each coordinate."""
    prior = jax.vmap(lambda single: single.prior_precision())(model)
    return prior + n[:, None] * jax.vmap(lambda single, x: single.information(x))(model, theta)


def from_log_density(log_density: Callable, scale: Chains, *data: Tree) -> Potential:
    """The exact potential of -log_density(theta, *data_of_the_arm)."""
    per_chain = jax.vmap(lambda *arm: jax.vmap(lambda x: -log_density(x, *arm[1:]))(arm[0]))
    total = lambda x: jnp.sum(per_chain(x, *data))  # noqa: E731
    return Potential(lambda x: per_chain(x, *data), lambda key, x: jax.grad(total)(x), scale)


def from_summary(model: Sufficient, summary: Tree, scale: Chains) -> Potential:
    """The full potential at a cost that does not depend on n."""
    return from_log_density(lambda x, single, s: single.log_prior(x) + single.log_likelihood_of(x, s), scale, model, summary)


def from_rows(model: Model, log: Log, scale: Chains) -> Potential:
    """The full potential as a sum over the log: O(T) a chain, for models without a summary."""
    live = jnp.arange(log.rank.shape[0]) < log.size
    arms = log.counts.shape[0]

    def value(x: Chains):
        prior = jax.vmap(lambda single, xs: jax.vmap(single.log_prior)(xs))(model, x)

        def of_row(row: Row, ok):
            single = jax.tree.map(lambda leaf: jnp.asarray(leaf)[row.action], model)
            return jnp.where(ok, jax.vmap(lambda xs: single.log_likelihood(xs, row))(x[row.action]), 0.0)

        terms = jax.vmap(of_row)(log.rows, live)
        return -prior - jax.ops.segment_sum(terms, log.rows.action, arms)

    return Potential(value, lambda key, x: jax.grad(lambda y: jnp.sum(value(y)))(x), scale)


def from_minibatch(model: Model, grouped: Grouped, size: int, scale: Chains, full: Potential | None = None, anchor: Array | None = None) -> Potential:
    """Algorithm 1's estimate ∇Û(θ) = -(n/|D|) Σ_D ∇log p(X|θ) - ∇log λ(θ).

    With an `anchor` θ̂ and the `full` potential there it is the control variate
    ∇U(θ̂) - (n/|D|) Σ_D [∇log p(X|θ) - ∇log p(X|θ̂)] + prior terms, whose variance does not grow with n near θ̂.
    """
    n = grouped.count
    lane = jnp.arange(size)
    weight = jnp.where(n[:, None] > size, n[:, None] / size, lane < n[:, None])  # [arms, size]

    def rows_of(key, chains: int) -> Row:
        u = _random.uniform(key, (n.shape[0], chains, size))
        drawn = jnp.minimum((u * n[:, None, None]).astype(int), n[:, None, None] - 1)  # u·n can round up to n
        index = grouped.start[:, None, None] + jnp.where(n[:, None, None] > size, drawn, lane)
        return jax.tree.map(lambda store: store.at[index].get(mode="clip"), grouped.rows)

    def score(x: Chains, rows: Row, with_prior: bool) -> Chains:
        def one(single, x, rows, weight):
            data = jnp.sum(weight * jax.vmap(lambda row: single.log_likelihood(x, row))(rows))
            return data + single.log_prior(x) if with_prior else data

        chains = jax.vmap(jax.grad(one, argnums=1), in_axes=(None, 0, 0, None))
        return jax.vmap(chains)(model, x, rows, weight)

    def grad(key, x: Chains) -> Chains:
        rows = rows_of(key, x.shape[1])
        if anchor is None:
            return -score(x, rows, with_prior=True)
        assert at_anchor is not None
        there = jnp.broadcast_to(anchor, x.shape)
        return at_anchor - (score(x, rows, True) - score(there, rows, False) - prior_at_anchor)

    at_anchor = prior_at_anchor = None
    if anchor is not None and full is not None:
        at_anchor = full.grad(_random.as_key(0), anchor)
        prior_at_anchor = jax.vmap(lambda single, xs: jax.vmap(jax.grad(single.log_prior))(xs))(model, anchor)

    def no_value(x):
        raise TypeError("A minibatch potential has no exact value; use the full potential (minibatch=None).")

    return Potential(no_value if full is None else full.value, grad, scale)
