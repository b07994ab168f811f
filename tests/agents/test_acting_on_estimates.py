"""Agents that act on estimates: LinUCB, greedy, ε-greedy, SquareCB; tempered and Laplace beliefs; availability."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from blts import (
    UCB,
    UCB1,
    Context,
    Contextual,
    EpsilonGreedy,
    Exact,
    Fixed,
    GaussianContexts,
    Greedy,
    LaplaceApproximation,
    Linear,
    Model,
    Played,
    Pool,
    Row,
    SquareCB,
    SuccessiveElimination,
    Tempered,
    Thompson,
    Uniform,
    array,
    mala,
    random,
    simulate,
)
from blts.declared import provides
from blts.errors import ConfigError
from laws import LEVEL, counts_p, gaussian_p

MODEL = Linear(prior_mean=np.array([0.2, -0.1]), prior_sd=2.0, sd=0.5)
RNG = np.random.default_rng(0)
N = 24
CONTEXTS, ARMS, REWARDS = RNG.normal(size=(N, 2)), RNG.integers(0, 3, N), RNG.normal(size=N)
NOW = np.array([0.7, -1.2])
OF_ARMS = RNG.normal(size=(3, 2))
MASK = np.array([True, False, True])


class Logistic(Model):
    """Rewards 0 or 1 with the log-odds x·θ, prior N(0, I)."""

    scale: float = array(default=1.0)
    dim = 2
    contextual = True
    support = "binary"

    def init(self, key):
        return self.scale * random.normal(key, (2,))

    def log_prior(self, theta):
        return -0.5 * jnp.sum(jnp.square(theta / self.scale))

    def log_likelihood(self, theta, row):
        odds = row.obs @ theta
        return row.reward * odds - jax.nn.softplus(odds)

    def mean_reward(self, theta, obs, action):
        return jax.nn.sigmoid(obs @ theta)

    def information(self, theta):
        return jnp.full(2, 0.25)

    def prior_precision(self):
        return jnp.full(2, 1 / self.scale**2)


@jax.jit
def learned(agent, contexts, actions, rewards):
    """The agent's state after some rounds."""
    row = Row(contexts[0], actions[0], rewards[0])
    history = agent.empty(jax.tree.map(jnp.zeros_like, row), N)
    add = lambda h, r: (agent.remember(h, Row(*r), jnp.asarray(True)), None)  # noqa: E731
    history, _ = jax.lax.scan(add, history, (contexts, actions, rewards))
    states = jax.tree.map(lambda x: x[None], agent.init(random.key(0)))
    states, info = agent.observe(random.split(random.key(1), 1), states, jax.tree.map(lambda x: x[None], history))
    return jax.tree.map(lambda x: x[0], states), info


def after(agent, contexts=CONTEXTS):
    contexts = jax.tree.map(lambda x: jnp.asarray(x, float), contexts)
    return learned(agent, contexts, jnp.asarray(ARMS), jnp.asarray(REWARDS, float))[0]


def ridge(X, y, model=MODEL):
    """The posterior of a linear model, in NumPy."""
    V = np.eye(2) / model.prior_sd**2 + X.T @ X / model.sd**2
    mean = np.linalg.solve(V, model.prior_mean / model.prior_sd**2 + X.T @ y / model.sd**2)
    return mean, np.linalg.inv(V)


@jax.jit
def actions_of(agent, state, obs, played, keys):
    return jax.vmap(lambda key: agent.act(key, state, obs, played))(keys)


def frequencies(agent, state, obs, t=9, n=20_000):
    played = Played(jnp.asarray(t), jnp.zeros(3, int))
    return np.bincount(np.asarray(actions_of(agent, state, obs, played, random.split(random.key(5), n))), minlength=3)


def probabilities(agent, state, obs, t=9):
    if provides(agent, "propensities"):
        return np.asarray(agent.propensities(state, obs))
    return np.asarray(agent.propensities_at(state, obs, Played(jnp.asarray(t), jnp.zeros(3, int))))


# Estimates, against NumPy


def test_lin_ucb_with_an_own_theta_for_each_arm():
    agent = UCB(MODEL, arms=3, width=1.5)
    state, index = after(agent), []
    for a in range(3):
        mean, cov = ridge(CONTEXTS[a == ARMS], REWARDS[a == ARMS])
        index.append(NOW @ mean + 1.5 * np.sqrt(NOW @ cov @ NOW))
    mean, sd = agent.estimates(state, jnp.asarray(NOW))
    np.testing.assert_allclose(mean + 1.5 * sd, index, rtol=1e-4)
    assert probabilities(agent, state, jnp.asarray(NOW)).tolist() == np.eye(3)[np.argmax(index)].tolist()


