"""What changes, as it changes: server-sent events."""

from __future__ import annotations

from starlette.responses import Response, StreamingResponse

from ..dispatch import Call, Route
from ..roles import Permission


async def events(call: Call) -> Response:
    """An event `experiment` with where an experiment stands: of each at first, and then of those that changed, within a second."""
    key, keys = call.key, call.service.keys
    stream = await call.service.events.listen(key.sees, lambda: keys.good(key.id) is not None)
    return StreamingResponse(stream, media_type="text/event-stream")


ROUTES = (
    Route(
        "GET",
        "/v1/events",
        Permission.look,
        events,
        "Listen to changes",
        str,
        media_type="text/event-stream",
        streams=True,
    ),
)
