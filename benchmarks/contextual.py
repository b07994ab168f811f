"""Contextual bandits: exact and Langevin Thompson sampling beside hand-written NumPy and other packages, and how the batches and
the regret of `Determinant` grow."""

from __future__ import annotations

from typing import Any

import numpy as np
from rich import box
from rich.table import Table

from . import numpy_chains, numpy_linear
from .peers import run_there
from .timing import Contestant, Outcome, alternate

HORIZONS = {4: 1000, 20: 200}
"""Rounds, by coordinates of a context."""
GROWTH, GROWTH_RUNS = (10**3, 10**4, 10**5, 10**6), 16
CHAINS = {"shared-linear": ("determinant", numpy_chains.shared_linear), "logistic-20d": ("dynamic", numpy_chains.logistic)}
"""The batching scheme, and the same chains by hand, of each environment."""
CHAINS_HORIZON, CHAINS_RUNS = 500, 200


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


def chains(env: str, replications: int) -> list[Contestant]:
    """Unadjusted Langevin chains on all rows, 50 steps a refresh, one for each θ."""
    from blts import condition, simulate

    batching, hand = CHAINS[env]
    case = condition(env, "ula-ts", batching, horizon=CHAINS_HORIZON, options={"gamma": 1.0})

    def run(seed: int) -> Outcome:
        trace = simulate(seed, *case[:3], horizon=CHAINS_HORIZON, replications=replications, times=1)
        return Outcome(trace.final_regret, trace.batches)

    by_numpy = lambda seed: Outcome(*hand(seed, CHAINS_HORIZON, replications))  # noqa: E731
    steps = replications * CHAINS_HORIZON
    return [Contestant("blts", run, steps, compiles=True), Contestant("NumPy", by_numpy, steps)]


def peers(rounds: int, replications: int) -> list[dict[str, Any]] | str:
    """Decisions a second of other packages on Linear-20d, one replication, and ours for one and for many; or why there are none."""
    rows = run_there("peer_contexts.py", rounds)
    if isinstance(rows, str):
        return rows
    for count in (1, replications):
        timing = alternate([ours(4, count, None)], rounds)[0]
        name, regret = f"blts, {count} replication{'s' if count > 1 else ''}", float(timing.outcome.regret.mean())
        rows.append({"name": name, "policy": "exact linear Thompson", "steps_per_s": timing.rate, "regret": regret})
    return rows


def exponent(regrets: np.ndarray) -> dict[str, float] | None:
    """The slope of log regret on log T, with its bootstrap interval over replications.

    Args:
        regrets: `[replications, horizons]`. Every horizon is a run of its own from the same keys, so a replication is resampled
            with all of its regrets.

    Returns:
        The estimate and its 95 % interval; None where the bootstrap finds the sign of a mean in doubt.
    """
    from blts.report.growth import contrast, slope
    from blts.statistics import interval_of

    times = np.asarray(GROWTH, float)
    found = interval_of(regrets, lambda means: slope(times, means), lambda means: contrast(times) / means)
    return found and {"value": float(slope(times, regrets.mean(0))), "low": found[0], "high": found[1]}


def growth() -> tuple[list[dict[str, Any]], dict[str, float] | None]:
    """The batches of `Determinant(2)` on Linear-20d, their bound for contexts no longer than 10, and the exponent of the regret."""
    from blts import Determinant, simulate

    env, agent = parts(4)
    scheme = Determinant.of(agent, max_norm=10.0)  # N(0, I₄) is longer once in 10²⁰ rounds
    rows, regrets = [], []
    for horizon in GROWTH:
        trace = simulate(0, env, agent, scheme, horizon=horizon, replications=GROWTH_RUNS, times=1)
        regrets.append(trace.final_regret)
        rows.append(
            {
                "horizon": horizon,
                "batches": float(trace.batches.mean()),
                "bound": scheme.max_batches(horizon, numpy_linear.ARMS),
                "regret": float(trace.final_regret.mean()),
                "regret_se": float(trace.final_regret.std(ddof=1) / GROWTH_RUNS**0.5),
            }
        )
    return rows, exponent(np.stack(regrets, 1))


