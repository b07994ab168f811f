"""What changes, for all who listen in a process: one of them all looks at the database, and tells the others."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

from ..errors import BltsError
from ..live import overview
from ..live.database import Database
from .problems import Kind, Problem

log = logging.getLogger("blts.service")
SECONDS = 0.5  # between two looks
HEARTBEAT = 5.0  # seconds after which a listener hears that the connection stands
LISTENERS = 500  # of a process


class Events:
    """Where every experiment stands, and who wants to know.

    Args:
        database: where they are.
        run: calls a function in a thread.
    """

    def __init__(self, database: Database, run: Callable[..., Any]):
        self._database, self._run = database, run
        self._rows: dict[str, tuple[int, dict[str, Any]]] = {}
        """By name, the look at which it changed last, and where it stands."""
        self._look = 0
        self._changed = asyncio.Event()
        self._listeners = 0
        self._poller: asyncio.Task[None] | None = None
        self._is_closed = False

    async def listen(self, sees: Callable[[str], bool], goes_on: Callable[[], bool]) -> AsyncIterator[bytes]:
        """Server-sent events for one listener: every experiment at first, and then those that changed.

        Args:
            sees: whether the listener may know of an experiment.
            goes_on: whether the listener may still listen.

        Returns:
            Events, and lines that only say that the connection stands.

        Raises:
            Problem: too many listen.
        """
        if self._listeners >= LISTENERS:
            raise Problem(Kind.too_many, "Too many listen already; come back later.", {"Retry-After": "60"})
        if self._poller is None:
            await self._poll()
        return self._stream(sees, goes_on)

    async def _stream(self, sees: Callable[[str], bool], goes_on: Callable[[], bool]) -> AsyncIterator[bytes]:
        self._listeners += 1
        try:
            if self._poller is None:
                self._poller = asyncio.create_task(self._poll_on())
            seen = 0
            while not self._is_closed and await self._may(goes_on):
                changed, now = self._changed, self._look
                news = [row for name, (look, row) in self._rows.items() if look > seen and sees(name)]
                seen = now
                yield b"".join(b"event: experiment\ndata: " + msgspec.json.encode(row) + b"\n\n" for row in news) or b":\n\n"
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(changed.wait(), HEARTBEAT)
        finally:
            self._listeners -= 1
            if self._listeners == 0 and self._poller is not None:
                self._poller.cancel()
                self._poller = None

    async def _may(self, goes_on: Callable[[], bool]) -> bool:
        """Whether a listener may still listen; while the database is away, those who did may."""
        try:
            return await self._run(goes_on)
        except BltsError:
            return True

    def close(self) -> None:
        """Let every listener go, so that the service can end."""
        self._is_closed = True
        self._changed.set()

    async def _poll_on(self) -> None:
        while True:
            await asyncio.sleep(SECONDS)
            try:
                await self._poll()
            except BltsError as error:
                log.warning("Listeners hear nothing: %s", error)

    async def _poll(self) -> None:
        rows = await self._run(overview.experiments, self._database)
        new = {row["name"]: row for row in rows if self._rows.get(row["name"], (0, None))[1] != row}
        if new:
            self._look += 1
            self._rows |= {name: (self._look, row) for name, row in new.items()}
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()


def at_the_end(call: Callable[[], None]) -> None:
    """Call a function when the process is asked to end: a server waits for its connections before it tells its application."""
    loop = asyncio.get_running_loop()

    def handler(before: Any) -> Callable[[int, Any], None]:
        def handle(number: int, frame: Any) -> None:
            loop.call_soon_threadsafe(call)
            if callable(before):
                before(number, frame)

        return handle

    with contextlib.suppress(ValueError):  # only the main thread has signals
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, handler(signal.getsignal(number)))
