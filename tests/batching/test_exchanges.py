"""Several agents: when they exchange, what they send, and the regret of ten agents on the paper's Gaussian bandit."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from blts import Exact, Linear, Perturb, Pool, Thompson, condition, sgld, simulate, ula
from blts._random import as_key, fold_in, uniform
from blts.batching import (
    Clocked,
    Determinant,
    DoubledSinceSwitch,
    DoublingCounts,
    Exchanges,
    Fixed,
    Geometric,
    Grid,
    PlaysDoubled,
    PrecisionGrown,
    Sequential,
    StaticDoubling,
)
from blts.batching.exchanges import Meeting
from blts.envs import Bandit
from blts.errors import ConfigError
from blts.models import Gaussian
from blts.record import Sent
from blts.simulation.messages import content

ACTIONS, PLAYS = 4, 240
ABSENT = {"leave": 0.3, "back": 0.4}


def scripted(seed: int, plays: int = PLAYS) -> np.ndarray:
    """Actions that prefer one arm, as agents come to do."""
    return np.random.default_rng(seed).choice(ACTIONS, plays, p=[0.7, 0.2, 0.07, 0.03])


def run(scheme, actions, obs=None, key: int = 3):
    """The states after each play and whether a batch ended with it."""
    start, states, due = played(scheme, actions, obs, as_key(key))
    return start, jax.tree.map(np.asarray, states), np.asarray(due)


@jax.jit
def played(scheme, actions, obs, key):
    def step(state, x):
        state, due = scheme.step(state, x[1] if obs is not None else (), x[0])
        return state, (state._replace(key=()) if isinstance(state, Meeting) else (), due)  # NumPy has no keys

    start = scheme.init(key, ACTIONS)
    xs = (actions, obs if obs is not None else jnp.zeros(len(actions)))
    return start, *jax.lax.scan(step, start, xs)[1]


ends = jax.jit(lambda scheme, rounds: jax.vmap(scheme.ends)(rounds))


class Wanted:
    """The same by hand: who is present is read from the scheme, all else is counted here."""

    def __init__(self, scheme: Exchanges, actions: np.ndarray):
        start, states, self.due = run(scheme, actions)
        self.final: Meeting = jax.tree.map(lambda x: x[-1], states)
        M, rule = scheme.agents, scheme.when
        present, turn = np.asarray(start.present), 0
        by_clock = None if isinstance(rule, PlaysDoubled) else np.asarray(ends(rule.scheme, np.arange(1 + len(actions))))
        common, own, unsent = np.zeros(ACTIONS, int), np.zeros((M, ACTIONS), int), np.zeros(M, int)
        up = down = sent = rounds = 0
        self.ends, self.present = [], []
        for i, action in enumerate(actions):
            assert present[turn], "an agent that is absent played"
            own[turn, action] += 1
            unsent[turn] += 1
            later = [m for m in range(turn + 1, M) if present[m]]
            if later:
                turn = later[0]
                continue
            rounds += 1
            if by_clock is None:
                due = any(own[m, a] >= max(1.0, common[a] / M) for m in range(M) for a in range(ACTIONS))
            else:
                due = bool(by_clock[rounds])
            if due:
                self.ends.append(i + 1)
                up, down, sent = up + present.sum(), down + present.sum(), sent + unsent.sum()
                common, own, unsent = common + own.sum(0), np.zeros_like(own), np.zeros_like(unsent)
            now = states.present[i]
            self.present.append(now)
            for m in range(M):
                if present[m] and not now[m] and unsent[m]:
                    up, sent, unsent[m] = up + 1, sent + unsent[m], 0
                down += now[m] and not present[m]
            present, turn = now, int(np.argmax(now))
            assert present.any()
        self.sent, self.unsent = Sent(up, down, sent), unsent


def check(scheme: Exchanges, actions: np.ndarray) -> None:
    """The scheme exchanges when it should, and counts every message and every play."""
    wanted = Wanted(scheme, actions)
    assert (np.flatnonzero(wanted.due) + 1).tolist() == wanted.ends
    assert tuple(map(int, wanted.final.sent)) == tuple(map(int, wanted.sent))
    assert wanted.final.unsent.tolist() == wanted.unsent.tolist()
    assert wanted.final.sent.plays + wanted.final.unsent.sum() == len(actions)


RULES = {
    "every round": Sequential(),
    "fixed": Fixed(5),
    "static": StaticDoubling(),
    "grid": Grid((2, 11)),
    "doubling": PlaysDoubled(),
}


@pytest.mark.parametrize("absent", [{}, ABSENT], ids=["all present", "some absent"])
@pytest.mark.parametrize("agents", [1, 3, 10])
@pytest.mark.parametrize("rule", RULES)
def test_exchanges_and_messages_are_those_counted_by_hand(rule, agents, absent):
    for seed in range(3):
        check(Exchanges(agents, RULES[rule], **absent), scripted(seed))


class ExchangeNotCounted(Exchanges):
    def _end_round(self, state):
        after, due = super()._end_round(state)
        missed = due & (state.rounds % 7 == 2)
        return after._replace(sent=jax.tree.map(lambda a, b: jnp.where(missed, b, a), after.sent, state.sent)), due


class BatchNotEnded(Exchanges):
    def step(self, state, obs, action):
        after, due = super().step(state, obs, action)
        return after, due & (after.rounds != 4)


class HandOverNotCounted(Exchanges):
    def _end_round(self, state):
        after, due = super()._end_round(state)
        gone = jnp.sum(state.present & ~after.present & ~due)
        return after._replace(sent=after.sent._replace(up=after.sent.up - gone)), due


class AbsentPlay(Exchanges):
    def _end_round(self, state):
        after, due = super()._end_round(state)
        return after._replace(turn=jnp.zeros_like(after.turn)), due


@pytest.mark.parametrize("mutant", [ExchangeNotCounted, BatchNotEnded, HandOverNotCounted, AbsentPlay])
def test_an_exchange_a_batch_a_hand_over_or_a_turn_that_is_wrong_is_noticed(mutant):
    with pytest.raises(AssertionError):
        check(mutant(3, Sequential() if mutant is not HandOverNotCounted else Fixed(5), **ABSENT), scripted(0))


def check_presence(scheme: Exchanges, actions: np.ndarray, key: int = 3) -> None:
    """Who plays, by enumeration: each agent's own number of the round says whether it leaves or returns, one agent at a time."""
    start, states, _ = run(scheme, actions, key=key)
    present, turn, rounds = [True] * scheme.agents, 0, 0
    for i in range(len(actions)):
        turn += 1
        while turn < scheme.agents and not present[turn]:
            turn += 1
        if turn == scheme.agents:
            rounds += 1
            u = np.asarray(uniform(fold_in(start.key, rounds), (scheme.agents,)))
            after = [u[m] >= scheme.leave if present[m] else u[m] < scheme.back for m in range(scheme.agents)]
            if not any(after):
                after[max((m for m in range(scheme.agents) if present[m]), key=lambda m: u[m])] = True
            present, turn = after, after.index(True)
        assert states.turn[i] == turn
        assert states.present[i].tolist() == present
    assert rounds >= 3


