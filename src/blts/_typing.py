"""Shared shapes of data and type aliases. `Row` is one round: a bandit pull and an MDP transition alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import jax

from .diagnosis import ACCEPTANCE_LIMIT, RHAT_LIMIT, STUCK_LIMIT

if TYPE_CHECKING:
    from jaxtyping import Array, ArrayLike, Bool, Float, Int, Key
else:  # shapes are for readers and type checkers; importing jaxtyping takes a tenth of a second
    from jax import Array
    from jax.typing import ArrayLike

    class Shaped:
        """`Shaped[Array, "arms dim"]` is `Array`."""

        def __class_getitem__(cls, shape):
            return shape[0]

    Bool = Float = Int = Key = Shaped

PRNGKey: TypeAlias = Key[Array, ""]
Scalar: TypeAlias = Float[Array, ""]
Theta: TypeAlias = Float[Array, " dim"]
Thetas: TypeAlias = Float[Array, "arms dim"]
Tree: TypeAlias = Any
"""Any pytree; where its structure matters, the docstring says what it holds."""
Numbers: TypeAlias = Any
"""A number, a list or an array in a configuration, kept as an array: one for each arm where it has one more axis."""
Schedule: TypeAlias = Callable[[Int[Array, ""]], Scalar]
"""A number that depends on the iteration: `schedule(i)`."""


_NAN = float("nan")


class Row(NamedTuple):
    """One round as it is remembered: what `Agent.remember` and `Model.log_likelihood` are given.

    >>> from blts import Row
    >>> Row(obs=(), action=1, reward=0.5)
    Row(obs=(), action=1, reward=0.5, next_obs=(), t=())
    """

    obs: Tree
    """What the agent saw before it acted; `()` for a bandit without contexts."""
    action: Int[Array, ""]
    """What it played, a number of shape `()`."""
    reward: Scalar
    """What it earned, a number of shape `()`."""
    next_obs: Tree = ()
    """What it saw afterwards: the next state of an MDP."""
    t: Tree = ()
    """The round that it was, from 1, where rewards are late; `()` elsewhere."""


class Played(NamedTuple):
    """What an agent knows within a batch, besides its state: what `Agent.act` is given.

    Attributes:
        t: the round, from 1.
        counts: how often each action was played before, those of the running batch included.

    >>> import numpy as np
    >>> from blts import Played
    >>> Played(t=4, counts=np.array([2, 1]))
    Played(t=4, counts=array([2, 1]))
    """

    t: Int[Array, ""]
    """The round it is in, from 1."""
    counts: Int[Array, " actions"]
    """How often each action was played before, of shape `(actions,)`; those of the running batch, whose rewards are not in yet,
    included."""


class Info(NamedTuple):
    """How one refresh went: returned by `Agent.observe` and `Belief.refresh`, with arrays of shape `(block,)`. `Info.of(finite)`
    makes one; a figure that does not apply is NaN.

    >>> import jax.numpy as jnp
    >>> from blts import Info
    >>> info = Info.of(jnp.array([True, False]))
    >>> info.finite.tolist(), info.rhat.tolist()
    ([True, False], [nan, nan])
    """

    finite: Bool[Array, ""]
    """Whether all numbers of the new state are finite."""
    acceptance: Scalar
    """Share of accepted Metropolis proposals."""
    ess: Scalar
    """Smallest effective sample size over the arms of a pool; chains that do not move, or disagree, add nothing to it."""
    rhat: Scalar
    """Largest split R-hat over the arms of a pool."""
    distance: Scalar
    """Largest W2 over the arms, in posterior sds, between what is drawn within the batch and the exact posterior."""
    residual: Scalar
    """What a plan may lose a round in the model it was made for."""
    stuck: Scalar
    """Largest share of an arm's chains that hardly moved, or ended far from the others."""
    least: Scalar
    """Smallest acceptance over the arms, of all chains of an arm."""

    @staticmethod
    def of(
        finite: ArrayLike,
        acceptance: ArrayLike = _NAN,
        ess: ArrayLike = _NAN,
        rhat: ArrayLike = _NAN,
        distance: ArrayLike = _NAN,
        residual: ArrayLike = _NAN,
        *,
        stuck: ArrayLike = _NAN,
        least: ArrayLike = _NAN,
    ) -> Info:
        """An `Info` whose arrays have the shape of `finite`.

        Args:
            finite: whether all numbers of the new state are finite, one flag for each replication: shape `(block,)`.
            acceptance, ess, rhat, distance, residual, stuck, least: figures of `Info`; what is left out is NaN.

        Returns:
            The `Info`.
        """
        finite = jax.numpy.asarray(finite)
        number = lambda x: jax.numpy.broadcast_to(jax.numpy.asarray(x, float), finite.shape)  # noqa: E731
        return Info(finite, *map(number, (acceptance, ess, rhat, distance, residual, stuck, least)))

    @property
    def sound(self) -> Bool[Array, ""]:
        """Whether the refresh may be believed: within the limits of `diagnosis`. A figure that does not apply passes none."""
        return self.finite & ~(self.rhat > RHAT_LIMIT) & ~(self.stuck > STUCK_LIMIT) & ~(self.least < ACCEPTANCE_LIMIT)


__all__ = [
    "Array",
    "ArrayLike",
    "Bool",
    "Float",
    "Info",
    "Int",
    "Key",
    "Numbers",
    "PRNGKey",
    "Played",
    "Row",
    "Scalar",
    "Schedule",
    "Theta",
    "Thetas",
    "Tree",
]
