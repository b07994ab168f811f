"""Contextual bandits as worlds: what they show, pay and count as regret, and what they refuse."""

from __future__ import annotations

import pickle
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from blts import Bandit, Context, ContextTable, Contextual, Gaussian, GaussianContexts, Linear, from_json, random, to_json
from blts.contexts import WithOffsets
from blts.envs import ConstantColumn, Wheel
from blts.errors import ConfigError
from laws import LEVEL, counts_p, gaussian_p

LINEAR = Linear(prior_mean=np.zeros(2), sd=0.5)
THETA = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 2.0]])
TABLE = np.array([[1.0, 0.2], [1.0, -0.7], [1.0, 1.5], [1.0, 0.0]])


@jax.jit
def played(env, key, actions):
    """Rounds of scripted actions: what each showed, and its step."""

    def one(carry, x):
        state, obs = carry
        action, i = x
        state, step = env.step(random.fold_in(key, i), state, action)
        return (state, step.obs), (obs, step)

    return jax.lax.scan(one, env.reset(key), (actions, jnp.arange(actions.shape[0])))[1]


def rounds(env, actions):
    return jax.tree.map(np.asarray, played(env, random.key(0), jnp.asarray(actions)))


# What is paid


def test_rewards_are_the_model_at_the_features():
    """Against NumPy: the residuals are N(0, sd²); the mutant pays at the next context."""
    n = 4000
    actions = np.arange(n) % 3
    obs, step = rounds(Contextual(LINEAR, GaussianContexts([1.0, 2.0]), THETA), actions)
    for shift, right in ((0, True), (1, False)):
        means = np.sum(np.roll(obs, -shift, 0) * THETA[actions], 1)
        assert (gaussian_p(step.reward - means, 0.0, 0.5) > LEVEL) == right


def test_regret_is_against_the_best_available_arm():
    table = Context(x=TABLE, available=np.array([[1, 1, 0], [1, 0, 1], [1, 1, 1], [0, 1, 1]], bool))
    env = Contextual(LINEAR, table, THETA)
    actions = np.arange(300) % 3
    obs, step = rounds(env, actions)
    means = obs.x @ THETA.T
    allowed = obs.available[np.arange(300), actions]
    best = np.where(obs.available, means, -np.inf).max(1)
    regret = best - means[np.arange(300), actions]
    np.testing.assert_allclose(step.regret[allowed], regret[allowed], atol=1e-5)
    assert (step.regret[allowed & (regret == 0)] == 0).all()
    assert np.isnan(step.regret[~allowed]).all()
    assert np.isnan(step.reward[~allowed]).all()
    assert np.isfinite(step.reward[allowed]).all()
    all_arms = means.max(1) - means[np.arange(300), actions]
    assert not np.allclose(step.regret[allowed], all_arms[allowed], atol=1e-5)  # the mutant counts against all arms


def test_the_best_arm_has_no_regret():
    env = Contextual(LINEAR, GaussianContexts([1.0, 2.0]), THETA)
    state, obs = jax.vmap(env.reset)(random.split(random.key(1), 500))
    step = jax.vmap(lambda key, s, a: env.step(key, s, a)[1])(
        random.split(random.key(2), 500), state, jnp.argmax(jax.vmap(env.means)(state.theta, obs), 1)
    )
    assert (np.asarray(step.regret) == 0).all()


def test_a_shared_theta_and_features_of_arms():
    arms = np.array([[[0.0], [1.0]], [[2.0], [0.5]]])  # rows, arms, dim
    env = Contextual(LINEAR, Context(x=np.array([[1.0], [3.0]]), arms=arms), theta=[2.0, -1.0], shared=True)
    assert env.actions == 2
    obs, step = rounds(env, np.arange(50) % 2)
    features = np.stack([np.broadcast_to(obs.x, (50, 1))[:, 0], obs.arms[np.arange(50), np.arange(50) % 2, 0]], 1)
    assert gaussian_p(step.reward - features @ [2.0, -1.0], 0.0, 0.5) > LEVEL
    wide = Linear(prior_mean=np.zeros(4), sd=0.5)
    offsets = Contextual(wide, np.array([[1.0], [2.0]]), theta=[1.0, 0.0, 5.0, 0.0], arms=3, shared=True, features=WithOffsets(3))
    assert offsets.means(jnp.asarray(offsets.theta).reshape(1, 4), jnp.array([2.0])).tolist() == [2.0, 7.0, 2.0]


