"""Contextual models: priors per coordinate, likelihoods, exact posteriors, standardisation, refusals."""

from __future__ import annotations

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from blts import from_json, to_json
from blts.declared import provides
from blts.errors import ConfigError
from blts.models import (
    Gaussian,
    Linear,
    LinearUnknownVariance,
    Logistic,
    Model,
    Network,
    PoissonRegression,
    from_functions,
    from_link,
    from_numpyro,
    stack,
    standardised,
)
from laws import LEVEL, mean_p, second_moment_p
from regressions import (
    ALL,
    CONJUGATE,
    KEYS,
    NAMED,
    X,
    bernoulli_law,
    get,
    log_laplace,
    normal_priors,
    rewards_of,
    row,
    summary_of,
)

every = pytest.mark.parametrize("name", ALL)


def theta_of(name):
    return jnp.asarray(np.resize([0.4, -0.3, -0.5, 0.9, 1.2], get(name).dim))


# Contracts


@every
def test_a_contextual_model_is_a_model_that_pickles_and_prints(name):
    model = stack(get(name), 3)
    assert provides(model, Model)
    assert model.contextual
    assert model.has_posterior == (name in CONJUGATE)
    again = pickle.loads(pickle.dumps(model))
    assert repr(again) == repr(model)
    jax.tree.map(np.testing.assert_array_equal, again, model)
    assert str(model).startswith("3 arms with ")
    assert str(get(name)).startswith("One arm with ")
    if name in NAMED:
        jax.tree.map(np.testing.assert_array_equal, from_json(to_json(model)), model)


@jax.jit
def densities(model, theta, row):
    """Values, and the gradient of the likelihood, of one arm."""
    value, slope = jax.value_and_grad(model.log_likelihood)(theta, row)
    return model.log_prior(theta), value, slope, model.information(theta), model.prior_precision()


@every
def test_numbers_map_over_arms_and_another_number_compiles_nothing(name):
    model, theta = get(name), theta_of(name)
    one = densities(model, theta, row(1.0))
    each = jax.jit(jax.vmap(densities, (0, None, None)))(stack(model, 3), theta, row(1.0))
    for alone, mapped in zip(one, each, strict=True):
        np.testing.assert_allclose(mapped, np.broadcast_to(alone, np.shape(mapped)), rtol=1e-5, atol=1e-6)
        assert np.isfinite(alone).all()
    assert (np.asarray(one[3]) > 0).all()
    before = densities._cache_size()
    densities(jax.tree.map(lambda leaf: np.asarray(leaf) * 1.1, model), theta, row(1.0))
    assert densities._cache_size() <= before + 1  # NumPy's float64 and JAX's float32 leaves may differ in type


@every
def test_the_mean_reward_is_the_mean_of_rewards(name):
    model, theta = get(name), theta_of(name)
    mean = float(model.mean_reward(theta, jnp.asarray(X), 0))
    rewards = np.asarray(rewards_of(model, theta, jnp.asarray(X), KEYS))
    p = lambda mean: mean_p(rewards, mean, rewards.std())  # noqa: E731
    assert p(mean) > LEVEL
    assert p(mean + 0.1 * rewards.std()) < LEVEL  # the mutant
    with pytest.raises(ConfigError, match=r"a round needs a context of shape \(2,\); it has a context of shape \(3,\)"):
        model.mean_reward(theta, jnp.ones(3), 0)
    with pytest.raises(ConfigError, match="it has no context"):
        model.log_likelihood(theta, row(1.0)._replace(obs=()))


