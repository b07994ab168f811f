"""Errors that a user can act on: each message is one sentence that says what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from numbers import Integral
from typing import Any


class BltsError(Exception):
    """Anything blts refuses to do; the command line prints its message without a traceback."""


class ConfigError(BltsError, ValueError):
    """A value that cannot be right, found when an object is built or a call is made."""


def require_object(where: str, value: Any, members: Iterable[str], example: str, names: str = "") -> None:
    """Refuse a name, a class or another kind of object where one with these members is needed.

    Args:
        where: what is being given, the subject of the sentence.
        members: attributes and methods that it must have.
        example: how such an object is written.
        names: what to do with a name, where there is something that takes names.

    Raises:
        ConfigError: what is wrong with it, and what to write.
    """
    if isinstance(value, str):
        raise ConfigError(f"{where} must be an object such as {example}; got the text {value!r}{names}.")
    if isinstance(value, type):
        raise ConfigError(f"{where} is the class {value.__name__}; give an object of it, such as {value.__name__}(…).")
    missing = [name for name in members if not hasattr(value, name)]
    if missing:
        name = getattr(value, "__name__", None) if callable(value) else None
        got = f"the function {name} is not called, and" if name else f"an object of type {type(value).__name__}"
        raise ConfigError(f"{where} must be an object such as {example}; {got} has no {', '.join(missing)}.")


def whole(name: str, value: Any, least: int = 1, most: int | None = None) -> int:
    """A whole number within limits.

    Args:
        name: what it is, the subject of the sentence.
        value: what was given; True and False are no numbers.
        least: the smallest that is allowed.
        most: the largest, where there is one.

    Returns:
        The number as an `int`.

    Raises:
        ConfigError: it is none, or outside the limits.
    """
    number = int(value) if isinstance(value, Integral) and not isinstance(value, bool) else None
    if number is not None and number >= least and (most is None or number <= most):
        return number
    limits = f"≥ {least}" if most is None else f"from {least} to {most}"
    raise ConfigError(f"{name} must be a whole number {limits}; got {value!r}.")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question with the nearest known name, to be put after a sentence; empty where none is near."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f" Did you mean {near[0]!r}?" if near else ""


class UnknownName(BltsError, LookupError):
    """A name that nothing is registered under; the message carries the nearest one."""

    def __init__(self, kind: str, name: str, known: Iterable[str]):
        known = sorted(known)
        super().__init__(f"There is no {kind} named {name!r}.{did_you_mean(name, known)} Known: {', '.join(known)}.")


class Lost(BltsError, AttributeError):
    """A method that a subclass has lost, because it overrides another that the method rests on; see `declared`."""


class StoreError(BltsError):
    """A database or folder that cannot be reached, read or written, or that another version of blts wrote."""


class MemoryNeeded(BltsError, MemoryError):
    """A run that would not fit, found before it starts."""
