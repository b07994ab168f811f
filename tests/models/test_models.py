"""Every reward model against quadrature, Monte Carlo and SciPy; each statistical test has a mutant that must fail."""

from __future__ import annotations

import builtins
import pickle
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from blts import loop
from blts._module import from_json, to_json
from blts._random import as_key, split
from blts._typing import Row
from blts.agents import Exact, Perturb, Thompson
from blts.batching import DoublingCounts
from blts.declared import provides
from blts.envs import Bandit
from blts.errors import ConfigError
from blts.models import (
    Bernoulli,
    Conjugate,
    Exponential,
    Gamma,
    Gaussian,
    GaussianUnknownVariance,
    Laplace,
    Linear,
    LogNormal,
    Model,
    Moments,
    Poisson,
    StudentT,
    Sufficient,
    ZeroInflatedLogNormal,
    from_functions,
    from_numpyro,
    marginal,
    stack,
)
from blts.models.base import arm_count
from blts.samplers import sgld

dist = pytest.importorskip("numpyro.distributions")

P_MIN = 1e-4
DRAWS = 20_000


# Module-level functions, so that models built from them pickle.


def laplace_law(mu):
    return dist.Laplace(mu, 0.5)


def normal_prior(loc):
    return {"mu": dist.Normal(loc, 1.5)}


def lognormal_law(mu, sigma):
    return dist.LogNormal(mu, sigma)


def lognormal_priors():
    return {"mu": dist.Normal(0.5, 1.0), "sigma": dist.HalfNormal(0.7)}


def log_prior(theta, mu):
    return -0.5 * jnp.sum(jnp.square((theta - mu) / 1.5)) - theta.shape[0] * (jnp.log(1.5) + 0.5 * jnp.log(2 * jnp.pi))


def log_laplace(theta, reward, mu):
    return -jnp.abs(reward - theta[0]) / 0.5 - jnp.log(1.0)


def draw_laplace(key, theta, mu):
    return theta[0] + 0.5 * jax.random.laplace(key)


NAMED = {
    "Gaussian": Gaussian(1.0, 2.0, 0.7),
    "GaussianUnknownVariance": GaussianUnknownVariance(1.0, 2.0, 6.0, 3.0),
    "Laplace": Laplace(1.0, 2.0, 0.7),
    "StudentT": StudentT(1.0, 2.0, 0.7, 5.0),
    "Bernoulli": Bernoulli(2.0, 3.0),
    "Poisson": Poisson(3.0, 1.5),
    "Gamma": Gamma(2.0, 4.0, 3.0),
    "Exponential": Exponential(4.0, 3.0),
    "LogNormal": LogNormal(0.3, 2.0, 6.0, 3.0),
    "ZeroInflatedLogNormal": ZeroInflatedLogNormal(3.0, 5.0, 0.3, 2.0, 6.0, 3.0),
    "Linear along 2 d=1": Linear([0.5], 1.5, 0.7, [2.0]),
    "Linear along α d=2": Linear([0.5, -1.0], 1.5, 0.7, [1.0, 0.6]),
}
CONJUGATE = [name for name, model in NAMED.items() if provides(model, Conjugate)]


@cache
def custom(name):
    if name == "NumPyro":
        return from_numpyro(lognormal_law, lognormal_priors)
    return from_functions(log_prior, log_laplace, L=4.0, sample=draw_laplace, mu=2.0)


def get(name):
    return NAMED[name] if name in NAMED else custom(name)


ALL = [*NAMED, "NumPyro", "Functions"]
every = pytest.mark.parametrize("name", ALL)
every_named = pytest.mark.parametrize("name", NAMED)
every_conjugate = pytest.mark.parametrize("name", CONJUGATE)


def row(reward, obs=()):
    return Row(obs, jnp.asarray(0), jnp.asarray(reward, float))


KEYS = split(as_key(0), DRAWS)


@jax.jit
def _prior_draws(model, keys):
    return jax.vmap(model.init)(keys)


@jax.jit
def _rewards(model, theta, keys):
    return jax.vmap(lambda k: model.sample(k, theta, (), jnp.asarray(0)))(keys)


@jax.jit
def _posterior_draws(model, summary, keys):
    return jax.vmap(lambda k: model.draw(k, summary))(keys)