@every
def test_the_score_has_mean_zero_and_curvature_has_its_bounds(name):
    """At draws of the model itself, the score has mean zero: log_likelihood and sample are of one distribution."""
    model, theta = get(name), theta_of(name)
    rewards = rewards_of(model, theta, jnp.asarray(X), KEYS)
    score = jax.jit(jax.vmap(lambda r, shift: jax.grad(model.log_likelihood)(theta + shift, row(r)), (0, None)))
    p = lambda shift: min(mean_p(s, 0.0, s.std()) for s in np.asarray(score(rewards, shift)).T)  # noqa: E731
    assert p(0.0) > LEVEL
    assert p(0.3) < LEVEL  # the mutant: scores at another θ
    weight = provides(model, "row_weight")
    assert weight == ((name.startswith("Linear") and "Unknown" not in name) or name == "Logistic")
    if weight:
        bend = -jax.jit(jax.hessian(model.log_likelihood))(theta, row(1.0))
        x = np.asarray(model._x(jnp.asarray(X)))
        assert np.linalg.eigvalsh(model.row_weight() * np.outer(x, x) - bend).min() > -1e-5
    if model.log_concave:
        bends = jax.jit(jax.vmap(lambda r: -jax.hessian(model.log_likelihood)(theta, row(r))))(rewards[:200])
        assert np.linalg.eigvalsh(np.asarray(bends)).min() > -1e-4


# Priors


@every
def test_draws_are_those_of_the_log_prior(name):
    """By the score of the prior, whose mean is 0 and whose mean product with θ is the identity: Stein's identity."""
    model = get(name)
    draws = np.asarray(jax.jit(jax.vmap(model.init))(KEYS), float)

    def p(draws):
        scores = np.asarray(jax.jit(jax.vmap(jax.grad(model.log_prior)))(jnp.asarray(draws)), float)
        products = -scores * (draws - draws.mean(0)) - 1.0
        return min(mean_p(s, 0.0, s.std()) for s in (*scores.T, *products.T))

    assert p(draws) > LEVEL
    assert p(1.1 * draws) < LEVEL  # the mutant


