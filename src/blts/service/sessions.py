"""Signing in to the pages: with a key, or with a link that the service prints. A cookie then says which key it was."""

from __future__ import annotations

import time
from typing import NamedTuple

from .keys import Key, Keys
from .roles import Role
from .settings import Settings

COOKIE = "blts_session"
HOURS = 12  # for which one is signed in
LINK_SECONDS = 600


class SignedIn(NamedTuple):
    """Somebody who looks at pages."""

    key: Key
    token: str
    """Which every form carries, so that no other site can send one."""


def login_link(settings: Settings, keys: Keys) -> str:
    """An address that signs its reader in as the oldest admin key, for ten minutes from now.

    Args:
        settings: where the service is.
        keys: its keys, of which one is an admin's.

    Returns:
        The address; without an admin key that of the page where one signs in with another.
    """
    now = time.time()
    admin = next((key for key in keys.all() if key.role == Role.admin and key.is_good(now)), None)
    if admin is None:
        return f"{settings.address}/login"
    until = str(int(now) + LINK_SECONDS)
    return f"{settings.address}/login?key={admin.id}&until={until}&signature={keys.sign('login', f'{admin.id} {until}')}"


def from_link(keys: Keys, key_id: str, until: str, signature: str) -> Key | None:
    """Whom a link signs in; None where it is forged, or over."""
    if not keys.is_signed("login", f"{key_id} {until}", signature) or not until.isdigit() or time.time() > int(until):
        return None
    return keys.good(key_id)


def cookie_of(keys: Keys, key: Key) -> str:
    """What the cookie of somebody who signs in now holds."""
    until = str(int(time.time()) + 3600 * HOURS)
    return f"{key.id}.{until}.{keys.sign('session', f'{key.id} {until}')}"


def signed_in(keys: Keys, cookie: str) -> SignedIn | None:
    """Whose cookie this is; None where it is forged, over, or its key is revoked."""
    key_id, _, rest = cookie.partition(".")
    until, _, signature = rest.partition(".")
    if not keys.is_signed("session", f"{key_id} {until}", signature) or not until.isdigit() or time.time() > int(until):
        return None
    key = keys.good(key_id)
    return None if key is None else SignedIn(key, keys.sign("form", cookie))
