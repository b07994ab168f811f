"""Live decisions are those of a simulation, and the same request has the same answer."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from blts import _random, loop, simulate
from blts.agents import UCB1, Exact, Pool, Thompson
from blts.batching import DoublingCounts, Fixed, Geometric, Sequential, StaticDoubling
from blts.envs import Bandit
from blts.errors import ConfigError
from blts.live import Experiment, policy
from blts.models import (
    Gaussian,
)
from blts.samplers import ula
from experiments import LABELS, PRIOR, SGLD, made, rewarded

WORLD = Bandit.with_means(Gaussian(sd=0.5), (0.0, 0.4, 0.8))


# Live equals simulated


@jax.jit
def reward_of(key, t, action):
    """What the simulated world pays in round t."""
    replication = _random.fold_in(key, 0)
    state, _ = WORLD.reset(_random.split(_random.fold_in(replication, 0))[0])
    _, step = WORLD.step(_random.round_key(replication, _random.Round.of(t), _random.ENV), state, action)
    return step.reward


def simulated(agent, batching, horizon: int, seed: int) -> list[int]:
    trace = simulate(seed, WORLD, agent, batching, horizon=horizon, replications=1, keep_actions=True)
    assert trace.actions is not None
    return np.asarray(trace.actions[0]).tolist()


def lived(experiment: Experiment, horizon: int, seed: int) -> list[int]:
    """The arms of a live experiment that is paid by the simulated world, its rewards told backwards."""
    key, played = _random.as_key(seed), []
    while len(played) < horizon:
        answer = experiment.ask(min(7, horizon - len(played)))
        told = []
        for decision in answer.decisions:
            played.append(LABELS.index(decision.arm))
            told.append((decision.id, float(reward_of(key, len(played), played[-1]))))
        experiment.tell(told[::-1])
        if answer.feedback_due:
            assert experiment.refresh().in_use
    return played


AGENTS = {"exact": (Exact(), Thompson(PRIOR, Exact())), "blts": (SGLD, Thompson(PRIOR, SGLD)), "ucb1": (UCB1(3), UCB1(3))}
SCHEMES = {
    "sequential": (Sequential(), 12),
    "static": (StaticDoubling(), 63),
    "dynamic": (DoublingCounts(), 60),
    "fixed": (Fixed(9), 50),
}
DEFAULT = {("exact", "dynamic"), ("exact", "fixed"), ("blts", "dynamic"), ("ucb1", "static")}


@pytest.mark.parametrize(
    ("agent", "scheme"),
    [pytest.param(a, s, marks=[] if (a, s) in DEFAULT else pytest.mark.slow) for a in AGENTS for s in SCHEMES],
)
def test_live_equals_simulated(tmp_path, agent, scheme):
    """Fed a simulation's rewards, an experiment makes its decisions, whatever the order in which they are told."""
    (sampler, player), (batching, horizon), seed = AGENTS[agent], SCHEMES[scheme], 5
    experiment = made(tmp_path, model=PRIOR, sampler=sampler, batching=batching, seed=seed)
    assert lived(experiment, horizon, seed) == simulated(player, batching, horizon, seed)
    assert experiment.verify() == []


def test_live_equals_simulated_without_a_closed_law(tmp_path):
    """Where propensities can only be estimated, `draw="agent"` makes the simulation's decisions, and "auto" does not."""
    pool, seed = Pool(ula(0.1, 5), 8), 5
    settings = {"model": PRIOR, "sampler": pool, "batching": Fixed(9), "seed": seed, "rhat": 1e30}  # five steps do not mix
    same = made(tmp_path, draw="agent", **settings)
    player = simulated(Thompson(PRIOR, pool), Fixed(9), 27, seed)
    assert lived(same, 27, seed) == player
    assert same.verify() == []
    other = made(tmp_path, "other", **settings)
    assert lived(other, 27, seed) != player


