"""Live experiments with many callers, and with many decisions: asks a second, latencies, and what grows."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

import numpy as np
from rich import box
from rich.table import Table

from .live import postgres

THREADS, ASKS = 64, 200
PROCESSES, EACH, UNITS = 8, 8, 100
STORED = (10_000, 1_000_000)
ARMS = ("A", "B", "C")


def measure(rounds: int, replications: int, say: Any) -> dict[str, Any]:
    del rounds, replications  # sizes are fixed here
    with tempfile.TemporaryDirectory(dir="/tmp") as name, postgres(pathlib.Path(name)) as server:
        pathlib.Path(name).chmod(0o755)  # the server may run as another user
        places = {"SQLite": f"sqlite:///{name}/blts.db"} | ({"PostgreSQL": server} if server else {})
        rows = []
        for database, url in places.items():
            say(f"{database}: {THREADS} threads …")
            rows.append({"database": database, "who": f"{THREADS} threads", **threads(url)})
            for who in ("the same units", "units of their own"):
                say(f"{database}: {PROCESSES} processes of {EACH} threads, {who} …")
                rows.append({"database": database, "who": f"{PROCESSES} × {EACH}, {who}", **processes(url, who)})
        sizes = [alone("grow", f"{name}/{stored}.db", str(stored), say=say) for stored in STORED]
    return {"callers": rows, "sizes": sizes}


def experiment_at(url: str, name: str) -> Any:
    """An experiment whose batches somebody else ends, so that nothing but asking is timed."""
    from blts.live import Experiment

    return Experiment.create(url, name, ARMS, {"name": "bernoulli", "a": 1.0, "b": 9.0}, "exact", "external")


def summary(latencies: list[float], seconds: float, cpu: float) -> dict[str, float]:
    p50, p95, p99 = np.quantile(latencies, [0.5, 0.95, 0.99]).tolist()
    return {
        "per_s": len(latencies) / seconds,
        "per_cpu_s": len(latencies) / cpu,
        "p50": p50,
        "p95": p95,
        "p99": p99,
        "longest": max(latencies),
    }


def run_threads(count: int, work: Any) -> None:
    running = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()


def threads(url: str) -> dict[str, float]:
    """One process whose threads ask for one decision at a time; each has its answer after the commit."""
    experiment, latencies = experiment_at(url, "threads"), []
    for size in (1, 17, 257):  # compile what groups of requests need
        experiment.ask(size)

    def work(_: int) -> None:
        for _ in range(ASKS):
            began = time.perf_counter()
            experiment.ask(1)
            latencies.append(time.perf_counter() - began)

    began, cpu = time.perf_counter(), time.process_time()
    run_threads(THREADS, work)
    return summary(latencies, time.perf_counter() - began, time.process_time() - cpu)


def processes(url: str, who: str) -> dict[str, float]:
    """Processes that all ask for decisions of units; every unit must have one."""
    experiment_at(url, who)
    started = time.time() + 20.0  # until all have compiled
    running = [
        subprocess.Popen(command("serve", url, who, str(number), str(started)), stdout=subprocess.PIPE, text=True)
        for number in range(PROCESSES)
    ]
    answers = [json.loads(process.communicate()[0]) for process in running]
    decided: dict[str, set[str]] = {}
    for answer in answers:
        for unit, decision in answer["decided"]:
            decided.setdefault(unit, set()).add(decision)
    assert all(len(decisions) == 1 for decisions in decided.values()), "a unit has two decisions"
    assert len(decided) == len(set().union(*decided.values())), "two units share a decision"
    latencies = [x for answer in answers for x in answer["latencies"]]
    return summary(latencies, max(answer["ended"] for answer in answers) - started, sum(answer["cpu"] for answer in answers))


def serve(url: str, who: str, number: str, started: str) -> dict[str, Any]:
    """One of the processes."""
    experiment, latencies, decided = experiment_at(url, who), [], []
    warm = experiment_at(f"sqlite:///{tempfile.mkdtemp()}/warm.db", "warm")
    for size in (1, 17):
        warm.ask(size)
    time.sleep(max(0.0, float(started) - time.time()))
    cpu = time.process_time()

    def work(thread: int) -> None:
        for i in range(UNITS):
            unit = f"unit {i}" if who == "the same units" else f"unit {number} {thread} {i}"
            began = time.perf_counter()
            answer = experiment.ask(units=[unit])
            latencies.append(time.perf_counter() - began)
            decided.append((unit, answer.decisions[0].id))

    run_threads(EACH, work)
    return {"latencies": latencies, "decided": decided, "ended": time.time(), "cpu": time.process_time() - cpu}


def grow(path: str, stored: str) -> dict[str, Any]:
    """What processes need for one experiment with so many decisions: a caller, and the worker that refreshes it."""
    experiment, rng, n = experiment_at(path, "x"), np.random.default_rng(0), int(stored)
    while experiment.status()["decisions"] < n:
        decisions = experiment.ask(min(100_000, n)).decisions
        experiment.tell([(d.id, float(rng.random() < 0.1)) for d in decisions])
    experiment.close()
    worker = alone("work", path)
    first_ask(path)  # compiles
    return alone("use", path) | {"first": first_ask(path), "worker_gb": worker["gb"]}


def work(path: str) -> dict[str, Any]:
    """A worker that refreshes an experiment and stores its report."""
    from blts.live.worker import EXTERNAL_SECONDS, Worker

    worker = Worker(path, clock=lambda: time.time() + 2 * EXTERNAL_SECONDS)
    done = worker.once()
    assert [one.problem for one in done] == [None], done
    worker.close()
    return {"gb": peak()}


def first_ask(path: str) -> float:
    """Seconds from the start of a process until it has its first decision."""
    code = "import sys; from blts.live import Experiment; print(Experiment.open(sys.argv[1], 'x').ask().decisions[0].arm)"
    began = time.perf_counter()
    with subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() in ARMS
        return time.perf_counter() - began


def use(path: str) -> dict[str, Any]:
    """A process that opens an experiment, asks, tells and looks."""
    experiment = experiment_at(path, "x")
    waiting = [d.id for d in experiment.ask(100).decisions]
    n = experiment.status()["decisions"]
    calls = {
        "ask": lambda: experiment.ask(1),
        "tell": lambda: experiment.tell([(waiting.pop(), 1.0)]),
        "status": experiment.status,
        "report": experiment.report,
    }
    found: dict[str, Any] = {name: median_of(call) for name, call in calls.items()}
    return {"stored": n, **found, "gb": peak()}


def peak() -> float:
    """The most memory that this program held, in GB. (`getrusage` counts that of the process which started it, too.)"""
    status = pathlib.Path("/proc/self/status")
    if not status.exists():
        return float("nan")
    return next(int(line.split()[1]) / 2**20 for line in status.read_text().splitlines() if line.startswith("VmHWM"))


def median_of(call: Any, calls: int = 31) -> float:
    times = []
    for _ in range(calls):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return float(np.median(times))


def alone(what: str, *arguments: str, say: Any = None) -> Any:
    """A function of this file in a process of its own."""
    if say is not None:
        say(f"{what} {' '.join(arguments)} …")
    return json.loads(subprocess.run(command(what, *arguments), stdout=subprocess.PIPE, text=True, check=True).stdout)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "benchmarks.callers", *arguments]


def tables(result: dict[str, Any]) -> list[Table]:
    first = Table(title="Single asks of many callers", box=box.SIMPLE, collapse_padding=True)
    first.add_column("database", no_wrap=True)
    first.add_column("callers", no_wrap=True)
    for name in ("asks/s", "a CPU s", "median ms", "95 % ms", "99 % ms", "longest ms"):
        first.add_column(name, justify="right", no_wrap=True)
    for row in result["callers"]:
        times = [f"{1e3 * row[name]:.1f}" for name in ("p50", "p95", "p99", "longest")]
        first.add_row(row["database"], row["who"], f"{row['per_s']:,.0f}", f"{row['per_cpu_s']:,.0f}", *times)
    second = Table(title="One caller of a large experiment (SQLite)", box=box.SIMPLE, collapse_padding=True)
    columns = "decisions", "ask ms", "tell ms", "status ms", "report ms", "memory GB", "worker GB", "first ask of a process s"
    for name in columns:
        second.add_column(name, justify="right", no_wrap=True)
    for row in result["sizes"]:
        times = [f"{1e3 * row[name]:.2f}" for name in ("ask", "tell", "status", "report")]
        memory = [f"{row[name]:.2f}" for name in ("gb", "worker_gb", "first")]
        second.add_row(f"{row['stored']:,}", *times, *memory)
    return [first, second]


if __name__ == "__main__":
    name, *arguments = sys.argv[1:]
    print(json.dumps({"serve": serve, "grow": grow, "work": work, "use": use}[name](*arguments)))
