"""A visit: one request for a page, by somebody who is signed in or not."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote

from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from ...errors import BltsError
from .. import limits, sessions, slashes
from ..patience import body_of
from ..problems import Kind, Problem, no_experiment, problem_of
from ..roles import Permission, may
from ..state import Opened, Service
from . import pages
from .views.base import View

log = logging.getLogger("blts.service")
THEME = "blts_theme"
HEADERS = {
    "Content-Security-Policy": pages.POLICY,
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Of every page."""


class Allowed(NamedTuple):
    """What who looks may do, for templates."""

    operate: bool
    administer: bool


class Visit:
    """A request on its way to its handler."""

    def __init__(self, service: Service, request: Request, who: sessions.SignedIn | None, form: dict[str, str]):
        self.service, self.request, self._who, self.form = service, request, who, form
        self.root: str = request.scope.get("root_path", "")

    @property
    def who(self) -> sessions.SignedIn:
        """Who looks."""
        assert self._who is not None, "this page needs nobody"
        return self._who

    @property
    def allowed(self) -> Allowed:
        """What they may do."""
        role = None if self._who is None else self._who.key.role
        return Allowed(*(role is not None and may(role, one) for one in (Permission.operate, Permission.administer)))

    @property
    def now(self) -> float:
        return self.service.clock()

    def url(self, *parts: str) -> str:
        """The address of a page of this service."""
        return f"{self.root}/" + "/".join(quote(part, safe="") for part in parts)

    def query(self, name: str) -> str:
        """What the address says after the question mark; empty where it does not."""
        return self.request.query_params.get(name, "")

    @property
    def address(self) -> str:
        """Where callers find the service, as this request found it."""
        return str(self.request.base_url).rstrip("/")

    async def experiment(self) -> Opened:
        """The experiment of the path.

        Raises:
            Problem: there is none that this key may see.
        """
        name = self.request.path_params["name"]
        if not self.who.key.sees(name):
            raise no_experiment(name)
        return await self.service.experiment(name)

    def render(self, view: View, status: int = 200, **more: Any) -> Response:
        """A page.

        Args:
            view: what it shows.
            status: of the answer.
            more: other variables of the template.

        Returns:
            The answer.
        """
        path = self.request.url.path
        values = {
            "title": view.title,
            "charts": view.charts,
            "theme": self.theme,
            "who": self._who,
            "may": self.allowed,
            "now": self.now,
            "url": self.url,
            "section": "experiments",
            "here": path,
            "here_path": path.rstrip("/"),
            "live": None,
            "message": None,
            "asked": self.form,
        }
        return HTMLResponse(pages.render(view.template, values | view.values | more), status, HEADERS)

    @property
    def theme(self) -> str | None:
        """The theme that was chosen; None for that of the system."""
        found = self.request.cookies.get(THEME)
        return found if found in ("light", "dark") else None

    def go(self, *parts: str, **query: str) -> Response:
        """Send the browser to another page."""
        asked = "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items())
        return RedirectResponse(self.url(*parts) + (f"?{asked}" if asked else ""), 303)


Handler = Callable[[Visit], Awaitable[Response]]


def endpoint(service: Service, permission: Permission | None, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    """What Starlette calls for a page.

    Args:
        service: what all requests share.
        permission: what who looks needs; None where nobody has to be signed in.
        handler: makes the answer.

    Returns:
        The endpoint; whatever goes wrong becomes a page that says so.
    """

    async def respond(request: Request) -> Response:
        slashes.shown(request.scope)
        who = None
        try:
            who = await service.run(_who, service, request)
            visit = Visit(service, request, who, await _form(request) if request.method == "POST" else {})
            if permission is not None:
                if who is None:
                    return _to_the_door(visit)
                if not may(who.key.role, permission):
                    raise Problem(Kind.forbidden, f"Your key has the role {who.key.role}, which may not do this; ask an admin.")
                _check_token(visit)
            return await handler(visit)
        except Problem as problem:
            return _problem(service, request, who, problem)
        except BltsError as error:
            return _problem(service, request, who, problem_of(error))
        except ClientDisconnect:
            return Response(status_code=400)
        except Exception:
            log.exception("%s %s failed", request.method, request.url.path)
            return _problem(service, request, who, Problem(Kind.broken, "blts failed at this page; the server's log says how."))

    return respond


def _who(service: Service, request: Request) -> sessions.SignedIn | None:
    cookie = request.cookies.get(sessions.COOKIE)
    found = None if cookie is None else sessions.signed_in(service.keys, cookie)
    if found is not None:
        service.buckets.take(found.key.id, found.key.rate or limits.RATE)
    return found if found is not None and may(found.key.role, Permission.look) else None


def _to_the_door(visit: Visit) -> Response:
    if visit.request.method != "GET":
        raise Problem(Kind.no_key, "You are not signed in any more; sign in and send it again.")
    path = visit.request.url.path.removeprefix(visit.root)
    return visit.go("login", **({"next": path} if path != "/" else {}))


def _check_token(visit: Visit) -> None:
    """Refuse forms that another site made somebody send."""
    if visit.request.method != "POST":
        return
    given = visit.form.get("token", "")
    if not hmac.compare_digest(given.encode(), visit.who.token.encode()):
        raise Problem(Kind.forbidden, "This form is too old or not from this page; go back, reload it and send it again.")


async def _form(request: Request) -> dict[str, str]:
    """The fields of a form; of one that comes twice the last."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise Problem(Kind.forbidden, "Forms of other sites are refused.")
    sent = await body_of(request, "A form")
    try:
        return dict(parse_qsl(sent.decode(), keep_blank_values=True, max_num_fields=100, errors="strict"))
    except ValueError:
        raise Problem(Kind.unreadable, "The form cannot be read.") from None


def missing(service: Service, request: Request) -> Response:
    """The page at an address that has none."""
    return _problem(service, request, None, Problem(Kind.not_found, "There is nothing at this address."))


def _problem(service: Service, request: Request, who: sessions.SignedIn | None, problem: Problem) -> Response:
    """A page that says what went wrong."""
    details = problem.details
    view = View(details.title, "error", {"status": details.status, "heading": details.title, "detail": problem.detail})
    response = Visit(service, request, who, {}).render(view, details.status)
    response.headers.update(problem.headers)
    return response
