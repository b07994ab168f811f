"""Live experiments: the same decisions as a simulation, every reward once, and a ledger that proves itself."""

from __future__ import annotations

import json
import math

import jax
import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blts import _random, loop
from blts.agents import UCB1, Exact, Perturb, Pool, Thompson
from blts.batching import DoublingCounts, Fixed, Geometric, Sequential, StaticDoubling
from blts.envs import Bandit
from blts.errors import BltsError, ConfigError, StoreError, UnknownName
from blts.live import Experiment, Spec, policy, schema, store
from blts.live.aggregate import rows as rows_of_totals
from blts.models import Bernoulli, Gaussian, Laplace, Poisson, ZeroInflatedLogNormal
from blts.samplers import mala, sgld

from laws import LEVEL, counts_p

MEANS = (0.0, 0.4, 0.8)
LABELS = ("A", "B", "C")
WORLD = Bandit.with_means(Gaussian(sd=0.5), MEANS)
PRIOR = Gaussian(prior_mean=[0.0, 0.1, 0.2], prior_sd=1.0, sd=0.5)


def made(tmp_path, name="mail", **settings) -> Experiment:
    given = {"arms": LABELS, "model": "gaussian", "sampler": "exact", "batching": "external"} | settings
    return Experiment.create(tmp_path / "blts.db", name, **given)


# Live equals simulated


def simulated(agent, batching, horizon: int, seed: int) -> np.ndarray:
    """The actions of one replication, as the loop plays them."""
    from blts import simulate

    trace = simulate(seed, WORLD, agent, batching, horizon=horizon, replications=1, keep_actions=True)
    assert trace.actions is not None
    return np.asarray(trace.actions[0])


@jax.jit
def reward_of(key, t, action):
    """What the simulated world pays in round t."""
    replication = _random.fold_in(key, 0)
    state, _ = WORLD.reset(_random.split(_random.fold_in(replication, 0))[0])
    _, step = WORLD.step(_random.split(_random.fold_in(replication, t), 3)[0], state, action)
    return step.reward


def lived(experiment: Experiment, horizon: int, seed: int, at_once: int = 7) -> list[int]:
    """The arms of a live experiment that is paid by the simulated world, rewards told backwards."""
    key, played = _random.as_key(seed), []
    while len(played) < horizon:
        answer = experiment.ask(min(at_once, horizon - len(played)))
        told = []
        for decision in answer.decisions:
            played.append(LABELS.index(decision.arm))
            told.append((decision.id, float(reward_of(key, len(played), played[-1]))))
        experiment.tell(told[::-1])
        if answer.feedback_due:
            assert experiment.refresh().in_use
    return played


AGENTS = {
    "exact": (Exact(), Thompson(PRIOR, Exact())),
    "blts": (Perturb(sgld(0.1, 10, 8)), Thompson(PRIOR, Perturb(sgld(0.1, 10, 8)))),
    "ucb1": (UCB1(3), UCB1(3)),
}
SCHEMES = {
    "sequential": (Sequential(), 12),
    "static": (StaticDoubling(), 63),
    "dynamic": (DoublingCounts(), 60),
    "fixed": (Fixed(9), 50),
}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("agent", AGENTS)
def test_live_equals_simulated(tmp_path, agent, scheme):
    """Fed a simulation's rewards, an experiment makes its decisions; another seed makes others."""
    (sampler, player), (batching, horizon), seed = AGENTS[agent], SCHEMES[scheme], 5
    experiment = made(tmp_path, model=PRIOR, sampler=sampler, batching=batching, seed=seed)
    assert lived(experiment, horizon, seed) == simulated(player, batching, horizon, seed).tolist()
    assert experiment.verify() == []


def test_live_with_another_seed_is_another_experiment(tmp_path):
    """The mutant of the test above."""
    experiment = made(tmp_path, model=PRIOR, sampler=Exact(), batching=StaticDoubling(), seed=6)
    assert lived(experiment, 63, 5) != simulated(AGENTS["exact"][1], StaticDoubling(), 63, 5).tolist()


def test_keys_are_those_of_the_loop():
    assert policy.LAST == loop.LAST
    assert (jax.random.key_data(policy.root_key(3)) == jax.random.key_data(_random.fold_in(_random.as_key(3), 0))).all()
