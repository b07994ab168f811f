"""The arm axis of a model: its numbers are for one arm, or have one more axis in front."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from .._typing import Array, Int
from ..arrays import pick
from ..errors import ConfigError, require_object, whole

M = TypeVar("M")


class Number(NamedTuple):
    """One traced number of a model: where it lives, its rank for one arm and what it is."""

    name: str
    ndim: int
    value: Any
    or_number: bool = False
    """Whether it is a vector that may be given as one number, for all its entries: that is an axis of length 1."""


def numbers_of(model: Any) -> list[Number]:
    """The traced numbers of a model. A hyper-parameter in a dict is a number, or an array with one entry for each arm.

    Args:
        model: any model.

    Returns:
        Each with its name, its value and its rank for one arm.

    >>> from blts import Gaussian
    >>> from blts.models import numbers_of
    >>> [number.name for number in numbers_of(Gaussian())]
    ['prior_mean', 'prior_sd', 'sd']
    """
    out = []
    for field in dataclasses.fields(model):
        value = getattr(model, field.name)
        if "ndim" in field.metadata and value is not None:
            ndim, or_number = field.metadata["ndim"], field.metadata.get("or_number", False)
            value = value[None] if or_number and isinstance(value, np.ndarray | jax.Array) and np.ndim(value) == 0 else value
            out.append(Number(field.name, ndim, value, or_number))
        elif isinstance(value, int | float | np.ndarray | jax.Array) and not isinstance(value, bool):
            if not field.metadata.get("static"):
                out.append(Number(field.name, 0, value))
        elif isinstance(value, dict):
            out += [Number(name, max(np.ndim(item) - 1, 0), item) for name, item in value.items()]
    return out


def arm_count(model: Any) -> int | None:
    """How many arms the numbers of a model describe; None where all of them are for one arm.

    Args:
        model: any model.

    Returns:
        Their number, or None.

    Raises:
        ConfigError: one number says that there are more arms than another.

    >>> from blts import Gaussian
    >>> from blts.models import arm_count
    >>> arm_count(Gaussian(prior_mean=[0.0, 1.0])), arm_count(Gaussian())
    (2, None)
    """
    require_object("The model", model, ("__dataclass_fields__",), "Gaussian(prior_mean=[0.0, 1.0]), of a class with @module")
    counts = {}
    for name, ndim, value, _ in numbers_of(model):
        if isinstance(value, str | bool) or callable(value):
            raise ConfigError(f"{type(model).__name__}: {name} must be a number or an array of numbers; got {value!r}.")
        extra = np.ndim(value) - ndim
        if extra > 1 or extra < 0:
            word = ("a number", "a vector", "a matrix")[ndim]
            raise ConfigError(f"{type(model).__name__}: {name} has shape {np.shape(value)}; give {word} or one such for each arm.")
        if extra == 1:
            counts[name] = np.shape(value)[0]
    if len(set(counts.values())) > 1:
        raise ConfigError(
            f"{type(model).__name__}: the number of arms differs, "
            + " but ".join(f"{name} has {count}" for name, count in counts.items())
            + "; give each one value or one per arm."
        )
    return next(iter(counts.values()), None)


def stack(model: M, arms: int) -> M:
    """The model with every number repeated to `[arms, …]`, ready to be mapped over its arms.

    Args:
        model: of one arm, or of as many as are wanted.
        arms: how many there are.

    Returns:
        A model of the same class.

    Raises:
        ConfigError: the model has numbers for another number of arms.

    >>> from blts import Gaussian
    >>> from blts.models import stack
    >>> stack(Gaussian(sd=2.0), 3).sd.tolist()
    [2.0, 2.0, 2.0]
    """
    have = arm_count(model)
    whole(f"{type(model).__name__}: arms", arms)
    if have is not None and have != arms:
        raise ConfigError(f"{type(model).__name__} describes {have} arms where {arms} are needed; give one value or {arms} values.")
    if not jax.tree.leaves(model):
        raise ConfigError(
            f"{type(model).__name__} has no number of its own, and every arm needs one; give it a field, such as sd: float = 1.0."
        )
    repeated = {name: value if np.ndim(value) > ndim else _repeat(value, arms) for name, ndim, value, _ in numbers_of(model)}
    changes = {}
    for field in dataclasses.fields(model):  # type: ignore[arg-type]
        value = getattr(model, field.name)
        if isinstance(value, dict):
            changes[field.name] = {name: repeated[name] for name in value}
        elif field.name in repeated:
            changes[field.name] = repeated[field.name]
    return dataclasses.replace(model, **changes)  # type: ignore[type-var]


def _repeat(value: Any, arms: int) -> Any:
    xp = jnp if isinstance(value, jax.Array) else np
    return xp.broadcast_to(xp.asarray(value), (arms, *np.shape(value)))


def arm(model: M, index: Int[Array, ""]) -> M:
    """One arm of a stacked model.

    Args:
        model: as `stack` returns it.
        index: of the arm.

    Returns:
        A model of one arm.

    >>> from blts import Gaussian
    >>> from blts.models import arm, stack
    >>> print(arm(stack(Gaussian(prior_mean=[0.0, 1.0]), 2), 1))
    One arm with Gaussian rewards (prior mean 1, prior sd 1, sd 1), inside the paper's theory: m = L = ν = 1.
    """
    return jax.tree.map(lambda leaf: pick(leaf, index), model)


def first_arm(model: M) -> M:
    """The first arm, or the model itself where its numbers are for one.

    Args:
        model: of one arm or of several.

    Returns:
        A model of one arm.

    >>> from blts import Gaussian
    >>> from blts.models import first_arm
    >>> print(first_arm(Gaussian(prior_mean=[3.0, 1.0])))
    One arm with Gaussian rewards (prior mean 3, prior sd 1, sd 1), inside the paper's theory: m = L = ν = 1.
    """
    arms = arm_count(model)
    return model if arms is None else jax.tree.map(lambda leaf: leaf[0], stack(model, arms))
