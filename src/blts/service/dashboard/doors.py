"""Signing in and out, keys, the theme, and the files that pages load."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from ...errors import BltsError
from .. import sessions
from ..problems import Kind, Problem
from ..roles import Permission, Role, may
from . import pages
from .drafts import labels_of
from .reading import may_see_keys
from .views.base import View
from .visits import THEME, Visit

LOGINS = 1.0  # attempts a second of one address; five at once
ROLES = (
    (Role.client, "Browsers and phones, where anybody can read the key: gets arms, and tells rewards of signed decisions."),
    (Role.app, "Your servers: ask for decisions and tell rewards."),
    (Role.reader, "People who look."),
    (Role.operator, "People who run experiments: refresh, pause, change arms, correct."),
    (Role.admin, "Everything: also creates and stops experiments, and makes keys."),
)


async def door(visit: Visit) -> Response:
    """The page where one signs in; a signed link does it at once."""
    asked = [visit.query(name) for name in ("key", "until", "signature")]
    if all(asked):
        key = await visit.service.run(sessions.from_link, visit.service.keys, *asked)
        if key is not None:
            return _enter(visit, await visit.service.run(sessions.cookie_of, visit.service.keys, key), "/")
        return _login(visit, "This link is over or was not made by this service; sign in with a key.", 401)
    return _login(visit, None)


async def enter(visit: Visit) -> Response:
    """Sign in with a key."""
    address = visit.request.client.host if visit.request.client else ""
    visit.service.buckets.take(f"login {address}", LOGINS)
    key = await visit.service.run(visit.service.keys.known, visit.form.get("key", "").strip())
    if key is None:
        return _login(visit, "This key is unknown, revoked or over.", 401)
    if not may(key.role, Permission.look):
        return _login(visit, f"This key has the role {key.role}, which is for programs; pages need reader, operator or admin.", 403)
    cookie = await visit.service.run(sessions.cookie_of, visit.service.keys, key)
    return _enter(visit, cookie, visit.form.get("next", ""))


async def leave(visit: Visit) -> Response:
    """Sign out."""
    response = visit.go("login")
    response.delete_cookie(sessions.COOKIE, path=visit.root or "/")
    return response


def _login(visit: Visit, problem: str | None, status: int = 200) -> Response:
    wanted = visit.form.get("next") or visit.query("next")
    values = {"problem": problem, "next": wanted if _is_local(wanted) else "", "hours": sessions.HOURS}
    return visit.render(View("Sign in", "login", values), status)


def _enter(visit: Visit, cookie: str, wanted: str) -> Response:
    response = visit.go()
    if _is_local(wanted):
        response.headers["Location"] = visit.root + wanted
    secure = visit.service.settings.secure or visit.request.url.scheme == "https"
    response.set_cookie(
        sessions.COOKIE, cookie, max_age=3600 * sessions.HOURS, path=visit.root or "/", secure=secure, httponly=True, samesite="lax"
    )
    return response


def _is_local(path: str) -> bool:
    """Whether an address is a path of this service, and no other host's."""
    return path.startswith("/") and not path.startswith("//") and path.isascii() and path.isprintable() and "\\" not in path


async def theme(visit: Visit) -> Response:
    """The other theme, for browsers without the script."""
    response = visit.go()
    back = visit.form.get("back", "")
    if _is_local(back):
        response.headers["Location"] = back
    chosen = "light" if visit.theme == "dark" else "dark"
    response.set_cookie(THEME, chosen, max_age=31_536_000, path=visit.root or "/", samesite="lax")
    return response


async def keys(visit: Visit) -> Response:
    """All keys."""
    return await _keys(visit)


async def make_key(visit: Visit) -> Response:
    """Make a key and show its secret, once."""
    form = visit.form
    given = {name: form.get(name, "").strip() for name in ("name", "role", "experiments", "origins")}
    _check_may_make(visit)
    try:
        key, text = await visit.service.run(
            visit.service.keys.create,
            given["name"],
            given["role"],
            experiments=labels_of(given["experiments"]) or None,
            origins=labels_of(given["origins"]),
            by=visit.who.key.actor,
        )
    except BltsError as error:
        return await _keys(visit, 422, problem=str(error), given=given)
    return await _keys(visit, made={"name": key.name, "text": text})


async def revoke_key(visit: Visit) -> Response:
    """End a key."""
    _check_may_make(visit)
    key = await visit.service.run(visit.service.keys.revoke, visit.form.get("id", ""), visit.who.key.actor)
    return await _keys(visit, message=("good", f"The key {key.name} is revoked."))


def _check_may_make(visit: Visit) -> None:
    if not may_see_keys(visit):
        raise Problem(Kind.forbidden, "Your key is for some experiments only; keys are made by an admin of all of them.")


async def _keys(visit: Visit, status: int = 200, **more: Any) -> Response:
    _check_may_make(visit)
    found = await visit.service.run(visit.service.keys.all)
    rows = [key._asdict() | {"good": key.is_good(visit.now)} for key in reversed(found)]
    given = {"name": "", "role": "app", "experiments": "", "origins": ""}
    values: dict[str, Any] = {"keys": rows, "roles": ROLES, "given": given, "problem": None, "made": None}
    return visit.render(View("Keys", "keys", values), status, **({"section": "keys"} | more))


async def file(visit: Visit) -> Response:
    """A file that pages load. Its address changes with its content, so browsers may keep it."""
    name = visit.request.path_params["file"]
    if name not in pages.FILES:
        raise Problem(Kind.not_found, "There is no such file.")
    headers = {"Cache-Control": "public, max-age=31536000, immutable", "Cross-Origin-Resource-Policy": "same-origin"}
    return Response(pages.static(name), 200, headers, pages.FILES[name])
