"""Models made of functions or of NumPyro distributions."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from blts import loop
from blts._random import as_key
from blts._typing import Info
from blts.agents import Exact, Perturb, Thompson
from blts.batching import DoublingCounts
from blts.envs import Bandit
from blts.errors import ConfigError
from blts.inference import Posterior
from blts.models import (
    Bernoulli,
    Laplace,
    Poisson,
    from_functions,
    from_numpyro,
    stack,
)
from blts.models.arms import arm_count
from blts.samplers import sgld
from reward_models import NAMED, P_MIN, custom, dist, laplace_law, log_laplace, log_prior, normal_prior, row, square

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


def test_parameters_by_their_names():
    """Constrained, with any axes in front; the posterior of such a model is printed with them."""
    model = from_numpyro(
        lambda x, sd: dist.Normal(x, sd), lambda m: {"x": dist.Normal(m, 1.0), "sd": dist.LogNormal(m, 1.0)}, m=0.0
    )
    draws = np.array([[1.0, 0.0], [3.0, np.log(3.0)]], np.float32)
    found = Posterior(model, "a pool", row(np.zeros(5)), draws, draws[:, 0], Info.of(jnp.asarray(True)))
    np.testing.assert_allclose(found.parameters["x"], [1.0, 3.0])
    np.testing.assert_allclose(found.parameters["sd"], [1.0, 3.0], rtol=1e-6)
    assert "x has mean 2 and sd 1, sd has mean 2 and sd 1, the mean reward 2 and 1." in repr(found)
    arms = model.constrained(np.zeros((4, 2)))["sd"], stack(model, 2).constrained(np.zeros((3, 2, 2)))["sd"]
    assert [x.shape for x in arms] == [(4,), (3, 2)]
    with pytest.raises(ConfigError, match="mean is an option; a hyper-parameter called mean needs another name"):
        from_numpyro(laplace_law, normal_prior, mean=3.0)
    with pytest.raises(ConfigError, match=r"init must be a function; got 2.0. init is an option"):
        from_functions(log_prior, log_laplace, L=1.0, init=2.0)


def test_a_model_without_theta_of_mean_is_told_so():
    with pytest.raises(ConfigError, match=r"NumPyro has no theta_of_mean, .* theta of shape \(arms, 1\)"):
        Bandit.with_means(from_numpyro(laplace_law, normal_prior, loc=3.0), [0.0, 1.0])


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
