"""A service in processes of its own, which can be killed and started again on the same port."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
from typing import Any


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Process:
    """`blts serve` on a database.

    Args:
        url: the database.
        options: of the command.
    """

    def __init__(self, url: str, *options: str):
        self.port = free_port()
        self._command = [sys.executable, "-m", "blts", "serve", "--db", url, "--port", str(self.port), *options]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, wait: float = 300.0) -> None:
        """Start it, and wait until it answers."""
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + wait
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self.call("GET", "/healthz", None)[0] == 200:
                    return
            time.sleep(0.05)
        raise AssertionError("the service does not answer")

    def kill(self) -> None:
        """SIGKILL, as a power cut for the process."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def kill_worker(self) -> None:
        """SIGKILL for its worker, if one runs now."""
        assert self._process is not None
        children = pathlib.Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        for child in children.read_text().split():
            with contextlib.suppress(OSError):
                if b"worker" in pathlib.Path(f"/proc/{child}/cmdline").read_bytes():
                    os.kill(int(child), signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM, as an administrator does; the exit code."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(60)

    def call(self, method: str, path: str, key: str | None, body: Any = None, **headers: str) -> tuple[int, Any]:
        """One request on a connection of its own: the status, and the body as JSON."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            sent = None if body is None else json.dumps(body)
            given = {"Content-Type": "application/json"} | ({} if key is None else {"Authorization": f"Bearer {key}"}) | headers
            connection.request(method, path, sent, given)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"null")
        finally:
            connection.close()
