"""Parameters inside a box, and what rounding hides."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from .._module import is_concrete
from .._typing import Array, Scalar, Theta
from ..errors import ConfigError


def clipped(theta: Theta, low: float, high: float) -> Theta:
    """θ brought into a box, and a NaN to its middle: what a planner can take whatever a sampler did."""
    return jnp.clip(jnp.where(jnp.isnan(theta), 0.5 * (low + high), theta), low, high)


def digits(values: Array) -> Scalar:
    """What rounding may hide in a comparison of numbers of this size."""
    return 8 * jnp.finfo(values.dtype).eps * jnp.max(jnp.abs(values))


def within(theta: Theta, low: float, high: float) -> Array:
    """Whether all of θ lies in a box. A NaN does not."""
    return jnp.all((theta >= low) & (theta <= high))


def inside(owner: Any, name: str, holds: Any, sentence: str) -> None:
    """Refuse a number outside its domain; traced ones are let through."""
    value = getattr(owner, name)
    if is_concrete(value) and not np.all(holds(np.asarray(value))):
        raise ConfigError(f"{type(owner).__name__}: {name} must {sentence}; got {np.asarray(value).tolist()}.")
