"""Clients that send or read slowly are waited for, but not for ever; those that are only slow are answered."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
import uvicorn
from uvicorn.server import ServerState

from blts.service import patience
from blts.service.roles import Role
from running_service import key_of, running
from served import experiment_in

SHORT, LONG = 0.5, 60.0  # seconds
HEAD = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Where a service is, and an app's key for it."""
    url = f"sqlite:///{tmp_path_factory.mktemp('slow')}/blts.db"
    experiment_in(url).stop()  # nothing is compiled for it
    key = key_of(url, Role.admin)
    with running(url) as found:
        yield found, key


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HEAD", "BODY", "READING"):
        monkeypatch.setattr(patience, name, SHORT)


@contextlib.contextmanager
def connected(address: tuple[str, str]) -> Iterator[socket.socket]:
    parts = urlsplit(address[0])
    with socket.create_connection((parts.hostname, parts.port), timeout=LONG) as found:
        yield found


def until_closed(connection: socket.socket) -> bytes:
    """All that comes until the service ends the connection (`TimeoutError` where it never does)."""
    pieces = []
    with contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(1 << 16):
            pieces.append(piece)
    return b"".join(pieces)


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HT", HEAD, HEAD + b"X: y"], ids=["nothing", "half a line", "a line", "more"])
def test_headers_that_never_end(address: tuple[str, str], sent: bytes) -> None:
    with connected(address) as connection:
        connection.sendall(sent)
        assert until_closed(connection) == b""


def test_headers_that_come_byte_by_byte_have_no_more_time(address: tuple[str, str]) -> None:
    with connected(address) as connection, contextlib.suppress(ConnectionError):
        for byte in HEAD + b"X: " + b"y" * 1000:
            connection.sendall(bytes([byte]))
            time.sleep(0.01)
        pytest.fail("the service waited longer than for all of it")


def test_a_second_request_that_never_ends(address: tuple[str, str]) -> None:
    with connected(address) as connection:
        connection.sendall(HEAD + b"\r\n")
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")
        connection.sendall(HEAD)
        assert until_closed(connection) == b""


@pytest.mark.parametrize("path", ["/v1/experiments/mail/corrections", "/login"])
def test_a_body_that_never_ends(address: tuple[str, str], path: str) -> None:
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {address[1]}\r\nContent-Length: 100\r\n\r\n"
    with connected(address) as connection:
        connection.sendall(head.encode() + b'{"rea')
        answer = until_closed(connection)
    assert answer.startswith(b"HTTP/1.1 408")
    head, body = answer.split(b"\r\n\r\n")
    assert b"content-type: application/problem+json" in head
    assert json.loads(body)["detail"] == "A body must arrive within 0.5 seconds; send it again."


def test_a_client_that_is_only_slow_is_answered(address: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HEAD", "BODY"):
        monkeypatch.setattr(patience, name, LONG)
    with connected(address) as connection:
        for piece in (HEAD[:10], HEAD[10:], b"Content-Length: 2\r\n\r\n", b"{", b"}"):
            connection.sendall(piece)
            time.sleep(0.1)
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")


def test_a_request_that_takes_long_to_answer_is_not_ended(address: tuple[str, str]) -> None:
    """The stream of events says nothing for a while; it is the client's turn to be patient."""
    with connected(address) as connection:
        connection.sendall(f"GET /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {address[1]}\r\n\r\n".encode())
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")
        connection.settimeout(3 * SHORT)
        with contextlib.suppress(TimeoutError):
            while piece := connection.recv(1 << 16):
                assert piece
            pytest.fail("the service ended the stream")


def test_an_answer_that_nobody_reads() -> None:
    state = ServerState()

    async def endless(scope: Any, receive: Any, send: Any) -> None:
        del scope, receive
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while state.connections:
            await send({"type": "http.response.body", "body": b" " * 100_000, "more_body": True})

    async def look() -> bytes:
        config = uvicorn.Config(endless, http=patience.Protocol, ws="none", lifespan="off", log_level="error")
        server = await asyncio.get_running_loop().create_server(lambda: patience.Protocol(config, state, {}), "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(HEAD + b"\r\n")
            first = await reader.read(100)
            while state.connections or state.tasks:  # until the service ends it
                await asyncio.sleep(0.01)
            writer.close()
        return first

    assert asyncio.run(asyncio.wait_for(look(), LONG)).startswith(b"HTTP/1.1 200")
