"""The leaping engine: simulate whole batches at once, for Thompson sampling with closed-form posteriors.

The cost grows with the number of batches and recorded rounds, not with the horizon.
"""

from __future__ import annotations

from typing import Any

import jax

from ..record import Record
from . import engine
from .choice import choose as choose
from .choice import obstacle as obstacle

_program = jax.jit(engine.run, static_argnames=("capacity", "replications", "keep_actions"))


def run(*arguments: Any, **settings: Any) -> Record:
    """`engine.run`, compiled, in double precision: after 10⁹ plays a posterior is only a few float32 roundings wide.

    Args:
        arguments: as in `engine.run`.
        settings: as in `engine.run`.

    Returns:
        The record of all replications.
    """
    with jax.enable_x64(True):
        return _program(*arguments, **settings)
