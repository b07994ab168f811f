"""What the service answers."""

from __future__ import annotations

from typing import Any

import msgspec

from .. import live


class Decision(msgspec.Struct):
    """What one unit gets."""

    id: str
    arm: str
    batch: int
    policy: int
    """The version of the policy that made it."""
    propensities: dict[str, float]
    """With which probability each arm would have been played."""
    unit: str | None
    available: bool
    """Whether a new decision could be this arm."""


class Decisions(msgspec.Struct):
    """The answer to an ask."""

    decisions: list[Decision]
    feedback_due: bool
    """The batch is closed and its rewards are awaited."""
    awaited: int
    paused: bool
    stopped: bool
    why: str | None
    """Why there are fewer decisions than were asked for."""

    @staticmethod
    def of(answer: live.Answer) -> Decisions:
        """From what an experiment answers."""
        decisions = [Decision(d.id, d.arm, d.batch, d.policy, d.propensities, d.unit, d.available) for d in answer.decisions]
        return Decisions(decisions, answer.feedback_due, answer.awaited, answer.paused, answer.stopped, answer.why)


class Told(msgspec.Struct):
    """What became of the rows that were told."""

    accepted: int
    duplicate: int
    conflict: int
    unknown: int
    invalid: int
    ids: dict[str, list[Any]]
    """Those that were not accepted, by what became of them."""
    awaited: int
    feedback_due: bool
    warnings: list[str]

    @staticmethod
    def of(told: live.Told) -> Told:
        """From what an experiment answers."""
        return msgspec.convert(told._asdict(), Told)


class Health(msgspec.Struct):
    """Whether the service can answer."""

    status: str
