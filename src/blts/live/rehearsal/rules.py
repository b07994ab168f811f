"""What a rehearsal found of the stopping rule and of guardrails."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..metrics.definition import Metric, control_of
from ..metrics.stopping import StopRule
from .acting import RULES, Acts
from .measured import Measured, Share

if TYPE_CHECKING:
    from .planning import Plan

DAY = 86400.0
LOW, HIGH = 0.1, 0.9
"""The quantiles that are shown beside medians."""
WHY = {"winner": "at a winner", "units": "as its units are spent", "until": "as its time is over"}


@dataclass(frozen=True)
class Stops:
    """When the stopping rule holds, and what it says; arrays have one element for each replication."""

    words: str
    rule: np.ndarray
    """The part of the rule that held first, a place in `RULES`; -1 where none did."""
    units: np.ndarray
    """Units that had arrived by then; NaN where it never held."""
    days: np.ndarray
    arm: np.ndarray
    """The winner that it named; -1 where none."""
    wrong: np.ndarray
    """Whether that is not the best arm, or all are equal."""

    @staticmethod
    def of(plan: Plan, acts: Acts) -> Stops | None:
        """From what the replications did; None without a rule."""
        rule = plan.spec.stop
        if rule is None:
            return None
        means = np.array([arm.mean for arm in plan.arms])
        wrong = (acts.stop_arm >= 0) & ((means < means.max()) | (means == means.min()).all())[acts.stop_arm]
        return Stops(_words(rule), acts.rule, acts.stopped_at, acts.stopped_after / DAY, acts.stop_arm, wrong)

    @property
    def held(self) -> np.ndarray:
        """Whether the rule ever held."""
        return self.rule >= 0

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "rule": self.words,
            "stops": Share.of_those(self.held).to_dict(),
            "never_stops": Share.of_those(~self.held).to_dict(),
            "by": {name: Share.of_those(self.rule == i).to_dict() for i, name in enumerate(RULES)},
            "units": _spread(self.units[self.held]),
            "days": _spread(self.days[self.held]),
            "names_an_arm": Share.of_those(self.arm >= 0).to_dict(),
            "names_a_wrong_arm": Share.of_those(self.wrong).to_dict(),
        }

    def facts(self, *, equal: bool) -> list[tuple[str, str]]:
        """Names and sentences; `equal` says that every winner is a false one."""
        kinds = [f"{Share.of_those(self.rule == i)} {WHY[name]}" for i, name in enumerate(RULES) if (self.rule == i).any()]
        how = f": {', '.join(kinds)}" if kinds else ""
        out = [("the rule", self.words), ("it stops", f"{Share.of_those(self.held)} of the time{how}")]
        if self.held.any():
            out.append(("when it stops", f"after {_middle(self.units[self.held])} units, {_middle(self.days[self.held])} days"))
        wrong = "it names a false winner" if equal else "it names a wrong arm"
        never = "it never stops", f"{Share.of_those(~self.held)} of the time"
        return [*out, (wrong, f"{Share.of_those(self.wrong)} of the time"), never]


def _words(rule: StopRule) -> str:
    certain = [f"P(best) {rule.p_best:g}"] if rule.p_best is not None else []
    certain += [f"an expected loss of at most {rule.loss:g}"] if rule.loss is not None else []
    parts = [f"a winner with {' and '.join(certain)}"] if certain else []
    parts += [f"{rule.units} units"] if rule.units is not None else []
    parts += [f"the date {rule.until}"] if rule.until is not None else []
    then = "recommends" if rule.action == "recommend" else f"promotes, or without a winner {_OTHERWISE[rule.otherwise]}"
    return f"{', or '.join(parts)}; {then}"


_OTHERWISE = {"pause": "pauses", "control": "promotes the control"}


@dataclass(frozen=True)
class GuardrailArm:
    """An arm other than the control, on a guardrail."""

    metric: str
    arm: str
    assumed: str
    control: str
    """What is assumed of the control."""
    worse: bool
    """Whether it is assumed to be worse than is tolerated, so that an alarm is right."""
    alarm_at: np.ndarray
    """Units that had arrived at the first alarm; NaN where there was none."""
    retired: np.ndarray | None
    """Whether the arm was retired, for this or another guardrail; None where the guardrail retires nothing."""

    @property
    def alarmed(self) -> np.ndarray:
        """Whether there was an alarm."""
        return ~np.isnan(self.alarm_at)

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "metric": self.metric,
            "arm": self.arm,
            "assumed": self.assumed,
            "assumed_of_control": self.control,
            "worse": self.worse,
            "alarm": Share.of_those(self.alarmed).to_dict(),
            "units_until_alarm": _spread(self.alarm_at[self.alarmed]),
            "retired": None if self.retired is None else Share.of_those(self.retired).to_dict(),
        }

    def cells(self) -> list[str]:
        """Of the table."""
        after = _middle(self.alarm_at[self.alarmed]) if self.alarmed.any() else "–"
        retired = "–" if self.retired is None else str(Share.of_those(self.retired))
        right = "yes" if self.worse else "no"
        return [self.metric, self.arm, self.assumed, self.control, right, str(Share.of_those(self.alarmed)), after, retired]


COLUMNS = ["guardrail", "arm", "assumed", "control", "worse", "alarm", "after units", "retired"]


def guardrails_of(plan: Plan, acts: Acts) -> list[GuardrailArm]:
    """Every arm other than the control, on every guardrail."""
    spec, labels = plan.spec, [arm.label for arm in plan.spec.arms]
    base = labels.index(control_of(spec))

    def one(m: int, metric: Metric, k: int) -> GuardrailArm:
        arms = plan.metrics[metric.name]
        worse = bool(metric.question.loss(np.array(arms[k].mean), np.array(arms[base].mean)) > 1e-12)
        retired = ~np.isnan(acts.retired_at[:, k]) if metric.pause else None
        return GuardrailArm(metric.name, labels[k], arms[k].words, arms[base].words, worse, acts.alarm_at[:, m, k], retired)

    watched = [(m, metric) for m, metric in enumerate(spec.metrics) if metric.role == "guardrail"]
    return [one(m, metric, k) for m, metric in watched for k in range(len(labels)) if k != base]


def false_alarms(arms: list[GuardrailArm], replications: int) -> Share:
    """The share of replications that had an alarm of an arm that is not worse than is tolerated."""
    return Share.of_those(np.any([one.alarmed for one in arms if not one.worse] or [np.zeros(replications, bool)], axis=0))


def quantile(values: np.ndarray, q: float) -> Measured:
    """A quantile over replications; its standard error is half the distance of those one standard error of a share away."""
    step = np.sqrt(q * (1 - q) / len(values))
    low, high = np.quantile(values, np.clip([q - step, q + step], 0, 1))
    return Measured(float(np.quantile(values, q)), float(high - low) / 2)


def _spread(values: np.ndarray) -> dict[str, Any]:
    """Median and quantiles as JSON can hold them."""
    names = {"q10": LOW, "median": 0.5, "q90": HIGH}
    if not len(values):
        return dict.fromkeys(names)
    return {name: quantile(values, q).to_dict() for name, q in names.items()}


def _middle(values: np.ndarray) -> str:
    """A median, and where 8 of 10 values are if that is not the same."""
    low, high = (f"{x:,.3g}" if x < 1e3 else f"{round(x, 2 - int(np.log10(x))):,.0f}" for x in np.quantile(values, [LOW, HIGH]))
    return f"{quantile(values, 0.5)}{'' if low == high else f' (8 of 10: {low} to {high})'}"
