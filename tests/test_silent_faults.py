"""What would raise nothing and make all numbers wrong is refused: random numbers without a key, and memories that ignore `live`."""

from __future__ import annotations

import random
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from blts import (
    UCB1,
    Agent,
    Bandit,
    Exact,
    Fixed,
    Gaussian,
    Info,
    Perturb,
    Thompson,
    from_functions,
    module,
    sgld,
    simulate,
    static,
)
from blts.errors import ConfigError

WORLD = Bandit.with_means(Gaussian(), [0.0, 1.0])


@module
class Counting(Agent):
    """As a user would write it, without a fault."""

    actions: int = static()

    def init(self, key):
        return jnp.zeros(self.actions)

    def act(self, key, state, obs, played):
        return jnp.argmax(state)

    def empty(self, row, capacity):
        return jnp.zeros(self.actions)

    def remember(self, history, row, live):
        return history.at[row.action].add(jnp.where(live, row.reward, 0.0))

    def observe(self, keys, states, histories):
        return histories, Info.of(jnp.isfinite(histories).all(1))


class Restless(Counting):
    def act(self, key, state, obs, played):
        return jnp.argmax(state + np.random.normal(size=self.actions))


class Heedless(Counting):
    def remember(self, history, row, live):
        return history.at[row.action].add(row.reward)


class HeedlessBelief(Exact):
    def remember(self, model, history, row, live):
        return super().remember(model, history, row, True)


class HeedfulBelief(Exact):
    def remember(self, model, history, row, live):
        return super().remember(model, history, row._replace(reward=2 * row.reward), live)


class Noisy(Bandit):
    def step(self, key, state, action):
        state, step = super().step(key, state, action)
        return state, step._replace(reward=step.reward + random.gauss(0, 1))


def run(env, agent):
    return simulate(0, env, agent, Fixed(5), horizon=20, replications=3)


class OwnGenerator(Counting):
    def act(self, key, state, obs, played):
        return jnp.argmax(state + np.random.default_rng().normal(size=self.actions))


class OwnGeneratorInside(Counting):
    def init(self, key):
        return jax.vmap(lambda x: x + jax.lax.cond(x > 0, lambda: time.time_ns() % 1e6, lambda: 0.0))(jnp.zeros(self.actions))


class Timed(Fixed):
    def step(self, state, obs, action):
        return super().step(state, obs, action + time.time_ns() % 1000)


class NoisyModel(Gaussian):
    def log_likelihood(self, theta, row):
        return super().log_likelihood(theta, row) + theta[0] * np.random.default_rng().normal()

    def mean_reward(self, theta, obs, action):
        return super().mean_reward(theta, obs, action)

    def information(self, theta):
        return super().information(theta)


class NoisyRewards(Gaussian):
    def sample(self, key, theta, obs, action):
        return theta[0] + np.random.default_rng().normal(size=())


UNSTEADY = {
    "Restless.act": (WORLD, Restless(2)),
    "Noisy.step": (Noisy.with_means(Gaussian(), [0.0, 1.0]), UCB1(2)),
    "OwnGenerator.act": (WORLD, OwnGenerator(2)),
    "OwnGeneratorInside.init": (WORLD, OwnGeneratorInside(2)),
    "Bandit.step": (Bandit.with_means(NoisyRewards(), [0.0, 1.0]), UCB1(2)),
    "Thompson.observe": (WORLD, Thompson(NoisyModel(), Perturb(sgld()), arms=2)),
}


@pytest.mark.parametrize("method", UNSTEADY)
def test_random_numbers_without_a_key_and_clocks_are_refused(method):
    """Every time: a compiled program would have the numbers as constants."""
    for _ in range(2):
        with pytest.raises(ConfigError, match=rf"^{method}, or what it calls, computes with other numbers whenever it is called"):
            run(*UNSTEADY[method])


def test_a_scheme_that_reads_the_clock_is_refused():
    with pytest.raises(ConfigError, match=r"^Timed\.step, or what it calls, computes with other numbers"):
        simulate(0, WORLD, UCB1(2), Timed(5), horizon=20, replications=3)


SAID = {"sample": "sample", "log_likelihood": "a log-density"}


@pytest.mark.parametrize("what", SAID)
def test_functions_with_a_generator_of_their_own_are_refused(what):
    unsteady = lambda name: np.random.default_rng().normal() if name == what else 0.0  # noqa: E731
    with pytest.raises(ConfigError, match=rf"^from_functions: {SAID[what]} computes with other numbers whenever"):
        from_functions(
            lambda theta: -(theta[0] ** 2) / 2,
            lambda theta, reward: -((reward - theta[0] - unsteady("log_likelihood")) ** 2) / 2,
            L=1.0,
            dim=1,
            arms=2,
            sample=lambda key, theta: theta[0] + unsteady("sample"),
        )


IGNORING = {"Heedless": Heedless(2), "HeedlessBelief": Thompson(Gaussian(), HeedlessBelief(), arms=2)}


@pytest.mark.parametrize("name", IGNORING)
def test_a_memory_that_does_not_look_at_live_is_refused(name):
    with pytest.raises(ConfigError, match=rf"^{name}\.remember must return the memory unchanged where live is False"):
        run(WORLD, IGNORING[name])


@pytest.mark.parametrize("agent", [Counting(2), Thompson(Gaussian(), HeedfulBelief(), arms=2)], ids=["agent", "belief"])
def test_what_has_no_fault_runs(agent):
    assert run(WORLD, agent).horizon == 20
