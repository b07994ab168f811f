"""What callers send: one type for each body and each query. Unknown fields are refused, so that a misspelt one is noticed."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from . import limits
from .roles import Role

Text = Annotated[str, Meta(min_length=1, max_length=200)]
Reason = Annotated[str, Meta(min_length=1, max_length=10_000)]
Slug = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$(?!\n)")]  # Python's $ also stands before a last line break
"""The name of an experiment that is created over HTTP: part of an address as it is, and the key of a flag."""
Count = Annotated[int, Meta(ge=1, le=limits.DECISIONS)]
Limit = Annotated[int, Meta(ge=1, le=limits.PAGE)]
Cursor = Annotated[int, Meta(ge=0, le=2**62)]
Number = int | float | bool
Table = dict[str, Any]


class Body(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Of a request."""


# What applications send


class Ask(Body):
    """Decisions: `n` of them, or one for each of some units."""

    n: Count | None = None
    units: Annotated[list[Text], Meta(min_length=1, max_length=limits.DECISIONS)] | None = None
    """Whom they are for. A unit keeps its decision for ever; only a keyed hash of it is stored."""
    contexts: Annotated[list[Table], Meta(min_length=1, max_length=limits.DECISIONS)] | None = None
    """In an experiment that declares features, their values for each decision."""
    available: Annotated[list[str | list[str] | None], Meta(min_length=1, max_length=limits.DECISIONS)] | None = None
    """Labels of the arms that these decisions can be, or such a list for each decision."""


class Reward(Body):
    """One reward, of a decision or of a unit."""

    reward: Number
    decision_id: Text | None = None
    unit: Text | None = None


class Tell(Body):
    """Rewards, or values of a metric."""

    rewards: Annotated[list[Reward], Meta(min_length=1, max_length=limits.DECISIONS)]
    metric: Text | None = None
    """Whose values they are, if not rewards."""


class Aggregate(Body):
    """Totals of `count` rewards of an arm, which settle its oldest waiting decisions. The model says which totals it needs."""

    arm: Text
    count: Count
    total: Number | None = None
    total_of_squares: Number | None = None
    positive: int | None = None
    total_of_logs: Number | None = None
    total_of_squared_logs: Number | None = None


class Expose(Body):
    """Decisions that were carried out."""

    decision_ids: Annotated[list[Text], Meta(max_length=limits.DECISIONS)] = []
    units: Annotated[list[Text], Meta(max_length=limits.DECISIONS)] = []
    """Or whom they were for."""


# What people who look after experiments send


class Specification(Body):
    """An experiment as `Spec.of` takes it; only registered models, samplers and batchings, by their names."""

    arms: list[Text | Table] | dict[str, Table]
    """Labels, tables with a label and metadata, or a table from labels to metadata."""
    model: str | Table
    """A name such as conversions, counts, numbers or revenue, or a table with the name and options."""
    sampler: str | Table | None = None
    batching: str | Table | None = None
    prior: Any = None
    seed: int | None = None
    horizon: int | None = None
    floor: Number | None = None
    control: str | None = None
    control_share: Number | None = None
    burn_in: int | None = None
    window: Number | str | None = None
    learn: str | None = None
    exposure: str | None = None
    strict: bool | None = None
    refresh_rewards: int | None = None
    refresh_seconds: Number | str | None = None
    forget: Number | str | None = None
    delay: str | None = None
    privacy: Table | None = None
    default_reward: Number | None = None
    cap: Number | None = None
    rhat: Number | None = None
    draw: str | None = None
    metrics: list[Table] | None = None
    objective: dict[str, Number] | None = None
    stop: Any = None
    features: Any = None
    arm_features: Any = None
    shared: bool | None = None

    @property
    def stated(self) -> Table:
        """What was stated."""
        return {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not None}


class Create(Body):
    """A new experiment."""

    name: Slug
    specification: Specification


class Why(Body):
    """A change, and why it is made."""

    reason: Reason


class AddArm(Body):
    """An arm from the next decision on."""

    label: Text
    reason: Reason
    metadata: Table = {}
    options: dict[str, Number] = {}
    """Its own numbers of the model."""


class Stop(Body):
    """The end of an experiment."""

    reason: Reason
    promote: Text | None = None
    """The arm of every new decision; without one there are no more."""


class Correct(Body):
    """The right reward of a decision, or value of a metric."""

    decision_id: Text
    reward: Number
    reason: Reason
    metric: Text | None = None


class Cancel(Body):
    """Decisions whose units were never exposed."""

    decision_ids: Annotated[list[Text], Meta(min_length=1, max_length=limits.DECISIONS)]
    reason: Reason


class Refresh(Body):
    """A refresh."""

    force: bool = False
    """Whether it closes a batch whose rewards are not all in."""


class Verify(Body):
    """A comparison of everything stored with what it follows from."""


class FindUnit(Body):
    """Whose decision is looked for. It is in the body because addresses are written to logs."""

    unit: Text


class NewKey(Body):
    """A key to make."""

    name: Annotated[str, Meta(min_length=1, max_length=100)]
    role: Role
    experiments: Annotated[list[Text], Meta(min_length=1, max_length=1000)] | None = None
    """Those that it is for; all without this."""
    origins: Annotated[list[str], Meta(max_length=100)] = []
    """Pages from which browsers may use it, such as https://shop.example."""
    rate: Annotated[float, Meta(ge=0.1, le=1e6)] | None = None
    """Requests a second."""
    expires_at: float | None = None
    """Seconds since 1970."""


# Queries


class Page(Body):
    """Which rows: after a number in their order, or before one with the newest first."""

    after: Cursor | None = None
    before: Cursor | None = None
    limit: Limit = 100


class Listing(Body):
    """Which rows: after one with a name."""

    after: Text | None = None
    limit: Limit = 100


class WhichReport(Body):
    """Which report."""

    version: Annotated[int, Meta(ge=1, le=2**62)] | None = None
    """Of the policy with which the worker stored it."""
    fresh: bool = False
    """Whether it is computed now in any case."""
