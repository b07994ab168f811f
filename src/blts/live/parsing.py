"""Told rows, read: which decision a row is of, and whether its reward can be learned from."""

from __future__ import annotations

import math
import re
from typing import Any, NamedTuple

from .checks import outside

_ID = re.compile(r"([0-9a-f]{8})-([1-9][0-9]{0,17})", re.ASCII)


class Row(NamedTuple):
    id: Any
    t: int | None
    """The decision's number, or None where the id is not of this experiment."""
    reward: float
    invalid: str | None
    """Why the reward cannot be learned from."""
    malformed: bool = False
    """The row is not even a pair."""


def parse(row: Any, code: str, model: Any) -> Row:
    """A row of `tell`, whatever it is."""
    try:
        decision, reward = row
    except (TypeError, ValueError):
        return Row(_shown(row), None, math.nan, "a row is a decision id and a reward", True)
    number, invalid = _number(reward)
    if invalid is None:
        invalid = outside(model, number)
    return Row(decision if isinstance(decision, str) else _shown(decision), index_of(decision, code), number, invalid)


def index_of(decision: Any, code: str) -> int | None:
    """The number of a decision of this experiment, from its id."""
    match = _ID.fullmatch(decision) if isinstance(decision, str) else None
    return int(match[2]) if match is not None and match[1] == code else None


def _number(reward: Any) -> tuple[float, str | None]:
    if isinstance(reward, str | bytes) or reward is None:
        return math.nan, "a reward must be a number"
    try:
        return float(reward), None
    except (TypeError, ValueError, OverflowError):
        return math.nan, "a reward must be a number"


def _shown(value: Any) -> str:
    return repr(value)[:100]
