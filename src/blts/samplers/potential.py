"""Potentials of one arm's posterior, from a summary of its rewards, from all its rows, or from minibatches of them.

They are written for one chain and mapped over all chains of all arms of all replications as one flat axis of lanes, the
last: a sum over rows is then vector code along the lanes. Full sums go in chunks of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from .. import _random
from .._typing import Array, Bool, Float, Int, PRNGKey, Row, Scalar, Theta, Tree
from ..models.base import Model
from .base import Potential

CHUNK = 32  # rows of a full sum that are gathered at once
HELD = 2**14  # numbers of a lane's rows that are gathered once at most: 16 MB for 256 lanes
SAMPLED = 32  # rows from which the curvature of the data is estimated
INFORMATION_ROWS = 256  # rows from which its diagonal is: within about 10 % where features have no long tails


Whole = Bool[Array, ""] | bool
"""Where true, all data are used and not a sample."""


class Rows(NamedTuple):
    """Where one arm's rows are: `store[start] … store[start + n - 1]`. The store is shared by all lanes."""

    store: Row
    start: Int
    n: Int
    most: Int
    """A bound on n, the same for all lanes that run together: their loops over rows end there."""
    held: Row | None = None
    """The arm's rows one after the other, where they were gathered (`gathered`)."""

    def gathered(self, capacity: int) -> Rows:
        """The same, with its rows gathered once and not at every step of a chain, where few of them are kept.

        Args:
            capacity: a bound on n that is known when the program is compiled.

        Returns:
            Rows for `chunk`.
        """
        room = CHUNK * -(-capacity // CHUNK)
        if room * sum(leaf[0].size for leaf in jax.tree.leaves(self.store)) > HELD:
            return self

        def put(c: Int, held: Row) -> Row:
            some = self.chunk(c)
            return jax.tree.map(lambda all, new: lax.dynamic_update_slice_in_dim(all, new, CHUNK * c, 0), held, some)

        empty = jax.tree.map(lambda leaf: jnp.zeros((room, *leaf.shape[1:]), leaf.dtype), self.store)
        return self._replace(held=lax.fori_loop(0, _chunks(self.most), put, empty))

    def chunk(self, c: Int) -> Row:
        """Rows c · CHUNK and the following ones, as many; the last one beyond the end."""
        if self.held is None:
            return self.at(_numbers(c))
        return jax.tree.map(lambda leaf: lax.dynamic_slice_in_dim(leaf, CHUNK * c, CHUNK), self.held)

    def at(self, i: Int) -> Row:
        """Rows i, or the last one beyond the end: a row of another arm may be outside this model's support."""
        place = self.start + jnp.minimum(i, self.n - 1)
        return jax.tree.map(lambda leaf: leaf.at[place].get(mode="clip"), self.store)

    def curvature(self, model: Model, x: Theta) -> Float[Array, "dim dim"]:
        """The mean Hessian of -log p over a sample of the rows."""
        i = jnp.arange(SAMPLED)
        rows = self.at(jnp.where(self.n > SAMPLED, _places(i, self.n, SAMPLED), i * self.n // SAMPLED))
        return -jax.hessian(lambda y: log_likelihood(model, y, rows, jnp.ones(SAMPLED)))(x) / SAMPLED

    def information(self, model: Model, x: Theta) -> Theta:
        """Σ `row_information` over the rows, from a sample of them where there are many."""

        def of_rows(some: Row, weights: Float[Array, " rows"]) -> Theta:
            return jnp.sum(weights[:, None] * jax.vmap(lambda obs: model.row_information(x, obs))(some.obs), 0)

        return sum_sample(of_rows, self, INFORMATION_ROWS, False, jnp.zeros_like(x))


def log_likelihood(model: Model, x: Theta, rows: Row, weights: Float[Array, " rows"]) -> Scalar:
    """Σ weight · log p(row | x) over some rows."""
    return jnp.sum(weights * jax.vmap(lambda row: model.log_likelihood(x, row))(rows))


def curvature_of_summary(model: Model, summary: Tree, n: Int, x: Theta) -> Float[Array, "dim dim"]:
    """The mean Hessian of -log p over all rows."""
    return -jax.hessian(lambda y: model.log_likelihood_of(y, summary))(x) / jnp.maximum(n, 1)


def _numbers(c: Int) -> Int[Array, " rows"]:
    """The numbers of the rows of a chunk."""
    return CHUNK * c + jnp.arange(CHUNK)


def _chunks(most: Int) -> Int:
    """How many chunks hold so many rows."""
    return (most + CHUNK - 1) // CHUNK


def _sum_chunks(of_chunk: Callable[[Int], Tree], most: Int, zero: Tree) -> Tree:
    """Σ of_chunk(c) over the chunks that hold `most` rows."""
    add = lambda c, total: jax.tree.map(jnp.add, total, of_chunk(c))  # noqa: E731
    return lax.fori_loop(0, _chunks(most), add, zero)


def _sum_chunks_compensated(of_chunk: Callable[[Int], Tree], most: Int, zero: Tree) -> Tree:
    """`_sum_chunks` with Kahan's compensation after 1,024 rows: of 10⁶ of them, plain sums of U are off by several nats."""

    def add(c, carry):
        total, excess = carry
        change = jax.tree.map(jnp.subtract, of_chunk(c), excess)
        new = jax.tree.map(jnp.add, total, change)
        lost = lambda new, total, change: jnp.where(c < 1024 // CHUNK, 0.0, (new - total) - change)  # noqa: E731
        return new, jax.tree.map(lost, new, total, change)

    return lax.fori_loop(0, _chunks(most), add, (zero, zero))[0]


def _places(i: Int[Array, " rows"], n: Int, size: int) -> Int[Array, " rows"]:
    """Where the rows i < size of a sample are in a log of n > size: one in each of `size` equal parts, at a random place.

    Evenly spaced rows of periodic data, as of two kinds of customers that come in turns, would all be alike.
    """
    within = _random.uniform(_random.as_key(0), (size,))
    return ((i + within.at[i].get(mode="clip")) * (n / size)).astype(int)


def sum_sample(f: Callable[[Row, Float[Array, " rows"]], Tree], rows: Rows, size: int | None, whole: Whole, zero: Tree) -> Tree:
    """Σ f(rows, weights) over a sample of `size` rows, always the same one, or over all while n ≤ size and where `whole`."""
    if size is None:
        return _sum_chunks_compensated(lambda c: f(rows.chunk(c), jnp.where(_numbers(c) < rows.n, 1.0, 0.0)), rows.most, zero)

    def of_chunk(c):
        i = _numbers(c)
        every = (rows.n <= size) | whole
        weights = jnp.where(every, jnp.where(i < rows.n, 1.0, 0.0), jnp.where(i < size, rows.n / size, 0.0))
        return f(rows.at(jnp.where(every, i, _places(i, rows.n, size))), weights)

    return _sum_chunks_compensated(of_chunk, jnp.where(whole, rows.most, jnp.minimum(rows.most, size)), zero)


def from_log_density(log_density: Callable[[Theta], Scalar], scale: Theta) -> Potential:
    """The exact potential of a log-density."""
    slope = jax.grad(log_density)
    both = lambda x: jax.tree.map(jnp.negative, jax.value_and_grad(log_density)(x))  # noqa: E731
    return Potential(lambda x: -log_density(x), lambda key, x: -slope(x), scale, both)


def from_summary(model: Model, summary: Tree, scale: Theta) -> Potential:
    """The full potential at a cost that does not depend on n."""
    return from_log_density(lambda x: model.log_prior(x) + model.log_likelihood_of(x, summary), scale)  # type: ignore[attr-defined]


def from_rows(model: Model, rows: Rows, scale: Theta) -> Potential:
    """The full potential as a sum over the arm's rows, for models without a summary: O(n) an evaluation."""

    def of_chunk(f, x, c):
        return f(model, x, rows.chunk(c), jnp.where(_numbers(c) < rows.n, 1.0, 0.0))

    def value(x):
        return -model.log_prior(x) - _sum_chunks(partial(of_chunk, log_likelihood, x), rows.most, jnp.zeros(()))

    def grad(key, x):
        data = _sum_chunks(partial(of_chunk, jax.grad(log_likelihood, 1), x), rows.most, jnp.zeros_like(x))
        return -jax.grad(model.log_prior)(x) - data

    def both(x):
        zero = (jnp.zeros(()), jnp.zeros_like(x))
        data = _sum_chunks(partial(of_chunk, jax.value_and_grad(log_likelihood, 1), x), rows.most, zero)
        return jax.tree.map(lambda prior, data: -prior - data, jax.value_and_grad(model.log_prior)(x), data)

    return Potential(value, grad, scale, both)


def from_sample(model: Model, rows: Rows, size: int, scale: Theta) -> Potential:
    """The full potential estimated from a sample of `size` rows, always the same one, or from all while n ≤ size."""

    def grad(key, x):
        data = sum_sample(partial(jax.grad(log_likelihood, 1), model, x), rows, size, False, jnp.zeros_like(x))
        return -jax.grad(model.log_prior)(x) - data

    return Potential(_no_value, grad, scale)


def from_minibatch(model: Model, rows: Rows, size: int, scale: Theta, *, few: Bool[Array, ""] | bool = False) -> Potential:
    """Algorithm 1's estimate ∇Û(θ) = -(n/|D|) Σ_D ∇log p(X|θ) - ∇log λ(θ); the gradient itself of `few` rows, n ≤ |D|."""
    estimate = _estimate(rows, size, few)

    def grad(key, x):
        return -jax.grad(model.log_prior)(x) - estimate(key, partial(jax.grad(log_likelihood, 1), model, x))

    return Potential(_no_value, grad, scale)


def from_control_variate(
    model: Model, rows: Rows, size: int, anchor: Theta, scale: Theta, *, few: Bool[Array, ""] | bool = False
) -> Potential:
    """∇U(θ̂) - ∇log λ(θ) + ∇log λ(θ̂) - (n/|D|) Σ_D [∇log p(X|θ) - ∇log p(X|θ̂)] (SGLDFP, Brosse et al. 2018).

    Unbiased for any anchor θ̂; near the mode its variance does not grow with n, while that of the plain estimate
    grows as n², so that a constant minibatch does not concentrate.
    """
    prior_score = jax.grad(model.log_prior)
    at_anchor = from_rows(model, rows, scale).grad(_random.as_key(0), anchor) + prior_score(anchor)
    estimate = _estimate(rows, size, few)

    def grad(key, x):
        def change(some: Row, weights):
            score = jax.grad(log_likelihood, 1)
            return score(model, x, some, weights) - score(model, anchor, some, weights)

        return at_anchor - prior_score(x) - estimate(key, change)

    return Potential(_no_value, grad, scale)


def _no_value(x):
    raise TypeError("A minibatch potential has no exact value; use the full potential (minibatch=None).")


Weighted = Callable[[Row, Float[Array, " rows"]], Theta]


def _estimate(rows: Rows, size: int, few: Bool[Array, ""] | bool) -> Callable[[PRNGKey, Weighted], Theta]:
    """An unbiased estimate of a sum over the arm's rows: from `size` of them with replacement, or, of a `few`, the sum itself.

    `few`, n ≤ size, is the same for all lanes that run together. Their rows are then gathered once, not at every step, and the
    smallest of five sizes that holds the rows of all lanes is summed.
    """
    most = min(size, jax.tree.leaves(rows.store)[0].shape[0])
    sizes = [most >> k for k in range(5) if most >> k][::-1]
    which = jnp.sum(jnp.asarray(sizes[:-1]) < rows.most, dtype=int)

    def padded(leaf: Array, count: int) -> Array:
        return jnp.concatenate([leaf, jnp.zeros((most - count, *leaf.shape[1:]), leaf.dtype)])

    def gathered(count: int) -> Row:
        return jax.tree.map(partial(padded, count=count), rows.at(jnp.arange(count)))

    first = lax.switch(jnp.where(few, which, 0), [partial(gathered, count) for count in sizes])

    def whole(count: int, key: PRNGKey, of_rows: Weighted) -> Theta:
        return of_rows(jax.tree.map(lambda leaf: leaf[:count], first), jnp.where(jnp.arange(count) < rows.n, 1.0, 0.0))

    def minibatch(key: PRNGKey, of_rows: Weighted) -> Theta:
        # A generator block gives two numbers. u·n can round up to n: `Rows.at` then takes the last row.
        blocks = jax.vmap(lambda j: jnp.stack(_random.uniform_pair(key, j)))(jnp.arange((size + 1) // 2))
        places = (blocks.T.reshape(-1)[:size] * rows.n).astype(int)
        return of_rows(rows.at(places), jnp.full(size, rows.n / size))

    def estimate(key: PRNGKey, of_rows: Weighted) -> Theta:
        ways = [minibatch, *(partial(whole, count) for count in sizes)]
        return lax.switch(jnp.where(few, 1 + which, 0), [partial(way, key, of_rows) for way in ways])

    return estimate
