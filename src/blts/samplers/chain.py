"""How a kernel is run at a refresh: on which gradient, how many steps, from where.

`sgld`, `ula` and `mala` name the usual settings. `"theorem"` in place of a number takes the appendix's constants.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .. import _random, theory
from .._module import at_least, module, static
from .._typing import Array, Bool, Float, Int, PRNGKey, Row, Scalar, Schedule, Tree
from ..errors import ConfigError
from ..history import Log
from ..models.base import Model, Sufficient, arm
from . import potential as potentials
from .base import Chains, Sampler
from .langevin import Langevin
from .mala import MALA

Steps = int | Callable[[Int[Array, " arms"]], Int[Array, " arms"]] | str
SCORING_STEPS = 10  # Fisher scoring squares its error near the mode; the anchor only has to be close to it


class ChainInfo(NamedTuple):
    acceptance: Scalar
    half_means: Float[Array, "2 arms chains dim"]
    """Means of each chain over the third and the last quarter of its steps: what split R-hat compares."""
    half_variances: Float[Array, "2 arms chains dim"]
    half_steps: Float[Array, " arms"]


@module
class Chain:
    """A kernel and how it is run: `minibatch=None` means the full gradient, `steps` may depend on each arm's n."""

    kernel: Sampler
    steps: Steps = static(50)
    minibatch: int | str | None = static(None)
    control_variate: bool = static(False)
    scale: str = static("information")
    """Units of the step size: "information" for 1/(prior precision + n · information), "theorem" for Theorem 1's step."""

    def check(self):
        if isinstance(self.steps, int):
            at_least(self, "steps", 1)
        if isinstance(self.minibatch, int):
            at_least(self, "minibatch", 1)
        if self.control_variate and self.minibatch is None:
            raise ConfigError("Chain: control_variate corrects a minibatch gradient; give minibatch too.")
        if isinstance(self.kernel, MALA) and self.minibatch is not None:
            raise ConfigError("Chain: MALA's acceptance test needs the full gradient; leave minibatch=None.")
        for name, value, allowed in (("steps", self.steps, ("theorem",)), ("minibatch", self.minibatch, ("theorem",)), ("scale", self.scale, ("theorem", "information"))):
            if isinstance(value, str) and value not in allowed:
                raise ConfigError(f"Chain: {name} must be a number or {' or '.join(map(repr, allowed))}; got {value!r}.")

    def resolved(self, model: Model) -> Chain:
        """The chain with Theorem 1's minibatch size for this model, refusing models without constants."""
        if "theorem" not in (self.steps, self.minibatch, self.scale):
            return self
        constants = theory.constants_of(model)
        if self.minibatch != "theorem":
            return self
        return dataclasses.replace(self, minibatch=int(np.max(theory.minibatch(constants))))

    def needs_log(self, model: Model) -> bool:
        return self.minibatch is not None or not isinstance(model, Sufficient)

    # What is remembered: a summary where that is enough, the rows otherwise.

    def empty(self, model: Model, row: Row, capacity: int) -> Tree:
        if self.needs_log(model):
            arms = jax.tree.leaves(model)[0].shape[0]
            return Log.empty(row, capacity, arms)
        return jax.vmap(lambda single: single.empty())(model)

    def remember(self, model: Model, history: Tree, row: Row, live: Bool[Array, ""]) -> Tree:
        if isinstance(history, Log):
            return history.append(row, live)
        return remember_summary(model, history, row, live)

    def run(self, key: PRNGKey, model: Model, theta: Chains, history: Tree, n: Int[Array, " arms"]) -> tuple[Chains, ChainInfo]:
        """The chains' ends after a warm start at `theta` (Algorithm 1, lines 1–6), for all arms at once."""
        start = theta[:, 0]
        scale = (theory.step_size(theory.constants_of(model), n)[:, None] + 0 * start) if self.scale == "theorem" else 1 / potentials.curvature(model, start, n)
        scale = scale[:, None]
        full = potentials.from_rows(model, history, scale) if isinstance(history, Log) and not isinstance(model, Sufficient) else None
        if not isinstance(history, Log):
            target = potentials.from_summary(model, history, scale)
        elif self.minibatch is None:
            assert full is not None
            target = full
        else:
            anchor = None
            if self.control_variate:
                full = full or potentials.from_rows(model, history, scale)
                anchor = self._mode(model, full, theta, n)
            target = potentials.from_minibatch(model, history.grouped(), int(self.minibatch), scale, full if self.control_variate else None, anchor)
        return self._iterate(key, target, theta, self._limit(model, n))

    def _mode(self, model: Model, full, theta: Chains, n) -> Chains:
        """Fisher scoring x ← x - ∇U(x)/(prior precision + n · information(x)) from the last chain end."""

        def improve(_, x):
            return x - full.grad(_random.as_key(0), x) / potentials.curvature(model, x[:, 0], n)[:, None]

        return lax.fori_loop(0, SCORING_STEPS, improve, theta[:, :1])

    def _limit(self, model: Model, n: Int[Array, " arms"]) -> Int[Array, " arms"]:
        if self.steps == "theorem":
            return theory.iterations(theory.constants_of(model), n)
        return jnp.asarray(self.steps(n) if callable(self.steps) else self.steps, int) + 0 * n

    def _iterate(self, key, target, theta: Chains, limit: Int[Array, " arms"]) -> tuple[Chains, ChainInfo]:
        """Steps up to each arm's limit, with running moments over the third and the last quarter of them."""
        quarter = jnp.maximum(limit // 4, 1)
        first = limit - 2 * quarter
        pool = theta.shape[1] > 1  # a single chain has no diagnostics between chains, and should not pay for them

        def body(i, carry):
            state, accepted, moments = carry
            new, info = self.kernel.step(_random.fold_in(key, i), state, target)
            going = i < limit
            new = new._replace(position=jnp.where(going[:, None, None], new.position, state.position))
            if pool:
                half = jnp.where(i >= first + quarter, 1, 0)
                inside = going & (i >= first)
                chosen = (jnp.arange(2)[:, None] == half) & inside
                moments = _accumulate(moments, new.position, chosen[..., None, None])
            return new, accepted + info.acceptance, moments

        zeros = jnp.zeros((2, *theta.shape) if pool else (0,))
        steps = jnp.max(limit)
        bound = int(self.steps) if isinstance(self.steps, int) else steps
        state, accepted, (count, mean, m2) = lax.fori_loop(
            0, bound, body, (self.kernel.init(theta), jnp.zeros(()), (zeros, zeros, zeros))
        )
        return state.position, ChainInfo(accepted / steps, mean, m2 / jnp.maximum(count - 1, 1), quarter.astype(float))


def _accumulate(moments, x, chosen):
    count, mean, m2 = moments
    count = count + chosen
    change = jnp.where(chosen, x - mean, 0.0)
    mean = mean + change / jnp.maximum(count, 1)
    return count, mean, m2 + change * jnp.where(chosen, x - mean, 0.0)


def remember_summary(model: Any, history: Tree, row: Row, live: Bool[Array, ""]) -> Tree:
    """Every arm's summary with the row added to its own arm: comparisons, because scatters are slow on a CPU."""
    added = jax.vmap(lambda single, summary: single.add(summary, row))(model, history)
    mine = (jnp.arange(jax.tree.leaves(added)[0].shape[0]) == row.action) & live
    return jax.tree.map(lambda new, old: jnp.where(mine.reshape(mine.shape + (1,) * (new.ndim - 1)), new, old), added, history)


def sgld(step_size: float | Schedule | str = 0.1, steps: Steps = 50, minibatch: int | str = 32, *, control_variate: bool = False) -> Chain:
    """Stochastic gradient Langevin dynamics (Algorithm 1). Each setting is a number, a function, or "theorem"."""
    if isinstance(step_size, str):
        if step_size != "theorem":
            raise ConfigError(f'sgld: step_size must be a number, a schedule or "theorem"; got {step_size!r}.')
        return Chain(Langevin(1.0), steps, minibatch, control_variate, "theorem")
    return Chain(Langevin(step_size), steps, minibatch, control_variate)


def ula(step_size: float | Schedule = 0.1, steps: Steps = 50) -> Chain:
    """The unadjusted Langevin algorithm: the same kernel on the full gradient."""
    return Chain(Langevin(step_size), steps)


def mala(step_size: float | Schedule = 0.5, steps: Steps = 20) -> Chain:
    """Metropolis-adjusted Langevin on the full gradient."""
    return Chain(MALA(step_size), steps)


__all__ = ["Chain", "ChainInfo", "arm", "mala", "remember_summary", "sgld", "ula"]