def test_theta_is_drawn_for_each_replication():
    env = Contextual(LINEAR, GaussianContexts([1.0, 1.0]), arms=3)
    theta = np.asarray(jax.vmap(lambda key: env.reset(key)[0].theta)(random.split(random.key(0), 2000)))
    assert theta.shape == (2000, 3, 2)
    assert gaussian_p(theta.ravel(), 0.0, 1.0) > LEVEL
    assert gaussian_p(1.1 * theta.ravel(), 0.0, 1.0) < LEVEL  # the mutant
    sphere = Contextual(LINEAR, GaussianContexts([1.0, 1.0], arms=4), GaussianContexts([1.0, 1.0], unit=True), shared=True)
    drawn = np.asarray(jax.vmap(lambda key: sphere.reset(key)[0].theta)(random.split(random.key(0), 100)))
    np.testing.assert_allclose(np.linalg.norm(drawn, axis=-1), 1.0, rtol=1e-5)


# Where contexts come from


def test_rows_are_drawn_with_replacement_or_cycled():
    obs, _ = rounds(Contextual(LINEAR, TABLE, THETA), np.zeros(4000, int))
    counts = [(obs == row.astype(obs.dtype)).all(1).sum() for row in TABLE]
    assert counts_p(counts, np.full(4, 0.25)) > LEVEL
    assert counts_p(counts, [0.3, 0.25, 0.25, 0.2]) < LEVEL  # the mutant
    obs, _ = rounds(Contextual(LINEAR, ContextTable(TABLE, cycled=True), THETA), np.zeros(10, int))
    np.testing.assert_allclose(obs, TABLE[np.arange(10) % 4])


def test_contexts_of_a_function():
    env = Contextual(LINEAR, lambda key: jnp.stack([1.0, random.uniform(key)]), THETA)
    obs, _ = rounds(env, np.zeros(500, int))
    assert (obs[:, 0] == 1).all()
    assert len(np.unique(obs[:, 1])) > 490


def test_gaussian_contexts():
    keys = random.split(random.key(0), 4000)
    x = np.asarray(jax.vmap(GaussianContexts([1.9, 0.06]))(keys))
    assert min(gaussian_p(x[:, 0], 0.0, 1.9), gaussian_p(x[:, 1], 0.0, 0.06)) > LEVEL
    assert gaussian_p(x[:, 0], 0.0, 2.1) < LEVEL


@pytest.mark.parametrize("contexts", [TABLE, GaussianContexts([1.0, 1.0]), ContextTable(TABLE, cycled=True)])
def test_a_world_can_be_written_down(contexts):
    env = Contextual(LINEAR, contexts, THETA)
    first = rounds(env, np.arange(20) % 3)[1]
    for copy in (pickle.loads(pickle.dumps(env)), from_json(to_json(env))):
        assert np.array_equal(rounds(copy, np.arange(20) % 3)[1].reward, first.reward)


def test_it_prints():
    assert str(Contextual(LINEAR, GaussianContexts([1.0, 1.0]), arms=3)) == (
        "A contextual bandit of 3 arms, each with its own θ in 2 dimensions drawn from the prior for each replication. "
        "Contexts: N(0, sd²) with sd 1 (×2) in 2 dimensions."
    )


# What is refused, before any work


def bad_function(key):
    return jnp.array([1.0, jnp.nan])


