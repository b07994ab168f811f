"""The service under load: decisions a second over HTTP, beside an empty endpoint and a plain INSERT a request.

Throughput is measured by wrk (Debian's package), which keeps 64 connections busy from the same cores; the latency of a steady
stream by eight connections of our own. Every answer is sent after its commit.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pathlib
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import numpy as np
from rich import box
from rich.table import Table

from blts.cli.worker import NICE
from blts.live import reports

from . import first_views
from .callers import experiment_at
from .live import postgres

CONNECTIONS, SECONDS = 64, 8
STREAMS, RATE = 8, 1000
PATH = "/v1/experiments/x/decisions"


def measure(rounds: int, replications: int, say: Any) -> dict[str, Any]:
    del rounds, replications  # sizes are fixed here
    if shutil.which("wrk") is None:
        raise SystemExit("This table needs wrk: apt-get install wrk.")
    with tempfile.TemporaryDirectory(dir="/tmp") as name, postgres(pathlib.Path(name)) as server:
        folder = pathlib.Path(name)
        folder.chmod(0o755)  # the server may run as another user
        rows = _plain("SQLite", str(folder / "plain.db"), folder, say)
        rows += _service("SQLite", f"sqlite:///{folder}/blts.db", 1, folder, say, streams=True)
        if server:
            rows += _plain("PostgreSQL", server, folder, say)
            rows += _service("PostgreSQL", server, 1, folder, say)
            rows += _service("PostgreSQL", server, 2, folder, say)
        million = f"sqlite:///{folder}/million.db"
        pages = first_views.measure(million, lambda: _serving(["--db", million]), say)
    return {"serve": rows, "pages": pages}


def _plain(database: str, place: str, folder: pathlib.Path, say: Any) -> list[dict[str, Any]]:
    say(f"{database}: a plain INSERT a request …")
    if database == "SQLite":
        with sqlite3.connect(place) as db:
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("CREATE TABLE plain (id INTEGER, text TEXT)")
    else:
        import psycopg

        with psycopg.connect(place, autocommit=True) as db:
            db.execute("CREATE TABLE plain (id BIGINT, text TEXT)")
    port = _port()
    command = [sys.executable, "-m", "uvicorn", "benchmarks.plain_server:app", "--port", str(port), "--log-level", "error"]
    with _running(command, port, {"PLAIN_DB": place}):
        return [{"database": database, "what": "a plain INSERT a request", **_wrk(port, folder, "", new=True)}]


def _service(database: str, url: str, workers: int, folder: pathlib.Path, say: Any, streams: bool = False) -> list[dict[str, Any]]:
    from blts.live.database import Database
    from blts.service.keys import Keys

    experiment = experiment_at(url, "x")
    key = Keys(Database(url)).create("load", "app", rate=1e6, by="benchmarks")[1]
    many = f"{workers} process{'es' * (workers > 1)}"
    rows = []
    with _serving(["--no-worker", "--workers", str(workers), "--db", url]) as port:
        if workers == 1:
            say(f"{database}: an empty endpoint …")
            rows.append({"database": database, "what": "an empty endpoint", **_wrk(port, folder, key, path="/healthz")})
        say(f"{database}: new units, {many} …")
        rows.append({"database": database, "what": f"a decision for a new unit, {many}", **_wrk(port, folder, key, new=True)})
        say(f"{database}: units that come again, {many} …")
        rows.append({"database": database, "what": f"for a unit that comes again, {many}", **_wrk(port, folder, key, new=False)})
        if streams:
            say(f"{database}: a steady stream …")
            quiet = asyncio.run(_stream(port, key, "quiet"))
            rows.append({"database": database, "what": f"{STREAMS} connections, {RATE:,}/s", **_summary(quiet)})
            experiment.tell([(d.id, float(i % 10 == 0)) for i, d in enumerate(experiment.ask(10_000).decisions)])
            refreshing = [sys.executable, "-m", "benchmarks.serve", url]
            with subprocess.Popen(refreshing, stdout=subprocess.PIPE) as process:
                assert process.stdout is not None
                process.stdout.readline()  # it has compiled
                busy = asyncio.run(_stream(port, key, "busy"))
                process.terminate()
                spans = [tuple(map(float, line.split())) for line in process.stdout.read().splitlines()]
            during = [(due, end) for due, end in busy if any(due < over and began < end for began, over in spans)]
            what = f"those of them that {len(spans)} refreshes met"
            rows.append({"database": database, "what": what, **_summary(during, per_s=RATE)})
    experiment.close()
    return rows


def _wrk(port: int, folder: pathlib.Path, key: str, new: bool | None = None, path: str = PATH) -> dict[str, float]:
    script = folder / "load.lua"
    unit = "id .. n" if new else "'again' .. (n % 500)"
    post = f"""
        local n, id = 0, tostring(math.random(1e9)) .. tostring({{}})
        local headers = {{["Authorization"] = "Bearer {key}", ["Content-Type"] = "application/json"}}
        request = function()
          n = n + 1
          return wrk.format("POST", "{path}", headers, '{{"units":["' .. {unit} .. '"]}}')
        end
    """
    script.write_text("" if new is None else textwrap.dedent(post))
    url = f"http://127.0.0.1:{port}{path}"
    if new is False:  # they have their decisions before the clock runs
        _run_wrk(1, script, url)
    said = _run_wrk(SECONDS, script, url)
    if bad := re.search(r"Non-2xx or 3xx responses: (\d+)", said):
        raise SystemExit(f"{bad[0]} of {path}")
    times = {p: _milliseconds(re.search(rf"{p}%\s+([\d.]+)(us|ms|s)", said)) for p in (50, 99)}
    found = re.search(r"Requests/sec:\s+([\d.]+)", said)
    assert found is not None, said
    return {"per_s": float(found[1]), "p50": times[50], "p99": times[99]}


def _run_wrk(seconds: int, script: pathlib.Path, url: str) -> str:
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--latency", "-s", str(script), url]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _milliseconds(found: re.Match[str] | None) -> float:
    assert found is not None
    return float(found[1]) * {"us": 1e-3, "ms": 1.0, "s": 1e3}[found[2]]


def _summary(spans: list[tuple[float, float]], per_s: float | None = None) -> dict[str, float]:
    """Quantiles of the time between being due and being answered."""
    due, answered = np.array(spans).T
    p50, p99 = np.quantile(1e3 * (answered - due), [0.5, 0.99]).tolist()
    return {"per_s": len(due) / (answered.max() - due.min()) if per_s is None else per_s, "p50": p50, "p99": p99}


async def _stream(port: int, key: str, prefix: str) -> list[tuple[float, float]]:
    """Requests for new units at fixed times, whether or not earlier ones are answered: when each was due, and answered."""
    spans: list[tuple[float, float]] = []
    began = time.perf_counter() + 0.2

    async def one(number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for i in range(SECONDS * RATE // STREAMS):
            due = began + (i * STREAMS + number) / RATE
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            body = f'{{"units":["{prefix} {number} {i}"]}}'.encode()
            head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n"
            writer.write(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            answered = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", answered)
            assert answered.startswith(b"HTTP/1.1 200"), answered
            assert length is not None
            await reader.readexactly(int(length[1]))
            spans.append((due, time.perf_counter()))
        writer.close()

    await asyncio.gather(*(one(number) for number in range(STREAMS)))
    return spans


def _port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def _serving(options: list[str]) -> Iterator[int]:
    """`blts serve` with some options, once it is ready: its port."""
    port = _port()
    with _running([sys.executable, "-m", "blts", "serve", "--port", str(port), *options], port, {}):
        yield port


@contextlib.contextmanager
def _running(command: list[str], port: int, environment: dict[str, str]) -> Iterator[None]:
    process = subprocess.Popen(command, env=os.environ | environment, stdout=subprocess.DEVNULL)
    try:
        for _ in range(600):
            with contextlib.suppress(OSError):
                if "uvicorn" in command or urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz").status == 200:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
            time.sleep(0.1)
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def tables(result: dict[str, Any]) -> list[Table]:
    table = Table(title=f"HTTP, {CONNECTIONS} connections, every answer after its commit", box=box.SIMPLE, collapse_padding=True)
    table.add_column("database", no_wrap=True)
    table.add_column("request")
    for name in ("requests/s", "median ms", "99 % ms"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in result["serve"]:
        table.add_row(row["database"], row["what"], f"{row['per_s']:,.0f}", f"{row['p50']:.1f}", f"{row['p99']:.1f}")
    return [table, first_views.table(result["pages"])]


def _refresh_again_and_again(url: str) -> None:
    """What a worker does for an experiment that is due every second; prints when each refresh began and ended."""
    os.nice(NICE)
    experiment = experiment_at(url, "x")
    while True:
        began = time.perf_counter()
        experiment.refresh(force=True)
        reports.keep(experiment)
        print(began, time.perf_counter(), flush=True)
        time.sleep(1)


if __name__ == "__main__":
    _refresh_again_and_again(sys.argv[1])
