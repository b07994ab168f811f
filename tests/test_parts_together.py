"""Parts that do not go together are refused, and what is counted of those that do is counted right."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from blts import (
    Aged,
    Agent,
    Bandit,
    Bernoulli,
    ConfigError,
    Conversions,
    DelayByArm,
    Discounted,
    Drifting,
    Exact,
    Exchanges,
    Fixed,
    FixedDelay,
    Gaussian,
    Late,
    LostRewards,
    Perturb,
    Private,
    Restarting,
    Seasonal,
    SequentialHalving,
    StopAtEvidence,
    StopAtProbability,
    Thompson,
    Uniform,
    Windowed,
    condition,
    sgld,
    simulate,
)
from blts._typing import Row
from blts.envs import AbruptChanges
from blts.models import Gamma
from blts.simulation.messages import content
from blts.specification import check_private, check_rewards, check_told

SHOP = Bandit.with_means(Bernoulli(), [0.2, 0.5, 0.8])
NORMAL = Bandit.with_means(Gaussian(sd=0.5), [0.0, 0.5, 1.0])
MODEL = Gaussian(prior_mean=[0.5] * 3, prior_sd=0.5, sd=0.5)
PRIVATE = Private(Exact(), rho=1.0, low=0.0, high=1.0)
CONVERTING = Thompson(Bernoulli(), Exact(), arms=3)


class _Grows(Seasonal):
    """Leaves the limits of the seasons that it is made of."""

    def after(self, key, t, base, means):
        return means + 0.1


class _StartsOutside(AbruptChanges):
    def first(self, base):
        return base + 5.0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Drifting(SHOP, _Grows(period=100, amplitude=0.1)), "_Grows overrides after, on which Seasonal.limits rests"),
        (lambda: Drifting(SHOP, _StartsOutside(times=(3,))), "begins with means"),
        (lambda: Late(SHOP, DelayByArm((FixedDelay(1),))), "1 laws for 3 arms"),
        (lambda: Late(SHOP, LostRewards(0.1, DelayByArm((FixedDelay(1),) * 4))), "4 laws for 3 arms"),
        (lambda: Conversions(CONVERTING, DelayByArm((FixedDelay(1),) * 2)), "2 laws for 3 arms"),
        (lambda: DelayByArm(()), "a law for each arm"),
        (lambda: Aged(Exchanges(4), 3), "counts the messages of its own batches"),
        (lambda: condition("bernoulli", "exact-ts", options={"forget": "window ²"}), "forget must be"),
    ],
)
def test_what_would_be_silently_wrong_is_refused(make, words):
    with pytest.raises(ConfigError, match=words):
        make()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Windowed(PRIVATE, 10), "the same rows at every refresh"),
        (lambda: Restarting(PRIVATE), "the same rows at every refresh"),
        (lambda: Conversions(Thompson(MODEL, PRIVATE)), "weighs every play anew"),
        (lambda: StopAtEvidence(Thompson(MODEL, PRIVATE)), "without noise"),
    ],
)
def test_what_would_break_privacy_is_refused(make, words):
    """They released a row again, or played by rewards that were not released."""
    with pytest.raises(ConfigError, match=words):
        make()


class _Mine(Agent):
    """A user's agent around another one, in a field with a name of its own."""

    plays_like: Agent
    actions: int = 3

    def init(self, key):
        return self.plays_like.init(key)

    def act(self, key, state, obs, played):
        return self.plays_like.act(key, state, obs, played)

    def empty(self, row, capacity):
        return self.plays_like.empty(row, capacity)

    def remember(self, history, row, live):
        return self.plays_like.remember(history, row, live)

    def observe(self, keys, states, histories):
        return self.plays_like.observe(keys, states, histories)


