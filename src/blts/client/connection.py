"""Requests over a connection that is kept open, one a thread; those that may be repeated are, until their time is over."""

from __future__ import annotations

import http.client
import json
import os
import random
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit

from ..errors import ConfigError, StoreError, shown, type_and_message
from .failures import BUSY, failure

FIRST_WAIT, LONGEST_WAIT = 0.05, 2.0  # seconds before a repetition: the first, doubled each time up to the longest
PAGE = 1000  # rows


class Connection:
    """A service and a key.

    Args:
        url: where the service is.
        key: an API key.
        timeout: seconds after which a call gives up.

    Raises:
        ConfigError: that is no address, no key or no time.
    """

    def __init__(self, url: str, key: str, timeout: float):
        parts = urlsplit(url) if isinstance(url, str) else None
        if parts is None or parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ConfigError(f"url must be an address such as http://127.0.0.1:8000; got {shown(url)}.")
        if not isinstance(key, str) or not key.isascii() or not key.isprintable() or not key:
            raise ConfigError("key must be an API key, blts_…; see: blts keys create --help.")
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < 1e6:
            raise ConfigError(f"timeout must be a number of seconds > 0; got {shown(timeout)}.")
        self.url, self.timeout = url.rstrip("/"), float(timeout)
        self._secure, self._host, self._port = parts.scheme == "https", parts.hostname, parts.port
        self._prefix = parts.path.rstrip("/")
        self._headers = {"Authorization": f"Bearer {key}", "Accept": "application/json"}
        self._own = threading.local()

    def close(self) -> None:
        """Close this thread's connection."""
        self._own.kept = None

    def get(self, path: str, **query: Any) -> Any:
        """What is at a path, as JSON."""
        return json.loads(self._sent("GET", _with(path, query)))

    def text(self, path: str) -> bytes:
        """What is at a path, as it is sent."""
        return self._sent("GET", path)

    def post(self, path: str, body: Mapping[str, Any], *, request_id: str | None = None, repeatable: bool = True) -> Any:
        """Send something.

        Args:
            path: where to.
            body: what JSON can hold.
            request_id: makes a repetition harmless.
            repeatable: whether it is harmless to send it twice. If not, it is sent again only where it was not received.

        Returns:
            The answer; None where there is none.

        Raises:
            BltsError: the request is refused, or nobody answered in time.
        """
        try:
            text = json.dumps(body, allow_nan=False).encode()
        except (TypeError, ValueError):
            raise ConfigError(f"Only numbers and texts that JSON can hold can be sent; got {shown(body)}.") from None
        headers = {"Content-Type": "application/json"}
        if request_id is not None:
            headers["Idempotency-Key"] = _checked(request_id)
        found = self._sent("POST", path, text, headers, repeatable)
        return json.loads(found) if found else None

    def rows(self, path: str, *, after: int | None = 0) -> Iterator[dict[str, Any]]:
        """All rows of what is shown in pages, in their order."""
        while True:
            page = self.get(path, after=after, limit=PAGE)
            yield from page["rows"]
            after = page["next"]
            if after is None:
                return

    def _sent(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None, repeatable: bool = True
    ) -> bytes:
        """The body of the answer to a request, repeated while that may help and there is time."""
        deadline, wait = time.monotonic() + self.timeout, FIRST_WAIT
        while True:
            pause = 0.0
            try:
                status, found, after = self._once(method, path, body, self._headers | dict(headers or {}), deadline, repeatable)
                if status < 300:
                    return found
                error, again = failure(status, found), status == 429 or (status in BUSY and repeatable)
                pause = after
            except _NotSent as reason:
                error, again = StoreError(f"{self.url} cannot be reached ({reason})."), True
            except (OSError, http.client.HTTPException) as reason:
                self.close()
                error, again = StoreError(f"{self.url} did not answer ({type_and_message(reason)})."), repeatable
            pause = max(pause, wait * random.uniform(0.5, 1.0))  # not all clients at once
            if not again or time.monotonic() + pause >= deadline:
                raise error
            time.sleep(pause)
            wait = min(2 * wait, LONGEST_WAIT)

    def _once(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str], deadline: float, repeatable: bool
    ) -> tuple[int, bytes, float]:
        """The status and the body of an answer, and after how many seconds to come back."""
        if not repeatable:
            self.close()  # the service may have closed a connection that was kept, and nobody could say whether this was received
        connection = self._open(max(deadline - time.monotonic(), 0.001))
        connection.request(method, self._prefix + path, body, dict(headers))
        answer = connection.getresponse()
        found, after = answer.read(), answer.headers.get("Retry-After", "")
        if answer.will_close:
            self.close()
        return answer.status, found, float(after) if after.isdigit() else 0.0

    def _open(self, timeout: float) -> http.client.HTTPConnection:
        """This thread's connection, in this process (`_NotSent` where nobody listens)."""
        kept: _Kept | None = getattr(self._own, "kept", None)
        if kept is None or kept.process != os.getpid():
            kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
            kept = _Kept(kind(self._host, self._port, timeout=timeout))
            try:
                kept.connection.connect()
            except (OSError, http.client.HTTPException) as error:
                raise _NotSent(type_and_message(error)) from None
            self._own.kept = kept
        kept.connection.timeout = timeout
        if kept.connection.sock is not None:
            kept.connection.sock.settimeout(timeout)
        return kept.connection


class _Kept:
    """A connection of one thread of one process, closed when nothing refers to it: when the thread ends, for instance."""

    def __init__(self, connection: http.client.HTTPConnection):
        self.connection, self.process = connection, os.getpid()

    def __del__(self) -> None:
        self.connection.close()


class _NotSent(Exception):
    """Nobody received the request."""


def _with(path: str, query: Mapping[str, Any]) -> str:
    given = {name: str(value).lower() if isinstance(value, bool) else value for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path


def _checked(request_id: str) -> str:
    """A request id as a header can have it (`ConfigError` where it cannot)."""
    if not isinstance(request_id, str) or not request_id.strip() or not request_id.isascii() or not request_id.isprintable():
        raise ConfigError(f"Over HTTP a request_id must be printable ASCII text; got {shown(request_id)}.")
    return request_id
