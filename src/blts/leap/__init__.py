"""The leaping engine: simulate whole batches at once, for Thompson sampling with closed-form posteriors.

The cost grows with the number of batches and recorded rounds, not with the horizon.
"""

from __future__ import annotations

import functools
from typing import Any

import jax

from ..record import Record
from . import engine as engine
from .choice import choose as choose
from .choice import obstacle as obstacle

PRECISE = functools.partial(jax.enable_x64, True)
"""A context of double precision: after 10⁹ plays a posterior is only a few float32 roundings wide."""
_program = jax.jit(engine.run, static_argnames=("capacity", "replications", "keep_actions"))


def run(*arguments: Any, **settings: Any) -> Record:
    """`engine.run`, compiled, in double precision.

    Args:
        arguments: as in `engine.run`.
        settings: as in `engine.run`.

    Returns:
        The record of all replications.
    """
    with PRECISE():
        return _program(*arguments, **settings)
