"""Laws of the parameter and of the mean reward against quadrature and SciPy; each has a mutant that must fail."""

from __future__ import annotations

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from blts.errors import ConfigError
from blts.models import (
    Linear,
    marginal,
)
from reward_models import CONJUGATE, DRAWS, KEYS, NAMED, P_MIN, every, get, prior_draws, rewards_of, row, some_theta, summary_of

every_conjugate = pytest.mark.parametrize("name", CONJUGATE)


@jax.jit
def _posterior_draws(model, summary, keys):
    return jax.vmap(lambda k: model.draw(k, summary))(keys)


@jax.jit
def _log_posterior(model, rewards, weights, thetas):
    def one(x):
        return model.log_prior(x) + jnp.sum(weights * jax.vmap(lambda r: model.log_likelihood(x, row(r)))(rewards))

    return jax.lax.map(one, thetas, batch_size=4096)


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
    rng = np.random.default_rng(0)
    theta = np.array([1.0, 0.5, -0.3])
    X = rng.normal(size=(30, 3))
    y = X @ theta + 0.7 * rng.normal(size=30)

    @jax.jit
    def all_of(x, rewards, theta, keys):
        summary = jax.lax.scan(lambda s, xr: (model.add(s, row(xr[1], xr[0])), None), model.empty(), (x, rewards))[0]
        rows = jnp.sum(jax.vmap(lambda x, r: model.log_likelihood(theta, row(r, x)))(x, rewards))
        law = model.marginal(summary, x[0], 0)
        return model.log_likelihood_of(theta, summary), rows, law, jax.vmap(lambda k: model.draw(k, summary))(keys)

    of_summary, rows, law, draws = all_of(X.astype(np.float32), y.astype(np.float32), theta.astype(np.float32), KEYS)
    np.testing.assert_allclose(of_summary, rows, rtol=1e-4)
    covariance = np.linalg.inv(np.eye(3) / 1.5**2 + X.T @ X / 0.49)
    mean = covariance @ (np.array([0.5, -1.0, 0.0]) / 1.5**2 + X.T @ y / 0.49)
    np.testing.assert_allclose(law.mean, X[0] @ mean, rtol=1e-4)
    np.testing.assert_allclose(law.sd, np.sqrt(X[0] @ covariance @ X[0]), rtol=1e-4)
    whitened = (np.asarray(draws, float) - mean) @ np.linalg.cholesky(np.linalg.inv(covariance))
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
