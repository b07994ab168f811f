"""The parts of the leap engine against oracles: draws, quadrature, the end of a batch, rewards at once."""

from __future__ import annotations

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import blts
from blts import (
    Bernoulli,
    DoublingCounts,
    Fixed,
    Gaussian,
    Sequential,
    StaticDoubling,
    _draws,
)
from blts._random import as_key
from blts.agents import propensity
from blts.batching import DoubledSinceSwitch, Grid
from blts.leap import engine
from blts.models import Gamma, Poisson
from blts.models.marginal import BetaLaw, GammaLaw, InverseGammaLaw, NormalLaw, StudentTLaw
from laws import LEVEL, ks_p
from leaps import same_law_p


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def keys_of(seed: int, size) -> jax.Array:
    return jax.random.split(as_key(seed), size)


# Draws

BINOMIALS = ((1, 0.3), (25, 0.39), (25, 0.41), (100, 0.9), (1000, 0.3), (10**6, 1e-5), (10**9, 1e-8), (2**31 - 1, 0.37))
draw_binomials = jax.jit(jax.vmap(_draws.binomial, in_axes=(0, None, None)))


def uniform_of(k, n, q):
    """Uniform if and only if k is Binomial(n, q): the distribution function, smoothed over each jump."""
    law = stats.binom(n, q)
    return law.cdf(k - 1) + np.random.default_rng(0).random(k.size) * law.pmf(k)


@pytest.mark.parametrize(("n", "q"), BINOMIALS)
def test_binomial_draws(n, q):
    k = np.asarray(draw_binomials(keys_of(1, 50_000), jnp.asarray(n), jnp.asarray(q)))
    assert ks_p(uniform_of(k, n, q), "uniform") > LEVEL
    wrong = q + 0.05 * np.sqrt(q * (1 - q) / n)  # the mutant: a twentieth of a standard deviation off
    assert ks_p(uniform_of(k, n, wrong), "uniform") < LEVEL


def test_a_binomial_without_chance_is_certain():
    k = draw_binomials(keys_of(2, 100), jnp.asarray(10**9), jnp.asarray(0.0))
    assert not k.any()
    assert (draw_binomials(keys_of(2, 100), jnp.asarray(10**9), jnp.asarray(1.0)) == 10**9).all()


def test_multinomial_counts():
    p = np.array([0.0, 0.2, 1e-12, 0.5, 0.3 - 1e-12, 0.0])
    counts = np.asarray(jax.jit(jax.vmap(_draws.multinomial, in_axes=(0, None, None)))(keys_of(3, 4000), jnp.asarray(1000), p))
    assert (counts.sum(1) == 1000).all()
    assert not counts[:, [0, 2, 5]].any()
    for cell in (1, 3, 4):
        assert ks_p(uniform_of(counts[:, cell], 1000, p[cell]), "uniform") > LEVEL
    between = np.cov(counts[:, 1], counts[:, 3])[0, 1]
    assert between == pytest.approx(-1000 * 0.2 * 0.5, rel=0.1)


@pytest.mark.parametrize("a", [0.3, 1.0, 7.0, 1e9])
def test_gamma_draws(a):
    x = np.exp(jax.jit(jax.vmap(_draws.log_gamma, in_axes=(0, None)))(keys_of(4, 50_000), jnp.asarray(a)))
    assert ks_p(x, stats.gamma(a).cdf) > LEVEL
    assert ks_p(x, stats.gamma(a + 0.05 * np.sqrt(a)).cdf) < LEVEL


# Quadrature


def reference(cdf, density, ends) -> np.ndarray:
    """∫ f_a ∏ F_b by 12-point Gauss–Legendre between all neighbours of a fine grid about every arm, in double precision."""
    cuts = np.unique(ends)
    node, weight = np.polynomial.legendre.leggauss(12)
    half, middle = np.diff(cuts) / 2, (cuts[1:] + cuts[:-1]) / 2
    x, w = (middle[:, None] + half[:, None] * node).ravel(), (half[:, None] * weight).ravel()
    F, f = cdf(x), density(x)
    others = np.stack([np.prod(np.delete(F, a, 0), 0) for a in range(F.shape[0])])
    return (f * others) @ w


rng = np.random.default_rng(0)
GAUSSIANS = {
    "equal": ([0.0] * 8, [1.0] * 8),
    "narrow leader": ([0.0] * 7 + [1.0], [1.6] * 7 + [1e-5]),
    "wide leader, narrow second": ([0.0] * 6 + [1.0, 1.3], [0.1] * 6 + [1e-5, 1.6]),
    "three scales": ([1.0, 1.005, 1.01, 0, 0, 0, 0, 0], [1e-5, 1e-5, 1e-2, 1, 1, 1, 1, 1]),
    "nearly tied after a billion plays": (
        [20, 20.00001, 20 - 0.00002, 18, 14, 14, 14, 14],
        [1.6e-5, 1.6e-5, 2e-5, 0.3, *[1.6] * 4],
    ),
    "rare": ([0.0, 5.25, *[-9.0] * 6], [1.0] * 8),
    "never": ([0.0, 100.0, *[-100.0] * 6], [1.0] * 8),
    **{
        f"sds over five decades, {i}": (20 + rng.normal(0, 10 ** rng.uniform(-5, 0.3), 8), 10 ** rng.uniform(-5, 0.3, 8))
        for i in range(30)
    },
}
propensities = partial(propensity.of_laws, fast=True)
of_gaussians = jax.jit(lambda mean, sd: propensities(NormalLaw(mean, sd)))


