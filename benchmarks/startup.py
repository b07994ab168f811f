"""How long a user waits before anything happens."""

from __future__ import annotations

import pathlib
import statistics
import subprocess
import sys
import time
from typing import Any

from rich.table import Table

SCRIPT = pathlib.Path(sys.executable).parent / "blts"
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import blts": [sys.executable, "-c", "import blts"],
    "blts --help": [str(SCRIPT), "--help"],
    "import jax": [sys.executable, "-c", "import jax"],
    "from blts import simulate": [sys.executable, "-c", "from blts import simulate"],
}


def measure(rounds: int, replications: int, say: Any) -> dict[str, Any]:
    del replications
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for turn in range(rounds):
        say(f"startup, round {turn + 1} …")
        for name, command in COMMANDS.items():
            start = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            times[name].append(time.perf_counter() - start)
    return {"rows": [{"command": name, "wall_s": statistics.median(seconds)} for name, seconds in times.items()]}


def tables(result: dict[str, Any]) -> list[Table]:
    table = Table(title="Startup, median wall time", caption="The first three do not load JAX.", caption_justify="left")
    table.add_column("command", no_wrap=True)
    table.add_column("ms", justify="right")
    table.add_column("over python, ms", justify="right")
    nothing = result["rows"][0]["wall_s"]
    for row in result["rows"]:
        table.add_row(row["command"], f"{1000 * row['wall_s']:.0f}", f"{1000 * (row['wall_s'] - nothing):.0f}")
    return [table]
