"""Planning: one model with a certificate beside quantecon, and thousands of sampled models at once."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from rich import box
from rich.table import Table

from .timing import Clock

DISCOUNT = 0.99999
"""quantecon has no average reward; this is close to it, and its policy iteration does not slow down with it."""
MODELS = (
    ("chain", 5),
    ("chain", 50),
    ("chain", 500),
    ("chain", 5000),
    ("garnet", 5),
    ("garnet", 50),
    ("garnet", 500),
    ("garnet", 2000),
)
BATCHES = ((6, 2), (20, 3), (50, 3))
SAMPLED = 1000
ROUNDS = 3


def chain(states: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """RiverSwim with 0.005 at the left and 1 at the right: successors, their probabilities, rewards."""
    s = np.arange(states)
    after, prob, r = np.zeros((states, 2, 3), int), np.zeros((states, 2, 3)), np.zeros((states, 2))
    after[:, 0], prob[:, 0, 0] = np.maximum(s - 1, 0)[:, None], 1
    after[:, 1] = np.stack([np.maximum(s - 1, 0), s, np.minimum(s + 1, states - 1)], 1)
    prob[:, 1] = 0.05, 0.6, 0.35
    prob[0, 1], prob[-1, 1] = (0, 0.4, 0.6), (0.4, 0.6, 0)
    r[0, 0], r[-1, 1] = 0.005, 1
    return after, prob, r


def garnet(states: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Four random successors for each of three actions, and a cycle through all states so that it communicates."""
    rng = np.random.default_rng(states)
    after = rng.integers(0, states, (states, 3, 4))
    after[:, 0, 0] = (np.arange(states) + 1) % states
    return after, rng.dirichlet(np.ones(4), (states, 3)), rng.random((states, 3))


def seconds(run: Callable[[], Any], rounds: int) -> tuple[Any, float]:
    """The result, and the median time after a first call that may compile."""
    result, times = run(), []
    for _ in range(rounds):
        clock = Clock.now()
        result = run()
        times.append(clock.passed().wall)
    return result, statistics.median(times)


def by_quantecon(after: np.ndarray, prob: np.ndarray, r: np.ndarray) -> Callable[[], np.ndarray] | None:
    """Its policy iteration with its own defaults, or None where it is not installed."""
    try:
        from quantecon.markov import DiscreteDP
    except ImportError:
        return None
    from scipy import sparse

    states, actions, k = after.shape
    pairs = states * actions
    Q = sparse.csr_matrix((prob.ravel(), after.ravel(), np.arange(pairs + 1) * k), (pairs, states))
    problem = DiscreteDP(r.ravel(), Q, DISCOUNT, np.repeat(np.arange(states), actions), np.tile(np.arange(actions), states))
    return lambda: problem.solve(method="policy_iteration").sigma


def one(kind: str, states: int, rounds: int) -> dict[str, Any]:
    from blts.planning import Sparse, solve

    after, prob, r = (chain if kind == "chain" else garnet)(states)
    table = Sparse(after, prob)
    found, mine = seconds(lambda: solve(table, r), rounds)
    h = np.asarray(found.bias)
    row: dict[str, Any] = {
        "kind": kind,
        "states": states,
        "gain": float(found.gain),
        "residual": float(found.residual),
        "blts_s": mine,
    }
    other = by_quantecon(after, prob, r)
    if other is not None:
        policy, theirs = seconds(other, rounds)
        # What a policy can lose a round by the certified bias: gain − min (T_π h − h).
        low = ((r + table.expect(h))[np.arange(states), policy] - h).min()
        row |= {"quantecon_s": theirs, "times_blts": theirs / mine, "quantecon_loses_at_most": max(0.0, float(found.gain - low))}
        row["quantecon_differs"] = int((policy != found.policy).sum())
    return row


