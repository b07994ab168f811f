"""API keys: `blts_<id>_<secret>`. The secret is shown once; the database holds its SHA-256, which 256 random bits make safe."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import sqlalchemy as sa

from ..errors import ConfigError, Conflict, UnknownName, shown
from ..live import schema
from ..live.checks import check_text
from ..live.database import Database
from .roles import Role

_ID = re.compile(r"[0-9a-f]{8}", re.ASCII)
_FORM = re.compile(rf"blts_({_ID.pattern})_([A-Za-z0-9_-]{{43}})", re.ASCII)
_ORIGIN = re.compile(r"https?://[a-z0-9._:\[\]-]+", re.ASCII)
"""As browsers send it; one in capitals would never be met."""
FRESH = 1.0  # seconds for which a key that was read is not read again; a revoked one may be used so long


class Key(NamedTuple):
    """A key, without its secret."""

    id: str
    name: str
    role: Role
    experiments: tuple[str, ...] | None
    """The experiments that it is for; None for all."""
    origins: tuple[str, ...]
    """Pages from which browsers may use it."""
    rate: float | None
    """Requests a second; None for the service's own limit."""
    created_at: float
    created_by: str
    expires_at: float | None
    revoked_at: float | None
    revoked_by: str | None

    @property
    def actor(self) -> str:
        """What the audit log calls who uses it."""
        return f"{self.name} ({self.id})"

    def sees(self, experiment: str) -> bool:
        """Whether it is for an experiment."""
        return self.experiments is None or experiment in self.experiments

    def is_good(self, now: float) -> bool:
        """Whether it is neither revoked nor over."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


class Keys:
    """The keys of a database.

    Args:
        database: where they are.
        clock: tells the time.
    """

    def __init__(self, database: Database, clock: Callable[[], float] = time.time):
        self._database, self._clock = database, clock
        self._read: dict[str, tuple[float, tuple[Key, str] | None]] = {}
        self._secret: bytes | None = None
        self._origins: tuple[float, frozenset[str]] = (-1e9, frozenset())
        self._lock = threading.Lock()

    def create(
        self,
        name: str,
        role: str,
        *,
        experiments: Sequence[str] | None = None,
        origins: Sequence[str] = (),
        rate: float | None = None,
        expires_at: float | None = None,
        request_id: str | None = None,
        by: str,
    ) -> tuple[Key, str]:
        """Make a key.

        Args:
            name: what people call it; it is in the audit log.
            role: what it may do.
            experiments: the experiments that it is for; None for all. They need not exist yet.
            origins: pages from which browsers may use it, such as https://shop.example.
            rate: requests a second.
            expires_at: seconds since 1970.
            request_id: makes a repetition harmless: the same request of the same maker again is the same key.
            by: who makes it.

        Returns:
            The key, and the text that callers send, which is not stored.

        Raises:
            ConfigError: it cannot be such a key.
            Conflict: the request id was for another key.
        """
        check_text("A key's name", name, 100)
        if role not in list(Role):
            raise ConfigError(f"role must be one of {', '.join(Role)}; got {shown(role)}.")
        for experiment in experiments or ():
            check_text("An experiment's name", experiment)
        if experiments is not None and not experiments:
            raise ConfigError("A key for no experiment can do nothing; name one, or leave experiments out for all.")
        for origin in origins:
            _check_origin(origin)
        if rate is not None and not 0.1 <= rate <= 1e6:
            raise ConfigError(f"rate must be between 0.1 and 1,000,000 requests a second; got {shown(rate)}.")
        now = self._clock()
        if expires_at is not None and not now < expires_at < 1e11:
            raise ConfigError("expires_at must be a time to come, in seconds since 1970.")
        key_id, secret = self._drawn(by, request_id)
        row = {
            "id": key_id,
            "hash": _hash(secret),
            "role": role,
            "name": name,
            "experiments": None if experiments is None else json.dumps(list(experiments)),
            "origins": json.dumps(list(origins)) if origins else None,
            "rate": rate,
            "created_at": now,
            "created_by": by,
            "expires_at": expires_at,
        }
        with self._database.write() as c:
            if request_id is not None:
                if not self._database.sqlite:  # two repetitions at once
                    c.exec_driver_sql(f"SELECT pg_advisory_xact_lock({schema.LOCK})")
                before = c.execute(sa.select(schema.keys).where(schema.keys.c.id == key_id)).first()
                if before is not None:
                    if any(getattr(before, name) != value for name, value in row.items() if name != "created_at"):
                        raise Conflict(f"The request {shown(request_id)} was for another key; take another id.")
                    return _key(before), f"blts_{key_id}_{secret}"
            c.execute(sa.insert(schema.keys).values(**row))
        return self.find(key_id), f"blts_{key_id}_{secret}"

    def _drawn(self, by: str, request_id: str | None) -> tuple[str, str]:
        """The id and the secret of a new key: random, or such that a repetition has the same, though no secret is stored."""
        if request_id is None:
            return secrets.token_hex(4), secrets.token_urlsafe(32)
        check_text("Idempotency-Key", request_id)
        text = json.dumps([by, request_id]).encode()
        own_id, secret = (hmac.new(self.secret, b"new key " + part + text, hashlib.sha256) for part in (b"id\x00", b"secret\x00"))
        return own_id.hexdigest()[:8], base64.urlsafe_b64encode(secret.digest()).decode().rstrip("=")

    def all(self) -> list[Key]:
        """Every key there has been, oldest first."""
        with self._database.read() as c:
            return [_key(row) for row in c.execute(sa.select(schema.keys).order_by(schema.keys.c.created_at, schema.keys.c.id))]

    def find(self, key_id: str) -> Key:
        """The key with an id.

        Raises:
            UnknownName: there is none.
        """
        found = self._look(key_id)
        if found is None:
            every = self.all()
            if named := [key.id for key in every if key.name == key_id]:
                raise ConfigError(f"A key is named by its id: {key_id!r} is {' or '.join(named)}.")
            raise UnknownName("key", key_id, [key.id for key in every])
        return found[0]

    def revoke(self, key_id: str, by: str) -> Key:
        """End a key, for good. The last admin key that is good is kept.

        Args:
            key_id: which.
            by: who ends it.

        Returns:
            The key; one that was revoked before stays as it was.

        Raises:
            UnknownName: there is none.
            Conflict: nobody could make keys any more.
        """
        key, now = self.find(key_id), self._clock()
        if key.revoked_at is not None:
            return key
        with self._database.write() as c:
            rows = [_key(row) for row in c.execute(sa.select(schema.keys).with_for_update())]
            admins = [one.id for one in rows if one.role == Role.admin and one.experiments is None and one.is_good(now)]
            if admins == [key_id]:
                raise Conflict("This is the last admin key; create another one before you revoke it.")
            ended = sa.update(schema.keys).where(schema.keys.c.id == key_id, schema.keys.c.revoked_at.is_(None))
            c.execute(ended.values(revoked_at=now, revoked_by=by))
        self._read.pop(key_id, None)
        return self.find(key_id)

    def any(self) -> bool:
        """Whether there is a key that is good."""
        now = self._clock()
        return any(key.is_good(now) for key in self.all())

    def known(self, text: str) -> Key | None:
        """Whose key a text is.

        Args:
            text: what a caller sent.

        Returns:
            The key; None where there is none, or it is revoked or over. Keys are read again after a second.
        """
        form = _FORM.fullmatch(text)
        if form is None:
            return None
        key_id, secret = form.groups()
        found = self._cached(key_id)
        if found is None or not hmac.compare_digest(found[1], _hash(secret)) or not found[0].is_good(self._clock()):
            return None
        return found[0]

    def is_read(self, text: str) -> bool:
        """Whether `known` answers without a look at the database, which may take long."""
        form = _FORM.fullmatch(text)
        return form is None or _is_fresh(self._read.get(form[1]))

    def good(self, key_id: str) -> Key | None:
        """The key with an id, for somebody who has shown its secret before; None where it is revoked or over."""
        found = self._cached(key_id)
        return found[0] if found is not None and found[0].is_good(self._clock()) else None

    def origins(self) -> frozenset[str]:
        """The pages from which browsers may use some key; they are read again after a second."""
        at, found = self._origins
        if not 0 <= time.monotonic() - at < FRESH:
            now = self._clock()
            found = frozenset(origin for key in self.all() if key.is_good(now) for origin in key.origins)
            self._origins = time.monotonic(), found
        return found

    @property
    def secret(self) -> bytes:
        """What this service signs with: drawn once, and stored."""
        if self._secret is None:
            with self._database.write() as c:
                if not self._database.sqlite:
                    c.exec_driver_sql(f"SELECT pg_advisory_xact_lock({schema.LOCK})")
                table = schema.secrets
                value = c.execute(sa.select(table.c.value).where(table.c.name == "signing")).scalar_one_or_none()
                if value is None:
                    value = secrets.token_hex(32)
                    c.execute(sa.insert(table).values(name="signing", value=value, at=self._clock()))
            self._secret = bytes.fromhex(value)
        return self._secret

    def sign(self, purpose: str, text: str) -> str:
        """A signature of 128 bits.

        Args:
            purpose: what it is for; signatures for one purpose are none for another.
            text: what is signed.

        Returns:
            Hexadecimal digits.
        """
        return hmac.new(self.secret, f"{purpose}\x00{text}".encode(), hashlib.sha256).hexdigest()[:32]

    def is_signed(self, purpose: str, text: str, signature: str) -> bool:
        """Whether a signature is one of these."""
        return hmac.compare_digest(self.sign(purpose, text).encode(), signature.encode(errors="replace"))

    def _cached(self, key_id: str) -> tuple[Key, str] | None:
        read = self._read.get(key_id)
        if not _is_fresh(read):
            with self._lock:
                read = self._read.get(key_id)  # another thread may just have read it
                if not _is_fresh(read):
                    read = time.monotonic(), self._look(key_id)
                    if len(self._read) > 10_000:  # ids that somebody guesses
                        self._read.clear()
                    self._read[key_id] = read
        return None if read is None else read[1]

    def _look(self, key_id: str) -> tuple[Key, str] | None:
        if _ID.fullmatch(key_id) is None:  # also NUL, which PostgreSQL takes in no text
            return None
        with self._database.read() as c:
            row = c.execute(sa.select(schema.keys).where(schema.keys.c.id == key_id)).first()
        return None if row is None else (_key(row), row.hash)


def _is_fresh(read: tuple[float, object] | None) -> bool:
    return read is not None and 0 <= time.monotonic() - read[0] < FRESH


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _key(row: Any) -> Key:
    experiments = None if row.experiments is None else tuple(json.loads(row.experiments))
    return Key(
        row.id,
        row.name,
        Role(row.role),
        experiments,
        tuple(json.loads(row.origins or "[]")),
        row.rate,
        row.created_at,
        row.created_by,
        row.expires_at,
        row.revoked_at,
        row.revoked_by,
    )


def _check_origin(origin: str) -> None:
    try:
        parts = urlsplit(origin)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and origin == f"{parts.scheme}://{parts.netloc}"
    except ValueError:
        good = False
    if not good or len(origin) > 200 or _ORIGIN.fullmatch(origin) is None:
        said = "An origin is a scheme, a host in small letters and perhaps a port, such as https://shop.example"
        raise ConfigError(f"{said}; got {shown(origin)}.")
