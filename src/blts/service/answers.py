"""What the service answers."""

from __future__ import annotations

from typing import Any

import msgspec

from .. import live
from .keys import Key as StoredKey
from .roles import Role

Table = dict[str, Any]


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


class Arm(msgspec.Struct):
    """An arm of an experiment."""

    label: str
    metadata: Table
    active: bool
    """Whether new decisions can be this arm."""


class Definition(msgspec.Struct):
    """What an experiment is. Decisions, rewards and refreshes do not change it, so its ETag changes when people change it."""

    name: str
    specification: Table
    arms: list[Arm]
    paused: bool
    stopped: bool
    promoted: str | None
    """The arm of every new decision of an experiment that is stopped."""
    created_at: float


class Overview(msgspec.Struct):
    """Where an experiment stands."""

    name: str
    created_at: float
    decisions: int
    entries: int
    without_reward: int
    batch: int
    feedback_due: bool
    awaited: int
    policy: int
    policies: int
    paused: bool
    stopped: bool
    promoted: str | None
    refreshed_at: float | None
    position: int
    """Of the last entry of the ledger; it changes with everything that is done."""
    arms: list[str]
    active: list[str]
    report: Table | None
    """What the last stored report concludes."""


class Experiments(msgspec.Struct):
    """A page of experiments, in the order of their creation."""

    rows: list[Overview]
    next: str | None
    """What to give as `after` for the next page."""


class DecisionRow(msgspec.Struct):
    """A decision, and what became of it."""

    id: str
    t: int
    arm: str
    batch: int
    policy: int
    at: float
    propensity: float
    propensities: dict[str, float]
    status: str
    reward: float | None
    told_at: float | None
    exposed_at: float | None


class DecisionEntries(DecisionRow):
    """A decision with every entry about it, in the order in which they were written."""

    rewards: list[Table]
    metrics: list[Table]
    context: Table | None = None
    available: list[str] | None = None


class DecisionPage(msgspec.Struct):
    """A page of decisions."""

    rows: list[DecisionRow]
    next: int | None
    """What to give as `after` or `before`, whichever this page was asked with (`before` without either); None on the last."""


class PolicyRow(msgspec.Struct):
    """A policy version."""

    version: int
    kind: str
    batch: int
    t: int
    at: float
    in_use: bool
    failings: list[str]
    active: list[str]
    allocation: dict[str, float] | None
    n: dict[str, int]
    misfit: list[str]
    force: bool


class PolicyPage(msgspec.Struct):
    """A page of policy versions."""

    rows: list[PolicyRow]
    next: int | None


class AuditLine(msgspec.Struct):
    """Something that was done."""

    position: int
    at: float
    actor: str
    what: str
    detail: Table


class AuditPage(msgspec.Struct):
    """A page of the audit log."""

    rows: list[AuditLine]
    next: int | None


class Changed(msgspec.Struct):
    """How much a request changed."""

    changed: int
    """Decisions that were not so before."""


class Version(msgspec.Struct):
    """The policy version in use after a change."""

    version: int


class Job(msgspec.Struct):
    """What a worker was asked to do."""

    id: str
    experiment: str
    kind: str
    detail: Table
    state: str
    """waiting, running, done or failed."""
    result: Any
    """Of a refresh a table, of a verification the list of differences, of a job that failed the reason; null until it has ended."""
    actor: str
    asked_at: float
    began_at: float | None
    ended_at: float | None


class Key(msgspec.Struct):
    """A key without its secret."""

    id: str
    name: str
    role: Role
    experiments: list[str] | None
    origins: list[str]
    rate: float | None
    created_at: float
    created_by: str
    expires_at: float | None
    revoked_at: float | None
    revoked_by: str | None

    @staticmethod
    def of(key: StoredKey) -> Key:
        """From the stored one."""
        experiments = None if key.experiments is None else list(key.experiments)
        return Key(**(key._asdict() | {"experiments": experiments, "origins": list(key.origins)}))


class MadeKey(msgspec.Struct):
    """A key that was just made."""

    key: Key
    secret: str
    """What callers send, as Authorization: Bearer …; it is shown this once."""


class Keys(msgspec.Struct):
    """A page of keys, oldest first."""

    rows: list[Key]
    next: str | None
