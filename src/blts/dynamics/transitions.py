"""A dynamics as a model of one arm, so that every chain of `blts.samplers` runs on it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from .._module import module
from .._typing import Row, Scalar, Tree
from ..declared import rests_on
from ..models.base import Model, Theory


@module
class Transitions(Model):
    """A dynamics as a model of one arm: rows `Row((obs, action), 0, reward, next_obs)`.

    Where the dynamics keeps a summary of its data, so does this, and a full gradient costs the same for any number of rows.

    >>> from blts.dynamics import Inventory
    >>> from blts.samplers import mala, sgld
    >>> arm = Transitions(Inventory())
    >>> mala().needs_log(arm), sgld().needs_log(arm)
    (False, True)
    """

    dynamics: Any

    @staticmethod
    def row(obs: Tree, action: Any, reward: Scalar, next_obs: Tree, t: Tree = ()) -> Row:
        """The row as the chain's history groups it: all transitions are rows of arm 0. Its round `t` is not kept."""
        del t
        return Row((obs, action), jnp.zeros((), int), reward, next_obs)

    @staticmethod
    def unpacked(row: Row) -> Row:
        """The row as the dynamics reads it."""
        obs, action = row.obs
        return Row(obs, action, row.reward, row.next_obs)

    def stacked(self) -> Transitions:
        """The same with an arm axis of length 1 before every number, as chains want it."""
        return jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], self)

    @property
    def dim(self) -> int:
        return self.dynamics.dim

    def __str__(self) -> str:
        return f"All transitions as rows of one arm. {self.dynamics}"

    def init(self, key):
        return self.dynamics.init(key)

    def log_prior(self, theta):
        return self.dynamics.log_prior(theta)

    def log_likelihood(self, theta, row):
        return self.dynamics.log_likelihood(theta, self.unpacked(row))

    def information(self, theta):
        return self.dynamics.information(theta)

    def prior_precision(self):
        return self.dynamics.prior_precision()

    def theory(self):
        return Theory(False, "log p of one transition is not strongly concave in every direction of θ, so there is no m.")

    # The summary of the dynamics, where it keeps one

    @property
    def has_summary(self) -> bool:
        return super().has_summary and self.dynamics.has_summary

    @rests_on("log_likelihood")
    def empty(self):
        return self.dynamics.empty()

    @rests_on("log_likelihood")
    def add(self, summary, row):
        return self.dynamics.add(summary, self.unpacked(row))

    @rests_on("log_likelihood")
    def log_likelihood_of(self, theta, summary):
        return self.dynamics.log_likelihood_of(theta, summary)


def summary_of(dynamics: Any, rows: Row) -> Tree:
    """The summary of stacked rows (a row axis before every number).

    Args:
        dynamics: one with a summary.
        rows: as `rollout` returns them.

    Returns:
        What `add` makes of all rows.

    >>> from blts import random
    >>> from blts.dynamics import Inventory, rollout, summary_of
    >>> shop = Inventory()
    >>> rows = rollout(random.key(0), shop, shop.true, shop.plan(shop.true), 50).rows
    >>> int(summary_of(shop, rows).rows)
    50
    """
    return jax.lax.scan(lambda summary, row: (dynamics.add(summary, row), None), dynamics.empty(), rows)[0]
