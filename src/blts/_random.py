"""Random numbers: JAX's threefry generator, unrolled so that XLA fuses it on a CPU. `random.py` exports the public names.

The bits equal those of `jax.random` with its default generator (a test compares them), and `split` and `fold_in` are JAX's own.
Only the second of two rounds that share their normals has other bits. On two CPU cores this gives four times as many bits per
second as JAX's, and the fused Box–Muller nine times as many normals.
"""

from __future__ import annotations

import math
import random
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import random as extend

from ._typing import Array, Float, Int, PRNGKey
from .errors import ConfigError
from .lanes import elementwise

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = np.uint32(0x1BD11BDA)  # Skein's key-schedule constant (Salmon et al. 2011)
_WORDS = 5
"""A key has two words for the generator, two for the offset of its counter blocks, and one that selects a half of its normals."""

SHARED = (getattr(np.random.rand, "__self__"), getattr(random.random, "__self__"))  # noqa: B009  (their types do not say it)
"""The generators of `numpy.random` and `random` themselves, from which all of a process may draw."""

_traced_once = partial(jax.jit, inline=True)
"""JAX keeps the equations of a function so decorated, and copies them into every program that calls it. The programs are the same;
only tracing is ten times faster, since these functions are called often and `jax.numpy` is slow to trace."""


@elementwise
def threefry(k0: Array, k1: Array, x0: Array | np.uint32, x1: Array | np.uint32) -> tuple[Array, Array]:
    """Threefry-2x32 with 20 rounds.

    Args:
        k0: the first word of the key.
        k1: the second word of the key.
        x0: the first word of the counter block.
        x1: the second word of the counter block.

    Returns:
        Two words of random bits.
    """
    schedule = (k0, k1, k0 ^ k1 ^ _PARITY)
    x0, x1 = x0 + k0, x1 + k1
    for i in range(5):
        for r in _ROTATIONS[i % 2]:
            x0 = x0 + x1
            x1 = x0 ^ ((x1 << np.uint32(r)) | (x1 >> np.uint32(32 - r)))
        x0 = x0 + schedule[(i + 1) % 3]
        x1 = x1 + schedule[(i + 2) % 3] + np.uint32(i + 1)
    return x0, x1  # type: ignore[return-value]


def _words(key: Array) -> list[Array]:
    return [lax.index_in_dim(key, i, keepdims=False) for i in range(_WORDS)]


@_traced_once
def _block(key: Array, counter: Array | np.uint32) -> tuple[Array, Array]:
    """The two words of block `counter`; each half has its own blocks."""
    k0, k1, x0, x1, half = _words(key)
    return threefry(k0, k1, x0 + jnp.zeros_like(counter), x1 + (half << np.uint32(31)) + counter)


def _key(words: tuple[Array, Array]) -> Array:
    # The barrier keeps XLA from fusing this with draws from the key. In loops that LLVM does not vectorise, its vectoriser
    # (jaxlib 0.11) visits every path from a number to its uses, and two generators in one kernel have 2⁴⁰ paths.
    words = lax.optimization_barrier(words)
    return jnp.stack([*words, *[jnp.zeros_like(words[0])] * (_WORDS - 2)], axis=-1)


def _counters(shape: tuple[int, ...]) -> Array:
    return lax.iota(jnp.uint32, math.prod(shape)).reshape(shape)


def _seed(seed: Array) -> Array:
    high = lax.shift_right_logical(seed, lax.full_like(seed, 32)) if seed.dtype.itemsize > 4 else lax.full_like(seed, 0)
    return _key((high.astype(jnp.uint32), seed.astype(jnp.uint32)))


def _split(key: Array, shape: tuple[int, ...]) -> Array:
    return _key(_block(key, _counters(shape)))


def _fold_in(key: Array, data: Array | int) -> Array:
    return _key(_block(key, jnp.asarray(data, jnp.uint32)))