@jax.jit
def _log_posterior(model, rewards, weights, thetas):
    def one(x):
        return model.log_prior(x) + jnp.sum(weights * jax.vmap(lambda r: model.log_likelihood(x, row(r)))(rewards))

    return jax.lax.map(one, thetas, batch_size=4096)


@jax.jit
def summary_of(model, rewards):
    return jax.lax.scan(lambda s, r: (model.add(s, row(r)), None), model.empty(), rewards)[0]


@cache
def prior_draws(name):
    model = get(name)
    return np.asarray(_prior_draws(model, KEYS) if name != "Functions" else model.draws, float)


def some_theta(name):
    """A value of θ that is typical, and the same in every test."""
    return jnp.asarray(prior_draws(name)[:64].mean(0) + 0.1)


@cache
def rewards_of(name, shift=0.0):
    return np.asarray(_rewards(get(name), some_theta(name) + shift, KEYS), float)


@cache
def posterior_draws(name):
    """Exact draws after twelve rewards."""
    model = get(name)
    return np.asarray(_posterior_draws(model, summary_of(model, rewards_of(name)[:12]), KEYS), float)


# Laws of θ against quadrature of a log-density


@cache
def quadrature(name, rows):
    """Nodes and weights of the prior (rows = 0) or posterior on a grid that holds all draws, and the mass there."""
    draws = posterior_draws(name) if rows else prior_draws(name)
    dim = draws.shape[1]
    points = {1: 4001, 2: 251, 3: 71}[dim]
    low, high = draws.min(0), draws.max(0)
    axes = [np.linspace(a - 0.2 * (b - a), b + 0.2 * (b - a), points) for a, b in zip(low, high, strict=True)]
    nodes = np.stack([g.ravel() for g in np.meshgrid(*axes, indexing="ij")], -1)
    # Twelve ordinary rewards in any case, so that prior and posterior are one compiled function.
    logs = np.asarray(_log_posterior(get(name), rewards_of(name)[:12], jnp.arange(12) < rows, nodes), float)
    cell = np.prod([a[1] - a[0] for a in axes])
    weights = np.exp(logs - logs.max())
    return nodes, weights / weights.sum(), weights.sum() * cell * np.exp(logs.max())


def p_value(draws, nodes, weights):
    """Smallest p-value of: KS in one dimension; z-tests of all first and second moments otherwise."""
    if draws.shape[1] == 1:
        cdf = np.cumsum(weights) - 0.5 * weights
        return stats.kstest(draws[:, 0], lambda x: np.interp(x, nodes[:, 0], cdf)).pvalue

    def features(x):
        z = x - weights @ nodes
        return np.concatenate([z, (z[:, :, None] * z[:, None, :]).reshape(len(x), -1)], 1)

    want = weights @ features(nodes)
    error = np.sqrt((weights @ np.square(features(nodes) - want)) / len(draws))
    z = (features(draws).mean(0) - want) / error
    return 2 * stats.norm.sf(np.abs(z).max()) * len(z)


@every
def test_prior_draws_have_the_prior_density_which_integrates_to_one(name):
    draws = prior_draws(name)
    nodes, weights, mass = quadrature(name, 0)
    assert p_value(draws, nodes, weights) > P_MIN
    np.testing.assert_allclose(mass, 1.0, atol=5e-3)
    mutant = draws.mean(0) + (1.2 if len(draws) == DRAWS else 1.4) * (draws - draws.mean(0))
    assert p_value(mutant, nodes, weights) < P_MIN


@every_conjugate
def test_exact_draws_have_the_posterior(name):
    model = NAMED[name]
    rewards = rewards_of(name)[:12]
    nodes, weights, _ = quadrature(name, 12)
    assert p_value(posterior_draws(name), nodes, weights) > P_MIN
    mutant = summary_of(model, rewards)
    for reward in rewards[:4]:  # told twice
        mutant = model.add(mutant, row(reward))
    assert p_value(np.asarray(_posterior_draws(model, mutant, KEYS), float), nodes, weights) < P_MIN
    nodes, weights, _ = quadrature(name, 0)
    assert p_value(np.asarray(_posterior_draws(model, model.empty(), KEYS), float), nodes, weights) > P_MIN


