"""Rehearsals, and full experiments that are driven through their steps."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from scipy import stats

from blts.live import Experiment, Spec, reports
from blts.live.conclusions.comparing import data_of
from blts.live.conclusions.counted import counted
from blts.live.export import table_of
from blts.live.metrics import stopping
from blts.live.rehearsal.planning import Plan, plan_of, world
from experiments import Hand

HOUR, DAY = 3600.0, 86400.0
TRUTH = {"A": "0.2", "B": "0.5"}
REPLICATIONS = range(32)  # everywhere the same, so that few programs are compiled
SETTINGS = {"units": 120, "per_day": 120.0, "delay": "exponential 3h", "step": "1h", "replications": 32}


def planned(spec, truth=None, *, units=120, per_day=120.0, delay="exponential 3h", **settings) -> Plan:
    defaults = {"seed": 5, "exposed": 1.0, "step": "1h", "report": "6h"}
    return plan_of(spec, truth or TRUTH, units, per_day=per_day, delay=delay, **defaults | settings)


def far_apart(model, arms, rewards, active) -> int | None:
    """A rule that costs little: the better of two arms whose means are two standard errors apart."""
    del model
    one, other = (rewards[arms == arm] for arm in active)
    if min(len(one), len(other)) < 5:
        return None
    gap, se = other.mean() - one.mean(), math.sqrt(one.var() / len(one) + other.var() / len(other))
    return None if abs(gap) < 2 * se else active[int(gap > 0)]


class Driven:
    """A full experiment in a database, driven through the steps of a rehearsal with the rewards of one of its replications."""

    def __init__(self, plan: Plan, replication: int):
        self.world, self.spec, self.clock = world(plan, replication), plan.spec, Hand()
        self.clock.now = 0.0
        self.arms: list[int] = []
        self.refreshes, self.winner, self.waiting = 0, None, []
        self.measures = {metric.name: [] for metric in self.spec.metrics}
        self.did: list[str] = []
        self.alarms: set[str] = set()
        self.stopped_after: float | None = None
        self.labels, arrived, read, steps = [arm.label for arm in self.spec.arms], 0, 0.0, plan.steps()
        seeded = dataclasses.replace(self.spec, seed=self.world.seed)
        with Experiment.create("sqlite://", "driven", spec=seeded, clock=self.clock) as experiment:
            for i, (now, until) in enumerate(steps):
                self.clock.now = now
                self._step(experiment, list(range(arrived, until)))
                arrived = until
                if now // plan.report > read or i == len(steps) - 1:
                    read = now // plan.report
                    self.winner = self._named(experiment) if self.winner is None else self.winner
            self.status = experiment.status()
            self.versions = self.status["policies"]

    def _step(self, experiment: Experiment, queue: list[int]) -> None:
        now, done = self.clock.now, True
        while done:
            decisions = experiment.ask(len(queue)).decisions if queue else ()
            if self.spec.exposure == "explicit":
                experiment.expose([d.id for unit, d in zip(queue, decisions, strict=False) if self.world.exposed[unit]])
            for unit, decision in zip(queue, decisions, strict=False):
                self.arms.append(self.labels.index(decision.arm))
                reward = self.world.rewards[unit, self.arms[-1]]
                comes = now + self.world.delays[unit]
                if self.world.exposed[unit] and reward != self.spec.default_reward:
                    self.waiting.append((comes, decision.id, reward))
                for metric in self.spec.metrics:
                    value = self.world.metrics[metric.name][unit, self.arms[-1]]
                    if self.world.exposed[unit] and value != metric.default:
                        self.measures[metric.name].append((comes, decision.id, value))
            queue = queue[len(decisions) :]
            due = [(name, reward) for at, name, reward in self.waiting if at <= now]
            if due:
                assert experiment.tell(due).accepted == len(due)
            self.waiting = [row for row in self.waiting if row[0] > now]
            for metric, rows in self.measures.items():
                due = [(name, value) for at, name, value in rows if at <= now]
                if due:
                    assert experiment.tell(due, metric=metric).accepted == len(due)
                self.measures[metric] = [row for row in rows if row[0] > now]
            refreshed = experiment.refresh().refreshed
            self.refreshes += refreshed
            if self.spec.metrics or self.spec.stop:
                self._look_after(experiment)
            done = refreshed and bool(queue)

    def _look_after(self, experiment: Experiment) -> None:
        """What a worker does after a refresh, and what the status then says."""
        reports.keep(experiment)
        self.did += stopping.act(experiment)
        status = experiment.status()
        if self.stopped_after is None and (status["stopped"] or status["paused"] or status["stop"]):
            self.stopped_after = self.clock.now
        self.alarms |= set(status["alarms"])

    def _named(self, experiment: Experiment) -> int | None:
        """The winner by what stands in the ledger now."""
        table = table_of(experiment)
        data = data_of(table, counted(table, self.spec, self.clock.now))
        return far_apart(None, data.arms, data.rewards, tuple(range(len(self.labels)))) if len(data.arms) else None


def spec_of(**settings) -> Spec:
    defaults = {"arms": ["A", "B"], "model": "bernoulli", "batching": {"name": "fixed", "size": 20}}
    return Spec.of(**defaults | settings)


def smallest_p(some: np.ndarray, others: np.ndarray) -> float:
    """Of t-tests for each column, with the variances of both; where both are constant, whether they are the same."""
    gap = np.abs(some.mean(0) - others.mean(0))
    se = np.sqrt(some.var(0, ddof=1) / len(some) + others.var(0, ddof=1) / len(others))
    t = np.divide(gap, se, out=np.where(gap > 1e-9, np.inf, 0.0), where=se > 1e-9)
    return float(2 * stats.t.sf(t, min(len(some), len(others)) - 1).min())
