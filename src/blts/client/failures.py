"""What a service answers when something is wrong, as the errors that `blts.live` raises."""

from __future__ import annotations

import json
from typing import Any

from ..errors import BltsError, ConfigError, StoreError, UnknownName

BUSY = (429, 502, 503, 504)
"""Answers after which the same request may be answered a little later."""


class NotAllowed(BltsError):
    """The key is unknown, revoked or over, or may not do this.

    >>> from blts import BltsError
    >>> from blts.client import NotAllowed
    >>> issubclass(NotAllowed, BltsError)
    True
    """


class Absent(UnknownName):
    """What was asked for is not there, or not for this key."""

    def __init__(self, sentence: str):
        BltsError.__init__(self, sentence)


def failure(status: int, body: bytes) -> BltsError:
    """The error that an answer is.

    Args:
        status: of the answer.
        body: of the answer, problem details where the service wrote it.

    Returns:
        The error, with the service's own sentence.
    """
    sentence = _sentence(body) or f"The service answered {status}, and not as blts does; check the address."
    if status in BUSY:
        return StoreError(sentence)
    kinds: dict[int, type[BltsError]] = {401: NotAllowed, 403: NotAllowed, 404: Absent, 500: StoreError}
    return kinds.get(status, ConfigError if 400 <= status < 500 else StoreError)(sentence)


def _sentence(body: bytes) -> str | None:
    try:
        found: Any = json.loads(body)
    except ValueError:
        return None
    sentence = found.get("detail") if isinstance(found, dict) else None
    return sentence if isinstance(sentence, str) else None
