"""Change detection: an arm whose mean has changed starts again."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from ..._module import array, at_least, is_concrete, module, require, short, static
from ..._typing import Array, Bool, Float, Int, Numbers, Tree
from ...errors import ConfigError
from ...history import Recent, example_row, told_again
from ...models.drawing import arms_of
from .base import Belief
from .forgetting import Forgetting

PSEUDO_ROWS = 4.0  # rows with the variance of all that are added to the variance within both parts, which few rows may hide


class Restarts(NamedTuple):
    """The state of `Restarting`."""

    held: Tree
    """That of the other belief."""
    start: Int[Array, " arms"]
    """The first round that is not forgotten, from 0, of each arm."""

    @property
    def n(self) -> Array:
        return self.held.n


@module
class Restarting(Forgetting, Belief):
    """The posterior of each arm's rewards since its mean last changed, as a test of every refresh finds it.

    The n rewards of an arm since its start are split in two, at every place with `least` rewards before and after it. The statistic
    of a split is the log-likelihood ratio of two means against one for normal rewards of unknown variance,
    (n/2) log(variance about one mean / variance about two). If the largest exceeds log(n^1.5 / alarm), the arm forgets what is
    before that split. It is for models without contexts: rewards there also change with what a round shows.

    A change of an arm that is not played is not seen. With `everywhere` all arms forget what is before the change that one of them
    shows, and those that were given up are played again.

    Args:
        belief: how the posterior is held: any belief.
        alarm: about the probability that an arm whose mean does not change is ever restarted.
        least: rewards on both sides of a change: with few, rare rewards that come close together are taken for one.
        everywhere: whether a change of one arm restarts all.

    >>> from blts import Exact, Restarting
    >>> print(Restarting(Exact()))
    exact posterior draws each round, of an arm's rewards since its mean last changed (false alarms 0.01)
    """

    belief: Belief
    alarm: Numbers = array(default=0.01)
    least: int = static(default=20)
    everywhere: bool = static(default=False)

    def check(self):
        super().check()
        ok = (self.alarm > 0) & (self.alarm < 1) if is_concrete(self.alarm) else True
        require(self, ok, f"alarm must be a probability; got {short(self.alarm)}.")
        at_least(self, "least", 2)

    def __str__(self) -> str:
        whose = "the rewards since the mean of an arm" if self.everywhere else "an arm's rewards since its mean"
        return f"{self.belief}, of {whose} last changed (false alarms {short(self.alarm)})"

    def check_model(self, model):
        if model.contextual:
            raise ConfigError(
                f"Restarting: rewards of {type(model).__name__} change with what a round shows, and not with the mean of an arm "
                "alone; use Windowed or Discounted."
            )
        return super().check_model(model)

    def _held(self, state):
        return state.held

    def init(self, key, model):
        return Restarts(self.belief.init(key, model), jnp.zeros(arms_of(model), int))

    def empty(self, model, row, capacity):
        return Recent.empty(row, max(1, capacity))

    def remember(self, model, history, row, live):
        return history.append(row, live)

    def refresh(self, keys, model, state, history):
        start = jax.vmap(self._starts)(history, state.start)
        empty = self.belief.empty(model, example_row(history), history.room)

        def tell(known, row, age, live, start, size):
            return self.belief.remember(model, known, row, live & (size - 1 - age >= start[row.action]))

        known = told_again(history, tell, empty, start, history.size)
        held, info = self.belief.refresh(keys, model, state.held, known)
        return Restarts(held, start), info

    def _starts(self, history: Recent, start: Int[Array, " arms"]) -> Int[Array, " arms"]:
        """The first round of each arm after its last change, of one replication."""
        t = jnp.arange(history.room)
        live = t < history.size
        of_arm = lambda arm, begin: last_change(  # noqa: E731
            history.rows.reward, live & (history.rows.action == arm) & (t >= begin), self.alarm, self.least
        )
        changed = jax.vmap(of_arm)(jnp.arange(start.shape[0]), start)
        latest = jnp.maximum(start, changed)
        return jnp.full_like(latest, jnp.max(latest)) if self.everywhere else latest


def last_change(rewards: Float[Array, " rounds"], mine: Bool[Array, " rounds"], alarm: float | Array, least: int) -> Int[Array, ""]:
    """The round with which the mean of an arm changed, by a likelihood-ratio test.

    Args:
        rewards: of all rounds.
        mine: the rounds that count.
        alarm: about the probability of a false alarm.
        least: rounds that count on both sides of a change.

    Returns:
        The first round after the change, from 0; 0 where none is found.
    """
    n = jnp.sum(mine)
    count = jnp.maximum(n, 1)
    centred = jnp.where(mine, rewards - jnp.sum(jnp.where(mine, rewards, 0.0)) / count, 0.0)
    before, sums = jnp.cumsum(mine), jnp.cumsum(centred)
    after = n - before
    total = jnp.sum(jnp.square(centred))
    # Around the mean of all, the sum of one part is minus that of the other.
    between = jnp.square(sums) * count / jnp.maximum(before * after, 1)
    extra = PSEUDO_ROWS * total / count
    within = jnp.maximum(total - between, 0.0) + extra
    ratio = jnp.where(within > 0, 0.5 * count * jnp.log((total + extra) / jnp.where(within > 0, within, 1.0)), 0.0)
    ratio = jnp.where(mine & (before >= least) & (after >= least), ratio, -jnp.inf)
    place = jnp.argmax(ratio)
    return jnp.where(ratio[place] > 1.5 * jnp.log(count) - jnp.log(alarm), place + 1, 0)
