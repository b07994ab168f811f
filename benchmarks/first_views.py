"""The dashboard of an experiment with a million decisions: how long a page takes that a process renders for the first time."""

from __future__ import annotations

import http.client
import time
from typing import Any

import numpy as np
from rich import box
from rich.table import Table

from .callers import alone, experiment_at

STORED, AGAIN = 1_000_000, 11
FILES = ("dashboard.css", "dashboard.js", "icon.svg")
VIEWS = ("", "allocation", "estimates", "health", "feedback", "policies", "decisions", "audit", "connect")


def measure(url: str, running: Any, say: Any) -> list[dict[str, Any]]:
    """How long pages take.

    Args:
        url: a new SQLite database.
        running: starts a service with some options and waits until it is ready; a context manager whose value is its port.
        say: is told what happens.

    Returns:
        A row for each page: its size, the time of the first request in a process, and the median of later ones. The first two pages
        are each the first request of a process.
    """
    from blts.live.database import Database
    from blts.service import sessions
    from blts.service.keys import Keys

    say(f"{STORED:,} decisions …")
    grow(url)
    keys = Keys(Database(url))
    cookie = f"{sessions.COOKIE}={sessions.cookie_of(keys, keys.create('looks', 'admin', by='benchmarks')[0])}"
    rows = []
    for paths in (["/"], ["/experiments/x"], [f"/experiments/x/{view}" for view in VIEWS[1:]] + ["/new", "/keys"]):
        with running() as port:
            say(f"{paths[0]} …")
            rows += [{"page": path} | _times(port, path, cookie) for path in paths]
    return rows


def grow(url: str) -> None:
    """Store so many decisions, their rewards, a refresh and its report."""
    experiment, rng = experiment_at(url, "x"), np.random.default_rng(0)
    while experiment.status()["decisions"] < STORED:
        decisions = experiment.ask(100_000).decisions
        experiment.tell([(d.id, float(rng.random() < 0.1)) for d in decisions])
    experiment.close()
    alone("work", url)


def _times(port: int, path: str, cookie: str) -> dict[str, float]:
    (first, size), *later = [_get(port, path, cookie) for _ in range(1 + AGAIN)]
    kept = sum(_get(port, f"/static/{name}", cookie)[1] for name in FILES)
    return {"first": first, "later": float(np.median([seconds for seconds, _ in later])), "bytes": size, "files": kept}


def _get(port: int, path: str, cookie: str) -> tuple[float, int]:
    """Seconds from the connection to the last byte of a page, and its bytes with headers."""
    began = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", path, headers={"Cookie": cookie, "Accept": "text/html"})
    answer = connection.getresponse()
    body = answer.read()
    seconds = time.perf_counter() - began
    connection.close()
    assert answer.status == 200, f"{path} was answered with {answer.status}"
    return seconds, len(body) + sum(len(name) + len(value) + 4 for name, value in answer.getheaders())


def table(rows: list[dict[str, Any]]) -> Table:
    """What was measured, for people."""
    found = Table(title=f"Pages with {STORED:,} decisions (SQLite)", box=box.SIMPLE, collapse_padding=True)
    found.add_column("page", no_wrap=True)
    for name in ("first ms", "later ms", "kB", "kB with files"):
        found.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        times = [f"{1e3 * row[name]:.0f}" for name in ("first", "later")]
        found.add_row(row["page"], *times, f"{row['bytes'] / 1e3:.0f}", f"{(row['bytes'] + row['files']) / 1e3:.0f}")
    return found
