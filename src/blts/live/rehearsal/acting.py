"""What a worker does after refreshes, played: it keeps reports, retires arms with an alarm, and heeds the stopping rule.

Reports, alarms and rules are those of experiments: `conclusions.comparing`, `metrics.summary` and `metrics.stopping`.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...models import Model
from .. import priors
from ..conclusions.blocks import Propensities
from ..conclusions.comparing import Seen, Version, compare, data_of, may_name
from ..conclusions.counted import counted
from ..export import STATUSES, WAITING, DecisionTable
from ..learning import Data
from ..metrics.stopping import concluded, wanted
from ..metrics.summary import alarms, values_of

if TYPE_CHECKING:
    from .simulating import Block

RULES = ("winner", "units", "until")


class Acts(NamedTuple):
    """What the stopping rule and the guardrails of some replications did; NaN and -1 where nothing."""

    rule: np.ndarray
    """The part of the rule that held first, of `RULES`, [replications]."""
    stopped_at: np.ndarray
    """After how many units."""
    stopped_after: np.ndarray
    """After how many seconds."""
    stop_arm: np.ndarray
    """The winner that it named, then or later; -1 where none."""
    alarm_at: np.ndarray
    """After how many units each metric had its first alarm of each arm, [replications, metrics, arms]."""
    retired_at: np.ndarray
    """After how many units each arm was retired, [replications, arms]."""

    @staticmethod
    def none(R: int, metrics: int, arms: int) -> Acts:
        """Nothing was done yet."""
        nan = lambda *shape: np.full((R, *shape), np.nan)  # noqa: E731
        return Acts(np.full(R, -1), nan(), nan(), np.full(R, -1), nan(metrics, arms), nan(arms))


def table_of(block: Block, r: int) -> DecisionTable:
    """The decisions of a replication, as an experiment has them, without propensities."""
    t = block.t[r]
    kinds = np.where(block.settled[r, :t], STATUSES.index("told"), STATUSES.index(WAITING)).astype(np.int8)
    none_yet = Propensities(np.zeros((1, len(block.labels))), np.zeros(t, int))
    exposed = block.exposed[r, :t] if block.explicit else np.full(t, np.nan)
    none, zero, active = np.full(t, np.nan), np.zeros(t, int), block.compared[r]
    columns = zero, zero, block.at[r, :t], exposed, kinds, block.rewards[r, :t], none, none_yet
    return DecisionTable("", block.arms[r, :t], *columns, block.labels, [k in active for k in range(len(block.labels))])


def propensities(block: Block, r: int) -> np.ndarray:
    """Those of a replication's decisions, [decisions, arms]."""
    p, laws = block.p[r, : block.t[r]].astype(float), block.laws[r]
    for law, end in zip(laws, [*(law.t for law in laws[1:]), len(p)], strict=True):
        if end > law.t:
            p[law.t : end] += (1 - p[law.t : end].sum(1, keepdims=True)) * law.vector
    return p


def report(block: Block, r: int, now: float, *, winner_only: bool = False) -> dict[str, Any]:
    """What a report on a replication would say of winners, alarms and stopping.

    Where the evidence is not enough for a winner, there is none, and the arms are not compared; with `winner_only` neither are
    their metrics.
    """
    spec, table, active = block.spec, table_of(block, r), block.compared[r]
    known = counted(table, spec, now)
    seen = Seen(table, known, spec, block.plan.built.model)
    enough = may_name(seen, active)
    if winner_only and not enough:
        return {"winner": None}
    if enough or any(metric.role == "guardrail" for metric in spec.metrics):
        table = dataclasses.replace(table, propensities=Propensities(propensities(block, r), np.arange(block.t[r])))
    if enough:
        seen = Seen(table, known, spec, block.plan.built.model)
        version = Version(active, lambda data: model_of(block, active, data), np.full(len(active), np.nan), block.failed[r])
        found = compare(spec, table, known, seen, version)
    else:
        arms = [{"arm": label, "active": k in active, "p_best": None} for k, label in enumerate(block.labels)]
        found = {"arms": arms, "winner": None, "recommendation": ""}
    values = values_of(spec, table, {name: told[r, : block.t[r]] for name, told in block.measured.items()}, now)
    return found | concluded(spec, found, alarms(spec, table, values), status(block, r), block.plan.start + now)


def model_of(block: Block, active: tuple[int, ...], data: Data) -> Model:
    """The model of some arms; a prior that is learned is fitted to the rewards."""
    spec, single = block.spec, block.single
    return spec.model_of(active, spec.arms, None if single is None else priors.fitted(single, data.arms, data.rewards))


def counting(block: Block, r: int, now: float) -> Data:
    """The rewards of a replication that count in reports, of the arms that are compared."""
    table = table_of(block, r)
    return data_of(table, counted(table, block.spec, now)).of(block.compared[r])


def status(block: Block, r: int) -> dict[str, Any]:
    """Where a replication stands."""
    active = [block.labels[k] for k in block.active[r]]
    standing = {"paused": bool(block.paused[r]), "stopped": bool(block.stopped[r])}
    return {"decisions": int(block.t[r]), "active": active} | standing


class Worker:
    """Keeps the reports of a block's replications, and acts on them.

    Args:
        block: whose replications it looks after.
    """

    def __init__(self, block: Block):
        self.block, self.spec = block, block.spec
        self.needed = bool(self.spec.metrics) or self.spec.stop is not None
        self.acts = Acts.none(block.R, len(self.spec.metrics), len(block.labels))
        self.kept: list[dict[str, Any]] = [{}] * block.R
        self.kept_version = np.zeros(block.R, int)
        self.paused_for: list[set[str]] = [set() for _ in range(block.R)]

    def round(self, now: float, arrived: int) -> None:
        """Look after every replication that is not stopped, once."""
        for r in np.flatnonzero(~self.block.stopped).tolist() if self.needed else []:
            if self.kept_version[r] != self.block.version[r]:
                self.kept[r], self.kept_version[r] = report(self.block, r, now), self.block.version[r]
                self._note_alarms(r, arrived)
            self._act(r, now, arrived)

    def _act(self, r: int, now: float, arrived: int) -> None:
        block, time = self.block, self.block.plan.start + now
        found = wanted(self.kept[r], status(block, r), time, self.spec)
        if found.anything:  # what was told since counts before anything is final
            found = wanted(report(block, r, now), status(block, r), time, self.spec)
        for label in found.retire:
            arm = block.labels.index(label)
            self.acts.retired_at[r, arm] = arrived
            block.rearm(r, now, tuple(k for k in block.active[r] if k != arm))
        if found.stop is None or found.retire:
            return
        if self.acts.rule[r] < 0:
            self.acts.rule[r] = RULES.index(found.stop.rule)
            self.acts.stopped_at[r], self.acts.stopped_after[r] = arrived, now
        if self.acts.stop_arm[r] < 0 and found.stop.arm is not None:
            self.acts.stop_arm[r] = block.labels.index(found.stop.arm)
        if found.promote is not None:
            block.stop(r, now, block.labels.index(found.promote))
        elif found.pause and found.stop.sentence not in self.paused_for[r]:
            self.paused_for[r].add(found.stop.sentence)
            block.paused[r] = True

    def _note_alarms(self, r: int, arrived: int) -> None:
        for m, metric in enumerate(self.kept[r]["metrics"]):
            for k, arm in enumerate(metric["arms"]):
                if arm["alarm"] and np.isnan(self.acts.alarm_at[r, m, k]):
                    self.acts.alarm_at[r, m, k] = arrived