@pytest.mark.parametrize(("agents", "plays"), [(2, 240), (10, 240), (1000, 4000)])
def test_who_plays_is_right_from_two_agents_to_a_thousand(agents, plays):
    check_presence(Exchanges(agents, **ABSENT), scripted(4, plays))


def test_the_last_agent_stays():
    check_presence(Exchanges(2, leave=0.9, back=0.05), scripted(4))


class LowestStays(Exchanges):
    def _present(self, key, rounds, present):
        after = super()._present(key, rounds, present)
        u = uniform(fold_in(key, rounds), (self.agents,))
        nobody = ~jnp.any(jnp.where(present, u >= self.leave, u < self.back))
        return jnp.where(nobody, jnp.arange(self.agents) == jnp.argmin(jnp.where(present, u, 2.0)), after)


class ReturnsAsOftenAsItStays(Exchanges):
    def _present(self, key, rounds, present):
        return uniform(fold_in(key, rounds), (self.agents,)) >= self.leave


@pytest.mark.parametrize("mutant", [LowestStays(2, leave=0.9, back=0.05), ReturnsAsOftenAsItStays(1000, **ABSENT)])
def test_a_wrong_agent_that_plays_is_noticed(mutant):
    with pytest.raises(AssertionError):
        check_presence(mutant, scripted(4, 4 * max(60, mutant.agents)))


