"""Errors of JAX in methods of somebody's own part, in sentences."""

from __future__ import annotations

import dataclasses
import traceback
from types import FrameType
from typing import Any

import jax

from ._module import Contract

BRANCHES = (
    "is traced by JAX, so it cannot branch on its arguments or make Python numbers of them; use jnp.where in place of if, and "
    "jax.numpy in place of math and lists."
)
UNTRACEABLE = (
    (jax.errors.TracerArrayConversionError, "is traced by JAX and must not call NumPy; use jax.numpy in its place."),
    ((jax.errors.ConcretizationTypeError, jax.errors.TracerIntegerConversionError), BRANCHES),
    (
        dataclasses.FrozenInstanceError,
        "must not set attributes, for parts are frozen; what changes between calls belongs into the state that it returns.",
    ),
)


def untraceable(error: Exception) -> str | None:
    """The sentence for what JAX cannot trace in a method of somebody's own part.

    Args:
        error: what was raised.

    Returns:
        The sentence; None where the error is another, or ours.
    """
    branches = isinstance(error, ValueError) and "truth value of an array" in str(error)  # JAX's own for arrays of several numbers
    why = BRANCHES if branches else next((words for kinds, words in UNTRACEABLE if isinstance(error, kinds)), None)
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__) if frame.f_code.co_name != "__setattr__")
    own = [f for f in frames if isinstance(_first(f), Contract) and not f.f_globals["__name__"].startswith("blts.")]
    return f"{type(_first(own[-1])).__name__}.{own[-1].f_code.co_name} {why}" if why and own else None


def _first(frame: FrameType) -> Any:
    """The first argument of the function that a frame runs, whatever its name: the object, in a method."""
    return frame.f_locals.get(frame.f_code.co_varnames[0]) if frame.f_code.co_argcount else None
