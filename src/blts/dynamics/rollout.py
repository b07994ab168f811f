"""Simulated paths of a fixed policy."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .. import _random
from .._typing import PRNGKey, Row, Theta, Tree


class Rollout(NamedTuple):
    """A simulated path: its rows, and where it ended.

    >>> from blts import random
    >>> from blts.dynamics import LogitRiverSwim, rollout
    >>> river = LogitRiverSwim()
    >>> path = rollout(random.key(0), river, river.true, river.plan(river.true), 1000)
    >>> path.rows.reward.shape
    (1000,)
    """

    rows: Row
    obs: Tree


def rollout(key: PRNGKey, dynamics: Any, theta: Theta, policy: Tree, rounds: int, explore: Tree | None = None) -> Rollout:
    """`rounds` transitions of a policy from the start. With `explore`, rounds take turns between the two policies.

    Args:
        key: of the path.
        dynamics: the world.
        theta: its true parameters.
        policy: as `dynamics.plan` returns it.
        rounds: how many there are.
        explore: another policy, or None.

    Returns:
        The rows, and where the path ended.

    >>> from blts import random
    >>> from blts.dynamics import LogitRiverSwim
    >>> river = LogitRiverSwim()
    >>> path = rollout(random.key(0), river, river.true, river.plan(river.true), 1000)
    >>> bool(abs(path.rows.reward.mean() - 0.857) < 0.1)
    True
    """

    def step(obs, t):
        action = dynamics.act(policy, obs)
        if explore is not None:
            action = jnp.where(t % 2 == 1, dynamics.act(explore, obs), action)
        next_obs, reward = dynamics.sample(_random.fold_in(key, t), theta, obs, action)
        return next_obs, Row(obs, action, reward, next_obs)

    obs, rows = jax.lax.scan(step, dynamics.start(), jnp.arange(rounds))
    return Rollout(rows, obs)
