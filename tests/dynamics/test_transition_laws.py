"""The law of a transition, and plans that are finite everywhere."""

from __future__ import annotations

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
    Queue,
    Recommender,
    Replacement,
    rollout,
    summary_of,
)
from blts.dynamics.poisson_demand import log_tail
from laws import LEVEL, counts_p, ks_p
from worlds import ALL, FAR, by_name, data_of

# The law of a transition


def some_row(dynamics):
    """An observation and an action where a transition says something."""
    match dynamics:
        case Recommender():
            return jnp.asarray(2), jnp.asarray(4)
        case LinearQuadratic():
            return jnp.asarray(0.7), jnp.asarray(-0.3)
        case Inventory() | LostSales():
            return jnp.asarray(1), jnp.asarray(5)
        case Admission():
            return Queue(jnp.asarray(2), jnp.asarray(True), jnp.asarray(0.0)), jnp.asarray(1)
        case Replacement():
            return jnp.asarray(6), jnp.asarray(0)
        case _:
            return jnp.asarray(3), jnp.asarray(1)


def outcomes(dynamics, obs, action) -> np.ndarray:
    """All next states that can follow."""
    match dynamics:
        case Recommender():
            return np.arange(dynamics.states)
        case Inventory():
            return 5 - np.arange(60)
        case LostSales():
            return np.arange(6)
        case Replacement():
            return np.arange(int(obs), min(int(obs) + 2, 11)) if int(action) == 0 else np.array([0])
        case _:
            return np.unique(np.clip(int(obs) + np.array([-1, 0, 1]) if int(action) else int(obs) - np.ones(1, int), 0, 5))


@jax.jit
def _log_likelihoods(dynamics, theta, obs, action, states):
    return jax.vmap(lambda s: dynamics.log_likelihood(theta, Row(obs, action, jnp.zeros(()), s)))(states)


def probabilities(dynamics, theta, obs, action):
    states = outcomes(dynamics, obs, action)
    return states, np.exp(np.asarray(_log_likelihoods(dynamics, theta, obs, action, jnp.asarray(states))))


FINITE = [d for d in ALL if not isinstance(d, LinearQuadratic | Admission)]


@pytest.mark.parametrize("dynamics", FINITE, ids=lambda d: type(d).__name__)
def test_probabilities_sum_to_one(dynamics):
    for seed in range(5):
        theta = dynamics.true + 0.3 * (seed - 2)
        obs, action = some_row(dynamics)
        assert probabilities(dynamics, theta, obs, action)[1].sum() == pytest.approx(1, abs=3e-5)
    if isinstance(dynamics, LogitRiverSwim):
        for s, a in np.ndindex(6, 2):
            assert probabilities(dynamics, theta, jnp.asarray(s), jnp.asarray(a))[1].sum() == pytest.approx(1, abs=3e-5)


def test_densities_integrate_to_one():
    lq, desk = LinearQuadratic(), Admission()
    x = jnp.linspace(-9, 9, 4001)
    obs, action = some_row(lq)
    density = jnp.exp(jax.vmap(lambda y: lq.log_likelihood(lq.true, Row(obs, action, 0.0, y)))(x))
    assert float(jnp.trapezoid(density, x)) == pytest.approx(1, abs=1e-4)
    t = jnp.linspace(0, 20, 20001)
    of = lambda arrived: jax.vmap(  # noqa: E731
        lambda t: desk.log_likelihood(desk.true, Row(obs, action, 0.0, Queue(jnp.asarray(0), jnp.asarray(arrived), t)))
    )(t)
    assert float(jnp.trapezoid(jnp.exp(of(True)) + jnp.exp(of(False)), t)) == pytest.approx(1, abs=1e-4)


def drawn(dynamics, theta, n=20_000, key=0):
    obs, action = some_row(dynamics)
    keys = _random.split(random.key(key), n)
    return jax.jit(jax.vmap(lambda k: dynamics.sample(k, theta, obs, action)))(keys)


@pytest.mark.parametrize("dynamics", FINITE, ids=lambda d: type(d).__name__)
def test_samples_have_the_likelihood(dynamics):
    """Frequencies of next states against exp(log_likelihood); a θ that is 0.2 off must be found."""
    obs, action = some_row(dynamics)
    found = np.asarray(drawn(dynamics, dynamics.true)[0])
    fit = {}
    for shift in (0.0, 0.2):
        states, p = probabilities(dynamics, dynamics.true + shift, obs, action)
        counts = np.array([(found == s).sum() for s in states])
        assert counts.sum() == found.size
        fit[shift] = counts_p(counts, p / p.sum())
    assert fit[0.0] > LEVEL
    assert fit[0.2] < LEVEL


