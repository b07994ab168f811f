"""The application that uvicorn serves."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..errors import shown
from . import cors, slashes
from .dashboard.routes import routes as pages
from .dashboard.visits import missing
from .dispatch import Route, endpoint
from .events import at_the_end
from .openapi import document
from .problems import Kind, Problem
from .routes import ROUTES
from .settings import Settings
from .state import Service

log = logging.getLogger("blts.service")
HEADERS = ((b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer"), (b"cache-control", b"no-store"))
"""Of every answer that does not have them."""
TURN = 0.0005
"""Seconds after which a thread lets another one run Python. A transaction returns to Python once for each of its statements, and
would wait for the loop that reads requests ten times as long each time with Python's own 5 ms."""


def build(service: Service, say: Callable[[str], None] = log.info) -> Starlette:
    """The application of a service.

    Args:
        service: what its requests share.
        say: is told why the first requests wait, and when they do not any more.

    Returns:
        An ASGI application.
    """

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        at_the_end(service.events.close)
        warming = asyncio.create_task(_warm(service, say))
        try:
            yield
        finally:
            warming.cancel()
            await service.close()

    service.openapi = document(ROUTES) | {"servers": [{"url": service.settings.root_path or "/"}]}
    paths = dict.fromkeys(route.path for route in ROUTES)
    routes = [StarletteRoute(path, Resource(service, [r for r in ROUTES if r.path == path])) for path in paths]
    app = Starlette(
        routes=[*routes, *pages(service)],
        middleware=[Middleware(Headers)],
        exception_handlers={404: _not_found(service), 405: _wrong_method},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False  # to a host that the caller named
    return app


def from_environment() -> Starlette:
    """The application of a process that another one started with its settings in the environment."""
    sys.setswitchinterval(TURN)
    return build(Service(Settings.from_environment()), lambda line: print(line, flush=True))


async def _warm(service: Service, say: Callable[[str], None]) -> None:
    began = time.monotonic()
    try:
        if names := await service.run(service.database.names):
            many = f"{len(names)} experiments" if len(names) > 1 else "one experiment"
            say(f"Compiling the programs of {many}; until then the first requests wait, and /readyz says so …")
        await service.warm()
        say(f"Ready, after {time.monotonic() - began:.1f} s.")
    except Exception:
        log.exception("Compiling ahead failed; first requests will wait for it")
        service.is_ready = True


def _not_found(service: Service) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def respond(request: Request, error: Exception) -> Response:
        del error
        if "text/html" in request.headers.get("accept", ""):
            return missing(service, request)
        return Problem(Kind.not_found, f"There is nothing at {shown(request.scope['path'])}; see /openapi.json.").response()

    return respond


async def _wrong_method(request: Request, error: Exception) -> Response:
    headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
    return Problem(Kind.method, f"{shown(request.method, 20)} does not fit here.", headers).response()


class Resource:
    """Everything at one path: its routes by method, and OPTIONS.

    Args:
        service: what requests share.
        routes: those with this path.
    """

    def __init__(self, service: Service, routes: Sequence[Route]):
        self._service = service
        self._endpoints = {route.method: endpoint(service, route) for route in routes}
        if "GET" in self._endpoints:
            self._endpoints["HEAD"] = self._endpoints["GET"]
        self._allow = ", ".join([*self._endpoints, "OPTIONS"])
        self._shared = [route.method for route in routes if route.is_traffic]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        slashes.shown(scope)
        request = Request(scope, receive, send)
        response = await self._respond(request)
        await response(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        if request.method in self._endpoints:
            return await self._endpoints[request.method](request)
        if request.method != "OPTIONS":
            said = f"{shown(request.method, 20)} does not fit here; see /openapi.json."
            return Problem(Kind.method, said, {"Allow": self._allow}).response()
        origins = await self._service.run(self._service.keys.origins) if self._shared else frozenset()
        response = cors.allow(self._shared, origins, request)
        response.headers["Allow"] = self._allow
        return response


class Headers:
    """Reads slashes in names, and adds what every answer should have."""

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        scope = slashes.hidden(scope)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                has = {name for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(header for header in HEADERS if header[0] not in has)]
            await send(message)

        await self.app(scope, receive, send_with_headers)
