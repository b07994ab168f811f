"""The steps that every request takes: whose key it is, what it may do, what it says, the handler, the answer."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from ..errors import BltsError
from ..live import Experiment
from . import cors, fields, limits
from .keys import Key
from .patience import body_of
from .problems import DETAILS, Kind, Problem, Shape, no_experiment, problem_of
from .roles import Permission, Role, may, roles_with
from .state import Opened, Service

T = TypeVar("T")
log = logging.getLogger("blts.service")
encode = msgspec.json.Encoder().encode
_STRONG = re.compile(r'(?<!W/)"([^"]*)"')
"""An entity tag that If-Match compares; weak ones never match."""


class Reply(NamedTuple):
    """An answer with more than a body."""

    value: Any
    status: int = 200
    headers: dict[str, str] = {}  # noqa: RUF012 (never changed)


class Route(NamedTuple):
    """A line of the table of routes."""

    method: str
    path: str
    permission: Permission | None
    """What a caller needs; None where anybody may ask."""
    handler: Callable[[Call], Awaitable[Any]]
    summary: str
    answer: Any
    """The type of the answer."""
    body: type | None = None
    """The type of the body, where there is one."""
    query: type | None = None
    status: int = 200
    media_type: str = "application/json"
    """Of the answer."""
    headers: tuple[str, ...] = ()
    """Of the request, that the handler reads."""
    problems: tuple[Kind, ...] = ()
    """Those that it has besides the ones that follow from the rest."""
    sends: tuple[str, ...] = ()
    """Headers of the answer."""
    streams: bool = False
    """Whether the answer is sent in pieces; HEAD does not make it then."""
    shape: Shape = DETAILS
    """How problems are sent."""

    @property
    def needs_experiment(self) -> bool:
        return "{experiment}" in self.path

    @property
    def is_traffic(self) -> bool:
        """Whether browsers and applications send it, and not people who look after experiments."""
        return self.permission in (Permission.evaluate, Permission.decide)


class Call:
    """A request on its way to its handler."""

    def __init__(self, service: Service, route: Route, request: Request):
        self.service, self.route, self.request = service, route, request
        self.body: Any = None
        self.query: Any = None
        self.known_key: Key | None = None
        """Whose request it is, once that is known."""
        self._opened: Opened | None = None

    @property
    def key(self) -> Key:
        """Whose request it is."""
        assert self.known_key is not None, "this route needs no key"
        return self.known_key

    @property
    def opened(self) -> Opened:
        """The experiment of the path, with its groups."""
        assert self._opened is not None, "this route has no experiment"
        return self._opened

    @property
    def experiment(self) -> Experiment:
        """The experiment of the path; what is done to it is done in the name of the key, and only if it is as If-Match says."""
        own = self.opened.experiment.acting(self.key.actor)
        expected = self.request.headers.get("if-match", "*") if "If-Match" in self.route.headers else "*"
        return own if expected.strip() == "*" else own.expecting(*_STRONG.findall(expected))

    @property
    def request_id(self) -> str | None:
        """What makes a retry harmless: the header Idempotency-Key."""
        return self.request.headers.get("idempotency-key")

    def location(self, path: str) -> dict[str, str]:
        """The header that says where something is, also where a proxy shows the service under a path of its own."""
        return {"Location": f"{self.service.settings.root_path}{path}"}

    def path(self, name: str) -> str:
        """A part of the path."""
        return self.request.path_params[name]

    async def find_experiment(self) -> None:
        """Open the experiment of the path, if the key is for it."""
        name = self.path("experiment")
        if not self.key.sees(name):
            raise no_experiment(name)
        self._opened = await self.service.experiment(name)


def endpoint(service: Service, route: Route) -> Callable[[Request], Awaitable[Response]]:
    """What is called for a route."""
    decoder = None if route.body is None else msgspec.json.Decoder(route.body)

    async def respond(request: Request) -> Response:
        began, call = time.perf_counter(), Call(service, route, request)
        try:
            response = await _respond(call, decoder)
        except Problem as problem:
            response = route.shape.response(problem, request)
        except BltsError as error:
            response = route.shape.response(problem_of(error), request)
        except ClientDisconnect:
            response = Response(status_code=400)
        except Exception:
            log.exception("%s %s failed", request.method, request.scope["path"])
            problem = Problem(Kind.broken, "blts failed at this request; the server's log says how.")
            response = route.shape.response(problem, request)
        service.counts.count(route.method, route.path, response.status_code, time.perf_counter() - began)
        if route.is_traffic and call.known_key is not None:
            cors.share(response, request, call.known_key)
        return _without_body(response) if request.method == "HEAD" else response

    return respond


async def _respond(call: Call, decoder: Any) -> Response:
    route, request = call.route, call.request
    if route.permission is not None:
        await authenticate(call)
        if not may(call.key.role, route.permission):
            needed = ", ".join(roles_with(route.permission))
            raise Problem(
                Kind.forbidden, f"This needs a key with one of the roles {needed}; this key is of the role {call.key.role}."
            )
    if route.needs_experiment:
        await call.find_experiment()
    if decoder is not None:
        call.body = read(decoder.decode, await _body(request), decoder.type)
    if route.query is not None:
        call.query = read(lambda given: msgspec.convert(given, route.query, strict=False), _query(request), route.query)
    if route.streams and request.method == "HEAD":
        return Response(media_type=route.media_type)
    answer = await route.handler(call)
    if route.needs_experiment and route.method == "POST" and not route.is_traffic:
        call.opened.changed()
    return answer if isinstance(answer, Response) else _encoded(answer, route)


async def authenticate(call: Call) -> None:
    """Find the key of a request, from the header Authorization: Bearer blts_….

    Raises:
        Problem: there is none, it comes too often, or from a page that it is not for.
    """
    service, request = call.service, call.request
    scheme, _, text = request.headers.get("authorization", "").partition(" ")
    key = await _known(service, text.strip()) if scheme.lower() == "bearer" else None
    if key is None:
        said = "This API key is unknown, revoked or over" if text else "Send an API key as Authorization: Bearer blts_…"
        raise Problem(Kind.no_key, f"{said}; see: blts keys create --help.", {"WWW-Authenticate": "Bearer"})
    origin = request.headers.get("origin")
    if origin is not None and origin not in key.origins:
        raise Problem(Kind.forbidden, f"This key is not for pages of {origin[:200]!r}; create one with that origin.")
    call.known_key = key
    service.buckets.take(key.id, key.rate or limits.RATE)
    if key.role == Role.client:  # one key in many browsers
        address = request.client.host if request.client else ""
        service.buckets.take(f"{key.id} {address}", min(limits.ADDRESS_RATE, key.rate or limits.ADDRESS_RATE))


async def _known(service: Service, text: str) -> Key | None:
    """Whose key a text is. Other requests are answered while it is read from a database that takes long."""
    return service.keys.known(text) if service.keys.is_read(text) else await service.run(service.keys.known, text)


def read(decode: Callable[[Any], T], given: Any, type_: type) -> T:
    """What a caller sent, as the type that a route takes.

    Raises:
        Problem: it is not that.
    """
    try:
        return decode(given)
    except msgspec.ValidationError as error:
        raise Problem(Kind.refused, fields.sentence(str(error), type_)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Problem(Kind.unreadable, f"The body is not JSON that can be read: {str(error).rstrip('.')}.") from None


async def _body(request: Request) -> bytes:
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Problem(Kind.media_type, "Send the body as JSON, with Content-Type: application/json.")
    return await body_of(request, "A request") or b"{}"  # where nothing must be said


def _query(request: Request) -> dict[str, str]:
    given = request.query_params.multi_items()
    names = [name for name, _ in given]
    for name in names:
        if names.count(name) > 1:
            raise Problem(Kind.refused, f"The query has {name[:100]!r} more than once; give it once.")
    return dict(given)


def _encoded(answer: Any, route: Route) -> Response:
    reply = answer if isinstance(answer, Reply) else Reply(answer, route.status)
    if reply.status in (204, 304):
        return Response(status_code=reply.status, headers=reply.headers)
    return Response(encode(reply.value), reply.status, reply.headers, route.media_type)


def _without_body(response: Response) -> Response:
    """The answer to HEAD: the headers of the answer to GET."""
    found = Response(status_code=response.status_code)
    found.raw_headers = response.raw_headers
    return found
