"""What conditions of tasks are checked with."""

from __future__ import annotations

import math
from typing import Any

from ...errors import ConfigError, did_you_mean
from ..spec import Condition


def refuse_unknown(task: str, condition: Condition, keys: tuple[str, ...]) -> None:
    for name in condition:
        if name not in keys:
            raise ConfigError(f"The task {task!r} has no key {name!r}.{did_you_mean(name, keys)} Its keys: {', '.join(keys)}.")


def above_zero(name: str, value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < math.inf:
        raise ConfigError(f"{name} must be a number > 0; got {value!r}.")
    return float(value)
