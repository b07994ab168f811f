"""Durations as people write them: "30min", "6h", "1d", or seconds."""

from __future__ import annotations

import datetime
import math
import re

from ..errors import ConfigError

UNITS = {
    1.0: "s sec second seconds",
    60.0: "m min minute minutes",
    3600.0: "h hour hours",
    86400.0: "d day days",
    604800.0: "w week weeks",
}
SECONDS = {"": 1.0} | {name: size for size, names in UNITS.items() for name in names.split()}
NUMBER = r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*"


def seconds_of(what: str, given: object) -> float:
    """A duration such as "6h", "30 min", a `timedelta` or a number of seconds; `ConfigError` where it is none."""
    if isinstance(given, datetime.timedelta):
        seconds = given.total_seconds()
    elif isinstance(given, int | float) and not isinstance(given, bool):
        seconds = float(given)
    else:
        found = re.fullmatch(rf"{NUMBER}([a-z]*)\s*", str(given))
        seconds = float(found[1]) * SECONDS.get(found[2], math.nan) if found else math.nan
    if not (math.isfinite(seconds) and seconds >= 0):
        raise ConfigError(f"{what} must be a duration such as 30min, 6h or 1d, or a number of seconds; got {given!r}.")
    return seconds


def in_words(seconds: float) -> str:
    """A duration for people."""
    for name, size in (("day", 86400.0), ("hour", 3600.0), ("minute", 60.0)):
        if seconds >= size:
            count = f"{seconds / size:.3g}" if seconds < 1000 * size else f"{seconds / size:.0f}"
            return f"{count} {name}{'' if count == '1' else 's'}"
    return f"{seconds:.3g} s"
