"""The application that uvicorn serves."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .dispatch import endpoint
from .problems import Kind, Problem
from .routes import ROUTES
from .settings import Settings
from .state import Service

log = logging.getLogger("blts.service")
HEADERS = ((b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer"), (b"cache-control", b"no-store"))
"""Of every answer that does not have them."""


def build(service: Service) -> Starlette:
    """The application of a service.

    Args:
        service: what its requests share.

    Returns:
        An ASGI application.
    """

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        warming = asyncio.create_task(_warm(service))
        try:
            yield
        finally:
            warming.cancel()
            await service.close()

    routes = [StarletteRoute(route.path, endpoint(service, route), methods=[route.method]) for route in ROUTES]
    return Starlette(
        routes=routes,
        middleware=[Middleware(Headers)],
        exception_handlers={404: _not_found, 405: _wrong_method},
        lifespan=lifespan,
    )


def from_environment() -> Starlette:
    """The application of a process that another one started with its settings in the environment."""
    return build(Service(Settings.from_environment()))


async def _warm(service: Service) -> None:
    try:
        await service.warm()
    except Exception:
        log.exception("Compiling ahead failed; first requests will wait for it")
        service.is_ready = True


async def _not_found(request: Request, error: Exception) -> Response:
    del error
    return Problem(Kind.not_found, f"There is nothing at {request.url.path[:200]!r}; see /openapi.json.").response()


async def _wrong_method(request: Request, error: Exception) -> Response:
    headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
    return Problem(Kind.method, f"{request.method[:20]} does not fit here; see /openapi.json.", headers).response()


class Headers:
    """Adds what every answer should have."""

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                has = {name for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(header for header in HEADERS if header[0] not in has)]
            await send(message)

        await self.app(scope, receive, send_with_headers)
