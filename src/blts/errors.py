"""Errors that a user can act on: each message is one sentence that says what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class BltsError(Exception):
    """Anything blts refuses to do; the command line prints its message without a traceback."""


class ConfigError(BltsError, ValueError):
    """A value that cannot be right, found when an object is built or a call is made."""


class UnknownName(BltsError, LookupError):
    """A name that nothing is registered under; the message carries the nearest one."""

    def __init__(self, kind: str, name: str, known: Iterable[str]):
        known = sorted(known)
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        super().__init__(f"There is no {kind} named {name!r}.{hint} Known: {', '.join(known)}.")


class StoreError(BltsError):
    """A database or folder that cannot be reached, read or written, or that another version of blts wrote."""


class MemoryNeeded(BltsError, MemoryError):
    """A run that would not fit, found before it starts."""
