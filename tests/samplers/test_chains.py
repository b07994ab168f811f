"""Potentials, chains at the settings of the theorem, and settings that cannot be right."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from blts import random, theory
from blts.agents import Perturb, Pool
from blts.errors import ConfigError
from blts.models import Gaussian, GaussianUnknownVariance
from blts.models.arms import stack
from blts.samplers import MALA, Chain, Langevin, potential, sgld, ula
from laws import LEVEL, mean_p, second_moment_p
from targets import Logistic, log_of, refresh, row, rows_of

# Potentials agree


def brute(model, actions, rewards, a, theta):
    """-log posterior of one arm, term by term."""
    single = jax.tree.map(lambda leaf: jnp.asarray(leaf)[a], model)
    total = -single.log_prior(theta)
    for action, reward in zip(actions, rewards, strict=True):
        total = total - jnp.where(action == a, single.log_likelihood(theta, row(action, reward)), 0.0)
    return total


@pytest.mark.parametrize("n", [1, 31, 32, 33, 70])
def test_gathered_rows_give_the_same_sums(n):
    """To the last bit; the rows of other arms lie on both sides, and the rows of the longest lane are more."""
    rewards = np.random.default_rng(n).normal(size=n)
    store, x = rows_of([50.0, 60.0, *rewards, 70.0, 80.0]).store, jnp.array([0.3])
    rows = potential.Rows(store, jnp.asarray(2), jnp.asarray(n), jnp.asarray(n + 40))
    gathered = rows.gathered(n + 40)
    assert gathered.held is not None
    assert rows.gathered(10**6).held is None, "too many"
    old, new = (potential.from_rows(Logistic(), each, jnp.ones(1)).both(x) for each in (rows, gathered))
    np.testing.assert_array_equal(old[0], new[0])
    np.testing.assert_array_equal(old[1], new[1])
    expected = np.sum(-np.tanh((rewards - 0.3) / 2)) + 0.3 / 9
    np.testing.assert_allclose(new[1][0], expected, rtol=1e-5, atol=1e-5)
    shifted = rows._replace(start=jnp.asarray(1)).gathered(n + 40)  # the mutant
    assert abs(potential.from_rows(Logistic(), shifted, jnp.ones(1)).both(x)[1][0] - expected) > 1e-3


@pytest.mark.parametrize(
    "model",
    [Gaussian(prior_mean=[0.0, 1.0, 5.0], sd=0.7), GaussianUnknownVariance(prior_mean=[0.0, 1.0, 5.0])],
    ids=["known", "unknown"],
)
def test_potentials_from_rows_and_summaries_are_the_sum(model):
    model, rng = stack(model, 3), np.random.default_rng(2)
    actions = np.array([0, 2, 0, 0, 2, 2, 0, 2, 0])  # arm 1 is never played
    rewards = rng.normal(actions, 1.0).astype(np.float32)
    log = log_of(actions, rewards, 3, capacity=16)
    log = log._replace(rows=log.rows._replace(reward=log.rows.reward.at[9:].set(1e6)))  # beyond the cursor there may be anything
    summary = jax.vmap(lambda single: single.empty())(model)
    remember = jax.jit(ula().remember)
    for action, reward in zip(actions, rewards, strict=True):
        summary = remember(model, summary, row(action, reward), jnp.asarray(True))
    summary = remember(model, summary, row(1, 1e6), jnp.asarray(False))  # not live
    grouped, one = log.grouped(), jnp.ones(model.dim)

    @jax.jit
    def both(arm, x):
        single, own = (jax.tree.map(lambda leaf: jnp.asarray(leaf)[arm], tree) for tree in (model, summary))
        rows = potential.Rows(grouped.rows, grouped.start[arm], grouped.counts[arm], grouped.counts.max())
        exact = [potential.from_rows(single, rows, one), potential.from_summary(single, own, one)]
        exact += [potential.from_log_density(lambda x: -brute(model, actions, rewards, arm, x), one)]
        return [U.value(x) for U in exact], [
            U.grad(random.key(0), x) for U in (*exact, potential.from_minibatch(single, rows, 16, one, few=True))
        ]

    for arm in range(3):
        x = 0.5 * random.normal(random.fold_in(random.key(1), arm), (model.dim,))
        values, grads = both(arm, x)
        np.testing.assert_allclose(values, np.full(3, values[2]), rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(grads, np.broadcast_to(grads[2], (4, model.dim)), rtol=1e-4, atol=1e-3)


def test_a_minibatch_has_no_value():
    with pytest.raises(TypeError, match=r"minibatch potential has no exact value; use the full potential \(minibatch=None\)"):
        potential.from_minibatch(Logistic(), rows_of([1.0]), 1, jnp.ones(1)).value(jnp.zeros(1))


# The theorem's settings


class TheoremEnd(NamedTuple):
    """Independent chain ends under Theorem 1's settings, from a start 60 posterior sds off, and what they are compared with."""

    ends: np.ndarray
    mean: float
    variance: float
    """The exact mean and variance of an end: the chain is linear here, and its minibatch noise has a known variance."""
    w2: float
    """The distance to the posterior, in posterior sds."""
    share: float
    """The same as a share of the theorem's bound."""

    @property
    def p(self) -> float:
        return min(mean_p(self.ends, self.mean, self.variance**0.5), second_moment_p(self.ends, self.mean, self.variance))