@cache
def gaussian_reference(name):
    mean, sd = (np.asarray(x, float)[:, None] for x in GAUSSIANS[name])
    density = lambda x: np.exp(-0.5 * ((x - mean) / sd) ** 2) / np.sqrt(2 * np.pi) / sd  # noqa: E731
    return reference(lambda x: special.ndtr((x - mean) / sd), density, mean + sd * np.linspace(-9, 9, 73))


@pytest.mark.parametrize("name", GAUSSIANS)
def test_probabilities_of_gaussian_arms(name):
    p, exact = np.asarray(of_gaussians(*map(np.asarray, GAUSSIANS[name]))), gaussian_reference(name)
    assert exact.sum() == pytest.approx(1, abs=1e-9)
    assert 0.5 * np.abs(p - exact).sum() < 1e-5
    seen = exact > 1e-9
    np.testing.assert_allclose(p[seen], exact[seen], rtol=1e-3)


def test_single_precision_would_not_do():
    """The mutant: means of 20 in single precision, after a billion plays."""
    name = "nearly tied after a billion plays"
    mean, sd = (np.asarray(x, np.float32).astype(float) for x in GAUSSIANS[name])
    assert 0.5 * np.abs(np.asarray(of_gaussians(mean, sd)) - gaussian_reference(name)).sum() > 1e-3


def test_an_arm_that_cannot_win_has_probability_zero():
    p = of_gaussians(*map(np.asarray, GAUSSIANS["never"]))
    assert [a for a in range(8) if p[a] > 0] == [1]
    assert float(p[1]) == pytest.approx(1, abs=1e-12)


LAWS = {
    "beta": (BetaLaw, lambda a, b: stats.beta(a, b), [1, 3, 2, 30, 40, 1, 9, 70], [1, 1, 9, 90, 60, 2000, 500, 110]),
    "beta, many plays": (
        BetaLaw,
        lambda a, b: stats.beta(a, b),
        [1, 1, 3e4, 2e6, 5e8, 3, 400, 2],
        [1, 9, 3e4, 2e6, 5e8, 5, 600, 900],
    ),
    "gamma": (
        GammaLaw,
        lambda a, b: stats.gamma(a, scale=1 / b),
        [1, 2, 9, 90, 400, 3e6, 3e8, 3],
        [1, 2, 9, 80, 350, 2.6e6, 3e8, 3],
    ),
    "inverse gamma": (
        InverseGammaLaw,
        lambda a, b: stats.invgamma(a, scale=b),
        [3, 5, 9, 90, 400, 3e6, 3e8, 3],
        [2, 4, 9, 85, 380, 3.2e6, 3e8, 2],
    ),
}


@pytest.mark.parametrize("name", LAWS)
def test_probabilities_of_other_arms(name):
    kind, oracle, a, b = LAWS[name]
    law = oracle(np.asarray(a, float)[:, None], np.asarray(b, float)[:, None])
    exact = reference(law.cdf, law.pdf, law.ppf(special.ndtr(np.linspace(-6.5, 6.5, 105))))
    p = np.asarray(jax.jit(propensities)(kind(jnp.asarray(a, float), jnp.asarray(b, float))))
    assert exact.sum() == pytest.approx(1, abs=1e-6)
    assert 0.5 * np.abs(p - exact).sum() < 1e-4


def test_laws_without_a_fast_rule_have_the_general_one():
    law = StudentTLaw(jnp.array([3.0, 9.0]), jnp.array([0.0, 0.5]), jnp.array([1.0, 0.2]))
    assert propensities(law).tolist() == propensity.of_laws(law).tolist() != [0.5, 0.5]


# The end of a batch


def by_hand(p, left, rounds: int, lanes: int, seed: int):
    """Plays of every arm, round by round, until an arm has all it has left or the rounds are over."""
    generator, plays = np.random.default_rng(seed), np.zeros((lanes, len(p)), int)
    for _ in range(rounds):
        on = (plays < left).all(1)
        action = generator.choice(len(p), lanes, p=p)
        plays[np.arange(lanes)[on], action[on]] += 1
    return plays


