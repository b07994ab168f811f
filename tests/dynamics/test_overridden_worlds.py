"""Awkward subclasses of worlds and tables: what they override is used, or what rested on it is refused in one sentence."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from blts import envs, planning, random
from blts._module import module
from blts.agents import PSRL, UCRL2, Follow, Parameters, Rows
from blts.agents.psrl import plans_of
from blts.agents.transitions import Sampled
from blts.batching import StaticDoubling
from blts.declared import provides
from blts.dynamics import (
    Admission,
    Dynamics,
    Finite,
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
from blts.dynamics.custom import Parametric
from blts.envs import MDP, DrawnMDP, ParametricMDP, riverswim
from blts.errors import ConfigError
from blts.models import Gaussian, Tabular
from blts.problems import Problem, optimum
from blts.samplers import ExactRows, mala
from blts.simulation import simulate


def flip(theta, state, action):
    up = jax.nn.sigmoid(theta[0] + action)
    return jnp.stack([1 - up, up])


def overriding(base: type, name: str, function) -> type:
    return module(type(f"Odd{base.__name__}", (base,), {name: function, "__module__": __name__}))


def taxed(self, key, theta, obs, action):
    """The same world with every reward one lower."""
    next_obs, reward = super(type(self), self).sample(key, theta, obs, action)
    return next_obs, reward - 1.0


def sentence(error) -> None:
    text = str(error.value)
    assert text.endswith(".")
    assert "\n" not in text
    assert "overrides" in text


WORLDS = {
    "Inventory": (Inventory, ()),
    "LostSales": (LostSales, ()),
    "Admission": (Admission, ()),
    "LinearQuadratic": (LinearQuadratic, ()),
    "Replacement": (Replacement, ()),
    "LogitRiverSwim": (LogitRiverSwim, ()),
    "Recommender": (Recommender, (np.asarray(recommender(4).passive), np.asarray(recommender(4).rewards))),
    "Parametric": (Parametric, (flip, [[0.0, 0.0], [1.0, 1.0]], [0.0], 1.0, [0.25], [0.3])),
}
PLANNED = ("plan", "gain", "gain_of", "certify")


@pytest.mark.parametrize("name", WORLDS)
def test_a_world_that_moves_in_another_way_has_no_optimum(name):
    base, arguments = WORLDS[name]
    plain, odd = base(*arguments), overriding(base, "sample", taxed)(*arguments)
    assert provides(plain, Dynamics)
    assert provides(plain, "certify")
    for method in (*PLANNED, "log_likelihood", "draw", "log_likelihood_of", "table", "solve"):
        assert not hasattr(odd, method)
    with pytest.raises(ConfigError) as error:
        ParametricMDP(odd)
    sentence(error)
    with pytest.raises(ConfigError) as error:
        PSRL(odd, Parameters(mala()))
    sentence(error)
    with pytest.raises(ConfigError) as error:
        Follow.knowing(odd, ParametricMDP(plain))
    sentence(error)
    with pytest.raises(ConfigError) as error:
        Problem(ParametricMDP(plain), {"own": odd}, 10).world  # noqa: B018
    sentence(error)


@pytest.mark.parametrize("name", WORLDS)
def test_another_likelihood_has_no_summary_and_no_simulator(name):
    base, arguments = WORLDS[name]
    odd = overriding(base, "log_likelihood", lambda self, theta, row: jnp.zeros(()))(*arguments)
    assert not Transitions(odd).has_summary
    assert Transitions(base(*arguments)).has_summary == (base is not Parametric)
    for method in (*PLANNED, "sample", "information", "draw"):
        assert not hasattr(odd, method)


@pytest.mark.parametrize("name", WORLDS)
def test_other_actions_have_no_plan(name):
    base, arguments = WORLDS[name]
    odd = overriding(base, "act", lambda self, policy, obs: jnp.zeros((), int))(*arguments)
    assert not any(hasattr(odd, method) for method in ("plan", "gain_of", "certify"))
    with pytest.raises(ConfigError) as error:
        ParametricMDP(odd)
    sentence(error)


@pytest.mark.parametrize("name", WORLDS)
def test_another_plan_is_not_certified(name):
    base, arguments = WORLDS[name]
    zero = lambda self, theta: jax.tree.map(jnp.zeros_like, super(type(self), self).plan(theta))  # noqa: E731
    odd = overriding(base, "plan", zero)(*arguments)
    assert provides(odd, Dynamics)
    assert not provides(odd, "certify")
    plans, residual = plans_of(odd, odd.true[None])
    assert all(not np.asarray(x).any() for x in jax.tree.leaves(plans))
    assert np.isnan(residual)


@module
class Taxed(Inventory):
    """An override that says everything that rests on it."""

    def sample(self, key, theta, obs, action):
        next_obs, reward = super().sample(key, theta, obs, action)
        return next_obs, reward - 1.0

    def log_likelihood(self, theta, row):
        return super().log_likelihood(theta, row)

    def information(self, theta):
        return super().information(theta)

    def plan(self, theta):
        return super().plan(theta)

    def gain(self, theta):
        return super().gain(theta) - 1.0

    def gain_of(self, theta, policy):
        return super().gain_of(theta, policy) - 1.0


def test_an_override_that_says_the_rest_is_played():
    shop, plain = Taxed(), Inventory()
    run = lambda shop: simulate(  # noqa: E731
        0, ParametricMDP(shop), Follow.knowing(shop, ParametricMDP(shop)), StaticDoubling(), horizon=50, replications=20
    )
    a, b = run(shop), run(plain)
    np.testing.assert_allclose(a.mean_reward, b.mean_reward - 1.0, rtol=1e-5)
    np.testing.assert_allclose(a.regret, b.regret, atol=1e-3)
    assert not Transitions(shop).has_summary  # its likelihood may be another, so rows are kept
    found = optimum(lambda: Problem(ParametricMDP(shop), {"own": shop}, 10))
    assert found["gain"] == pytest.approx(-3.977173, abs=1e-6)
    assert found["residual"] is None  # nobody certifies it
    with pytest.raises(ConfigError, match="moves as Taxed and the model is Inventory"):
        Follow.knowing(plain, ParametricMDP(shop))


def test_a_demand_of_ones_own_is_seen():
    odd = overriding(Inventory, "_demand", lambda self, key, theta: jnp.asarray(9))()
    with pytest.raises(ConfigError, match="overrides _demand"):
        ParametricMDP(odd)


def test_finite_worlds_follow_their_probabilities():
    """What can be computed from an override is: other probabilities move the world, its likelihood and its plan."""
    up = overriding(Parametric, "probabilities", lambda self, theta, s, a: jnp.asarray([0.1, 0.9]))(*WORLDS["Parametric"][1])
    assert float(up.gain(up.true)) == pytest.approx(0.9, abs=1e-5)
    assert provides(up, Dynamics)
    stuck = overriding(Parametric, "transitions", lambda self, theta: jnp.broadcast_to(jnp.eye(2)[:, None], (2, 2, 2)))
    odd = stuck(*WORLDS["Parametric"][1])
    assert not hasattr(odd, "sample")
    with pytest.raises(ConfigError, match="overrides transitions"):
        ParametricMDP(odd)


def test_a_reward_table_does_not_shadow_the_table():
    world = from_probabilities(flip, [[0.0, 0.0], [1.0, 1.0]], [0.0])
    assert isinstance(world, Finite)
    transitions, rewards = world.table(world.true)
    np.testing.assert_allclose(rewards, world.reward_table)
    assert float(planning.solve(np.asarray(transitions, float), rewards, tolerance=1e-6).gain) == pytest.approx(0.731059, abs=1e-5)
    found = optimum(lambda: Problem(ParametricMDP(world), {"own": world}, 10))
    assert found["residual"] < 1e-6
    assert found["span"] >= 0


def test_a_subclass_of_transitions_stays_one():
    @module
    class Doubled(Transitions):
        def log_likelihood(self, theta, row):
            return 2.0 * super().log_likelihood(theta, row)

    assert type(Doubled(Inventory())) is Doubled


# Environments


@module
class Late(ParametricMDP):
    def step(self, key, state, action):
        state, step = super().step(key, state, action)
        return state, step._replace(reward=0.5 * step.reward)


@module
class Shifted(MDP):
    def step(self, key, state, action):
        place, step = super().step(key, state, action)
        return place, step._replace(reward=step.reward - 1.0)


@module
class Elsewhere(MDP):
    def reset(self, key):
        place, _ = super().reset(key)
        return place._replace(state=jnp.asarray(1)), jnp.asarray(1)


def test_an_mdp_that_steps_in_another_way_says_its_optimum():
    river = riverswim()
    for odd in (Shifted, Elsewhere):
        with pytest.raises(ConfigError, match="The optimum is not known") as error:
            odd(river.dense, river.rewards)
        sentence_or_two = str(error.value)
        assert "overrides" in sentence_or_two
        assert "give gain=" in sentence_or_two
        known = odd(river.dense, river.rewards, gain=river.gain - 1.0, best=river.best)
        assert float(known.gain) == pytest.approx(float(river.gain) - 1.0)
        problem = Problem(known, {"uniform": Tabular(river.rewards)}, 10)
        with pytest.raises(ConfigError, match="The optimum is not known"):
            optimum(lambda problem=problem: problem)
        with pytest.raises(ConfigError, match="The best policy is not known"):
            Follow.knowing(Tabular(river.rewards), known)
        with pytest.raises(ConfigError, match=f"How a {odd.__name__} is drawn"):
            problem.drawn()


def test_a_parametric_world_that_steps_in_another_way():
    shop = Inventory()
    late = Late(shop)
    with pytest.raises(ConfigError, match="Late overrides step"):
        Follow.knowing(shop, late)
    with pytest.raises(ConfigError, match="Late overrides step"):
        optimum(lambda: Problem(late, {"own": shop}, 10))
    with pytest.raises(ConfigError, match="How a Late is drawn"):
        Problem(late, {"own": shop}, 10).drawn()


def test_drawn_bandits_are_of_the_class_that_was_named():

    @module
    class Bonus(envs.Bandit):
        def step(self, key, state, action):
            state, step = super().step(key, state, action)
            return state, step._replace(reward=step.reward + 1.0)

    arm = Gaussian(sd=1.0)
    plain = Problem(envs.Bandit.with_means(arm, [0.0, 1.0]), {"own": arm}, 10)
    assert type(plain.drawn().env) is envs.Bandit
    with pytest.raises(ConfigError, match="How a Bonus is drawn"):
        plain._replace(env=Bonus(arm, np.asarray(plain.env.theta))).drawn()


def test_drawn_tables_pay_as_the_named_one():
    """The noise of the rewards was dropped."""
    river = riverswim()
    noisy = MDP(river.dense, river.rewards, law="gaussian", sd=0.5)
    drawn = Problem(noisy, {"uniform": Tabular(river.rewards)}, 10).drawn().env
    assert (drawn.law, float(drawn.sd)) == ("gaussian", 0.5)


# Tables


@module
class Myopic(Tabular):
    """Plans for the next reward only, and keeps the certificate of the best plan."""

    def plan(self, sampled, plans=None):
        found = super().plan(sampled)
        greedy = jnp.broadcast_to(jnp.argmax(sampled.rewards, -1), found.policy.shape)
        return found._replace(policy=greedy)


@module
class Lazy(Tabular):
    def act(self, plan, obs):
        return jnp.zeros((), int)


@module
class Halved(Tabular):
    def draw_rewards(self, key, summary):
        return 0.5 * super().draw_rewards(key, summary)


def sampled(n: int = 1):
    river = riverswim()
    rows = jnp.broadcast_to(jnp.asarray(river.dense), (n, 6, 2, 6))
    return Sampled(rows, jnp.broadcast_to(jnp.asarray(river.rewards), (n, 6, 2)))


def test_a_plan_of_ones_own_is_certified_for_what_it_is():
    river = riverswim()
    best, residual = plans_of(Tabular(river.rewards), sampled())
    np.testing.assert_allclose(planning.residual(*sampled(), best), residual, atol=1e-5)
    greedy, residual = plans_of(Myopic(river.rewards), sampled())
    assert greedy.policy.tolist() == [[0, 0, 0, 0, 0, 1]]
    assert float(residual[0]) > 0.4  # it stays at the left bank and earns 0.005 of 0.43
    assert np.isnan(plans_of(Lazy(river.rewards), sampled())[1])


def test_drawn_worlds_know_the_best_plan_whatever_their_model_does():
    rewards = riverswim().rewards
    places = [jax.jit(DrawnMDP(kind(rewards)).reset)(random.key(0))[0].world for kind in (Tabular, Myopic)]
    assert float(places[0].gain) == float(places[1].gain)
    np.testing.assert_array_equal(places[0].best, places[1].best)


def test_agents_that_do_not_ask_a_table_refuse_its_overrides():
    river = riverswim()
    for kind in (Myopic, Halved):
        with pytest.raises(ConfigError, match=f"{kind.__name__} overrides"):
            UCRL2(kind(river.rewards))
    for kind in (Myopic, Lazy):
        with pytest.raises(ConfigError, match=f"{kind.__name__} plans in a way of its own"):
            Follow.knowing(kind(river.rewards), river)
    agent = PSRL(Halved(river.rewards), Rows(ExactRows()))
    keys = random.split(random.key(0), 2)
    histories = jax.tree.map(lambda x: jnp.broadcast_to(x, (2, *x.shape)), agent.empty(None, 0))
    drawn, _ = jax.jit(agent.observe)(keys, jax.vmap(agent.init)(keys), histories)
    np.testing.assert_allclose(drawn.theta.rewards[0], 0.5 * river.rewards, rtol=1e-6)