def test_lin_ucb_with_a_shared_theta():
    agent = UCB(MODEL, arms=3, shared=True, width=2.0)
    seen = Context(arms=np.broadcast_to(OF_ARMS, (N, 3, 2)))
    state = after(agent, seen)
    mean, cov = ridge(OF_ARMS[ARMS], REWARDS)
    found, sd = agent.estimates(state, Context(arms=jnp.asarray(OF_ARMS)))
    np.testing.assert_allclose(found, OF_ARMS @ mean, rtol=1e-4)
    np.testing.assert_allclose(sd, np.sqrt(np.einsum("ad,de,ae->a", OF_ARMS, cov, OF_ARMS)), rtol=1e-4)


def test_the_laplace_approximation_of_a_linear_model_is_exact():
    exact, around = (after(Thompson(MODEL, belief, 3)) for belief in (Exact(), LaplaceApproximation()))
    np.testing.assert_allclose(around.mean, exact.mean, rtol=1e-3, atol=1e-4)
    square = lambda root: np.einsum("aij,akj->aik", root, root)  # noqa: E731
    np.testing.assert_allclose(square(around.root), square(exact.root), rtol=1e-3)


def test_the_laplace_approximation_of_a_logistic_model():
    """The mode of a published example by scipy's own optimiser to five digits, and the inverse Hessian there."""
    z = np.array([0, 0.5, 1, -1, 2, -0.5, 1.5, -2, 0.2, -1.2])
    X, y = np.stack([np.ones(10), z], 1), np.array([1, 1, 1, 0, 1, 0, 1, 0, 0, 1.0])
    agent = UCB(Logistic(), arms=1)
    state, info = learned(agent, jnp.asarray(X), jnp.zeros(10, int), jnp.asarray(y))
    assert isinstance(agent.belief, LaplaceApproximation)
    assert bool(info.finite[0])
    np.testing.assert_allclose(state.mean[0], [0.304795, 0.886244], atol=2e-5)
    p = 1 / (1 + np.exp(-X @ [0.304795, 0.886244]))
    hessian = np.eye(2) + (X * (p * (1 - p))[:, None]).T @ X
    np.testing.assert_allclose(state.root[0] @ state.root[0].T, np.linalg.inv(hessian), rtol=1e-4)


# What is played is what the propensities say


@pytest.mark.parametrize("obs", [jnp.asarray(NOW), Context(x=jnp.asarray(NOW), available=jnp.asarray(MASK))])
@pytest.mark.parametrize(
    "agent",
    [
        Greedy(MODEL, arms=3, c=2.0),
        SquareCB(MODEL, arms=3, gamma=1.0),
        Thompson(MODEL, Tempered(Exact(), 3.0), 3),
        EpsilonGreedy(3),
        Uniform(3),
    ],
)
def test_arms_are_played_with_their_propensities(agent, obs):
    state = after(agent)
    p, counts = probabilities(agent, state, obs), frequencies(agent, state, obs)
    assert np.isclose(p.sum(), 1, atol=1e-5)
    assert (counts[p == 0] == 0).all()
    assert counts_p(counts[p > 0], p[p > 0]) > LEVEL
    if isinstance(obs, Context):
        assert p[1] == counts[1] == 0
    wrong = 0.9 * p + 0.1 * np.roll(p, 1)
    assert (counts[wrong == 0] > 0).any() or counts_p(counts[wrong > 0], wrong[wrong > 0]) < LEVEL or np.allclose(wrong, p)


def test_square_cb_weights():
    """Foster & Rakhlin's formula, by hand."""
    agent = SquareCB(MODEL, arms=3, gamma=2.0)
    state = after(agent)
    mean, _ = (np.asarray(x) for x in agent.estimates(state, jnp.asarray(NOW)))
    best, wanted = mean.argmax(), 1 / (3 + 2.0 * np.sqrt(9) * (mean.max() - mean))
    wanted[best] = 1 - np.delete(wanted, best).sum()
    np.testing.assert_allclose(probabilities(agent, state, jnp.asarray(NOW)), wanted, rtol=1e-5)


@pytest.mark.parametrize("agent", [UCB1(3), SuccessiveElimination(3, 100), UCB(MODEL, arms=3), Greedy(MODEL, arms=3)])
def test_what_is_not_available_is_not_played(agent):
    state = after(agent)
    for mask in ([True, False, False], [False, True, False], [False, False, True]):
        obs = Context(x=jnp.asarray(NOW), available=jnp.asarray(mask))
        assert frequencies(agent, state, obs, n=8).tolist() == [8 * m for m in mask]
        assert probabilities(agent, state, obs).tolist() == [float(m) for m in mask]


