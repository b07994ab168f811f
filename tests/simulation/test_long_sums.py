"""Sums over many rounds, and rewards far from zero, keep their digits; what has too few digits is said."""

from __future__ import annotations

import numpy as np
import pytest

from blts import (
    PSRL,
    UCB1,
    Bandit,
    ConfigError,
    DoublingCounts,
    Exact,
    ExactRows,
    Fixed,
    Gaussian,
    GaussianUnknownVariance,
    Rows,
    StaticDoubling,
    Tabular,
    Thompson,
    Uniform,
    random,
    simulate,
)
from blts.agents import UCRL2, Follow
from blts.envs import MDP, riverswim
from blts.models import Bernoulli

GAPS = np.array([0.1, 0.0])


def test_regret_of_many_rounds_is_the_sum_over_plays():
    env = Bandit.with_means(Bernoulli(), [0.4, 0.5])
    trace = simulate(0, env, Uniform(2), Fixed(1000), horizon=200_000, replications=4, keep_actions=True)
    np.testing.assert_allclose(trace.final_regret, trace.plays @ GAPS, rtol=1e-6)
    np.testing.assert_array_equal(trace.best_share, trace.plays[:, 1] / 200_000)
    naive = np.cumsum(GAPS.astype(np.float32)[trace.actions], 1, dtype=np.float32)[:, -1]  # the mutant
    assert (np.abs(naive / (trace.plays @ GAPS) - 1) > 1e-4).all()


def test_regret_of_many_rounds_in_turns_is_the_sum_over_plays():
    class Slow(UCB1):
        incremental = False

    env = Bandit.with_means(Bernoulli(), [0.4, 0.5])
    trace = simulate(0, env, Slow(2), Fixed(1000), horizon=100_000, replications=2, times=3)
    np.testing.assert_allclose(trace.final_regret, trace.plays @ GAPS, rtol=1e-6)


@pytest.mark.slow
def test_rounds_with_a_best_action_are_counted_beyond_24_bits():
    env = Bandit.with_means(Gaussian(sd=0.1), [0.4, 0.5])
    trace = simulate(0, env, UCB1(2), DoublingCounts(), horizon=20_000_000, replications=1, times=3)
    assert trace.best_share[0] == trace.plays[0, 1] / 20_000_000 > 0.99
    assert abs(trace.mean_reward[0] - 0.5) < 1e-3


@pytest.mark.parametrize("far", [1e5, 1e6])
def test_mean_rewards_far_from_zero_keep_their_digits(far):
    env = Bandit.with_means(Gaussian(sd=1.0), [far, far + 1.0])
    agent = Thompson(GaussianUnknownVariance(prior_mean=[far, far], weight=0.01), Exact())
    trace = simulate(0, env, agent, DoublingCounts(), horizon=400, replications=50, misspecified=True)
    errors = trace.mean_reward - far - trace.plays[:, 1] / 400
    assert abs(errors.mean()) < 5 / np.sqrt(400 * 50)  # plain sums: 0.06 and 0.8 too low


@pytest.mark.parametrize(("far", "said"), [(0.0, 0), (1e4, 0), (1e7, 1)])
def test_means_that_numbers_cannot_tell_apart_are_said(far, said):
    bandit = Bandit.with_means(Gaussian(sd=1.0), [far, far + 0.5, far + 1.0])
    river = riverswim(states=4)
    table = MDP(river.dense, np.asarray(river.rewards) + far)
    for env, agent in ((bandit, UCB1(3)), (table, PSRL(Tabular(table.rewards), Rows(ExactRows())))):
        trace = simulate(0, env, agent, StaticDoubling(), horizon=10, replications=2)
        assert sum("subtract a constant" in each for each in trace.warnings) == said


@pytest.mark.parametrize("states", [4, 8])
def test_a_table_of_other_states_than_the_environment_is_refused(states):
    env, other = riverswim(states=6), riverswim(states=states)
    table = Tabular(other.rewards)
    for agent in (PSRL(table, Rows(ExactRows())), UCRL2(table)):
        with pytest.raises(ConfigError, match=f"has 6 states and the agent's Tabular model {states}"):
            simulate(0, env, agent, StaticDoubling(), horizon=10, replications=2)
    with pytest.raises(ConfigError, match=f"rewards of {states} × 2 states and actions, and the model 6 × 2"):
        Follow(Tabular(env.rewards), other.truth)


def test_what_a_plan_leaves_out_is_nothing_to_compute_with():
    agent = PSRL(Tabular(riverswim().rewards), Rows(ExactRows()))
    plan = agent.init(random.key(0)).plan
    with pytest.raises(TypeError):
        np.add(plan.gain, 1.0)  # an empty tuple would give an empty array, whose sum is 0