@every_conjugate
def test_a_summary_has_the_likelihood_of_its_rows(name):
    model = NAMED[name]
    rewards = rewards_of(name)[:12]
    summary = summary_of(model, rewards)
    assert int(summary.rows) == 12
    thetas = some_theta(name) + jnp.asarray([[0.0], [0.3]])
    with_rows, without = (_log_posterior(model, rewards, jnp.arange(12) < n, thetas) for n in (12, 0))
    of_summary = jax.jit(jax.vmap(lambda x: model.log_likelihood_of(x, summary)))(thetas)
    np.testing.assert_allclose(of_summary, with_rows - without, rtol=2e-5, atol=1e-3)


def test_a_linear_summary_of_contexts():
    model = Linear([0.5, -1.0, 0.0], 1.5, 0.7)
    x = jax.random.normal(jax.random.key(0), (30, 3))
    theta = jnp.asarray([1.0, 0.5, -0.3])
    rewards = x @ theta + 0.7 * jax.random.normal(jax.random.key(1), (30,))
    summary = jax.lax.scan(lambda s, xr: (model.add(s, row(xr[1], xr[0])), None), model.empty(), (x, rewards))[0]
    rows = jnp.sum(jax.vmap(lambda x, r: model.log_likelihood(theta, row(r, x)))(x, rewards))
    np.testing.assert_allclose(model.log_likelihood_of(theta, summary), rows, rtol=1e-4)
    X, y = np.asarray(x, float), np.asarray(rewards, float)
    covariance = np.linalg.inv(np.eye(3) / 1.5**2 + X.T @ X / 0.49)
    mean = covariance @ (np.array([0.5, -1.0, 0.0]) / 1.5**2 + X.T @ y / 0.49)
    law = model.marginal(summary, x[0], 0)
    np.testing.assert_allclose(law.mean, X[0] @ mean, rtol=1e-4)
    np.testing.assert_allclose(law.sd, np.sqrt(X[0] @ covariance @ X[0]), rtol=1e-4)
    draws = np.asarray(jax.vmap(lambda k: model.draw(k, summary))(split(as_key(0), DRAWS)), float)
    whitened = (draws - mean) @ np.linalg.cholesky(np.linalg.inv(covariance))
    assert min(stats.kstest(column, "norm").pvalue for column in whitened.T) > P_MIN
    np.testing.assert_allclose(whitened.T @ whitened / DRAWS, np.eye(3), atol=0.05)
    assert min(stats.kstest(column * 1.1, "norm").pvalue for column in whitened.T) < P_MIN


def test_linear_needs_its_context():
    model = Linear([0.0, 0.0])
    with pytest.raises(ConfigError, match=r"needs a context of shape \(2,\); it has no context"):
        model.mean_reward(jnp.zeros(2), (), 0)
    with pytest.raises(ConfigError, match=r"it has a context of shape \(3,\)"):
        model.mean_reward(jnp.zeros(2), jnp.zeros(3), 0)


# Marginals


@every_conjugate
def test_the_marginal_is_the_law_of_the_mean_reward(name):
    model = NAMED[name]
    law = model.marginal(summary_of(model, rewards_of(name)[:12]), (), jnp.asarray(0))
    if law is None:
        assert name in ("LogNormal", "ZeroInflatedLogNormal")
        return
    means = np.asarray(jax.vmap(lambda x: model.mean_reward(x, (), 0))(jnp.asarray(posterior_draws(name))), float)
    assert stats.kstest(np.asarray(law.cdf(jnp.asarray(means)), float), "uniform").pvalue > P_MIN
    assert stats.kstest(np.asarray(law.cdf(jnp.asarray(means) + 0.1 * law.sd), float), "uniform").pvalue < P_MIN
    np.testing.assert_allclose(law.mean, means.mean(), atol=5 * means.std() / DRAWS**0.5)
    np.testing.assert_allclose(law.sd, means.std(), rtol=0.05)


