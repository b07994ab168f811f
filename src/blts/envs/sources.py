"""Where the contexts of a world come from: a distribution, or the rows of a table."""

from __future__ import annotations

import warnings
from typing import Any

import jax.numpy as jnp
import numpy as np

from .. import _random
from .._module import array, at_least, is_concrete, module, positive, short, static
from .._typing import Array, Int, Numbers, PRNGKey, Tree
from ..contexts import Context
from ..errors import ConfigError

LARGEST = 1e15
"""Of features: sums of many squares must fit into single precision, which ends at 3e38."""


class ConstantColumn(UserWarning):
    """A column of features that is the same in every row, beside a constant or always 0.

    >>> import warnings
    >>> from blts import ContextTable
    >>> from blts.envs import ConstantColumn
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     table = ContextTable([[1.0, 0.0], [2.0, 0.0]])
    >>> caught[0].category is ConstantColumn
    True
    """


@module
class GaussianContexts:
    """Contexts with independent normal coordinates of mean 0: the same for all arms, or anew for each arm.

    Args:
        sd: of each coordinate.
        arms: None where a round shows one vector; a number where it shows a vector for each of so many arms.
        unit: whether each vector is divided by its length, which makes it uniform on the sphere where all sds are equal.

    >>> from blts import random
    >>> from blts.envs import GaussianContexts
    >>> GaussianContexts([1.0, 0.5])(random.key(0)).shape, GaussianContexts([1.0, 0.5], arms=3)(random.key(0)).arms.shape
    ((2,), (3, 2))
    """

    sd: Numbers = array(ndim=1)
    arms: int | None = static(default=None)
    unit: bool = static(default=False)

    def check(self):
        if np.ndim(self.sd) != 1 or np.size(self.sd) < 1:
            raise ConfigError(f"GaussianContexts: sd must have one number for each coordinate; got {short(self.sd)}.")
        positive(self, "sd")
        if self.arms is not None:
            at_least(self, "arms", 1)

    def __str__(self) -> str:
        law = "unit vectors" if self.unit else f"N(0, sd²) with sd {short(self.sd)}"
        return f"{law} in {len(self.sd)} dimensions" + ("" if self.arms is None else ", for each arm its own")

    def __call__(self, key: PRNGKey) -> Tree:
        """Draw what one round shows."""
        sd = jnp.asarray(self.sd, float)
        x = sd * _random.normal(key, sd.shape if self.arms is None else (self.arms, *sd.shape))
        x = x / jnp.linalg.norm(x, axis=-1, keepdims=True) if self.unit else x
        return x if self.arms is None else Context(arms=x)


@module
class ContextTable:
    """Contexts that are the rows of a table: drawn with replacement, or one after the other.

    Args:
        x: features of the round, `[rows, dim]`; None where arms have their own alone.
        arms: features of each arm, `[rows, arms, dim]`; None where there are none.
        available: which arms can be played, `[rows, arms]`; None where all can.
        cycled: whether round t shows row t modulo the number of rows; by default each round draws one.

    >>> from blts.envs import ContextTable
    >>> print(ContextTable([[1.0, 0.5], [1.0, -0.5], [1.0, 2.0]], cycled=True))
    3 rows, one after the other
    """

    x: Numbers = array(default=None, ndim=2)
    arms: Numbers = array(default=None, ndim=3)
    available: Numbers = array(default=None, ndim=2, dtype=bool)
    cycled: bool = static(default=False)

    @classmethod
    def of(cls, table: Any) -> ContextTable:
        """Build from an array of rows, or from a `Context` whose parts have the rows as first axis.

        Args:
            table: the array, or the `Context`.

        Returns:
            The table, whose rows are drawn with replacement.

        Raises:
            ConfigError: it is not a table of numbers.
        """
        if not isinstance(table, Context):
            return cls(table)
        x, arms, available = (None if isinstance(part, tuple) else part for part in table)
        return cls(x, arms, available)

    def check(self):
        given = {name: value for name in ("x", "arms", "available") if (value := getattr(self, name)) is not None}
        if not given:
            raise ConfigError("ContextTable: give x, arms or available; there is nothing to show.")
        for name, value in given.items():
            axes = {"x": "(rows, dim)", "arms": "(rows, arms, dim)", "available": "(rows, arms)"}[name]
            if np.ndim(value) != axes.count(",") + 1:
                raise ConfigError(f"ContextTable: {name} must have the shape {axes}; got {np.shape(value)}.")
        counts = {name: len(value) for name, value in given.items()}
        if len(set(counts.values())) > 1:
            told = " and ".join(f"{name} {count}" for name, count in counts.items())
            raise ConfigError(f"ContextTable: the numbers of rows differ, {told}; give as many.")
        if 0 in counts.values():
            raise ConfigError("ContextTable: the table has no rows; give at least one.")
        if all(is_concrete(value) for value in given.values()):
            check_rows("ContextTable", Context(*(given.get(name, ()) for name in Context._fields)))

    def __str__(self) -> str:
        return f"{self.rows} rows, {'one after the other' if self.cycled else 'drawn with replacement'}"

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(next(value for value in (self.x, self.arms, self.available) if value is not None))

    def show(self, key: PRNGKey, t: Int[Array, ""]) -> Tree:
        """What round t (from 0) shows.

        Args:
            key: of the round.
            t: how many rounds were before it.

        Returns:
            A vector where the table has x alone, a `Context` otherwise.
        """
        row = row_of_round(key, t, self.rows, self.cycled)
        x, arms, available = (() if v is None else jnp.asarray(v)[row] for v in (self.x, self.arms, self.available))
        return x if self.arms is None and self.available is None else Context(x, arms, available)


