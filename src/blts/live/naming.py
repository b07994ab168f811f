"""Who names a winner in a rehearsal, unless a rule is given."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from .. import _random
from .._typing import PRNGKey, Row, Tree
from ..agents import propensity
from ..history import remember_summary
from ..models import Model
from .learning import capacity_for

DRAWS = 4096  # where the model has no closed-form distribution of its mean reward
WINNER = 0.95  # P(best) from which an arm is named

WinnerRule = Callable[[Model, np.ndarray, np.ndarray, tuple[int, ...]], int | None]
"""(model, arms, rewards, active arms) -> the arm that a report on these rewards names the best, or None."""


def best_by_posterior(model: Model, arms: np.ndarray, rewards: np.ndarray, active: tuple[int, ...]) -> int | None:
    """The arm that is best with a posterior probability of 0.95 or more, given all these rewards.

    Args:
        model: of the active arms, stacked.
        arms: of the rewards, among the active ones.
        rewards: in the order of their decisions.
        active: numbers of the active arms.

    Returns:
        The arm's number; None where there is none, or where the model has no exact posterior.
    """
    if not model.has_posterior:
        return None
    capacity, rows = capacity_for(len(arms)), len(arms)
    columns = np.zeros(capacity, np.int32), np.zeros(capacity)
    columns[0][:rows], columns[1][:rows] = arms, rewards
    p = np.asarray(_p_best(model, *columns, rows))
    return active[int(p.argmax())] if p.max() >= WINNER else None


@jax.jit
def _p_best(model: Model, arms: jax.Array, rewards: jax.Array, rows: int) -> jax.Array:
    count = jax.tree.leaves(model)[0].shape[0]
    add = lambda i, s: remember_summary(model, s, Row((), arms[i], rewards[i], ()), jnp.ones((), bool))  # noqa: E731
    summaries = jax.lax.fori_loop(0, rows, add, jax.vmap(lambda single: single.empty())(model))

    laws = jax.vmap(lambda single, summary, arm: single.marginal(summary, (), arm))(model, summaries, jnp.arange(count))
    if laws is not None:
        return propensity.of_laws(laws)

    def draws(single: Model, summary: Tree, arm: jax.Array, key: PRNGKey) -> jax.Array:
        return jax.vmap(lambda k: single.mean_reward(single.draw(k, summary), (), arm))(_random.split(key, DRAWS))

    values = jax.vmap(draws)(model, summaries, jnp.arange(count), _random.split(_random.as_key(0), count))
    return jnp.bincount(jnp.argmax(values, 0), length=count) / DRAWS
