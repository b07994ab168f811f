"""Contextual bandits: exact linear Thompson sampling beside hand-written NumPy, and how the batches of `Determinant` grow."""

from __future__ import annotations

from typing import Any

import numpy as np
from rich import box
from rich.table import Table

from . import numpy_linear
from .timing import Contestant, Outcome, alternate

HORIZONS = {4: 1000, 20: 200}
"""Rounds, by coordinates of a context."""
GROWTH, GROWTH_RUNS = (10**3, 10**4, 10**5, 10**6), 16


def parts(dim: int) -> tuple[Any, Any]:
    """Linear-20d has 5 arms × 4 coordinates: contexts x ~ N(0, I) anew each round, θ ~ N(0, I) for each run, noise of sd 0.5."""
    import jax.numpy as jnp

    from blts import Env, Exact, Linear, Step, Thompson, _random
    from blts.arrays import pick

    arms, sd = numpy_linear.ARMS, numpy_linear.SD

    class Linear20d(Env):
        actions: int = arms

        def reset(self, key):
            key_theta, key_context = _random.split(key)
            x = _random.normal(key_context, (dim,))
            return (_random.normal(key_theta, (arms, dim)), x), x

        def step(self, key, state, action):
            key_reward, key_context = _random.two(key)
            theta, x = state
            means = jnp.sum(theta * x, 1)
            mean, following = pick(means, action), _random.normal(key_context, (dim,))
            regret = jnp.where(action == jnp.argmax(means), 0.0, jnp.max(means) - mean)
            return (theta, following), Step(following, mean + sd * _random.normal(key_reward), regret)

    return Linear20d(), Thompson(Linear(prior_mean=np.zeros((arms, dim)), sd=sd), Exact())


def ours(dim: int, replications: int, threads: int | None) -> Contestant:
    from blts import Sequential, simulate

    env, agent = parts(dim)
    horizon = HORIZONS[dim]

    def run(seed: int) -> Outcome:
        trace = simulate(seed, env, agent, Sequential(), horizon=horizon, replications=replications, times=1, threads=threads)
        return Outcome(trace.final_regret, trace.batches)

    return Contestant("blts" if threads is None else "blts, 1 thread", run, replications * horizon, compiles=True)


def by_hand(dim: int, replications: int, real: type) -> Contestant:
    def run(seed: int) -> Outcome:
        regret = numpy_linear.simulate(seed, dim, HORIZONS[dim], replications, real)
        return Outcome(regret, np.full(replications, HORIZONS[dim]))

    return Contestant("NumPy" if real is np.float32 else "NumPy, float64", run, replications * HORIZONS[dim])


def growth() -> list[dict[str, Any]]:
    """The batches of `Determinant(2)` on Linear-20d, and their bound for contexts no longer than 10."""
    from blts import Determinant, simulate

    env, agent = parts(4)
    scheme = Determinant.of(agent, max_norm=10.0)  # N(0, I₄) is longer once in 10²⁰ rounds
    rows = []
    for horizon in GROWTH:
        trace = simulate(0, env, agent, scheme, horizon=horizon, replications=GROWTH_RUNS, times=1)
        rows.append(
            {
                "horizon": horizon,
                "batches": float(trace.batches.mean()),
                "bound": scheme.max_batches(horizon, numpy_linear.ARMS),
                "regret": float(trace.final_regret.mean()),
                "regret_se": float(trace.final_regret.std(ddof=1) / GROWTH_RUNS**0.5),
            }
        )
    return rows


def measure(rounds: int, replications: int, say: Any) -> dict[str, Any]:
    rows = []
    for dim in HORIZONS:
        say(f"Linear, 5 arms × {dim} coordinates, sequential …")
        blts = [ours(dim, replications, threads) for threads in (None, 1)]
        everyone = [*blts, *(by_hand(dim, replications, real) for real in (np.float32, np.float64))]
        rows += [{"dim": dim, **timing.report()} for timing in alternate(everyone, rounds)]
    say("batches of Determinant …")
    return {"rows": rows, "growth": growth()}


def tables(result: dict[str, Any]) -> list[Table]:
    speed = Table(
        title="Exact linear Thompson sampling, sequential, 5 arms",
        box=box.SIMPLE,
        caption="× is the wall time of NumPy in float32 over that of the row; CPU × compares CPU time of all threads.",
        caption_justify="left",
    )
    for name in ("dim", "who", "M steps/s", "×", "CPU ×", "compile s", "regret"):
        speed.add_column(name, justify="left" if name == "who" else "right", no_wrap=True)
    for dim in HORIZONS:
        mine = [row for row in result["rows"] if row["dim"] == dim]
        numpy = next(row for row in mine if row["name"] == "NumPy")
        for row in mine:
            speed.add_row(
                str(dim),
                row["name"],
                f"{row['steps_per_s'] / 1e6:.2f}",
                f"{numpy['wall_s'] / row['wall_s']:.1f}",
                f"{numpy['cpu_s'] / row['cpu_s']:.1f}",
                "" if row["compile_s"] is None else f"{row['compile_s']:.1f}",
                f"{row['regret_mean']:.1f} ± {row['regret_se']:.1f}",
            )
    batches = Table(
        title="Batches of Determinant(2), 5 arms × 4 coordinates",
        box=box.SIMPLE,
        caption=f"{GROWTH_RUNS} replications. The bound is `max_batches` for contexts up to |x| = 10.",
        caption_justify="left",
    )
    for name in ("T", "batches", "bound", "regret"):
        batches.add_column(name, justify="right", no_wrap=True)
    for row in result["growth"]:
        regret = f"{row['regret']:.1f} ± {row['regret_se']:.1f}"
        batches.add_row(f"{row['horizon']:,}", f"{row['batches']:.1f}", str(row["bound"]), regret)
    return [speed, batches]
