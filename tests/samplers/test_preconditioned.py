"""Minibatches with a control variate where coordinates differ in scale and are correlated: the data's own scale is needed."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from blts import random
from blts._typing import Row
from blts.history import Log
from blts.models import Linear
from blts.samplers import baoab, concave, potential, sgld, ulmc
from blts.samplers.chain import Chain
from blts.samplers.langevin import Langevin
from targets import refresh

N, CHAINS = 600, 4000
MIX = np.array([[6.0, 0.0, 0.0], [1.5, 1.5, 0.0], [0.5, 0.5, 1.0]])
"""Contexts x = MIX ξ: the precision of θ has a condition number of about 60."""
NARROW = np.diag([1.9, 0.4, 0.1])
"""Contexts narrower than 1, which is what `information` takes them for."""


def drawn(mix):
    """A model of one arm, its log, and mean and covariance of the exact posterior."""
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(N, 3)) @ mix.T).astype(np.float32)
    y = (X @ [0.5, -1.0, 1.0] + rng.normal(size=N)).astype(np.float32)
    log = Log(
        Row(jnp.asarray(X), jnp.zeros(N, int), jnp.asarray(y), ()), jnp.arange(N), jnp.full(1, N), jnp.asarray(0), jnp.asarray(N)
    )
    precision = np.eye(3) + X.T.astype(float) @ X
    covariance = np.linalg.inv(precision)
    model = jax.tree.map(lambda x: jnp.asarray(x, float)[None], Linear(prior_mean=[0.0, 0.0, 0.0]))
    return model, log, covariance @ X.T.astype(float) @ y, covariance


@pytest.fixture(scope="module")
def problem():
    return drawn(MIX)


def whitened_ends(chain, problem) -> np.ndarray:
    """Ends of chains that start at N(mean + 1 sd, 2 covariance), in coordinates in which the posterior is N(0, I)."""
    model, log, mean, covariance = problem
    root = np.linalg.cholesky(covariance)
    start = mean + (1 + np.sqrt(2) * np.random.default_rng(1).normal(size=(CHAINS, 3))) @ root.T
    run = jax.jit(lambda key, theta: refresh(chain, key, model, theta, log)[0])
    ends = np.asarray(run(random.key(0), jnp.asarray(start[None], float)), float)[0]
    return np.linalg.solve(root, (ends - mean).T).T


def is_posterior(z: np.ndarray) -> bool:
    """Whether mean and covariance are those of N(0, I), up to chance and a bias of a few per cent."""
    return bool(np.all(np.abs(z.mean(0)) < 0.08) and np.all(np.abs(np.cov(z.T) - np.eye(3)) < 0.12))


CHAINS_RIGHT = {
    "sgld, data": sgld(0.1, 60, 32, control_variate=True, scale="data"),
    "sgld, mode": sgld(0.1, 60, 32, control_variate=True, scale="mode"),
    "baoab, data": baoab(0.8, 20, 32, control_variate=True, scale="data"),
    "baoab, mode": baoab(0.8, 20, 32, control_variate=True, scale="mode"),
    "ulmc, mode": ulmc(0.1, 120, 32, control_variate=True, scale="mode"),
}
CHAINS_WRONG = {
    "the information of unit contexts": sgld(0.1, 60, 32, control_variate=True),
    "no control variate": sgld(0.1, 60, 32, scale="mode"),
    "BAOAB without a control variate": baoab(0.8, 20, 32, scale="mode"),
    "too few steps": baoab(0.8, 1, 32, control_variate=True, scale="data"),
}


@pytest.mark.parametrize("name", CHAINS_RIGHT)
def test_a_preconditioned_chain_with_a_control_variate_is_near_the_posterior(name, problem):
    assert is_posterior(whitened_ends(CHAINS_RIGHT[name], problem))


@pytest.mark.parametrize("name", CHAINS_WRONG)
def test_without_either_it_is_not(name, problem):
    assert not is_posterior(whitened_ends(CHAINS_WRONG[name], problem))


def test_the_anchor_is_found_with_the_datas_own_scale(problem):
    """Scoring with the information of unit contexts (the mutant) goes away from the mode."""
    model, log, mean, covariance = problem
    single, one = jax.tree.map(lambda x: x[0], model), jnp.ones(3)
    rows = potential.Rows(log.rows, jnp.asarray(0), jnp.asarray(N), jnp.asarray(N))

    def found(newton):
        return np.asarray(jax.jit(lambda x: Chain(Langevin())._mode(single, rows, one, newton, x))(jnp.zeros(3)))

    np.testing.assert_allclose(found(lambda x, g: jnp.asarray(covariance, float) @ g), mean, atol=1e-3)
    assert not np.abs(found(lambda x, g: g / (1 + N))).max() < 10


@pytest.mark.parametrize("scale", ["data", "mode"])
def test_narrow_contexts_are_preconditioned(scale, monkeypatch):
    """With the information of unit contexts as the least curvature (the mutant), steps along narrow contexts are too short."""
    model, log, *exact = drawn(NARROW)
    single = jax.tree.map(lambda x: x[0], model)
    summary = jax.lax.scan(lambda summary, row: (single.add(summary, row), None), single.empty(), log.rows)[0]
    narrow = (model, jax.tree.map(lambda x: x[None], summary), *exact)
    chain = baoab(0.8, 20, scale=scale)
    assert is_posterior(whitened_ends(chain, narrow))
    monkeypatch.setattr("blts.samplers.chain.typical_information", lambda model, x: model.information(x))
    wide = lambda curvature: curvature + jnp.diag(jnp.maximum(1 - jnp.diagonal(curvature), 0.0))  # noqa: E731
    monkeypatch.setattr(concave, "whitening", lambda *a, real=concave.whitening: real(*a[:-1], wide(a[-1])))
    assert not is_posterior(whitened_ends(chain, narrow))
