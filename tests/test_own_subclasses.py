"""Subclasses that a user would write: what they override is used, and what rested on it is refused or lost."""

from __future__ import annotations

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from blts import _random, leap, posterior, simulate
from blts._typing import Played, Row
from blts.agents import UCB1, BayesUCB, Exact, Perturb, Pool, Thompson
from blts.batching import DoublingCounts, Fixed, Sequential
from blts.envs import Bandit
from blts.errors import ConfigError
from blts.live import learning, policy
from blts.models import Bernoulli, Gaussian
from blts.samplers import mala, sgld, ula
from overridden import BELIEFS, HORIZON, PLAIN, Parts, spied, trace_stepping

# What a user would write


class TopTwo(Thompson):
    """Plays the runner-up of a draw half of the time (Russo 2016)."""

    def act(self, key, state, obs, played):
        first, second, coin = _random.split(key, 3)
        best = super().act(first, state, obs, played)
        values = self.mean_rewards(self.belief.draw(second, self.model, state), obs)
        challenger = jnp.argmax(jnp.where(jnp.arange(self.actions) == best, -jnp.inf, values))
        return jnp.where(_random.uniform(coin) < 0.5, best, challenger)


class Shifted(Bandit):
    """Pays less for the better arms, which its means do not say."""

    def step(self, key, state, action):
        state, step = super().step(key, state, action)
        return state, step._replace(reward=step.reward - 2.0 * action)


class Clipped(Exact):
    """Remembers no reward above 1."""

    def remember(self, model, history, row, live):
        return super().remember(model, history, row._replace(reward=jnp.minimum(row.reward, 1.0)), live)


class Wide(Perturb):
    def spread(self, model, state):
        return 10.0 * super().spread(model, state)


class Robust(Gaussian):
    """A Gaussian location with the likelihood of a Laplace law."""

    def log_likelihood(self, theta, row):
        return -jnp.abs(row.reward - theta[0])


class Hasty(DoublingCounts):
    """Closes a batch after every round."""

    def step(self, state, obs, action):
        state, _ = super().step(state, obs, action)
        return state, jnp.ones((), bool)


WORLD = Bandit.with_means(PLAIN, [0.0, 0.5, 1.0])


@pytest.mark.parametrize(
    ("env", "agent", "batching", "why"),
    [
        (WORLD, TopTwo(PLAIN, Exact()), DoublingCounts(), "TopTwo overrides act"),
        (Shifted(WORLD.model, WORLD.theta), Thompson(PLAIN, Exact()), DoublingCounts(), "Shifted overrides step"),
        (WORLD, Thompson(PLAIN, Clipped()), DoublingCounts(), "remembers rewards in a way of its own"),
        (WORLD, Thompson(PLAIN, Exact()), Hasty(), "Hasty overrides step"),
    ],
)
def test_an_override_steps_and_says_why_it_does_not_leap(env, agent, batching, why):
    settings = {"horizon": 10**7, "points": 100, "keep_actions": False}
    assert leap.choose("auto", env, agent, batching, **settings) == "step"
    with pytest.raises(ConfigError, match=why):
        leap.choose("leap", env, agent, batching, **settings)


def test_changed_densities_lose_the_exact_posterior_and_ask_for_what_rests_on_them():
    with pytest.raises(ConfigError, match=r"Robust overrides log_likelihood, .* The same holds for information"):
        Thompson(Robust(prior_mean=[0.0, 1.0]), Perturb(sgld()))

    class Complete(Robust):
        def mean_reward(self, theta, obs, action):
            return theta[0]

        def information(self, theta):
            return jnp.ones(1)

    model = Complete(prior_mean=[0.0, 1.0])
    assert "outside the paper's theory: " in str(model)
    with pytest.raises(ConfigError, match="overrides log_likelihood"):
        Thompson(model, Exact())
    with pytest.raises(ConfigError, match="cannot draw rewards; Robust overrides log_likelihood"):
        Bandit(model)
    assert ula().needs_log(model)  # the Gaussian's sums no longer give this likelihood
    assert Thompson(model, Perturb(ula())).actions == 2


def test_a_belief_of_ones_own_stays_what_it_is():
    """Perturb and Pool were built anew for a model, as the plain classes."""
    agent = Thompson(PLAIN, Wide(sgld("theorem", 5, "theorem")))
    assert type(agent.belief) is Wide
    assert type(Thompson(PLAIN, type("MyPool", (Pool,), {})(mala(), 8)).belief).__name__ == "MyPool"


