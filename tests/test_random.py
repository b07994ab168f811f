"""The keys are JAX's, the numbers have their laws, and streams are independent across seeds, replications and rounds."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from blts import _draws, _random, random
from blts._random import ACT, ENV, OBSERVE, Round, round_key
from blts.errors import ConfigError
from laws import LEVEL, counts_p, ks_p, second_moment_p

N = 1_000_000
SEEDS = (0, 1, 42, 2**31, 2**32 - 1)


def data(key):
    """The generator's words; the others, which say where a round's blocks begin, are 0 in an ordinary key."""
    words = np.asarray(jax.random.key_data(key))
    assert not words[..., 2:].any()
    return words[..., :2]


# The bits are those of jax.random


@pytest.mark.parametrize("seed", SEEDS)
def test_keys_and_bits_are_those_of_jax(seed):
    ours, theirs = random.key(seed), jax.random.key(np.uint32(seed), impl="threefry2x32")
    assert (data(ours) == data(theirs)).all()
    assert (data(random.split(ours)) == data(jax.random.split(theirs))).all()
    assert (data(random.split(ours, (3, 5))) == data(jax.random.split(theirs, (3, 5)))).all()
    for index in (0, 1, 7, 2**31 - 1):
        assert (data(random.fold_in(ours, index)) == data(jax.random.fold_in(theirs, index))).all()
    for dtype in (jnp.uint8, jnp.uint16, jnp.uint32):
        for shape in ((), (1,), (1000,), (7, 11)):
            assert (jax.random.bits(ours, shape, dtype) == jax.random.bits(theirs, shape, dtype)).all()


def test_wide_bits_are_those_of_jax():
    with jax.enable_x64(True):
        ours, theirs = random.key(3), jax.random.key(3, impl="threefry2x32")
        assert (jax.random.bits(ours, (100,), jnp.uint64) == jax.random.bits(theirs, (100,), jnp.uint64)).all()


def test_keys_work_inside_jit_and_vmap():
    key = random.key(5)
    eager = jnp.stack([random.normal(random.fold_in(key, i), (3,)) for i in range(4)])
    batched = jax.jit(jax.vmap(lambda i: random.normal(random.fold_in(key, i), (3,))))(jnp.arange(4))
    np.testing.assert_allclose(eager, batched, rtol=1e-6, atol=1e-6)


def test_as_key_takes_a_jax_key_and_keeps_its_bits():
    for key in (jax.random.key(7), jax.random.PRNGKey(7), random.key(7)):
        assert (data(random.key(key)) == data(jax.random.key(7))).all()
    assert (data(random.key(np.int64(7))) == data(random.key(7))).all()


@pytest.mark.parametrize(
    "junk", [1.0, "seed", None, True, [0, 1], jnp.zeros(2), jnp.zeros(3, jnp.uint32), np.zeros(2, np.uint32), object()]
)
def test_as_key_refuses_junk_in_a_sentence(junk):
    with pytest.raises(ConfigError, match=r"^A key must be a whole number or come from jax.random.key\(seed\); got "):
        random.key(junk)


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_as_key_refuses_seeds_that_would_wrap(seed):
    with pytest.raises(ConfigError, match=r"^A seed must be a whole number from 0 to 2\*\*32 - 1; got "):
        random.key(seed)


def test_as_key_refuses_other_generators():
    with pytest.raises(ConfigError, match="A key must be"):
        random.key(jax.random.key(0, impl="rbg"))


# The laws


def box_muller(key, shape, *, turns=1.0, scale=1.0, reach=np.inf):
    """The normal generator in NumPy double precision, with faults to choose from."""
    words = np.asarray(jax.random.key_data(random.split(key, shape)), np.uint64)
    radius = np.sqrt(-2 * np.log((words[..., 0].astype(float) + 0.5) * 2.0**-32))
    return np.clip(
        scale * radius * np.cos(2 * np.pi * turns * words[..., 1].astype(np.uint32).view(np.int32) * 2.0**-32), -reach, reach
    )


def normal_ps(x) -> dict[str, float]:
    x = np.asarray(x, float)
    z = lambda y, mean, sd: float(2 * stats.norm.sf(abs(y.mean() - mean) / (sd / np.sqrt(y.size))))  # noqa: E731
    return {
        "ks": ks_p(x, stats.norm.cdf),
        "mean": z(x, 0, 1),
        "variance": z(x**2, 1, np.sqrt(2)),
        "skewness": z(x**3, 0, np.sqrt(15)),
        "kurtosis": z(x**4, 3, np.sqrt(96)),
    } | {
        f"beyond {t:g}": float(stats.binomtest(int((np.abs(x) > t).sum()), x.size, 2 * stats.norm.sf(t)).pvalue) for t in (3.0, 4.0)
    }


@pytest.mark.parametrize("seed", [0, 1])
def test_normal_has_its_law(seed):
    ps = normal_ps(jax.jit(lambda key: random.normal(key, (N,)))(random.key(seed)))
    assert min(ps.values()) > LEVEL, ps


def test_normal_is_box_muller_to_float_precision():
    key = random.key(11)
    exact = box_muller(key, (100_000,))
    assert np.max(np.abs(np.asarray(random.normal(key, (100_000,))) - exact)) < 1e-5


def test_the_largest_normal_is_where_the_docstring_says():
    assert float(jnp.sqrt(-2 * jnp.log(_random._unit(jnp.uint32(0))))) == pytest.approx(6.66, abs=0.01)


@pytest.mark.parametrize("fault", [{"turns": 0.99}, {"scale": 1.01}, {"reach": 3.0}], ids=str)
def test_a_faulty_normal_is_found(fault):
    assert min(normal_ps(box_muller(random.key(0), (N,), **fault)).values()) < LEVEL


def uniform_ps(u) -> dict[str, float]:
    u = np.asarray(u, float)
    return {
        "ks": ks_p(u, "uniform"),
        "cells": counts_p(np.bincount((u * 1000).astype(int), minlength=1000), np.full(1000, 1e-3)),
        "variance": second_moment_p(u, 0.5, 1 / 12),
        "low bits": counts_p(np.bincount((u * 2**24).astype(int) % 16, minlength=16), np.full(16, 1 / 16)),
        "near zero": float(stats.binomtest(int((u < 1e-4).sum()), u.size, 1e-4).pvalue),
    }


def test_uniform_has_its_law():
    u = np.asarray(random.uniform(random.key(2), (N,)))
    assert u.min() >= 0
    assert u.max() < 1
    ps = uniform_ps(u)
    assert min(ps.values()) > LEVEL, ps


def test_a_faulty_uniform_is_found():
    u = np.asarray(random.uniform(random.key(2), (N,)), float)
    assert min(uniform_ps(0.995 * u).values()) < LEVEL
    assert uniform_ps(np.floor(u * 2**20) / 2**20)["low bits"] < LEVEL  # a generator with too coarse a grid


def test_uniform_stays_below_one():
    word = jnp.uint32(2**32 - 1)
    assert float((word >> np.uint32(8)).astype(jnp.int32).astype(float) * 2.0**-24) < 1.0


def test_hashed_keys_draw_what_those_of_jax_draw():
    at = random.split(random.key(1), 4)
    rounds = jax.vmap(lambda key: round_key(key, Round.of(7), ACT))(at)
    for keys in (at, rounds):
        ours, theirs = (jax.vmap(convert)(keys) for convert in (_random.hashed, _random.stock))
        split = lambda key: jax.random.bits(jax.random.split(key)[1])  # noqa: E731
        for draw in (jax.random.normal, lambda key: jax.random.gamma(key, 0.5), split):
            assert jax.vmap(draw)(ours).tolist() == jax.vmap(draw)(theirs).tolist()
    assert jax.random.normal(_random.hashed(rounds[0])) != jax.random.normal(at[0])  # the comparison can fail


def test_poisson_numbers_are_those_of_jax():
    rates = jnp.tile(jnp.array([0.0, 1e-3, 0.5, 3.0, 9.99, 10.0, 30.0, 1e3, 1e6, 1e9, jnp.nan]), 200)
    keys = random.split(random.key(2), rates.size)
    ours = jax.jit(jax.vmap(_draws.poisson))(keys, rates)
    theirs = jax.jit(jax.vmap(lambda key, rate: jax.random.poisson(_random.stock(key), rate)))(keys, rates)
    assert ours.dtype == theirs.dtype
    assert ours.tolist() == theirs.tolist()
    assert ours.tolist() != jax.vmap(_draws.poisson)(random.split(random.key(3), rates.size), rates).tolist()


def test_gamma_has_its_law():
    keys = random.split(random.key(3), 20_000)
    draw = jax.jit(jax.vmap(_random.log_gamma, in_axes=(0, None)))
    for shape in (0.05, 0.3, 0.99, 1.0, 2.5, 40.0, 1e4):  # on the log scale, where small shapes do not underflow
        x = draw(keys, shape)
        assert ks_p(x, stats.loggamma(shape).cdf) > LEVEL
        assert ks_p(x, stats.loggamma((1.1 if shape < 10 else 1.0) * shape + (shape > 10) * shape**0.5 / 20).cdf) < LEVEL


# Independence. A stream is one row; rows must not know of each other, nor of each other's past.

STREAMS, LENGTH = 64, 16_384


def streams(kind: str):
    root = random.key(12)
    keys = {
        "seeds": jnp.stack([random.key(seed) for seed in range(STREAMS)]),
        "replications": jax.vmap(lambda i: random.fold_in(root, i))(jnp.arange(STREAMS)),
        "rounds": jax.vmap(lambda t: round_key(random.fold_in(root, 3), Round.of(t), ACT))(jnp.arange(STREAMS)),
        "names": random.split(root, STREAMS),
    }[kind]
    return np.asarray(jax.vmap(lambda key: random.normal(key, (LENGTH,)))(keys), float)


def correlation_ps(x) -> list[float]:
    """p-values of: correlations between all rows, of their squares, lagged ones between neighbours, and within rows."""

    def p_of(z):
        return float(2 * min(stats.chi2(z.size).sf(np.sum(z**2)), stats.chi2(z.size).cdf(np.sum(z**2))))

    def between(y):
        y = (y - y.mean(1, keepdims=True)) / y.std(1, keepdims=True)
        return (y @ y.T / np.sqrt(y.shape[1]))[np.triu_indices(y.shape[0], 1)]

    ps = [p_of(between(x)), p_of(between(x**2))]
    for lag in (1, 2, 3, 16):
        for a, b in ((x[:-1], x[1:]), (x[1:], x[:-1]), (x, x)):  # a leads b, b leads a, a row and itself
            ps.append(p_of(np.sum(a[:, :-lag] * b[:, lag:], 1) / np.sqrt(LENGTH - lag)))
    return ps


@pytest.mark.parametrize("kind", ["seeds", "replications", "rounds", "names"])
def test_streams_are_independent(kind):
    assert min(correlation_ps(streams(kind))) > LEVEL


def test_dependent_streams_are_found():
    x = streams("seeds")
    long = np.random.default_rng(0).standard_normal(STREAMS + LENGTH)
    shifted = np.stack([long[i : i + LENGTH] for i in range(STREAMS)])  # seed s+1 is seed s one round later
    mixed = (x + 0.05 * np.roll(x, 1, axis=0)) / np.sqrt(1 + 0.05**2)
    echo = (x[:, 1:] + 0.02 * x[:, :-1])[:, : LENGTH - 1]
    for wrong in (shifted, mixed, np.pad(echo, ((0, 0), (0, 1)))):
        assert min(correlation_ps(wrong)) < LEVEL


def round_keys(roots, rounds=200):
    """The first 64 bits of each purpose in `rounds` rounds of each root, as the loop derives them."""

    def bits(root, t):
        keys = [round_key(root, Round.of(t), purpose) for purpose in (ENV, ACT, OBSERVE)]
        return jnp.stack([_random.words_of(random.fold_in(key, 0))[:2] for key in keys])

    words = jax.vmap(lambda root: jax.vmap(lambda t: bits(root, t))(jnp.arange(rounds)))(roots)
    return [{tuple(map(int, word)) for word in np.asarray(words[i]).reshape(-1, 2)} for i in range(len(roots))]


def test_no_stream_is_a_shifted_copy_of_another():
    root = random.key(0)
    seeds = jnp.stack([random.key(seed) for seed in range(50)])
    replications = jax.vmap(lambda i: random.fold_in(root, i))(jnp.arange(50))
    families = [*round_keys(seeds), *round_keys(replications)]
    assert sum(map(len, families)) == len(set().union(*families)) == 100 * 200 * 3

    # The classical slip, key of round t = seed + t, shares all rounds but one between neighbours.
    slip = [{seed + t for t in range(200)} for seed in range(50)]
    assert sum(map(len, slip)) != len(set().union(*slip))