def no_arm(key):
    return Context(x=jnp.ones(2), available=jnp.zeros(3, bool))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"contexts": np.arange(12.0).reshape(4, 3)}, r"a context of shape \(3,\)"),
        ({"contexts": np.zeros((0, 2))}, "has no rows"),
        ({"contexts": [[1.0, 2.0], [1.0, np.nan]]}, r"must not be NaN; .* it is at \[1, 1\]"),
        ({"contexts": Context(x=TABLE, available=np.full((4, 3), 0.3))}, "available must be True or False, or 1 or 0"),
        ({"contexts": Context(x=TABLE, available=np.full((4, 3), np.nan))}, "available must be True or False, or 1 or 0"),
        ({"contexts": Context(x=TABLE, available=[["True", "False", "True"]] * 4)}, "available must be True or False, or 1 or 0"),
        ({"contexts": [[1.0, 2.0], [1.0, np.inf]]}, "row 1, column 1 is inf"),
        ({"contexts": [1.0, 2.0]}, r"must have the shape \(rows, dim\)"),
        ({"contexts": "rows"}, "must be a function of a key, or a table"),
        ({"contexts": None}, "must be a function of a key, or a table"),
        ({"contexts": lambda: 1}, "calling it failed"),
        ({"contexts": bad_function}, "row 0, column 1 is nan"),
        ({"contexts": no_arm}, "row 0 of available has no arm"),
        ({"contexts": Context(x=TABLE, available=np.array([[1, 1, 0]] * 4))}, "arm 2 is never available"),
        ({"contexts": Context(x=TABLE, available=np.array([[1, 1, 1]] * 3 + [[0, 0, 0]]))}, "row 3 of available has no arm"),
        ({"contexts": Context(x=TABLE, available=np.ones((3, 3)))}, "the numbers of rows differ"),
        ({"contexts": Context(x=TABLE, available=np.ones((4, 2)))}, "the number of arms differs"),
        ({"theta": np.ones((3, 3))}, r"theta must have the shape \(arms, 2\)"),
        ({"theta": [[np.nan, 1.0]]}, "theta must be finite"),
        ({"theta": "random"}, "theta must be numbers"),
        ({"theta": None}, "nothing says how many arms"),
        ({"arms": 4}, "the number of arms differs"),
        ({"model": Gaussian()}, "Gaussian has no contexts; use Bandit"),
        ({"shared": True, "arms": 3, "theta": np.ones(3)}, r"theta must have the shape \(2,\)"),
        ({"shared": True, "theta": None, "model": Linear(prior_mean=np.zeros((3, 2)))}, "the model has numbers for 3 arms"),
    ],
)
def test_a_wrong_world_is_refused_in_a_sentence(arguments, words):
    with pytest.raises(ConfigError, match=words) as caught:
        Contextual(**({"model": LINEAR, "contexts": TABLE, "theta": THETA} | arguments))
    assert "\n" not in str(caught.value)


def test_constant_columns_are_warned_of():
    """One constant is an intercept; zeros and a second constant are not."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Contextual(LINEAR, TABLE, THETA)
    for values, words in (([[0.0, 1.0], [0.0, 2.0]], "column 0 of x is always 0"), ([[1.0, 2.0]] * 3, "column 0, 1 of x is all")):
        with pytest.warns(ConstantColumn, match=words):
            Contextual(LINEAR, values, THETA)


def test_a_bandit_without_contexts_has_the_defaults():
    env = Bandit.with_means(Gaussian(), [0.0, 1.0])
    assert env.shared is False
    assert env.features is None


# The wheel


def test_the_wheel():
    """Uniform on the disc; the mutant is uniform on a square. In a quadrant outside one arm pays, and nowhere else."""
    env = Wheel(0.8)
    x = np.asarray(jax.vmap(lambda key: env.reset(key)[1])(random.split(random.key(0), 4000)))
    radius, quadrant = np.linalg.norm(x, axis=1), 2 * (x[:, 0] <= 0) + (x[:, 1] <= 0)
    assert (radius <= 1).all()
    rings = np.histogram(radius, np.sqrt(np.arange(6) / 5))[0]
    assert counts_p(rings, np.full(5, 0.2)) > LEVEL
    assert counts_p(np.histogram(radius**2, np.sqrt(np.arange(6) / 5))[0], np.full(5, 0.2)) < LEVEL
    assert counts_p(np.bincount(quadrant), np.full(4, 0.25)) > LEVEL
    means = np.asarray(jax.vmap(env.means)(x))
    outside = radius > 0.8
    assert (means[:, 0] == np.float32(1.2)).all()
    assert (means[~outside][:, 1:] == 1).all()
    assert (means[outside].argmax(1) == 1 + quadrant[outside]).all()
    assert (np.sort(means[outside], 1)[:, -1] == 50).all()
    assert (np.sort(means[outside], 1)[:, -2] == np.float32(1.2)).all()
    with pytest.raises(ConfigError, match="delta must be between 0 and 1"):
        Wheel(1.0)
