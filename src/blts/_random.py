"""Random numbers by index: JAX's threefry keys, with the generator unrolled so that XLA fuses it on a CPU.

The bits are those of `jax.random` with its default generator (a test compares them), so `split` and `fold_in` are the
ordinary ones. On two CPU cores this gives four times the bits, and the fused Box–Muller below nine times the normals.
"""

from __future__ import annotations

import math
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import random as extend

from ._typing import Array, Float, Int, PRNGKey
from .errors import ConfigError

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = np.uint32(0x1BD11BDA)  # Skein's key-schedule constant (Salmon et al. 2011)


def _threefry(key: Array, counter: Array | np.uint32) -> tuple[Array, Array]:
    """Threefry-2x32 with 20 rounds on the counter block (0, counter)."""
    k0, k1 = (lax.index_in_dim(key, i, keepdims=False) for i in (0, 1))
    schedule = (k0, k1, k0 ^ k1 ^ _PARITY)
    x0, x1 = jnp.zeros_like(counter) + k0, counter + k1
    for i in range(5):
        for r in _ROTATIONS[i % 2]:
            x0 = x0 + x1
            x1 = x0 ^ ((x1 << np.uint32(r)) | (x1 >> np.uint32(32 - r)))
        x0 = x0 + schedule[(i + 1) % 3]
        x1 = x1 + schedule[(i + 2) % 3] + np.uint32(i + 1)
    return x0, x1


def _counters(shape: tuple[int, ...]) -> Array:
    return lax.iota(jnp.uint32, math.prod(shape)).reshape(shape)


def _seed(seed: Array) -> Array:
    high = lax.shift_right_logical(seed, lax.full_like(seed, 32)) if seed.dtype.itemsize > 4 else lax.full_like(seed, 0)
    return jnp.stack([high.astype(jnp.uint32), seed.astype(jnp.uint32)])


def _split(key: Array, shape: tuple[int, ...]) -> Array:
    return jnp.stack(_threefry(key, _counters(shape)), axis=-1)


def _fold_in(key: Array, data: Array | int) -> Array:
    return jnp.stack(_threefry(key, jnp.asarray(data, jnp.uint32)))


def _bits(key: Array, width: int, shape: tuple[int, ...]) -> Array:
    if width > 32:
        high, low = _threefry(key, _counters(shape))
        return (high.astype(jnp.uint64) << np.uint64(32)) | low.astype(jnp.uint64)
    high, low = _threefry(key, _counters(shape))
    return (high ^ low).astype(jnp.dtype(f"uint{width}"))


@cache
def _implementation():
    return extend.define_prng_impl(
        key_shape=(2,), seed=_seed, split=_split, random_bits=_bits, fold_in=_fold_in, name="blts_threefry", tag="blts"
    )  # type: ignore[arg-type]


def as_key(seed: int | PRNGKey) -> PRNGKey:
    """The root key of a seed, or of a key that `jax.random.key` made."""
    if isinstance(seed, int | np.integer) and not isinstance(seed, bool):
        if not 0 <= seed < 2**32:
            raise ConfigError(f"A seed must be a whole number from 0 to 2**32 - 1; got {seed}.")
        return jax.random.key(np.uint32(seed), impl=_implementation())
    words = seed
    if isinstance(seed, jax.Array) and jnp.issubdtype(seed.dtype, jax.dtypes.prng_key):
        words = jax.random.key_data(seed)
    if not (isinstance(words, jax.Array) and words.shape == (2,) and words.dtype == jnp.uint32):
        raise ConfigError(f"A key must be a whole number or come from jax.random.key(seed); got {seed!r}.")
    return jax.random.wrap_key_data(words, impl=_implementation())


def _unit(word: Array) -> Float[Array, "..."]:
    """A word as a number in (0, 1], fine near zero, where a logarithm needs it."""
    return ((word >> np.uint32(1)).astype(jnp.int32).astype(jnp.float32) + 0.5) * jnp.float32(2**-31)


