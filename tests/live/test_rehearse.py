"""A rehearsal makes the decisions that experiments then make, and predicts what they give."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from blts.errors import BltsError, ConfigError
from blts.live import Experiment, Spec, rehearse
from blts.live.assumptions import AssumedArm, delay_of, seconds_of
from blts.live.rehearsal import Measured, Share
from blts.live.rehearsing import Plan, best_by_posterior, plan_of, run, world
from experiments import Hand

HOUR, DAY = 3600.0, 86400.0
TRUTH = {"A": "0.2", "B": "0.5"}


def planned(spec, truth=None, *, units=240, per_day=240.0, delay="exponential 3h", **settings) -> Plan:
    defaults = {"seed": 5, "exposed": 1.0, "step": "1h", "report": "6h"}
    return plan_of(spec, truth or TRUTH, units, per_day=per_day, delay=delay, **defaults | settings)


class Driven:
    """A full experiment in a database, driven through the steps of a rehearsal with the rewards of one of its replications."""

    def __init__(self, plan: Plan, replication: int, spec: Spec | None = None, seed: int | None = None):
        self.world, clock, spec = world(plan, replication), Hand(), spec or plan.spec
        clock.now = 0.0
        seeded = dataclasses.replace(spec, seed=self.world.seed if seed is None else seed)
        self.arms: list[int] = []
        self.refreshes = 0
        labels, arrived, waiting = [arm.label for arm in spec.arms], 0, []
        with Experiment.create("sqlite://", "driven", spec=seeded, clock=clock) as experiment:
            for now, until in plan.steps():
                clock.now, queue = now, list(range(arrived, until))
                arrived = until
                while True:
                    answer = experiment.ask(len(queue)) if queue else None
                    for unit, decision in zip(queue, answer.decisions if answer else (), strict=False):
                        arm = labels.index(decision.arm)
                        self.arms.append(arm)
                        reward = self.world.rewards[unit, arm]
                        if self.world.exposed[unit]:
                            if spec.exposure == "explicit":
                                experiment.expose([decision.id])
                            if reward != spec.default_reward:
                                waiting.append((now + self.world.delays[unit], decision.id, reward))
                    queue = queue[len(answer.decisions) :] if answer else []
                    due = [(name, reward) for at, name, reward in waiting if at <= now]
                    if due:
                        assert experiment.tell(due).accepted == len(due)
                    waiting = [row for row in waiting if row[0] > now]
                    done = experiment.refresh().refreshed
                    self.refreshes += done
                    if not (done and queue):
                        break
            table = experiment.context
            with table.database.read() as c:
                row = table.row(c)
            self.decisions, self.versions = row.t, row.versions


SPECS = {
    "windows": {"window": 6 * HOUR, "default_reward": 0.0},
    "early rewards": {"window": 6 * HOUR, "default_reward": 0.0, "learn": "open"},
    "missing": {"window": 2 * HOUR},
    "no windows": {},
    "floors": {"floor": 0.1, "control": "B", "control_share": 0.2, "burn_in": 20},
    "strict": {"strict": True, "batching": {"name": "fixed", "size": 30}},
    "external": {"batching": "external"},
    "by time": {"refresh_seconds": 4 * HOUR, "window": 3 * HOUR, "default_reward": 0.0},
    "by rewards": {"refresh_rewards": 25},
    "exposures": {"exposure": "explicit", "window": 4 * HOUR, "default_reward": 0.0},
    "from the vector": {"draw": "vector"},
    "UCB": {"sampler": "ucb1"},
    "chains": {"sampler": "blts", "batching": {"name": "fixed", "size": 60}},
}


def spec_of(**settings) -> Spec:
    defaults = {"arms": ["A", "B"], "model": "bernoulli", "batching": {"name": "fixed", "size": 20}}
    return Spec.of(**defaults | settings)


@pytest.mark.parametrize("name", SPECS)
def test_a_rehearsal_makes_the_decisions_of_the_experiment(name):
    """With a replication's seed and rewards, an experiment in a database makes the same decisions and as many refreshes."""
    spec = spec_of(**SPECS[name])
    plan = planned(spec, exposed=0.7 if name == "exposures" else 1.0)
    block = run(plan, range(2), best_by_posterior)
    for r in range(2):
        real = Driven(plan, r)
        assert real.decisions == block.t[r]
        assert real.arms == block.arms[r, : block.t[r]].tolist()
        assert real.refreshes == block.refreshes[r] == real.versions - 1
    assert block.refreshes.min() >= 2
