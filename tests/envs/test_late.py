"""Late rewards: told when they are due and not a round before, whoever remembers them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from blts import (
    Bandit,
    Bernoulli,
    ConfigError,
    Conversions,
    Discounted,
    Exact,
    Fixed,
    Gaussian,
    Info,
    Late,
    Sequential,
    StopAtEvidence,
    Thompson,
    Windowed,
    arrivals,
    condition,
    lanes,
    loop,
    random,
    simulate,
)
from blts import delays as laws
from blts._typing import Row
from blts.agents import Agent
from blts.delays import DelayByArm, DelayFunction, EmpiricalDelay, FixedDelay, GeometricDelay, LostRewards, ParetoDelay, delay_of
from blts.envs import Arrival
from blts.history import Log
from compiling import optimised

ROUNDS, LANES = 12, 6
DELAYS = np.random.default_rng(0).integers(-1, 6, (ROUNDS, LANES))


class Notebook(Agent):
    """Writes down in which round each play was told, and what of it; it plays the first arm."""

    actions: int = 2

    def init(self, key):
        return jnp.zeros(())

    def act(self, key, state, obs, played):
        return jnp.zeros((), int)

    def empty(self, row, capacity):
        return {"heard": jnp.zeros((), int), "order": jnp.zeros((capacity + 1, 2))}

    def remember(self, history, row, live):
        place = jnp.where(live, history["heard"], history["order"].shape[0])
        order = history["order"].at[place].set(jnp.stack([row.t, row.reward]), mode="drop")
        return {"heard": history["heard"] + live, "order": order}

    def observe(self, keys, states, histories):
        return states, Info.of(jnp.isfinite(states))


def told_in(vmap, early: int = 0) -> np.ndarray:
    """The round in which each play is told in each lane, by the code; 0 for never. `early` is a mutant's leak."""
    agent, row = Notebook(), Row((), jnp.zeros((), int), jnp.zeros(()), (), jnp.zeros((), int))

    def play(waiting, history, t, delay):
        arrival = Arrival(jnp.where(delay > 0, delay - early, delay), 10.0 * t)
        now = Row((), jnp.zeros((), int), 10.0 * t, (), t)
        return arrivals.exchange(agent, waiting, history, now, arrival, jnp.asarray(True))

    spread = lambda x: jnp.broadcast_to(x[..., None], (*x.shape, LANES))  # noqa: E731
    waiting = jax.tree.map(spread, arrivals.nothing(row, ROUNDS))
    history = jax.tree.map(spread, agent.empty(row, ROUNDS))
    out, heard = np.zeros((ROUNDS + 1, LANES), int), np.zeros(LANES, int)
    step = jax.jit(vmap(play))
    for t in range(1, ROUNDS + 1):
        waiting, history = step(waiting, history, jnp.full(LANES, t), jnp.asarray(DELAYS[t - 1]))
        for lane in range(LANES):
            rows = np.asarray(history["order"][heard[lane] : history["heard"][lane], :, lane])
            np.testing.assert_array_equal(rows[:, 1], 10 * rows[:, 0])
            out[rows[:, 0].astype(int), lane] = t
        heard = np.asarray(history["heard"])
        np.testing.assert_array_equal(waiting.plays, t - heard)
    return out[1:]


def due_in() -> np.ndarray:
    """The same by the definition: a delay of d tells the reward of round t at the end of round t + d."""
    due = np.arange(1, ROUNDS + 1)[:, None] + DELAYS
    return np.where((DELAYS < 0) | (due > ROUNDS), 0, due)


@pytest.mark.parametrize("vmap", [lanes.vmap, lambda f: jax.vmap(f, -1, -1)])
def test_every_reward_is_told_in_its_round_and_once(vmap):
    np.testing.assert_array_equal(told_in(vmap), due_in())


def test_a_reward_that_leaks_one_round_early_is_noticed():
    assert (told_in(lanes.vmap, early=1) != due_in()).any()


