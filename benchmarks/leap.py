"""Whole batches at a time against round by round and NumPy by hand: exact Thompson sampling on the paper's Gaussian bandit."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.table import Table

from . import numpy_baseline
from .timing import Contestant, Outcome, alternate

LEAPS = (650, 20_000, 10**6, 10**7, 10**9)
STEPS = (650, 20_000)
BY_HAND = 650
"""NumPy's time is measured here and scaled linearly: it does the same work in every round."""
POINTS = 100


def engine(name: str, horizon: int, replications: int) -> Contestant:
    from blts import condition, simulate

    case = condition("gaussian", "exact-ts", "dynamic", "informative", horizon)

    def run(seed: int) -> Outcome:
        settings = {"horizon": horizon, "replications": replications, "times": POINTS, "engine": name}
        trace = simulate(seed, case.env, case.agent, case.batching, **settings)
        return Outcome(trace.final_regret, trace.batches)

    return Contestant(f"{name}, T = {horizon:.3g}", run, horizon * replications, compiles=True)


def by_hand(replications: int) -> Contestant:
    def run(seed: int) -> Outcome:
        runs = numpy_baseline.simulate(seed, "exact-ts", "dynamic", horizon=BY_HAND, replications=replications)
        return Outcome(runs.regret[:, -1], runs.batches)

    return Contestant(f"NumPy by hand, T = {BY_HAND}", run, BY_HAND * replications)


def measure(rounds: int, replications: int, say: Any) -> dict[str, Any]:
    say(f"exact TS, {replications} replications, T = 650 to 10⁹ …")
    who = [engine("leap", T, replications) for T in LEAPS] + [engine("step", T, replications) for T in STEPS]
    timings = alternate([*who, by_hand(replications)], rounds)
    leap, step = dict(zip(LEAPS, timings, strict=False)), dict(zip(STEPS, timings[len(LEAPS) :], strict=False))
    long = max(STEPS)
    return {
        "replications": replications,
        "rows": [timing.report() for timing in timings],
        "times_numpy_at_1e7": timings[-1].wall * (10**7 / BY_HAND) / leap[10**7].wall,
        "growth_1e9_over_1e6": leap[10**9].wall / leap[10**6].wall,
        "growth_1e9_over_1e6_cpu": leap[10**9].cpu / leap[10**6].cpu,
        "break_even": leap[long].cpu / (step[long].cpu / long),
        "rounds_a_replication_costs": {str(T): leap[T].cpu / (step[long].cpu / long) for T in LEAPS},
    }


def tables(result: dict[str, Any]) -> list[Table]:
    caption = (
        f"Medians, {result['replications']} replications, {POINTS} recorded rounds. NumPy's time at T = 10⁷ is that at "
        f"{BY_HAND}, scaled linearly: leaping is {result['times_numpy_at_1e7']:.0f} times as fast. "
        f"Time at 10⁹ over that at 10⁶: {result['growth_1e9_over_1e6']:.2f} (CPU {result['growth_1e9_over_1e6_cpu']:.2f}). "
        f"Leaping breaks even with stepping at T = {result['break_even']:.0f}."
    )
    table = Table(title="Leaping over batches (Gaussian, 15 arms, exact TS, dynamic)", box=box.SIMPLE, caption=caption)
    table.add_column("", no_wrap=True)
    for name in ("wall s", "CPU s", "compile s", "regret", "batches"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in result["rows"]:
        compilation = "" if row["compile_s"] is None else f"{row['compile_s']:.1f}"
        regret = f"{row['regret_mean']:.2f} ± {row['regret_se']:.2f}"
        table.add_row(row["name"], f"{row['wall_s']:.2f}", f"{row['cpu_s']:.2f}", compilation, regret, f"{row['batches_mean']:.2f}")
    return [table]