def test_one_agent_is_a_batching_scheme():
    actions = scripted(5)
    for scheme in (Sequential(), Fixed(5), StaticDoubling(), Grid((2, 11))):
        assert (run(Exchanges(1, scheme), actions)[2] == run(scheme, actions)[2]).all()
    assert (run(Exchanges(1), actions)[2] == run(DoubledSinceSwitch.ucrl2(1), actions)[2]).all()
    assert (run(Exchanges(6, Fixed(5)), actions)[2] == run(Fixed(30), actions)[2]).all()


def features(seed: int, plays: int = PLAYS):
    return np.random.default_rng(seed).normal(size=(plays, 3)).astype(np.float32)


def determinant(factor: float = 2.0) -> Determinant:
    return Determinant(3, factor, prior_precision=2.0, weight=4.0)


def precision(actions, x, weight: float = 4.0) -> np.ndarray:
    V = np.tile(2.0 * np.eye(3), (ACTIONS, 1, 1))
    for a, row in zip(actions, np.asarray(x), strict=True):
        V[a] += weight * np.outer(row, row)
    return V


def test_agents_ask_by_the_determinant_as_if_all_played_alike():
    """By hand, from the matrices themselves; and until somebody asks, no variance shrinks by more than the factor."""
    M, actions, x = 4, scripted(8), features(8)
    due = run(Exchanges(M, determinant()), actions, x)[2]
    assert (run(Exchanges(1, determinant()), actions, x)[2] == run(determinant(), actions, x)[2]).all()
    begin, ends = 0, []
    for end in range(M, PLAYS + 1, M):
        V, asks = precision(actions[:begin], x[:begin]), False
        for m in range(M):
            mine = slice(begin + m, end, M)
            alike = V + M * (precision(actions[mine], x[mine]) - 2.0 * np.eye(3))
            asks |= np.linalg.slogdet(alike)[1].sum() - np.linalg.slogdet(V)[1].sum() > np.log(2.0)
        if asks:
            ends.append(end)
            begin = end
        else:
            grown = precision(actions[:end], x[:end])
            most = max(np.linalg.eigvals(np.linalg.solve(old, new)).real.max() for old, new in zip(V, grown, strict=True))
            assert most <= 2.0 + 1e-6
    assert (np.flatnonzero(due) + 1).tolist() == ends
    assert 3 < len(ends) < PLAYS // M


def test_until_somebody_asks_plays_at_most_double():
    M, actions = 5, scripted(1, 2000)
    ends = np.flatnonzero(run(Exchanges(M), actions)[2]) + 1
    for begin, end in zip([0, *ends], ends, strict=False):
        before, after = (np.bincount(actions[:i], minlength=ACTIONS) for i in (begin, end))
        assert (after <= 2 * before + M).all()
        assert (np.bincount(actions[: end - M], minlength=ACTIONS) <= np.maximum(2 * before, M)).all()


def test_the_bounds_on_exchanges_hold():
    for agents in (1, 3, 10):
        for rule in (*RULES.values(), determinant()):
            for absent in ({}, ABSENT):
                scheme = Exchanges(agents, rule, **absent)
                due = run(scheme, scripted(2), features(2) if isinstance(rule, Determinant) else None)[2]
                assert due.sum() <= scheme.max_batches(PLAYS, ACTIONS)


def test_agents_are_away_as_often_as_is_said():
    present = np.asarray(Wanted(Exchanges(20, Fixed(3), leave=0.1, back=0.3), scripted(0, 6000)).present[50:])
    share, error = present.mean(), present.mean(1).std() * np.sqrt((1 + 0.6) / (1 - 0.6) / len(present))  # autocorrelation 0.6
    assert abs(share - 0.75) < 4 * error < 0.05
    left = (present[:-1] & ~present[1:]).sum() / present[:-1].sum()
    assert abs(left - 0.1) < 0.015


WORLD = Bandit.with_means(Gaussian(sd=0.5), [0.0, 0.5, 1.0])
MODEL = Gaussian(prior_mean=[0.0] * 3, prior_sd=1.0, sd=0.5)


