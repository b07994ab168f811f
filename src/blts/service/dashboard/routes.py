"""Every address of the pages, with what somebody needs to open it."""

from __future__ import annotations

from typing import NamedTuple

from starlette.routing import Route

from ..roles import Permission
from ..state import Service
from . import acting, doors, making, pages, reading
from .visits import Handler, endpoint

LOOK, OPERATE, ADMINISTER = Permission.look, Permission.operate, Permission.administer


class Page(NamedTuple):
    """A line of the table of pages."""

    method: str
    path: str
    permission: Permission | None
    """What who opens it needs; None where nobody has to be signed in."""
    handler: Handler


PAGES = (
    Page("GET", "/", LOOK, reading.listed),
    Page("GET", "/login", None, doors.door),
    Page("POST", "/login", None, doors.enter),
    Page("POST", "/logout", LOOK, doors.leave),
    Page("POST", "/theme", None, doors.theme),
    Page("GET", "/static/{file}", None, doors.file),
    Page("GET", "/keys", ADMINISTER, doors.keys),
    Page("POST", "/keys", ADMINISTER, doors.make_key),
    Page("POST", "/keys/revoke", ADMINISTER, doors.revoke_key),
    Page("GET", "/new", ADMINISTER, making.form),
    Page("POST", "/new", ADMINISTER, making.made),
    Page("POST", "/new/check", ADMINISTER, making.checked),
    Page("GET", "/events", LOOK, reading.events),
    Page("GET", "/experiments/{name}", LOOK, reading.shown),
    Page("GET", "/experiments/{name}/actions/{action}", OPERATE, acting.offered),
    Page("POST", "/experiments/{name}/actions/{action}", OPERATE, acting.done),
    Page("POST", "/experiments/{name}/connect", OPERATE, reading.tried),
    Page("GET", "/experiments/{name}/{tab}/{table}.csv", LOOK, reading.as_csv),
    Page("GET", "/experiments/{name}/{tab}", LOOK, reading.shown),
)
"""In the order in which they are tried."""


def routes(service: Service) -> list[Route]:
    """The pages of a service, for Starlette."""
    pages.load()
    return [Route(page.path, endpoint(service, page.permission, page.handler), methods=[page.method]) for page in PAGES]