def test_samples_of_continuous_laws():
    lq, desk = LinearQuadratic(), Admission()
    x = np.asarray(drawn(lq, lq.true)[0])
    assert ks_p(x, stats.norm(0.9 * 0.7 - 0.5 * 0.3, 1.0).cdf) > LEVEL
    assert ks_p(x, stats.norm(0.9 * 0.7, 1.0).cdf) < LEVEL
    seen, reward = drawn(desk, desk.true)
    assert ks_p(seen.elapsed, stats.expon(scale=1 / 1.8).cdf) > LEVEL
    assert ks_p(seen.elapsed, stats.expon(scale=1.0).cdf) < LEVEL
    arrivals = [int(seen.arrived.sum()), int((~seen.arrived).sum())]
    assert counts_p(arrivals, [0.8 / 1.8, 1 / 1.8]) > LEVEL
    assert counts_p(arrivals, [0.5, 0.5]) < LEVEL
    np.testing.assert_array_equal(seen.customers, np.where(seen.arrived, 3, 1))
    np.testing.assert_allclose(reward, 6.0 * np.asarray(seen.arrived) - 2 * np.asarray(seen.elapsed), rtol=1e-5, atol=1e-5)


@by_name
def test_the_plan_earns_its_gain(dynamics):
    """A long run under the best plan, and under another one that must earn less."""
    rounds = 40_000
    run = jax.jit(lambda key, plan: rollout(key, dynamics, dynamics.true, plan, rounds).rows.reward)
    reward = np.asarray(run(random.key(1), dynamics.plan(dynamics.true)), float)
    error = reward.reshape(100, -1).mean(1).std() / 10  # means of 400 rounds are nearly independent
    assert abs(reward.mean() - float(dynamics.gain(dynamics.true))) < 4.5 * error + 1e-5
    worse = jax.tree.map(lambda x: jnp.zeros_like(x), dynamics.plan(dynamics.true))
    assert np.mean(run(random.key(1), worse)) < float(dynamics.gain(dynamics.true)) - 4.5 * error


@by_name
def test_summary_says_what_the_rows_say(dynamics):
    rows = data_of(dynamics, 64)

    @jax.jit
    def both(shift):
        theta, summary = dynamics.true + shift, summary_of(dynamics, rows)
        each = jax.vmap(lambda row: dynamics.log_likelihood(theta, row))(rows)
        return summary.rows, dynamics.log_likelihood_of(theta, summary), each.sum()

    for shift in (-1.0, 0.0, 0.7):
        n, whole, each = both(shift)
        assert int(n) == 64
        np.testing.assert_allclose(whole, each, rtol=2e-4, atol=1e-3)


def test_upper_tail_of_censored_demand():
    """Against SciPy, in value and in slope d/dlog λ = λ pmf(y - 1)/P(D ≥ y), far into both tails."""
    y, t = (x.ravel() for x in np.meshgrid(np.arange(1, 20), np.linspace(-12, 5, 35)))
    tail = lambda y, t: log_tail(y, t, 20)  # noqa: E731
    law = stats.poisson(np.exp(t))
    exact = law.logsf(y - 1)
    np.testing.assert_allclose(jax.jit(jax.vmap(tail))(y, t.astype(np.float32)), exact, rtol=2e-5, atol=2e-6)
    slope = jax.jit(jax.vmap(jax.grad(tail, 1)))(y, t.astype(np.float32))
    np.testing.assert_allclose(slope, np.exp(t + law.logpmf(y - 1) - exact), rtol=1e-3, atol=1e-4)


@by_name
def test_plans_are_finite_everywhere(dynamics):
    thetas = jnp.asarray(np.stack(np.meshgrid(*[FAR] * dynamics.dim), -1).reshape(-1, dynamics.dim), float)

    def look(theta):
        policy = dynamics.plan(theta)
        return policy, dynamics.gain(theta), dynamics.act(policy, dynamics.start())

    for leaf in jax.tree.leaves(jax.jit(jax.vmap(look))(thetas)):
        assert np.isfinite(np.asarray(leaf, float)).all()


@by_name
def test_gradients_are_finite_near_the_edge(dynamics):
    edge = (-40.0, -20.0, -5.0, 0.0, 5.0, 20.0)
    thetas = jnp.asarray(np.stack(np.meshgrid(*[edge] * dynamics.dim), -1).reshape(-1, dynamics.dim), float)
    rows = data_of(dynamics, 32)
    summary = summary_of(dynamics, rows)

    def look(theta):
        of_rows = jax.grad(lambda x: jnp.sum(jax.vmap(lambda row: dynamics.log_likelihood(x, row))(rows)))(theta)
        of_summary = jax.grad(lambda x: dynamics.log_likelihood_of(x, summary))(theta)
        return of_rows, of_summary, jax.grad(dynamics.log_prior)(theta), dynamics.information(theta)

    slopes = jax.jit(jax.vmap(look))(thetas)
    for leaf in slopes:
        assert np.isfinite(np.asarray(leaf)).all()
    assert (np.asarray(slopes[3]) > 0).all()
