"""Errors of JAX in methods of somebody's own part, in sentences."""

from __future__ import annotations

import dataclasses
import traceback

import jax

from ._module import Contract

UNTRACEABLE = (
    (jax.errors.TracerArrayConversionError, "is traced by JAX and must not call NumPy; use jax.numpy in its place."),
    (
        (jax.errors.ConcretizationTypeError, jax.errors.TracerIntegerConversionError),
        "is traced by JAX, so it cannot branch on its arguments or make Python numbers of them; use jnp.where in place of if, and "
        "jax.numpy in place of math and lists.",
    ),
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
    why = next((words for kinds, words in UNTRACEABLE if isinstance(error, kinds)), None)
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__) if frame.f_code.co_name != "__setattr__")
    own = [f for f in frames if isinstance(f.f_locals.get("self"), Contract) and not f.f_globals["__name__"].startswith("blts.")]
    return f"{type(own[-1].f_locals['self']).__name__}.{own[-1].f_code.co_name} {why}" if why and own else None
