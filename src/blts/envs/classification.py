"""Data sets as worlds: a round shows the features of an example, and the action names its class."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from .._module import array, module, short, static
from .._typing import Array, Int, Numbers, PRNGKey
from ..declared import rests_on
from ..errors import ConfigError
from ..models.support import narrowest_support
from .base import Env, Step
from .sources import ConstantColumn, row_of_round


class Example(NamedTuple):
    """The example that a round shows."""

    t: Int[Array, ""]
    row: Int[Array, ""]


@module
class Classification(Env):
    """A round shows an example of a data set; the action is a guess of its class, and the reward 1 if the guess is right.

    Contexts are the standardised features followed by a constant, divided by √(dim + 1), so that their mean square length is 1.
    Regret is the reward of the best action on this example less that of the action played: with default rewards, mistakes.

    Args:
        X: the features, `[rows, dim]`.
        y: the class of each row: numbers or names. Actions are the classes in their sorted order.
        rewards: what an action earns on each class, `[classes, actions]`; by default 1 for the class itself and 0 for the others.
        cycled: whether rounds show the rows one after the other; by default each round draws one with replacement.
        mean: that is subtracted from each feature; by default its mean over the rows.
        sd: that each feature is divided by; by default its sd over the rows.

    >>> from blts import Classification
    >>> print(Classification([[0.0, 1.0], [1.0, 3.0], [2.0, 1.0]], ["no", "yes", "no"]))
    3 examples of 2 classes, drawn with replacement; 2 standardised features and a constant, divided by √3; reward 1 for the class.
    """

    X: Numbers = array(ndim=2)
    y: Any = None
    rewards: Numbers = array(default=None, ndim=2)
    cycled: bool = static(default=False)
    mean: Numbers = array(default=None, ndim=1)
    sd: Numbers = array(default=None, ndim=1)

    def check(self):
        if np.ndim(self.X) != 2 or np.size(self.X) < 1:
            raise ConfigError(f"Classification: X must have the shape (rows, dim) and at least one row; got {np.shape(self.X)}.")
        if not np.isfinite(np.asarray(self.X)).all():
            place = np.argwhere(~np.isfinite(np.asarray(self.X)))[0]
            raise ConfigError(f"Classification: X must be finite; row {place[0]}, column {place[1]} is not.")
        labels = np.asarray(self.y)
        if labels.shape != np.shape(self.X)[:1]:
            raise ConfigError(f"Classification: y must have one class for each of the {len(self.X)} rows; got {labels.shape}.")
        classes, codes = np.unique(labels, return_inverse=True)
        rewards = np.eye(len(classes)) if self.rewards is None else np.asarray(self.rewards)
        if rewards.ndim != 2 or len(rewards) != len(classes) or rewards.shape[1] < 2 or not np.isfinite(rewards).all():
            what = f"one row of finite rewards for each of the {len(classes)} classes, with two actions or more"
            raise ConfigError(f"Classification: rewards must have {what}; got the shape {rewards.shape}.")
        found = {"y": codes, "rewards": rewards}
        for name, of in {"mean": np.mean, "sd": np.std}.items():
            value = of(np.asarray(self.X), axis=0) if getattr(self, name) is None else np.asarray(getattr(self, name))
            if value.shape != np.shape(self.X)[1:]:
                raise ConfigError(f"Classification: {name} must have one number for each feature; got {short(value)}.")
            found[name] = value
        found["sd"] = self._without_zeros(found["sd"])
        for name, value in found.items():
            object.__setattr__(self, name, value)

    def _without_zeros(self, sd: np.ndarray) -> np.ndarray:
        flat = np.flatnonzero(sd <= 0)
        if flat.size:
            told = ", ".join(map(str, flat[:4])) + (", …" if flat.size > 4 else "")
            warnings.warn(f"Classification: column {told} of X is constant and says nothing; leave it out.", ConstantColumn, 4)
        return np.where(sd > 0, sd, 1.0)

    def __str__(self) -> str:
        rows, dim = np.shape(self.X)
        order = "one after the other" if self.cycled else "drawn with replacement"
        plain = np.array_equal(np.asarray(self.rewards), np.eye(len(self.rewards)))
        pays = "reward 1 for the class" if plain else f"rewards {short(self.rewards)}"
        scaled = f"{dim} standardised features and a constant, divided by √{dim + 1}"
        return f"{rows} examples of {len(self.rewards)} classes, {order}; {scaled}; {pays}."

    @property
    def actions(self) -> int:
        """How many actions there are."""
        return np.shape(self.rewards)[1]

    @property
    def dim(self) -> int:
        """How many numbers a context has."""
        return np.shape(self.X)[1] + 1

    @rests_on("reset", "step")
    @property
    def support(self) -> str:
        """The narrowest of `models.support.SUPPORTS` that holds all rewards."""
        return narrowest_support(np.asarray(self.rewards))

    def _show(self, key: PRNGKey, t: Int[Array, ""]) -> tuple[Example, Array]:
        row = row_of_round(key, t, np.shape(self.X)[0], self.cycled)
        z = (jnp.asarray(self.X, float)[row] - jnp.asarray(self.mean, float)) / jnp.asarray(self.sd, float)
        return Example(t, row), jnp.append(z, 1.0) / jnp.sqrt(self.dim)

    def reset(self, key):
        return self._show(key, jnp.zeros((), int))

    def step(self, key, state, action):
        rewards = jnp.asarray(self.rewards, float)[jnp.asarray(self.y)[state.row]]
        following, obs = self._show(key, state.t + 1)
        return following, Step(obs, rewards[action], jnp.max(rewards) - rewards[action])
