"""Whether the service runs, and whether it can answer without compiling first."""

from __future__ import annotations

from ..answers import Health
from ..dispatch import Call, Reply, Route


async def alive(call: Call) -> Health:
    """The process runs."""
    del call
    return Health("alive")


async def ready(call: Call) -> Reply:
    """The database answers, and the programs of all running experiments are compiled."""
    if not call.service.is_ready:
        return Reply(Health("compiling"), 503, {"Retry-After": "1"})
    await call.service.run(call.service.database.names)
    return Reply(Health("ready"))


ROUTES = (
    Route("GET", "/healthz", None, alive, "Whether the process runs", Health),
    Route("GET", "/readyz", None, ready, "Whether it can answer", Health),
)