def batch(states: int, actions: int, rounds: int) -> dict[str, Any]:
    """Dirichlet(1) models, planned from scratch and from the policies of models drawn a little earlier."""
    import jax
    import jax.numpy as jnp

    from blts.planning import plan

    rng = np.random.default_rng(states)
    P = jnp.asarray(rng.dirichlet(np.ones(states), (SAMPLED, states, actions)), jnp.float32)
    near = 0.9 * P + 0.1 * jnp.asarray(rng.dirichlet(np.ones(states), (SAMPLED, states, actions)), jnp.float32)
    r = jnp.asarray(rng.random((states, actions)), jnp.float32)
    run = lambda P, *warm: jax.block_until_ready(plan(P, r, *warm))  # noqa: E731
    clock = Clock.now()
    run(P)
    first = clock.passed().wall
    cold, scratch = seconds(partial(run, P), rounds)
    warm, again = seconds(partial(run, near, cold.policy), rounds)
    return {
        "states": states,
        "actions": actions,
        "models": SAMPLED,
        "first_s": first,
        "cold_us": 1e6 * scratch / SAMPLED,
        "warm_us": 1e6 * again / SAMPLED,
        "cold_policies": float(cold.iterations.mean()),
        "warm_policies": float(warm.iterations.mean()),
        "residual": float(jnp.maximum(cold.residual.max(), warm.residual.max())),
        "unconverged": int((~cold.converged).sum() + (~warm.converged).sum()),
    }


def measure(rounds: int, replications: int, say: Any) -> dict[str, Any]:
    del replications  # a size here, not a setting
    rounds, rows, batches = min(rounds, ROUNDS), [], []
    for kind, states in MODELS:
        say(f"{kind} of {states} states …")
        rows.append(one(kind, states, rounds))
    for states, actions in BATCHES:
        say(f"{SAMPLED} models of {states} states …")
        batches.append(batch(states, actions, rounds))
    return {"discount": DISCOUNT, "rows": rows, "batches": batches}


def tables(result: dict[str, Any]) -> list[Table]:
    single = Table(
        title="Planning one model: blts.planning.solve beside quantecon's policy iteration",
        box=box.SIMPLE,
        collapse_padding=True,
        caption=f"× is quantecon's time over that of blts. It discounts by {result['discount']}, and stops in\n"
        "silence at its default of 250 policies: a chain of 500 is not finished. 'It loses' bounds what\n"
        "its policy loses a round, by the certified bias; 'differs' counts states with another action.",
        caption_justify="left",
    )
    single.add_column("model", no_wrap=True)
    for name in ("gain", "residual", "blts s", "quantecon s", "×", "it loses", "differs"):
        single.add_column(name, justify="right", no_wrap=True)
    for row in result["rows"]:
        theirs = (f"{row['quantecon_s']:.4f}", f"{row['times_blts']:.2f}") if "quantecon_s" in row else ("–", "–")
        wrong = (f"{row['quantecon_loses_at_most']:.1e}", str(row["quantecon_differs"])) if "quantecon_s" in row else ("–", "–")
        numbers = f"{row['gain']:.6f}", f"{row['residual']:.0e}", f"{row['blts_s']:.4f}"
        single.add_row(f"{row['kind']} {row['states']}", *numbers, *theirs, *wrong)
    many = Table(
        title=f"Planning {SAMPLED} sampled models at once (Dirichlet rows, float32)",
        box=box.SIMPLE,
        collapse_padding=True,
        caption="µs a model, from scratch and from the policies of nearby models; the first call compiles.",
        caption_justify="left",
    )
    for name in ("states", "actions", "µs cold", "µs warm", "policies cold", "warm", "residual", "not converged", "first call"):
        many.add_column(name, justify="right", no_wrap=True)
    for row in result["batches"]:
        many.add_row(
            str(row["states"]),
            str(row["actions"]),
            f"{row['cold_us']:.1f}",
            f"{row['warm_us']:.1f}",
            f"{row['cold_policies']:.2f}",
            f"{row['warm_policies']:.2f}",
            f"{row['residual']:.0e}",
            str(row["unconverged"]),
            f"{row['first_s']:.1f} s",
        )
    return [single, many]
