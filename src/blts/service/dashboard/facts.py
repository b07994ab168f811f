"""What the pages of one experiment are made of: plain data that `blts.live` gave, and who looks at it."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from . import charts, numbers


class Facts:
    """An experiment as its pages know it.

    Args:
        status: as `Experiment.status` gives it.
        report: as `Experiment.report` gives it; None where there is none yet.
        unit: "rate" where rewards are 0 or 1, so that means are in per cent; "number" elsewhere.
        now: the time, in seconds since 1970.
    """

    def __init__(self, status: dict[str, Any], report: dict[str, Any] | None, unit: str, now: float):
        self.status, self.report, self.unit, self.now = status, report, unit, now

    @property
    def name(self) -> str:
        return self.status["name"]

    @cached_property
    def looks(self) -> dict[str, charts.Look]:
        """By label; the same in every chart."""
        return charts.looks_of(self.status["arms"])

    @cached_property
    def arms(self) -> list[dict[str, Any]]:
        """The arms of the report, the active ones first. Which are active and what share each has is as it is now, because arms
        may have been retired since the report."""
        active, shares = self.status["active"], self.status["allocation"]
        found = [
            arm | {"active": arm["arm"] in active} | ({} if shares is None else {"allocation": shares.get(arm["arm"])})
            for arm in ([] if self.report is None else self.report["arms"])
        ]
        return sorted(found, key=lambda arm: not arm["active"])

    @property
    def winner(self) -> str | None:
        """The arm that won, if it was not retired since the report."""
        found = None if self.report is None else self.report["winner"]
        return found if found in self.status["active"] else None

    def arm(self, label: str | None) -> dict[str, Any] | None:
        """What the report says of an arm."""
        return next((arm for arm in self.arms if arm["arm"] == label), None)

    @property
    def control(self) -> str:
        return self.status["control"] if self.report is None else self.report["control"]

    @property
    def contextual(self) -> bool:
        """Whether decisions have contexts; then no arm is best for all."""
        return "features" in self.status

    def mean(self, arm: dict[str, Any]) -> dict[str, float | None]:
        """The centre and the interval of an arm's mean reward: of the posterior, or with contexts by AIPW."""
        if self.contextual:
            return arm["aipw"]
        centre = arm["posterior_mean"] if arm["posterior_mean"] is not None else arm["posterior_median"]
        return {"value": centre, "low": arm["posterior_low"], "high": arm["posterior_high"]}

    def interval(self, of: dict[str, Any] | None) -> str:
        """A value with its interval, in words."""
        if of is None or of["value"] is None:
            return numbers.NONE
        if of["low"] is None or of["high"] is None:
            return numbers.reward(of["value"], self.unit)
        if self.unit == "rate":
            low, high = (numbers.number(100 * of[end]) for end in ("low", "high"))
            return f"{numbers.number(100 * of['value'])}{numbers.THIN}% [{low}, {high}]"
        return f"{numbers.number(of['value'])} [{numbers.number(of['low'])}, {numbers.number(of['high'])}]"

    def state(self) -> tuple[str, str]:
        """The state of the experiment in a word, and its tone."""
        if self.status["stopped"]:
            return ("Promoted" if self.status["promoted"] else "Stopped", "done")
        if self.status["paused"]:
            return "Paused", "warn"
        return ("Running", "good") if self.status["decisions"] else ("Ready", "info")
