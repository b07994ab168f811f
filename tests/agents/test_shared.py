"""One θ for all arms, features of arms, and arms that cannot be played."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from blts import ConfigError, Context, Exact, Gaussian, Linear, Perturb, Played, Pool, Row, Thompson, contexts, mala, random, ula
from blts.models.base import Normal
from laws import LEVEL, counts_p

# A normal θ in R³ and five arms whose P(best) is known from integration.
X = jnp.array([[0.03, 1.36, 1.22], [-0.51, -0.3, -0.53], [0.57, -0.06, 0.75], [-1.85, 1.57, -0.1], [0.68, -0.14, -0.38]])
MEAN = jnp.array([0.3, -0.2, 0.1])
COVARIANCE = np.array([[0.331, 0.1677, -0.0602], [0.1677, 0.413875, 0.269625], [-0.0602, 0.269625, 0.820275]])
BEST = np.array([0.316749, 0.195153, 0.159803, 0.040011, 0.288284])
DRAWS = 20_000
MODEL = Linear(prior_mean=[0.0, 0.0, 0.0])
HELD = Normal(MEAN[None], jnp.asarray(np.linalg.cholesky(COVARIANCE))[None])


class ArmByArm(Thompson):
    """A mutant that draws θ anew for every arm."""

    def act(self, key, state, obs, played):
        draw = lambda key: self.belief.draw(key, self.model, state)[0]  # noqa: E731
        thetas = jax.vmap(draw)(random.split(key, self.actions))
        return jnp.argmax(jnp.sum(obs.arms * thetas, -1))


@jax.jit
def plays(agent, state, obs):
    played = Played(jnp.asarray(1), jnp.zeros(5, int))
    actions = jax.vmap(lambda key: agent.act(key, state, obs, played))(random.split(random.key(1), DRAWS))
    return jnp.sum(actions[:, None] == jnp.arange(5), 0)


propensities = jax.jit(lambda agent, state, obs: agent.propensities(state, obs))


@pytest.mark.parametrize(("kind", "right"), [(Thompson, True), (ArmByArm, False)])
def test_one_theta_is_drawn_for_all_arms(kind, right):
    agent = kind(MODEL, Exact(), arms=5, shared=True)
    assert (counts_p(plays(agent, HELD, Context(arms=X)), BEST) > LEVEL) is right


def test_propensities_of_a_shared_theta_are_exact():
    agent = Thompson(MODEL, Exact(), arms=5, shared=True)
    np.testing.assert_allclose(propensities(agent, HELD, Context(arms=X)), BEST, atol=1e-4)
    assert agent.propensities_are_exact(HELD, Context(arms=X))


@pytest.mark.parametrize("mask", [[True] * 5, [True, False, True, True, False]])
@pytest.mark.parametrize("shared", [True, False])
def test_propensities_are_those_of_act(shared, mask):
    agent = Thompson(MODEL, Exact(), arms=5, shared=shared)
    state = HELD if shared else jax.tree.map(lambda x: jnp.repeat(x, 5, 0), HELD)
    obs = Context(arms=X, available=jnp.array(mask))
    counts, p = np.asarray(plays(agent, state, obs)), np.asarray(propensities(agent, state, obs))
    assert counts_p(counts, p) > LEVEL
    assert np.all(p[~np.array(mask)] == 0)
    assert np.all(counts[~np.array(mask)] == 0)
    # With other features the frequencies must not fit.
    assert counts_p(counts, np.asarray(propensities(agent, state, Context(arms=-X, available=jnp.array(mask))))) < LEVEL


def test_a_pool_is_asked_member_by_member():
    thetas = MEAN + random.normal(random.key(3), (256, 3)) @ HELD.root[0].T
    agent = Thompson(MODEL, Pool(mala(scale="mode"), 256), arms=5, shared=True)
    state = agent.init(random.key(0))._replace(thetas=thetas[None], n=jnp.ones(1, int))
    shares = np.bincount(np.argmax(np.asarray(thetas) @ np.asarray(X).T, 1), minlength=5) / 256
    np.testing.assert_allclose(agent.propensities(state, Context(arms=X)), shares, atol=1e-6)
    assert agent.propensities_are_exact(state, Context(arms=X))


def some_rounds(count=40):
    """Random contexts, actions and rewards."""
    keys = random.split(random.key(7), 3)
    actions = (random.uniform(keys[2], (count,)) * 3).astype(int)
    return random.normal(keys[0], (count, 2)), actions, random.normal(keys[1], (count,))


def rows_of(agent):
    """What an agent remembers of those rounds."""
    xs, actions, rewards = some_rounds()
    history = agent.empty(Row(xs[0], actions[0], rewards[0]), len(xs))
    step = lambda history, row: (agent.remember(history, row, jnp.asarray(True)), None)  # noqa: E731
    return jax.lax.scan(step, history, Row(xs, actions, rewards))[0]


def learned(agent):
    state = jax.tree.map(lambda x: x[None], (agent.init(random.key(0)), rows_of(agent)))
    return jax.tree.map(lambda x: x[0], agent.observe(random.split(random.key(1), 1), *state)[0])


def test_crossed_features_are_disjoint_arms():
    apart = learned(Thompson(Linear(prior_mean=[0.5, 0.0], sd=0.7), Exact(), arms=3))
    together = Thompson(Linear(prior_mean=[0.5, 0.0] * 3, sd=0.7), Exact(), arms=3, shared=True, features=contexts.Crossed(3))
    state = learned(together)
    np.testing.assert_allclose(state.mean[0].reshape(3, 2), apart.mean, atol=1e-5)
    covariance = state.root[0] @ state.root[0].T
    for a in range(3):
        block = slice(2 * a, 2 * a + 2)
        np.testing.assert_allclose(covariance[block, block], apart.root[a] @ apart.root[a].T, atol=1e-5)


def test_offsets_are_learned_beside_shared_features():
    agent = Thompson(Linear(prior_mean=[0.0] * 5, sd=0.7), Exact(), arms=3, shared=True, features=contexts.WithOffsets(3))
    xs, actions, rewards = (np.asarray(part, float) for part in some_rounds())
    phi = np.concatenate([xs, np.eye(3)[actions.astype(int)]], 1)
    expected = np.linalg.solve(np.eye(5) + phi.T @ phi / 0.49, phi.T @ rewards / 0.49)
    np.testing.assert_allclose(learned(agent).mean[0], expected, atol=1e-4)


def test_chains_with_contexts_draw_from_a_normal():
    agent = Thompson(Linear(prior_mean=[0.0, 0.0], sd=0.7), Perturb(ula(scale="mode")), arms=3)
    state = learned(agent)
    normal = agent.belief.normal(agent.model, state)
    obs = contexts.by_arm(contexts.features, jnp.array([0.4, -1.0]), 3)
    laws = agent.laws(state, jnp.array([0.4, -1.0]))
    np.testing.assert_allclose(laws.mean, jnp.sum(normal.mean * obs, -1), rtol=1e-5)
    np.testing.assert_allclose(laws.sd, jnp.linalg.norm(jnp.einsum("ad,ade->ae", obs, normal.root), axis=-1), rtol=1e-4)


def test_only_features_are_remembered():
    agent = Thompson(Linear(prior_mean=[0.0, 0.0, 0.0]), Perturb(ula(scale="mode")), arms=5, shared=True)
    seen = agent.seen(Row(Context(arms=X, available=jnp.ones(5, bool)), jnp.asarray(3), jnp.ones(()), Context(arms=X)))
    np.testing.assert_array_equal(seen.obs, X[3])
    assert int(seen.action) == 0
    assert seen.next_obs == ()


class ByAction(Linear):
    """Pays the number of the action beside x·θ."""

    def log_likelihood(self, theta, row):
        return super().log_likelihood(theta, row._replace(reward=row.reward - row.action))

    def mean_reward(self, theta, obs, action):
        return super().mean_reward(theta, obs, action) + action

    def information(self, theta):
        return super().information(theta)


def test_a_likelihood_that_reads_the_action_is_not_shared():
    row, belief = Row(Context(arms=X), jnp.asarray(0), jnp.ones(())), Pool(mala(scale="mode"), 8)
    with pytest.raises(ConfigError, match=r"reads row\.action"):
        Thompson(ByAction(prior_mean=[0.0, 0.0, 0.0]), belief, arms=5, shared=True).empty(row, 10)
    Thompson(ByAction(prior_mean=[0.0, 0.0, 0.0]), belief, arms=5).empty(row, 10)
    Thompson(MODEL, belief, arms=5, shared=True).empty(row, 10)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"model": Gaussian()}, "Gaussian has no contexts"),
        ({"model": Linear(prior_mean=[[0.0], [1.0]])}, "numbers for 2 arms"),
        ({"model": MODEL, "arms": None}, "give arms="),
    ],
)
def test_what_cannot_be_shared_is_refused(arguments, words):
    with pytest.raises(ConfigError, match=words):
        Thompson(**({"arms": 5, "shared": True} | arguments))


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("shown", [Context(arms=X[:4]), Context(x=X[0], available=jnp.ones(4, bool))])
def test_a_round_of_other_arms_is_refused(shared, shown):
    agent = Thompson(MODEL, Exact(), arms=5, shared=shared)
    for call in (lambda state: agent.propensities(state, shown), lambda state: agent.act(random.key(0), state, shown, None)):
        with pytest.raises(ConfigError, match="of 4 arms, and there are 5; give one entry for each"):
            call(agent.init(random.key(0)))


@pytest.mark.parametrize(("zeros", "best"), [(5, [0.2] * 5), (1, [1 / 16, *[15 / 64] * 4])])
def test_features_that_are_all_zero(zeros, best):
    """Such arms have the mean reward 0 at every θ: equally likely to be the best, and beaten by one arm above 0."""
    agent = Thompson(MODEL, Exact(), arms=5)
    obs = Context(arms=jnp.where(jnp.arange(5)[:, None] < zeros, 0.0, jnp.ones((5, 3))))
    state = agent.init(random.key(0))
    np.testing.assert_allclose(propensities(agent, state, obs), best, atol=1e-4)
    assert counts_p(np.asarray(plays(agent, state, obs)), np.array(best)) > LEVEL
