"""Exact draws of linear arms with contexts: the posterior is updated row by row, and a mean reward is one normal per arm."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from blts import Exact, Linear, Thompson, random
from blts._typing import Row
from contextual_worlds import disjoint_agent
from laws import LEVEL, counts_p

ARMS, DIM = 3, 4


@jax.jit
def remembered(agent, rows):
    """The memory after all rows."""
    empty = agent.empty(jax.tree.map(lambda x: x[0], rows), 0)
    return jax.lax.scan(lambda history, row: (agent.remember(history, row, jnp.asarray(True)), None), empty, rows)[0]


def drawn_rows(n, scales=(1.0,) * DIM, seed=0, arms=ARMS):
    rng = np.random.default_rng(seed)
    x = (rng.normal(size=(n, DIM)) * scales).astype(np.float32)
    return Row(x, rng.integers(0, arms, n), (x @ np.arange(DIM) + rng.normal(size=n)).astype(np.float32))


def distance(state, agent, rows) -> tuple[float, float]:
    """Of mean and covariance from those of float64: in posterior sds, and relative to the covariance in the worst direction."""
    gaps, errors = [], []
    for arm in range(agent.actions):
        mine = rows.action == arm
        x, r = rows.obs[mine].astype(float), rows.reward[mine].astype(float)
        sd, prior_sd = (
            float(np.ravel(value[arm])[0]) for value in (agent.model.sd, agent.model.prior_sd)
        )  # the same for all coordinates
        V = np.eye(DIM) / prior_sd**2 + x.T @ x / sd**2
        factor = np.linalg.cholesky(V)
        mean = np.linalg.solve(V, x.T @ r / sd**2)
        gaps.append(np.abs(factor.T @ (np.asarray(state.mean[arm], float) - mean)).max())
        root = factor.T @ np.asarray(state.root[arm], float)
        errors.append(np.abs(np.linalg.eigvalsh(root @ root.T) - 1).max())
    return max(gaps), max(errors)


@pytest.mark.parametrize("scales", [(1.0,) * DIM, (1.9, 0.6, 0.19, 0.06)])
@pytest.mark.parametrize("prior_sd", [1.0, 100.0])
@pytest.mark.parametrize("n", [1, 7, 10_000])
def test_rows_one_after_another_give_the_posterior_of_float64(n, prior_sd, scales):
    agent = Thompson(Linear(prior_mean=np.zeros((ARMS, DIM)), prior_sd=prior_sd, sd=0.5), Exact())
    rows = drawn_rows(n, scales)
    gap, error = distance(remembered(agent, rows), agent, rows)
    assert error < 1e-3
    assert gap < 0.02


def test_a_wrong_noise_is_noticed():
    agent, rows = disjoint_agent(DIM, arms=ARMS), drawn_rows(10_000)
    wrong = disjoint_agent(DIM, sd=0.501, arms=ARMS)
    assert distance(remembered(agent, rows), agent, rows)[1] < 1e-3 < distance(remembered(wrong, rows), agent, rows)[1]


@pytest.mark.slow
def test_a_million_rows_in_float32():
    agent, rows = disjoint_agent(DIM, arms=ARMS), drawn_rows(10**6)
    gap, error = distance(remembered(agent, rows), agent, rows)
    print(f"10⁶ rows: mean {gap:.2g} posterior sds, covariance {error:.2g} relative")
    assert error < 1e-2
    assert gap < 0.1


def test_the_posterior_is_that_of_the_summary():
    """The model's own factorisation of all rows at once."""
    agent, rows = disjoint_agent(DIM, arms=ARMS), drawn_rows(50)
    state = remembered(agent, rows)
    for arm in range(ARMS):
        model = jax.tree.map(lambda leaf, arm=arm: leaf[arm], agent.model)
        summary = model.empty()
        for i in np.flatnonzero(rows.action == arm):
            summary = model.add(summary, jax.tree.map(lambda x, i=i: x[i], rows))
        mean, root = model.normal(summary)
        assert np.allclose(state.mean[arm], mean, atol=1e-5)
        assert np.allclose(state.root[arm] @ state.root[arm].T, root @ root.T, atol=1e-6)


# One normal per arm


@jax.jit
def actions(agent, keys, state, x):
    return jax.vmap(lambda key: agent.act(key, state, x, None))(keys)


X = jnp.array([0.5, -1.0, 0.2, 0.7])
KEYS = random.split(random.key(3), 40_000)


class Wide(Exact):
    """Draws θ from twice the posterior sds: a belief with its own `draw`."""

    def draw(self, key, model, state):
        theta = super().draw(key, model, state)
        return state.mean + 2 * (theta - state.mean)


class Opposite(Thompson):
    """Values the arms in its own way."""

    def mean_rewards(self, theta, obs):
        return -super().mean_rewards(theta, obs)


def test_actions_have_the_probabilities_of_independent_normal_draws():
    agent = disjoint_agent(DIM, arms=ARMS)
    state = remembered(agent, drawn_rows(12))
    p = np.asarray(agent.propensities(state, X))
    mean, sd = np.asarray(state.mean @ X), np.linalg.norm(np.einsum("i,aij->aj", X, state.root), axis=1)
    values = mean + sd * np.random.default_rng(0).normal(size=(400_000, ARMS))
    assert counts_p(np.bincount(values.argmax(1), minlength=ARMS), p) > LEVEL
    counts = lambda agent: np.bincount(actions(agent, KEYS, state, X), minlength=ARMS)  # noqa: E731
    assert counts_p(counts(agent), p) > LEVEL
    wide = Thompson(agent.model, Wide())
    assert counts_p(counts(wide), p) < LEVEL  # its own draw is used


def test_overriding_what_it_rests_on_ends_the_shortcut():
    agent = disjoint_agent(DIM, arms=ARMS)
    state = remembered(agent, drawn_rows(12))
    assert agent.laws(state, X) is not None
    for other in (Thompson(agent.model, Wide()), Opposite(agent.model, Exact())):
        assert other.laws(state, X) is None
    plain, opposite = (np.bincount(actions(one, KEYS, state, X), minlength=ARMS) for one in (agent, Opposite(agent.model, Exact())))
    assert plain.argmax() != opposite.argmax()

    class Curved(Linear):
        def mean_reward(self, theta, obs, action):
            return jnp.tanh(super().mean_reward(theta, obs, action))

    curved = Thompson(Curved(prior_mean=np.zeros((ARMS, DIM))), Exact())
    assert curved.laws(remembered(curved, drawn_rows(12)), X) is None

    class Doubled(Linear):
        def normal(self, summary):
            normal = super().normal(summary)
            return normal._replace(root=2 * normal.root)

    doubled, rows = Thompson(Doubled(prior_mean=np.zeros((ARMS, DIM)), sd=0.5), Exact()), drawn_rows(12)
    held, _ = doubled.observe(KEYS[:1], None, jax.tree.map(lambda x: x[None], remembered(doubled, rows)))
    assert np.allclose(
        held.root[0] @ held.root[0].mT, 4 * state.root @ state.root.mT, rtol=1e-3, atol=1e-5
    )  # refactorised, not updated