def _bits(key: Array, width: int, shape: tuple[int, ...]) -> Array:
    high, low = _block(key, _counters(shape))
    if width > 32:
        return (high.astype(jnp.uint64) << np.uint64(32)) | low.astype(jnp.uint64)
    return (high ^ low).astype(jnp.dtype(f"uint{width}"))


@cache
def _implementation():
    return extend.define_prng_impl(
        key_shape=(_WORDS,), seed=_seed, split=_split, random_bits=_bits, fold_in=_fold_in, name="blts_threefry", tag="blts"
    )  # type: ignore[arg-type]


def numbers(value: Any) -> np.ndarray:
    """An array as NumPy has it; keys by their words."""
    is_key = isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(value) if is_key else value)


def as_key(seed: int | PRNGKey) -> PRNGKey:
    """The root key of a seed.

    Args:
        seed: an integer from 0 to 2³² - 1, or a key from `jax.random.key`.

    Returns:
        A key of this generator.

    Raises:
        ConfigError: it is neither.

    >>> from blts import random
    >>> bool(random.key(7) == random.key(7))
    True
    """
    if isinstance(seed, int | np.integer) and not isinstance(seed, bool):
        if not 0 <= seed < 2**32:
            raise ConfigError(f"A seed must be a whole number from 0 to 2**32 - 1; got {seed}.")
        words: Any = np.array([0, seed, *[0] * (_WORDS - 2)], np.uint32)
        return from_words(words)  # equals `_seed`, without compiling a program
    words = seed
    if isinstance(seed, jax.Array) and jnp.issubdtype(seed.dtype, jax.dtypes.prng_key):
        words = jax.random.key_data(seed)
    if not (isinstance(words, jax.Array) and words.shape in ((2,), (_WORDS,)) and words.dtype == jnp.uint32):
        got = f"an array of shape {seed.shape}" if isinstance(seed, jax.Array | np.ndarray) else repr(seed)
        raise ConfigError(f"A key must be a whole number or come from jax.random.key(seed); got {got}.")
    return jax.random.wrap_key_data(jnp.zeros(_WORDS, jnp.uint32).at[: words.size].set(words), impl=_implementation())


def _unit(word: Array) -> Float[Array, "..."]:
    """A word as a number in (0, 1], with high resolution near zero for logarithms."""
    return ((word >> np.uint32(1)).astype(jnp.int32).astype(jnp.float32) + 0.5) * jnp.float32(2**-31)


def uniform(key: PRNGKey, shape: tuple[int, ...] = ()) -> Float[Array, "..."]:
    """Uniform numbers in [0, 1), multiples of 2^-24.

    Args:
        key: the key.
        shape: of the result.

    Returns:
        The numbers.

    >>> from blts import random
    >>> random.uniform(random.key(0), (3,)).shape
    (3,)
    """
    return (jax.random.bits(key, shape, jnp.uint32) >> np.uint32(8)).astype(jnp.int32).astype(float) * 2.0**-24


