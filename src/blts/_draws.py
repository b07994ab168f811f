"""Poisson draws; and binomial, multinomial and Gamma draws for parameters of any size, for the leaping engine, in double precision.

Under `vmap` the rejection loops run until the last lane accepts. Every proposal has its own block of the lane's key, so a lane's
draw does not depend on the other lanes. (`_random.log_gamma` unrolls its proposals: faster for thousands of lanes, and ten times as
slow to compile.)
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from . import _random
from ._typing import Array, Float, Int, PRNGKey

FEW = 10.0  # below this expectation inversion is faster; above it the constants of the rejection method are valid
MAX_COUNT = 128  # with an expectation below 10, a larger count has probability 1e-90


def poisson(key: PRNGKey, rate: Float[Array, ""]) -> Int[Array, ""]:
    """A Poisson number: that of `jax.random.poisson` with the key `stock(key)`, which takes JAX's own generator alone.

    On a CPU that generator is a loop of its own for every key, five in all, which take as long to compile as a small planner.

    Args:
        key: the key.
        rate: the mean.

    Returns:
        The number; -1 where the mean is not a number.
    """
    key, rate = _random.hashed(key), jnp.asarray(rate, jnp.float32)
    few = ~(rate >= FEW)
    counted = _counted_products(key, jnp.where(few, rate, 0.0))
    proposed = _transformed_rejection(key, jnp.where(few, 1e5, rate))  # any rate of which most proposals are accepted
    return jnp.where(rate == 0, 0, jnp.where(few, counted, proposed))


def _counted_products(key: PRNGKey, rate: Float[Array, ""]) -> Int[Array, ""]:
    """How many uniform numbers have a product above e^-rate (Knuth)."""

    def multiply(carry):
        k, key, log_product = carry
        key, key_factor = _random.split(key)
        return k + 1, key, log_product + jnp.log(jax.random.uniform(key_factor, (), jnp.float32))

    start = jnp.zeros((), int), key, jnp.zeros((), jnp.float32)
    return lax.while_loop(lambda carry: carry[2] > -rate, multiply, start)[0] - 1


def _transformed_rejection(key: PRNGKey, rate: Float[Array, ""]) -> Int[Array, ""]:
    """Hörmann's method (1993), for rates of at least 10."""
    log_rate = jnp.log(rate)
    b = 0.931 + 2.53 * jnp.sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    surely = 0.9277 - 3.6224 / (b - 2)

    def propose(carry):
        _, _, key = carry
        key, key_u, key_v = _random.split(key, 3)
        u, v = jax.random.uniform(key_u, (), jnp.float32) - 0.5, jax.random.uniform(key_v, (), jnp.float32)
        inside = 0.5 - jnp.abs(u)
        k = jnp.floor((2 * a / inside + b) * u + rate + 0.43)
        log_height = jnp.log(v * inverse_alpha / (a / (inside * inside) + b))
        below = log_height <= -rate + k * log_rate - lax.lgamma(k + 1)
        outside = (k < 0) | ((inside < 0.013) & (v > inside))
        return k, ((inside >= 0.07) & (v <= surely)) | (~outside & below), key

    start = jnp.full((), -1, jnp.float32), jnp.zeros((), bool), key
    return lax.while_loop(lambda carry: ~carry[1], propose, start)[0].astype(int)


def binomial(key: PRNGKey, n: Int[Array, ""], q: Float[Array, ""]) -> Int[Array, ""]:
    """The number of successes in n trials.

    Args:
        key: the key.
        n: the number of trials.
        q: the probability of success.

    Returns:
        The draw.
    """
    flip = q > 0.5
    less = jnp.clip(jnp.where(flip, 1 - q, q), 0.0, 0.5)
    size = n.astype(float)
    few = size * less < FEW
    words = jax.random.key_data(key)
    up = _count_up(words, jnp.where(few, size, 0.0), less)
    k = jnp.where(few, up, _reject(words, jnp.where(few, 4 * FEW, size), jnp.where(few, 0.5, less))).astype(n.dtype)
    return jnp.where(flip, n - k, k)


