"""What would raise nothing and make all numbers wrong is refused: random numbers without a key, memories that ignore `live`, ends
of batches that are numbers, and states and memories of whole numbers that cut fractions."""

from __future__ import annotations

import random
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from blts import (
    UCB1,
    Agent,
    Bandit,
    Batching,
    Exact,
    Fixed,
    Gaussian,
    Info,
    Perturb,
    Thompson,
    from_functions,
    from_numpyro,
    module,
    sgld,
    silent_faults,
    simulate,
    static,
    steadiness,
    wrong_returns,
)
from blts.errors import ConfigError

WORLD = Bandit.with_means(Gaussian(), [0.0, 1.0])


@module
class Counting(Agent):
    """As a user would write it, without a fault."""

    actions: int = static()

    def init(self, key):
        return jnp.zeros(self.actions)

    def act(self, key, state, obs, played) -> Any:
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
        return super().remember(model, history, row, jnp.asarray(True))


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


GENERATOR, OLD, PYTHON = np.random.default_rng(0), np.random.RandomState(0), random.Random(0)
DRAW = np.random.default_rng(0).integers


class Coin(Counting):
    def act(self, key, state, obs, played):
        return int(GENERATOR.integers(2))


class BranchCoin(Counting):
    def act(self, key, state, obs, played):
        if np.random.rand() < 0.5:
            return 0
        return jnp.argmax(state)


class Choice(Counting):
    def act(self, key, state, obs, played):
        return random.choice([0, 1])


class OldCoin(Counting):
    def act(self, key, state, obs, played):
        return jnp.argmax(state) if OLD.rand() < 0.5 else 0


class PythonCoin(Counting):
    def act(self, key, state, obs, played):
        return PYTHON.randrange(2)


class BoundCoin(Counting):
    def act(self, key, state, obs, played):
        return int(DRAW(2))


class ClassCoin(Counting):
    coins = {"first": [np.random.default_rng(0)]}  # noqa: RUF012

    def act(self, key, state, obs, played):
        return int(self.coins["first"][0].integers(2))


class FieldCoin(Counting):
    coin: np.random.Generator = static(default=GENERATOR)

    def act(self, key, state, obs, played):
        return int(self.coin.integers(2))


class CompiledCoin(Counting):
    @jax.jit
    def act(self, key, state, obs, played):  # type: ignore[override]
        return jnp.argmax(state + GENERATOR.normal(size=2))


class CoinEnd(Fixed):
    def step(self, state, obs, action):
        return super().step(state, obs, action)[0], bool(np.random.rand() < 0.5)


TABLE = np.random.default_rng(0).normal(size=2)


class Tabled(Counting):
    """Uses random numbers that do not change."""

    coin: object = static(default=np.random.default_rng(0))

    def act(self, key, state, obs, played):
        np.random.seed(0)
        return jnp.argmax(state + TABLE + np.random.default_rng(1).normal(size=2) + np.random.rand())


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
    **{f"{cls.__name__}.act": (WORLD, cls(2)) for cls in (Coin, BranchCoin, Choice, OldCoin, PythonCoin, BoundCoin)},
    **{f"{cls.__name__}.act": (WORLD, cls(2)) for cls in (ClassCoin, FieldCoin, CompiledCoin)},
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


@pytest.mark.parametrize("scheme", [Timed, CoinEnd])
def test_a_scheme_that_reads_the_clock_or_tosses_a_coin_is_refused(scheme):
    with pytest.raises(ConfigError, match=rf"^{scheme.__name__}\.step, or what it calls, computes with other numbers"):
        simulate(0, WORLD, UCB1(2), scheme(5), horizon=20, replications=3)


def test_draws_of_another_thread_in_one_trace_are_let_pass():
    """What the generators of a whole process drew in one trace, and not in the other, was drawn by somebody else."""
    calls = []

    def add(x):
        calls.append(x)
        if len(calls) == 1:
            np.random.rand()
            random.random()
        return x + 1

    assert steadiness.steady(add, 1.0)[0]


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


def test_functions_that_toss_a_coin_are_refused():
    coin = np.random.default_rng(0)
    likelihood = lambda theta, reward: -((reward - theta[0]) ** 2) / 2 * (1.0 if coin.random() < 2.0 else 2.0)  # noqa: E731
    with pytest.raises(ConfigError, match=r"^from_functions: a log-density computes with other numbers whenever"):
        from_functions(lambda theta: -(theta[0] ** 2) / 2, likelihood, L=1.0, dim=1, arms=2, sample=lambda key, theta: theta[0])


def test_distributions_that_toss_a_coin_are_refused():
    dist = pytest.importorskip("numpyro.distributions")
    coin = random.Random(0)
    with pytest.raises(ConfigError, match=r"^from_numpyro: .* computes with other numbers whenever"):
        from_numpyro(lambda mu: dist.Normal(mu, 1.0 if coin.random() < 2.0 else 2.0), {"mu": dist.Normal(0.0, 1.0)})


