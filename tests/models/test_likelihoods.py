"""Likelihoods, constants of the theory and summaries in single precision; each statistical test has a mutant."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from blts.models import (
    Bernoulli,
    Gaussian,
    GaussianUnknownVariance,
    Linear,
    Moments,
    Poisson,
    StudentT,
)
from reward_models import DRAWS, NAMED, P_MIN, every, every_named, get, prior_draws, rewards_of, row, some_theta, summary_of

# Likelihoods

COUNTS = {"Bernoulli": 2, "Poisson": 60}
POSITIVE = ("Gamma", "Exponential", "LogNormal", "ZeroInflatedLogNormal", "NumPyro")


def density_of_rewards(name, model, theta):
    """Rewards on a grid, and the probability of each; an atom at zero comes first where there is one."""
    if name in COUNTS:
        r = np.arange(COUNTS[name])
        return r, np.exp(np.asarray(jax.vmap(lambda x: model.log_likelihood(theta, row(x)))(jnp.asarray(r, float)), float))
    u = np.linspace(-14, 14, 40_001)
    r, slope = (np.exp(u), np.exp(u)) if name in POSITIVE else (np.sinh(u), np.cosh(u))
    r = r if name in POSITIVE else r + float(model.mean_reward(theta, (), 0))
    logs = np.asarray(jax.vmap(lambda x: model.log_likelihood(theta, row(x)))(jnp.asarray(r, float)), float)
    mass = np.exp(logs) * slope * (u[1] - u[0])
    if name == "ZeroInflatedLogNormal":
        r, mass = np.append(0.0, r), np.append(np.exp(float(model.log_likelihood(theta, row(0.0)))), mass)
    return r, mass


def law_p_value(name, rewards, r, mass):
    if name in COUNTS:
        keep = mass * len(rewards) > 5
        seen = np.array([(rewards == x).sum() for x in r[keep]])
        want = mass[keep] * len(rewards)
        return (
            stats.chisquare(np.append(seen, len(rewards) - seen.sum()), np.append(want, len(rewards) - want.sum())).pvalue
            if len(r) > 2
            else stats.binomtest(int(rewards.sum()), len(rewards), mass[1]).pvalue
        )
    cdf = np.cumsum(mass) - 0.5 * mass
    if name == "ZeroInflatedLogNormal":
        zeros = stats.binomtest(int((rewards == 0).sum()), len(rewards), mass[0]).pvalue
        cdf, rewards = (np.cumsum(mass[1:]) - 0.5 * mass[1:]) / mass[1:].sum(), rewards[rewards > 0]
        return min(zeros, stats.kstest(rewards, lambda x: np.interp(x, r[1:], cdf)).pvalue)
    return stats.kstest(rewards, lambda x: np.interp(x, r, cdf)).pvalue


@every
def test_rewards_have_the_density_of_the_likelihood(name):
    model = get(name)
    theta = some_theta(name)
    r, mass = density_of_rewards(name, model, theta)
    np.testing.assert_allclose(mass.sum(), 1.0, atol=2e-3)
    rewards = rewards_of(name)
    assert law_p_value(name, rewards, r, mass) > P_MIN
    assert law_p_value(name, rewards_of(name, shift=0.15), r, mass) < P_MIN
    mean = float(model.mean_reward(theta, (), jnp.asarray(0)))
    np.testing.assert_allclose(rewards.mean(), mean, atol=5 * rewards.std() / DRAWS**0.5)
    np.testing.assert_allclose((r * mass).sum(), mean, rtol=5e-3)


@every
def test_information_is_the_variance_of_the_score(name):
    model = get(name)
    theta = some_theta(name)
    score = jax.jit(jax.vmap(lambda r: jax.grad(lambda x: model.log_likelihood(x, row(r)))(theta)))
    scores = np.asarray(score(rewards_of(name)), float)
    info = np.asarray(jax.jit(lambda: model.information(theta))(), float)
    assert info.shape == (model.dim,)
    if name.startswith("Linear"):  # the largest curvature stands for every coordinate
        scores = scores @ np.linalg.eigh(scores.T @ scores)[1][:, -1:]
        info = info[:1]
    squares = np.square(scores)
    if name == "NumPyro":  # 32 draws
        np.testing.assert_allclose(info, squares.mean(0), rtol=0.6)
    else:
        np.testing.assert_array_less(np.abs(squares.mean(0) - info), 5 * squares.std(0) / DRAWS**0.5 + 1e-4 * info)


@every
def test_prior_precision_is_near_that_of_prior_draws(name):
    model = get(name)
    ratio = np.asarray(model.prior_precision() * prior_draws(name).var(0))
    assert ratio.shape == (model.dim,)
    assert ((ratio > 0.5) & (ratio < 2.0)).all(), ratio


# Theory


@jax.jit
def _hessians(model, thetas, rewards):
    return jax.vmap(lambda x, r: -jax.hessian(lambda y: model.log_likelihood(y, row(r)))(x))(thetas, rewards)


def curvatures(model, thetas, rewards):
    hessian = _hessians(model, thetas, rewards)
    return np.linalg.eigvalsh(np.asarray(hessian, float))


@every_named
def test_theory_constants_bound_the_second_derivatives(name):
    model = NAMED[name]
    theory = model.theory()
    assert theory.inside == (name in ("Gaussian", "Linear along 2 d=1"))
    thetas = some_theta(name) + 3.0 * jax.random.normal(jax.random.key(0), (500, model.dim))
    far = jnp.asarray(rewards_of(name)[:500])
    eigen = curvatures(model, thetas, far)
    if np.isfinite(theory.L):
        assert np.abs(eigen).max() <= theory.L * 1.001
    if not theory.inside:
        assert np.isnan(theory.m)
        assert eigen.min() < 0.02, "a constant m seems to exist"
        return

    def in_reward(x, r):
        return jax.grad(lambda s: model.log_likelihood(x, row(s)))(r)

    bend = -jax.jit(jax.vmap(lambda x, r: jax.grad(lambda s: in_reward(x, s))(r)))(thetas, far)
    mixed = jax.jit(jax.vmap(lambda x, r: jax.grad(lambda y: in_reward(y, r))(x)))(thetas, far)
    assert eigen.min() >= theory.m * 0.999
    assert float(bend.min()) >= theory.nu * 0.999
    assert float(jnp.linalg.norm(mixed, axis=-1).max()) <= theory.L * 1.001


def test_the_smoothness_constants_are_attained():
    student = StudentT(0.0, 1.0, 0.7, 5.0)
    np.testing.assert_allclose(curvatures(student, jnp.zeros((1, 1)), jnp.zeros(1)), student.theory().L, rtol=1e-4)
    np.testing.assert_allclose(curvatures(Bernoulli(), jnp.zeros((1, 1)), jnp.ones(1)), 0.25, rtol=1e-4)


@pytest.mark.parametrize("name", [n for n, m in NAMED.items() if hasattr(m, "theta_of_mean")])
def test_theta_of_mean_inverts_the_mean_reward(name):
    model = NAMED[name]
    theta = model.theta_of_mean(jnp.asarray(0.3))
    assert theta.shape == (model.dim,)
    np.testing.assert_allclose(model.mean_reward(theta, (), 0), 0.3, rtol=1e-5)


@pytest.mark.parametrize("name", [n for n, m in NAMED.items() if getattr(m, "gaussian_prior_and_linear_mean", False)])
def test_the_prior_of_a_linear_mean_reward(name):
    model = NAMED[name]
    mean, sd = model.prior_mean_reward((), 0)
    draws = np.asarray(jax.vmap(lambda x: model.mean_reward(x, (), 0))(jnp.asarray(prior_draws(name))), float)
    assert stats.kstest((draws - mean) / sd, "norm").pvalue > P_MIN
    assert stats.kstest((draws - mean) / sd * 1.1, "norm").pvalue < P_MIN


# float32


def test_a_float32_summary_of_many_rewards_far_from_zero_loses_nothing():
    n = 100_000
    rewards = np.float32(1000 + 0.5 * np.random.default_rng(0).standard_normal(n))
    exact_mean, exact_sd = rewards.astype(float).mean(), 0.5 / n**0.5
    summary = summary_of(Gaussian(900.0, 100.0, 0.5), jnp.asarray(rewards))
    assert abs(float(summary.mean) - exact_mean) < 0.05 * exact_sd
    np.testing.assert_allclose(summary.m2, rewards.astype(float).var() * n, rtol=1e-4)
    law = Gaussian(900.0, 100.0, 0.5).marginal(summary, (), 0)
    assert abs(float(law.mean) - exact_mean) < 0.05 * exact_sd
    np.testing.assert_allclose(law.sd, exact_sd, rtol=1e-4)
    law = GaussianUnknownVariance(900.0, 1.0, 2.0, 2.0).marginal(summary, (), 0)
    b = 2 + 0.5 * (rewards.astype(float).var() * n + n / (n + 1) * (exact_mean - 900) ** 2)
    assert abs(float(law.mean) - (900 + n * exact_mean) / (n + 1)) < 0.1 * exact_sd
    np.testing.assert_allclose(law.scale, np.sqrt(b / (2 + n / 2) / (n + 1)), rtol=1e-4)
    linear = Linear([900.0], 100.0, 0.5, [1.0])
    law = linear.marginal(summary_of(linear, jnp.asarray(rewards)), (), 0)
    assert abs(float(law.mean) - exact_mean) < 0.1 * exact_sd
    np.testing.assert_allclose(law.sd, exact_sd, rtol=1e-4)


def test_a_plain_float32_mean_would_have_stopped_moving():
    """The mutant: Welford without the digits that rounding drops."""
    n = 100_000
    rewards = np.float32(1000 + 0.5 * np.random.default_rng(0).standard_normal(n))

    def plain(carry, r):
        k, mean = carry
        return (k + 1, mean + (r - mean) / (k + 1)), None

    (_, mean), _ = jax.lax.scan(plain, (jnp.zeros(()), jnp.zeros(())), jnp.asarray(rewards))
    assert abs(float(mean) - rewards.astype(float).mean()) > 0.5 * 0.5 / n**0.5


def test_a_float32_total_of_counts():
    n = 100_000
    rewards = np.random.default_rng(0).poisson(1000.0, n).astype(np.float32)
    model = Poisson(1.0, 0.001)
    law = model.marginal(summary_of(model, jnp.asarray(rewards)), (), 0)
    exact = stats.gamma(1 + rewards.astype(float).sum(), scale=1 / (n + 0.001))
    assert abs(float(law.mean) - exact.mean()) < 0.05 * exact.std()
    np.testing.assert_allclose(law.sd, exact.std(), rtol=1e-4)


def test_moments_with_weights():
    x = jnp.asarray([1.0, jnp.nan, 3.0, jnp.inf, 5.0])
    weight = jnp.asarray([1, 0, 1, 0, 1])
    moments = jax.lax.scan(lambda s, xw: (s.plus(*xw), None), Moments.zero(), (x, weight))[0]
    assert (int(moments.rows), int(moments.n), float(moments.mean), float(moments.m2), float(moments.total)) == (
        5,
        3,
        3.0,
        8.0,
        9.0,
    )
