"""How the time of a run grows with the horizon, the replications and the arms."""

from __future__ import annotations

import math
from typing import Any

from rich import box
from rich.table import Table

from .timing import Contestant, Outcome, alternate

BASE = {"horizon": 650, "replications": 250, "arms": 15}
SIZES = {"horizon": (650, 1300, 2600), "replications": (250, 1000), "arms": (5, 15, 45)}
AGENTS = ("exact-ts", "blts")
ROUNDS = 3


def contestant(agent: str, *, horizon: int, replications: int, arms: int) -> Contestant:
    """The paper's Gaussian bandit with its informative prior, for any number of arms, under dynamic batches."""
    from blts import condition, simulate

    case = condition("gaussian", agent, "dynamic", "informative", horizon, options={"arms": arms})

    def run(seed: int) -> Outcome:
        trace = simulate(seed, case.env, case.agent, case.batching, horizon=horizon, replications=replications)
        return Outcome(trace.final_regret, trace.batches)

    return Contestant(agent, run, horizon * replications, compiles=True)


def measure(rounds: int, replications: int, say: Any) -> dict[str, Any]:
    del replications  # a size here, not a setting
    rows, known = [], {}
    for agent in AGENTS:
        for name, sizes in SIZES.items():
            for size in sizes:
                setting = BASE | {name: size}
                key = (agent, *setting.values())
                if key not in known:
                    say(f"{agent}, dynamic, " + ", ".join(f"{k} {v}" for k, v in setting.items()) + " …")
                    known[key] = alternate([contestant(agent, **setting)], min(rounds, ROUNDS))[0]
                rows.append({"agent": agent, "varied": name, "size": size, **known[key].report()})
    return {"base": BASE, "rows": rows, "exponents": exponents(rows)}


def exponents(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """The slope of log CPU time against log size, between the smallest and the largest size."""
    out: dict[str, dict[str, float]] = {}
    for agent in AGENTS:
        for name in SIZES:
            mine = [row for row in rows if row["agent"] == agent and row["varied"] == name]
            slope = math.log(mine[-1]["cpu_s"] / mine[0]["cpu_s"]) / math.log(mine[-1]["size"] / mine[0]["size"])
            out.setdefault(agent, {})[name] = slope
    return out


def tables(result: dict[str, Any]) -> list[Table]:
    base = ", ".join(f"{name} {size}" for name, size in result["base"].items())
    table = Table(
        title="Growth of the time of a run (Gaussian, dynamic batches)",
        box=box.SIMPLE,
        collapse_padding=True,
        caption=f"The others stay at {base}. The exponent is that of CPU time between the smallest and the largest size.",
        caption_justify="left",
    )
    for name in ("agent", "varied"):
        table.add_column(name, no_wrap=True)
    for name in ("sizes", "wall s", "CPU s", "exponent"):
        table.add_column(name, justify="right", no_wrap=True)
    for agent in AGENTS:
        for name in SIZES:
            mine = [row for row in result["rows"] if row["agent"] == agent and row["varied"] == name]
            table.add_row(
                agent,
                name,
                " / ".join(str(row["size"]) for row in mine),
                " / ".join(f"{row['wall_s']:.2f}" for row in mine),
                " / ".join(f"{row['cpu_s']:.2f}" for row in mine),
                f"{result['exponents'][agent][name]:.2f}",
            )
        table.add_section()
    return [table]
