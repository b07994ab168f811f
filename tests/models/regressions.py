"""Every contextual model, for the tests of all of them."""

from __future__ import annotations

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from blts._random import as_key, split
from blts._typing import Row
from blts.models import Linear, LinearUnknownVariance, Logistic, Network, PoissonRegression, from_functions, from_link, from_numpyro

X = np.array([0.5, -1.2])
"""The features of the tests."""


# Module-level functions, so that models built from them pickle.


def log_normal_density(reward, mean):
    return -0.5 * jnp.square((reward - mean) / 0.5)


def draw_normal(key, mean):
    return mean + 0.5 * jax.random.normal(key)


def log_standard_normal(theta):
    return -0.5 * jnp.sum(jnp.square(theta))


def draw_standard_normal(key):
    return jax.random.normal(key, (2,))


def log_laplace(theta, reward, context):
    return -jnp.abs(reward - context @ theta) / 0.5


def along(theta, context):
    return context @ theta


def draw_laplace(key, theta, context):
    return context @ theta + 0.5 * jax.random.laplace(key)


def bernoulli_law(beta, context):
    return dist.Bernoulli(logits=context @ beta)


def normal_priors():
    return {"beta": dist.Normal(0.0, jnp.ones(2)).to_event(1)}


NAMED = {
    "Linear": Linear([0.3, -0.2], [2.0, 0.5], 0.7),
    "Linear standardised": Linear([0.3, -0.2], 1.5, 0.7, centre=[1.0, 0.0], scale=[2.0, 0.5]),
    "LinearUnknownVariance": LinearUnknownVariance([0.3, -0.2], [2.0, 0.5], 6.0, 3.0),
    "Logistic": Logistic([0.3, -0.2], [2.0, 0.5]),
    "PoissonRegression": PoissonRegression([0.3, -0.2], [1.0, 0.5]),
    "Network": Network(2, (3, 2), 1.5, 0.7, centre=[0.1, 0.0], scale=[2.0, 1.0]),
    "PoissonRegression softplus": PoissonRegression([0.3, -0.2], [2.0, 0.5], "softplus"),
}


@cache
def get(name):
    if name == "Regression":
        return from_link(
            log_normal_density, "softplus", prior_mean=[0.3, -0.2], prior_sd=[2.0, 0.5], sample=draw_normal, log_concave=False
        )
    if name == "Functions":
        functions = {"mean_reward": along, "init": draw_standard_normal, "sample": draw_laplace}
        return from_functions(log_standard_normal, log_laplace, L=1.0, dim=2, features=2, **functions)
    if name == "NumPyro":
        return from_numpyro(bernoulli_law, normal_priors, features=2)
    return NAMED[name]


ALL = [*NAMED, "Regression", "Functions", "NumPyro"]
CONJUGATE = ("Linear", "Linear standardised", "LinearUnknownVariance")
DRAWS = 20_000
KEYS = split(as_key(0), DRAWS)


def row(reward, x=X):
    return Row(jnp.asarray(x, float), jnp.asarray(0), jnp.asarray(reward, float))


@jax.jit
def rewards_of(model, theta, x, keys):
    return jax.vmap(lambda key: model.sample(key, theta, x, jnp.asarray(0)))(keys)


@jax.jit
def summary_of(model, X, rewards):
    return jax.lax.scan(lambda s, row: (model.add(s, row), None), model.empty(), Row(X, jnp.zeros(len(X), int), rewards))[0]
