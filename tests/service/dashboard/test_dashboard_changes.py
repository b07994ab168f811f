"""What open pages are told, and until when; and requests whose sender leaves."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from starlette.testclient import TestClient

from blts.live.database import Database
from blts.service import events, sessions
from blts.service.app import build
from blts.service.roles import Role
from blts.service.sessions import cookie_of
from houses import experiment_in, service_on


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A service of the test's own, which looks often, with its client."""
    monkeypatch.setattr(events, "SECONDS", 0.05)
    monkeypatch.setattr(events, "HEARTBEAT", 0.1)
    service = service_on(Database(str(tmp_path / "own.db")))
    experiment_in(service.database, "mail")
    experiment_in(service.database, "secret")
    with TestClient(build(service)) as client:
        yield service, client


class Raw:
    """A request straight to the application, which is left to run.

    Args:
        client: of the application.
        method: of the request.
        path: of the request.
        cookie: who sends it.
        pieces: of the body, after which the sender leaves; without them the sender stays.
    """

    def __init__(self, client: TestClient, method: str, path: str, cookie: str = "", pieces: tuple[bytes, ...] = ()):
        self.sent: list[dict[str, Any]] = []
        headers = [(b"host", b"testserver"), (b"cookie", f"blts_session={cookie}".encode())]
        scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http"}
        scope |= {"path": path, "raw_path": path.encode(), "root_path": "", "query_string": b"", "headers": headers}
        scope |= {"client": ("127.0.0.1", 1), "server": ("testserver", 80)}
        messages: list[dict[str, Any]] = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
        messages.append({"type": "http.disconnect"})

        async def receive() -> dict[str, Any]:
            if not pieces:
                await asyncio.Event().wait()
            return messages.pop(0)

        async def send(message: Any) -> None:
            self.sent.append(message)

        assert client.portal is not None
        self.future = client.portal.start_task_soon(client.app, scope, receive, send)

    @property
    def text(self) -> str:
        """What was sent so far."""
        return b"".join(message.get("body", b"") for message in self.sent).decode()

    def wait(self, condition: Any) -> None:
        """Until a condition of this holds."""
        for _ in range(200):
            if condition(self):
                return
            time.sleep(0.05)
        raise AssertionError(self.sent)


def listener(own: Any, **options: Any) -> tuple[Raw, str]:
    """An open page of a reader, and the id of the reader's key."""
    service, client = own
    key, _ = service.keys.create("a reader", Role.reader, by="test", **options)
    return Raw(client, "GET", "/events", cookie_of(service.keys, key)), key.id


def test_pages_hear_of_their_experiments_until_their_key_is_revoked(own):
    every, _ = listener(own)
    scoped, key_id = listener(own, experiments=["mail"])
    every.wait(lambda it: '"name":"secret"' in it.text)
    scoped.wait(lambda it: '"name":"mail"' in it.text)
    assert "secret" not in scoped.text
    own[0].keys.revoke(key_id, by="test")
    scoped.wait(lambda it: it.future.done())
    assert not every.future.done()
    every.future.cancel()


def test_pages_hear_until_their_cookie_is_over(own, monkeypatch):
    page, _ = listener(own)
    page.wait(lambda it: "secret" in it.text)
    later = time.time() + 3600 * sessions.HOURS + 1
    monkeypatch.setattr(sessions.time, "time", lambda: later)
    page.wait(lambda it: it.future.done())


def test_pages_are_let_go_when_the_service_ends(own):
    service, _ = own
    page, _ = listener(own)
    page.wait(lambda it: "secret" in it.text)
    service.events.close()
    page.wait(lambda it: it.future.done())


def test_too_many_pages_are_told_so(own, monkeypatch):
    monkeypatch.setattr(events, "LISTENERS", 0)
    page, _ = listener(own)
    page.wait(lambda it: it.future.done())
    assert page.sent[0]["status"] == 429
    assert (b"retry-after", b"60") in page.sent[0]["headers"]


def test_head_of_a_stream_ends(own):
    service, client = own
    key, _ = service.keys.create("a reader", Role.reader, by="test")
    page = Raw(client, "HEAD", "/events", cookie_of(service.keys, key))
    page.wait(lambda it: it.future.done())
    assert (page.sent[0]["status"], page.text) == (200, "")


def test_a_form_whose_sender_leaves_is_no_failure(own, caplog):
    page = Raw(own[1], "POST", "/login", pieces=(b"key=blts_",))
    page.wait(lambda it: it.future.done())
    assert page.sent[0]["status"] == 400
    assert not caplog.records
