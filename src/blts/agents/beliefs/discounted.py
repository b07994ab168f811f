"""Discounting: the older a reward is, the less it counts."""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp

from ..._module import array, is_concrete, module, require, short, static
from ..._typing import Array, Float, Numbers, Row, Tree
from ...declared import rests_on
from ...errors import ConfigError, require_object
from ...history import Log, Recent, example_row, remember_summary, told_again
from ...models.base import Model
from ...models.drawing import arms_of
from ...models.weighted import Weighed, Weighted
from .base import Belief
from .exact import Exact
from .forgetting import Forgetting
from .laplace import LaplaceApproximation
from .on_chain import OnChain

LEAST_WEIGHT = 1e-3  # of a row in a log: those of less, a thousandth of all weight, are left out


@module
class Discounted(Forgetting, Belief):
    """The posterior in which a reward of an age of k rounds counts factorᵏ times: prior · Π p(reward | θ)^(factorᵏ).

    Its rewards count for at most 1/(1 - factor) rounds. Summaries are multiplied by the factor every round, which is exact; where
    another belief needs the rows themselves, the likelihoods of rows are weighted, and rows of a weight below 1/1000 are left out.
    Minibatches are drawn as without weights: their gradients are unbiased, and as noisy as with minibatches of 2/7 of the size.

    Args:
        belief: how the posterior is held: `Exact`, `LaplaceApproximation`, or a belief on chains.
        factor: how much less a reward counts with every round, below 1.
        room: how many rows are kept, where rows are needed; computed from the factor, whatever is given.

    >>> from blts import Discounted, Exact
    >>> print(Discounted(Exact(), 0.99))
    exact posterior draws each round, rewards discounted by 0.99 a round
    """

    belief: Belief
    factor: Numbers = array(default=0.99)
    room: int | None = static(default=None)
    """How many rows are kept, where the other belief needs rows; `check_model` computes it."""

    def check(self):
        super().check()
        ok = (self.factor > 0) & (self.factor < 1) if is_concrete(self.factor) else True
        require(self, ok, f"factor must be above 0 and below 1; got {short(self.factor)}.")

    def __str__(self) -> str:
        return f"{self.belief}, rewards discounted by {short(self.factor)} a round"

    def check_model(self, model):
        name, belief = type(self.belief).__name__, self.belief.check_model(model)
        if not (isinstance(belief, Exact | LaplaceApproximation | OnChain) and belief.plain_memory):
            raise ConfigError(f"Discounted: {name} does not weigh its rewards; use Windowed({name}(…), rounds).")
        if belief.chain.needs_log(model) if isinstance(belief, OnChain) else isinstance(belief, LaplaceApproximation):
            room = math.ceil(math.log(LEAST_WEIGHT) / math.log(float(self.factor)))
            return dataclasses.replace(self, belief=belief, room=max(1, room))
        summary = jax.eval_shape(lambda single: single.empty(), jax.tree.map(lambda x: x[0], model))
        require_object(f"Discounted: the summary of {type(model).__name__}", summary, ("scaled",), "one with scaled(factor)")
        return dataclasses.replace(self, belief=belief, room=None)

    @rests_on("refresh")
    def incremental(self, model):
        return self.belief.incremental(model)

    def init(self, key, model):
        return _with_fractions(self.belief.init(key, model))

    def empty(self, model, row, capacity):
        if self.room is not None:
            return Recent.empty(row, max(1, min(self.room, capacity)))
        return _with_fractions(jax.vmap(lambda single: single.empty())(model))

    def remember(self, model, history, row, live):
        if isinstance(history, Recent):
            return history.append(row, live)
        faded = jax.vmap(lambda summary: summary.scaled(jnp.where(live, self.factor, 1.0)))(history)
        return remember_summary(model, faded, row, live)

    def refresh(self, keys, model, state, history):
        if isinstance(history, Recent):
            return self.belief.refresh(keys, Weighted(model), state, self._weighed(model, history))
        if isinstance(belief := self.belief, Exact):
            history = jax.vmap(lambda summaries: belief.of_summaries(model, summaries))(history)
        return self.belief.refresh(keys, model, state, history)

    def _weighed(self, model: Model, history: Recent) -> Log:
        """The log of the rows that are kept, each with its weight."""
        weighted, row = Weighted(model), example_row(history)
        empty = self.belief.empty(weighted, self._seen(row, jnp.zeros((), int)), history.room)
        tell = lambda known, row, age, live: self.belief.remember(weighted, known, self._seen(row, age), live)  # noqa: E731
        log = told_again(history, tell, empty)
        return log._replace(worth=jax.vmap(lambda rows, size: _worth(rows, size, arms_of(model)))(log.rows, log.size))

    def _seen(self, row: Row, age) -> Row:
        return row._replace(obs=Weighed(jnp.power(jnp.asarray(self.factor, float), age), row.obs))


def _worth(rows: Row, size: Array, arms: int) -> Float[Array, " arms"]:
    """The sum of the weights of each arm's rows."""
    live = jnp.arange(rows.reward.shape[0]) < size
    mine = live & (rows.action == jnp.arange(arms)[:, None])
    return jnp.sum(jnp.where(mine, rows.obs.weight, 0.0), 1)


def _with_fractions(tree: Tree) -> Tree:
    """The same with numbers in place of whole numbers: what rows count for is no whole number."""
    return jax.tree.map(lambda x: x.astype(float) if jnp.issubdtype(x.dtype, jnp.integer) else x, tree)
