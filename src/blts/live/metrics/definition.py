"""Metrics besides the objective: guardrails, which must not get worse, and secondary metrics, which are only shown.

An experiment learns from its rewards alone. Values of its metrics are entries of the ledger as rewards are: told, corrected, and of
each decision the last one counts (`measuring`). A report has each metric's means, differences and alarms (`summary`). A worker
retires an arm that has an alarm on a guardrail with `pause` (`retire_alarmed`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import sqlalchemy as sa

from ... import registry
from ...errors import ConfigError, UnknownName
from ...models import Bernoulli, Model, Poisson, arm_count
from .. import ledger, schema
from ..checks import check_support, check_text, outside
from ..conclusions import estimates
from ..conclusions.words import number, probability
from ..durations import seconds_of
from ..parts import MODELS
from . import guardrails

if TYPE_CHECKING:
    from ..experiment import Experiment
    from ..export import DecisionTable
    from ..spec import Spec

OBJECTIVE = "reward"
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


class Metric(NamedTuple):
    """Something measured for each decision besides its reward."""

    name: str
    model: str
    """What its values are: one of `MODELS`, or a registered model."""
    role: str = "guardrail"
    """"guardrail": there is an alarm when an arm is worse than the control. "secondary": only shown."""
    better: str = "higher"
    margin: float | str = 0.0
    """How much worse than the control is tolerated: in the metric's unit, or a share of the control's mean, such as "5%"."""
    window: float | None = None
    """Seconds after which a value is no longer awaited; a value counts only when they are over. Without it every value counts."""
    default: float | None = None
    """What silence was worth when the window is over; without it silent decisions are left out."""
    pause: bool = False
    """Play an arm no more when there is an alarm for it; a worker does it."""

    @property
    def built(self) -> Model:
        """The model, for its support and its prior."""
        return registry.build("model", MODELS.get(self.model, self.model))

    @property
    def question(self) -> guardrails.Question:
        """What worse means."""
        sign, share = 1.0 if self.better == "higher" else -1.0, _share(self.margin)
        if share is not None:
            return guardrails.Question(sign, 1.0 - sign * share)
        return guardrails.Question(sign, 1.0, float(self.margin))

    def check(self) -> None:
        """Refuse what cannot be measured (`ConfigError`)."""
        check_text("A metric's name", self.name, 100)
        what = f"The metric {self.name!r}"
        if self.name == OBJECTIVE:
            raise ConfigError(f"{OBJECTIVE!r} is what the experiment learns from; give the metric another name.")
        for name, known in (("role", ("guardrail", "secondary")), ("better", ("higher", "lower"))):
            if getattr(self, name) not in known:
                raise ConfigError(f"{what} has the {name} {getattr(self, name)!r}; take {known[0]!r} or {known[1]!r}.")
        if not isinstance(self.model, str):
            raise ConfigError(f"{what} needs the name of a model, such as {', '.join(MODELS)}; got {self.model!r}.")
        try:
            registry.find("model", MODELS.get(self.model, self.model))
        except UnknownName:
            raise UnknownName("model", self.model, {*MODELS, *registry.entries("model")}) from None
        model = self.built
        if arm_count(model) is not None:
            raise ConfigError(f"{what} has a model with numbers for each arm; take one that is the same for all.")
        check_support(model)
        self._check_margin(what, model)
        if self.window is not None and not (_is_number(self.window) and self.window >= 0):
            raise ConfigError(f"{what} has the window {self.window!r}; give a number of seconds ≥ 0.")
        if self.default is not None:
            sentence = outside(model, self.default) if _is_number(self.default) else "it is not a number"
            if sentence:
                raise ConfigError(f"{what} cannot have the default {self.default!r}: {sentence}.")
            if self.window is None:
                raise ConfigError(
                    f'{what} has a default and no window after which silence counts as it; give a window too, such as "1d".'
                )
        if not isinstance(self.pause, bool) or (self.pause and self.role != "guardrail"):
            raise ConfigError(f"{what}: pause is true or false, and only a guardrail can pause an arm.")

    def _check_margin(self, what: str, model: Model) -> None:
        share = _share(self.margin)
        if share is None and not (_is_number(self.margin) and float(self.margin) >= 0):
            raise ConfigError(f'{what} has the margin {self.margin!r}; give a number ≥ 0, or a share such as "5%".')
        if share is not None and not 0 <= share < 1:
            raise ConfigError(f"{what} has the margin {self.margin!r}; give a share from 0% to below 100%.")
        if share and model.support == "real":
            raise ConfigError(
                f"{what} may be negative, where a share of the control's mean says nothing; give a margin in its unit."
            )


def _is_number(x: object) -> bool:
    return isinstance(x, int | float) and not isinstance(x, bool) and math.isfinite(x)


def _share(margin: float | str) -> float | None:
    """The share that a margin such as "5%" says; None where it says something else."""
    if not isinstance(margin, str) or not margin.strip().endswith("%"):
        return None
    try:
        return float(margin.strip()[:-1]) / 100
    except ValueError:
        return None


def metrics_of(given: object) -> tuple[Metric, ...]:
    """Metrics as people write them.

    Args:
        given: a list of `Metric`s, or of mappings with their fields.

    Returns:
        The metrics, checked.

    Raises:
        ConfigError: one of them cannot be measured.
    """
    if isinstance(given, str | Mapping) or not isinstance(given, Sequence):
        raise ConfigError(f'metrics must be a list of tables with at least "name" and "model"; got {given!r}.')
    metrics = tuple(one if isinstance(one, Metric) else _metric(one) for one in given)
    for metric in metrics:
        metric.check()
    names = [metric.name for metric in metrics]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ConfigError(f"Metrics need names of their own; {twice[0]!r} is given twice.")
    return metrics


def _metric(given: object) -> Metric:
    if not isinstance(given, Mapping) or not {"name", "model"} <= set(given):
        raise ConfigError(f'A metric is a table with at least "name" and "model"; got {given!r}.')
    unknown = sorted(set(given) - set(Metric._fields))
    if unknown:
        raise ConfigError(f"A metric has no setting {unknown[0]!r}; its settings: {', '.join(Metric._fields)}.")
    metric = Metric(**given)
    window = metric.window
    return metric._replace(window=seconds_of(f"The window of {metric.name!r}", window)) if isinstance(window, str) else metric


def metric_named(spec: Spec, name: str) -> Metric:
    """A metric of an experiment.

    Args:
        spec: the experiment's specification.
        name: of the metric.

    Returns:
        The metric.

    Raises:
        UnknownName: it has none of this name.
        ConfigError: it has none at all.
    """
    for metric in spec.metrics:
        if metric.name == name:
            return metric
    if not spec.metrics:
        raise ConfigError("This experiment has no metrics; they are part of its specification when it is created.")
    raise UnknownName("metric", name, [metric.name for metric in spec.metrics])


def control_of(spec: Spec) -> str:
    """The arm that others are compared with."""
    return spec.control or spec.arms[0].label


# Reading


def told_values(experiment: Experiment, c: sa.Connection, T: int) -> dict[str, np.ndarray]:
    """The last value of each metric that each of the first T decisions was told; NaN where none was."""
    measures, out = schema.measures, {}
    for metric in experiment.spec.metrics:
        own = measures.c.experiment == experiment.id, measures.c.metric == metric.name, measures.c.t <= T
        query = sa.select(measures.c.t, measures.c.value).where(*own).order_by(measures.c.position)
        values = np.full(T, np.nan)
        for t, value in ledger.fetch(c, query):  # in the order of the ledger, so the last one counts
            values[t - 1] = value
        out[metric.name] = values
    return out


def values_of(experiment: Experiment, table: DecisionTable, now: float) -> dict[str, np.ndarray]:
    """The value of each metric that counts for each decision.

    Args:
        experiment: whose metrics are read.
        table: its decisions.
        now: windows that end later are open, and their decisions do not count yet.

    Returns:
        By metric, one value for each decision; NaN where none counts.
    """
    exposures, spec = schema.exposures, experiment.spec
    T, starts = len(table.t), table.asked_at
    with experiment.database.read() as c:
        if spec.exposure == "explicit":
            starts = np.full(T, np.nan)
            for t, at in ledger.fetch(c, sa.select(exposures.c.t, exposures.c.at).where(exposures.c.experiment == experiment.id)):
                if t <= T:
                    starts[t - 1] = at
        out = told_values(experiment, c, T)
    counts = (np.array(table.status, dtype=object) != "cancelled") & ~np.isnan(starts.astype(float))
    for metric in spec.metrics:
        values, closed = out[metric.name], counts
        if metric.window is not None:
            closed = counts & (starts + metric.window <= now)
            if metric.default is not None:
                values = np.where(np.isnan(values), metric.default, values)
        out[metric.name] = np.where(closed, values, np.nan)
    return out


# Reporting


def summary(experiment: Experiment, table: DecisionTable) -> list[dict[str, Any]]:
    """What is known of each metric.

    Args:
        experiment: its metrics are those of its specification.
        table: its decisions.

    Returns:
        For each metric its arms with means, differences to the control and alarms, as JSON can hold it.
    """
    spec = experiment.spec
    if not spec.metrics:
        return []
    values = values_of(experiment, table, experiment.context.now())
    watched = sum(metric.role == "guardrail" for metric in spec.metrics)
    comparisons = max(1, watched * (len(table.labels) - 1))
    out = []
    for metric in spec.metrics:
        data = _Data(metric, table, values[metric.name])
        arms = [_arm(data, k, table.labels.index(control_of(spec)), comparisons) for k in range(len(table.labels))]
        said = {name: value for name, value in metric._asdict().items() if name != "name"}
        alarms = [arm["alarm"] for arm in arms if arm["alarm"]]
        out.append({"metric": metric.name, **said, "control": control_of(spec), "level": LEVEL, "arms": arms, "alarms": alarms})
    return out


def tolerated(metric: Mapping[str, Any]) -> float | None:
    """The difference to the control from which an arm is worse than a guardrail tolerates, from a metric of `summary`."""
    if metric["role"] != "guardrail":
        return None
    share, worse = _share(metric["margin"]), -1.0 if metric["better"] == "higher" else 1.0
    if share is None:
        return worse * float(metric["margin"])
    means = [arm["mean"] for arm in metric["arms"] if arm["arm"] == metric["control"]]
    return None if means[0] is None else worse * share * means[0]


class _Data:
    """The decisions that a metric has a value for."""

    def __init__(self, metric: Metric, table: DecisionTable, values: np.ndarray):
        has = ~np.isnan(values)
        self.metric, self.labels, self.model = metric, table.labels, metric.built
        self.arms, self.values, self.p = table.arms[has], values[has], table.p[has]

    def of(self, arm: int) -> np.ndarray:
        return self.values[self.arms == arm]

    def sums(self, pair: tuple[int, int], question: guardrails.Question) -> guardrails.Sums:
        return guardrails.terms(self.arms, self.values, self.p, pair, question).sums().at(-1)

    def probability_worse(self, arm: int, control: int) -> float:
        prior, support = (1.0, 1.0), "real"
        if isinstance(self.model, Bernoulli | Poisson):
            prior, support = (float(self.model.a), float(self.model.b)), self.model.support
        return guardrails.probability_worse(support, prior, self.of(arm), self.of(control), self.metric.question)


def _arm(data: _Data, k: int, base: int, comparisons: int) -> dict[str, Any]:
    """What is known of an arm, and how it compares with the control, which is arm `base`."""
    mine, metric = data.of(k), data.metric
    out: dict[str, Any] = {"arm": data.labels[k], "n": len(mine)}
    naive = estimates.naive(np.zeros(len(mine), int), mine, 1, binary=data.model.support == "binary")
    out |= {name: number(x.item()) for name, x in zip(("mean", "low", "high"), (naive.value, *naive.interval(LEVEL)), strict=True)}
    out |= {"difference": None, "p_worse": None, "evidence": None, "alarm": None}
    fewest = min(len(mine), len(data.of(base)))
    if k == base or fewest < 2:
        return out
    gap = data.sums((k, base), guardrails.Question(-1.0))
    if gap.weight > 0 and gap.variance > 0:
        value, half = float(gap.loss), float(Z * gap.se)
        out["difference"] = {"value": value, "low": value - half, "high": value + half}
    p, log_evidence = data.probability_worse(k, base), float(data.sums((k, base), metric.question).log_evidence())
    out |= {"p_worse": number(p), "evidence": math.exp(min(log_evidence, 700.0))}
    if metric.role == "guardrail" and fewest >= FEWEST and p >= ALARM and log_evidence >= math.log(comparisons / ERROR):
        more = f" by more than {metric.margin}" if metric.margin else ""
        worse = f"{data.labels[k]!r} is likely worse on {metric.name} than {data.labels[base]!r}{more}"
        out["alarm"] = f"{worse} (probability {probability(p)})"
    return out


def alarms_of(report: Mapping[str, Any]) -> list[str]:
    """The sentences of a report's alarms."""
    return [sentence for metric in report.get("metrics", []) for sentence in metric["alarms"]]


def retire_alarmed(experiment: Experiment, report: Mapping[str, Any]) -> list[str]:
    """Play arms no more for which a guardrail with `pause` has an alarm; never the control, and never the last arm.

    Args:
        experiment: whose arms are retired, with the alarm as the reason.
        report: its last report.

    Returns:
        What was done, in sentences.
    """
    done: list[str] = []
    for metric in report.get("metrics", []):
        for arm in metric["arms"]:
            if not (metric["pause"] and arm["alarm"]):
                continue
            status = experiment.status()
            if arm["arm"] in status["active"] and len(status["active"]) > 1 and not status["stopped"]:
                experiment.retire_arm(arm["arm"], f"guardrail: {arm['alarm']}")
                done.append(f"{arm['arm']!r} is played no more: {arm['alarm']}")
    return done