def test_live_with_another_seed_is_another_experiment(tmp_path):
    """The mutant of the test above."""
    experiment = made(tmp_path, model=PRIOR, sampler=Exact(), batching=Fixed(9), seed=6)
    assert lived(experiment, 50, 5) != simulated(AGENTS["exact"][1], Fixed(9), 50, 5)


def test_keys_are_those_of_the_loop():
    assert policy.LAST == loop.LAST


# Asking


def test_decisions_are_stored_and_numbered(tmp_path):
    experiment = made(tmp_path)
    answer = experiment.ask(4)
    assert not answer.feedback_due
    assert answer.why is None
    assert [d.id.split("-")[1] for d in answer.decisions] == ["1", "2", "3", "4"]
    assert {d.batch for d in answer.decisions} == {d.policy for d in answer.decisions} == {1}
    for decision in answer.decisions:
        assert set(decision.propensities) == set(LABELS)
        assert sum(decision.propensities.values()) == pytest.approx(1, abs=1e-6)
    cut = experiment.ask(10)
    assert len(cut.decisions) == 2
    assert cut.feedback_due
    assert cut.awaited == 6
    assert cut.why == "batch 1 is closed and awaits 6 rewards"
    assert experiment.ask(1).decisions == ()


def test_the_same_request_has_the_same_answer(tmp_path):
    experiment = made(tmp_path)
    first = experiment.ask(3, request_id="r1")
    assert experiment.ask(3, request_id="r1").decisions == first.decisions
    assert Experiment.open(tmp_path / "blts.db", "mail").ask(3, request_id="r1").decisions == first.decisions
    assert experiment.ask(3, request_id="r2").decisions != first.decisions
    with pytest.raises(ConfigError, match="something else"):
        experiment.ask(4, request_id="r1")
    told = experiment.tell(rewarded(first), request_id="t1")
    assert experiment.tell(rewarded(first), request_id="t1") == told
    assert told.accepted == 3
    with pytest.raises(ConfigError, match="something else"):
        experiment.tell(rewarded(first, 2.0), request_id="t1")


def test_chunks_are_the_whole(tmp_path):
    """Decisions do not depend on how many are asked for at once."""
    whole = made(tmp_path, "whole", batching="external").ask(40)
    parts = made(tmp_path, "parts", batching="external")
    arms = [d.arm for n in (1, 16, 3, 20) for d in parts.ask(n).decisions]
    assert arms == [d.arm for d in whole.decisions]


def test_more_than_the_largest_chunk(tmp_path, monkeypatch):
    monkeypatch.setattr(policy, "SIZES", (16,))
    answer = made(tmp_path, batching="external").ask(40)
    assert len(answer.decisions) == 40
    monkeypatch.undo()
    again = made(tmp_path, "again", batching="external").ask(40)
    assert [d.arm for d in again.decisions] == [d.arm for d in answer.decisions]


@pytest.mark.parametrize("n", [0, -1, 1.5, "3", True, 10**7])
def test_bad_numbers_of_decisions_are_refused(tmp_path, n):
    with pytest.raises(ConfigError, match="n must be a whole number"):
        made(tmp_path).ask(n)


def test_batching_that_tosses_coins_keeps_its_key(tmp_path):
    experiment = made(tmp_path, batching=Geometric(0.2))
    sizes = []
    for _ in range(5):
        answer = Experiment.open(tmp_path / "blts.db", "mail").ask(100)
        sizes.append(len(answer.decisions))
        experiment.tell(rewarded(answer))
        experiment.refresh()
    state = Geometric(0.2).init(_random.fold_in(policy.root_key(0), policy.LAST), 3)
    ends = []
    for t in range(1, sum(sizes) + 1):
        state, due = Geometric(0.2).step(state, (), jnp.asarray(0))
        ends += [t] * bool(due)
    assert ends == np.cumsum(sizes).tolist()
    assert experiment.verify() == []
