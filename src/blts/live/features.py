"""What is known of a unit before its decision: features that an experiment declares, and the numbers that they become.

Only declared features are stored. A context becomes the numbers (1, …): a numeric feature is scaled from its range to [-1, 1], a
category has a 0 or 1 for each level but the first, and a boolean is 0 or 1.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from .. import contexts
from .._typing import Array, Float, Int, Tree
from ..errors import ConfigError, shown
from .checks import LARGEST, check_text, look

BOOLEAN = "boolean"
MOST_LEVELS = 1000
RESERVED = ("unit", "available")
FORMS = 'a range such as [18, 90], a list of levels such as ["DE", "FR"], or "boolean"'


class Feature(NamedTuple):
    """A declared feature: numeric where it has a range, a category where it has levels, else boolean."""

    name: str
    range: tuple[float, float] | None = None
    levels: tuple[str, ...] | None = None

    @property
    def columns(self) -> list[str]:
        """The names of the numbers that it becomes."""
        return [self.name] if self.levels is None else [f"{self.name}={level}" for level in self.levels[1:]]

    @property
    def encoding(self) -> str:
        """How it becomes numbers, in words."""
        if self.range is not None:
            return f"{self.name}: from [{self.range[0]:g}, {self.range[1]:g}] to [-1, 1]"
        if self.levels is not None:
            return f"{self.name}: 0 or 1 for each of {', '.join(self.levels[1:])}; all 0 for {self.levels[0]}"
        return f"{self.name}: 0 or 1"

    def checked(self, value: Any, where: str) -> float | str | bool:
        """A value as it is stored (`ConfigError` where it is none of this feature); `where` says whose it is."""
        value = value.item() if isinstance(value, np.generic) else value
        if self.range is not None:
            low, high = self.range
            if not isinstance(value, int | float) or isinstance(value, bool) or not low <= value <= high:  # NaN is in no range
                raise ConfigError(f"{where}: {self.name} must be a number from {low:g} to {high:g}; got {shown(value)}.")
            return float(value) + 0.0
        if self.levels is not None:
            alike = [level for level in self.levels if isinstance(value, str) and look(level) == look(value)]
            if not alike:
                raise ConfigError(f"{where}: {self.name} must be one of {', '.join(self.levels)}; got {shown(value)}.")
            return value if value in alike else alike[0]
        if not isinstance(value, bool):
            raise ConfigError(f"{where}: {self.name} must be true or false; got {shown(value)}.")
        return value

    def encoded(self, value: Any) -> list[float]:
        """The numbers that a checked value becomes."""
        if self.range is not None:
            low, high = self.range
            return [2.0 * (value - low) / (high - low) - 1.0]
        if self.levels is not None:
            return [float(value == level) for level in self.levels[1:]]
        return [float(value)]

    @property
    def data(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {name: value for name, value in self._asdict().items() if value is not None}


def features_of(given: object, what: str = "features") -> tuple[Feature, ...]:
    """Read declared features.

    Args:
        given: a mapping from names to a range, a list of levels, or "boolean"; or the list that a specification is stored with.
        what: the setting, for messages.

    Returns:
        The features, in their order.

    Raises:
        ConfigError: a declaration cannot be read.

    >>> [f.encoding for f in features_of({"age": [18, 90], "country": ["DE", "FR"], "returning": "boolean"})]
    ['age: from [18, 90] to [-1, 1]', 'country: 0 or 1 for each of FR; all 0 for DE', 'returning: 0 or 1']
    """
    if given is None:
        return ()
    if isinstance(given, Mapping):
        found = tuple(_declared(name, value, what) for name, value in given.items())
    elif isinstance(given, Sequence) and not isinstance(given, str):
        found = tuple(one if isinstance(one, Feature) else _stored(one, what) for one in given)
    else:
        raise ConfigError(f"{what} must be a table from names to {FORMS}; got {shown(given)}.")
    names = [feature.name for feature in found]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ConfigError(f"{what} has {sorted(twice)[0]!r} twice; give each feature a name of its own.")
    return found


def _stored(one: Any, what: str) -> Feature:
    if not isinstance(one, Mapping) or "name" not in one or set(one) - set(Feature._fields):
        raise ConfigError(f"{what} must be a table from names to {FORMS}; got {shown(one)}.")
    return _declared(one["name"], one.get("range", one.get("levels", BOOLEAN)), what)


def _declared(name: Any, value: Any, what: str) -> Feature:
    check_text(f"A name among {what}", name)
    if name in RESERVED:
        raise ConfigError(
            f"Files with contexts have columns named {' and '.join(RESERVED)}; give the feature {name!r} another name."
        )
    if value == BOOLEAN:
        return Feature(name)
    values = list(value) if isinstance(value, Sequence) and not isinstance(value, str) else []
    if values and all(isinstance(one, str) for one in values):
        for level in values:
            check_text(f"A level of {name}", level)
        if not 2 <= len(set(values)) == len(values) <= MOST_LEVELS:
            raise ConfigError(f"The levels of {name} must be between 2 and {MOST_LEVELS}, each given once; got {shown(values)}.")
        return Feature(name, levels=tuple(values))
    numbers = len(values) == 2 and all(isinstance(x, int | float) and not isinstance(x, bool) for x in values)
    if not numbers:
        raise ConfigError(f"The feature {name!r} must be {FORMS}; got {shown(value)}.")
    low, high = values
    if not -LARGEST <= low < high <= LARGEST:  # which NaN is not
        raise ConfigError(f"The range of {name} must be two finite numbers, the smaller first; got {shown(value)}.")
    return Feature(name, (float(low), float(high)))


class Encoding(NamedTuple):
    """How contexts are checked, stored and become numbers."""

    features: tuple[Feature, ...]

    @property
    def columns(self) -> list[str]:
        """The names of the numbers: a constant, then those of the features."""
        return ["1", *(column for feature in self.features for column in feature.columns)]

    @property
    def words(self) -> list[str]:
        """The encoding in words, one entry a feature after the constant."""
        return ["a constant 1", *(feature.encoding for feature in self.features)]

    def checked(self, given: Any, where: str = "The context") -> dict[str, Any]:
        """A context as it is stored.

        Args:
            given: a mapping from the names of all declared features to values.
            where: whose it is, for messages.

        Returns:
            The values in the order of the features.

        Raises:
            ConfigError: a feature is missing or was not declared, or a value is none of its feature.
        """
        names = [feature.name for feature in self.features]
        if not isinstance(given, Mapping):
            raise ConfigError(f"{where} must be a table with {', '.join(names)}; got {shown(given)}.")
        unknown = [name for name in given if name not in names]
        if unknown:
            raise ConfigError(f"{where} has {shown(unknown[0])}, which is not declared; the features are {', '.join(names)}.")
        missing = [name for name in names if name not in given]
        if missing:
            raise ConfigError(f"{where} lacks {missing[0]!r}; give all of {', '.join(names)}.")
        return {feature.name: feature.checked(given[feature.name], where) for feature in self.features}

    def encoded(self, context: Mapping[str, Any]) -> list[float]:
        """The numbers of a checked context."""
        return [1.0, *(x for feature in self.features for x in feature.encoded(context[feature.name]))]

    def of_texts(self, texts: Sequence[str]) -> np.ndarray:
        """The numbers of stored contexts, `[contexts, columns]`."""
        rows = [self.encoded(json.loads(text)) for text in texts]
        return np.array(rows, float).reshape(len(rows), len(self.columns))


@dataclasses.dataclass(frozen=True)
class ArmColumns:
    """The features of an arm where all arms have one θ.

    Args:
        rows: the numbers of each active arm.
        products: whether the context is multiplied with them: (x, x z₁, x z₂, …); else they follow it: (x, z₁, z₂, …).

    >>> import jax.numpy as jnp
    >>> ArmColumns(((2.0,), (3.0,)), products=True)(jnp.array([1.0, 0.5]), 1).tolist()
    [1.0, 0.5, 3.0, 1.5]
    """

    rows: tuple[tuple[float, ...], ...]
    products: bool

    def __call__(self, obs: Tree, action: Int[Array, ""]) -> Float[Array, " dim"]:
        x, z = contexts.features(obs, action), jnp.asarray(self.rows, float)[action]
        return jnp.concatenate([x, (z[:, None] * x).ravel() if self.products else z])

    @property
    def width(self) -> int:
        """How many numbers an arm has."""
        return len(self.rows[0])


class Observed(NamedTuple):
    """What some decisions are shown, as arrays."""

    x: np.ndarray
    """`[decisions, columns]`."""
    available: np.ndarray
    """Which of the active arms each can be, `[decisions, arms]`."""

    def part(self, start: int, stop: int, size: int) -> contexts.Context:
        """Decisions start … stop - 1 with padding, so that there are `size` of them."""
        x, available = np.zeros((size, self.x.shape[1]), jnp.zeros(()).dtype), np.ones((size, self.available.shape[1]), bool)
        x[: stop - start], available[: stop - start] = self.x[start:stop], self.available[start:stop]
        return contexts.Context(x, (), available)


def shown_to(columns: int, arms: int) -> contexts.Context:
    """What one decision is shown, for shapes and types."""
    return contexts.Context(np.zeros(columns, jnp.zeros(()).dtype), (), np.ones(arms, bool))
