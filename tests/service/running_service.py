"""A service that listens on a port, in a thread: for clients that bring their own HTTP."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import uvicorn

from blts.live.database import Database
from blts.live.worker import Worker
from blts.service.app import build
from blts.service.keys import Keys
from blts.service.patience import Protocol
from blts.service.roles import Role
from blts.service.settings import Settings
from blts.service.state import Service

SECONDS = 60  # in which a service starts


def key_of(url: str, role: Role, **options: object) -> str:
    """A new key for a database."""
    with contextlib.closing(Database(url)) as database:
        return Keys(database).create(f"a {role}", role, by="test", **options)[1]  # type: ignore[arg-type]


@contextlib.contextmanager
def running(url: str, port: int = 0) -> Iterator[str]:
    """A service of a database; its address. Another one at the same port is the same service, started again."""
    server = uvicorn.Server(
        uvicorn.Config(build(Service(Settings(db=url), Database(url))), log_level="error", lifespan="on", ws="none", http=Protocol)
    )
    with socket.create_server(("127.0.0.1", port)) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="service")
        thread.start()
        try:
            until = time.monotonic() + SECONDS
            while not server.started and thread.is_alive() and time.monotonic() < until:
                time.sleep(0.01)
            assert server.started
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(SECONDS)


@contextlib.contextmanager
def working(url: str) -> Iterator[None]:
    """A worker of a database, which does its jobs."""
    over = threading.Event()

    def work() -> None:
        with contextlib.closing(Worker(url)) as worker:
            while not over.wait(0.02):
                worker.run_jobs()

    thread = threading.Thread(target=work, name="worker")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(SECONDS)
