"""The numbers and choices of a specification: which values each may have."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError, shown

if TYPE_CHECKING:
    from .spec import Spec


def check_settings(spec: Spec) -> None:
    """Refuse numbers and choices that no experiment can have (`ConfigError`)."""

    def number(name: str, holds: Callable[[Any], bool], sentence: str, whole: bool = False, optional: bool = False) -> None:
        value = getattr(spec, name)
        if optional and value is None:
            return
        kinds = int if whole else int | float
        if not isinstance(value, kinds) or isinstance(value, bool) or not _is_finite(value) or not holds(value):
            raise ConfigError(f"{name} must be {sentence}; got {shown(value)}.")

    number("seed", lambda x: 0 <= x < 2**32, "a whole number from 0 to 2**32 - 1", whole=True, optional=True)
    number("horizon", lambda x: x >= 1, "a whole number ≥ 1", whole=True)
    number("floor", lambda x: 0 <= x < 1, "a probability below 1")
    number("control_share", lambda x: 0 <= x < 1, "a probability below 1")
    number("burn_in", lambda x: 0 <= x < 2**31, "a whole number of units ≥ 0", whole=True)
    number("window", lambda x: x >= 0, 'a number of seconds ≥ 0, or a duration such as "1d"', optional=True)
    number("refresh_rewards", lambda x: x >= 1, "a whole number ≥ 1", whole=True, optional=True)
    number("refresh_seconds", lambda x: x > 0, "a number of seconds > 0", optional=True)
    number("forget", lambda x: x > 0, "a number of seconds > 0", optional=True)
    number("default_reward", lambda x: True, "a finite number", optional=True)
    number("cap", lambda x: True, "a finite number", optional=True)
    number("rhat", lambda x: x > 1, "a number above 1")
    choices = {"draw": ("auto", "agent", "vector"), "learn": ("closed", "open"), "exposure": ("assumed", "explicit")}
    for name, known in choices.items():
        if getattr(spec, name) not in known:
            raise ConfigError(f"{name} must be {' or '.join(map(repr, known))}; got {shown(getattr(spec, name))}.")
    if not isinstance(spec.strict, bool):
        raise ConfigError(f"strict must be true or false; got {shown(spec.strict)}.")


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number that no float holds
        return False
