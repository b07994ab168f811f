"""What callers send: one type for each body and each query. Unknown fields are refused, so that a misspelt one is noticed."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from . import limits

Text = Annotated[str, Meta(min_length=1, max_length=200)]
Reason = Annotated[str, Meta(max_length=10_000)]
Count = Annotated[int, Meta(ge=1, le=limits.DECISIONS)]
Limit = Annotated[int, Meta(ge=1, le=limits.PAGE)]
Number = int | float | bool


class Body(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Of a request."""


class Ask(Body):
    """Decisions: `n` of them, or one for each of some units."""

    n: Count | None = None
    units: Annotated[list[Text], Meta(min_length=1, max_length=limits.DECISIONS)] | None = None
    """Whom they are for. A unit keeps its decision for ever; only a keyed hash of it is stored."""
    contexts: Annotated[list[dict[str, Any]], Meta(min_length=1, max_length=limits.DECISIONS)] | None = None
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
