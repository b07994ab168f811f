"""`python -m benchmarks.gpu`: decision steps per second on one accelerator, beside the floors that bytes and operations set.

`--leap` measures leaping alone: seconds of the first call, which compiles, and of the second.

It needs no more than jax, numpy, scipy and rich, and runs where jax finds an accelerator.
"""

from __future__ import annotations

import json
import os
import pathlib
import statistics
import sys
import time

HORIZON = 650
ARMS = 15
SIZES = {"exact-ts": (10_000, 100_000, 400_000, 1_600_000), "blts": (10_000, 100_000, 400_000)}
LEAP = 10**7  # rounds of a leap, and the replications that leap
LEAPS = (10_000, 100_000)
ROUNDS = 3
RESULTS = pathlib.Path(os.environ.get("OUT", pathlib.Path(__file__).resolve().parent / "results"))


def rate(agent: str, replications: int) -> dict:
    """Steps per second of whole runs, the median of some: with the trace on the host, and with the record on the device."""
    import jax
    import numpy as np

    from blts import condition, simulate, simulation
    from blts._random import as_key

    case = condition("gaussian", agent, "dynamic", horizon=HORIZON)
    times = simulation.recorded_times(1, HORIZON)
    settings = {"capacity": HORIZON, "replications": replications, "keep_actions": False}
    passed, on_device, regrets = [], [], []
    for seed in range(ROUNDS + 1):
        began = time.perf_counter()
        trace = simulate(seed, case.env, case.agent, case.batching, horizon=HORIZON, replications=replications, times=times)
        passed.append(time.perf_counter() - began)
        regrets.append(float(trace.final_regret.mean()))
        began = time.perf_counter()
        run = simulation.programs.stepping(False)
        parts = (case.env, case.agent, case.batching)
        jax.block_until_ready(run(as_key(seed), *parts, times, np.int32(0), np.int32(HORIZON), np.int32(replications), **settings))
        on_device.append(time.perf_counter() - began)
    wall, device = statistics.median(passed[1:]), statistics.median(on_device[1:])
    return {
        "agent": agent,
        "replications": replications,
        "wall_s": wall,
        "compile_s": passed[0] - wall,
        "steps_per_s": replications * HORIZON / wall,
        "device_steps_per_s": replications * HORIZON / device,
        "regret": statistics.mean(regrets[1:]),
    }


def leap(replications: int) -> dict:
    """Seconds of the first and the second call of one shape, with a warning as an error: none is for users to see."""
    import warnings

    from blts import condition, simulate

    case = condition("gaussian", "exact-ts", "dynamic", "informative", LEAP)
    settings = {"horizon": LEAP, "replications": replications, "times": 100, "engine": "leap"}
    seconds, regrets = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in range(2):
            began = time.perf_counter()
            trace = simulate(seed, case.env, case.agent, case.batching, **settings)
            seconds.append(time.perf_counter() - began)
            regrets.append(float(trace.final_regret.mean()))
    return {"replications": replications, "first_s": seconds[0], "second_s": seconds[1], "regret": regrets[1]}


def leaps(console) -> list[dict]:
    import jax
    from rich import box
    from rich.table import Table

    rows = [leap(size) for size in (LEAPS[:1] if jax.default_backend() == "cpu" else LEAPS)]
    table = Table(title=f"{jax.devices()[0].device_kind}, leaping, T = {LEAP:.0e}, {ARMS} arms, dynamic batches", box=box.SIMPLE)
    for name in ("replications", "first call s", "second call s", "regret"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(str(row["replications"]), f"{row['first_s']:.2f}", f"{row['second_s']:.2f}", f"{row['regret']:.2f}")
    console.print(table)
    return rows


def floors() -> dict[str, float]:
    """What the machine does of the two things that a step cannot do without: normals, and reading and writing the state."""
    import jax
    import jax.numpy as jnp

    from blts import random

    def timed(f, *arguments) -> float:
        jax.block_until_ready(f(*arguments))
        times = []
        for _ in range(5):
            began = time.perf_counter()
            jax.block_until_ready(f(*arguments))
            times.append(time.perf_counter() - began)
        return statistics.median(times)

    n = 2**28 if jax.default_backend() != "cpu" else 2**22
    normals = n / timed(jax.jit(lambda key: random.normal(key, (n,)).sum()), random.key(0))
    x = jnp.ones(n, jnp.float32)
    moved = 2 * 4 * n / timed(jax.jit(lambda x: x * 1.5 + 1.0), x)
    return {"normals_per_s": normals, "bytes_per_s": moved}


def main() -> None:
    import jax
    from rich import box
    from rich.console import Console
    from rich.table import Table

    sizes = {agent: sizes[:1] for agent, sizes in SIZES.items()} if jax.default_backend() == "cpu" else SIZES
    console = Console(width=100)
    if jax.default_backend() == "cpu":
        console.print("jax finds no accelerator here: the smallest sizes on the CPU.")
    leaping = leaps(console)
    if "--leap" in sys.argv[1:]:
        return
    floor = floors()
    # A round draws a normal for every arm and one for the reward; two rounds share the generator's blocks, each of which gives two
    # normals, of which `random.normal` takes one. Between rounds the state goes through memory: for each arm the posterior's
    # mean and sd, the count, mean and rounding of its rewards, its plays and their copy.
    limits = {
        "normals alone": 2 * floor["normals_per_s"] / (ARMS + 1),
        "bytes of the state, read and written once a round": floor["bytes_per_s"] / (2 * 4 * 7 * ARMS),
    }
    rows = [rate(agent, size) for agent, some in sizes.items() for size in some]
    table = Table(title=f"{jax.devices()[0].device_kind}, T = {HORIZON}, {ARMS} arms, dynamic batches", box=box.SIMPLE)
    for name in ("agent", "replications", "steps/s", "on the host", "wall s", "compile s", "regret"):
        table.add_column(name, justify="left" if name == "agent" else "right")
    for row in rows:
        table.add_row(
            row["agent"],
            str(row["replications"]),
            f"{row['device_steps_per_s']:.3g}",
            f"{row['steps_per_s']:.3g}",
            f"{row['wall_s']:.3f}",
            f"{row['compile_s']:.1f}",
            f"{row['regret']:.2f}",
        )
    console.print(table)
    best = max(row["device_steps_per_s"] for row in rows if row["agent"] == "exact-ts")
    for name, limit in limits.items():
        console.print(f"exact-ts could at most do {limit:.3g} steps/s by its {name}; it does {best / limit:.0%} of that.")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "gpu.json").write_text(
        json.dumps({"device": str(jax.devices()[0]), **floor, "limits": limits, "rows": rows, "leap": leaping}, indent=1)
    )


if __name__ == "__main__":
    sys.exit(main())
