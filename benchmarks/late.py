"""What late rewards cost: the time of a simulation with delays over that of the same one without."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.table import Table

from .timing import Contestant, Outcome, alternate

HORIZON = 650
CASES = (("exact-ts", "sequential"), ("exact-ts", "dynamic"), ("blts", "dynamic"))
DELAYS = (None, "fixed 10", "geometric 50")
GOAL = 2.0


def contestant(agent: str, batching: str, delay: str | None, replications: int) -> Contestant:
    from blts import condition, simulate

    case = condition("gaussian", agent, batching, horizon=HORIZON, options={} if delay is None else {"delay": delay})

    def run(seed: int) -> Outcome:
        trace = simulate(seed, case.env, case.agent, case.batching, horizon=HORIZON, replications=replications, times=100)
        return Outcome(trace.final_regret, trace.batches)

    return Contestant(delay or "no delays", run, replications * HORIZON, compiles=True)


def measure(rounds: int, replications: int, say: Any) -> dict[str, Any]:
    rows = []
    for agent, batching in CASES:
        say(f"late rewards, {agent}, {batching} …")
        timings = alternate([contestant(agent, batching, delay, replications) for delay in DELAYS], rounds)
        for timing in timings:
            ratios = {"times_wall": timing.wall / timings[0].wall, "times_cpu": timing.cpu / timings[0].cpu}
            rows.append({"agent": agent, "batching": batching, **timing.report(), **ratios})
    return {"horizon": HORIZON, "replications": replications, "rows": rows}


def tables(result: dict[str, Any]) -> list[Table]:
    table = Table(
        title=f"Late rewards, the paper's Gaussian bandit, T = {result['horizon']}, {result['replications']} replications",
        box=box.SIMPLE,
        caption=f"× is the time over that without delays; the goal is at most {GOAL:g}.",
        caption_justify="left",
    )
    table.add_column("agent, batches, delays", no_wrap=True)
    for name in ("wall s", "×", "CPU s", "×", "regret"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in result["rows"]:
        table.add_row(
            f"{row['agent']} {row['batching']}, {row['name']}",
            f"{row['wall_s']:.3f}",
            f"{row['times_wall']:.2f}",
            f"{row['cpu_s']:.3f}",
            f"{row['times_cpu']:.2f}",
            f"{row['regret_mean']:.1f}±{row['regret_se']:.1f}",
        )
    return [table]