def test_a_loop_on_any_lane_has_one_length():
    def body(n, store):
        def more(carry):
            return carry[0]

        def turn(carry):
            _, i, store = carry
            store = store.at[jnp.where(i < n, i, 100)].set(1.0, mode="drop")
            return lanes.any_lane(i + 1 < n), i + 1, store

        return jax.lax.while_loop(more, turn, (lanes.any_lane(n > 0), 0 * n, store))[2]

    n, store = jnp.arange(5), jnp.zeros((80, 5))
    assert "jax.vmap" not in lanes.explain(body, n, store)
    np.testing.assert_array_equal(lanes.vmap(body)(n, store), np.arange(80)[:, None] < np.arange(5))


# The paper's Gaussian bandit, exact Thompson sampling, uninformative prior: numbers of an independent implementation.
TABLE = (
    (None, 156.5),
    (FixedDelay(10), 226.0),
    (FixedDelay(50), 582.8),
    (GeometricDelay(10), 205.9),
    (GeometricDelay(50), 340.1),
    (LostRewards(0.5), 311.4),
)


def regret(delay, replications=2000, **settings):
    parts = condition("gaussian", "exact-ts", "sequential", prior="uninformative")
    env = parts.env if delay is None else Late(parts.env, delay)
    return simulate(1, env, parts.agent, parts.batching, horizon=650, replications=replications, times=[650], **settings)


def z(delay, reference: float) -> float:
    """How many standard errors the mean regret of 2,000 runs is from the reference, whose own error is about as large."""
    with optimised():
        s = regret(delay).summary()
    return (s["regret_mean"] - reference) / s["regret_se"]


@pytest.mark.parametrize(("delay", "reference"), TABLE, ids=[str(delay) for delay, _ in TABLE])
def test_regret_with_late_rewards(delay, reference):
    assert abs(z(delay, reference)) < 3


def test_regret_tells_a_delay_that_is_one_round_short():
    assert abs(z(FixedDelay(9), 226.0)) > 3


def test_no_delay_is_the_environment_itself():
    bare, late = regret(None, 20), regret(FixedDelay(0), 20)
    for name in ("regret", "plays", "mean_reward", "best_share"):
        np.testing.assert_array_equal(getattr(bare, name), getattr(late, name), name)
    assert bare.in_flight is None
    np.testing.assert_array_equal(late.in_flight, 0)


def test_chunks_are_the_whole():
    whole = regret(GeometricDelay(50), 50)
    parts = [regret(GeometricDelay(50), n, first=first) for first, n in ((0, 20), (20, 30))]
    for name in ("regret", "plays", "in_flight", "mean_reward"):
        np.testing.assert_array_equal(getattr(whole, name), np.concatenate([getattr(part, name) for part in parts]), name)


def test_rewards_that_never_come_teach_nothing():
    trace = regret(LostRewards(1.0), 200)
    np.testing.assert_array_equal(trace.in_flight, 650)
    assert trace.plays.mean(0) == pytest.approx(650 / 15, rel=0.1)  # the prior has no favourite


class Logged(Exact):
    """An exact posterior that keeps every row and adds them up at the end of a batch."""

    def empty(self, model, row, capacity):
        return Log.empty(row or Row((), jnp.zeros((), int), jnp.zeros(())), max(capacity, 1), 10)

    def remember(self, model, history, row, live):
        return history.append(row, live)

    def init(self, key, model):
        return Exact.empty(self, model, None, 0)

    def refresh(self, keys, model, state, history):
        def one(log):
            take = lambda t, sums: Exact.remember(self, model, sums, jax.tree.map(lambda x: x[t], log.rows), t < log.size)  # noqa: E731
            return jax.lax.fori_loop(0, log.rank.shape[0], take, Exact.empty(self, model, None, 0))

        return jax.vmap(one)(history), Info.of(jnp.ones(keys.shape, bool))


def test_logs_and_summaries_agree():
    parts = condition("bernoulli", "exact-ts", prior="uninformative")
    env = Late(parts.env, "geometric 20")
    by = [Thompson(parts.agent.model, belief) for belief in (Exact(), Logged())]
    summed, logged = (simulate(0, env, agent, Fixed(10), horizon=100, replications=30) for agent in by)
    np.testing.assert_array_equal(summed.plays, logged.plays)
    np.testing.assert_array_equal(summed.in_flight, logged.in_flight)


