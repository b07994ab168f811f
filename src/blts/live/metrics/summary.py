"""What is known of metrics: which values count, the means of arms, their differences to the control, and alarms.

Reports and rehearsals call the same functions, on the same table of decisions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import sqlalchemy as sa

from ...models import Bernoulli, Poisson
from .. import ledger, schema
from ..conclusions import estimates
from ..conclusions.words import number, probability
from . import guardrails
from .definition import Metric, control_of, share_of

if TYPE_CHECKING:
    from ..experiment import Experiment
    from ..export import DecisionTable
    from ..spec import Spec

LEVEL, Z = 0.95, 1.96
ALARM = 0.95
"""The probability that an arm is worse than is tolerated, from which there may be an alarm."""
ERROR = 0.05
"""The largest chance that an experiment ever has a false alarm, over all its arms, guardrails and looks."""
FEWEST = 50
"""Units that an arm and the control must have before there is an alarm."""
METHOD = (
    "Means are naive, with Student intervals, or Wilson's for 0 and 1: after an adaptive allocation they may be a little off. "
    "Differences to the control are weighted by the probabilities of the decisions, which corrects for that. The probability of "
    "being worse is that of a posterior: Beta for conversions, Gamma for counts, a Student distribution of the mean elsewhere. An "
    f"alarm needs that probability to be {ALARM:g}, {FEWEST} units of the arm and of the control, and evidence that stays valid "
    f"however often one looks: the chance that an experiment ever has a false alarm is then about {100 * ERROR:g} % at most."
)


def told_values(experiment: Experiment, c: sa.Connection, T: int) -> dict[str, np.ndarray]:
    """The last value of each metric that each of the first T decisions was told; NaN where none was."""
    measures, out = schema.measures, {}
    for metric in experiment.spec.metrics:
        own = measures.c.experiment == experiment.id, measures.c.metric == metric.name, measures.c.t <= T
        values = np.full(T, np.nan)
        for found in ledger.pieces(c, (measures.c.t, measures.c.value), (measures.c.t, measures.c.position), *own):
            t, told = np.array(found, float).T
            values[t.astype(int) - 1] = told  # a decision's values in their order, so the last one counts
        out[metric.name] = values
    return out


def values_of(spec: Spec, table: DecisionTable, told: Mapping[str, np.ndarray], now: float) -> dict[str, np.ndarray]:
    """The value of each metric that counts for each decision.

    Args:
        spec: has the metrics.
        table: all decisions.
        told: the value of each metric that each decision was told last; NaN where none was.
        now: windows that end later are open, and their decisions do not count yet.

    Returns:
        By metric, one value for each decision; NaN where none counts.
    """
    starts, out = table.exposed_at if spec.exposure == "explicit" else table.asked_at, {}
    counts = ~table.are("cancelled") & ~np.isnan(starts)
    for metric in spec.metrics:
        values, closed = told[metric.name], counts
        if metric.window is not None:
            closed = counts & (starts + metric.window <= now)
            if metric.default is not None:
                values = np.where(np.isnan(values), metric.default, values)
        out[metric.name] = np.where(closed, values, np.nan)
    return out


# Reporting


def summary(spec: Spec, table: DecisionTable, values: Mapping[str, np.ndarray]) -> list[dict[str, Any]]:
    """What is known of each metric.

    Args:
        spec: has the metrics.
        table: all decisions.
        values: those that count (`values_of`).

    Returns:
        For each metric its arms with means, differences to the control and alarms, as JSON can hold it.
    """
    return [_of_metric(data, [_arm(data, k) for k in range(len(table.labels))]) for data in _compared(spec, table, values)]


def alarms(spec: Spec, table: DecisionTable, values: Mapping[str, np.ndarray]) -> list[dict[str, Any]]:
    """The entries of `summary` with nothing of an arm but its alarm, which is quicker."""
    return [
        _of_metric(data, [{"arm": label, "alarm": data.alarm(k)} for k, label in enumerate(table.labels)])
        for data in _compared(spec, table, values)
    ]


def _compared(spec: Spec, table: DecisionTable, values: Mapping[str, np.ndarray]) -> list[_Data]:
    watched = sum(metric.role == "guardrail" for metric in spec.metrics)
    comparisons, base = max(1, watched * (len(table.labels) - 1)), table.labels.index(control_of(spec))
    return [_Data(metric, table, values[metric.name], base, comparisons) for metric in spec.metrics]


def _of_metric(data: _Data, arms: list[dict[str, Any]]) -> dict[str, Any]:
    said = {name: value for name, value in data.metric._asdict().items() if name != "name"}
    control, loud = data.labels[data.base], [arm["alarm"] for arm in arms if arm["alarm"]]
    return {"metric": data.metric.name, **said, "control": control, "level": LEVEL, "arms": arms, "alarms": loud}


def tolerated(metric: Mapping[str, Any]) -> float | None:
    """The difference to the control from which an arm is worse than a guardrail tolerates, from a metric of `summary`."""
    if metric["role"] != "guardrail":
        return None
    share, worse = share_of(metric["margin"]), -1.0 if metric["better"] == "higher" else 1.0
    if share is None:
        return worse * float(metric["margin"])
    means = [arm["mean"] for arm in metric["arms"] if arm["arm"] == metric["control"]]
    return None if means[0] is None else worse * share * means[0]


class _Data:
    """The decisions that a metric has a value for."""

    def __init__(self, metric: Metric, table: DecisionTable, values: np.ndarray, base: int, comparisons: int):
        has = ~np.isnan(values)
        self.metric, self.labels, self.model = metric, table.labels, metric.built
        self.arms, self.values, self.p = table.arms[has], values[has], table.propensities.of(has)
        self.base, self.comparisons = base, comparisons
        """The control's number, and how many pairs of an arm and a guardrail are compared."""
        self.probability_worse = cache(self._probability_worse)
        self.log_evidence = cache(lambda arm: float(self.sums(arm, metric.question).log_evidence()))

    def of(self, arm: int) -> np.ndarray:
        return self.values[self.arms == arm]

    def fewest(self, arm: int) -> int:
        """The units of the arm or of the control, whichever has fewer."""
        return min(int((self.arms == arm).sum()), int((self.arms == self.base).sum()))

    def sums(self, arm: int, question: guardrails.Question) -> guardrails.Sums:
        return guardrails.total(self.arms, self.values, self.p, (arm, self.base), question)

    def _probability_worse(self, arm: int) -> float:
        prior, support = (1.0, 1.0), "real"
        if isinstance(self.model, Bernoulli | Poisson):
            prior, support = (float(self.model.a), float(self.model.b)), self.model.support
        return guardrails.probability_worse(support, prior, self.of(arm), self.of(self.base), self.metric.question)

    def alarm(self, arm: int) -> str | None:
        """The sentence of an arm's alarm; None where there is none. What is quick to compute is looked at first."""
        if self.metric.role != "guardrail" or arm == self.base or self.fewest(arm) < FEWEST:
            return None
        if self.log_evidence(arm) < math.log(self.comparisons / ERROR) or not self.probability_worse(arm) >= ALARM:
            return None
        more = f" by more than {self.metric.margin}" if self.metric.margin else ""
        worse = f"{self.labels[arm]!r} is likely worse on {self.metric.name} than {self.labels[self.base]!r}{more}"
        return f"{worse} (probability {probability(self.probability_worse(arm))})"


