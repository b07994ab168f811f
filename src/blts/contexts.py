"""What a round of a contextual bandit shows, and the features of an arm that its rewards depend on."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ._typing import Array, Bool, Float, Int, Tree
from .errors import ConfigError

Features = Callable[[Tree, Int[Array, ""]], Tree]
"""From what a round shows and an action to what the rewards of that action depend on."""


class Context(NamedTuple):
    """What a round shows before the action, where a plain vector does not say it all.

    A round may also show a plain vector, the same for all arms, or nothing, `()`.

    >>> from blts import Context
    >>> round = Context(x=[1.0, 0.5], arms=[[0.0], [1.0]], available=[True, False])
    >>> round.available
    [True, False]
    """

    x: Any = ()
    """Features of the round, of shape `(dim,)`, the same for all arms; `()` where there are none."""
    arms: Any = ()
    """Features of each arm, of shape `(arms, dim)`; `()` where there are none."""
    available: Any = ()
    """Which arms can be played, of shape `(arms,)`; `()` where all can."""


def features(obs: Tree, action: Int[Array, ""]) -> Tree:
    """What the rewards of an action depend on, unless an agent is given another function.

    Args:
        obs: what the round shows.
        action: the arm.

    Returns:
        Of a `Context`, the features of the round followed by those of the arm; anything else as it is.

    >>> import jax.numpy as jnp
    >>> from blts import Context, contexts
    >>> contexts.features(Context(x=jnp.array([1.0, 2.0]), arms=jnp.array([[3.0], [4.0]])), 1).tolist()
    [1.0, 2.0, 4.0]
    """
    if not isinstance(obs, Context):
        return obs
    own = () if isinstance(obs.arms, tuple) else jnp.asarray(obs.arms, float)[action]
    parts = [jnp.asarray(part, float) for part in (obs.x, own) if not isinstance(part, tuple)]
    return jnp.concatenate(parts) if parts else ()


def available(obs: Tree) -> Bool[Array, " arms"] | None:
    """Which arms can be played.

    Args:
        obs: what the round shows.

    Returns:
        A mask; None where all arms can.

    >>> from blts import Context
    >>> from blts.contexts import available
    >>> available(Context(available=[True, False])), available(())
    (Array([ True, False], dtype=bool), None)
    """
    if not isinstance(obs, Context) or isinstance(obs.available, tuple):
        return None
    return jnp.asarray(obs.available, bool)


def by_arm(of: Features, obs: Tree, actions: int) -> Tree:
    """The features of every arm.

    Args:
        of: the features of one arm.
        obs: what the round shows.
        actions: how many arms there are.

    Returns:
        What `of` returns, with the arms as first axis; `()` where a round shows nothing.

    Raises:
        ConfigError: a `Context` has features or a mask of another number of arms.

    >>> import numpy as np
    >>> from blts.contexts import WithOffsets, by_arm
    >>> by_arm(WithOffsets(2), np.array([1.0, 3.0]), 2).tolist()
    [[1.0, 3.0, 1.0, 0.0], [1.0, 3.0, 0.0, 1.0]]
    """
    if isinstance(obs, Context):
        for part, value in (("arms", obs.arms), ("available", obs.available)):
            if not isinstance(value, tuple) and len(value) != actions:
                raise ConfigError(f"A round shows {part} of {len(value)} arms, and there are {actions}; give one entry for each.")
    return jax.vmap(lambda action: of(obs, action))(jnp.arange(actions))


@dataclasses.dataclass(frozen=True)
class WithOffsets:
    """Shared features followed by an indicator of each arm: one θ for all arms, and an offset for each.

    Args:
        actions: how many arms there are.
        of: the shared features; by default `features`.

    >>> import jax.numpy as jnp
    >>> from blts.contexts import WithOffsets
    >>> WithOffsets(3)(jnp.array([0.5]), 2).tolist()
    [0.5, 0.0, 0.0, 1.0]
    """

    actions: int
    of: Features = features

    def __call__(self, obs: Tree, action: Int[Array, ""]) -> Float[Array, " dim"]:
        return jnp.concatenate([self.of(obs, action), jnp.where(jnp.arange(self.actions) == action, 1.0, 0.0)])


@dataclasses.dataclass(frozen=True)
class Crossed:
    """The features in a block of the arm's own, zero elsewhere: a shared θ that has all θ of disjoint arms in it.

    Args:
        actions: how many arms there are.
        of: the features of an arm; by default `features`.

    >>> import jax.numpy as jnp
    >>> from blts.contexts import Crossed
    >>> Crossed(3)(jnp.array([0.5, 2.0]), 1).tolist()
    [0.0, 0.0, 0.5, 2.0, 0.0, 0.0]
    """

    actions: int
    of: Features = features

    def __call__(self, obs: Tree, action: Int[Array, ""]) -> Float[Array, " dim"]:
        mine = jnp.where(jnp.arange(self.actions) == action, 1.0, 0.0)
        return (mine[:, None] * self.of(obs, action)).ravel()