LAWS = {
    "Normal": (marginal.NormalLaw(1.0, 2.0), stats.norm(1.0, 2.0)),
    "Beta": (marginal.BetaLaw(2.5, 40.0), stats.beta(2.5, 40.0)),
    "Beta of many": (marginal.BetaLaw(300.0, 9000.0), stats.beta(300.0, 9000.0)),
    "Beta of millions": (marginal.BetaLaw(2e6, 3e6), stats.beta(2e6, 3e6)),
    "Beta of rare": (marginal.BetaLaw(3.0, 1e5), stats.beta(3.0, 1e5)),
    "Beta of failures": (marginal.BetaLaw(2000.0, 40.0), stats.beta(2000.0, 40.0)),
    "Beta between": (marginal.BetaLaw(20.0, 600.0), stats.beta(20.0, 600.0)),
    "Gamma": (marginal.GammaLaw(3.5, 2.0), stats.gamma(3.5, scale=0.5)),
    "Gamma of little": (marginal.GammaLaw(0.3, 2.0), stats.gamma(0.3, scale=0.5)),
    "Gamma of many": (marginal.GammaLaw(5000.0, 2.0), stats.gamma(5000.0, scale=0.5)),
    "Gamma of millions": (marginal.GammaLaw(3e6, 2.0), stats.gamma(3e6, scale=0.5)),
    "InverseGamma": (marginal.InverseGammaLaw(3.5, 2.0), stats.invgamma(3.5, scale=2.0)),
    "InverseGamma of many": (marginal.InverseGammaLaw(1e5, 2.0), stats.invgamma(1e5, scale=2.0)),
    "StudentT": (marginal.StudentTLaw(4.5, 1.0, 2.0), stats.t(4.5, 1.0, 2.0)),
    "StudentT of many": (marginal.StudentTLaw(1e5, 1.0, 2.0), stats.t(1e5, 1.0, 2.0)),
}


@jax.jit
def _of_law(law, x, u):
    return law.cdf(x), law.quantile(u)


@pytest.mark.parametrize("name", LAWS)
def test_marginals_agree_with_scipy(name):
    ours, theirs = LAWS[name]
    u = np.array([0.003, 0.05, 0.3, 0.5, 0.8, 0.99])
    x = theirs.ppf(u)
    # Between neighbouring float32 numbers a cdf moves by eps · x / sd; the laws of millions are narrow.
    grain = 1.2e-7 * abs(theirs.mean()) / theirs.std()
    cdf, quantile = _of_law(ours, jnp.asarray(x), jnp.asarray(u))
    np.testing.assert_allclose(cdf, u, atol=6e-4 + grain)
    np.testing.assert_allclose(cdf[:2], u[:2], rtol=0.02 + 10 * grain)
    np.testing.assert_allclose(quantile, x, atol=(0.01 + 5 * grain) * theirs.std())
    np.testing.assert_allclose(ours.mean, theirs.mean(), rtol=1e-5)
    np.testing.assert_allclose(ours.sd, theirs.std(), rtol=1e-5)


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

    bend = -jax.vmap(lambda x, r: jax.grad(lambda s: in_reward(x, s))(r))(thetas, far)
    mixed = jax.vmap(lambda x, r: jax.grad(lambda y: in_reward(y, r))(x))(thetas, far)
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


# Refusals


def standard(key):
    return jax.random.normal(key, (1,))


def by(maker, *args, **kwargs):
    return lambda: maker(*args, **kwargs)


def flat(theta):
    return 0.0 * theta[0]


def bowl(theta):
    return -0.5 * jnp.sum(theta**2)


