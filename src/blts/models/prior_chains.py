"""Prior draws of a model that has a log-prior and no sampler: Metropolis-adjusted Langevin chains."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from .. import _random
from .._typing import Array, Float, Theta
from ..factors import cholesky

CHAINS = 1024  # ends that are kept for an arm
ADAPT, SETTLE = 300, 300  # steps with a preconditioner that follows the chains, then steps of plain MALA
CLIMB = 400


def draw_prior(log_prior: Callable, dim: int) -> tuple[Float[Array, "chains dim"], Array]:
    """Ends of MALA chains on log_prior, and whether they look settled.

    The chains start around a mode. While they adapt, their own covariance preconditions them and the step size is led
    to an acceptance of 0.6; then both are frozen, so that the last steps leave the prior invariant.
    """
    key_start, key_steps = _random.split(_random.as_key(0))
    slope = jax.grad(log_prior)
    mode = _climb(slope, jnp.zeros(dim))

    # In each coordinate the first power of two that lowers log_prior by a half: an sd, for a Gaussian.
    powers = 2.0 ** jnp.arange(-30, 31)
    fall = jax.vmap(lambda e: jax.vmap(lambda s: log_prior(mode) - log_prior(mode + s * e))(powers))(jnp.eye(dim))
    fallen = ~(fall < 0.5)
    spread = powers[jnp.argmax(fallen, axis=-1)]
    x = mode + spread * _random.normal(key_start, (CHAINS, dim))

    density, slopes = jax.vmap(log_prior), jax.vmap(slope)

    def step(i, carry):
        x, log_h, factor, middle = carry
        key_noise, key_accept = _random.split(_random.fold_in(key_steps, i))
        adapting = i < ADAPT
        factor = jnp.where(adapting, _factor(x), factor)
        middle = jnp.where(i == ADAPT, x, middle)
        h = jnp.exp(log_h)
        # x' = x + h C ∇log λ(x) + √(2h) C^½ ξ, in the coordinates y = C^-½ x.
        xi = _random.normal(key_noise, x.shape)
        drift = slopes(x) @ factor
        proposal = x + (h * drift + jnp.sqrt(2 * h) * xi) @ factor.T
        back = -xi - jnp.sqrt(0.5 * h) * (drift + slopes(proposal) @ factor)
        log_ratio = density(proposal) - density(x) + 0.5 * jnp.sum(jnp.square(xi) - jnp.square(back), -1)
        chance = jnp.where(jnp.isnan(log_ratio), 0.0, jnp.exp(jnp.minimum(log_ratio, 0.0)))
        x = jnp.where((_random.uniform(key_accept, (CHAINS,)) < chance)[:, None], proposal, x)
        return x, log_h + jnp.where(adapting, 0.1 * (jnp.mean(chance) - 0.6), 0.0), factor, middle

    x, _, _, middle = lax.fori_loop(0, ADAPT + SETTLE, step, (x, jnp.log(0.5), jnp.eye(dim), x))

    # An improper prior keeps spreading: its quartiles then differ between the middle and the end of the run.
    early, late = (jnp.quantile(ends, 0.75, axis=0) - jnp.quantile(ends, 0.25, axis=0) for ends in (middle, x))
    steady = (late < 1.25 * early) & (early < 1.25 * late)  # the sampling error of this ratio is 5 %
    return x, jnp.all(steady) & jnp.all(jnp.isfinite(x)) & jnp.all(jnp.any(fallen, -1))


def _climb(slope: Callable, x: Theta) -> Theta:
    """A mode by Rprop: steps grow while the sign of the slope stays and halve when it turns, whatever its size."""

    def move(_, carry):
        x, size, last = carry
        sign = jnp.sign(slope(x))
        size = jnp.where(sign * last > 0, 1.5 * size, jnp.where(sign * last < 0, 0.5 * size, size))
        return x + size * sign, size, sign

    return lax.fori_loop(0, CLIMB, move, (x, jnp.ones_like(x), jnp.zeros_like(x)))[0]


def _factor(x: Float[Array, "chains dim"]) -> Float[Array, "dim dim"]:
    """The Cholesky factor of the chains' covariance, in units of each coordinate's sd so that float32 can take it."""
    sd = jnp.maximum(jnp.std(x, axis=0), 1e-30)
    z = (x - jnp.mean(x, axis=0)) / sd
    correlation = z.T @ z / x.shape[0] + 1e-4 * jnp.eye(x.shape[1])
    return sd[:, None] * cholesky(correlation)
