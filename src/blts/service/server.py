"""Starts the processes of a service: those that answer requests, and a worker that looks after the experiments."""

from __future__ import annotations

import contextlib
import pathlib
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import uvicorn

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None

from ..errors import ConfigError
from ..live.database import Database
from .keys import Keys
from .patience import Protocol
from .sessions import login_link
from .settings import Settings

GRACE = 20  # seconds in which requests that were accepted are finished
PAUSE = 1.0  # seconds before a worker that died is started again


def serve(settings: Settings, worker: bool, say: Callable[[str], None]) -> None:
    """Run a service until it is interrupted.

    Args:
        settings: how.
        worker: whether it also looks after the experiments.
        say: is told what a person should know.

    Raises:
        ConfigError: the port is taken, or anybody could come in.
        StoreError: the database cannot be used.
    """
    database = Database(settings.db)
    keys = Keys(database)
    if settings.beyond_loopback and not keys.any():
        raise ConfigError(
            f"Other machines can reach {settings.host}, and there is no API key yet; "
            "create one first: blts keys create admin --role admin."
        )
    check_free(settings)
    if not keys.any():
        _, text = keys.create("first admin key", "admin", by="blts serve")
        say(f"API key (admin), shown this once: {text}")
    say(f"Dashboard, by a link that is good for ten minutes: {login_link(settings, keys)}")
    say(f"HTTP API: {settings.address}/v1 · database: {database.url.render_as_string()} · Ctrl-C stops.")
    place = database.url.database if database.sqlite else None
    database.close()
    settings.to_environment()
    with alone_at(place, say), _worker(settings) if worker else contextlib.nullcontext():
        uvicorn.run(
            "blts.service.app:from_environment",
            factory=True,
            host=settings.host,
            port=settings.port,
            workers=settings.workers,
            root_path=settings.root_path,
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=GRACE,
            http=Protocol,
            ws="none",
        )


@contextlib.contextmanager
def alone_at(place: str | None, say: Callable[[str], None]) -> Iterator[None]:
    """Say so where another service uses the same SQLite file; this one may go on.

    Args:
        place: the file; None where it is no file.
        say: is told.
    """
    if place is None or fcntl is None:
        yield
        return
    lock = pathlib.Path(f"{place}-serve")
    with lock.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            say(f"Another blts serve uses {place}, and writes of one wait for the other's; PostgreSQL is for several processes.")
            yield
            return
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


def check_free(settings: Settings) -> None:
    """Refuse a port that is taken, before anything is started (`ConfigError`)."""
    try:
        (family, kind, number, _, address), *_ = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)
    except OSError:
        raise ConfigError(f"host must be an address of this machine; got {settings.host!r}.") from None
    with socket.socket(family, kind, number) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError as error:
            raise ConfigError(
                f"blts cannot listen on {settings.host}:{settings.port} ({error.strerror}); take another --host or --port."
            ) from None


@contextlib.contextmanager
def _worker(settings: Settings) -> Iterator[None]:
    """A worker process, started again where it dies. It ends when this process does, however that ends, because its standard input
    is closed then."""
    command = [sys.executable, "-m", "blts", "worker", "--every", "1", "--while-stdin-is-open"]
    if settings.db is not None:
        command += ["--db", settings.db]
    ended = threading.Event()
    running: list[subprocess.Popen[bytes]] = []

    def keep() -> None:
        while not ended.is_set():
            running[:] = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)]
            running[0].wait()
            ended.wait(PAUSE)

    keeper = threading.Thread(target=keep, name="blts-worker", daemon=True)
    keeper.start()
    try:
        yield
    finally:
        ended.set()
        for process in running:
            process.terminate()
        keeper.join(GRACE)
