"""What every dynamics must do."""

from __future__ import annotations

import pickle
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from blts import _random, random
from blts._module import from_json, to_json
from blts.dynamics import (
    Admission,
    Dynamics,
    Inventory,
    LinearQuadratic,
    LogitRiverSwim,
    LostSales,
    Recommender,
    Replacement,
    Transitions,
    from_probabilities,
    recommender,
)
from blts.errors import ConfigError
from laws import LEVEL, counts_p
from worlds import FAR, best_of_all, by_name, solved

# Contracts


@by_name
def test_contract(dynamics):
    assert isinstance(dynamics, Dynamics)
    assert dynamics.has_summary
    assert dynamics.true.shape == (dynamics.dim,) == dynamics.init(random.key(0)).shape
    assert dynamics.information(dynamics.true).shape == (dynamics.dim,) == dynamics.prior_precision().shape
    assert str(dynamics).endswith(".")
    for copy in (pickle.loads(pickle.dumps(dynamics)), from_json(to_json(dynamics))):
        assert type(copy) is type(dynamics)
        assert float(copy.gain(copy.true)) == float(dynamics.gain(dynamics.true))
    arm = Transitions(dynamics)
    assert pickle.loads(pickle.dumps(arm)).has_summary
    assert from_json(to_json(arm)).has_summary
    obs = dynamics.start()
    action = dynamics.act(dynamics.plan(dynamics.true), obs)
    next_obs, reward = dynamics.sample(random.key(0), dynamics.true, obs, action)
    like = lambda x: jax.tree.map(lambda leaf: (jnp.shape(leaf), jnp.result_type(leaf)), x)  # noqa: E731
    assert like(next_obs) == like(obs)
    assert like(reward) == ((), jnp.result_type(float))


def ladder(theta, state, action):
    up = jax.nn.sigmoid(theta[0] + theta[1] * action)
    at = lambda s: jnp.arange(4) == jnp.clip(s, 0, 3)  # noqa: E731
    return up * at(state + 1) + (1 - up) * at(state - 1)


def test_from_probabilities():
    """Rows go through a log, policy iteration finds the best of all policies, and the posterior is reached."""
    rewards = np.arange(4.0)[:, None] - np.array([0.0, 0.3])
    world = from_probabilities(ladder, rewards, [0.0, 0.0], 2.0, theta=[-0.5, 1.2])
    assert isinstance(world, Dynamics)
    assert not Transitions(world).has_summary
    _, gain, same = solved(world, world.true)
    assert float(gain) == pytest.approx(best_of_all(jax.jit(world.transitions)(world.true), rewards), abs=1e-4)
    assert float(same) == pytest.approx(float(gain), abs=1e-4)
    for x in FAR:
        assert np.isfinite(solved(world, jnp.full(2, x))[1])
    next_obs = np.asarray(jax.jit(jax.vmap(lambda k: world.sample(k, world.true, 1, 0)[0]))(_random.split(random.key(0), 20_000)))
    up = 1 / (1 + np.exp(0.5))
    assert counts_p(np.bincount(next_obs, minlength=4), [1 - up, 0, up, 0]) > LEVEL
    assert counts_p(np.bincount(next_obs, minlength=4), [0.96 - up, 0.02, up, 0.02]) < LEVEL
    with pytest.raises(ConfigError, match="sum to 1"):
        from_probabilities(lambda *_: jnp.full(4, 0.3), rewards, [0.0])
    with pytest.raises(ConfigError, match="4 states"):
        from_probabilities(lambda *_: jnp.full(3, 1 / 3), rewards, [0.0])
    with pytest.raises(ConfigError, match="2 numbers"):
        from_probabilities(ladder, rewards, [0.0, 0.0], theta=[1.0])


@by_name
def test_one_compilation_for_all_numbers(dynamics):
    traces = []

    @jax.jit
    def look(dynamics, theta):
        traces.append(1)
        return dynamics.plan(theta), dynamics.gain(theta)

    look(dynamics, dynamics.true)
    other = jax.tree.map(lambda x: np.asarray(x) * 1.0, dynamics)
    look(other, dynamics.true + 0.1)
    assert len(traces) == 1


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (partial(Recommender, np.ones((1, 1)), [1.0]), "S ≥ 2"),
        (partial(Recommender, np.eye(2), [0.0, 1.0]), "probabilities > 0"),
        (partial(Recommender, np.full((2, 2), 0.5), [0.0]), "S × S|one number"),
        (partial(recommender, phi=1.5), r"\(0, 1\)"),
        (partial(recommender, points=1), "points"),
        (partial(LinearQuadratic, a=1.2, b=0.0), "stabilised"),
        (partial(LinearQuadratic, r=0.0), "r must be > 0"),
        (partial(LinearQuadratic, prior_mean=[0.0]), "two numbers"),
        (partial(Inventory, rate=-1.0), "rate must be > 0"),
        (partial(LostSales, levels=1), "levels"),
        (partial(LostSales, price=4.0, unit_cost=4.0), "price must be above unit_cost; got 4 and 4"),
        (partial(LostSales, fixed_cost=-1.0), "fixed_cost must be ≥ 0 and finite; got -1"),
        (partial(Admission, service=0.0), "service must be > 0"),
        (partial(Replacement, theta=[1.0]), "two numbers"),
        (partial(LogitRiverSwim, length=1), "length"),
        (partial(LogitRiverSwim, stroke=[0.5, 0.5, 0.5]), "sum to 1"),
    ],
)
def test_bad_arguments_are_refused_in_a_sentence(build, words):
    with pytest.raises(ConfigError, match=words) as error:
        build()
    assert str(error.value).endswith(".")
    assert "\n" not in str(error.value)