def measure(rounds: int, replications: int, say: Any) -> dict[str, Any]:
    rows = []
    for dim in HORIZONS:
        say(f"Linear, 5 arms × {dim} coordinates, sequential …")
        blts = [ours(dim, replications, threads) for threads in (None, 1)]
        everyone = [*blts, *(by_hand(dim, replications, real) for real in (np.float32, np.float64))]
        rows += [{"dim": dim, **timing.report()} for timing in alternate(everyone, rounds)]
    runs, langevin = min(CHAINS_RUNS, replications), []
    for env in CHAINS:
        say(f"{env}, Langevin chains, {runs} replications …")
        langevin += [{"env": env, "replications": runs, **timing.report()} for timing in alternate(chains(env, runs), rounds)]
    say("installing and running peers …")
    others = peers(rounds, replications)
    say("batches of Determinant …")
    batches, slope = growth()
    return {"rows": rows, "chains": langevin, "peers": others, "growth": batches, "exponent": slope}


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
    return [speed, _chains_table(result["chains"]), _peers_table(result["peers"]), _growth_table(result)]


def _chains_table(rows: list[dict[str, Any]]) -> Table:
    table = Table(
        title=f"Langevin Thompson sampling, 50 unadjusted steps on all rows, T = {CHAINS_HORIZON}",
        box=box.SIMPLE,
        caption="× is the wall time of NumPy over that of the row; CPU × compares CPU time of all threads.",
        caption_justify="left",
    )
    for name in ("environment, batches, runs", "who", "k steps/s", "×", "CPU ×", "compile s", "regret", "batches"):
        table.add_column(name, justify="left" if name[0] in "ew" else "right", no_wrap=True)
    for row in rows:
        numpy = next(each for each in rows if each["name"] == "NumPy" and each["env"] == row["env"])
        table.add_row(
            f"{row['env']} {CHAINS[row['env']][0]} {row['replications']}",
            row["name"],
            f"{row['steps_per_s'] / 1e3:.1f}",
            f"{numpy['wall_s'] / row['wall_s']:.1f}",
            f"{numpy['cpu_s'] / row['cpu_s']:.1f}",
            "" if row["compile_s"] is None else f"{row['compile_s']:.1f}",
            f"{row['regret_mean']:.1f} ± {row['regret_se']:.1f}",
            f"{row['batches_mean']:.1f}",
        )
    return table


def _peers_table(rows: list[dict[str, Any]] | str) -> Table:
    table = Table(
        title=f"Peers: 5 arms × 4 coordinates, T = {HORIZONS[4]}, rewards seen every round",
        box=box.SIMPLE,
        caption="A peer runs one replication at a time. Median over rounds; regret is their mean, and differs between policies.",
        caption_justify="left",
    )
    if isinstance(rows, str):
        table.add_column(rows)
        return table
    for name in ("package", "policy", "decisions/s", "regret"):
        table.add_column(name, justify="left" if name[0] == "p" else "right", no_wrap=True)
    for row in rows:
        table.add_row(row["name"], row["policy"], f"{row['steps_per_s']:,.0f}", f"{row['regret']:.0f}")
    return table


def _growth_table(result: dict[str, Any]) -> Table:
    found = result["exponent"]
    slope = (
        f"T^{found['value']:.2f} ({found['low']:.2f} to {found['high']:.2f})"
        if found
        else "of an exponent that 16 runs do not show"
    )
    table = Table(
        title="Batches of Determinant(2), 5 arms × 4 coordinates",
        box=box.SIMPLE,
        caption=f"{GROWTH_RUNS} replications. The bound is `max_batches` for contexts up to |x| = 10.\n"
        f"The regret grows as {slope}, a slope of log regret on log T, with its 95 % bootstrap interval\nover replications.",
        caption_justify="left",
    )
    for name in ("T", "batches", "bound", "regret"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in result["growth"]:
        regret = f"{row['regret']:.1f} ± {row['regret_se']:.1f}"
        table.add_row(f"{row['horizon']:,}", f"{row['batches']:.1f}", str(row["bound"]), regret)
    return table
