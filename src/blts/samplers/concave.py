"""The mode of a log-concave posterior: it has no other, and Newton's method finds it without a search."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from .. import _random
from .._typing import Array, Float, Int, Theta
from ..factors import cholesky, solve_transposed
from ..models.base import Model
from .modes import MODES, Modes, Surface, Whitening

CLOSE = 0.01  # sds of the posterior between the mode and what is taken for it
ON_SAMPLE = 6  # Newton steps on a sample of the rows, before those on all of them
MOST_STEPS = 100  # about 5 are taken; far out, where a likelihood is e^{-e^η}, one takes 1 off η
STARTS = 16  # where there may be several modes: ends of the last refresh, and prior draws, from which the ways to them may begin
GUESSES = 3  # prior draws from which the way to the mode may begin, beside the mean of the last chain ends


def has_one_mode(model: Model) -> bool:
    """Whether chains need to look for one mode only: the model says so, and its curvature is that of the rows alone."""
    return bool(model.contextual and model.log_concave)


def whitening(centre: Theta, prior_precision: Theta, n: Int, curvature: Float[Array, "dim dim"]) -> Whitening:
    """root rootᵀ = (prior precision + n · curvature)⁻¹ for a curvature ≥ 0, by Cholesky's factors.

    Where rounding leaves none, as far out where rows differ by many orders of magnitude, that of a diagonal matrix above it.
    """
    unit = 1 / jnp.sqrt(prior_precision)
    identity = jnp.eye(centre.shape[0])
    scaled = n * unit[:, None] * jnp.nan_to_num(curvature) * unit
    factor = cholesky(identity + scaled)
    above = jnp.diag(jnp.sqrt(1 + jnp.sum(jnp.abs(scaled), 1)))
    factor = jnp.where(jnp.all(jnp.isfinite(factor)), factor, above)
    root = unit[:, None] * solve_transposed(factor, identity)
    log_volume = jnp.sum(jnp.log(unit)) - jnp.sum(jnp.log(jnp.diagonal(factor)))
    return Whitening(centre, root, factor.T / unit, log_volume)


def find_mode(surface: Surface, starts: Float[Array, "starts dim"], prior_precision: Theta, n: Int) -> Modes:
    """The mode by Newton's method from the start where U is least: a step that raises U is taken back, and a quarter of it tried.

    Newton's method is told U, its gradient and its Hessian in one pass over the rows, and stops within `CLOSE` sds of the mode. On
    a surface that is that of a sample, the first `ON_SAMPLE` steps are on the sample.
    """

    def at(x: Theta, whole):
        here = surface.local(x, whole)
        white = whitening(x, prior_precision, n, here.curvature)
        return here.value, white, white.root.T @ here.slope

    first = jnp.where(surface.polish > 0, ON_SAMPLE, -1)  # the step at which U is that of all rows for the first time

    def move(carry):
        i, length, value, white, g, _ = carry
        again = i == first
        x = white.centre - jnp.where(again, 0.0, length) * (white.root @ g)
        found, new, slope = at(x, i >= first)
        sound = jnp.isfinite(found) & jnp.all(jnp.isfinite(new.root)) & jnp.all(jnp.isfinite(slope))
        better = sound & (again | (found <= value + 1e-6 * (1 + jnp.abs(value))))
        value, white, g = jax.tree.map(lambda new, old: jnp.where(better, new, old), (found, new, slope), (value, white, g))
        length = jnp.where(better, 1.0, length / 4)
        return i + 1, length, value, white, g, (i >= first) & (jnp.sum(jnp.square(g)) < CLOSE**2)

    heights = jax.vmap(lambda x: surface.value(x, False))(starts)
    begin = jnp.argmin(jnp.where(jnp.isfinite(heights), heights, jnp.inf))
    value, white, g = at(starts[begin], False)
    carry = (0, jnp.ones(()), value, white, g, (first < 0) & (jnp.sum(jnp.square(g)) < CLOSE**2))
    _, _, _, white, _, _ = lax.while_loop(lambda carry: (carry[0] < MOST_STEPS) & ~carry[-1], move, carry)
    only = jnp.arange(MODES) == 0
    put = lambda x: jnp.where(only.reshape(-1, *[1] * x.ndim), x, 0.0)  # noqa: E731
    return Modes(jax.tree.map(put, white), jnp.where(only, 1.0, 0.0))


def _guesses(model: Model) -> Float[Array, "arms starts dim"]:
    """Draws from the prior of each arm, always the same: starts for the way to its mode."""
    keys = _random.split(_random.as_key(0), STARTS)
    return jax.vmap(lambda single: jax.vmap(single.init)(keys))(model)


def starts_of(model: Model, theta: Float[Array, "block arms chains dim"]) -> Float[Array, "block arms starts dim"]:
    """Where the way to a mode may begin: at ends of the last refresh, or at their mean where there is one mode, and at guesses."""
    guesses = _guesses(model)
    if has_one_mode(model):
        ends, guesses = jnp.mean(theta, 2, keepdims=True), guesses[:, :GUESSES]
    else:
        ends = theta[:, :, :STARTS]
    return jnp.concatenate([ends, jnp.broadcast_to(guesses, (theta.shape[0], *guesses.shape))], 2)
