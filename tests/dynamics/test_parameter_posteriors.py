"""Samplers against exact posteriors of dynamics, each with its mutant."""

from __future__ import annotations

import dataclasses
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from blts import _random, random
from blts._typing import Row
from blts.dynamics import (
    Admission,
    Inventory,
    LinearQuadratic,
    LogitRiverSwim,
    LostSales,
    Replacement,
    Transitions,
    quadrature,
    recommender,
    summary_of,
)
from blts.errors import ConfigError
from blts.history import Log
from blts.samplers import Chain, Langevin, mala, sgld, ula
from worlds import by_name, data_of

# Samplers against exact posteriors

CHAINS = 2000
BOX = {
    "Recommender": (-4.0, 7.0),
    "LinearQuadratic": ((0.3, -0.3), (1.7, 1.3)),
    "Inventory": (0.9, 1.9),
    "LostSales": (0.8, 2.0),
    "Admission": ((-1.2, -1.0), (0.8, 1.0)),
    "Replacement": ((-3.0, -4.0), (0.6, 8.0)),
    "LogitRiverSwim": ((-9.0, -5.0), (1.0, 5.0)),
}


summarised = jax.jit(summary_of)


@cache
def oracle(dynamics, n: int):
    name = type(dynamics).__name__
    return quadrature(dynamics, summarised(dynamics, data_of(dynamics, n)), *BOX[name])


def as_history(chain: Chain, model: Transitions, rows: Row):
    """What the chain remembers of the rows, by its own `empty` and `remember`."""
    packed = jax.vmap(Transitions.row)(*rows)
    first = jax.tree.map(lambda x: x[0], packed)
    empty = chain.empty(model, first, rows.reward.shape[0])  # type: ignore[arg-type]
    step = lambda history, row: (chain.remember(model, history, row, jnp.asarray(True)), None)  # noqa: E731
    return jax.lax.scan(step, empty, packed)[0]


def chain_ends(chain: Chain, dynamics, n: int, key=0, far=1.0):
    """Ends of independent chains that start around the truth."""
    model = Transitions(dynamics).stacked()
    start = dynamics.true + far * oracle(dynamics, n).sd * _random.normal(random.key(99), (CHAINS, dynamics.dim))

    @jax.jit
    def run(chain, model, start, rows):
        history = as_history(chain, model, rows)
        assert isinstance(history, Log) == chain.needs_log(model)
        block = jax.tree.map(lambda x: x[None], history)
        keys = random.key(key)[None]
        return chain.run(keys, model, start[None, None], block, jnp.full((1, 1), rows.reward.shape[0]))[0]

    return np.asarray(run(chain, model, start, data_of(dynamics, n)))[0, 0]


FAST = (LinearQuadratic(), Inventory())
SLOW = [pytest.param(d, marks=pytest.mark.slow) for d in (recommender(), LostSales(), Admission(), Replacement(), LogitRiverSwim())]
posteriors = pytest.mark.parametrize("dynamics", [*FAST, *SLOW], ids=lambda d: type(d).__name__)
STEPS = {"Replacement": 300, "LinearQuadratic": 200, "LogitRiverSwim": 300}


@posteriors
def test_mala_reaches_the_posterior(dynamics):
    steps = STEPS.get(type(dynamics).__name__, 100)
    assert oracle(dynamics, 200).distance(chain_ends(mala(0.5, steps), dynamics, 200)).max() < 0.1


@pytest.mark.parametrize("dynamics", FAST, ids=lambda d: type(d).__name__)
def test_sgld_reaches_the_posterior(dynamics):
    """With 100 rows the noise of minibatches of 32 adds less than a tenth to the variance at this step."""
    assert oracle(dynamics, 100).distance(chain_ends(sgld(0.05, 400, 32), dynamics, 100)).max() < 0.15


@pytest.mark.slow
@by_name
def test_sgld_with_a_control_variate_reaches_the_posterior(dynamics):
    steps = STEPS.get(type(dynamics).__name__, 100)
    chain = sgld(0.1, steps, 32, control_variate=True)
    assert oracle(dynamics, 200).distance(chain_ends(chain, dynamics, 200)).max() < 0.1


@pytest.mark.parametrize("dynamics", FAST[1:], ids=lambda d: type(d).__name__)
def test_a_wrong_temperature_is_found(dynamics):
    """The mutant of both tests above: twice the variance is 0.33 sd away."""
    steps = STEPS.get(type(dynamics).__name__, 100)
    hot = Chain(Langevin(0.1, temperature=2.0), steps)
    assert oracle(dynamics, 200).distance(chain_ends(hot, dynamics, 200)).max() > 0.2
    right = oracle(dynamics, 200).distance(chain_ends(ula(0.1, steps), dynamics, 200)).max()
    assert right < 0.15


def test_a_dropped_prior_is_found():
    """With few rows the prior shows."""
    shop = Inventory(a=20.0, b=10.0)
    rows = data_of(shop, 8)
    law = quadrature(shop, summarised(shop, rows), -1.0, 3.0)
    flat = quadrature(dataclasses.replace(shop, a=0.01, b=0.01), rows, -1.0, 3.0)
    draws = jax.jit(jax.vmap(lambda k: shop.draw(k, summary_of(shop, rows))))(_random.split(random.key(3), CHAINS))
    assert law.distance(draws)[0] < 0.1
    assert flat.distance(draws)[0] > 0.5


def test_quadrature_agrees_with_exact_posteriors():
    """Normal for linear-quadratic control, Gammas for rates; rows and summaries give one law."""
    lq = LinearQuadratic()
    summary = summarised(lq, data_of(lq, 200))
    mean, covariance = lq.posterior(summary)
    law = oracle(lq, 200)
    np.testing.assert_allclose(law.mean, mean, atol=2e-3 * law.sd.min())
    np.testing.assert_allclose(law.sd, np.sqrt(np.diag(covariance)), rtol=1e-3)
    np.testing.assert_allclose(law.quantile(0.9), mean + 1.2816 * law.sd, atol=5e-3 * law.sd.min())
    desk = Admission()
    shapes, rate = desk.posterior(summarised(desk, data_of(desk, 200)))
    exact = stats.loggamma(np.asarray(shapes), loc=-np.log(float(rate)))
    np.testing.assert_allclose(oracle(desk, 200).mean, exact.mean(), atol=2e-4)
    np.testing.assert_allclose(oracle(desk, 200).sd, exact.std(), rtol=2e-3)
    draws = jax.jit(jax.vmap(lambda k: desk.draw(k, summary_of(desk, data_of(desk, 200)))))(_random.split(random.key(3), CHAINS))
    assert oracle(desk, 200).distance(draws).max() < 0.1
    by_rows = quadrature(desk, data_of(desk, 200), *BOX["Admission"])
    np.testing.assert_allclose(by_rows.mean, oracle(desk, 200).mean, atol=1e-4)
    with pytest.raises(ConfigError, match="widen"):
        quadrature(Inventory(), summarised(Inventory(), data_of(Inventory(), 64)), 1.3, 1.5)