@cache
def theorem_end(n: int, chains: int = 1000, steps="theorem", temperature: float = 1.0, minibatch: int = 32) -> TheoremEnd:
    model = stack(Gaussian(prior_mean=0.0, prior_sd=100.0, sd=0.5), 1)  # flat enough: the theorem's m n + prior ≈ m n
    rewards = np.random.default_rng(n).normal(2.0, 0.5, n)
    chain = dataclasses.replace(sgld("theorem", steps, "theorem"), kernel=Langevin(1.0, temperature)).resolved(model)
    assert chain.minibatch == 32
    log = log_of([0] * n, rewards, 1)
    start = 2.0 + 60 * 0.5 / np.sqrt(n)
    theta = jnp.full((1, chains, 1), start)
    chain = dataclasses.replace(chain, minibatch=minibatch)
    ends = np.asarray(jax.jit(lambda: refresh(chain, random.key(n), model, theta, log)[0])(), float)[0, :, 0]

    seen, precision = rewards.astype(np.float32).astype(float), 1e-4 + 4 * n
    exact = stats.norm(4 * np.sum(seen) / precision, precision**-0.5)
    # x' - μ = (1 - hΛ)(x - μ) + √(2h) ξ + h ζ, and ζ has variance (4n)² Var(r)/32 where a minibatch of 32 is drawn.
    constants = theory.constants_of(model)
    h, k = float(theory.step_size(constants, jnp.array([n]))[0]), int(theory.iterations(constants, jnp.array([n]))[0])
    shrink, noise = 1 - h * precision, 2 * h + (n > 32) * (h * 4 * n) ** 2 * np.var(seen) / 32
    mean = exact.mean() + shrink**k * (start - exact.mean())
    variance = noise * (1 - shrink ** (2 * k)) / (1 - shrink**2)

    w2 = np.sqrt(np.mean((np.sort(ends) - exact.ppf((np.arange(chains) + 0.5) / chains)) ** 2))  # in one dimension, by quantiles
    bound = float(theory.wasserstein_bound(constants, n)[0])
    return TheoremEnd(ends, mean, variance, float(w2 / exact.std()), float(w2 / bound))


@pytest.mark.parametrize("n", [1, 64, 8192, *(pytest.param(n, marks=pytest.mark.slow) for n in (512, 131_072))])
def test_the_theorem_holds_at_its_settings(n, record_property):
    """The bound holds, and the constant minibatch alone explains the distance that is left: √(1 + n/2048) - 1 posterior sds."""
    found = theorem_end(n)
    record_property("w2_in_posterior_sds", found.w2)
    record_property("w2_over_bound", found.share)
    print(f"n = {n}: W2 = {found.w2:.3f} posterior sds, {found.share:.4f} of the bound, p = {found.p:.3g}")
    assert found.share < 1
    assert found.p > LEVEL
    if n > 32:  # the exact variance is near its limit: with hΛ = 1/32, in posterior variances, (1 + n/2048) / (1 - 1/64)
        assert found.variance * 4 * n == pytest.approx((1 + n / 2048) / (1 - 1 / 64), rel=0.05)


def test_a_wrong_chain_breaks_the_theorem():
    assert theorem_end(64, steps=10).share > 1  # not enough steps to come back from so far
    assert theorem_end(64, temperature=1.3).p < LEVEL
    assert theorem_end(8192, minibatch=24).p < LEVEL


@pytest.mark.slow
def test_a_smaller_minibatch_breaks_the_theorem():
    assert theorem_end(131_072, minibatch=24).p < LEVEL


def test_the_theorem_preset_has_the_papers_numbers():
    chain = sgld("theorem", "theorem", "theorem").resolved(stack(Gaussian(sd=0.5), 3))
    assert chain.minibatch == 32
    assert chain.scale == chain.steps == "theorem"
    with pytest.raises(
        ConfigError, match=r'"theorem" needs a model inside the theory, and Logistic is not: .* Give numbers instead\.'
    ):
        sgld("theorem").resolved(stack(Logistic(), 3))


# Settings that cannot be right


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: Langevin(-1.0), "Langevin: step_size must be > 0 and finite; got -1."),
        (lambda: Langevin(0.1, temperature=-1.0), "Langevin: temperature must be ≥ 0 and finite; got -1."),
        (lambda: MALA(0.0), "MALA: step_size must be > 0 and finite; got 0."),
        (lambda: ula(steps=0), "Chain: steps must be a whole number ≥ 1; got 0."),
        (lambda: sgld(minibatch=0), "Chain: minibatch must be a whole number ≥ 1; got 0."),
        (
            lambda: Chain(Langevin(), control_variate=True),
            "Chain: control_variate corrects a minibatch gradient; give minibatch too.",
        ),
        (lambda: sgld("fast"), "sgld: step_size must be a number, a schedule or \"theorem\"; got 'fast'."),
        (lambda: sgld(steps="many"), "Chain: steps must be a number or 'theorem'; got 'many'."),
        (lambda: Perturb(ula(), gamma=0.0), "Perturb: gamma must be > 0 and finite; got 0."),
        (lambda: Perturb(ula(), gamma="big"), "Perturb: gamma must be a number or an array of numbers or 'theorem'; got 'big'."),
        (lambda: Pool(ula(), 1), "Pool: size must be a whole number ≥ 2; got 1."),
    ],
)
def test_bad_settings_are_refused_in_a_sentence(build, sentence):
    with pytest.raises(ConfigError) as error:
        build()
    assert str(error.value) == sentence