def square(theta, reward):
    return -0.5 * jnp.square(reward - theta[0])


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (by(Laplace, scale=-1.0), "Laplace: scale must be > 0 and finite; got -1."),
        (by(Laplace, scale=np.nan), "Laplace: scale must not be NaN"),
        (by(Laplace, prior_mean=np.inf), "Laplace: prior_mean must be finite"),
        (by(Laplace, prior_mean=[1.0, 2.0], scale=[1.0, 2.0, 3.0]), "the number of arms differs, prior_mean has 2 but scale has 3"),
        (by(Gaussian, prior_mean=[[1.0, 2.0]]), r"Gaussian: prior_mean has shape \(1, 2\); give a number or one such for each arm"),
        (by(StudentT, df=1.0), "StudentT: df must be > 1, for a mean reward to exist; got 1"),
        (by(StudentT, df=-2.0), "StudentT: df must be > 0"),
        (by(Bernoulli, a=0.0), "Bernoulli: a must be > 0"),
        (by(Poisson, b=[1.0, -1.0]), "Poisson: b must be > 0"),
        (by(Gamma, shape=np.inf), "Gamma: shape must be > 0 and finite"),
        (by(Exponential, a="x"), "Gamma: a must be a number"),
        (by(LogNormal, weight=0.0), "LogNormal: weight must be > 0"),
        (by(ZeroInflatedLogNormal, paid=-1.0), "ZeroInflatedLogNormal: paid must be > 0"),
        (by(GaussianUnknownVariance, b=-1.0), "GaussianUnknownVariance: b must be > 0"),
        (by(Linear), "Linear: missing 1 required positional argument: 'prior_mean'"),
        (by(Linear, 0.0), r"Linear: prior_mean has shape \(\); give a vector"),
        (by(Linear, []), "Linear: prior_mean must have one number for each coordinate of θ; got none"),
        (by(Linear, [0.0, 0.0], alpha=[1.0]), "Linear: alpha has 1 coordinates and prior_mean 2; give as many"),
        (by(Linear, [0.0], alpha=[[1.0], [0.0]]), "Linear: alpha must not be zero"),
        (by(from_functions, bowl, square, L=-1.0), "L must be > 0"),
        (by(from_functions, bowl, square, L=[1.0, 2.0]), "L must be a number or one for each of the 1 coordinates of θ"),
        (by(from_functions, bowl, square, L=1.0, dim=0), "dim must be a whole number ≥ 1; got 0"),
        (by(from_functions, None, square, L=1.0), "log_prior must be a function; got None"),
        (by(from_functions, lambda theta: theta, square, L=1.0), r"log_prior must be one number; at θ = 0 it has shape \(1,\)"),
        (
            by(from_functions, lambda theta: jnp.log(theta[0] - 1), square, L=1.0),
            "log_prior must be finite for every θ; at θ = 0 it is nan",
        ),
        (by(from_functions, flat, square, L=1.0), "perhaps because it is not a proper density; give init"),
        (
            by(from_functions, bowl, lambda theta, reward: theta * reward, L=1.0, init=standard),
            r"log_likelihood must be one number; .* shape \(1,\)",
        ),
        (
            by(from_functions, bowl, lambda theta, reward: theta[0] / 0.0, L=1.0, init=standard),
            "log_likelihood must be finite at a prior draw",
        ),
        (
            by(from_functions, bowl, square, L=1.0, init=lambda key: jnp.zeros(3)),
            r"a prior draw must have shape \(1,\); it has \(3,\)",
        ),
        (by(from_functions, bowl, square, L=1.0, init=lambda key: jnp.full(1, jnp.nan)), "a prior draw is not finite"),
        (by(from_functions, bowl, square, L=1.0, init=lambda key: jnp.ones(1)), "prior draws must be finite and must vary"),
        (
            by(from_functions, bowl, square, L=1.0, mean_reward=lambda theta: theta, init=standard),
            "the mean reward must be one number",
        ),
        (by(from_functions, log_prior, log_laplace, L=1.0, mu=[1.0, np.nan]), "mu must be finite"),
        (by(from_functions, log_prior, log_laplace, L=1.0, mu="x"), "mu must be a number or one number for each arm"),
        (by(from_functions, log_prior, log_laplace, L=1.0, mu=[1.0, 2.0], arms=3), "describes 2 arms where 3 are needed"),
        (
            by(from_numpyro, laplace_law, {"mu": dist.Normal(np.zeros(3), 1)}),
            r"the prior of mu has batch shape \(3,\); write it for one arm",
        ),
        (by(from_numpyro, laplace_law, {"mu": dist.Poisson(1.0)}), "the prior of mu is discrete"),
        (by(from_numpyro, laplace_law, {"mu": 3.0}), "the prior of mu must be a NumPyro distribution; got float"),
        (by(from_numpyro, laplace_law, {}), "prior must give a dict"),
        (
            by(from_numpyro, laplace_law, {"mu": dist.Normal(0, 1)}, loc=1.0),
            "a dict of priors takes no hyper-parameters, but loc was given",
        ),
        (by(from_numpyro, lambda mu: mu, {"mu": dist.Normal(0, 1)}), "likelihood must return a NumPyro distribution"),
        (
            by(from_numpyro, lambda mu: dist.Normal(mu, jnp.ones(2)), {"mu": dist.Normal(0, 1)}),
            "likelihood must be the law of one number",
        ),
        (by(from_numpyro, lambda mu: dist.Cauchy(mu, 1.0), {"mu": dist.Normal(0, 1)}), "the mean reward must be finite"),
        (by(from_numpyro, 3.0, {"mu": dist.Normal(0, 1)}), "likelihood must be a function"),
    ],
)
def test_bad_inputs_are_refused_in_a_sentence(make, sentence):
    with pytest.raises(ConfigError, match=sentence):
        make()