@pytest.mark.parametrize("mutant", [False, True])
def test_a_batch_ends_as_it_does_round_by_round(mutant, monkeypatch):
    """The mutant: before the end the other arms have Binomial(r, ·) plays, at most r - 1, and not Binomial(r - 1, ·)."""
    p, left, rounds, lanes = np.array([0.5, 0.3, 0.15, 0.05]), np.array([8, 4, 2, 1]), 14, 40_000
    if mutant:
        monkeypatch.setattr(engine, "binomial", lambda key, n, q: jnp.minimum(_draws.binomial(key, n + 1, q), n))

    def stretch(key):
        key_plays, key_cut = jax.random.split(key)
        plays = _draws.multinomial(key_plays, jnp.asarray(rounds), p)
        return jnp.where(jnp.any(plays >= left), engine.cut((key_cut, jnp.asarray(left)), plays), plays)

    ours, theirs = np.asarray(jax.jit(jax.vmap(stretch))(keys_of(5, lanes))), by_hand(p, left, rounds, lanes, 6)
    code = lambda plays: plays @ np.array([1, 10, 100, 1000])  # noqa: E731
    values = np.unique(np.concatenate([code(ours), code(theirs)]))
    table = np.stack([np.bincount(np.searchsorted(values, code(x)), minlength=values.size) for x in (ours, theirs)])
    table = table[:, table.sum(0) >= 10]
    assert (stats.chi2_contingency(table).pvalue > LEVEL) is not mutant


SCHEMES = (
    Sequential(),
    Fixed(7),
    StaticDoubling(),
    Grid((3, 10, 11, 50)),
    DoublingCounts(),
    DoubledSinceSwitch(),
    DoubledSinceSwitch(pseudo_count=1.5),
    DoubledSinceSwitch.tsde(1),
    DoubledSinceSwitch.ucrl2(1),
)


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: str(scheme)[:60])
def test_schemes_foresee_the_ends_of_their_batches(scheme):
    """Scripted actions, one by one and in the longest stretches that `room` allows."""
    actions = np.random.default_rng(1).choice(3, 200, p=[0.7, 0.2, 0.1])
    step, room, advance = jax.jit(scheme.step), jax.jit(scheme.room), jax.jit(scheme.advance)
    state, ends = scheme.init(as_key(0), 3), []
    for t, action in enumerate(actions, 1):
        state, due = step(state, (), jnp.asarray(action))
        ends += [t] if due else []
    state, t, found = scheme.init(as_key(0), 3), 0, []
    while t < actions.size:
        left, rounds = room(state)
        plays, begun = np.zeros(3, int), t
        while t < actions.size and t - begun < rounds and (plays < left).all():
            plays[actions[t]] += 1
            t += 1
        state, due = advance(state, jnp.asarray(plays))
        assert due == (t - begun == rounds or (plays == left).any())
        found += [t] if due else []
    assert found == ends
    assert len(ends) > 2


# Rewards at once

MODELS = {
    "Gaussian": (Gaussian(sd=0.5), [1.3]),
    "Bernoulli": (Bernoulli(), [-0.4]),
    "Gamma": (Gamma(shape=0.3), [0.2]),
    "Poisson": (Poisson(), [0.7]),
}


@pytest.mark.parametrize("name", MODELS)
def test_rewards_at_once_have_the_law_of_single_ones(name):
    model, theta = MODELS[name][0], jnp.asarray(MODELS[name][1])
    n, lanes = 12, 5000
    at_once = jax.jit(jax.vmap(lambda key, n: model.sample_summary(key, theta, n).total, in_axes=(0, None)))

    @jax.jit
    @jax.vmap
    def singly(key):
        return jnp.sum(jax.vmap(lambda k: model.sample(k, theta, (), 0))(jax.random.split(key, n)))

    theirs = np.asarray(singly(keys_of(8, lanes)))
    counts = lambda a, b: same_law_p(np.rint(a), np.rint(b))  # noqa: E731  a total is n times a mean, and rounds
    test = counts if name in ("Bernoulli", "Poisson") else lambda a, b: stats.ks_2samp(a, b).pvalue
    assert test(np.asarray(at_once(keys_of(7, lanes), jnp.asarray(n))), theirs) > LEVEL
    assert test(np.asarray(at_once(keys_of(7, lanes), jnp.asarray(n + 1))), theirs) < LEVEL


@pytest.mark.parametrize("name", MODELS)
def test_joined_summaries_are_those_of_all_rewards(name):
    model, theta = MODELS[name][0], jnp.asarray(MODELS[name][1])
    sample = jax.jit(lambda key: jax.vmap(lambda k: model.sample(k, theta, (), 0))(jax.random.split(key, 9)))
    rewards = sample(as_key(9))

    def summary(part):
        out = model.empty()
        for reward in part:
            out = model.add(out, blts._typing.Row((), jnp.asarray(0), reward))
        return out

    joined = summary(rewards[:4]).join(summary(rewards[4:])).join(model.sample_summary(as_key(0), theta, jnp.asarray(0)))
    for ours, all_at_once in zip(jax.tree.leaves(joined), jax.tree.leaves(summary(rewards)), strict=True):
        assert float(ours) == pytest.approx(float(all_at_once), rel=1e-12, abs=1e-12)