def test_what_is_inside_an_agent_of_ones_own_is_found_whatever_its_field_is_called():
    """Only fields named `agent` and `belief` were looked into, so that everything below went through without a word."""
    with pytest.raises(ConfigError, match="without noise"):
        StopAtEvidence(_Mine(Thompson(MODEL, PRIVATE)))
    with pytest.raises(ConfigError, match="Windowed counts a round for each reward"):
        check_told(Late(SHOP, FixedDelay(3)), _Mine(Thompson(MODEL, Windowed(Exact(), 10))))
    with pytest.raises(ConfigError, match="leave binary out"):
        check_rewards(NORMAL, _Mine(StopAtEvidence(Uniform(3), binary=True)))


def test_when_a_private_reward_is_told_must_not_tell_what_it_is():
    """How many rewards are told is public; where zeros are told at the end of the window, that count depends on rewards."""
    agent = Thompson(MODEL, PRIVATE)
    with pytest.raises(ConfigError, match="tells of rewards"):
        simulate(0, Late(SHOP, FixedDelay(3), 10, "zero"), agent, Fixed(5), horizon=10, replications=1)
    check_private(Late(SHOP, FixedDelay(3), 10), agent, Fixed(5))


def test_a_stopping_rule_looks_at_rewards_that_it_can_judge():
    """Evidence for 0 and 1 stopped all runs with Gaussian rewards."""
    for rule, words in (
        (StopAtEvidence(Uniform(3), binary=True), "leave binary out"),
        (StopAtProbability(Uniform(3), Bernoulli()), "the Bernoulli model of StopAtProbability"),
    ):
        with pytest.raises(ConfigError, match=words):
            check_rewards(NORMAL, rule)
        check_rewards(SHOP, rule)
    check_rewards(NORMAL, StopAtEvidence(Uniform(3)))
    check_rewards(NORMAL, StopAtProbability(Uniform(3), Gaussian()))


def test_phases_that_count_rewards_need_rewards_in_time():
    with pytest.raises(ConfigError, match="SequentialHalving counts a round for each reward"):
        check_told(Late(SHOP, FixedDelay(3)), SequentialHalving(3, 60))


def test_silence_is_a_zero_that_positive_rewards_do_not_have():
    paying = Bandit.with_means(Gamma(), [1.0, 2.0])
    agent = Thompson(Gamma(), arms=2)
    check_rewards(Late(paying, FixedDelay(3), 4), agent)
    with pytest.raises(ConfigError, match="zero or above"):
        check_rewards(Late(paying, FixedDelay(3), 4, "zero"), agent)


def test_where_nothing_can_come_in_time_silence_says_nothing():
    """With delays of 20 rounds and a window of 10 no conversion is told: the shares were 0/0."""
    agent = Conversions(CONVERTING, FixedDelay(20), 10)
    plays = agent.empty(Row((), jnp.zeros((), int), jnp.zeros(()), ()), 2)
    np.testing.assert_array_equal(agent._share(plays, jnp.array([0, 9, 10])), [0.0, 0.0, 1.0])


@pytest.mark.parametrize(
    ("belief", "up", "row"),
    [
        (Exact(), 15, 0),
        (Discounted(Exact(), 0.9), 15, 0),
        (Windowed(Exact(), 20), 0, 2),
        (Restarting(Exact()), 0, 2),
        (Perturb(sgld()), 0, 2),
        (Discounted(Perturb(sgld()), 0.9), 0, 2),
        (PRIVATE, 9, 0),
    ],
)
def test_agents_send_rows_where_rows_are_remembered(belief, up, row):
    """A window was one row a message, whatever was played; a restart sent its starts, and private agents what was not released."""
    assert content(NORMAL, Thompson(MODEL, belief)) == (up, row, 6)


def test_what_a_stopping_rule_or_a_correction_remembers_is_sent_too():
    inner = Thompson(MODEL, Perturb(sgld()))
    assert content(NORMAL, StopAtEvidence(inner)) == (18, 2, 8)
    assert "rows of its new plays (2 numbers a play) and a summary of its new plays (18" in str(
        content(NORMAL, StopAtEvidence(inner))
    )
    assert content(Late(SHOP, FixedDelay(3), silence="zero"), Conversions(CONVERTING)) == (0, 2, 6)