def test_a_trace_has_exchanges_messages_and_numbers():
    """In lockstep and in turns; a summary for each message, or a row for each play."""
    sizes = {}
    for name, belief in {"exact": Exact(), "summaries": Perturb(ula(steps=3)), "rows": Pool(sgld(steps=3, minibatch=4), 4)}.items():
        agent = Thompson(MODEL, belief)
        trace = simulate(0, WORLD, agent, Exchanges(4, Fixed(5)), horizon=100, replications=3)
        sent = trace.messages
        assert trace.batches.tolist() == [5] * 3
        assert sent.up.tolist() == sent.down.tolist() == [20] * 3  # type: ignore[union-attr]
        sizes[name] = size = content(WORLD, agent)
        up = size.up * 20 + size.row * 100
        assert sent.numbers.tolist() == [up + 20 * size.down] * 3  # type: ignore[union-attr]
        assert trace.summary()["messages_mean"] == 40
    assert [size.row for size in sizes.values()] == [0, 0, 2]
    assert sizes["rows"].up == 0
    assert sizes["exact"].down == 2 * 3  # mean and sd of every arm
    assert sizes["rows"].down == 4 * 3 + 3  # the pool's members, and how often each arm was played
    assert simulate(0, WORLD, Thompson(MODEL, Exact()), Fixed(20), horizon=100, replications=3).messages is None


def test_agents_play_as_one_agent_does_within_a_batch():
    """The same random numbers: exchanges every 5 rounds of 4 agents are batches of 20 plays."""
    run_with = lambda scheme: simulate(0, WORLD, Thompson(MODEL, Exact()), scheme, horizon=100, replications=5)  # noqa: E731
    agents, one = run_with(Exchanges(4, Fixed(5))), run_with(Fixed(20))
    assert (agents.regret == one.regret).all()
    assert (agents.ends == one.ends).all()


PUBLISHED = {"every-round": (194.8, 650), "doubling": (194.7, 13.3), "static": (248.0, 9), "fixed": (6176.0, 10)}
"""Ten agents, 650 rounds, the paper's Gaussian bandit: total regret and exchanges of 400 runs of independent code."""


def regret_of(when: str, replications: int):
    c = condition("gaussian", "exact-ts", "exchanges", "uninformative", 6500, options={"agents": 10, "when": when, "size": 65})
    return simulate(1, c.env, c.agent, c.batching, horizon=c.horizon, replications=replications, times=1)


@pytest.mark.slow
@pytest.mark.parametrize("when", PUBLISHED)
def test_ten_agents_lose_what_independent_code_says(when):
    trace, (regret, exchanges) = regret_of(when, 400), PUBLISHED[when]
    error = np.sqrt(2) * trace.summary()["regret_se"]  # both have as many runs
    assert abs(trace.summary()["regret_mean"] - regret) < 3 * error
    assert abs(trace.batches.mean() - exchanges) <= 0.3


@pytest.mark.slow
def test_ten_agents_alone_lose_ten_times_as_much():
    c = condition("gaussian", "exact-ts", "exchanges", "uninformative", 650, options={"agents": 1, "when": "every-round"})
    s = simulate(1, c.env, c.agent, c.batching, horizon=650, replications=400, times=1).summary()
    assert abs(10 * s["regret_mean"] - 1564) < 3 * np.sqrt(2) * 10 * s["regret_se"]


def test_ten_agents_exchange_thirteen_times():
    """The default test of the same row, in fewer runs; the rule of one agent's counts would need some thirty exchanges."""
    trace = regret_of("doubling", 32)
    assert abs(trace.batches.mean() - 13.3) <= 3 * trace.summary()["batches_se"] < 0.75
    assert abs(trace.final_regret.mean() - 194.7) < 3 * trace.summary()["regret_se"] < 25


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((0,), "agents must be"),
        ((2, DoublingCounts()), "depend on plays"),
        ((2, "doubling"), "when must be a rule"),
        ((2, Fixed(2), 1.0), "leave must be"),
        ((2, Fixed(2), 0.1, 0.0), "back must be"),
        ((2, Fixed(2), "often"), "leave must be"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, words):
    with pytest.raises(ConfigError, match=words):
        Exchanges(*arguments)


def test_rules_say_what_they_are():
    agent = Thompson(Linear(prior_mean=[0.0, 0.0], sd=0.5), arms=3)
    assert isinstance(Exchanges(2, Determinant.of(agent)).when, PrecisionGrown)
    assert isinstance(Exchanges(2, Geometric(0.1)).when, Clocked)
    with pytest.raises(ConfigError, match="every-round, fixed, static, doubling, determinant"):
        condition("gaussian", "exact-ts", "exchanges", options={"when": "often"})
