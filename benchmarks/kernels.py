"""The SGLD kernel alone, beside BlackJAX's on the same layout: 15 × 1000 chains, one gradient for both.

And how many gradients a refresh takes with each kernel: from exact laws (`gradients.py`), and by simulation (`refreshes.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from rich import box
from rich.table import Table

from . import gradients, refreshes
from .bandits import ratios
from .timing import Contestant, Outcome, alternate

ARMS, CHAINS, STEPS, STEP_SIZE = 15, 1000, 200, 0.1


def contestants(replications: int) -> list[Contestant]:
    import blackjax
    import jax
    import jax.numpy as jnp
    from jax import lax

    from blts import random
    from blts.samplers import Langevin, Potential

    shape = (ARMS * replications, 1)
    mean, precision = jnp.linspace(1.0, 20.0, shape[0]).reshape(shape), 4.0
    target = Potential(lambda x: 0.5 * precision * jnp.sum((x - mean) ** 2, -1), lambda key, x: precision * (x - mean), jnp.ones(1))
    kernel, theirs = Langevin(STEP_SIZE), blackjax.sgld(lambda x, batch: precision * (mean - x))

    @jax.jit
    def ours(key):
        step = lambda i, state: kernel.step(random.fold_in(key, i), state, target)[0]  # noqa: E731
        return lax.fori_loop(0, STEPS, step, kernel.init(mean)).position

    @jax.jit
    def blackjaxs(key):
        step = lambda i, x: theirs.step(jax.random.fold_in(key, i), x, (), STEP_SIZE)  # noqa: E731
        return lax.fori_loop(0, STEPS, step, theirs.init(mean))

    def whole(f: Any, key: Any) -> Any:
        def run(seed: int) -> Outcome:
            ends = np.asarray(f(key(seed)))[:, 0] - np.asarray(mean)[:, 0]
            return Outcome(ends**2, np.full(ends.shape, STEPS))  # the variance, in place of a regret

        return run

    steps = STEPS * shape[0]
    return [
        Contestant("blts", whole(ours, random.key), steps, compiles=True),
        Contestant("BlackJAX", whole(blackjaxs, jax.random.key), steps, compiles=True),
    ]


def measure(rounds: int, replications: int, say: Any) -> dict[str, Any]:
    say("the SGLD kernel …")
    timings = alternate(contestants(replications), rounds)
    rows = [{**timing.report(), **ratios(timings[0], timing)} for timing in timings]
    return {"rows": rows, "gradients": gradients.measure(say), "refreshes": refreshes.measure(say)}


def tables(result: dict[str, Any]) -> list[Table]:
    table = Table(
        title=f"SGLD kernel, {STEPS} steps of {ARMS} × 1000 chains, one gradient for both", box=box.SIMPLE, pad_edge=False
    )
    for name in ("who", "chain steps/s", "×", "× CPU", "variance"):
        table.add_column(name, justify="left" if name == "who" else "right")
    for row in result["rows"]:
        table.add_row(
            row["name"],
            f"{row['steps_per_s']:.3g}",
            f"{row['times_blts_wall']:.2f}",
            f"{row['times_blts_cpu']:.2f}",
            f"{row['regret_mean']:.4f}",
        )
    return [table, *gradients.tables(result["gradients"]), *refreshes.tables(result["refreshes"])]
