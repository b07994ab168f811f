"""A bandit whose rewards are drawn from recorded data."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from importlib import resources
from typing import Any

import jax.numpy as jnp
import numpy as np

from .. import _random
from .._module import array, module, short
from .._typing import Numbers
from ..declared import rests_on
from ..errors import ConfigError
from ..models.support import narrowest_support
from .base import Env, Step, gaps_of


@module
class Bootstrap(Env):
    """Each play of an arm gives one of that arm's recorded rewards, drawn with replacement.

    Args:
        rewards: the recorded rewards `[arms, longest]`, each row padded to the longest.
        counts: how many rewards each arm has, without the padding.

    >>> from blts.envs import Bootstrap
    >>> print(Bootstrap.of({"A": [0.0, 1.0, 5.0], "B": [2.0, 2.5]}))
    A bandit of 2 arms that pays recorded rewards, with means [2, 2.25].
    """

    rewards: Numbers = array(ndim=2)
    counts: Numbers = array(ndim=1, dtype=int)

    def check(self):
        if np.ndim(self.rewards) != 2 or np.shape(self.counts) != np.shape(self.rewards)[:1]:
            raise ConfigError("Bootstrap: rewards must have one row per arm and counts one number per arm.")
        if not np.isfinite(np.asarray(self.rewards)).all():
            raise ConfigError("Bootstrap: rewards must be finite numbers; drop or fill the missing ones.")
        if not ((np.asarray(self.counts) >= 1) & (np.asarray(self.counts) <= np.shape(self.rewards)[1])).all():
            raise ConfigError(
                f"Bootstrap: every arm needs at least one reward and no more than its row holds; got counts {short(self.counts)}."
            )

    @classmethod
    def of(cls, table: dict[Any, Any]) -> Bootstrap:
        """Build from a dict.

        Args:
            table: the rewards of each arm.

        Returns:
            The bandit, with the arms in the dict's order.

        Raises:
            ConfigError: an arm has no rewards, or they are not numbers.
        """
        if not isinstance(table, Mapping):
            raise ConfigError(f"Bootstrap: give a dict from each arm to its rewards; got a {type(table).__name__}.")
        try:
            rows = [np.asarray(values, float).ravel() for values in table.values()]
        except (TypeError, ValueError) as error:
            raise ConfigError(f"Bootstrap: rewards must be numbers ({error}).") from None
        if not rows or any(row.size == 0 for row in rows):
            raise ConfigError("Bootstrap: give at least one arm, and at least one reward for every arm.")
        width = max(row.size for row in rows)
        padded = np.stack([np.concatenate([row, np.zeros(width - row.size)]) for row in rows])
        return cls(padded, [row.size for row in rows])

    def __str__(self) -> str:
        return f"A bandit of {self.actions} arms that pays recorded rewards, with means {short(np.asarray(self.means()))}."

    @property
    def actions(self) -> int:
        """How many arms there are."""
        return self.rewards.shape[0]

    @rests_on("reset", "step")
    @property
    def support(self) -> str:
        """The narrowest of `models.support.SUPPORTS` that holds all recorded rewards."""
        real = np.arange(self.rewards.shape[1]) < np.asarray(self.counts)[:, None]
        return narrowest_support(np.asarray(self.rewards)[real])

    def means(self):
        """The mean of each arm's recorded rewards.

        Returns:
            One number per arm.
        """
        real = jnp.arange(self.rewards.shape[1]) < jnp.asarray(self.counts)[:, None]
        return jnp.sum(jnp.where(real, jnp.asarray(self.rewards), 0.0), 1) / jnp.asarray(self.counts)

    def reset(self, key):
        return gaps_of(self.means()), ()

    def step(self, key, state, action):
        count = jnp.asarray(self.counts)[action]
        pick = jnp.minimum((_random.uniform(key) * count).astype(int), count - 1)
        return state, Step((), jnp.asarray(self.rewards)[action, pick], state[action])


def rand_hie() -> Bootstrap:
    """Yearly medical expenses (dollars) in the five coinsurance arms of the RAND Health Insurance Experiment (public domain).

    Returns:
        The bandit.

    >>> from blts.envs import rand_hie
    >>> rand_hie().actions
    5
    """
    table: dict[str, list[float]] = {}
    with resources.files("blts.data").joinpath("rand_hie.csv").open() as lines:
        for row in csv.DictReader(lines):
            table.setdefault(row["coinsurance"], []).append(float(row["dollars"]))
    return Bootstrap.of(table)