class Ending(Batching):
    """A batch of three rounds."""

    def init(self, key, actions):
        return jnp.zeros((), int)

    def step(self, state, obs, action):
        return state + 1, (state + 1) % 3 == 0


class Counted(Ending):
    def step(self, state, obs, action):
        return state + 1, (state + 1) % 3


class Two(Ending):
    def step(self, state, obs, action):
        return state + 1, jnp.int32(2)


class Always(Ending):
    def step(self, state, obs, action):
        return state + 1, True


@pytest.mark.parametrize("scheme", [Counted, Two])
def test_the_end_of_a_batch_is_a_flag(scheme):
    words = rf"^{scheme.__name__}\.step must return whether the batch ends, a flag of shape \(\); it returned int32 of shape \(\)"
    for _ in range(2):
        with pytest.raises(ConfigError, match=words):
            simulate(0, WORLD, UCB1(2), scheme(), horizon=20, replications=3)


@pytest.mark.parametrize(("scheme", "batches"), [(Ending, 6), (Always, 20)])
def test_flags_end_batches(scheme, batches):
    assert (simulate(0, WORLD, UCB1(2), scheme(), horizon=20, replications=3).batches == batches).all()


class WholeState(Counting):
    def init(self, key):
        return jnp.zeros(self.actions, int)


class FloatState(Counting):
    def observe(self, keys, states, histories):
        return histories.astype(int), Info.of(jnp.isfinite(histories).all(1))


class HalfState(Counting):
    """Floats of another precision are as good."""

    def init(self, key):
        return jnp.zeros(self.actions, jnp.float16)


class WholeMemory(WholeState):
    def empty(self, row, capacity):
        return jnp.zeros(self.actions, int)


class MeantMemory(WholeMemory):
    """Counts rewards above a half."""

    def remember(self, history, row, live):
        return history.at[row.action].add(jnp.where(live, row.reward > 0.5, False))


class WholeWorld(Bandit):
    def step(self, key, state, action):
        state, step = super().step(key, state, action)
        return state, step._replace(reward=jnp.zeros(2, int).at[0].set(step.reward)[0])


class WholeBelief(Exact):
    def remember(self, model, history, row, live):
        jnp.zeros(2, int).at[row.action].add(row.reward)
        return super().remember(model, history, row, live)


@pytest.mark.parametrize(("agent", "types"), [(WholeState, ("float", "int")), (FloatState, ("int", "float"))])
def test_states_of_another_kind_are_refused(agent, types):
    found, like = (rf"{each}32 of shape \(1, 2\)" for each in types)
    words = rf"^{agent.__name__}\.observe must return states as it was given them, .*; it returned {found}, which is {like}\.$"
    with pytest.raises(ConfigError, match=words):
        run(WORLD, agent(2))


CUTTING = {
    "WholeMemory.remember": (WORLD, WholeMemory(2)),
    "WholeWorld.step": (WholeWorld.with_means(Gaussian(), [0.0, 1.0]), UCB1(2)),
    "Thompson.remember": (WORLD, Thompson(Gaussian(), WholeBelief(), arms=2)),
}


@pytest.mark.parametrize("method", CUTTING)
def test_a_memory_that_cuts_fractions_is_refused(method):
    with pytest.raises(ConfigError, match=rf"^{method}, or what it calls, writes numbers with fractions into an array of whole"):
        run(*CUTTING[method])


def test_an_agent_of_blts_is_not_traced_for_a_scheme_of_ones_own(monkeypatch):
    """What it learns takes long to trace."""
    monkeypatch.setattr(UCB1, "observe", lambda *arguments: pytest.fail("traced"))
    silent_faults.check_steady(WORLD, UCB1(2), Ending())
    wrong_returns.check(WORLD, UCB1(2), Ending(), 20)


IGNORING = {"Heedless": Heedless(2), "HeedlessBelief": Thompson(Gaussian(), HeedlessBelief(), arms=2)}


@pytest.mark.parametrize("name", IGNORING)
def test_a_memory_that_does_not_look_at_live_is_refused(name):
    with pytest.raises(ConfigError, match=rf"^{name}\.remember must return the memory unchanged where live is False"):
        run(WORLD, IGNORING[name])


RIGHT = {
    "agent": Counting(2),
    "belief": Thompson(Gaussian(), HeedfulBelief(), arms=2),
    "numbers that stay": Tabled(2),
    "another precision": HalfState(2),
    "whole numbers": MeantMemory(2),
}


@pytest.mark.filterwarnings("ignore:scatter inputs have incompatible types")  # of floats of another precision
@pytest.mark.parametrize("agent", RIGHT.values(), ids=RIGHT)
def test_what_has_no_fault_runs(agent):
    assert run(WORLD, agent).horizon == 20
