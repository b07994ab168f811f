"""How a kernel is run at a refresh: on which gradient, how many steps, from where.

`sgld`, `ula` and `mala` name the usual settings. `"theorem"` in place of a number takes the appendix's constants.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .. import _random, theory
from .. import lanes as _lanes  # `lanes` is their number below
from .._module import at_least, module, require_part, short, static
from .._typing import Array, Bool, Float, Int, Key, Row, Schedule, Theta, Tree
from ..arrays import order
from ..declared import fact, overridden_alone, provides
from ..errors import ConfigError
from ..history import Log, remember_summary
from ..models.base import Model
from ..registry import register
from . import potential as potentials
from .base import Potential, Sampler
from .comparing import PROBES, ChainInfo, Watch, accumulate, by_predictions, in_coordinates, predictions
from .concave import find_mode, has_one_mode, starts_of
from .langevin import Langevin
from .metropolis import MALA
from .modes import Modes, Whitening, find_modes, modes_of_arm, typical_information

Steps = int | Callable[[Int[Array, " arms"]], Int[Array, " arms"]] | str
BLOCK = 240  # lanes at a time on a CPU: long enough for vectors, short enough for the cache; rows of 256 would share a place in it
ACCELERATOR_BLOCK = 2**19
SCORING_STEPS = 10  # Fisher scoring squares its error near the mode; the anchor only has to be close to it
FAR = 6.0  # sds of the normal law at the mode, beyond √dim: where no draw of 10⁸ is, and where gradients are cut off
RESTART = 2**31 - 1  # no step has this number: what folds it in has a key of its own
ACCEPT = 0.6  # near the best acceptance of Langevin proposals, 0.57 in many dimensions and more in few
LONGEST = 1.1  # a step may grow threefold, e^1.1: longer ones overshoot the mode, whatever is accepted
SCORING_ROWS = 1024  # rows that those steps see; their mode is about 1/32 of a reward's spread away from that of all rows


@module
class Chain:
    """A kernel and how it is run: `minibatch=None` means the full gradient, `steps` may depend on each arm's n.

    Args:
        kernel: what moves the chains.
        steps: how many steps a refresh takes: a number, a function of the number of rewards, or "theorem".
        minibatch: how many rewards a gradient is estimated from; None for all.
        control_variate: whether minibatch gradients are corrected by the gradient at the mode.
        scale: what step sizes are in units of; see above.

    >>> from blts import Chain, Langevin
    >>> chain = Chain(Langevin(step_size=0.1), steps=50, minibatch=32)
    >>> print(chain)
    50 Langevin steps of 0.1 times the posterior variance on minibatches of 32
    """

    kernel: Sampler
    steps: Steps = 50  # traced where it is a number: another one compiles nothing again
    minibatch: int | str | None = static(default=None)
    control_variate: bool = static(default=False)
    scale: str = static(default="information")
    """Units of the step size: "information" for 1/(prior precision + n · information), "rows" for 1/(prior precision + the sum of
    `row_information` of the rows), "data" for the inverse of prior precision + the Hessian of the rows themselves, a matrix, "mode"
    for the same at the mode, "theorem" for Theorem 1's step.

    With "mode", gradients are bounded, chains that a refresh finds far from the mode start again near it, and those of
    an adjusted kernel find their own step size in the first half of their steps. A model whose `information` is no bound on its
    curvature takes "mode" in place of "information", or "rows" if it has `row_information`, as networks do: to look for the modes
    of many weights would take longer than all else."""

    def check(self):
        require_part("Chain: kernel", self.kernel, Sampler, "Langevin() or MALA()")
        if not isinstance(self.steps, str) and not callable(self.steps):
            at_least(self, "steps", 1)
        if self.minibatch is not None and not isinstance(self.minibatch, str):
            at_least(self, "minibatch", 1)
        if self.control_variate and self.minibatch is None:
            raise ConfigError("Chain: control_variate corrects a minibatch gradient; give minibatch too.")
        if self.kernel.needs_value and self.minibatch is not None:
            name = type(self.kernel).__name__
            raise ConfigError(f"Chain: {name}'s acceptance test needs the full gradient; leave minibatch=None.")
        for name, value, allowed in (
            ("steps", self.steps, ("theorem",)),
            ("minibatch", self.minibatch, ("theorem",)),
            ("scale", self.scale, ("theorem", "information", "rows", "data", "mode")),
        ):
            if isinstance(value, str) and value not in allowed:
                raise ConfigError(f"Chain: {name} must be a number or {' or '.join(map(repr, allowed))}; got {value!r}.")

    def __str__(self) -> str:
        steps = "the theorem's number of" if isinstance(self.steps, str) else short(self.steps)
        data = "all data" if self.minibatch is None else f"minibatches of {self.minibatch}"
        control = " with a control variate" if self.control_variate else ""
        unit = "Theorem 1's step" if self.scale == "theorem" else self.kernel.step_unit
        size = "" if self.kernel.step_size is None else f" of {short(self.kernel.step_size)} times {unit}"
        heat = "" if (t := short(self.kernel.temperature)) == "1" else f" at temperature {t}"
        return f"{steps} {type(self.kernel).__name__} steps{size}{heat} on {data}{control}"

    def resolved(self, model: Model) -> Chain:
        """The chain with the scale that this model needs, and Theorem 1's minibatch size, refusing models without constants."""
        by_row = provides(model, "row_information")
        by = None if self.minibatch is None else overridden_alone(model, "log_likelihood_of", "log_likelihood")
        if by is not None:
            raise ConfigError(
                f"Chain: minibatches sum log_likelihood over rows, and {by} overrides log_likelihood_of alone, which would not be "
                "used; override log_likelihood too, or leave minibatch=None."
            )
        if self.scale == "information" and not model.information_sets_step:
            return dataclasses.replace(self, scale="rows" if by_row else "mode").resolved(model)
        if self.scale == "rows" and not by_row:
            raise ConfigError(
                f'Chain: scale="rows" needs the curvature of a reward by its features, and {type(model).__name__} has no '
                "row_information; leave scale out."
            )
        if not any(isinstance(part, str) and part == "theorem" for part in (self.steps, self.minibatch, self.scale)):
            return self
        constants = theory.constants_of(model)
        if self.minibatch != "theorem":
            return self
        return dataclasses.replace(self, minibatch=int(np.max(theory.minibatch(constants))))

    def needs_log(self, model: Model) -> bool:
        """Whether rows are kept: for gradients, for step sizes, or because chains are compared by what they predict there."""
        return self.minibatch is not None or self.scale == "rows" or not model.has_summary or not model.identifiable

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
        """The chains' ends after a warm start at `theta` (Algorithm 1, lines 1–6), for a block of replications. `n` is what
        `counts_of` says of the history.

        Every (replication, arm, chain) is a lane with a key of its own, and lanes run in blocks of one flat axis: that
        is what XLA turns into vector code. The order of the lanes cannot change their numbers.
        """
        R, A, C, dim = theta.shape
        pairs, lanes = R * A, R * A * C
        worth = n.reshape(pairs)
        count = worth if jnp.issubdtype(n.dtype, jnp.integer) else _whole(history, n).reshape(pairs)
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
            store, data, capacity = None, history, 0

        def by_blocks(each: int, of_lane: Callable, parts: tuple[Array | int, ...], done: Tree) -> Tree:
            """`of_lane(part, pair, chain)` of the lanes 0 … parts[-1] - 1 in the order of their counts, put into `done`.

            There are `each` lanes a pair of replication and arm; `of_lane` gives a function of one lane, and its arguments.
            Parts end before the lanes `parts`, and no block holds lanes of two of them.
            """
            block = min(pairs * each, BLOCK if _lanes.on_cpu() else ACCELERATOR_BLOCK)
            begins, ends = jnp.asarray((0, *parts[:-1])), jnp.asarray(parts)
            blocks = jnp.cumsum(_ceil_div(ends - begins, block))
            first = blocks - _ceil_div(ends - begins, block)

            def run_block(b, done: Tree) -> Tree:
                part = jnp.sum(b >= blocks[:-1], dtype=int)
                position = begins[part] + (b - first[part]) * block + jnp.arange(block)
                pair, chain = by_count[jnp.minimum(position // each, pairs - 1)], position % each
                function, arguments = of_lane(part, pair, chain)
                made = _lanes.vmap(function)(*jax.tree.map(lambda x: jnp.moveaxis(x, 0, -1), arguments))
                place = jnp.where(position < ends[part], pair * each + chain, pairs * each)
                put = lambda store, new: store.at[place].set(jnp.moveaxis(new, -1, 0), mode="drop")  # noqa: E731
                return jax.tree.map(put, done, made)

            return lax.fori_loop(0, blocks[-1], run_block, done)

        def arm_of(pair) -> tuple:
            return jax.tree.map(lambda x: jnp.asarray(x)[pair % A], model), prior_precision[pair % A]

        def data_of(pair) -> tuple:
            return count[pair], jax.tree.map(lambda x: x[pair // A, pair % A], data)

        some = jnp.sum(count > 0)
        if self.scale == "mode":
            starts = starts_of(model, theta).reshape(pairs, -1, dim)
            find = find_mode if has_one_mode(model) else find_modes
            of_pair = lambda part, pair, chain: (  # noqa: E731
                partial(
                    modes_of_arm, find, store, capacity, jnp.max(count[pair]), None if self.minibatch is None else SCORING_ROWS
                ),
                (*arm_of(pair), starts[pair], *data_of(pair)),
            )
            none = Modes.empty(pairs, dim=dim)
            modes = by_blocks(1, of_pair, (some,), none)
            # The chains of an arm are dealt out to its modes by their shares.
            offset = jax.vmap(lambda key: _random.uniform(_random.fold_in(key, RESTART), (A,)))(keys).reshape(pairs, 1)
            which = jax.vmap(jax.vmap(Modes.which, (None, 0)))(modes, (jnp.arange(C) + offset) / C)
        else:
            modes, which = None, None

        def of_chain(part, pair, chain):
            r, a = pair // A, pair % A
            words = jax.vmap(lambda r, i: _random.words_of(_random.fold_in(keys[r], i)))(r, a * C + chain)
            chosen = lambda x: x[pair, which[pair, chain]]  # type: ignore[index]  # noqa: E731
            # Draws of many weights differ in how steep they are, so with "rows" every chain has a step size of its own.
            tuned = theta[r, a, chain if self.scale == "rows" else 0]
            at = tuned if modes is None else jax.tree.map(chosen, modes.white)
            lane = partial(self.lane, store, capacity, jnp.max(count[pair]), part == 1, C > 1)
            return lane, (words, *arm_of(pair), theta[r, a, chain], at, worth[pair], *data_of(pair))

        coordinates = PROBES if by_predictions(model, C > 1) else dim
        halves = jnp.zeros((lanes, 2, coordinates))
        info = ChainInfo(jnp.zeros(lanes), halves, halves, jnp.ones(lanes), jnp.zeros((lanes, coordinates)))
        done = (theta.reshape(lanes, dim), info)
        parts = (C * some,)
        if store is not None and self.minibatch is not None:  # lanes that draw minibatches, and lanes with fewer rows
            parts = (C * jnp.sum(count > int(self.minibatch)), C * some)
        done = by_blocks(C, of_chain, parts, done)
        ends, info = jax.tree.map(lambda x: x.reshape(R, A, C, *x.shape[1:]), done)
        if modes is None:
            return ends, info
        root = modes.white.root[jnp.arange(pairs), which[:, 0]]  # type: ignore[index]
        return ends, info._replace(root=root.reshape(R, A, dim, dim))

    def lane(
        self,
        store: Row | None,
        capacity: int,
        most: Int[Array, ""],
        few: Bool[Array, ""] | bool,
        diagnose: bool,
        words: Array,
        model: Model,
        prior_precision: Theta,
        theta: Theta,
        at: Theta | Whitening,
        worth: Array,
        n: Int[Array, ""],
        data: Tree,
    ) -> tuple[Theta, ChainInfo]:
        """One chain. `at` is the point that the step size is tuned at, one for all chains of an arm or each chain's own, or the
        whitening at the chain's mode. `few` says that a minibatch holds all of its rows. `worth` is what its n rows count for."""
        key = _random.from_words(words)
        reference = at.centre if isinstance(at, Whitening) else at
        rows = None if store is None else potentials.Rows(store, data, n, most)
        if self.scale == "rows":
            assert rows is not None, "`needs_log` says so"
            curvature = lambda x: prior_precision + rows.information(model, x)  # noqa: E731
        else:
            curvature = lambda x: prior_precision + worth * model.information(x)  # noqa: E731
        theorem = self.scale == "theorem"
        scale = theory.step_size(theory.constants_of(model), n) + 0 * theta if theorem else 1 / curvature(reference)
        white, newton = None, lambda x, g: g / curvature(x)
        if self.scale == "data":
            summary_curvature = lambda: potentials.curvature_of_summary(model, data, n, reference)  # type: ignore[arg-type]  # noqa: E731
            seen = summary_curvature() if rows is None else rows.curvature(model, reference)
            white = Whitening.of(reference, prior_precision, n, seen, typical_information(model, reference))
            newton = lambda x, g: white.root @ (white.root.T @ g)  # noqa: E731
        if rows is None:
            target = potentials.from_summary(model, data, scale)  # type: ignore[arg-type]
        elif self.minibatch is None:
            target = potentials.from_rows(model, rows.gathered(capacity), scale)
        elif not self.control_variate:
            target = potentials.from_minibatch(model, rows, int(self.minibatch), scale, few=few)
        else:
            anchor = reference if isinstance(at, Whitening) else self._mode(model, rows, scale, newton, reference)
            target = potentials.from_control_variate(model, rows, int(self.minibatch), anchor, scale, few=few)
        watch = predictions(model, rows) if by_predictions(model, diagnose) else None
        run = partial(self._iterate, key, limit=self._limit(model, n), diagnose=diagnose)
        if isinstance(at, Whitening):
            return self._around(run, key, target, at, theta, n, watch)
        if white is None:
            return run(target, theta, watch=watch)
        z, info = run(white.potential(target), white.inverse @ (theta - reference), watch=in_coordinates(watch, white))
        return reference + white.root @ z, info

    def _around(self, run: Callable, key, target: Potential, white: Whitening, theta: Theta, n, watch: Watch | None):
        """The chain in coordinates in which the posterior is about a standard normal law."""
        dim = theta.shape[0]
        # A minibatch adds noise of variance n/|D| in each coordinate.
        noise = 0.0 if self.minibatch is None else n / int(self.minibatch)
        steepest = (FAR + jnp.sqrt(dim)) * jnp.sqrt(1 + noise)
        target = white.tamed(target, steepest)
        z = white.inverse @ (theta - white.centre)
        near = jnp.sqrt(jnp.sum(jnp.square(z))) < FAR + jnp.sqrt(dim)  # not so where z is not finite
        z = jnp.where(near, z, _random.normal(_random.fold_in(key, RESTART), (dim,)))
        z, info = run(target, z, watch=in_coordinates(watch, white), adapts=self.kernel.needs_value)
        # An unadjusted chain has no test that would hold it; its end counts as stuck where it is as far as no draw is.
        far = ~(jnp.sqrt(jnp.sum(jnp.square(z))) < 2 * (FAR + jnp.sqrt(dim)))
        z = jnp.where(far, _random.normal(_random.fold_in(key, RESTART), (dim,)), z)
        return white.centre + white.root @ z, info._replace(acceptance=jnp.where(far, 0.0, info.acceptance))

    def _mode(self, model: Model, rows: potentials.Rows, scale: Theta, newton: Callable, start: Theta) -> Theta:
        """The anchor of a control variate, from the last chain end: x ← x - newton(x, ∇U(x)).

        That is Fisher scoring, ∇U(x)/(prior precision + n · information(x)), or with the Hessian of the rows themselves.

        The steps see a sample of the rows, so that their cost does not grow with n. Where there are more, one pass over all
        of them follows: near the mode a step squares its error.
        """
        step = lambda U, x: x - newton(x, U.grad(_random.as_key(0), x))  # noqa: E731
        sample = potentials.from_sample(model, rows, SCORING_ROWS, scale)
        near = lax.fori_loop(0, SCORING_STEPS, lambda _, x: step(sample, x), start)
        last = lambda: jnp.where(rows.n > SCORING_ROWS, step(potentials.from_rows(model, rows, scale), near), near)  # noqa: E731
        return lax.cond(rows.most > SCORING_ROWS, last, lambda: near)

    def _limit(self, model: Model, n: Int[Array, ""]) -> Int[Array, ""] | int:
        if isinstance(self.steps, str):
            return theory.iterations(theory.constants_of(model), n)
        return self.steps(n) if callable(self.steps) else self.steps

    def _iterate(
        self,
        key,
        target: Potential,
        theta: Theta,
        *,
        limit: Int[Array, ""] | int,
        diagnose: bool,
        watch: Watch | None = None,
        adapts: bool = False,
    ) -> tuple[Theta, ChainInfo]:
        """The steps, with running moments over the third and the last quarter of them where there are chains to compare: of θ, or
        of what `watch` makes of it.

        A chain that `adapts` lengthens its step after each acceptance and shortens it after each refusal, until they are
        ACCEPT to 1 - ACCEPT, in the first half; the other half, with the step frozen, leaves the posterior invariant.
        """
        quarter = jnp.maximum(jnp.asarray(limit) // 4, 1)
        begin = limit - 2 * quarter
        words = _random.words_of(key)
        seen = (lambda x: x) if watch is None else watch

        def body(i, carry):
            state, stretch, accepted, moments = carry
            stretched = target._replace(scale=jnp.exp(stretch) * target.scale) if adapts else target
            state, info = _stepped(self.kernel, self.kernel.step(_random.step_key(_random.from_words(words), i), state, stretched))
            if adapts:
                stretch = jnp.minimum(stretch + jnp.where(i < begin, info.acceptance - ACCEPT, 0.0), LONGEST)
            if diagnose:
                inside = (i >= begin) & ((i >= begin + quarter) == (jnp.arange(2)[:, None] == 1))
                moments = accumulate(moments, seen(state.position), inside)
            return state, stretch, accepted + info.acceptance, moments

        zeros = jnp.zeros((2, *jax.eval_shape(seen, theta).shape))
        start = self.kernel.start(theta, target) if adapts and isinstance(self.kernel, MALA) else self.kernel.init(theta)
        if not hasattr(start, "position"):
            raise ConfigError(f"Chain: init of {type(self.kernel).__name__} must return a state with a position, such as State(…).")
        stretch = jnp.zeros(()) if adapts else ()
        state, _, accepted, (_, mean, m2) = lax.fori_loop(
            0, jnp.asarray(limit), body, (start, stretch, jnp.zeros(()), (zeros, zeros, zeros))
        )
        variances, steps = m2 / jnp.maximum(quarter - 1, 1), quarter.astype(float)
        return state.position, ChainInfo(accepted / limit, mean, variances, steps, seen(state.position))


def _stepped(kernel: Sampler, found: Any) -> tuple[Any, Any]:
    """What a step of a kernel returned, refused where it is no state and `StepInfo`."""
    pair = isinstance(found, tuple) and len(found) == 2 and hasattr(found[0], "position") and hasattr(found[1], "acceptance")
    if not pair:
        raise ConfigError(f"Chain: step of {type(kernel).__name__} must return (state, StepInfo(acceptance)).")
    return found


def _whole(history: Tree, worth: Float[Array, "block arms"]) -> Int[Array, "block arms"]:
    """How many rows each arm has, where rows count for less than one; of summaries, which have no rows, a bound on it."""
    return history.counts if isinstance(history, Log) else jnp.ceil(worth).astype(int)


def _ceil_div(a, b):
    return (a + b - 1) // b


def has_oracle(model: Any) -> bool:
    """Whether the law of an arm's mean reward is known exactly, without a context."""
    return model.has_marginal and not model.contextual


@register("sampler", "sgld")
def sgld(
    step_size: float | Schedule | str = 0.1,
    steps: Steps = 50,
    minibatch: int | str = 32,
    *,
    control_variate: bool = False,
    scale: str = "information",
) -> Chain:
    """Stochastic gradient Langevin dynamics (Algorithm 1). Each setting is a number, a function, or "theorem".

    Args:
        step_size: in units of the scale.
        steps: how many steps a refresh takes.
        minibatch: how many rewards a gradient is estimated from.
        control_variate: whether gradients are corrected by the gradient at the mode.
        scale: what step sizes are in units of; see `Chain`.

    Returns:
        The chain, for `Perturb` and `Pool`.

    >>> from blts import sgld
    >>> print(sgld(step_size=0.1, steps=50, minibatch=32))
    50 Langevin steps of 0.1 times the posterior variance on minibatches of 32
    """
    if isinstance(step_size, str):
        if step_size != "theorem":
            raise ConfigError(f'sgld: step_size must be a number, a schedule or "theorem"; got {step_size!r}.')
        return Chain(Langevin(1.0), steps, minibatch, control_variate, "theorem")
    return Chain(Langevin(step_size), steps, minibatch, control_variate, scale)


@register("sampler", "ula")
def ula(step_size: float | Schedule = 0.1, steps: Steps = 50, *, scale: str = "information") -> Chain:
    """The unadjusted Langevin algorithm: the same kernel on the full gradient.

    Args:
        step_size: in units of the scale.
        steps: how many steps a refresh takes.
        scale: what step sizes are in units of; see `Chain`.

    Returns:
        The chain, for `Perturb` and `Pool`.

    >>> from blts import ula
    >>> print(ula(steps=100))
    100 Langevin steps of 0.1 times the posterior variance on all data
    """
    return Chain(Langevin(step_size), steps, scale=scale)


@register("sampler", "mala")
def mala(step_size: float | Schedule = 0.5, steps: Steps = 20, *, scale: str = "information") -> Chain:
    """Metropolis-adjusted Langevin on the full gradient.

    Args:
        step_size: in units of the scale.
        steps: how many steps a refresh takes.
        scale: what step sizes are in units of; see `Chain`.

    Returns:
        The chain, for `Perturb` and `Pool`.

    >>> from blts import mala
    >>> print(mala())
    20 MALA steps of 0.5 times the posterior variance on all data
    """
    return Chain(MALA(step_size), steps, scale=scale)