def uniform_pair(key: PRNGKey, counter: Int[Array, ""] | int) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Two uniform numbers in [0, 1).

    Args:
        key: the key.
        counter: which block of its stream.

    Returns:
        The two numbers of the block.
    """
    words = _block(jax.random.key_data(key), jnp.asarray(counter, jnp.uint32))
    return tuple((word >> np.uint32(8)).astype(jnp.int32).astype(float) * 2.0**-24 for word in words)  # type: ignore[return-value]


# Taylor coefficients of cos(2πu) and sin(2πu)/u in u²; nine terms leave 5e-7 on |u| ≤ 1/2, which is float32's own rounding.
_COSINE = tuple((-1) ** k * (2 * math.pi) ** (2 * k) / math.factorial(2 * k) for k in range(9))
_SINE = tuple((-1) ** k * (2 * math.pi) ** (2 * k + 1) / math.factorial(2 * k + 1) for k in range(9))


def _polynomial(coefficients: tuple[float, ...], x: Array) -> Array:
    value: Any = jnp.float32(coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        value = value * x + jnp.float32(coefficient)
    return value


@_traced_once
def _box_muller(radius: Array, angle: Array) -> Array:
    """Two standard normals as one complex number, so that XLA computes them in one kernel."""
    turn = lax.bitcast_convert_type(angle, jnp.int32).astype(jnp.float32) * jnp.float32(2**-32)  # in [-1/2, 1/2)
    r, square = jnp.sqrt(-2 * jnp.log(_unit(radius))), turn * turn
    return lax.complex(r * _polynomial(_COSINE, square), r * turn * _polynomial(_SINE, square))


def normal(key: PRNGKey, shape: tuple[int, ...] = ()) -> Float[Array, "..."]:
    """Standard normals by Box–Muller, without tables or branches, in one fused kernel.

    A block gives two normals; two successive rounds share blocks and take one half each (`round_key`). The largest value is 6.66,
    which a normal exceeds once in 4·10¹⁰ draws.

    Args:
        key: the key.
        shape: of the result.

    Returns:
        The numbers.

    >>> from blts import random
    >>> random.normal(random.key(0), (2, 3)).shape
    (2, 3)
    """
    k0, k1, x0, x1, half = _words(jax.random.key_data(key))
    counters = _counters(shape)
    point = _box_muller(*threefry(k0, k1, x0 + jnp.zeros_like(counters), x1 + counters))
    return jnp.where(half == 0, point.real, point.imag).astype(float)


split = jax.random.split
fold_in = jax.random.fold_in

ENV, ACT, OBSERVE = (purpose << 26 for purpose in (1, 2, 3))
"""The first counter block of each purpose. Each has 2²⁶ blocks; blocks 0 and 2³² - 1 of a replication's key are used elsewhere."""


