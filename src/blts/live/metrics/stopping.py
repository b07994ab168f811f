"""Stopping rules: when an experiment has its answer, its budget is spent, or its time is over; and what a worker does then.

P(best), looked at after every refresh, reaches 0.95 sooner or later in most experiments whose arms are all equal. So a rule stops
only at an arm that the report itself calls the winner, which takes evidence that stays valid however often one looks.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy as sa

from ...errors import ConfigError, did_you_mean
from .. import reports, schema
from ..conclusions.words import probability
from .definition import control_of
from .summary import alarms_of

if TYPE_CHECKING:
    from ..experiment import Experiment
    from ..spec import Spec

LAST_SECOND = 253_402_300_800
"""The year 10000: a larger number is in milliseconds, and would never come."""
WINNER = 0.95
"""P(best) from which an arm wins in reports that name no winner themselves."""


class StopRule(NamedTuple):
    """When to stop, and what to do then. Of P(best) and loss, all that are stated must hold."""

    p_best: float | None = None
    """Stop at an arm that is best with this probability."""
    loss: float | None = None
    """Stop at an arm whose choice is expected to lose at most so much of a reward a unit."""
    units: int | None = None
    """Decisions after which the experiment ends."""
    until: float | str | None = None
    """When the experiment ends: a date or a time (ISO 8601, UTC unless it says otherwise), or seconds since 1970. A date is its
    first moment."""
    action: str = "recommend"
    """"recommend" writes a sentence into report and status. "promote" has a worker stop the experiment, with the winner as the arm
    of all further decisions."""
    otherwise: str = "pause"
    """With "promote", what happens when the units or the time end without a winner: "control" promotes the control, "pause" pauses
    the experiment, once."""


class Stop(NamedTuple):
    """A rule that holds."""

    rule: str
    """winner, units or until."""
    arm: str | None
    """The winner, if there is one."""
    sentence: str


def rule_of(given: object) -> StopRule | None:
    """A stopping rule as people write it.

    Args:
        given: None, a `StopRule`, or a mapping with its fields.

    Returns:
        The rule, checked.

    Raises:
        ConfigError: it says nothing, or what cannot be.
    """
    if given is None:
        return None
    if isinstance(given, Mapping):
        unknown = sorted(set(given) - set(StopRule._fields))
        if unknown:
            hint = did_you_mean(unknown[0], StopRule._fields)
            raise ConfigError(f"A stopping rule has no setting {unknown[0]!r}.{hint} Its settings: {', '.join(StopRule._fields)}.")
        fields: dict[str, Any] = dict(given)
        if isinstance(fields.get("until"), datetime.date):  # as TOML gives it
            fields["until"] = fields["until"].isoformat()
        given = StopRule(**fields)
    if not isinstance(given, StopRule):
        raise ConfigError(f"stop must be a table with {', '.join(StopRule._fields)}; got {given!r}.")
    _check(given)
    return given


def _check(rule: StopRule) -> None:
    def number(name: str, holds: Callable[[Any], bool], sentence: str, kinds: Any = int | float) -> None:
        value = getattr(rule, name)
        if value is None:
            return
        if not isinstance(value, kinds) or isinstance(value, bool) or not math.isfinite(value) or not holds(value):
            raise ConfigError(f"The stopping rule's {name} must be {sentence}; got {value!r}.")

    number("p_best", lambda x: 0.5 <= x < 1, "a probability from 0.5 to below 1")
    number("loss", lambda x: x >= 0, "a number ≥ 0, in units of the reward")
    number("units", lambda x: x >= 1, "a whole number ≥ 1", int)
    moment_of("The stopping rule's until", rule.until)
    if rule.p_best is rule.loss is rule.units is rule.until is None:
        raise ConfigError("A stopping rule needs p_best, loss, units or until.")
    for name, known in (("action", ("recommend", "promote")), ("otherwise", ("control", "pause"))):
        if getattr(rule, name) not in known:
            raise ConfigError(f"The stopping rule's {name} must be {known[0]!r} or {known[1]!r}; got {getattr(rule, name)!r}.")


def date_of(seconds: float) -> str:
    """A moment for people."""
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")


def moment_of(name: str, until: float | str | None) -> float:
    """A moment as seconds since 1970.

    Args:
        name: of the setting, for the error.
        until: seconds, or a date or time in ISO 8601; None for never.

    Returns:
        The seconds; infinity for never.

    Raises:
        ConfigError: it is no moment.
    """
    if until is None:
        return math.inf
    if isinstance(until, str):
        try:
            moment = datetime.datetime.fromisoformat(until)
            until = (moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)).timestamp()
        except (ValueError, OverflowError):
            raise ConfigError(f"{name} must be a date such as 2026-12-31; got {until!r}.") from None
    if isinstance(until, bool) or not isinstance(until, int | float) or not 0 <= until < LAST_SECOND:
        raise ConfigError(f"{name} must be a date such as 2026-12-31, or seconds since 1970; got {until!r}.")
    return float(until)


def confirmed(report: Mapping[str, Any], arm: str) -> bool:
    """Whether a report calls an arm the winner; one that names no winners, whether P(best) is high enough."""
    if "winner" in report:
        return report["winner"] == arm
    return any(one["arm"] == arm and (one["p_best"] or 0.0) >= WINNER for one in report["arms"])


def winner(
    report: Mapping[str, Any], rule: StopRule, confirms: Callable[[Mapping[str, Any], str], bool] = confirmed
) -> dict[str, Any] | None:
    """The arm that a rule stops at.

    Args:
        report: what is known.
        rule: what is asked of P(best) and of the loss.
        confirms: whether a report calls an arm the winner.

    Returns:
        The arm's entry in the report; None where no arm is good enough, or the best has an alarm on a guardrail.
    """
    arms = [arm for arm in report["arms"] if arm["active"] and arm["p_best"] is not None]
    if len(arms) < 2:  # the last one left is best by default
        return None
    best = max(arms, key=lambda arm: arm["p_best"])
    alarmed = {arm["arm"] for metric in report.get("metrics", []) for arm in metric["arms"] if arm["alarm"]}
    sure = rule.p_best is None or best["p_best"] >= rule.p_best
    cheap = rule.loss is None or (best["expected_loss"] is not None and best["expected_loss"] <= rule.loss)
    return best if sure and cheap and best["arm"] not in alarmed and confirms(report, best["arm"]) else None


def due(report: Mapping[str, Any], status: Mapping[str, Any], now: float, spec: Spec) -> Stop | None:
    """Whether an experiment should stop.

    Args:
        report: what is known.
        status: where the experiment stands.
        now: the time.
        spec: has the rule.

    Returns:
        The rule that holds, with a sentence; None where none does, or the experiment is stopped.
    """
    rule = spec.stop
    if rule is None or status["stopped"]:
        return None
    best = winner(report, rule)
    arm = None if best is None else best["arm"]
    won = "there is no winner" if best is None else f"{arm!r} wins: it is best with probability {probability(best['p_best'])}"
    if best is not None and (rule.p_best is not None or rule.loss is not None):
        loss = "" if best["expected_loss"] is None else f", and choosing it loses {best['expected_loss']:.3g} a unit"
        return Stop("winner", arm, f"Stop: {won}{loss}.")
    if rule.units is not None and status["decisions"] >= rule.units:
        return Stop("units", arm, f"Stop: the budget of {rule.units} units is spent, and {won}.")
    if now >= moment_of("until", rule.until):
        return Stop("until", arm, f"Stop: it is past {date_of(moment_of('until', rule.until))}, and {won}.")
    return None


def concluded(
    spec: Spec, report: Mapping[str, Any], metrics: list[dict[str, Any]], status: Mapping[str, Any], now: float
) -> dict[str, Any]:
    """What metrics and the stopping rule add to a report.

    Args:
        spec: has the rule.
        report: the report so far.
        metrics: what is known of them (`summary`).
        status: where the experiment stands.
        now: the time.

    Returns:
        The metrics, the sentence of the stopping rule, and another recommendation where an active arm has an alarm.
    """
    found: dict[str, Any] = {"metrics": metrics, "stop": None}
    stop = due({**report, **found}, status, now, spec)
    if stop is not None:
        found["stop"] = stop.sentence
        found["recommendation"] = f"{stop.sentence} {str(report['recommendation']).replace('Keep on: ', 'If you go on: ', 1)}"
    active = {arm["arm"] for arm in report["arms"] if arm["active"]}
    alarms = [arm["alarm"] for metric in metrics for arm in metric["arms"] if arm["alarm"] and arm["arm"] in active]
    if alarms:
        first = f"Look at the guardrails first: {alarms[0]}.{'' if stop is None else f' {stop.sentence}'}"
        said = f"{report['recommendation']} Guardrail: {alarms[0]}." if status["stopped"] else first
        found["recommendation"], found["winner"] = said, None
    return found


def said(experiment: Experiment, status: Mapping[str, Any]) -> dict[str, Any]:
    """What the last stored report says of guardrails and of stopping, for the status.

    Args:
        experiment: whose report is read.
        status: where it stands.

    Returns:
        The alarms, and the sentence of the stopping rule or None; empty where the experiment has neither metrics nor a rule.
    """
    spec = experiment.spec
    if not spec.metrics and spec.stop is None:
        return {}
    report = reports.last(experiment)
    stop = None if report is None else due(report, status, experiment.session.now(), spec)
    return {"alarms": [] if report is None else alarms_of(report), "stop": None if stop is None else stop.sentence}


class Wanted(NamedTuple):
    """What guardrails and the stopping rule ask for."""

    retire: dict[str, str]
    """Arms to play no more, with their alarms."""
    stop: Stop | None
    """The rule that holds."""
    promote: str | None
    """The arm to stop with."""
    pause: bool
    """Whether to pause: there is no arm to stop with."""

    @property
    def anything(self) -> bool:
        return bool(self.retire) or self.promote is not None or self.pause


def wanted(report: Mapping[str, Any], status: Mapping[str, Any], now: float, spec: Spec) -> Wanted:
    """What to do after a report; a worker does it, and a rehearsal plays it.

    Arms with an alarm on a guardrail with `pause` are retired first, never the control and never the last one. The rule then waits
    for the report of the arms that are left.

    Args:
        report: what is known.
        status: where the experiment stands: decisions, active, paused, stopped.
        now: the time.
        spec: has the metrics and the rule.

    Returns:
        What is asked for.
    """
    retire: dict[str, str] = {}
    for metric in report["metrics"]:
        for arm in metric["arms"]:
            left = len(status["active"]) - len(retire)
            if metric["pause"] and arm["alarm"] and arm["arm"] in status["active"] and arm["arm"] not in retire and left > 1:
                retire[arm["arm"]] = arm["alarm"]
    stop = due(report, status, now, spec)
    if retire or stop is None or spec.stop is None or spec.stop.action != "promote":
        return Wanted(retire, stop, None, False)
    arm = stop.arm or (control_of(spec) if spec.stop.otherwise == "control" else None)
    promote = arm if arm in status["active"] else None
    return Wanted(retire, stop, promote, promote is None and not status["paused"])


def act(experiment: Experiment) -> list[str]:
    """Do what guardrails and the stopping rule ask for after the last refresh; a worker calls it.

    Args:
        experiment: its last stored report is read; nothing is done while there is none of the last policy version.

    Returns:
        What was done, in sentences.
    """
    spec = experiment.spec
    if not spec.metrics and spec.stop is None:
        return []
    report, status = reports.last(experiment), experiment.status()
    if report is None or status["stopped"] or report["as_of"]["version"] != status["policies"]:
        return []
    if not wanted(report, status, experiment.session.now(), spec).anything:
        return []
    # What was told since the last version counts before anything is final.
    now_wanted = wanted(reports.fresh(experiment), status, experiment.session.now(), spec)
    done = []
    for arm, alarm in now_wanted.retire.items():
        version = experiment.retire_arm(arm, f"guardrail: {alarm}")
        done.append(f"{arm!r} is played no more (policy version {version}): {alarm}")
    stop = now_wanted.stop
    if stop is not None and now_wanted.promote is not None:
        version = experiment.stop(now_wanted.promote, stop.sentence)
        return [
            f"{stop.sentence} Every new decision is {now_wanted.promote!r} (policy version {version}); units that have one keep it."
        ]
    if stop is None or not now_wanted.pause or _paused_before(experiment, stop.sentence):
        return done  # other arms make another version, and the next round has its report
    experiment.pause(stop.sentence)
    return [f"{stop.sentence} The experiment is paused."]


def _paused_before(experiment: Experiment, reason: str) -> bool:
    """Whether it was paused for the same reason before: somebody resumed it since, and knows."""
    table = schema.audit
    own = table.c.experiment == experiment.id, table.c.what == "pause", table.c.detail == json.dumps({"reason": reason})
    with experiment.database.read() as c:
        return c.execute(sa.select(table.c.position).where(*own).limit(1)).first() is not None
