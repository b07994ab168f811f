"""What would raise nothing and make all numbers wrong is refused: random numbers without a key, and memories that ignore `live`."""

from __future__ import annotations

import random
import threading

import jax.numpy as jnp
import numpy as np
import pytest

import blts
from blts import UCB1, Agent, Bandit, Exact, Fixed, Gaussian, Info, Thompson, from_functions, module, simulate, static
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

    def empty(self, row, horizon):
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


def laplace(sample):
    return from_functions(
        lambda theta: -(theta[0] ** 2) / 2,
        lambda theta, reward: -jnp.abs(reward - theta[0]),
        L=1.0,
        dim=1,
        arms=2,
        mean_reward=lambda theta: theta[0],
        init=lambda key: blts.random.normal(key, (1,)),
        sample=sample,
    )


def run(env, agent):
    return simulate(0, env, agent, Fixed(5), horizon=20, replications=3)


DRAWING = {
    "Restless.act": (WORLD, Restless(2)),
    "Noisy.step": (Noisy.with_means(Gaussian(), [0.0, 1.0]), UCB1(2)),
    "Bandit.step": (Bandit(laplace(lambda key, theta: theta[0] + np.random.laplace())), UCB1(2)),
}


@pytest.mark.parametrize("method", DRAWING)
def test_random_numbers_without_a_key_are_refused_every_time(method):
    """The second run finds a compiled program, in which the numbers are constants."""
    for _ in range(2):
        with pytest.raises(ConfigError, match=rf"{method}, or what it calls, draws from numpy\.random or random"):
            run(*DRAWING[method])


IGNORING = {"Heedless": Heedless(2), "HeedlessBelief": Thompson(Gaussian(), HeedlessBelief(), arms=2)}


@pytest.mark.parametrize("name", IGNORING)
def test_a_memory_that_does_not_look_at_live_is_refused(name):
    with pytest.raises(ConfigError, match=rf"^{name}\.remember must return the memory unchanged where live is False"):
        run(WORLD, IGNORING[name])


@pytest.mark.parametrize("agent", [Counting(2), Thompson(Gaussian(), HeedfulBelief(), arms=2)], ids=["agent", "belief"])
def test_what_has_no_fault_runs(agent):
    assert run(WORLD, agent).horizon == 20


@pytest.fixture
def another_thread_draws():
    done = threading.Event()

    def draw():
        while not done.is_set():
            np.random.normal()

    other = threading.Thread(target=draw)
    other.start()
    yield
    done.set()
    other.join()


def test_what_another_thread_draws_is_its_own_affair(another_thread_draws):
    before = np.random.get_state()[1:3]
    run(WORLD, Thompson(Gaussian(), Exact(), arms=2))
    after = np.random.get_state()[1:3]
    assert not np.array_equal(before[0], after[0]) or before[1] != after[1]


def test_another_thread_does_not_make_one_forget(request):
    with pytest.raises(ConfigError, match="draws from"):
        run(WORLD, Restless(2))
    request.getfixturevalue("another_thread_draws")
    with pytest.raises(ConfigError, match="draws from"):
        run(WORLD, Restless(2))
