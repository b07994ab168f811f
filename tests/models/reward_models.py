"""Every reward model, and draws of them that several files use."""

from __future__ import annotations

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from blts._random import as_key, split
from blts._typing import Row
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
CONJUGATE = [name for name, model in NAMED.items() if model.has_posterior]


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


def square(theta, reward):
    return -0.5 * jnp.square(reward - theta[0])