def test_a_simulation_with_masks_is_finite():
    table = Context(x=CONTEXTS, available=RNG.random((N, 3)) < 0.5)
    table = table._replace(available=table.available | (np.arange(3) == ARMS[:, None]))
    env = Contextual(MODEL, table, arms=3)
    for agent in (Thompson(MODEL, arms=3), EpsilonGreedy(3)):
        trace = simulate(0, env, agent, Fixed(5), horizon=40, replications=4)
        assert np.isfinite(trace.final_regret).all()


class Blind(Uniform):
    """The mutant: plays any arm."""

    def act(self, key, state, obs, played):
        return (random.uniform(key) * self.actions).astype(int)


def test_an_agent_that_plays_what_is_not_available_earns_nan():
    env = Contextual(MODEL, Context(x=CONTEXTS, available=np.eye(3, dtype=bool)[ARMS]), arms=3)
    assert np.isfinite(simulate(0, env, Uniform(3), Fixed(5), horizon=40, replications=2).final_regret).all()
    assert np.isnan(simulate(0, env, Blind(3), Fixed(5), horizon=40, replications=2).final_regret).all()


# Temperature


def test_a_temperature_multiplies_the_covariance():
    agent = Thompson(MODEL, Tempered(Exact(), 4.0), 3)
    state = after(agent)
    mean, cov = ridge(CONTEXTS[ARMS == 1], REWARDS[ARMS == 1])
    draws = np.asarray(jax.vmap(lambda key: agent.belief.draw(key, agent.model, state))(random.split(random.key(0), 20_000)))
    along = draws[:, 1] @ NOW
    assert gaussian_p(along, NOW @ mean, 2 * np.sqrt(NOW @ cov @ NOW)) > LEVEL
    assert gaussian_p(along, NOW @ mean, 4 * np.sqrt(NOW @ cov @ NOW)) < LEVEL  # the mutant multiplies the sd
    assert "at temperature 4" in str(agent)
    one = Thompson(MODEL, Tempered(Exact(), 1.0), 3)
    plain = Thompson(MODEL, Exact(), 3)
    args = random.key(3), state, jnp.asarray(NOW), Played(jnp.asarray(1), jnp.zeros(3, int))
    np.testing.assert_allclose(one.propensities(*args[1:3]), plain.propensities(*args[1:3]), atol=1e-6)
    assert not one.holds_posterior
    assert plain.holds_posterior


# What is refused


class LessCosts(UCB):
    """What draws are worth is of no use to an agent that does not draw."""

    def mean_rewards(self, theta, obs):
        return super().mean_rewards(theta, obs) - jnp.array([0.0, 10.0, 20.0])


def test_wrong_agents_are_refused_in_a_sentence():
    pool = Pool(mala(), 4)
    for build, words in (
        (lambda: UCB(MODEL, pool, arms=3), "needs a belief with a normal distribution of θ, and Pool has none"),
        (lambda: Thompson(MODEL, Tempered(pool), 3), "needs a belief with a normal distribution of θ, and Pool has none"),
        (lambda: LessCosts(MODEL, arms=3), "LessCosts does not use mean_rewards; override estimates"),
        (lambda: UCB(MODEL, arms=3, width=-1.0), "width must be ≥ 0"),
        (lambda: Greedy(MODEL, arms=3, c=np.inf), "c must be ≥ 0 and finite"),
        (lambda: SquareCB(MODEL, arms=3, gamma=0.0), "gamma must be > 0"),
        (lambda: Tempered(Exact(), 0.0), "temperature must be > 0"),
        (lambda: Tempered("exact"), "must be an object such as"),
        (lambda: UCB(Linear(prior_mean=[0.0], alpha=[[1.0], [2.0]])), "needs a belief with a normal distribution"),
    ):
        with pytest.raises(ConfigError, match=words):
            build()


def test_they_print():
    assert str(UCB(MODEL, arms=3, width=2.0)).startswith("UCB, mean + 2 sd, on the exact posterior.")
    assert str(Greedy(MODEL, arms=3)).startswith("Greedy play, on the exact posterior.")
    assert str(Greedy(MODEL, arms=3, c=1.0)).startswith("Decaying ε-greedy, ε = min(1, 3/t), on")
    assert str(SquareCB(MODEL, arms=3, shared=True)).startswith("SquareCB, γ = 10·√t with one θ for 3 arms, on")
    assert "the Laplace approximation" in str(UCB(Logistic(), arms=3))
    assert GaussianContexts([1.0]).arms is None