def test_without_numpyro_the_sentence_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("numpyro"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError, match=r'pip install "blts\[numpyro\]"'):
        from_numpyro(laplace_law, normal_prior, loc=0.0)


# Custom models


@jax.jit
def _densities(model, theta, reward):
    return model.log_prior(theta), model.log_likelihood(theta, row(reward)), model.mean_reward(theta, (), jnp.asarray(0))


def test_numpyro_densities_are_the_library_s_own():
    ours, theirs = Laplace(3.0, 1.5, 0.5), from_numpyro(laplace_law, normal_prior, loc=3.0)
    for x in (-2.0, 0.3, 5.0):
        theta = jnp.asarray([x])
        np.testing.assert_allclose(_densities(theirs, theta, 1.2), _densities(ours, theta, 1.2), rtol=1e-5)
    np.testing.assert_allclose(jax.jit(theirs.information)(theta), ours.information(theta), rtol=1e-5)


@pytest.mark.parametrize(
    ("ours", "likelihood", "prior"),
    [
        (Bernoulli(2.0, 3.0), lambda x: dist.Bernoulli(x), {"x": dist.Beta(2.0, 3.0)}),
        (Poisson(3.0, 1.5), lambda x: dist.Poisson(x), {"x": dist.Gamma(3.0, 1.5)}),
    ],
)
def test_constrained_parameters_carry_their_jacobian(ours, likelihood, prior):
    theirs = from_numpyro(likelihood, prior)
    for x in (-2.0, 0.3, 3.0):
        theta = jnp.asarray([x])
        np.testing.assert_allclose(_densities(theirs, theta, 1.0), _densities(ours, theta, 1.0), rtol=1e-4)


@pytest.mark.slow
def test_vector_parameters_and_hyper_parameters_of_the_likelihood():
    model = from_numpyro(
        lambda w, scale: dist.Normal(w[0] - w[1], scale),
        lambda scale: {"w": dist.Dirichlet(jnp.ones(3))},
        mean=lambda w, scale: w[0] - w[1],
        scale=[0.1, 0.2],
    )
    assert model.dim == 2
    assert arm_count(model) == 2
    assert model.precision.shape == (2, 2)
    single = from_numpyro(model.likelihood, model.prior, mean=model.mean, scale=0.1, arms=4)
    assert arm_count(single) == 4
    assert single.hyper["scale"].shape == (4,)


@pytest.mark.slow
def test_a_parameter_that_rewards_rarely_touch_keeps_a_finite_spread():
    def rare(p, mu):
        pays = dist.Normal(mu, 1.0)
        return dist.Mixture(dist.Categorical(probs=jnp.stack([1 - p, p])), [dist.Normal(0.0, 0.01), pays])

    model = from_numpyro(rare, {"p": dist.Beta(1.0, 1e4), "mu": dist.Normal(50.0, 1.0)})
    info = jax.jit(lambda: model.information(model.init(as_key(0))))()
    assert bool((info > 0).all())
    assert bool(jnp.isfinite(info).all())


def test_functions_draw_their_prior_by_mala():
    centres, scales = [0.0, 1.0, 1000.0, -1000.0], [0.1, 30.0, 0.1, 30.0]
    model = from_functions(lambda theta, mu, s: -jnp.abs(theta[0] - mu) / s, square_of_first, L=1.0, mu=centres, s=scales)
    assert model.draws.shape == (4, 1024, 1)
    for draws, mu, s in zip(np.asarray(model.draws, float), centres, scales, strict=True):
        assert stats.kstest(draws[:, 0], stats.laplace(mu, s).cdf).pvalue > P_MIN
        z = (np.mean(np.abs(draws - mu)) / s - 1) * 1024**0.5  # |θ - μ| is exponential
        assert abs(z) < 4
        assert abs((z / 1024**0.5 + 1) * 1.3 - 1) * 1024**0.5 > 4  # what a spread 30 % too wide would give
    np.testing.assert_allclose(model.precision[:, 0], 1 / (2 * np.square(scales)), rtol=0.5)


def square_of_first(theta, reward, mu, s):
    return -0.5 * jnp.square(reward - theta[0])