def test_memory_is_linear_in_the_rounds():
    parts = condition("gaussian", "exact-ts")
    env = Late(parts.env, "geometric 50")

    def size(capacity):
        state = jax.eval_shape(
            lambda key: loop.start(key, env, parts.agent, parts.batching, 1, capacity=capacity, keep_actions=False)[1],
            random.split(random.key(0), 1),
        )
        return sum(x.size for x in jax.tree.leaves(state))

    assert size(2000) - size(1000) == 1000 * 4  # action, reward and two links


@pytest.mark.parametrize(("env", "agent"), [("shared-linear", "blts"), ("riverswim", "tsde")])
def test_any_environment_can_be_late(env, agent):
    parts = condition(env, agent, horizon=30, options={"delay": "fixed 5"})
    trace = simulate(0, parts.env, parts.agent, parts.batching, horizon=30, replications=2)
    assert np.isfinite(trace.regret).all()
    np.testing.assert_array_equal(trace.in_flight, 5)


# Laws

AGES = np.array([0, 1, 3, 10, 30, 100])
LAWS = (
    FixedDelay(3),
    GeometricDelay(20),
    ParetoDelay(1.5, 10),
    EmpiricalDelay([0, 2, 2, 40, -1]),
    LostRewards(0.3, GeometricDelay(5)),
    DelayByArm((FixedDelay(1), GeometricDelay(20))),
)


def worst(law, claimed) -> float:
    """The largest number of standard errors between the share of drawn delays up to an age, and what a law claims."""
    n = 20_000
    drawn = np.asarray(jax.vmap(lambda key: law.sample(key, (), jnp.asarray(1)))(random.split(random.key(3), n)))
    share = ((drawn >= 0) & (drawn <= AGES[:, None])).mean(1)
    p = np.asarray(claimed.share_by(jnp.asarray(AGES), jnp.ones(len(AGES), int)), float)
    return float(np.max(np.abs(share - p) / np.sqrt(p * (1 - p) / n + 1e-9)))


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_a_law_draws_the_delays_that_it_claims(law):
    assert worst(law, law) < 4


def test_another_mean_is_noticed():
    assert worst(GeometricDelay(20), GeometricDelay(21)) > 4
    assert worst(GeometricDelay(20), ParetoDelay(1.5, 10)) > 4


def test_a_function_sees_context_and_action():
    law = DelayFunction(lambda key, obs, action: obs + 10 * action)
    assert int(law.sample(random.key(0), 3, 2)) == 23


def test_windows_and_silence():
    bandit = condition("bernoulli", "exact-ts").env
    told = lambda delay, reward, **settings: tuple(  # noqa: E731
        float(x) for x in Late(bandit, 0, **settings)._arrival(jnp.asarray(delay), jnp.asarray(reward))
    )
    assert told(3, 1.0) == (3, 1)
    assert told(laws.NEVER, 1.0)[0] < 0
    assert told(5, 1.0, window=5) == (5, 1)
    assert told(6, 1.0, window=5)[0] < 0
    assert told(6, 1.0, window=5, silence="zero") == (5, 0)
    assert told(2, 0.0, window=5, silence="zero") == (5, 0)
    assert told(2, 1.0, window=5, silence="zero") == (2, 1)
    assert told(2, 0.0, silence="zero")[0] < 0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda env: Late(env, "soon"), "delay must be"),
        (lambda env: Late(env, "fixed 1.5"), "whole number"),
        (lambda env: Late(env, 1, silence="none"), "silence must be"),
        (lambda env: Late(Late(env, 1), 1), "late already"),
        (lambda env: LostRewards(2.0), "probability"),
        (lambda env: FixedDelay(-1), "rounds must be"),
        (lambda env: FixedDelay(2.7), "whole number in each entry; got 2.7"),
        (lambda env: EmpiricalDelay([0, 1.5]), "whole number in each entry; got 1.5"),
        (lambda env: EmpiricalDelay([0, np.nan]), "number"),
        (lambda env: EmpiricalDelay([]), "recorded delays"),
        (lambda env: Conversions(Thompson(Gaussian(), arms=2), DelayFunction(lambda key, obs, action: 1)), "share_by"),
        (lambda env: condition("bernoulli", "exact-ts", options={"delay": "fixed 3", "correction": "on"}), "correction must be"),
    ],
)
def test_mistakes_are_refused(make, words):
    with pytest.raises(ConfigError, match=words):
        make(condition("bernoulli", "exact-ts").env)