class Round(NamedTuple):
    """The number of a round, as the number of a pair of rounds and which of the two it is."""

    pair: Int[Array, ""]
    half: Int[Array, ""]

    @staticmethod
    def of(t: Int[Array, ""] | int) -> Round:
        """From the number of the round.

        Args:
            t: the number.

        Returns:
            The round.
        """
        return Round(jnp.asarray(t) // 2, jnp.asarray(t) % 2)

    @property
    def t(self) -> Int[Array, ""]:
        """The number of the round."""
        return 2 * self.pair + self.half


def round_key(key: PRNGKey, round: Round, purpose: int) -> PRNGKey:
    """The key of a round for one purpose, without hashing: it selects the blocks (pair, purpose + i) of the replication's key.

    Args:
        key: of the replication.
        round: the round.
        purpose: ENV, ACT or OBSERVE.

    Returns:
        The key.
    """
    return _placed(key, round.pair, purpose, round.half)


def step_key(key: PRNGKey, i: Int[Array, ""] | int) -> PRNGKey:
    """The key of one step of a chain, without hashing (cheaper than `fold_in`).

    Args:
        key: of the chain, which must not be folded or split otherwise.
        i: the number of the step.

    Returns:
        The key, which selects the blocks (i, 0 …).
    """
    return _placed(key, jnp.asarray(i), 0, jnp.zeros((), jnp.uint32))


def part(key: PRNGKey, purpose: int) -> PRNGKey:
    """One of a few streams of a key, without hashing (cheaper than `split`).

    Args:
        key: a key that is not used otherwise.
        purpose: which stream.

    Returns:
        The key of the stream.
    """
    _, _, x0, x1, half = _words(jax.random.key_data(key))
    return _placed(key, x0, x1 + np.uint32(purpose << 26), half)


def two(key: PRNGKey) -> tuple[PRNGKey, PRNGKey]:
    """Two keys from that of a round, without hashing: unlike the keys of `split`, their normals can be drawn rounds ahead.

    Args:
        key: of a round and a purpose, which is not used otherwise.

    Returns:
        The keys: the first and the second half of its 2²⁶ blocks.
    """
    _, _, x0, x1, half = _words(jax.random.key_data(key))
    return key, _placed(key, x0, x1 + np.uint32(1 << 25), half)


def far(key: PRNGKey) -> PRNGKey:
    """A second key from that of a round, without hashing, for what wraps the user of the first.

    Args:
        key: of a round and a purpose; its user draws from its first 2²⁴ blocks, or from those of `two` keys of it.

    Returns:
        The key of its last 2²⁴ blocks.
    """
    _, _, x0, x1, half = _words(jax.random.key_data(key))
    return _placed(key, x0, x1 + np.uint32(3 << 24), half)


def _placed(key: PRNGKey, x0: Array, x1: Array | int, half: Array) -> PRNGKey:
    k0, k1, *_ = _words(jax.random.key_data(key))
    words = k0, k1, x0, x1 + jnp.zeros_like(k0), half
    return from_words(jnp.concatenate([word.astype(jnp.uint32).reshape(1) for word in words]))


def from_words(words: Array) -> PRNGKey:
    """The key with these words. (The loop stores keys as words, `[words, lanes]`, so that XLA vectorises over the lanes.)

    Args:
        words: along the last axis.

    Returns:
        The key.
    """
    return jax.random.wrap_key_data(words, impl=_implementation())


words_of = jax.random.key_data


_TRIES = 8  # Marsaglia and Tsang's rejection takes a proposal with probability > 0.95: eight fail once in 4·10¹⁰


@_traced_once
def log_gamma(key: PRNGKey, a: Float[Array, ""]) -> Float[Array, ""]:
    """The logarithm of a Gamma variable with shape `a` and rate 1 (Marsaglia and Tsang 2000).

    The number of proposals is fixed and the loop unrolled, so that XLA vectorises over lanes. The logarithm avoids underflow for
    small shapes: for a < 1, log G(a) = log G(a + 1) + log(U)/a.

    Args:
        key: the key.
        a: the shape.

    Returns:
        The draw.
    """
    words = jax.random.key_data(key)
    small = a < 1
    d = jnp.where(small, a + 1, a) - 1 / 3
    taken, log_v_taken = jnp.zeros((), bool), jnp.zeros(())
    for k in range(_TRIES):
        x = _box_muller(*_block(words, np.uint32(2 * k))).real
        log_u = jnp.log(_unit(_block(words, np.uint32(2 * k + 1))[0]))
        root = 1 + x / jnp.sqrt(9 * d)
        log_v = 3 * jnp.log(jnp.where(root > 0, root, 1.0))
        accepted = (root > 0) & (log_u < 0.5 * x * x + d * (1 - jnp.exp(log_v) + log_v))
        log_v_taken = jnp.where(taken, log_v_taken, log_v)
        taken = taken | accepted
    boost = jnp.log(_unit(_block(words, np.uint32(2 * _TRIES))[0])) / jnp.where(small, a, 1.0)
    return jnp.log(d) + log_v_taken + jnp.where(small, boost, 0.0)


def hashed(key: PRNGKey) -> PRNGKey:
    """Convert a key for functions of `jax.random`: with this key they draw the numbers that they draw with `stock(key)`.

    JAX's own generator is a loop on a CPU, which takes longer to compile and to run than all that these functions do.

    Args:
        key: a key of this generator.

    Returns:
        A key of this generator, whose bits are those of the key `stock(key)`.
    """
    words = _two_words(key)
    return from_words(jnp.stack([*words, *[jnp.zeros_like(words[0])] * (_WORDS - 2)]))


def stock(key: PRNGKey) -> PRNGKey:
    """Convert a key for functions of `jax.random` that require JAX's own generator, such as `poisson`.

    Args:
        key: a key of this generator.

    Returns:
        A key of JAX's threefry2x32.
    """
    return jax.random.wrap_key_data(jnp.stack(_two_words(key)), impl="threefry2x32")


def _two_words(key: PRNGKey) -> list[Array]:
    data = jax.random.key_data(key)
    k0, k1, *place = _words(data)
    own = jnp.any(jnp.stack(place) != 0)  # a round's key: k0 and k1 belong to the whole replication
    return [jnp.where(own, new, old) for new, old in zip(_block(data, np.uint32(2**26 - 1)), (k0, k1), strict=True)]
