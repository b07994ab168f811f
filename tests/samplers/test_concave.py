"""Chains of contextual models: in units of the information of the rows seen, around the one mode of a log-concave posterior."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

from blts import Context, Perturb, Pool, Thompson, mala, random, ula
from blts._typing import Row
from blts.agents import propensity
from blts.history import Log
from blts.models import Linear, Logistic, PoissonRegression, stack
from blts.samplers.concave import find_mode, has_one_mode
from blts.samplers.modes import find_modes, surface_of_rows
from blts.samplers.potential import Rows

# An exact case: the posterior by quadrature in two dimensions.
Z = np.array([0, 0.5, 1, -1, 2, -0.5, 1.5, -2, 0.2, -1.2])
FEATURES = np.stack([np.ones(10), Z], 1)
REWARDS = np.array([1, 1, 1, 0, 1, 0, 1, 0, 0, 1.0])
MEAN, MODE = np.array([0.330413, 1.016527]), np.array([0.304795, 0.886244])
COVARIANCE = np.array([[0.366316, 0.017482], [0.017482, 0.351912]])
ARMS = np.array([[1, 0.3], [1, -0.7], [0.5, 1]])
BEST = np.array([0.1046, 0.0307, 0.8647])
SIZE = 160_000
"""Twelve refreshes of 40,000 chains had no bias (covariances off by -0.002 ± 0.003) and an sd of 0.009: 0.02 is 4.5 sds here."""


def log_of(X, rewards) -> Log:
    n = len(X)
    rows = Row(jnp.asarray(X, float), jnp.zeros(n, int), jnp.asarray(rewards, float), ())
    return Log(rows, jnp.arange(n), jnp.full(1, n), jnp.asarray(0), jnp.asarray(n))


def agent_of(steps: int, size: int = SIZE) -> Thompson:
    return Thompson(Logistic([0.0, 0.0]), Pool(mala(steps=steps), size), arms=3, shared=True)


@jax.jit
def refreshed(agent, key):
    """A refresh on the rows above, of one replication."""
    block = jax.tree.map(lambda x: x[None], (agent.init(key), log_of(FEATURES, REWARDS)))
    states, info = agent.observe(key[None], *block)
    return jax.tree.map(lambda x: x[0], (states, info))


def is_posterior(thetas) -> bool:
    """Whether the mean is within 0.02 posterior sds of the exact one, and the covariance within 0.02 of their products."""
    sd = np.sqrt(np.diag(COVARIANCE))
    mean = (thetas.mean(0) - MEAN) / sd
    covariance = (np.cov(thetas.T) - COVARIANCE) / np.outer(sd, sd)
    return bool(np.abs(mean).max() < 0.02 and np.abs(covariance).max() < 0.02)


@pytest.fixture(scope="module")
def pool():
    agent = agent_of(40)
    return agent, *refreshed(agent, random.key(0))


def test_a_pool_of_logistic_coefficients_has_the_moments_of_the_posterior(pool):
    agent, state, info = pool
    assert agent.belief.chain.scale == "mode"
    assert is_posterior(np.asarray(state.thetas[0], float))
    assert bool(info.sound)
    # The mutants: too few steps from the prior, and the normal approximation at the mode.
    few, _ = refreshed(agent_of(2, SIZE // 8), random.key(0))
    assert not is_posterior(np.asarray(few.thetas[0], float))
    curvature = (FEATURES.T * (p := 1 / (1 + np.exp(-FEATURES @ MODE))) * (1 - p)) @ FEATURES
    laplace = np.random.default_rng(0).multivariate_normal(MODE, np.linalg.inv(np.eye(2) + curvature), SIZE)
    assert not is_posterior(laplace)


def test_the_share_of_members_is_the_probability_that_an_arm_is_best(pool):
    """One θ for all arms; with a θ for every arm, the mutant, the probabilities are others."""
    agent, state, _ = pool
    obs = Context(arms=jnp.asarray(ARMS, float))
    np.testing.assert_allclose(agent.propensities(state, obs), BEST, atol=0.005)
    assert agent.propensities_are_exact(state, obs)
    values = jax.vmap(lambda theta: agent.mean_rewards(theta[None], obs), out_axes=1)(state.thetas[0, :1024])
    assert np.abs(np.asarray(propensity.of_values(values)) - BEST).max() > 0.02


# The mode


def surface_of(model, X, rewards, size=None):
    log = log_of(X, rewards)
    n = jnp.asarray(len(X))
    return surface_of_rows(model, Rows(log.rows, jnp.asarray(0), n, n), size)


def drawn(model, n, scale=1.0):
    X = np.random.default_rng(0).normal(size=(n, 2)) * [scale, 1.0]
    theta = jnp.asarray([0.5, -1.0])
    rewards = jax.jit(jax.vmap(lambda k, x: model.sample(k, theta, x, 0)))(random.split(random.key(1), n), jnp.asarray(X, float))
    return X, np.asarray(rewards, float)


SDS = np.array([3.0, 0.7])
MODELS = {
    "linear": Linear([0.0, 0.0], SDS, 0.5),
    "logistic": Logistic([0.0, 0.0], SDS),
    "poisson": PoissonRegression([0.0, 0.0], SDS),
    "softplus": PoissonRegression([0.0, 0.0], SDS, "softplus"),
}
LOSSES = {
    "linear": lambda r, eta: 2 * (r - eta) ** 2,
    "logistic": lambda r, eta: np.logaddexp(0, eta) - r * eta,
    "poisson": lambda r, eta: np.exp(eta) - r * eta,
    "softplus": lambda r, eta: np.logaddexp(0, eta) - r * np.log(np.logaddexp(0, eta)),
}
"""-log p of a reward in NumPy, up to a constant."""


@partial(jax.jit, static_argnames=("find", "size"))
def modes_of(find, model, X, rewards, starts, size=None):
    return find(surface_of(model, X, rewards, size), starts, model.prior_precision(), len(X))


def found(find, model, X, rewards, starts, size=None):
    """The first mode, the covariance there, and the shares of all modes."""
    modes = modes_of(find, model, jnp.asarray(X, float), jnp.asarray(rewards, float), jnp.asarray(starts, float), size)
    root = np.asarray(modes.white.root[0], float)
    np.testing.assert_allclose(np.asarray(modes.white.inverse[0]) @ root, np.eye(2), atol=1e-3)
    return np.asarray(modes.white.centre[0], float), root @ root.T, np.asarray(modes.share)


@pytest.mark.parametrize("name", MODELS)
def test_the_mode_is_found_from_anywhere(name):
    """Within a hundredth of an sd of the mode in NumPy, with the covariance of the rows seen: features of unequal scale."""
    model = MODELS[name]
    X, rewards = drawn(model, 200, 0.05)
    U = lambda x: np.sum(LOSSES[name](rewards, X @ x)) + 0.5 * np.sum((x / SDS) ** 2)  # noqa: E731
    exact = minimize(U, [0.5, -0.9], method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-10}).x
    h = 1e-3 * np.eye(2)
    second = lambda i, j: (U(exact + h[i] + h[j]) - U(exact + h[i]) - U(exact + h[j]) + U(exact)) * 1e6  # noqa: E731
    precision = np.array([[second(i, j) for j in range(2)] for i in range(2)])
    for start in (0.0, 20.0, -20.0):
        mode, covariance, share = found(find_mode, model, X, rewards, np.full((1, 2), start))
        assert (mode - exact) @ precision @ (mode - exact) < 0.012**2
        np.testing.assert_allclose(covariance @ precision, np.eye(2), atol=0.02)
        assert share.tolist() == [1.0, 0.0, 0.0]


def test_plain_newton_does_not_find_it():
    """The mutant: without taking steps back, it overshoots where the curvature is small, and does not return."""
    model = MODELS["poisson"]
    X, rewards = drawn(model, 200, 0.05)
    x = np.full(2, -20.0)
    for _ in range(40):
        mean = np.exp(np.minimum(X @ x, 80.0))
        x = x - np.linalg.solve(np.diag(SDS**-2) + (X.T * mean) @ X, X.T @ (mean - rewards) + x / SDS**2)
    mode, *_ = found(find_mode, model, X, rewards, np.full((1, 2), -20.0))
    assert not np.allclose(x, mode, atol=0.1)


def test_the_search_for_several_modes_finds_the_same_one():
    model = MODELS["logistic"]
    X, rewards = drawn(model, 200)
    starts = np.random.default_rng(2).normal(size=(4, 2))
    one, several = (found(find, model, X, rewards, starts) for find in (find_mode, find_modes))
    np.testing.assert_allclose(one[0], several[0], atol=0.005)
    assert has_one_mode(model)
    assert not has_one_mode(Linear([0.0], alpha=[1.0]))  # no contexts: its numbers are those of the search


def test_on_a_sample_the_last_steps_see_all_rows():
    model = MODELS["logistic"]
    X, rewards = drawn(model, 2000)
    whole, sampled = (found(find_mode, model, X, rewards, np.zeros((1, 2)), size) for size in (None, 256))
    alone, *_ = found(find_mode, model, X[:256], rewards[:256], np.zeros((1, 2)))  # the mutant: a part of the rows alone
    sd = np.sqrt(np.diag(whole[1]))
    assert np.abs((sampled[0] - whole[0]) / sd).max() < 0.05
    assert np.abs((alone - whole[0]) / sd).max() > 0.5


# Perturbed chain ends


@jax.jit
def perturbed(belief, model, keys, log):
    """Refreshed states of a belief about one arm, one for each key."""
    states = jax.vmap(lambda key: belief.init(key, model))(keys)
    many = jax.tree.map(lambda x: jnp.broadcast_to(x, (len(keys), *x.shape)), log)
    return belief.refresh(keys, model, states, many)[0]


def test_perturbations_have_the_covariance_of_the_rows_seen():
    """(γ (prior precision + Σ information))⁻¹; that of unit features, the mutant, is another."""
    X = np.random.default_rng(0).normal(size=(200, 2)) * [1.9, 0.06]
    model = stack(Linear([0.0, 0.0], [1.0, 2.0], 0.5), 1)
    belief = Perturb(ula(steps=20), 4.0).check_model(model)
    assert belief.chain.scale == "mode"
    single = jax.tree.map(lambda x: x[0], model)
    rows = Row(jnp.asarray(X, float), jnp.zeros(200, int), jnp.asarray(X @ [1.0, -1.0], float))
    summary = jax.lax.scan(lambda s, row: (single.add(s, row), None), single.empty(), rows)[0]
    state = perturbed(belief, model, random.split(random.key(0), 2), jax.tree.map(lambda x: x[None], summary))
    root = np.asarray(belief.spread(model, jax.tree.map(lambda x: x[0], state))[0], float)
    precision = np.diag([1.0, 0.25]) + X.T @ X / 0.25
    np.testing.assert_allclose(4 * root @ root.T @ precision, np.eye(2), atol=0.01)
    assert not np.allclose(4 * root @ root.T * (1 + 200 / 0.25), np.eye(2), atol=0.5)
