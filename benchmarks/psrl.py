"""Posterior sampling on RiverSwim with 6 states, beside hand-written NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from rich import box
from rich.table import Table

from . import numpy_psrl, peers
from .bandits import ratios
from .timing import Contestant, Outcome, alternate

HORIZON, STATES = 4096, 6
FEW = 20  # the plain loop takes 10 to 30 ms a replication
RULES = {"static": "static", "dynamic": "doubled-since-switch", "tsde": "tsde"}
SAMPLERS = {"exact": "ds-psrl", "Langevin": "mld-psrl"}
GROWTH = {
    "horizon": (1024, 4096, 16_384),
    "replications": (250, 1000, 4000),
    "states": (6, 12, 24),
}


def ours(agent: str, rule: str, *, horizon: int = HORIZON, replications: int, states: int = STATES) -> Contestant:
    from blts import condition, simulate

    options = {"states": states} | ({} if rule == "static" else {"pseudo_count": 0})
    case = condition("riverswim", agent, RULES[rule], horizon=horizon, options=options)

    def run(seed: int) -> Outcome:
        trace = simulate(seed, case.env, case.agent, case.batching, horizon=horizon, replications=replications, times=1)
        return Outcome(trace.final_regret, trace.batches)

    return Contestant(f"blts, {'exact' if agent == 'ds-psrl' else 'Langevin'}", run, replications * horizon, compiles=True)


def by_hand(name: str, simulate: Any, rule: str, replications: int) -> Contestant:
    from blts.envs import riverswim

    env = riverswim(STATES)
    P, r, gain = env.dense, np.asarray(env.rewards), float(env.gain)

    def run(seed: int) -> Outcome:
        return Outcome(*simulate(seed, P, r, gain, rule, horizon=HORIZON, replications=replications))

    return Contestant(name, run, replications * HORIZON)


def measure(rounds: int, replications: int, say: Any) -> dict[str, Any]:
    rows = []
    for rule in RULES:
        say(f"posterior sampling, {rule}, {replications} replications …")
        timings = alternate(
            [
                ours("ds-psrl", rule, replications=replications),
                ours("mld-psrl", rule, replications=replications),
                by_hand("NumPy, all at once", numpy_psrl.simulate, rule, replications),
                by_hand("NumPy, one by one", numpy_psrl.simulate_one_by_one, rule, min(FEW, replications)),
            ],
            rounds,
        )
        for timing in timings:
            each = 1000 * timing.wall * HORIZON / timing.steps
            mine = timings[0]._replace(
                wall=timings[0].wall * timing.steps / timings[0].steps, cpu=timings[0].cpu * timing.steps / timings[0].steps
            )
            rows.append({"rule": rule, "ms_a_replication": each, **timing.report(), **ratios(mine, timing)})
    say("peers on RiverSwim …")
    there = peers.run_there("peer_mdps.py", rounds, STATES, HORIZON)
    return {"horizon": HORIZON, "states": STATES, "rows": rows, "peers": there, "growth": growth(max(2, rounds // 2), say)}


def growth(rounds: int, say: Any) -> list[dict[str, Any]]:
    out = []
    for what, values in GROWTH.items():
        say(f"posterior sampling against {what} …")
        seconds = []
        for value in values:
            sizes = {"horizon": HORIZON, "replications": 1000, "states": STATES} | {what: value}
            seconds.append(alternate([ours("ds-psrl", "static", **sizes)], rounds)[0].wall)
        slope = math.log(seconds[-1] / seconds[0]) / math.log(values[-1] / values[0])
        out.append({"what": what, "values": values, "seconds": seconds, "power": slope})
    return out


def tables(result: dict[str, Any]) -> list[Table]:
    table = Table(
        title=f"Posterior sampling, RiverSwim of {result['states']} states, T = {result['horizon']}",
        box=box.SIMPLE,
        pad_edge=False,
        caption="× is the time a replication over that of blts with exact rows (above 1, blts is faster), on the wall clock\n"
        "and in CPU seconds. Regret ± standard error: the same work must give the same.",
        caption_justify="left",
    )
    for name in ("switches when", "who"):
        table.add_column(name, no_wrap=True)
    for name in ("ms a replication", "×", "× CPU", "compile", "regret", "batches"):
        table.add_column(name, justify="right", no_wrap=True)
    previous = None
    for row in result["rows"]:
        if row["rule"] != previous:
            table.add_section()
        table.add_row(
            row["rule"] if row["rule"] != previous else "",
            row["name"],
            f"{row['ms_a_replication']:.3g}",
            f"{row['times_blts_wall']:.2f}",
            f"{row['times_blts_cpu']:.2f}",
            "" if row["compile_s"] is None else f"{row['compile_s']:.1f} s",
            f"{row['regret_mean']:.0f}±{row['regret_se']:.0f}",
            f"{row['batches_mean']:.1f}",
        )
        previous = row["rule"]
    grown = Table(title="How its time grows (static, exact rows)", box=box.SIMPLE, pad_edge=False)
    for name in ("with", "at", "seconds", "power"):
        grown.add_column(name, justify="left" if name == "with" else "right")
    for row in result["growth"]:
        at, seconds = (" / ".join(f"{x:.3g}" for x in xs) for xs in (row["values"], row["seconds"]))
        grown.add_row(row["what"], at, seconds, f"{row['power']:.2f}")
    others = Table(title="Peers on the same chain, one replication at a time", box=box.SIMPLE, pad_edge=False)
    if isinstance(result["peers"], str):
        others.add_column(result["peers"])
        return [table, others, grown]
    ours = {row["rule"]: row["ms_a_replication"] for row in result["rows"] if row["name"] == "blts, exact"}
    for name in ("who", "ms a replication", "× blts, dynamic", "reward a round"):
        others.add_column(name, justify="left" if name == "who" else "right")
    for row in result["peers"]:
        ms = row["ms_a_replication"]
        others.add_row(row["name"], f"{ms:.3g}", f"{ms / ours['dynamic']:.0f}", f"{row['reward']:.3f}")
    return [table, others, grown]
