"""Transition rows: the time of a draw, and how many iterations each Langevin sampler needs as the counts grow."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from rich import box
from rich.table import Table

REPLICATIONS, STATES, ACTIONS = 1000, 6, 2
LANES = 2000  # draws per distance; as many exact ones are 0.03 sd away
NEAR = 0.1
ALPHAS = (1.0, 0.2)
TOTALS = (10, 100, 1000, 10_000)
SHARES = {"all seen": (0.1, 0.1, 0.2, 0.2, 0.4), "two unseen": (0.0, 0.6, 0.0, 0.1, 0.3)}
MOST = 20_000


def distance(rows: np.ndarray, a: np.ndarray) -> float:
    """The largest W1 over the coordinates to their Beta law, in sds of that law."""
    from scipy import stats

    level, total = (np.arange(len(rows)) + 0.5) / len(rows), a.sum()
    law = [stats.beta(x, total - x) for x in a]
    return max(float(np.mean(np.abs(np.sort(rows[:, i]) - law[i].ppf(level))) / law[i].std()) for i in range(a.size))


def needed_steps(name: str, alpha: float, counts: np.ndarray) -> int | None:
    """The least power of two of iterations that comes within 0.1 sd, from rows drawn at half the counts; None beyond MOST."""
    import jax
    import jax.numpy as jnp

    from blts import random
    from blts.samplers.rows import ExactRows, LogGammaRows, MirroredRows

    keys = random.split(random.key(0), LANES)
    wide = lambda x: jnp.broadcast_to(jnp.asarray(x, float), (LANES, counts.size))  # noqa: E731
    run = jax.jit(lambda sampler, keys, counts, start: sampler.draw(keys, wide(alpha), wide(counts), start).rows)
    # The number of iterations is traced here: one program for all of them.
    mirrored = jax.jit(
        lambda steps, keys, counts, start: MirroredRows(steps=lambda a: steps).draw(keys, wide(alpha), wide(counts), start).rows
    )
    start = run(ExactRows(), random.split(random.key(1), LANES), jnp.asarray(counts // 2), wide(1 / counts.size))
    steps = 1
    while steps <= MOST:
        data = keys, jnp.asarray(counts), start
        rows = run(LogGammaRows(steps), *data) if name == "log-gamma" else mirrored(jnp.asarray(steps), *data)
        if distance(np.asarray(rows, float), alpha + counts) < NEAR:
            return steps
        steps *= 2
    return None


def seconds(sampler: Any, rounds: int) -> float:
    """The median time of one draw for 1000 replications of 6 states and 2 actions."""
    import jax
    import jax.numpy as jnp

    from blts import random

    lanes = REPLICATIONS * STATES * ACTIONS
    keys = random.split(random.key(0), lanes)
    counts = jnp.asarray(np.random.default_rng(0).integers(0, 50, (lanes, STATES)))
    run = jax.jit(lambda keys, counts: sampler.draw(keys, jnp.ones(counts.shape), counts, jnp.full(counts.shape, 1 / STATES)))
    jax.block_until_ready(run(keys, counts))
    times = []
    for _ in range(4 * rounds):
        began = time.perf_counter()
        jax.block_until_ready(run(keys, counts))
        times.append(time.perf_counter() - began)
    return float(np.median(times))


def measure(rounds: int, replications: int, say: Any) -> dict[str, Any]:
    del replications  # fixed: a draw is for 1000
    from blts.samplers.rows import ExactRows, LogGammaRows, MirroredRows

    speed = {}
    for name, sampler in (("exact", ExactRows()), ("log-gamma", LogGammaRows()), ("mirrored, 100 steps", MirroredRows(steps=100))):
        say(f"rows, {name} …")
        speed[name] = seconds(sampler, rounds)
    needed = []
    for name in ("log-gamma", "mirrored"):
        for alpha in ALPHAS:
            for kind, shares in SHARES.items():
                say(f"rows, {name}, alpha {alpha}, {kind} …")
                steps = [needed_steps(name, alpha, np.round(n * np.array(shares))) for n in TOTALS]
                needed.append({"sampler": name, "alpha": alpha, "counts": kind, "steps": steps})
    return {"lanes": REPLICATIONS * STATES * ACTIONS, "seconds": speed, "totals": TOTALS, "needed": needed}


def tables(result: dict[str, Any]) -> list[Table]:
    speed = Table(title=f"One draw of {result['lanes']} rows of {STATES} states", box=box.SIMPLE)
    speed.add_column("sampler")
    speed.add_column("ms", justify="right")
    for name, value in result["seconds"].items():
        speed.add_row(name, f"{1000 * value:.1f}")
    needed = Table(title=f"Iterations to W1 ≤ {NEAR} sd (powers of two)", box=box.SIMPLE)
    for name in ("sampler", "alpha", "counts"):
        needed.add_column(name)
    for n in result["totals"]:
        needed.add_column(f"n = {n}", justify="right")
    for row in result["needed"]:
        steps = (f"> {MOST}" if step is None else str(step) for step in row["steps"])
        needed.add_row(row["sampler"], str(row["alpha"]), row["counts"], *steps)
    return [speed, needed]
