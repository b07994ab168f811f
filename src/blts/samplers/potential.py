"""Potentials of one arm's posterior, from a summary of its rewards, from all its rows, or from minibatches of them.

They are written for one chain and mapped over all chains of all arms of all replications as one flat axis of lanes.
Sums over rows go in chunks of eight, unrolled: XLA turns those into straight vector code over the lanes, where a
reduction over a row axis is three to ten times slower on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from .. import _random
from .._typing import Int, PRNGKey, Row, Scalar, Theta, Tree
from ..models.base import Model, Sufficient
from .base import Potential

CHUNK = 8


class Rows(NamedTuple):
    """Where one arm's rows are: `store[start] … store[start + n - 1]`. The store is shared by all lanes."""

    store: Row
    start: Int
    n: Int
    most: Int
    """A bound on n, the same for all lanes that run together: their loops over rows end there."""

    def at(self, i: Int) -> Row:
        return jax.tree.map(lambda leaf: leaf.at[self.start + i].get(mode="clip"), self.store)


def _sum(term: Callable[[Int], Tree], chunks: Int | int, zero: Tree) -> Tree:
    """Σ term(i) over i < CHUNK · chunks."""

    def add_chunk(c, total):
        for j in range(CHUNK):
            total = jax.tree.map(jnp.add, total, term(CHUNK * c + j))
        return total

    return lax.fori_loop(0, chunks, add_chunk, zero)


def _chunks(n: Int | int) -> Int | int:
    return (n + CHUNK - 1) // CHUNK


def from_log_density(log_density: Callable[[Theta], Scalar], scale: Theta) -> Potential:
    """The exact potential of a log-density."""
    slope = jax.grad(log_density)
    return Potential(lambda x: -log_density(x), lambda key, x: -slope(x), scale)


def from_summary(model: Sufficient, summary: Tree, scale: Theta) -> Potential:
    """The full potential at a cost that does not depend on n."""
    return from_log_density(lambda x: model.log_prior(x) + model.log_likelihood_of(x, summary), scale)  # type: ignore[attr-defined]


def from_rows(model: Model, rows: Rows, scale: Theta) -> Potential:
    """The full potential as a sum over the arm's rows, for models without a summary: O(n) an evaluation."""

    def total(of_row: Callable[[Row], Tree], zero: Tree) -> Tree:
        def term(i):
            return jax.tree.map(lambda value: jnp.where(i < rows.n, value, 0.0), of_row(rows.at(i)))

        return _sum(term, _chunks(rows.most), zero)

    def value(x):
        return -model.log_prior(x) - total(lambda row: model.log_likelihood(x, row), jnp.zeros(()))

    def grad(key, x):
        return -jax.grad(model.log_prior)(x) - total(lambda row: jax.grad(model.log_likelihood)(x, row), jnp.zeros_like(x))

    return Potential(value, grad, scale)


def from_minibatch(model: Model, rows: Rows, size: int, scale: Theta) -> Potential:
    """Algorithm 1's estimate ∇Û(θ) = -(n/|D|) Σ_D ∇log p(X|θ) - ∇log λ(θ)."""

    def grad(key, x):
        data = _minibatch_sum(key, rows, size, lambda row: jax.grad(model.log_likelihood)(x, row), jnp.zeros_like(x))
        return -jax.grad(model.log_prior)(x) - data

    return Potential(_no_value, grad, scale)


def from_control_variate(model: Model, rows: Rows, size: int, anchor: Theta, scale: Theta) -> Potential:
    """∇U(θ̂) - ∇log λ(θ) + ∇log λ(θ̂) - (n/|D|) Σ_D [∇log p(X|θ) - ∇log p(X|θ̂)] (SGLDFP, Brosse et al. 2018).

    Unbiased for any anchor θ̂; near the mode its variance does not grow with n, while that of the plain estimate
    grows as n², so that a constant minibatch does not concentrate.
    """
    score, prior_score = jax.grad(model.log_likelihood), jax.grad(model.log_prior)
    at_anchor = from_rows(model, rows, scale).grad(_random.as_key(0), anchor) + prior_score(anchor)

    def grad(key, x):
        change = _minibatch_sum(key, rows, size, lambda row: score(x, row) - score(anchor, row), jnp.zeros_like(x))
        return at_anchor - prior_score(x) - change

    return Potential(_no_value, grad, scale)


def _no_value(x):
    raise TypeError("A minibatch potential has no exact value; use the full potential (minibatch=None).")


def _minibatch_sum(key: PRNGKey, rows: Rows, size: int, of_row: Callable[[Row], Theta], zero: Theta) -> Theta:
    """An unbiased estimate of Σ of_row over the arm's rows: `size` of them with replacement, or all while n ≤ size."""
    n, few = rows.n, rows.n <= size

    def weighted(i, weight):
        # A row beyond the arm's own may be anything, even where its weight is zero: it is replaced, not multiplied.
        return jnp.where(weight > 0, weight * of_row(rows.at(i)), 0.0)

    def all_rows(_):
        return _sum(lambda i: weighted(i, jnp.where(i < n, 1.0, 0.0)), _chunks(rows.most), zero)

    def add_drawn(c, total):
        # A generator block gives two numbers.
        pairs = (_random.uniform_pair(key, CHUNK // 2 * c + j) for j in range(CHUNK // 2))
        for j, u in enumerate(number for pair in pairs for number in pair):
            i = CHUNK * c + j
            drawn = jnp.minimum((u * n).astype(int), n - 1)  # u·n can round up to n
            weight = jnp.where(few, jnp.where(i < n, 1.0, 0.0), jnp.where(i < size, n / size, 0.0))
            total = total + weighted(jnp.where(few, i, drawn), weight)
        return total

    # Where no lane has more rows than a minibatch, nothing has to be drawn.
    return lax.cond(rows.most <= size, all_rows, lambda _: lax.fori_loop(0, _chunks(size), add_drawn, zero), None)
