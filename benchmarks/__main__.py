"""`python -m benchmarks`: every table, also written to benchmarks/results/bench.json."""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import platform
import time

from rich.console import Console

from . import bandits, callers, contextual, first, growth, kernels, late, leap, live, memory, peers, planners, psrl, rows, serve

SECTIONS = {
    "bandits": bandits,
    "callers": callers,
    "contextual": contextual,
    "first": first,
    "growth": growth,
    "kernels": kernels,
    "late": late,
    "leap": leap,
    "live": live,
    "memory": memory,
    "peers": peers,
    "planners": planners,
    "psrl": psrl,
    "rows": rows,
    "serve": serve,
}
RESULTS = pathlib.Path(__file__).resolve().parent / "results" / "bench.json"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", choices=SECTIONS, help="one table alone")
    parser.add_argument("--rounds", type=positive, default=5, help="turns of each contestant (5)")
    parser.add_argument("--replications", type=positive, default=1000, help="replications of blts and NumPy (1000)")
    options = parser.parse_args()

    import jax
    import numpy as np

    jax.config.update("jax_enable_compilation_cache", False)  # compile times are those of a first run
    console = Console(width=max(100, Console().width) if Console().is_terminal else 100)
    machine = {"cores": os.cpu_count(), "python": platform.python_version(), "jax": jax.__version__, "numpy": np.__version__}
    # A table measured alone replaces its own part of the file.
    report = json.loads(RESULTS.read_text()) if options.only and RESULTS.exists() else {}
    began, load = time.perf_counter(), os.getloadavg()[0]
    for name in [options.only] if options.only else SECTIONS:
        with console.status(name) as status:
            result = SECTIONS[name].measure(options.rounds, options.replications, status.update)
        for table in SECTIONS[name].tables(result):
            console.print(table)
        report[name] = {"machine": {**machine, "load": [load, os.getloadavg()[0]]}, "rounds": options.rounds, **result}
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(report, indent=1) + "\n")
    passed = f"{time.perf_counter() - began:.0f} s on {machine['cores']} cores (load {load:.1f} to {os.getloadavg()[0]:.1f})"
    console.print(f"{passed}, written to {RESULTS}")


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {value}")
    return value


main()
