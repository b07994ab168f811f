"""How long a person waits: from the shell prompt to the first table, with nothing compiled before and again.

Each command runs in a fresh process. Wall and CPU seconds are those of the process; programs are counted in a run of their own,
because that run logs them.
"""

from __future__ import annotations

import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any, NamedTuple

from rich.table import Table

NUMPYRO = """
import numpyro.distributions as dist
from blts import Bandit, DoublingCounts, Thompson, from_numpyro, simulate

def likelihood(center, scale):
    return dist.Logistic(center, scale)

def prior(guess):
    return {"center": dist.Normal(guess, 1.0), "scale": dist.LogNormal(-1.0, 0.3)}

model = from_numpyro(likelihood, prior, guess=[0.0, 0.5, 1.0])
print(simulate(0, Bandit(model), Thompson(model), DoublingCounts(), horizon=100, replications=20))
"""
SIMULATE = [sys.executable, "-m", "blts", "simulate"]
NOTHING = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import blts": [sys.executable, "-c", "import blts"],
    "blts --help": [sys.executable, "-m", "blts", "--help"],
    "import jax": [sys.executable, "-c", "import jax"],
    "from blts import simulate": [sys.executable, "-c", "from blts import simulate"],
}
"""Commands that compile nothing."""
ANSWERS = {
    "exact Thompson sampling": [*SIMULATE, "--agent", "exact-ts"],
    "BLTS": [*SIMULATE, "--agent", "blts"],
    "tabular posterior sampling": [*SIMULATE, "--env", "riverswim", "--agent", "ds-psrl"],
    "inventory, a parametric world": [*SIMULATE, "--env", "inventory", "--agent", "sgld-psrl"],
    "a NumPyro model in Python": [sys.executable, "-c", NUMPYRO],
}


class Spent(NamedTuple):
    wall: float
    cpu: float
    programs: int = 0
    """Programs that JAX asked for."""
    loaded: int = 0
    """Of which were found in the folder of compiled programs."""


def spent(command: list[str], cache: pathlib.Path, log: bool = False) -> Spent:
    """Run a command in a process of its own.

    Args:
        command: the program and its arguments.
        cache: the folder for compiled programs.
        log: have JAX say what it compiles, and count that.

    Returns:
        Its wall and CPU seconds, and the programs where asked for.
    """
    environment = os.environ | {"XDG_CACHE_HOME": str(cache), "JAX_ENABLE_COMPILATION_CACHE": "true"}
    for name in ("JAX_COMPILATION_CACHE_DIR", "PYTHONDONTWRITEBYTECODE"):  # an installed package has bytecode
        environment.pop(name, None)
    start, before = time.perf_counter(), os.times()
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, env=environment | {"JAX_LOG_COMPILES": str(int(log))}
    )
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    counts = (done.stderr.count(text) for text in ("Finished XLA compilation of", "Persistent compilation cache hit for"))
    return Spent(time.perf_counter() - start, cpu, *counts)


def measure(rounds: int, replications: int, say: Any) -> dict[str, Any]:
    del replications
    times: dict[str, list[Spent]] = {name: [] for name in NOTHING}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(rounds):
            say(f"first answers, nothing to compile, round {turn + 1} …")
            for name, command in NOTHING.items():
                times[name].append(spent(command, pathlib.Path(folder)))
    rows = [{"command": name, **_medians(found)} for name, found in times.items()]
    cold: dict[str, list[Spent]] = {name: [] for name in ANSWERS}
    warm: dict[str, list[Spent]] = {name: [] for name in ANSWERS}
    counts: dict[str, tuple[Spent, Spent]] = {}
    for turn in range(rounds):
        for name, command in ANSWERS.items():
            say(f"first answers, {name}, round {turn + 1} …")
            with tempfile.TemporaryDirectory() as folder:
                cold[name].append(spent(command, pathlib.Path(folder)))
                warm[name].append(spent(command, pathlib.Path(folder)))
            if turn == 0:
                with tempfile.TemporaryDirectory() as folder:
                    counts[name] = (spent(command, pathlib.Path(folder), log=True), spent(command, pathlib.Path(folder), log=True))
    for name, (first, again) in counts.items():
        found = {"programs": first.programs, "compiled_again": again.programs - again.loaded}
        rows.append({"command": name, **_medians(cold[name]), "warm": _medians(warm[name]), **found})
    return {"rows": rows}


def _medians(found: list[Spent]) -> dict[str, float]:
    return {"wall_s": statistics.median(one.wall for one in found), "cpu_s": statistics.median(one.cpu for one in found)}


def tables(result: dict[str, Any]) -> list[Table]:
    table = Table(title="From the prompt to the first table, median seconds", caption_justify="left")
    table.caption = "“again” finds the compiled programs of the first run in the cache. The first three rows do not load JAX."
    table.add_column("command", no_wrap=True)
    for heading in ("wall", "CPU", "programs", "again: wall", "CPU", "programs"):
        table.add_column(heading, justify="right")
    for row in result["rows"]:
        numbers = [f"{row['wall_s']:.2f}", f"{row['cpu_s']:.2f}"]
        if "warm" in row:
            again = row["warm"]
            numbers += [str(row["programs"]), f"{again['wall_s']:.2f}", f"{again['cpu_s']:.2f}", str(row["compiled_again"])]
        table.add_row(row["command"], *numbers)
    return [table]
