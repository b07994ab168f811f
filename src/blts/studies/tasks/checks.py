"""What conditions of tasks are checked with."""

from __future__ import annotations

import difflib
import math
from typing import Any

from ...errors import ConfigError
from ..spec import Condition


def refuse_unknown(task: str, condition: Condition, keys: tuple[str, ...]) -> None:
    for name in condition:
        if name not in keys:
            near = difflib.get_close_matches(name, keys, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ConfigError(f"The task {task!r} has no key {name!r}.{hint} Its keys: {', '.join(keys)}.")


def whole(name: str, value: Any, least: int = 1, most: int | None = None) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least or (most is not None and value > most):
        limits = f"≥ {least}" if most is None else f"from {least} to {most}"
        raise ConfigError(f"{name} must be a whole number {limits}; got {value!r}.")
    return value


def above_zero(name: str, value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < math.inf:
        raise ConfigError(f"{name} must be a number > 0; got {value!r}.")
    return float(value)