@pytest.mark.parametrize(
    "make",
    [
        lambda model: StopAtEvidence(Thompson(model, Exact(), arms=2)),
        lambda model: Thompson(model, Windowed(Exact(), 20), arms=2),
        lambda model: Thompson(model, Discounted(Exact(), 0.9), arms=2),
    ],
)
def test_agents_that_count_rounds_by_rewards_are_refused(make):
    """A reward that is 30 rounds late cannot stop a run in round 10, and a window of 20 rounds is not one of 20 rewards."""
    env = Bandit.with_means(Gaussian(), [0.0, 1.0])
    simulate(0, env, make(Gaussian()), Fixed(10), horizon=20, replications=2)
    with pytest.raises(ConfigError, match="counts a round for each reward"):
        simulate(0, Late(env, 30), make(Gaussian()), Fixed(10), horizon=20, replications=2)


def test_silence_needs_an_agent_that_counts_it():
    parts = condition("bernoulli", "exact-ts")
    with pytest.raises(ConfigError, match="conversions alone"):
        simulate(0, Late(parts.env, 3, silence="zero"), parts.agent, Sequential(), horizon=10, replications=2)
    with pytest.raises(ConfigError, match="without Conversions"):
        simulate(0, Late(parts.env, 3), Conversions(parts.agent), Sequential(), horizon=10, replications=2)


class TenTimes(GeometricDelay):
    """Another law than that of which it says what share has come."""

    def sample(self, key, obs, action):
        return 10 * super().sample(key, obs, action)


class TenTimesSaid(TenTimes):
    """As above, with a share that fits."""

    def share_by(self, age, action):
        return -jnp.expm1(-(jnp.asarray(age) // 10 + 1) * jnp.log1p(1 / self.mean))


@pytest.mark.parametrize("law", [TenTimes(5), LostRewards(0.1, TenTimes(5)), DelayByArm((FixedDelay(1), TenTimes(5)))])
def test_a_law_with_another_sample_does_not_say_what_share_has_come(law):
    """Conversions would be corrected by the shares of the law that was overridden."""
    agent = Thompson(Bernoulli(), Exact(), arms=2)
    with pytest.raises(ConfigError, match="share of rewards has come"):
        Conversions(agent, law)
    Conversions(agent, "learned")


def test_a_law_with_another_sample_may_say_what_share_has_come():
    law = TenTimesSaid(5)
    drawn = np.asarray(jax.vmap(lambda i: law.sample(random.fold_in(random.key(0), i), (), 0))(jnp.arange(4000)))
    for age in (0, 9, 10, 35, 100):
        share = float(law.share_by(age, 0))
        assert abs((drawn <= age).mean() - share) < 4 * np.sqrt(share * (1 - share) / len(drawn))
    Conversions(Thompson(Bernoulli(), Exact(), arms=2), law)


@pytest.mark.parametrize(
    ("sample", "words"), [(2.7, "type float"), (np.nan, "type float"), (np.ones(3, int), r"shape \[3\]"), (True, "type bool")]
)
def test_a_delay_is_one_whole_number(sample, words):
    env = Bandit.with_means(Gaussian(), [0.0, 1.0])
    late = Late(env, DelayFunction(lambda key, obs, action: jnp.asarray(sample)))
    with pytest.raises(ConfigError, match=words):
        simulate(0, late, Thompson(Gaussian(), Exact(), arms=2), Sequential(), horizon=5, replications=2)


@pytest.mark.parametrize(("given", "waits"), [(10, None), (10, 50), (None, 10)])
def test_silence_is_weighed_for_the_window_of_the_environment(given, waits):
    env = Late(Bandit.with_means(Bernoulli(), [0.2, 0.4]), "geometric 20", window=given, silence="zero")
    agent = Thompson(Bernoulli(), Exact(), arms=2)
    run = lambda agent: simulate(0, env, agent, Fixed(10), horizon=20, replications=2)  # noqa: E731
    with pytest.raises(ConfigError, match="wrong share"):
        run(Conversions(agent, "geometric 20", waits))
    run(Conversions(agent, "geometric 20", given))
    run(Conversions(agent, "learned"))


def test_words_of_laws():
    assert isinstance(delay_of(7), FixedDelay)
    assert str(delay_of("pareto 1.5 10")) == "late by a Pareto delay of shape 1.5 and scale 10 rounds"