def uniform(key: PRNGKey, shape: tuple[int, ...] = ()) -> Float[Array, "..."]:
    """Uniform numbers in [0, 1) on a grid of 2^-24."""
    return (jax.random.bits(key, shape, jnp.uint32) >> np.uint32(8)).astype(jnp.int32).astype(float) * 2.0**-24


def uniform_pair(key: PRNGKey, counter: Int[Array, ""] | int) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Two uniform numbers in [0, 1), those of block `counter` of the key's stream."""
    words = _threefry(jax.random.key_data(key), jnp.asarray(counter, jnp.uint32))
    return tuple((word >> np.uint32(8)).astype(jnp.int32).astype(float) * 2.0**-24 for word in words)  # type: ignore[return-value]


# Taylor coefficients of cos(2πu) in u²; nine terms leave 5e-7 on |u| ≤ 1/2, which is float32's own rounding.
_COSINE = tuple((-1) ** k * (2 * math.pi) ** (2 * k) / math.factorial(2 * k) for k in range(9))


def _box_muller(radius: Array, angle: Array) -> Float[Array, "..."]:
    turn = lax.bitcast_convert_type(angle, jnp.int32).astype(jnp.float32) * jnp.float32(2**-32)  # in [-1/2, 1/2)
    square, cosine = turn * turn, jnp.float32(_COSINE[-1])
    for coefficient in _COSINE[-2::-1]:
        cosine = cosine * square + jnp.float32(coefficient)
    return (jnp.sqrt(-2 * jnp.log(_unit(radius))) * cosine).astype(float)


def normal(key: PRNGKey, shape: tuple[int, ...] = ()) -> Float[Array, "..."]:
    """Standard normals by Box–Muller: one generator block a number, no table, no branch, one fused kernel.

    The largest value it can give is 6.66, which a float32 normal exceeds once in 4·10¹⁰ draws.
    """
    return _box_muller(*_threefry(jax.random.key_data(key), _counters(shape)))


split = jax.random.split
fold_in = jax.random.fold_in


_TRIES = 8  # Marsaglia and Tsang's rejection takes a proposal with probability > 0.95: eight fail once in 4·10¹⁰


def log_gamma(key: PRNGKey, a: Float[Array, ""]) -> Float[Array, ""]:
    """The logarithm of a Gamma variable with shape `a` and rate 1 (Marsaglia and Tsang 2000).

    A fixed number of proposals, written out: a loop that ends when the last lane is accepted cannot be vectorised. The
    logarithm keeps small shapes from underflowing: for a < 1, log G(a) = log G(a + 1) + log(U)/a.
    """
    words = jax.random.key_data(key)
    small = a < 1
    d = jnp.where(small, a + 1, a) - 1 / 3
    taken, log_v_taken = jnp.zeros((), bool), jnp.zeros(())
    for k in range(_TRIES):
        x = _box_muller(*_threefry(words, np.uint32(2 * k)))
        log_u = jnp.log(_unit(_threefry(words, np.uint32(2 * k + 1))[0]))
        root = 1 + x / jnp.sqrt(9 * d)
        log_v = 3 * jnp.log(jnp.where(root > 0, root, 1.0))
        accepted = (root > 0) & (log_u < 0.5 * x * x + d * (1 - jnp.exp(log_v) + log_v))
        log_v_taken = jnp.where(taken, log_v_taken, log_v)
        taken = taken | accepted
    boost = jnp.log(_unit(_threefry(words, np.uint32(2 * _TRIES))[0])) / jnp.where(small, a, 1.0)
    return jnp.log(d) + log_v_taken + jnp.where(small, boost, 0.0)


def stock(key: PRNGKey) -> PRNGKey:
    """The same key for the few functions of `jax.random`, such as `poisson`, that insist on JAX's own generator."""
    return jax.random.wrap_key_data(jax.random.key_data(key), impl="threefry2x32")
