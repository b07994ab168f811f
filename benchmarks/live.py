"""Live experiments: decisions asked and rewards told per second, and the time of a refresh against stored rewards."""

from __future__ import annotations

import contextlib
import pathlib
import sqlite3
import statistics
import tempfile
import time
import warnings
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from rich import box
from rich.table import Table

AT_ONCE = (1, 100, 10_000)
CALLS = {1: 100, 100: 30, 10_000: 3}
STORED = (1_000, 10_000, 100_000, 1_000_000)
ARMS = ("A", "B", "C", "D", "E")


@contextlib.contextmanager
def postgres(folder: pathlib.Path) -> Iterator[str | None]:
    """The URL of a server of its own, or None where pgserver is not installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import pgserver
        except ImportError:
            yield None
            return
        server = pgserver.get_server(folder / "pg", cleanup_mode="stop")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


def measure(rounds: int, replications: int, say: Any) -> dict[str, Any]:
    del rounds, replications  # sizes are fixed here
    with tempfile.TemporaryDirectory(dir="/tmp") as name, postgres(pathlib.Path(name)) as server:
        pathlib.Path(name).chmod(0o755)  # the server may run as another user
        rows = plain(pathlib.Path(name) / "plain.db", say)
        places = {"SQLite": f"sqlite:///{name}/blts.db"} | ({"PostgreSQL": server} if server else {})
        for database, url in places.items():
            rows += throughput(database, url, say)
        return {"throughput": rows, "refresh": refreshes(pathlib.Path(name), say)}


def plain(path: pathlib.Path, say: Any) -> list[dict[str, Any]]:
    """The yardstick: as many columns as a decision has, inserted by sqlite3 in one transaction a call."""
    rows = []
    for size in AT_ONCE:
        say(f"plain sqlite3, {size} at once …")
        db = sqlite3.connect(path, isolation_level=None)
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=FULL")
        db.execute("CREATE TABLE IF NOT EXISTS d (e INT, t INT, a INT, b INT, p INT, v TEXT, q INT, at REAL)")

        def call(db=db, size=size) -> None:
            db.execute("BEGIN IMMEDIATE")
            values = [(1, i, 2, 3, 4, "0123456789abcdef01234567", 5, 1e9) for i in range(size)]
            db.executemany("INSERT INTO d VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)
            db.execute("COMMIT")

        rows.append({"database": "plain sqlite3", "what": "insert", "size": size, "per_s": size / median_time(call, CALLS[size])})
        db.close()
    return rows


def median_time(call: Any, calls: int) -> float:
    call()  # compiles, and opens the file
    times = []
    for _ in range(calls):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def throughput(database: str, url: str, say: Any) -> list[dict[str, Any]]:
    from blts import Gaussian
    from blts.live import Experiment

    rows = []
    for size in AT_ONCE:
        say(f"{database}, {size} at once …")
        # No decision closes a batch, and nothing is refreshed: what is timed is asking and telling.
        experiment = Experiment.create(url, f"batches of {size}", ARMS, Gaussian(), "exact", {"name": "fixed", "size": 10**9})
        waiting: list[str] = []

        def ask(experiment=experiment, size=size, waiting=waiting) -> None:
            waiting += [d.id for d in experiment.ask(size).decisions]

        def tell(experiment=experiment, size=size, waiting=waiting) -> None:
            some = waiting[:size]
            del waiting[:size]
            assert experiment.tell([(i, 1.0) for i in some]).accepted == size

        for name, call in (("ask", ask), ("tell", tell)):
            rows.append({"database": database, "what": name, "size": size, "per_s": size / median_time(call, CALLS[size])})
    return rows


def refreshes(folder: pathlib.Path, say: Any) -> list[dict[str, Any]]:
    """SGLD with a constant minibatch and control variate, on ever more rewards; loading is timed apart."""
    from blts import Gaussian
    from blts.live import Experiment, learning, ledger

    rows = []
    sampler = {"name": "blts", "control_variate": True}
    for stored in STORED:
        say(f"refresh on {stored:,} rewards …")
        experiment = Experiment.create(folder / f"{stored}.db", "x", ARMS, Gaussian(), sampler, {"name": "fixed", "size": 10**9})
        rng = np.random.default_rng(0)
        while (done := experiment.status()["decisions"]) < stored:
            decisions = experiment.ask(min(100_000, stored - done)).decisions
            noise = rng.normal(size=len(decisions))
            experiment.tell([(d.id, float(x) + (d.arm == "B")) for d, x in zip(decisions, noise, strict=True)])
        experiment.refresh(force=True)  # compiles
        again = timed(lambda experiment=experiment: experiment.refresh(force=True))
        experiment.session.fold = ledger.Fold(experiment.id)  # as in a process that has read nothing yet
        whole = timed(lambda experiment=experiment: experiment.refresh(force=True))
        began = time.perf_counter()
        with experiment.database.read() as c:
            row = experiment.database.find(c, "x")
            current = experiment.session.policy(c, row.version)
            data = ledger.Fold(experiment.id).until(c, row.position, row.t).rows(False, None).data
        read = time.perf_counter() - began
        began = time.perf_counter()
        history = learning.load(current.built.agent, data)
        jax.block_until_ready(history)
        load = time.perf_counter() - began
        rest = again - load
        rows.append({"stored": stored, "refresh_s": whole, "read_s": read, "load_s": load, "rest_s": rest, "again_s": again})
    return rows


def timed(call: Any) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def tables(result: dict[str, Any]) -> list[Table]:
    first = Table(title="Live experiments: rows a second", box=box.SIMPLE, collapse_padding=True)
    first.add_column("database", no_wrap=True)
    first.add_column("call", no_wrap=True)
    for size in AT_ONCE:
        first.add_column(f"{size:,} at once", justify="right", no_wrap=True)
    keys = list(dict.fromkeys((row["database"], row["what"]) for row in result["throughput"]))
    for database, what in keys:
        mine = {row["size"]: row["per_s"] for row in result["throughput"] if (row["database"], row["what"]) == (database, what)}
        first.add_row(database, what, *(f"{mine[size]:,.0f}" for size in AT_ONCE))
    second = Table(
        title="Refresh by SGLD, minibatch 32 with control variate, 5 arms",
        box=box.SIMPLE,
        collapse_padding=True,
        caption="Reading and loading are linear, and of the rest two passes over the rows for the control variate's anchor: "
        "its last step, and the gradient there. A process reads the ledger once; 'again' is its next refresh.",
        caption_justify="left",
    )
    for name in ("rewards", "refresh s", "reading s", "loading s", "the rest s", "again s"):
        second.add_column(name, justify="right", no_wrap=True)
    for row in result["refresh"]:
        second.add_row(f"{row['stored']:,}", *(f"{row[k]:.3f}" for k in ("refresh_s", "read_s", "load_s", "rest_s", "again_s")))
    return [first, second]