def test_an_override_of_the_mean_reward_is_drawn_and_not_read_off_the_marginal():
    class Priced(Bernoulli):
        def mean_reward(self, theta, obs, action):
            return jnp.asarray([10.0, 1.0])[action] * jax.nn.sigmoid(theta[0])

    agent = Thompson(Priced(), Exact(), 2)
    state = agent.init(_random.as_key(0))
    p = np.asarray(agent.propensities(state))
    assert agent.laws(state) is None
    assert p[0] == pytest.approx(0.95, abs=0.02)  # P(10 U > V) = 1 - 1/20
    with pytest.raises(ConfigError, match="has no closed one"):
        BayesUCB(Priced(), 100, arms=2)


def test_a_scheme_that_closes_more_batches_keeps_all_their_ends():
    trace = simulate(0, WORLD, UCB1(3), Hasty(), horizon=30, replications=2)
    assert (trace.ends == np.arange(1, 31)).all()

    class Wrong(Hasty):
        def max_batches(self, horizon, actions):
            return 5

    with pytest.raises(ConfigError, match=r"Wrong closed 30 batches, and its max_batches\(\) returns 5"):
        simulate(0, WORLD, UCB1(3), Wrong(), horizon=30, replications=2)


@pytest.mark.parametrize("engine", ["step", "leap"])
def test_a_bound_on_batches_that_falls_with_the_horizon_is_refused(engine):
    class Falling(Sequential):
        def max_batches(self, horizon, actions):
            return 60 - horizon

    agent = Thompson(PLAIN, Exact(), 3)
    with pytest.raises(ConfigError, match=r"Falling closed 30 batches.* 30 for 30 rounds but less for more"):
        simulate(0, WORLD, agent, Falling(), horizon=30, replications=2, engine=engine)
    trace = simulate(0, WORLD, agent, Falling(), horizon=20, replications=2, engine=engine)  # 20 is the size of a program
    assert (trace.ends == np.arange(1, 21)).all()


def test_randomised_indices_have_no_propensities_of_zero_and_one():
    class Jittered(UCB1):
        def act(self, key, state, obs, played):
            return (_random.uniform(key) * self.actions).astype(int)

    with pytest.raises(ConfigError, match="Jittered overrides act"):
        policy.check_agent(Jittered(3), "jittered")
    policy.check_agent(UCB1(3), "ucb1")


def test_a_live_refresh_remembers_as_the_belief_does():
    class Halved(Perturb):
        def remember(self, model, history, row, live):
            return super().remember(model, history, row._replace(reward=0.5 * row.reward), live)

    agent = Thompson(PLAIN, Halved(sgld()))
    data = learning.Data(np.array([0, 1, 2]), np.array([2.0, 4.0, 6.0]))
    assert np.asarray(learning.load(agent, data).rows.reward)[:3].tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("method", ["init", "empty", "remember", "refresh", "draw"])
def test_a_changed_belief_is_not_reported_as_the_posterior(method):
    for belief in BELIEFS.values():
        assert Thompson(PLAIN, belief).holds_posterior
        assert not Thompson(PLAIN, spied(belief, (method,), set())).holds_posterior


def test_the_number_of_replications_does_not_change_a_replication():
    """The engine was chosen by how many replications there were."""
    agent, batching = Thompson(PLAIN, Exact()), DoublingCounts()
    settings = {"horizon": 10**6, "times": 3}
    few, many = (simulate(0, WORLD, agent, batching, replications=n, **settings) for n in (2, 70))
    assert few.engine == many.engine == "leap"
    assert np.array_equal(few.regret, many.regret[:2])
    assert simulate(0, WORLD, agent, batching, replications=2, horizon=500).engine == "step"


class Hopeful(Exact):
    """Starts as if the first arm were far better."""

    def init(self, key, model):
        law = super().init(key, model)
        return dataclasses.replace(law, mean=law.mean + jnp.asarray([100.0, 0.0, 0.0]))


class Sure(Gaussian):
    """Says another law of its mean reward than it draws."""

    def marginal(self, summary, obs, action):
        law = super().marginal(summary, obs, action)
        return dataclasses.replace(law, sd=30.0 * law.sd)


class Narrow(Perturb):
    def moments(self, model, state, obs):
        mean, sd = super().moments(model, state, obs)
        return mean, 0.01 * sd


class Elsewhere(Gaussian):
    def prior_mean_reward(self, obs, action):
        return self.prior_mean + 50.0, self.prior_sd


class OtherMembers(Pool):
    def members(self, state):
        return state.thetas + jnp.asarray([100.0, 0.0, 0.0])[:, None, None]


class OtherValues(Pool):
    def values(self, model, thetas, obs):
        return -super().values(model, thetas, obs)


@pytest.mark.parametrize("agent", [Thompson(PLAIN, Hopeful()), type("Bold", (Thompson,), {"init": Thompson.init})(PLAIN, Exact())])
def test_leaping_does_not_drop_a_beginning_of_ones_own(agent):
    """A leap learned from nothing first, and so forgot what `init` gave."""
    with pytest.raises(ConfigError, match="overrides init"):
        leap.choose("leap", WORLD, agent, Fixed(100), horizon=10**6, points=3, keep_actions=False)


