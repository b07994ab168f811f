"""About the service itself: whether it runs, whether it can answer without compiling first, its numbers, what it understands."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from ...live.totals import totals
from ..answers import Health
from ..dispatch import Call, Route
from ..problems import Kind, Problem
from ..roles import Permission


async def alive(call: Call) -> Health:
    """The process runs."""
    del call
    return Health("alive")


async def ready(call: Call) -> Health:
    """The database answers, and the programs of all running experiments are compiled."""
    if not call.service.is_ready:
        raise Problem(Kind.not_ready, "The first requests would wait; ask again in a second.", {"Retry-After": "1"})
    await call.service.run(call.service.database.names)
    return Health("ready")


async def metrics(call: Call) -> Response:
    """Numbers for Prometheus. They are of all experiments, so the key must be for all; an address alone is never enough, because
    whoever comes through a proxy on this machine has the address of this machine."""
    if call.key.experiments is not None:
        raise Problem(Kind.forbidden, "These are numbers of all experiments, and this key is for some; take one for all.")
    found = await call.service.run(totals, call.service.database)
    return Response(call.service.counts.text(found), media_type="text/plain; version=0.0.4; charset=utf-8")


async def openapi(call: Call) -> dict[str, Any]:
    """The document that this is a part of."""
    return call.service.openapi


ROUTES = (
    Route("GET", "/healthz", None, alive, "Whether the process runs", Health),
    Route("GET", "/readyz", None, ready, "Whether it can answer", Health, problems=(Kind.not_ready,)),
    Route("GET", "/metrics", Permission.look, metrics, "Numbers for Prometheus", str, media_type="text/plain"),
    Route("GET", "/openapi.json", None, openapi, "The OpenAPI document", dict[str, Any]),
)
