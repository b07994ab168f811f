"""The zero-count problem of Algorithm 4: how many iterations a row needs when one of its states was never seen."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from ... import _random, registry
from ..._typing import Array, Float, Int, Key, PRNGKey
from ...errors import ConfigError, whole
from ...samplers.rows import BLOCK, ExactRows, LogGammaRows, MirroredRows
from ..spec import Condition
from .base import About, Arrays
from .checks import above_zero, refuse_unknown
from .posterior import MOST_STEPS

SAMPLERS = ("mirrored", "log-gamma")
LOG_GAMMA_STEPS = 6  # what LogGammaRows takes for a Dirichlet row, whatever its counts
MOST = 2**24  # counts are whole in single precision
KEYS = ("n", "sampler", "steps", "states", "alpha", "zero")


@registry.register("task", "rows")
class RowsTask:
    """Draws of a Dirichlet row in which one state was never seen: the zero-count problem of Algorithm 4.

    A row of `states` coordinates has the prior Dirichlet(alpha, …, alpha) and n counts, spread evenly over all coordinates
    but the last, or over all where `zero` is false. A replication is one draw by `sampler`, "mirrored" as printed or
    "log-gamma", after `steps` iterations (its own number unless given) from an exact draw at half the counts; the log-gamma
    chain makes its own start. The share of the last coordinate is Beta.

    >>> from blts import registry
    >>> task = registry.build("task", "rows")
    >>> task.normal({"n": 1000})["steps"]
    8048
    >>> arrays, about = task.run(task.normal({"n": 1000, "steps": 100}), seed=0, first=0, replications=100)
    >>> arrays["share"].shape, about["default_steps"], about["beta"]
    ((100,), 8048, [1.0, 1005.0])
    """

    metrics: ClassVar[tuple[str, ...]] = ("share", "exact")

    def normal(self, condition: Condition) -> Condition:
        refuse_unknown("rows", condition, KEYS)
        if "n" not in condition:
            raise ConfigError("A condition of the task 'rows' needs 'n', the number of counts, such as 1000.")
        sampler, zero = condition.get("sampler", "mirrored"), condition.get("zero", True)
        if sampler not in SAMPLERS:
            raise ConfigError(f"sampler must be one of {', '.join(map(repr, SAMPLERS))}; got {sampler!r}.")
        if not isinstance(zero, bool):
            raise ConfigError(f"zero must be true or false; got {zero!r}.")
        normal = {
            "n": whole("n", condition["n"], 1, MOST),
            "sampler": sampler,
            "states": whole("states", condition.get("states", 6), 2),
            "alpha": above_zero("alpha", condition.get("alpha", 1.0)),
            "zero": zero,
        }
        return {**normal, "steps": whole("steps", condition.get("steps", default_steps(normal)), most=MOST_STEPS)}

    def run(self, condition: Condition, *, seed: int, first: int, replications: int) -> tuple[Arrays, About]:
        n, root = condition["n"], _random.as_key(seed)
        # The log-gamma chain is compiled for each number of steps, the mirrored one for all of them at once.
        sampler: Any = LogGammaRows(condition["steps"]) if condition["sampler"] == "log-gamma" else MirroredRows()
        half, counts = spread(condition, n // 2), spread(condition, n)
        draw = partial(_rows, alpha=np.float32(condition["alpha"]), steps=np.int32(condition["steps"]))
        shares, exact = [], []
        # One width for every block: a row's numbers, and what is compiled, depend on neither block nor company.
        for r in range(first, first + replications, BLOCK):
            start = draw(ExactRows(), _keys(root, np.uint32(r), 0), counts=half, start=_FLAT)
            shares.append(draw(sampler, _keys(root, np.uint32(r), 1), counts=counts, start=start)[:, -1])
            exact.append(draw(ExactRows(), _keys(root, np.uint32(r), 2), counts=counts, start=_FLAT)[:, -1])
        share, exact = (np.concatenate(parts)[:replications].astype(float) for parts in (shares, exact))
        a, b = beta(condition)
        about = {
            "mean": a / (a + b),
            "sd": math.sqrt(a * b / (a + b + 1)) / (a + b),
            "beta": [a, b],
            "default_steps": default_steps(condition),
        }
        return {"share": share, "exact": exact}, about


def spread(condition: Condition, n: int) -> np.ndarray:
    """n counts in whole numbers, as even as they go, over all coordinates or all but the last."""
    states = condition["states"]
    places = states - 1 if condition["zero"] else states
    return np.pad(n // places + (np.arange(places) < n % places), (0, states - places)).astype(np.float32)


def beta(condition: Condition) -> tuple[float, float]:
    """The law of the last coordinate: Beta(a, b)."""
    a = condition["alpha"] + spread(condition, condition["n"]).astype(float)
    return float(a[-1]), float(a[:-1].sum())


def default_steps(condition: Condition) -> int:
    """The iterations that the sampler takes by itself: O(n) for the mirrored one with a zero count, always 6 for the other."""
    if condition["sampler"] == "log-gamma":
        return LOG_GAMMA_STEPS
    return int(MirroredRows().needed(jnp.asarray(condition["alpha"] + spread(condition, condition["n"]))))


_FLAT = np.float32(0)  # exact draws have no start


@jax.jit
def _keys(root: PRNGKey, first: Int, purpose: Int) -> Key[Array, " block"]:
    """Keys of BLOCK replications, numbered from `first`: one for the start, one for the draw, one for the exact draw."""
    return jax.vmap(lambda r: _random.split(_random.fold_in(root, r), 3)[purpose])(first + jnp.arange(BLOCK, dtype=jnp.uint32))


@jax.jit
def _rows(
    sampler: Any, keys: Key[Array, " block"], alpha: Array, counts: Float[Array, " S"], start: Array, steps: Int
) -> Float[Array, "block S"]:
    """One row, drawn once for each key."""
    if isinstance(sampler, MirroredRows):
        sampler = MirroredRows(sampler.step, steps=lambda a: steps)  # a function, so that the number of steps is traced
    wide = partial(jnp.broadcast_to, shape=(keys.shape[0], counts.shape[0]))
    return sampler.draw(keys, wide(alpha), wide(counts), wide(start)).rows