def test_functions_draw_a_correlated_prior():
    precision = jnp.asarray(np.linalg.inv([[4.0, 1.9 * 0.1], [1.9 * 0.1, 0.01]]))
    model = from_functions(lambda theta: -0.5 * (theta - 5) @ precision @ (theta - 5), square, L=[1.0, 2.0], dim=2)
    whitened = (np.asarray(model.draws, float) - 5) @ np.linalg.cholesky(np.asarray(precision, float))
    assert min(stats.kstest(column, "norm").pvalue for column in whitened.T) > P_MIN
    assert abs(np.corrcoef(whitened.T)[0, 1]) < 4 / 1024**0.5


def run_tiny(model, belief, env):
    agent = Thompson(model, belief)
    times = jnp.asarray([10, 20])
    go = jax.jit(
        lambda: loop.run(
            as_key(0), env, agent, DoublingCounts(), times, jnp.asarray(0), horizon=20, replications=4, keep_actions=True
        )
    )
    record = go()
    assert bool(record.diagnostics.finite.all())
    assert np.asarray(record.plays).sum() == 80
    return np.asarray(record.actions)


@pytest.mark.slow
def test_a_numpyro_model_with_a_prior_for_each_arm_plays():
    loc = np.linspace(4, 10, 10)
    model = from_numpyro(laplace_law, normal_prior, loc=loc)
    assert arm_count(model) == 10
    actions = run_tiny(model, Perturb(sgld()), Bandit.with_means(Laplace(loc, 1.5, 0.5), loc))
    assert actions.mean() > 5  # the last arms are the best ones


@pytest.mark.slow
def test_functions_play_and_need_sample_only_in_a_simulated_bandit():
    model = from_functions(log_prior, log_laplace, L=4.0, mu=[0.0, 3.0])
    actions = run_tiny(model, Perturb(sgld()), Bandit.with_means(Laplace([0.0, 3.0], 1.0, 0.5), [0.0, 3.0]))
    assert actions.mean() > 0.5
    with pytest.raises(ConfigError, match="cannot draw rewards"):
        Bandit(model)
    Bandit(stack(custom("Functions"), 2))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Poisson", "ZeroInflatedLogNormal"])
def test_conjugate_models_play(name):
    model = stack(NAMED[name], 3)
    run_tiny(model, Exact(), Bandit(model))


# Contracts


@every
def test_models_are_what_the_protocols_say(name):
    model = get(name)
    assert provides(model, Model)
    assert provides(model, Sufficient) == (name in CONJUGATE)


@every
def test_models_pickle_and_print(name):
    model = stack(get(name), 3)
    again = pickle.loads(pickle.dumps(model))
    assert repr(again) == repr(model)
    assert jax.tree.structure(again) == jax.tree.structure(model)
    jax.tree.map(np.testing.assert_array_equal, again, model)
    text = str(model)
    assert text.startswith("3 arms with ")
    assert text.endswith(".")
    assert "\n" not in text
    assert str(get(name)).startswith("One arm with ")
    assert "<p>3 arms" in model._repr_html_()


@every_named
def test_models_survive_json(name):
    for model in (NAMED[name], stack(NAMED[name], 3)):
        again = from_json(to_json(model))
        assert type(again) is type(model)
        jax.tree.map(np.testing.assert_array_equal, again, model)


@pytest.mark.parametrize("name", ["NumPyro", "Functions"])
def test_functions_are_not_written_as_json(name):
    with pytest.raises(ConfigError, match="cannot be written as JSON"):
        to_json(custom(name))


@every
def test_one_trace_serves_other_numbers_and_all_arms(name):
    model = get(name)
    traces = []

    @jax.jit
    def density(model, theta):
        traces.append(1)
        return (
            model.log_prior(theta)
            + model.log_likelihood(theta, row(1.0))
            + jnp.sum(model.information(theta) + model.prior_precision())
        )

    theta = some_theta(name)
    first = density(model, theta)
    density(jax.tree.map(lambda leaf: jnp.asarray(leaf) * 1.1, model), theta)
    density(model, theta)
    assert len(traces) <= 2  # NumPy's float64 and JAX's float32 leaves may differ in type
    stacked = stack(model, 3)
    each = jax.vmap(lambda single: density(single, theta))(stacked)
    np.testing.assert_allclose(each, np.repeat(first, 3), rtol=1e-5)
    assert stack(stacked, 3).theory().inside == model.theory().inside
