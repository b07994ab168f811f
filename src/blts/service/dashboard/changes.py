"""What changed, told to open pages as server-sent events: one look at the database a second, whatever the number of listeners."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

import sqlalchemy as sa
from starlette.responses import Response, StreamingResponse

from ...errors import BltsError
from ...live import schema
from ..state import Service
from .visits import Visit

EVERY = 1.0  # seconds between two looks
SILENCE = 15.0  # seconds after which a comment keeps a quiet connection open


class Changes:
    """Looks at the positions of all experiments, and tells listeners whose changed."""

    def __init__(self, service: Service):
        self._service = service
        self._listeners: set[asyncio.Queue[str]] = set()
        self._task: asyncio.Task[None] | None = None

    @contextlib.asynccontextmanager
    async def listen(self) -> AsyncIterator[asyncio.Queue[str]]:
        """A queue of the names of experiments that changed, until its listener leaves."""
        queue: asyncio.Queue[str] = asyncio.Queue(1000)
        self._listeners.add(queue)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._watch())
        try:
            yield queue
        finally:
            self._listeners.discard(queue)

    async def _watch(self) -> None:
        known: dict[str, tuple[int, int]] | None = None
        while self._listeners:
            with contextlib.suppress(BltsError):  # the database may be away for a while
                found = await self._service.run(self._positions)
                for name in found if known is not None else ():
                    if known is not None and known.get(name) != found[name]:
                        for queue in self._listeners:
                            with contextlib.suppress(asyncio.QueueFull):
                                queue.put_nowait(name)
                known = found
            await asyncio.sleep(EVERY)

    def _positions(self) -> dict[str, tuple[int, int]]:
        """Where the ledger of each experiment ends, and the last version with a stored report."""
        table, stored = schema.experiments, schema.reports
        last = sa.select(sa.func.max(stored.c.version)).where(stored.c.experiment == table.c.id).scalar_subquery()
        with self._service.database.read() as c:
            return {
                name: (position, report or 0)
                for name, position, report in c.execute(sa.select(table.c.name, table.c.position, last))
            }


def events(changes: Changes):
    """The handler that streams changes to a page."""

    async def handler(visit: Visit) -> Response:
        key = visit.who.key

        async def stream() -> AsyncIterator[str]:
            yield "retry: 3000\n\n"
            async with changes.listen() as queue:
                while True:
                    try:
                        name = await asyncio.wait_for(queue.get(), SILENCE)
                    except TimeoutError:
                        yield ": still here\n\n"
                        continue
                    if key.sees(name):
                        yield f"event: change\ndata: {json.dumps({'experiment': name})}\n\n"

        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(stream(), 200, headers, "text/event-stream")

    return handler
