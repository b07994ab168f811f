"""Potentials of one arm's posterior, from a summary of its rewards, from all its rows, or from minibatches of them.

They are written for one chain and mapped over all chains of all arms of all replications as one flat axis of lanes.
Sums over rows go in chunks of eight, unrolled: XLA turns those into straight vector code over the lanes, where a
reduction over a row axis is three to ten times slower on a CPU.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from .. import _random
from .._typing import Array, Float, Int, PRNGKey, Row, Scalar, Theta, Tree
from ..models.base import Model, Sufficient
from .base import Potential

CHUNK = 8
SAMPLED = 32  # rows from which the curvature of the data is estimated


class Rows(NamedTuple):
    """Where one arm's rows are: `store[start] … store[start + n - 1]`. The store is shared by all lanes."""

    store: Row
    start: Int
    n: Int
    most: Int
    """A bound on n, the same for all lanes that run together: their loops over rows end there."""

    def at(self, i: Int) -> Row:
        """Row i, or the last one beyond the end: a row of another arm may be outside this model's support."""
        place = self.start + jnp.minimum(i, self.n - 1)
        return jax.tree.map(lambda leaf: leaf.at[place].get(mode="clip"), self.store)

    def log_likelihood(self, model: Model, x: Theta, places: Sequence[Int], weights: Sequence[Scalar]) -> Scalar:
        """Σ weight · log p(row | x) over a few rows."""
        return sum(
            (weight * model.log_likelihood(x, self.at(i)) for i, weight in zip(places, weights, strict=True)), start=jnp.zeros(())
        )

    def curvature(self, model: Model, x: Theta) -> Float[Array, "dim dim"]:
        """The mean Hessian of -log p over some rows, evenly spaced."""
        places = [j * self.n // SAMPLED for j in range(SAMPLED)]
        total = lambda y: sum((model.log_likelihood(y, self.at(i)) for i in places), start=jnp.zeros(()))  # noqa: E731
        return -jax.hessian(total)(x) / SAMPLED


def curvature_of_summary(model: Sufficient, summary: Tree, n: Int, x: Theta) -> Float[Array, "dim dim"]:
    """The mean Hessian of -log p over all rows."""
    return -jax.hessian(lambda y: model.log_likelihood_of(y, summary))(x) / jnp.maximum(n, 1)


class Whitening(NamedTuple):
    """θ = centre + root z, in which the posterior is about as wide in all directions."""

    centre: Theta
    root: Float[Array, "dim dim"]
    inverse: Float[Array, "dim dim"]

    @staticmethod
    def of(centre: Theta, prior_precision: Theta, n: Int, curvature: Float[Array, "dim dim"], information: Theta) -> Whitening:
        """root rootᵀ = (prior precision + n · curvature)⁻¹, where directions that curve the wrong way count as flat.

        Where a coordinate curves less than is typical, as in a far tail, the typical information is taken for it.
        """
        unit = 1 / jnp.sqrt(prior_precision)
        lacking = jnp.maximum(information - jnp.diagonal(curvature), 0.0)
        scaled = n * unit[:, None] * (curvature + jnp.diag(lacking)) * unit
        w, V = jnp.linalg.eigh(jnp.nan_to_num(scaled))
        stretch = jnp.sqrt(1 + jnp.maximum(w, 0.0))
        return Whitening(centre, unit[:, None] * V / stretch, (V * stretch).T / unit)

    def potential(self, target: Potential) -> Potential:
        """The potential of z."""
        at = lambda z: self.centre + self.root @ z  # noqa: E731
        return Potential(
            lambda z: target.value(at(z)), lambda key, z: self.root.T @ target.grad(key, at(z)), jnp.ones_like(self.centre)
        )


def _chunks(n: Int | int) -> Int | int:
    return (n + CHUNK - 1) // CHUNK


def _sum_chunks(of_chunk: Callable[[list[Int]], Tree], chunks: Int | int, zero: Tree) -> Tree:
    """Σ of_chunk(rows 8c … 8c + 7) over c < chunks."""
    add = lambda c, total: jax.tree.map(jnp.add, total, of_chunk([CHUNK * c + j for j in range(CHUNK)]))  # noqa: E731
    return lax.fori_loop(0, chunks, add, zero)


def from_log_density(log_density: Callable[[Theta], Scalar], scale: Theta) -> Potential:
    """The exact potential of a log-density."""
    slope = jax.grad(log_density)
    return Potential(lambda x: -log_density(x), lambda key, x: -slope(x), scale)


def from_summary(model: Sufficient, summary: Tree, scale: Theta) -> Potential:
    """The full potential at a cost that does not depend on n."""
    return from_log_density(lambda x: model.log_prior(x) + model.log_likelihood_of(x, summary), scale)  # type: ignore[attr-defined]


def from_rows(model: Model, rows: Rows, scale: Theta) -> Potential:
    """The full potential as a sum over the arm's rows, for models without a summary: O(n) an evaluation."""

    def of_chunk(x, places):
        return rows.log_likelihood(model, x, places, [jnp.where(i < rows.n, 1.0, 0.0) for i in places])

    def value(x):
        return -model.log_prior(x) - _sum_chunks(lambda places: of_chunk(x, places), _chunks(rows.most), jnp.zeros(()))

    def grad(key, x):
        data = _sum_chunks(lambda places: jax.grad(of_chunk)(x, places), _chunks(rows.most), jnp.zeros_like(x))
        return -jax.grad(model.log_prior)(x) - data

    return Potential(value, grad, scale)


def from_sample(model: Model, rows: Rows, size: int, scale: Theta) -> Potential:
    """The full potential estimated from `size` rows, evenly spaced and always the same, or from all while n ≤ size."""
    few = rows.n <= size

    def grad(key, x):
        def of_chunk(y, places):
            picks = [jnp.where(few, i, (i * (rows.n / size)).astype(int)) for i in places]
            weights = [jnp.where(few, jnp.where(i < rows.n, 1.0, 0.0), jnp.where(i < size, rows.n / size, 0.0)) for i in places]
            return rows.log_likelihood(model, y, picks, weights)

        chunks = _chunks(jnp.minimum(rows.most, size))
        data = _sum_chunks(lambda places: jax.grad(of_chunk)(x, places), chunks, jnp.zeros_like(x))
        return -jax.grad(model.log_prior)(x) - data

    return Potential(_no_value, grad, scale)


def from_minibatch(model: Model, rows: Rows, size: int, scale: Theta) -> Potential:
    """Algorithm 1's estimate ∇Û(θ) = -(n/|D|) Σ_D ∇log p(X|θ) - ∇log λ(θ)."""

    def grad(key, x):
        def score(places, weights):
            return jax.grad(lambda y: rows.log_likelihood(model, y, places, weights))(x)

        return -jax.grad(model.log_prior)(x) - _minibatch_sum(key, rows, size, score, jnp.zeros_like(x))

    return Potential(_no_value, grad, scale)


def from_control_variate(model: Model, rows: Rows, size: int, anchor: Theta, scale: Theta) -> Potential:
    """∇U(θ̂) - ∇log λ(θ) + ∇log λ(θ̂) - (n/|D|) Σ_D [∇log p(X|θ) - ∇log p(X|θ̂)] (SGLDFP, Brosse et al. 2018).

    Unbiased for any anchor θ̂; near the mode its variance does not grow with n, while that of the plain estimate
    grows as n², so that a constant minibatch does not concentrate.
    """
    prior_score = jax.grad(model.log_prior)
    at_anchor = from_rows(model, rows, scale).grad(_random.as_key(0), anchor) + prior_score(anchor)

    def grad(key, x):
        def change(places, weights):
            score = jax.grad(lambda y: rows.log_likelihood(model, y, places, weights))
            return score(x) - score(anchor)

        return at_anchor - prior_score(x) - _minibatch_sum(key, rows, size, change, jnp.zeros_like(x))

    return Potential(_no_value, grad, scale)


def _no_value(x):
    raise TypeError("A minibatch potential has no exact value; use the full potential (minibatch=None).")


Weighted = Callable[[list[Int], list[Scalar]], Theta]


def _minibatch_sum(key: PRNGKey, rows: Rows, size: int, of_rows: Weighted, zero: Theta) -> Theta:
    """An unbiased estimate of a sum over the arm's rows: `size` of them with replacement, or all while n ≤ size."""
    n, few = rows.n, rows.n <= size

    def whole(places):
        return of_rows(places, [jnp.where(i < n, 1.0, 0.0) for i in places])

    def drawn(places):
        # A generator block gives two numbers.
        blocks = [_random.uniform_pair(key, places[0] // 2 + j) for j in range(CHUNK // 2)]
        picks = [jnp.where(few, i, (u * n).astype(int)) for i, u in zip(places, itertools.chain(*blocks), strict=True)]
        weights = [jnp.where(few, jnp.where(i < n, 1.0, 0.0), jnp.where(i < size, n / size, 0.0)) for i in places]
        return of_rows(picks, weights)  # u·n can round up to n: `Rows.at` then takes the last row

    # Where no lane has more rows than a minibatch, nothing has to be drawn.
    return lax.cond(
        rows.most <= size,
        lambda: _sum_chunks(whole, _chunks(rows.most), zero),
        lambda: _sum_chunks(drawn, _chunks(size), zero),
    )
