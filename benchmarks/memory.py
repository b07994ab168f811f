"""Peak memory of a run, in bytes for each round of each replication: the slope between two numbers of replications."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from rich import box
from rich.table import Table

HORIZON, FEW, MANY = 650, 1000, 9000
CASES = (("exact-ts", None), ("exact-ts", 1), ("blts", None), ("blts", 1))
PROGRAM = """
import resource
from blts import condition, simulate
case = condition("gaussian", {agent!r}, "dynamic", horizon={horizon})
simulate(0, case.env, case.agent, case.batching, horizon={horizon}, replications={replications}, times={times}, threads=1)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def peak(agent: str, times: int | None, replications: int) -> int:
    program = PROGRAM.format(agent=agent, times=times, replications=replications, horizon=HORIZON)
    return int(subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.split()[-1])


def measure(rounds: int, replications: int, say: Any) -> dict[str, Any]:
    del rounds, replications  # sizes here, and memory does not vary
    rows = []
    for agent, times in CASES:
        say(f"memory of {agent} …")
        few, many = peak(agent, times, FEW), peak(agent, times, MANY)
        rows.append({"agent": agent, "times": times, "few": few, "many": many, "bytes": (many - few) / (MANY - FEW) / HORIZON})
    return {"horizon": HORIZON, "rows": rows}


def tables(result: dict[str, Any]) -> list[Table]:
    table = Table(title=f"Peak memory, T = {result['horizon']}, dynamic batches", box=box.SIMPLE, pad_edge=False)
    for name in ("agent", "recorded", "bytes a replication-step", f"MiB at {FEW}", f"MiB at {MANY}"):
        table.add_column(name, justify="left" if name in ("agent", "recorded") else "right")
    for row in result["rows"]:
        recorded = "every round" if row["times"] is None else "the last"
        table.add_row(row["agent"], recorded, f"{row['bytes']:.1f}", *(f"{row[k] / 2**20:.0f}" for k in ("few", "many")))
    return [table]