def row_of_round(key: PRNGKey, t: Int[Array, ""], rows: int, cycled: bool) -> Int[Array, ""]:
    """The number of the row of a table that round t (from 0) shows: t modulo `rows`, or any, each with the same probability."""
    return t % rows if cycled else jnp.minimum((_random.uniform(key) * rows).astype(int), rows - 1)


def check_rows(owner: str, rows: Context, *, all_rows: bool = True) -> None:
    """Refuse rows with numbers that are not finite or without an arm; warn of constant columns.

    Args:
        owner: whose rows they are, the subject of the sentence.
        rows: with the rows as first axis of every part.
        all_rows: whether these are all rows there are; of a sample, an arm may be available in others.

    Raises:
        ConfigError: which row or arm is wrong.
    """
    features = {name: np.asarray(values, float) for name in ("x", "arms") if not isinstance(values := getattr(rows, name), tuple)}
    for name, values in features.items():
        if not np.isfinite(values).all():
            place = np.argwhere(~np.isfinite(values))[0]
            where = f"row {place[0]}, column {place[-1]}" + (f" of arm {place[1]}" if values.ndim == 3 else "")
            raise ConfigError(f"{owner}: {name} must be finite; {where} is {values[tuple(place)]}.")
        if np.abs(values).max(initial=0.0) > LARGEST:
            raise ConfigError(f"{owner}: {name} has numbers up to {np.abs(values).max():.3g}, whose squares overflow; scale them.")
    if not isinstance(rows.available, tuple):
        mask = np.asarray(rows.available, bool)
        if not mask.any(1).all():
            row = int(np.argmin(mask.any(1)))
            raise ConfigError(f"{owner}: row {row} of available has no arm that can be played; drop the row.")
        if all_rows and not mask.any(0).all():
            raise ConfigError(f"{owner}: arm {int(np.argmin(mask.any(0)))} is never available; leave it out.")
    for name, values in features.items():
        _warn_of_constants(owner, name, values.reshape(-1, values.shape[-1]))


def _warn_of_constants(owner: str, name: str, values: np.ndarray) -> None:
    """One constant is an intercept; a second one, or zeros, say nothing that the first does not."""
    if len(values) < 2:
        return
    constant = np.flatnonzero((values == values[0]).all(0))
    zero = [i for i in constant if values[0, i] == 0]
    if zero or len(constant) > 1:
        which = zero or list(constant)
        told = ", ".join(map(str, which[:4])) + (", …" if len(which) > 4 else "")
        why = "always 0" if zero else "all constant"
        warnings.warn(f"{owner}: column {told} of {name} is {why}, so its θ cannot be learned; leave it out.", ConstantColumn, 4)