def _arm(data: _Data, k: int) -> dict[str, Any]:
    """What is known of an arm, and how it compares with the control."""
    mine = data.of(k)
    out: dict[str, Any] = {"arm": data.labels[k], "n": len(mine)}
    naive = estimates.naive(np.zeros(len(mine), int), mine, 1, binary=data.model.support == "binary")
    out |= {name: number(x.item()) for name, x in zip(("mean", "low", "high"), (naive.value, *naive.interval(LEVEL)), strict=True)}
    out |= {"difference": None, "p_worse": None, "evidence": None, "alarm": data.alarm(k)}
    if k == data.base or data.fewest(k) < 2:
        return out
    gap = data.sums(k, guardrails.Question(-1.0))
    if gap.weight > 0 and gap.variance > 0:
        value, half = float(gap.loss), float(Z * gap.se)
        out["difference"] = {"value": value, "low": value - half, "high": value + half}
    return out | {"p_worse": number(data.probability_worse(k)), "evidence": math.exp(min(data.log_evidence(k), 700.0))}


def alarms_of(report: Mapping[str, Any]) -> list[str]:
    """The sentences of a report's alarms."""
    return [sentence for metric in report.get("metrics", []) for sentence in metric["alarms"]]


def current_values(experiment: Experiment, table: DecisionTable) -> dict[str, np.ndarray]:
    """The values of an experiment's metrics that count now (`values_of`)."""
    with experiment.database.read() as c:
        told = told_values(experiment, c, len(table.t))
    return values_of(experiment.spec, table, told, experiment.session.now())
