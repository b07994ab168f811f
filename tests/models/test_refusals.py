"""Models that cannot be right are refused in a sentence."""

from __future__ import annotations

import builtins

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from blts import Bandit
from blts.errors import ConfigError
from blts.models import (
    Bernoulli,
    Exponential,
    Gamma,
    Gaussian,
    GaussianUnknownVariance,
    Laplace,
    Linear,
    LogNormal,
    Poisson,
    StudentT,
    ZeroInflatedLogNormal,
    from_functions,
    from_numpyro,
)
from reward_models import dist, laplace_law, log_laplace, log_prior, normal_prior, square

# Refusals


def standard(key):
    return jax.random.normal(key, (1,))


def by(maker, *args, **kwargs):
    return lambda: maker(*args, **kwargs)


def flat(theta):
    return 0.0 * theta[0]


def bowl(theta):
    return -0.5 * jnp.sum(theta**2)


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


def bell(theta):
    return -0.5 * theta[0] ** 2


def test_a_function_that_reads_beyond_theta_is_refused():
    """JAX gives the last coordinate for it, so that the model was another one without a word."""
    beyond = lambda theta, reward: -((reward - theta[1]) ** 2)  # noqa: E731
    with pytest.raises(ConfigError, match=r"log_likelihood reads what does not exist \(index 1 .*give dim=…"):
        from_functions(bell, beyond, L=1.0, init=standard)
    assert from_functions(bell, beyond, L=1.0, dim=2, init=lambda key: jax.random.normal(key, (2,))).dim == 2
    last = lambda theta, reward: -((reward - theta[-1]) ** 2)  # noqa: E731
    assert from_functions(bell, last, L=1.0, init=standard).dim == 1


def test_rewards_without_mean_reward_must_have_the_mean_of_theta():
    """An asymmetric Laplace law around θ: with its mean left out, regrets were those of another mean without a word."""

    def skewed(theta, reward):
        return -jnp.where(reward > theta[0], (reward - theta[0]) / 0.4, (theta[0] - reward) / 0.2)

    def drawn(up, down):
        def sample(key, theta):
            key_side, key_size = jax.random.split(key)
            size = jax.random.exponential(key_size)
            return theta[0] + jnp.where(jax.random.bernoulli(key_side, up / (up + down)), up * size, -down * size)

        return sample

    with pytest.raises(ConfigError, match=r"without mean_reward, the mean reward is θ\[0\]; at θ = .* the mean .*Give mean_reward"):
        from_functions(bell, skewed, L=10.0, init=standard, sample=drawn(0.4, 0.2))
    known = from_functions(bell, skewed, L=10.0, init=standard, sample=drawn(0.4, 0.2), mean_reward=lambda theta: theta[0] + 0.2)
    assert float(known.mean_reward(jnp.ones(1), (), 0)) == pytest.approx(1.2)
    heavy = lambda key, theta: theta[0] + jax.random.t(key, 1.5)  # a mean and no variance  # noqa: E731
    for sample in (drawn(0.3, 0.3), heavy, lambda key, theta: theta[0]):
        from_functions(bell, skewed, L=10.0, init=standard, sample=sample)


def test_a_model_that_cannot_draw_says_what_it_lacks():
    model = from_functions(bell, lambda theta, reward: -((reward - theta[0]) ** 2), L=1.0, init=standard, arms=2)
    with pytest.raises(ConfigError, match=r"from_functions\(bell, <lambda>\) cannot draw rewards; give from_functions .*sample="):
        Bandit(model)


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(ConfigError, match=r"argument 'sd'\. It takes .*scale.*; or use with_sd\(sd=…\)\."):
        Laplace(sd=0.8)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match=r"argument 'scale'\. It takes .*sd"):
        Gaussian(scale=0.8)  # type: ignore[call-arg]


def test_what_numpyro_refuses_is_one_sentence():
    with pytest.raises(ConfigError, match="from_numpyro: Normal distribution got invalid scale parameter, at a prior draw"):
        from_numpyro(lambda c: dist.Normal(c, 0.0), {"c": dist.Normal(0.0, 1.0)})