def test_prior_scales_of_coordinates_and_arms():
    draws = lambda model: np.asarray(jax.jit(jax.vmap(model.init))(KEYS), float)  # noqa: E731
    for model in (Linear([0.0, 0.0], [2.0, 0.5]), Logistic([0.0, 0.0], [2.0, 0.5])):
        assert second_moment_p(draws(model)[:, 0], 0.0, 4.0) > LEVEL
        assert second_moment_p(draws(model)[:, 1], 0.0, 0.25) > LEVEL
        assert second_moment_p(draws(model)[:, 0], 0.0, 0.25) < LEVEL
        np.testing.assert_allclose(model.prior_precision(), [0.25, 4.0])
    forms = {
        (): Linear([[0.0, 0.0]] * 3, 2.0),
        (2,): Linear([[0.0, 0.0]] * 3, [2.0, 0.5]),
        (3, 1): Linear([0.0, 0.0], [1.0, 2.0, 3.0]),  # one for each arm
        (3, 2): Linear([0.0, 0.0], [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
    }
    for shape, model in forms.items():
        assert np.shape(model.prior_sd) == shape
        assert np.shape(stack(model, 3).prior_sd)[0] == 3
    precisions = lambda model: jax.vmap(lambda m: m.prior_precision())(stack(model, 3))  # noqa: E731
    np.testing.assert_allclose(precisions(forms[3, 1]), 1 / np.array([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]) ** 2)
    np.testing.assert_allclose(precisions(forms[2,]), 1 / np.array([[2.0, 0.5]] * 3) ** 2)
    assert "prior sd 2 (×3), sd" in str(stack(forms[()], 3))


# Exact posteriors

ROWS = np.random.default_rng(0).normal(size=(30, 2)) * [1.0, 0.3]
REWARDS = ROWS @ [0.5, -1.0] + 0.4 * np.random.default_rng(1).normal(size=30)


def normal_posterior(model):
    """Mean and covariance in NumPy."""
    Z = (ROWS - (0 if model.centre is None else model.centre)) / (1 if model.scale is None else model.scale)
    precision = np.diag(np.broadcast_to(1 / np.square(model.prior_sd), 2)) + Z.T @ Z / model.sd**2
    covariance = np.linalg.inv(precision)
    return covariance @ (model.prior_mean / np.square(model.prior_sd) + Z.T @ REWARDS / model.sd**2), covariance


@pytest.mark.parametrize("name", ["Linear", "Linear standardised"])
def test_the_normal_posterior_with_a_scale_for_each_coordinate(name):
    model = NAMED[name]
    summary = summary_of(model, jnp.asarray(ROWS, float), jnp.asarray(REWARDS, float))
    found, (mean, covariance) = jax.jit(model.normal)(summary), normal_posterior(model)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(np.asarray(found.root) @ np.asarray(found.root).T, covariance, rtol=1e-3, atol=1e-5)


def unknown_variance(model):
    """Shape and scale of the law of σ², mean of β and its covariance in units of σ², by the textbook's formulas."""
    inverse = np.diag(1 / np.square(model.prior_sd))
    precision = inverse + ROWS.T @ ROWS
    mean = np.linalg.solve(precision, inverse @ model.prior_mean + ROWS.T @ REWARDS)
    b = model.b + 0.5 * (REWARDS @ REWARDS + model.prior_mean @ inverse @ model.prior_mean - mean @ precision @ mean)
    return model.a + 15, b, mean, np.linalg.inv(precision)


def test_draws_and_marginals_of_unknown_variance():
    model = NAMED["LinearUnknownVariance"]
    summary = summary_of(model, jnp.asarray(ROWS, float), jnp.asarray(REWARDS, float))
    a, b, mean, covariance = unknown_variance(model)
    draws = np.asarray(jax.jit(jax.vmap(model.draw, (0, None)))(KEYS, summary), float)
    along = draws[:, :2] @ X
    exact = stats.t(2 * a, X @ mean, np.sqrt(b / a * X @ covariance @ X))
    variance = stats.invgamma(a, scale=b)
    assert stats.kstest(along, exact.cdf).pvalue > LEVEL
    assert stats.kstest(np.exp(2 * draws[:, 2]), variance.cdf).pvalue > LEVEL
    known = stats.norm(X @ mean, exact.std())  # the mutant: a normal distribution of the same width has thinner tails
    assert stats.kstest(np.exp(2 * draws[:, 2]), stats.invgamma(a - 2, scale=b).cdf).pvalue < LEVEL
    law = model.marginal(summary, jnp.asarray(X, float), 0)
    q = np.array([0.001, 0.3, 0.5, 0.99])
    np.testing.assert_allclose(law.cdf(jnp.asarray(exact.ppf(q), float)), q, rtol=0.01)
    assert not np.allclose(known.cdf(exact.ppf(q)), q, rtol=0.01)


@pytest.mark.parametrize("name", CONJUGATE)
def test_the_likelihood_of_a_summary_is_the_sum_over_its_rows(name):
    model, theta = NAMED[name], theta_of(name)
    summary = summary_of(model, jnp.asarray(ROWS, float), jnp.asarray(REWARDS, float))
    each = jax.jit(jax.vmap(lambda x, r: model.log_likelihood(theta, row(r, x))))(jnp.asarray(ROWS), jnp.asarray(REWARDS))
    np.testing.assert_allclose(model.log_likelihood_of(theta, summary), np.sum(each), rtol=1e-4)


# Standardisation


def test_standardisation_is_declared_and_inverted():
    table = np.random.default_rng(0).normal(size=(50, 2)) * [3.0, 0.2] + [10.0, -1.0]
    model = standardised(Logistic([0.0, 0.0]), table)
    np.testing.assert_allclose(model.centre, table.mean(0))
    assert "centre [10" in str(model).replace(f"{table.mean(0)[0]:.4g}", "10")
    theta = jnp.asarray([0.7, -0.4])
    line = model.coefficients(theta)
    for x in table[:3]:
        eta = float(line.offset + line.slopes @ x)
        np.testing.assert_allclose(model.mean_reward(theta, jnp.asarray(x), 0), 1 / (1 + np.exp(-eta)), rtol=1e-4)
    several = stack(model, 3).coefficients(jnp.broadcast_to(theta, (5, 3, 2)))
    assert several.offset.shape == (5, 3)
    np.testing.assert_allclose(several.slopes[1, 2], line.slopes)
    with pytest.warns(UserWarning, match=r"standardised: column 0 does not vary in the table, and is left as given\."):
        kept = standardised(Linear([0.0, 0.0]), np.column_stack([np.ones(5), np.arange(5.0)]))
    assert (kept.centre[0], kept.scale[0]) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: standardised(Gaussian(), [[1.0], [2.0]]), "Gaussian has no features"),
        (lambda: standardised(Linear([0.0], alpha=[1.0]), [[1.0], [2.0]]), "scale alpha instead"),
        (lambda: standardised(Linear([0.0, 0.0]), [[1.0], [2.0]]), r"two rows or more of 2 features; its shape is \(2, 1\)"),
        (lambda: standardised(Linear([0.0]), [[1.0], [np.nan]]), "entries that are not finite"),
        (lambda: standardised(Linear([0.0]), [["a"], ["b"]]), "must be numbers"),
        (lambda: Linear([0.0], alpha=[1.0], centre=[1.0]), "scale alpha itself"),
        (lambda: Linear([[0.0, 0.0]] * 2, [1.0, 2.0]), r"as many arms as coordinates of θ; give it the shape \(2, 1\)"),
        (lambda: Logistic([0.0, 0.0], [[1.0, 2.0, 3.0]]), "prior_sd has 3 numbers for 2 coordinates of θ; give one or 2"),
        (lambda: Logistic([0.0, 0.0], centre=[1.0]), "centre has 1 numbers for 2 features; give as many"),
        (lambda: Logistic([0.0, 0.0], scale=[1.0, 0.0]), "scale must be > 0"),
        (lambda: Logistic([0.0], prior_sd=-1.0), "prior_sd must be > 0"),
        (lambda: PoissonRegression([0.0], link="logit"), 'link must be "log" or "softplus"'),
        (lambda: LinearUnknownVariance([0.0], a=0.0), "a must be > 0"),
        (lambda: Network(0), "inputs must be a whole number ≥ 1"),
        (lambda: Network(2, ()), "hidden must be the width of each hidden layer"),
        (lambda: Network(2, (0,)), "a width of hidden must be a whole number ≥ 1"),
        (lambda: Network(2, scale=[1.0]), "scale has 1 numbers for 2 features"),
        (lambda: from_link(lambda r, m: 0.0, "cube", prior_mean=[0.0]), "link must be a function of η, or one of identity"),
        (lambda: from_link(lambda r: 0.0, "log", prior_mean=[0.0]), r"called as log_density\(reward, mean\)"),
        (lambda: from_link(1, "log", prior_mean=[0.0]), "log_density must be a function"),
        (lambda: from_link(lambda r, m: 0.0, "log", prior_mean=[0.0], support="odd"), "support must be one of"),
        (
            lambda: from_functions(lambda t: 0.0, log_laplace, L=1.0, features=2),
            r"arms are compared by mean_reward\(theta, context\); give mean_reward",
        ),
        (
            lambda: from_functions(lambda t: 0.0, lambda t, r: 0.0, L=1.0, features=2, mean_reward=lambda t, c: t[0]),
            r"called as log_likelihood\(theta, reward, context\)",
        ),
        (lambda: from_numpyro(bernoulli_law, normal_priors), "likelihood takes a context; give features"),
        (lambda: from_numpyro(lambda beta: None, normal_priors, features=2), "must take what a round shows as context"),
        (lambda: from_numpyro(bernoulli_law, normal_priors, features=0.5), "features must be a whole number"),
    ],
)
def test_bad_contextual_models_are_refused_in_a_sentence(build, sentence):
    with pytest.raises(ConfigError, match=sentence):
        build()


class Counted(Logistic):
    """Another density: everything that rests on it is gone."""

    def log_density(self, reward, eta):
        return reward * eta - jnp.exp(eta)


def test_what_rests_on_a_density_goes_with_it():
    model = Counted([0.0, 0.0])
    assert not any(provides(model, name) for name in ("sample", "mean_reward", "row_weight", "information"))
    assert not model.log_concave
    assert Logistic([0.0, 0.0]).log_concave
