"""MDPs: their numbers, their laws and their optima."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from blts import planning, random
from blts.agents import PSRL, UCRL2, Parameters, Rows
from blts.batching import DoubledSinceSwitch, DoublingCounts, Geometric
from blts.catalogue import condition
from blts.dynamics import Inventory, LinearQuadratic
from blts.envs import MDP, DrawnMDP, ParametricMDP, garnet, riverswim, riverswim_paper, riverswim_strehl, strens_chain
from blts.errors import ConfigError
from blts.models import Gaussian, Tabular
from blts.samplers import ExactRows, sgld
from blts.simulation import simulate
from laws import LEVEL, counts_p, mean_p

# Environments


def test_the_papers_riverswim_is_as_printed():
    P = riverswim_paper().dense
    np.testing.assert_allclose(P[0, 1], [0.2, 0.8, 0, 0, 0])
    np.testing.assert_allclose(P[2, 1], [0, 0.2, 0, 0.8, 0])
    np.testing.assert_allclose(P[4, 1], [0, 0, 0, 0.2, 0.8])
    np.testing.assert_allclose(P[0, 0], [1, 0, 0, 0, 0])
    np.testing.assert_allclose(P[3, 0], [0, 0, 0.2, 0.8, 0])
    np.testing.assert_array_equal(riverswim_paper().rewards, [[2, 2], [0, 0], [0, 0], [0, 0], [10, 10]])


def test_the_strens_chain_slips():
    P, r = strens_chain().dense, strens_chain().rewards
    np.testing.assert_allclose(P[2, 1], [0.2, 0, 0, 0.8, 0])
    np.testing.assert_allclose(P[4, 0], [0.8, 0, 0, 0, 0.2])
    np.testing.assert_allclose(r, [[1.6, 0.4], [0, 0], [0, 0], [0, 0], [10, 10]])


@pytest.mark.parametrize(
    ("env", "gain"),
    [
        (riverswim_paper(), 7.5132),
        (strens_chain(), 4.1760),
        (riverswim(5, 2.0, 10.0), 4.2893),
        (riverswim(), 0.4286),
    ],
)
def test_optima(env, gain):
    assert float(env.gain) == pytest.approx(gain, abs=5e-5)


def test_every_chain_can_be_of_any_length():
    for build in (riverswim_paper, strens_chain, riverswim, riverswim_strehl):
        for states in (2, 3, 50):
            env = build(states)
            np.testing.assert_allclose(env.dense.sum(-1), 1)
            assert env.states == states
        with pytest.raises(ConfigError, match=r"states must be a whole number ≥ 2; got 1\."):
            build(1)


def test_garnets_can_reach_every_state():
    env = garnet(states=12, actions=2, successors=2, seed=3)
    assert planning.structure(env.transitions).communicating
    assert ((env.transitions > 0).sum(-1) <= 2).all()
    assert repr(garnet(seed=1).transitions) != repr(garnet(seed=2).transitions)


def moves(env, state: int, action: int, n: int = 20_000) -> np.ndarray:
    place, _ = env.reset(random.key(0))
    place = place._replace(state=jnp.asarray(state))
    step = jax.jit(jax.vmap(lambda k: env.step(k, place, jnp.asarray(action))[1].obs))
    return np.bincount(np.asarray(step(random.split(random.key(1), n))), minlength=env.states)


@pytest.mark.parametrize("sparse", [True, False])
def test_transitions_have_their_law(sparse):
    env = riverswim() if sparse else MDP(riverswim().dense, riverswim().rewards)
    for state, action in ((0, 1), (3, 1), (5, 1), (3, 0)):
        assert counts_p(moves(env, state, action), env.dense[state, action]) > LEVEL
        assert counts_p(moves(env, state, action), 0.97 * env.dense[state, action] + 0.03 / 6) < LEVEL


def test_rewards_may_be_drawn():
    rewards = [[0.2, 0.9], [0.5, 0.1]]
    P = np.full((2, 2, 2), 0.5)
    for law, sd in (("gaussian", 2.0), ("bernoulli", np.sqrt(0.09))):
        env = MDP(P, rewards, law=law, sd=2.0)
        place, _ = env.reset(random.key(0))
        step = jax.jit(jax.vmap(lambda k: env.step(k, place, jnp.asarray(1))[1]))(random.split(random.key(1), 20_000))  # noqa: B023
        assert mean_p(step.reward, 0.9, sd) > LEVEL
        assert mean_p(step.reward, 0.8, sd) < LEVEL
        assert np.unique(step.regret).size == 1  # noise is no regret


def test_drawn_mdps_are_dirichlet_and_know_their_optimum():
    env = DrawnMDP(Tabular(np.array([[0.0, 0.5], [1.0, 0.0], [0.2, 0.1]]), alpha=0.5))
    places, _ = jax.jit(jax.vmap(env.reset))(random.split(random.key(0), 4000))
    p = np.asarray(places.world.below[:, 0, 0, 0])
    assert mean_p(p, 1 / 3, np.sqrt(2 / 9 / 2.5)) > LEVEL
    assert mean_p(p, 0.3, np.sqrt(2 / 9 / 2.5)) < LEVEL
    rows = np.diff(np.concatenate([np.zeros((5, 3, 2, 1)), places.world.below[:5, ..., :2], np.ones((5, 3, 2, 1))], -1), axis=-1)
    for i in range(5):
        exact = planning.solve(np.maximum(rows[i], 1e-12) / np.maximum(rows[i], 1e-12).sum(-1, keepdims=True), env.model.rewards)
        assert float(places.world.gain[i]) == pytest.approx(float(exact.gain), abs=1e-3)


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: MDP([[[0.5, 0.4], [1, 0]], [[0, 1], [1, 0]]], np.zeros((2, 2))), r"those of \(0, 0\) add up to 0\.9"),
        (lambda: MDP([[[1.5, -0.5]], [[0, 1]]], np.zeros((2, 1))), r"finite and ≥ 0; \(0, 0\) has -0\.5"),
        (lambda: MDP([[[np.nan, 1]], [[0, 1]]], np.zeros((2, 1))), r"must not be NaN"),
        (lambda: MDP([[[1, 0]], [[0, 1]]], np.zeros((2, 2))), r"shape \(2, 1\); got shape \(2, 2\)"),
        (
            lambda: MDP([[[1.0, 0]], [[0, 1.0]]], np.zeros((2, 1))),
            r"not weakly communicating .* depends on the state a run starts in",
        ),
        (lambda: MDP(np.ones((1, 1, 1)), [[1.0]], start=1), "start must be one of the 1 states"),
        (lambda: MDP(np.ones((1, 1, 1)), [[1.0]], law="poisson"), "law must be one of mean, gaussian, bernoulli"),
        (lambda: MDP(np.ones((1, 1, 1)), [[2.0]], law="bernoulli"), "need means between 0 and 1"),
        (lambda: strens_chain(slip=0.7), "slip must be a probability between 0 and 0.5; got 0.7."),
        (lambda: garnet(states=3, successors=4), "successors must be at most the 3 states; got 4."),
        (lambda: Tabular([1.0, 2.0]), r"rewards must be finite numbers \[states, actions\]; got shape \(2,\)"),
        (lambda: Tabular([[1.0, 2.0]], alpha=-1.0), "alpha must be > 0 and finite; got -1."),
        (lambda: Tabular([[1.0, 2.0]], alpha=np.ones(3)), r"alpha must be a number or broadcast to \(1, 2, 1\)"),
        (lambda: Tabular(Gaussian()), "where the rewards are learned, give states"),
        (lambda: PSRL(Tabular([[1.0, 2.0]]), Parameters(sgld())), "Tabular is none; use Rows"),
        (lambda: PSRL(Inventory(), Rows(ExactRows())), "not of Inventory; use Parameters"),
        (lambda: UCRL2(Tabular([[1.0]]), delta=2.0), "delta must be a probability; got 2."),
        (lambda: ParametricMDP(Inventory(), theta=[1.0, 2.0]), r"theta must have 1 numbers; got shape \(2,\)"),
        (lambda: Geometric(0.0), "rate must be a probability above 0; got 0."),
        (lambda: DoubledSinceSwitch(2, -1.0), "pseudo_count must be ≥ 0 and finite; got -1."),
        (lambda: LinearQuadratic(a=1.2, b=0.0), "needs |b| ≥ 0.01 to be stabilised".replace("|", r"\|")),
    ],
)
def test_bad_input_is_refused_in_a_sentence(build, sentence):
    with pytest.raises(ConfigError, match=sentence):
        build()


def test_simulate_refuses_what_does_not_fit():
    env = riverswim()
    agent = PSRL(Tabular(env.rewards), Rows(ExactRows()))
    with pytest.raises(ConfigError, match=r"counts visits of 1 states and the environment has 6; give it states=6\."):
        simulate(0, env, agent, DoublingCounts(), horizon=10, replications=2)
    lq = ParametricMDP(LinearQuadratic())
    with pytest.raises(ConfigError, match=r"no table of them; use StaticDoubling, Fixed or Geometric\."):
        simulate(0, lq, PSRL(LinearQuadratic(), Parameters(sgld())), DoublingCounts(), horizon=10, replications=2)
    with pytest.raises(ConfigError, match="'ucb1' cannot play 'riverswim', which is a tabular MDP; use one of mld-psrl"):
        condition("riverswim", "ucb1")
    with pytest.raises(ConfigError, match=r"no option 'stat'\. Did you mean 'states'"):
        condition("riverswim", "ds-psrl", options={"stat": 3})
    with pytest.raises(ConfigError, match="no table of states to count visits in"):
        condition("inventory", "sgld-psrl", "dynamic")