def test_a_law_that_is_not_that_of_the_draws_is_not_used():
    with pytest.raises(ConfigError, match=r"Sure overrides marginal, on which Gaussian\.draw rests"):
        Thompson(Sure(prior_mean=[0.0, 1.0]), Exact())
    state = Thompson(PLAIN, Perturb(ula())).init(_random.as_key(0))
    assert Thompson(PLAIN, Narrow(ula())).laws(state) is None
    assert Thompson(Elsewhere(prior_mean=[0.0, 0.5, 1.0]), Perturb(ula())).laws(state) is None
    pool = Thompson(PLAIN, Pool(mala(), 64))
    state = pool.init(_random.as_key(0))._replace(n=jnp.full(3, 5))
    exact = np.asarray(pool.propensities(state))
    for belief in (OtherMembers(mala(), 64), OtherValues(mala(), 64)):
        agent = Thompson(PLAIN, belief)
        assert not agent.propensities_are_exact(state)
        assert np.asarray(agent.propensities(state)) == pytest.approx(exact, abs=0.04)  # of what is really drawn


def test_a_dimension_that_init_does_not_draw_is_refused():
    class Two(Gaussian):
        dim = 2

    with pytest.raises(ConfigError, match=r"Two has dim = 2, and its init draws θ of shape \(1,\); override both or neither"):
        posterior(Two(), [1.0, 2.0])
    with pytest.raises(ConfigError, match="Thompson: Two has dim = 2"):
        Thompson(Two(), arms=2)


def test_hooks_of_doubling_are_seen():
    class Ten(DoublingCounts):
        def _after(self, state, counts):
            return super()._after(state, counts)

    assert "Ten overrides _after" in (leap.obstacle(WORLD, Thompson(PLAIN, Exact()), Ten(), HORIZON, False) or "")


def test_mean_rewards_that_are_no_numbers_are_refused():
    class Vector(Gaussian):
        def mean_reward(self, theta, context, action):
            return theta

    with pytest.raises(ConfigError, match=r"mean_reward of Vector has the shape \(1,\); it must return one number"):
        Thompson(Vector())


def test_numbers_that_are_not_finite_are_told_by_exact_agents():
    class Broken(Bandit):
        def step(self, key, state, action):
            state, step = super().step(key, state, action)
            return state, step._replace(reward=jnp.where(_random.uniform(key) < 0.05, jnp.nan, step.reward))

    broken = Broken(WORLD.model, WORLD.theta)
    for agent in (Thompson(PLAIN, Exact()), BayesUCB(PLAIN, HORIZON)):
        assert any(
            "not finite" in warning for warning in simulate(0, broken, agent, Fixed(10), horizon=200, replications=5).warnings
        )
        assert simulate(0, WORLD, agent, Fixed(10), horizon=200, replications=5).warnings == []


def test_classes_of_one_name_are_two_in_json():
    from blts import from_json, to_json

    def one():
        class Mine(Exact):
            pass

        return Mine()

    def other():
        class Mine(Exact):
            pass

        return Mine()

    first, second = one(), other()
    assert type(from_json(to_json(first))) is type(first)
    assert type(from_json(to_json(second))) is type(second)


def test_a_plain_number_of_a_subclass_is_one_for_each_arm():
    class Bonus(Gaussian):
        bonus: float = 0.5

        def mean_reward(self, theta, obs, action):
            return theta[0] + self.bonus

    agent = Thompson(Bonus(prior_mean=[0.0, 1.0], bonus=2.0), Perturb(sgld()))
    assert np.asarray(agent.model.bonus).tolist() == [2.0, 2.0]


def test_a_plain_subclass_is_a_pytree_and_goes_through_json():
    from blts import from_json, to_json

    agent = TopTwo(PLAIN, Exact())
    leaves, structure = jax.tree.flatten(agent)
    assert type(jax.tree.unflatten(structure, leaves)) is TopTwo
    assert type(from_json(to_json(agent))) is TopTwo
    assert "TopTwo, changed from Thompson sampling" in str(agent)


def test_rows_and_played_are_what_agents_are_given():
    """A subclass written for one round sees the same arguments everywhere."""
    seen = []

    class Curious(Thompson):
        def act(self, key, state, obs, played):
            seen.append(played)
            return super().act(key, state, obs, played)

        def remember(self, history, row, live):
            seen.append(row)
            return super().remember(history, row, live)

    trace_stepping(Parts(model=PLAIN, agent=Curious(PLAIN, Exact())))
    kinds = {type(x) for x in seen}
    assert kinds == {Played, Row}
    assert list(itertools.islice((x.t.shape for x in seen if isinstance(x, Played)), 1)) == [()]
