"""Which pages of other sites may use the service from a browser (CORS): for each key those that it names, and no others."""

from __future__ import annotations

from collections.abc import Collection

from starlette.requests import Request
from starlette.responses import Response

from .keys import Key

HEADERS = "Authorization, Content-Type, Idempotency-Key, If-None-Match"
"""Which a page may send."""
SHOWN = "ETag, Retry-After"
"""Which a page may read."""
SECONDS = 600  # for which a browser need not ask again


def share(response: Response, request: Request, key: Key) -> None:
    """Let the page that asked read the answer, if the key is for it."""
    origin = request.headers.get("origin")
    if origin is not None and origin in key.origins:
        response.headers["Access-Control-Allow-Origin"] = origin
        response.headers["Access-Control-Expose-Headers"] = SHOWN
    response.headers["Vary"] = "Origin"


def allow(methods: Collection[str], origins: Collection[str], request: Request) -> Response:
    """The answer to a browser that asks whether a page may send a request. The request itself then needs a key for that page.

    Args:
        methods: those that pages may use at this address.
        origins: the pages that some key is for.
        request: what the browser sent.

    Returns:
        An answer that allows it, or says nothing.
    """
    response = Response(status_code=204, headers={"Vary": "Origin"})
    origin, method = request.headers.get("origin", ""), request.headers.get("access-control-request-method", "")
    if origin in origins and method in methods:
        response.headers["Access-Control-Allow-Origin"] = origin
        response.headers["Access-Control-Allow-Methods"] = ", ".join(methods)
        response.headers["Access-Control-Allow-Headers"] = HEADERS
        response.headers["Access-Control-Max-Age"] = str(SECONDS)
    return response
