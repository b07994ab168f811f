"""Decision steps per second on the paper's bandits, beside hand-written NumPy."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.table import Table

from . import numpy_baseline
from .timing import Contestant, Outcome, Timing, alternate

HORIZON = 650
# NumPy needs minutes for 1000 replications of sequential BLTS (650 refreshes of 50 steps each), so both run fewer.
FEW, FEW_ROUNDS = 50, 3
CASES = (
    ("gaussian", "exact-ts", "sequential"),
    ("gaussian", "exact-ts", "dynamic"),
    ("gaussian", "blts", "dynamic"),
    ("gaussian", "blts", "sequential"),
    ("laplace", "blts", "dynamic"),
)
NUMPY, NUMPY_SUMS = "NumPy", "NumPy, sums"


def ours(env: str, agent: str, batching: str, replications: int) -> Contestant:
    from blts import condition, simulate

    case = condition(env, agent, batching, horizon=HORIZON)

    def run(seed: int) -> Outcome:
        trace = simulate(seed, case.env, case.agent, case.batching, horizon=HORIZON, replications=replications)
        return Outcome(trace.final_regret, trace.batches)

    return Contestant("blts", run, replications * HORIZON, compiles=True)


def by_hand(name: str, agent: str, batching: str, replications: int, instance: Any = None) -> Contestant:
    def run(seed: int) -> Outcome:
        settings = {"horizon": HORIZON, "replications": replications, "instance": instance}
        runs = numpy_baseline.simulate(seed, agent, batching, **settings)
        return Outcome(runs.regret[:, -1], runs.batches)

    return Contestant(name, run, replications * HORIZON)


def contestants(env: str, agent: str, batching: str, replications: int) -> list[Contestant]:
    everyone = [ours(env, agent, batching, replications)]
    if env == "laplace":
        everyone.append(by_hand(NUMPY, agent, batching, replications, numpy_baseline.Instance.paper_laplace()))
    else:
        everyone.append(by_hand(NUMPY, agent, batching, replications))
        if agent == "blts" and batching == "dynamic":
            everyone.append(by_hand(NUMPY_SUMS, "blts-sums", batching, replications))
    return everyone


def measure(rounds: int, replications: int, say: Any) -> dict[str, Any]:
    rows = []
    for env, agent, batching in CASES:
        slow = agent == "blts" and batching == "sequential"
        R = min(FEW, replications) if slow else replications
        say(f"{env}, {agent}, {batching}, {R} replications …")
        timings = alternate(contestants(env, agent, batching, R), min(rounds, FEW_ROUNDS) if slow else rounds)
        for timing in timings:
            rows.append(
                {
                    "env": env,
                    "agent": agent,
                    "batching": batching,
                    "replications": R,
                    **timing.report(),
                    **ratios(timings[0], timing),
                }
            )
    return {"horizon": HORIZON, "rows": rows}


def ratios(blts: Timing, other: Timing) -> dict[str, float]:
    """How many times the other's time is blts' time: above 1, blts is faster."""
    return {"times_blts_wall": other.wall / blts.wall, "times_blts_cpu": other.cpu / blts.cpu}


def tables(result: dict[str, Any]) -> list[Table]:
    table = Table(
        title=f"Decision steps per second, T = {result['horizon']}",
        box=box.SIMPLE,
        collapse_padding=True,
        pad_edge=False,
        caption="× is the time over that of blts (above 1, blts is faster), on the wall clock and in CPU seconds of\n"
        "all threads: NumPy uses one, blts all. Regret ± standard error: the same work must give the same.\n"
        "'NumPy' adds up the gradient row by row, as any log-density needs; 'NumPy, sums' uses that a\n"
        "Gaussian's needs only the sum of the rows. Sequential BLTS runs at most "
        f"{FEW} replications and\n{FEW_ROUNDS} rounds, because NumPy needs minutes for 1000.",
        caption_justify="left",
    )
    table.add_column("bandit, agent, batches, runs", no_wrap=True)
    for name in ("steps/s", "wall s", "×", "CPU s", "×", "compile", "regret", "batches"):
        table.add_column(name, justify="right", no_wrap=True)
    previous = None
    for row in result["rows"]:
        case = f"{row['env']} {row['agent']} {row['batching']} {row['replications']}"
        if case != previous:
            table.add_section()
            table.add_row(f"[bold]{case}")
        table.add_row(
            f"  {row['name']}",
            steps(row["steps_per_s"]),
            f"{row['wall_s']:.2f}",
            f"{row['times_blts_wall']:.2f}",
            f"{row['cpu_s']:.2f}",
            f"{row['times_blts_cpu']:.2f}",
            "" if row["compile_s"] is None else f"{row['compile_s']:.1f} s",
            f"{row['regret_mean']:.1f}±{row['regret_se']:.1f}",
            f"{row['batches_mean']:.1f}",
        )
        previous = case
    return [table]


def steps(rate: float) -> str:
    return f"{rate / 1e6:.2f} M" if rate >= 1e6 else f"{rate / 1e3:.3g} k" if rate >= 1e3 else f"{rate:.0f}"
