"""How a kernel is run at a refresh: on which gradient, how many steps, from where.

`sgld`, `ula` and `mala` name the usual settings. `"theorem"` in place of a number takes the appendix's constants.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .. import _lanes, _random, theory
from .._module import at_least, module, short, static
from .._typing import Array, Bool, Float, Int, Key, Row, Schedule, Theta, Tree
from ..declared import fact, provides
from ..errors import ConfigError, require_object
from ..history import Log, order
from ..models.base import Model, Sufficient, arm, has_marginal
from . import potential as potentials
from .base import Potential, Sampler
from .langevin import Langevin
from .metropolis import MALA

Steps = int | Callable[[Int[Array, " arms"]], Int[Array, " arms"]] | str
BLOCK = 256  # lanes at a time on a CPU: long enough for vectors, short enough to stay in the cache
ACCELERATOR_BLOCK = 2**19
SCORING_STEPS = 10  # Fisher scoring squares its error near the mode; the anchor only has to be close to it
SCORING_ROWS = 1024  # rows that those steps see; their mode is about 1/32 of a reward's spread away from that of all rows


class ChainInfo(NamedTuple):
    acceptance: Float[Array, "*lanes"]
    half_means: Float[Array, "*lanes 2 dim"]
    """Means of each chain over the third and the last quarter of its steps: what split R-hat compares."""
    half_variances: Float[Array, "*lanes 2 dim"]
    half_steps: Float[Array, "*lanes"]


@module
class Chain:
    """A kernel and how it is run: `minibatch=None` means the full gradient, `steps` may depend on each arm's n."""

    kernel: Sampler
    steps: Steps = static(default=50)
    minibatch: int | str | None = static(default=None)
    control_variate: bool = static(default=False)
    scale: str = static(default="information")
    """Units of the step size: "information" for 1/(prior precision + n · information), "data" for the inverse of prior precision +
    the Hessian of the rows themselves, a matrix, "theorem" for Theorem 1's step."""

    def check(self):
        require_object("Chain: kernel", self.kernel, ("init", "step"), "Langevin() or MALA()")
        if not isinstance(self.steps, str) and not callable(self.steps):
            at_least(self, "steps", 1)
        if self.minibatch is not None and not isinstance(self.minibatch, str):
            at_least(self, "minibatch", 1)
        if self.control_variate and self.minibatch is None:
            raise ConfigError("Chain: control_variate corrects a minibatch gradient; give minibatch too.")
        if getattr(self.kernel, "needs_value", False) and self.minibatch is not None:
            name = type(self.kernel).__name__
            raise ConfigError(f"Chain: {name}'s acceptance test needs the full gradient; leave minibatch=None.")
        for name, value, allowed in (
            ("steps", self.steps, ("theorem",)),
            ("minibatch", self.minibatch, ("theorem",)),
            ("scale", self.scale, ("theorem", "information", "data")),
        ):
            if isinstance(value, str) and value not in allowed:
                raise ConfigError(f"Chain: {name} must be a number or {' or '.join(map(repr, allowed))}; got {value!r}.")

    def __str__(self) -> str:
        steps = "the theorem's number of" if self.steps == "theorem" else short(self.steps)
        data = "all data" if self.minibatch is None else f"minibatches of {self.minibatch}"
        control = " with a control variate" if self.control_variate else ""
        unit = "Theorem 1's step" if self.scale == "theorem" else "the posterior variance"
        size = short(getattr(self.kernel, "step_size", None))
        return f"{steps} {type(self.kernel).__name__} steps of {size} times {unit} on {data}{control}"

    def resolved(self, model: Model) -> Chain:
        """The chain with Theorem 1's minibatch size for this model, refusing models without constants."""
        if "theorem" not in (self.steps, self.minibatch, self.scale):
            return self
        constants = theory.constants_of(model)
        if self.minibatch != "theorem":
            return self
        return dataclasses.replace(self, minibatch=int(np.max(theory.minibatch(constants))))

    def needs_log(self, model: Model) -> bool:
        return self.minibatch is not None or not provides(model, Sufficient)

    # What is remembered: a summary where that is enough, the rows otherwise.

    plain_memory = fact("empty", "remember")

    def empty(self, model: Model, row: Row, capacity: int) -> Tree:
        arms = jax.tree.leaves(model)[0].shape[0]
        summary = lambda: jax.vmap(lambda single: single.empty())(model)  # noqa: E731
        if not self.needs_log(model):
            return summary()
        return Log.empty(row, capacity, arms, summary() if has_oracle(model) else ())

    def remember(self, model: Model, history: Tree, row: Row, live: Bool[Array, ""]) -> Tree:
        if not isinstance(history, Log):
            return remember_summary(model, history, row, live)
        summary = remember_summary(model, history.summary, row, live) if has_oracle(model) else ()
        return history.append(row, live)._replace(summary=summary)

    def run(
        self,
        keys: Key[Array, " block"],
        model: Model,
        theta: Float[Array, "block arms chains dim"],
        history: Tree,
        n: Int[Array, "block arms"],
    ) -> tuple[Array, ChainInfo]:
        """The chains' ends after a warm start at `theta` (Algorithm 1, lines 1–6), for a block of replications.

        Every (replication, arm, chain) is a lane with a key of its own, and lanes run in blocks of one flat axis: that
        is what XLA turns into vector code. The order of the lanes cannot change their numbers.
        """
        R, A, C, dim = theta.shape
        pairs, lanes = R * A, R * A * C
        block = min(lanes, BLOCK if _lanes.on_cpu() else ACCELERATOR_BLOCK)
        count = n.reshape(pairs)
        # Lanes of a block have about as many rows: between two powers of two. Those without any come last.
        bits = 8 * count.dtype.itemsize
        by_count = order(jnp.where(count > 0, lax.clz(count - 1), bits + 1), bits + 1)
        prior_precision = jax.vmap(lambda single: single.prior_precision())(model)
        if isinstance(history, Log):
            most = jnp.max(history.size)
            grouped = jax.vmap(lambda log: log.grouped(most))(history)
            capacity = history.rank.shape[1]
            store = jax.tree.map(lambda x: x.reshape(R * capacity, *x.shape[2:]), grouped.rows)
            data = grouped.start + capacity * jnp.arange(R)[:, None]
        else:
            store, data = None, history

        def run_lanes(begin, end, few: bool, done: tuple[Array, ChainInfo]) -> tuple[Array, ChainInfo]:
            """The lanes begin … end - 1 in the order of their counts."""

            def run_block(b, done: tuple[Array, ChainInfo]) -> tuple[Array, ChainInfo]:
                position = begin + b * block + jnp.arange(block)
                pair, chain = by_count[jnp.minimum(position // C, pairs - 1)], position % C
                r, a = pair // A, pair % A
                arguments = (
                    jax.vmap(lambda r, i: _random.words_of(_random.fold_in(keys[r], i)))(r, a * C + chain),
                    jax.tree.map(lambda x: jnp.asarray(x)[a], model),
                    prior_precision[a],
                    theta[r, a, chain],
                    theta[r, a, 0],
                    count[pair],
                    jax.tree.map(lambda x: x[r, a], data),
                )
                lane = partial(self.lane, store, jnp.max(count[pair]), few, C > 1)
                ends, info = _lanes.vmap(lane)(*jax.tree.map(lambda x: jnp.moveaxis(x, 0, -1), arguments))
                place = jnp.where(position < end, pair * C + chain, lanes)
                put = lambda store, new: store.at[place].set(jnp.moveaxis(new, -1, 0), mode="drop")  # noqa: E731
                return jax.tree.map(put, done, (ends, info))

            return lax.fori_loop(0, _ceil_div(end - begin, block), run_block, done)

        halves = jnp.zeros((lanes, 2, dim))
        done = (theta.reshape(lanes, dim), ChainInfo(jnp.zeros(lanes), halves, halves, jnp.ones(lanes)))
        some = C * jnp.sum(count > 0)
        if store is None or self.minibatch is None:
            done = run_lanes(0, some, False, done)
        else:  # lanes that draw a minibatch at every step, and those whose rows are not more than one
            many = C * jnp.sum(count > int(self.minibatch))
            done = run_lanes(many, some, True, run_lanes(0, many, False, done))
        return jax.tree.map(lambda x: x.reshape(R, A, C, *x.shape[1:]), done)

    def lane(
        self,
        store: Row | None,
        most: Int[Array, ""],
        few: bool,
        diagnose: bool,
        words: Array,
        model: Model,
        prior_precision: Theta,
        theta: Theta,
        reference: Theta,
        n: Int[Array, ""],
        data: Tree,
    ) -> tuple[Theta, ChainInfo]:
        """One chain. `reference` is the same point for all chains of an arm: what the step size is tuned at. `few` says that a
        minibatch holds all of its rows."""
        key = _random.from_words(words)
        curvature = lambda x: prior_precision + n * model.information(x)  # noqa: E731
        theorem = self.scale == "theorem"
        scale = theory.step_size(theory.constants_of(model), n) + 0 * theta if theorem else 1 / curvature(reference)
        rows = None if store is None else potentials.Rows(store, data, n, most)
        if rows is None:
            target = potentials.from_summary(model, data, scale)  # type: ignore[arg-type]
        elif self.minibatch is None:
            target = potentials.from_rows(model, rows, scale)
        elif not self.control_variate:
            target = potentials.from_minibatch(model, rows, int(self.minibatch), scale, few=few)
        else:
            anchor = self._mode(model, rows, scale, curvature, reference)
            target = potentials.from_control_variate(model, rows, int(self.minibatch), anchor, scale, few=few)
        if self.scale != "data":
            return self._iterate(key, target, theta, self._limit(model, n), diagnose)
        summary_curvature = lambda: potentials.curvature_of_summary(model, data, n, reference)  # type: ignore[arg-type]  # noqa: E731
        seen = summary_curvature() if rows is None else rows.curvature(model, reference)
        white = potentials.Whitening.of(reference, prior_precision, n, seen, model.information(reference))
        z, info = self._iterate(key, white.potential(target), white.inverse @ (theta - reference), self._limit(model, n), diagnose)
        return reference + white.root @ z, info

    def _mode(self, model: Model, rows: potentials.Rows, scale: Theta, curvature: Callable[[Theta], Theta], start: Theta) -> Theta:
        """Fisher scoring x ← x - ∇U(x)/(prior precision + n · information(x)) from the last chain end.

        The steps see a sample of the rows, so that their cost does not grow with n. Where there are more, one pass over all
        of them follows: near the mode a step squares its error.
        """
        step = lambda U, x: x - U.grad(_random.as_key(0), x) / curvature(x)  # noqa: E731
        sample = potentials.from_sample(model, rows, SCORING_ROWS, scale)
        near = lax.fori_loop(0, SCORING_STEPS, lambda _, x: step(sample, x), start)
        last = lambda: jnp.where(rows.n > SCORING_ROWS, step(potentials.from_rows(model, rows, scale), near), near)  # noqa: E731
        return lax.cond(rows.most > SCORING_ROWS, last, lambda: near)

    def _limit(self, model: Model, n: Int[Array, ""]) -> Int[Array, ""] | int:
        if self.steps == "theorem":
            return theory.iterations(theory.constants_of(model), n)
        return self.steps(n) if callable(self.steps) else int(self.steps)

    def _iterate(
        self, key, target: Potential, theta: Theta, limit: Int[Array, ""] | int, diagnose: bool
    ) -> tuple[Theta, ChainInfo]:
        """The steps, with running moments over the third and the last quarter of them where there are chains to compare."""
        quarter = jnp.maximum(jnp.asarray(limit) // 4, 1)
        begin = limit - 2 * quarter
        words = _random.words_of(key)

        def body(i, carry):
            state, accepted, moments = carry
            state, info = self.kernel.step(_random.step_key(_random.from_words(words), i), state, target)
            if diagnose:
                inside = (i >= begin) & ((i >= begin + quarter) == (jnp.arange(2)[:, None] == 1))
                moments = _accumulate(moments, state.position, inside)
            return state, accepted + info.acceptance, moments

        zeros = jnp.zeros((2, *theta.shape))
        state, accepted, (_, mean, m2) = lax.fori_loop(
            0, jnp.asarray(limit), body, (self.kernel.init(theta), jnp.zeros(()), (zeros, zeros, zeros))
        )
        return state.position, ChainInfo(accepted / limit, mean, m2 / jnp.maximum(quarter - 1, 1), quarter.astype(float))


def _ceil_div(a, b):
    return (a + b - 1) // b


def _accumulate(moments, x, inside):
    count, mean, m2 = moments
    count = count + inside
    change = jnp.where(inside, x - mean, 0.0)
    mean = mean + change / jnp.maximum(count, 1)
    return count, mean, m2 + change * jnp.where(inside, x - mean, 0.0)


def has_oracle(model: Any) -> bool:
    """Whether the law of an arm's mean reward is known exactly, without a context."""
    return has_marginal(model) and not getattr(model, "contextual", False)


def remember_summary(model: Any, history: Tree, row: Row, live: Bool[Array, ""]) -> Tree:
    """The summaries with the row added to its own arm's, written by comparison: scatters are slow on a CPU."""
    added = arm(model, row.action).add(arm(history, row.action), row)
    mine = (jnp.arange(jax.tree.leaves(history)[0].shape[0]) == row.action) & live
    return jax.tree.map(lambda new, old: jnp.where(mine.reshape(mine.shape + (1,) * (old.ndim - 1)), new, old), added, history)


def sgld(
    step_size: float | Schedule | str = 0.1, steps: Steps = 50, minibatch: int | str = 32, *, control_variate: bool = False
) -> Chain:
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
