"""How long the service waits for a client that sends or reads slowly; without an end a few of them could hold every connection."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from starlette.requests import Request

from . import limits
from .problems import Kind, Problem

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as AutoHTTPProtocol
else:
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

HEAD = 15.0  # seconds for the first line and the headers of a request
BODY = 30.0  # seconds for its body
READING = 60.0  # seconds for which a client may read nothing of an answer that waits for it


async def body_of(request: Request, what: str) -> bytes:
    """The body of a request.

    Args:
        request: whose.
        what: what it is called in a sentence, with its article.

    Returns:
        Its bytes.

    Raises:
        Problem: it is too large.
    """
    too_large = Problem(Kind.too_large, f"{what} has at most {limits.BODY:,} bytes; send several.")
    length = request.headers.get("content-length", "0")
    if length.isdecimal() and (len(length) > 15 or int(length) > limits.BODY):
        raise too_large
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limits.BODY:
            raise too_large
        chunks.append(chunk)
    return b"".join(chunks)


class Protocol(AutoHTTPProtocol):
    """uvicorn's own protocol, which waits for ever for headers, bodies and readers, with an end to that.

    A request that comes in one piece, as nearly all do, starts no timer.
    """

    _waits: asyncio.TimerHandle | None = None
    """For headers or a body that are not complete."""
    _for_body = False
    _reads: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._waits = self.loop.call_later(HEAD, self.transport.abort)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        cycle = self.cycle
        if cycle is None or cycle.response_complete:  # headers, or what is left of a body that nobody reads
            if self._waits is None:
                self._waits, self._for_body = self.loop.call_later(HEAD, self.transport.abort), False
        elif cycle.more_body:
            if self._waits is None or not self._for_body:
                _ended(self._waits)
                self._waits, self._for_body = self.loop.call_later(BODY, self._refuse), True
        elif self._waits is not None:
            self._waits = _ended(self._waits)

    def _refuse(self) -> None:
        """Answer a request whose body does not come."""
        self._waits = None
        if self.cycle.response_started:
            self.transport.abort()
            return
        problem = Problem(Kind.too_slow, f"A body must arrive within {BODY:g} seconds; send it again.").response()
        headers = [*problem.raw_headers, (b"connection", b"close")]
        self.transport.write(
            b"HTTP/1.1 408 Request Timeout\r\n%b\r\n%b" % (b"".join(b"%b: %b\r\n" % pair for pair in headers), problem.body)
        )
        self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._reads = self._reads or self.loop.call_later(READING, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._reads = _ended(self._reads)

    def connection_lost(self, exc: Exception | None) -> None:
        self._waits, self._reads = _ended(self._waits), _ended(self._reads)
        super().connection_lost(exc)


def _ended(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
