"""The modes of one arm's posterior by Newton's method, and coordinates in which it is about as wide in all directions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from .._typing import Array, Float, Int, Row, Scalar, Theta, Tree
from ..models.base import Model
from .base import Potential
from .potential import Rows, Whole, curvature_of_summary, from_summary, log_likelihood, sum_sample

NEWTON_STEPS = 12  # it squares its error near the mode; the first few come from far out
POLISH = 4  # Newton steps on all rows after those on a sample of them, whose modes are 1/32 of a reward's spread away
MODES = 3  # of an arm's posterior, at most
BETWEEN = 7  # points on the way between two modes
WALL = 0.5  # of U between two modes, above the higher: chains cross lower ones by themselves
LENGTHS = tuple(2.0**k for k in range(5, -8, -1))  # of a Newton step, that are tried: far out, where scores agree, it is too short


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
            # The gradient is computed before the product, and not once again for each of its coordinates.
            g = lax.fori_loop(0, g.shape[0], lambda i, s: s + self.root[i] * g[i], jnp.zeros_like(g))
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


class Local(NamedTuple):
    """U and what a Newton step needs, at one point."""

    value: Scalar
    slope: Theta
    curvature: Float[Array, "dim dim"]
    """The mean Hessian of -log p over the rows."""
    squares: Theta
    """The mean square of each coordinate of the score of a row. At the mode this is the information too, and it is not zero where
    log p is made of straight pieces, as for Laplace rewards."""


class Surface(NamedTuple):
    """U of an arm for looking for its modes."""

    value: Callable[[Theta, Whole], Scalar]
    """U at a point; from all data where the second argument is true, from a sample elsewhere."""
    local: Callable[[Theta, Whole], Local]
    sampled: Whole = False
    """Whether the sample is smaller than the data."""
    polish: Int | int = 0
    """Newton steps on all data that follow; the same for all lanes that run together."""


def typical_information(model: Model, x: Theta) -> Theta:
    """What a coordinate's curvature is at least taken for; 0 where it depends on contexts, which `information` does not know."""
    return jnp.zeros_like(x) if model.contextual else model.information(x)


def surface_of_summary(model: Model, summary: Tree, n: Int) -> Surface:
    target = from_summary(model, summary, jnp.ones(()))

    def local(x: Theta, whole: Whole) -> Local:
        value, slope = target.both(x)  # type: ignore[misc]
        return Local(value, slope, curvature_of_summary(model, summary, n, x), typical_information(model, x))

    return Surface(lambda x, whole: target.value(x), local)


def surface_of_rows(model: Model, rows: Rows, size: int | None) -> Surface:
    """From a sample of `size` rows, or from all, always, where it is None."""

    def value(x: Theta, whole: Whole) -> Scalar:
        data = sum_sample(partial(log_likelihood, model, x), rows, size, whole, jnp.zeros(()))
        return -model.log_prior(x) - data

    def local(x: Theta, whole: Whole) -> Local:
        def of_rows(some: Row, weights):
            scores = jax.vmap(lambda row: jax.grad(model.log_likelihood)(x, row))(some)
            total = lambda y: log_likelihood(model, y, some, weights)  # noqa: E731
            slope = jnp.sum(weights[:, None] * scores, 0)
            squares = jnp.sum(weights[:, None] * jnp.square(scores), 0)
            return total(x), slope, jax.hessian(total)(x), squares

        zero = (jnp.zeros(()), jnp.zeros_like(x), jnp.zeros((x.shape[0],) * 2), jnp.zeros_like(x))
        found, slope, hessian, squares = sum_sample(of_rows, rows, size, whole, zero)
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

    @staticmethod
    def empty(*shape: int, dim: int) -> Modes:
        """Arrays of zeros for the modes of many arms."""
        return Modes(Whitening.empty(*shape, MODES, dim=dim), jnp.zeros((*shape, MODES)))

    def which(self, u: Scalar) -> Int:
        """Mode k with probability `share[k]` for a uniform u; never one without a share, even where u rounds to 1."""
        last = jnp.max(jnp.where(self.share > 0, jnp.arange(MODES), 0))
        return jnp.minimum(jnp.sum(jnp.cumsum(self.share)[:-1] <= u, dtype=int), last)


def find_modes(surface: Surface, starts: Float[Array, "starts dim"], prior_precision: Theta, n: Int) -> Modes:
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


def modes_of_arm(
    find: Callable[[Surface, Float[Array, "starts dim"], Theta, Int], Modes],
    store: Row | None,
    capacity: int,
    most: Int[Array, ""],
    size: int | None,
    model: Model,
    prior_precision: Theta,
    starts: Float[Array, "starts dim"],
    n: Int[Array, ""],
    data: Tree,
) -> Modes:
    """The modes of one arm, looked for on a sample of `size` rows, or on all of them where it is None.

    A chain on all data makes a pass over them at each step, and the search costs a few such passes more. With minibatches it would
    be most of a refresh: there the sample says which modes there are, and all rows where they are and what mass they have.
    """
    if store is None:
        return find(surface_of_summary(model, data, n), starts, prior_precision, n)
    rows = Rows(store, data, n, most)
    return find(surface_of_rows(model, rows.gathered(capacity) if size is None else rows, size), starts, prior_precision, n)
