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
SAMPLED = 32  # rows from which the curvature of the data is estimated
NEWTON_STEPS = 12  # it squares its error near the mode; the first few come from far out
POLISH = 4  # Newton steps on all rows after those on a sample of them, whose modes are 1/32 of a reward's spread away
MODES = 3  # of an arm's posterior, at most
BETWEEN = 7  # points on the way between two modes
WALL = 0.5  # of U between two modes, above the higher: chains cross lower ones by themselves
LENGTHS = tuple(2.0**k for k in range(5, -8, -1))  # of a Newton step, that are tried: far out, where scores agree, it is too short


class Rows(NamedTuple):
    """Where one arm's rows are: `store[start] … store[start + n - 1]`. The store is shared by all lanes."""

    store: Row
    start: Int
    n: Int
    most: Int
    """A bound on n, the same for all lanes that run together: their loops over rows end there."""

    def at(self, i: Int) -> Row:
        """Rows i, or the last one beyond the end: a row of another arm may be outside this model's support."""
        place = self.start + jnp.minimum(i, self.n - 1)
        return jax.tree.map(lambda leaf: leaf.at[place].get(mode="clip"), self.store)

    def curvature(self, model: Model, x: Theta) -> Float[Array, "dim dim"]:
        """The mean Hessian of -log p over a sample of the rows."""
        i = jnp.arange(SAMPLED)
        rows = self.at(jnp.where(self.n > SAMPLED, _places(i, self.n, SAMPLED), i * self.n // SAMPLED))
        return -jax.hessian(lambda y: log_likelihood(model, y, rows, jnp.ones(SAMPLED)))(x) / SAMPLED


def log_likelihood(model: Model, x: Theta, rows: Row, weights: Float[Array, " rows"]) -> Scalar:
    """Σ weight · log p(row | x) over some rows."""
    return jnp.sum(weights * jax.vmap(lambda row: model.log_likelihood(x, row))(rows))


def curvature_of_summary(model: Model, summary: Tree, n: Int, x: Theta) -> Float[Array, "dim dim"]:
    """The mean Hessian of -log p over all rows."""
    return -jax.hessian(lambda y: model.log_likelihood_of(y, summary))(x) / jnp.maximum(n, 1)


class Whitening(NamedTuple):
    """θ = centre + root z, in which the posterior is about as wide in all directions."""

    centre: Theta
    root: Float[Array, "dim dim"]
    inverse: Float[Array, "dim dim"]
    log_volume: Scalar
    """log det root."""

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
        log_volume = jnp.sum(jnp.log(unit)) - jnp.sum(jnp.log(stretch))
        return Whitening(centre, unit[:, None] * V / stretch, (V * stretch).T / unit, log_volume)

    @staticmethod
    def empty(*shape: int, dim: int) -> Whitening:
        square = jnp.zeros((*shape, dim, dim))
        return Whitening(jnp.zeros((*shape, dim)), square, square, jnp.zeros(shape))

    def tamed(self, target: Potential, steepest: Scalar) -> Potential:
        """The potential of z around the mode z = 0, with gradients no longer than `steepest`; z where they are not finite.

        Far out, where a likelihood falls as e^{-e^z}, a full gradient would throw a chain to the other side, or freeze it:
        adjusted chains would refuse every such step. With these they walk back. The acceptance test uses them too, so the
        law of an adjusted chain is exact.
        """
        # Written out: of lanes, a product of small matrices would be computed one by one.
        at = lambda z: self.centre + jnp.sum(self.root * z, -1)  # noqa: E731

        def tame(z, g):
            g = jnp.sum(self.root * g[:, None], 0)
            g = jnp.where(jnp.all(jnp.isfinite(g)), g, z)
            length = jnp.sqrt(jnp.sum(jnp.square(g)))
            return g * jnp.minimum(1.0, steepest / jnp.maximum(length, 1e-30))

        def both(z):
            assert target.both is not None
            value, g = target.both(at(z))
            return value, tame(z, g)

        return Potential(
            lambda z: target.value(at(z)),
            lambda key, z: tame(z, target.grad(key, at(z))),
            jnp.ones_like(self.centre),
            None if target.both is None else both,
        )

    def potential(self, target: Potential) -> Potential:
        """The potential of z."""
        at = lambda z: self.centre + self.root @ z  # noqa: E731
        return Potential(
            lambda z: target.value(at(z)), lambda key, z: self.root.T @ target.grad(key, at(z)), jnp.ones_like(self.centre)
        )


def _sum_chunks(of_chunk: Callable[[Int[Array, " rows"]], Tree], most: Int, zero: Tree) -> Tree:
    """Σ of_chunk(i) over the numbers i of rows, `CHUNK` at a time, up to `most` of them."""
    add = lambda c, total: jax.tree.map(jnp.add, total, of_chunk(CHUNK * c + jnp.arange(CHUNK)))  # noqa: E731
    return lax.fori_loop(0, (most + CHUNK - 1) // CHUNK, add, zero)


def _sum_chunks_exactly(of_chunk: Callable[[Int[Array, " rows"]], Tree], most: Int, zero: Tree) -> Tree:
    """`_sum_chunks` with Kahan's compensation after 1,024 rows: of 10⁶ of them, plain sums of U are off by several nats."""

    def add(c, carry):
        total, excess = carry
        change = jax.tree.map(jnp.subtract, of_chunk(CHUNK * c + jnp.arange(CHUNK)), excess)
        new = jax.tree.map(jnp.add, total, change)
        lost = lambda new, total, change: jnp.where(c < 1024 // CHUNK, 0.0, (new - total) - change)  # noqa: E731
        return new, jax.tree.map(lost, new, total, change)

    return lax.fori_loop(0, (most + CHUNK - 1) // CHUNK, add, (zero, zero))[0]


def _places(i: Int[Array, " rows"], n: Int, size: int) -> Int[Array, " rows"]:
    """Where the rows i < size of a sample are in a log of n > size: one in each of `size` equal parts, at a random place.

    Evenly spaced rows of periodic data, as of two kinds of customers that come in turns, would all be alike.
    """
    within = _random.uniform(_random.as_key(0), (size,))
    return ((i + within.at[i].get(mode="clip")) * (n / size)).astype(int)


def _sum_sample(f: Callable[[Row, Float[Array, " rows"]], Tree], rows: Rows, size: int | None, whole: Whole, zero: Tree) -> Tree:
    """Σ f(rows, weights) over a sample of `size` rows, always the same one, or over all while n ≤ size and where `whole`."""
    if size is None:
        return _sum_chunks_exactly(lambda i: f(rows.at(i), jnp.where(i < rows.n, 1.0, 0.0)), rows.most, zero)

    def of_chunk(i):
        every = (rows.n <= size) | whole
        weights = jnp.where(every, jnp.where(i < rows.n, 1.0, 0.0), jnp.where(i < size, rows.n / size, 0.0))
        return f(rows.at(jnp.where(every, i, _places(i, rows.n, size))), weights)

    return _sum_chunks_exactly(of_chunk, jnp.where(whole, rows.most, jnp.minimum(rows.most, size)), zero)


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

    def of_chunk(f, x, i):
        return f(model, x, rows.at(i), jnp.where(i < rows.n, 1.0, 0.0))

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


class Local(NamedTuple):
    """U and what a Newton step needs, at one point."""

    value: Scalar
    slope: Theta
    curvature: Float[Array, "dim dim"]
    """The mean Hessian of -log p over the rows."""
    squares: Theta
    """The mean square of each coordinate of the score of a row. At the mode this is the information too, and it is not zero where
    log p is made of straight pieces, as for Laplace rewards."""


Whole = Bool[Array, ""] | bool


class Surface(NamedTuple):
    """U of an arm for looking for its modes."""

    value: Callable[[Theta, Whole], Scalar]
    """U at a point; from all data where the second argument is true, from a sample elsewhere."""
    local: Callable[[Theta, Whole], Local]
    sampled: Whole = False
    """Whether the sample is smaller than the data."""
    polish: Int | int = 0
    """Newton steps on all data that follow; the same for all lanes that run together."""


def surface_of_summary(model: Model, summary: Tree, n: Int) -> Surface:
    target = from_summary(model, summary, jnp.ones(()))

    def local(x: Theta, whole: Whole) -> Local:
        value, slope = target.both(x)  # type: ignore[misc]
        return Local(value, slope, curvature_of_summary(model, summary, n, x), model.information(x))  # type: ignore[attr-defined]

    return Surface(lambda x, whole: target.value(x), local)


def surface_of_rows(model: Model, rows: Rows, size: int | None) -> Surface:
    """From a sample of `size` rows, or from all, always, where it is None."""

    def value(x: Theta, whole: Whole) -> Scalar:
        data = _sum_sample(partial(log_likelihood, model, x), rows, size, whole, jnp.zeros(()))
        return -model.log_prior(x) - data

    def local(x: Theta, whole: Whole) -> Local:
        def of_rows(some: Row, weights):
            scores = jax.vmap(lambda row: jax.grad(model.log_likelihood)(x, row))(some)
            total = lambda y: log_likelihood(model, y, some, weights)  # noqa: E731
            slope = jnp.sum(weights[:, None] * scores, 0)
            squares = jnp.sum(weights[:, None] * jnp.square(scores), 0)
            return total(x), slope, jax.hessian(total)(x), squares

        zero = (jnp.zeros(()), jnp.zeros_like(x), jnp.zeros((x.shape[0],) * 2), jnp.zeros_like(x))
        found, slope, hessian, squares = _sum_sample(of_rows, rows, size, whole, zero)
        prior, prior_slope = jax.value_and_grad(model.log_prior)(x)
        n = jnp.maximum(rows.n, 1)
        return Local(-prior - found, -prior_slope - slope, -hessian / n, squares / n)

    if size is None:
        return Surface(value, local)
    return Surface(value, local, rows.n > size, jnp.where(rows.most > size, POLISH, 0))


class Modes(NamedTuple):
    """The modes of an arm's posterior that were found, on a first axis of `MODES`, and their shares of its mass, by Laplace."""

    white: Whitening
    share: Float[Array, " modes"]

    def which(self, u: Scalar) -> Int:
        """Mode k with probability `share[k]` for a uniform u; never one without a share, even where u rounds to 1."""
        last = jnp.max(jnp.where(self.share > 0, jnp.arange(MODES), 0))
        return jnp.minimum(jnp.sum(jnp.cumsum(self.share)[:-1] <= u, dtype=int), last)


def modes(surface: Surface, starts: Float[Array, "starts dim"], prior_precision: Theta, n: Int) -> Modes:
    """The modes by Newton's method with a line search, the first from the start where U is least.

    Each of the others is looked for from the lowest start that is parted from all modes found before: on the way from one of
    them U rises, and falls again. A share of 0 says that none was found. U never rises and curvature is at least the prior's,
    so a step can neither diverge nor be undefined. Where the surface is that of a sample, the last Newton steps are on all
    data, and so are the modes' places, curvatures and masses; the sample says only where to look.
    """

    def height(x: Theta, whole: Whole = False) -> Scalar:
        return jnp.nan_to_num(surface.value(x, whole), nan=jnp.inf, posinf=jnp.inf, neginf=jnp.inf)

    heights = jax.vmap(height)(starts)
    lengths = jnp.asarray(LENGTHS)
    between = (jnp.arange(BETWEEN + 1) + 1) / (BETWEEN + 1)

    def move(i, carry):
        """A Newton step; after the last, only the whitening where it ended: one loop, so that the model is compiled once."""
        x, least, _, _ = carry
        whole = i >= NEWTON_STEPS
        here = surface.local(x, whole)
        least = jnp.where(whole & surface.sampled, here.value, least)
        safe = lambda a: jnp.nan_to_num(a, posinf=0.0, neginf=0.0)  # noqa: E731
        white = Whitening.of(x, prior_precision, n, safe(here.curvature), safe(here.squares))
        g = white.root.T @ safe(here.slope)
        tried = x - lengths[:, None] * (white.root @ g)
        found = jax.vmap(lambda x: height(x, whole))(tried)
        best = jnp.argmin(found)
        better = (found[best] < least) & (i < NEWTON_STEPS + jnp.where(surface.sampled, surface.polish, 0))
        return jnp.where(better, tried[best], x), jnp.where(better, found[best], least), white, g

    def wall(x: Theta, y: Theta) -> Scalar:
        """How much higher than at y the way from x to it is."""
        on_the_way = jax.vmap(height)(x + between[:, None] * (y - x))
        return jnp.max(on_the_way) - on_the_way[-1]

    def find(found):
        k, white, log_mass, parted = found
        begin = jnp.argmin(jnp.where(parted, heights, jnp.inf))
        unknown = Whitening.empty(dim=starts.shape[1])
        newton = (starts[begin], heights[begin], unknown, unknown.centre)
        x, here, new, slope = lax.fori_loop(0, NEWTON_STEPS + surface.polish + 1, move, newton)
        # The ways from each mode to x, from x to each mode, and from x to each start.
        others = jnp.broadcast_to(x, white.centre.shape)
        begins = jnp.concatenate([white.centre, others, jnp.broadcast_to(x, starts.shape)])
        ends = jnp.concatenate([others, white.centre, starts])
        walls = jax.vmap(wall)(begins, ends)
        apart = jnp.minimum(walls[:MODES], walls[MODES : 2 * MODES]) > WALL
        mode = jnp.all((jnp.arange(MODES) >= k) | apart) & (jnp.sum(jnp.square(slope)) < 0.25)
        mass = jnp.where(mode | (k == 0), new.log_volume - here, -jnp.inf)
        put = lambda old, new: jnp.where((jnp.arange(MODES) == k).reshape(-1, *[1] * (old.ndim - 1)), new, old)  # noqa: E731
        parted = parted & (walls[2 * MODES :] > WALL / 2)
        return (k + 1, *jax.tree.map(put, (white, log_mass), (new, mass)), parted)

    start = (
        0,
        Whitening.empty(MODES, dim=starts.shape[1]),
        jnp.full(MODES, -jnp.inf),
        jnp.ones(len(starts), bool),
    )
    _, white, log_mass, _ = lax.while_loop(lambda found: (found[0] < MODES) & jnp.any(found[-1]), find, start)
    return Modes(white, jax.nn.softmax(log_mass))


def from_sample(model: Model, rows: Rows, size: int, scale: Theta) -> Potential:
    """The full potential estimated from a sample of `size` rows, always the same one, or from all while n ≤ size."""

    def grad(key, x):
        data = _sum_sample(partial(jax.grad(log_likelihood, 1), model, x), rows, size, False, jnp.zeros_like(x))
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