def _units(words: Array, block: Array) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Two uniform numbers in (0, 1) of 32 bits each."""
    high, low = _random._block(words, block)
    return _unit(high), _unit(low)


def _unit(word: Array) -> Float[Array, "..."]:
    return (word.astype(float) + 0.5) * 2.0**-32


def _count_up(words: Array, n: Float[Array, ""], q: Float[Array, ""]) -> Float[Array, ""]:
    """Inversion: sum P(k + 1) = P(k) (n - k)/(k + 1) q/(1 - q) from k = 0 until it exceeds a uniform number."""
    high, low = _units(words, jnp.uint32(0))
    u = high + (low - 0.5) * 2.0**-32  # 64 bits, for the tails of small probabilities
    odds = q / (1 - q)

    def more(carry):
        k, left, mass = carry
        return (left >= mass) & (k < n) & (k < MAX_COUNT)

    def up(carry):
        k, left, mass = carry
        return k + 1, left - mass, mass * (n - k) / (k + 1) * odds

    return lax.while_loop(more, up, (jnp.zeros_like(n), u, jnp.exp(n * jnp.log1p(-q))))[0]


def _reject(words: Array, n: Float[Array, ""], q: Float[Array, ""]) -> Float[Array, ""]:
    """Hörmann's transformed rejection (BTRS, 1993), for n q ≥ 10 and q ≤ 1/2; four of five proposals are accepted."""
    sd = jnp.sqrt(n * q * (1 - q))
    b = 1.15 + 2.53 * sd
    a = -0.0873 + 0.0248 * b + 0.01 * q
    alpha, squeeze = (2.83 + 5.1 / b) * sd, 0.92 - 4.2 / b
    mode = jnp.floor((n + 1) * q)
    odds = q / (1 - q)
    at_mode = (mode + 0.5) * jnp.log((mode + 1) / (odds * (n - mode + 1))) + _stirling(mode) + _stirling(n - mode)

    def propose(carry):
        _, _, block = carry
        u, v = _units(words, block)
        u = u - 0.5
        room = 0.5 - jnp.abs(u)
        k = jnp.floor((2 * a / room + b) * u + n * q + 0.5)
        inside = (k >= 0) & (k <= n)
        k = jnp.clip(k, 0.0, n)
        height = (
            at_mode
            + (n + 1) * jnp.log((n - mode + 1) / (n - k + 1))
            + (k + 0.5) * jnp.log(odds * (n - k + 1) / (k + 1))
            - _stirling(k)
            - _stirling(n - k)
        )
        below = jnp.log(v * alpha / (a / (room * room) + b)) <= height
        return k, ((room >= 0.07) & (v <= squeeze)) | (inside & below), block + np.uint32(1)

    return lax.while_loop(lambda carry: ~carry[1], propose, (jnp.zeros_like(n), jnp.zeros((), bool), jnp.uint32(1)))[0]


_SMALL = np.array(  # log k! - ((k + ½) log(k + 1) - (k + 1) + ½ log 2π) for k = 0 … 9, where the series is not accurate enough
    [
        0.08106146679532726,
        0.04134069595540929,
        0.02767792568499834,
        0.02079067210376509,
        0.01664469118982119,
        0.01387612882307075,
        0.01189670994589177,
        0.01041126526197209,
        0.00925546218271273,
        0.00833056343336287,
    ]
)


def _stirling(k: Float[Array, ""]) -> Float[Array, ""]:
    """The remainder of Stirling's formula for log k!, expanded about k + 1."""
    x = 1 / (k + 1)
    series = (1 / 12 - (1 / 360 - x * x / 1260) * x * x) * x
    return jnp.where(k < 10, jnp.asarray(_SMALL)[jnp.clip(k, 0, 9).astype(int)], series)


def multinomial(key: PRNGKey, n: Int[Array, ""], p: Float[Array, " cells"]) -> Int[Array, " cells"]:
    """The counts of n independent trials in cells.

    Args:
        key: the key.
        n: the number of trials.
        p: the probabilities of the cells.

    Returns:
        The counts; a cell with p = 0 gets none.
    """
    tail = jnp.cumsum(p[::-1])[::-1]
    # The conditional probability given the earlier cells. The last cell with p > 0 gets exactly 1, whatever the rounding.
    share = jnp.where(p > 0, jnp.where(tail <= p, 1.0, p / jnp.where(tail > 0, tail, 1.0)), 0.0)

    def fill(left, cell):
        key, q = cell
        k = binomial(key, left, q)
        return left - k, k

    return lax.scan(fill, n, (_random.split(key, p.shape[0]), share))[1]


def log_gamma(key: PRNGKey, a: Float[Array, ""]) -> Float[Array, ""]:
    """The logarithm of a Gamma variable with rate 1 (Marsaglia and Tsang 2000).

    Args:
        key: the key.
        a: the shape; for a < 1 the draw is made at a + 1 and corrected.

    Returns:
        The draw.
    """
    words = jax.random.key_data(key)
    small = a < 1
    d = jnp.where(small, a + 1, a) - 1 / 3

    def propose(carry):
        _, _, block = carry
        (radius, u), (angle, boost) = _random._block(words, block + jnp.arange(2, dtype=jnp.uint32))
        x = _random._box_muller(radius, angle).real
        root = 1 + x / jnp.sqrt(9 * d)
        log_v = 3 * jnp.log(jnp.where(root > 0, root, 1.0))
        taken = (root > 0) & (jnp.log(_unit(u)) < 0.5 * x * x + d * (1 - jnp.exp(log_v) + log_v))
        return log_v + jnp.where(small, jnp.log(_unit(boost)) / a, 0.0), taken, block + np.uint32(2)

    log_v = lax.while_loop(lambda carry: ~carry[1], propose, (jnp.zeros_like(d), jnp.zeros((), bool), jnp.uint32(0)))[0]
    return jnp.log(d) + log_v
