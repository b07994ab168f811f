"""How many requests a key may make, and how large they may be."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable

from .problems import Kind, Problem

BODY = 1_000_000  # bytes of a request
DECISIONS = 10_000  # of a request
PAGE = 1_000  # rows of a page
RATE = 10_000.0  # requests a second of a key that states no rate
ADDRESS_RATE = 20.0  # requests a second of one address with a client's key, which all browsers share
BURST = 5.0  # seconds of its rate that a caller can save up
KEPT = 100_000  # callers that are remembered


class Buckets:
    """A token bucket for each caller.

    Args:
        clock: seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """Tokens left, and when that was."""

    def take(self, caller: str, rate: float) -> None:
        """Take one token.

        Args:
            caller: whose bucket.
            rate: tokens a second that it is filled with.

        Raises:
            Problem: it is empty; the answer says when to come back.
        """
        now = self._clock()
        left, since = self._buckets.pop(caller, (rate * BURST, now))
        left = min(rate * BURST, left + (now - since) * rate)
        enough = left >= 1
        self._buckets[caller] = (left - 1 if enough else left, now)
        if len(self._buckets) > KEPT:
            self._buckets.popitem(last=False)
        if not enough:
            wait = max(1, math.ceil((1 - left) / rate))
            raise Problem(
                Kind.too_many, f"This key may make {rate:g} requests a second; come back in {wait} s.", {"Retry-After": str(wait)}
            )
