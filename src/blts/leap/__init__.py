"""Whole batches at a time: a horizon T costs as much as its batches, for Thompson sampling with closed posteriors."""

from __future__ import annotations

from typing import Any

import jax

from ..loop import Record
from . import engine
from .choice import choose as choose
from .choice import obstacle as obstacle

_program = jax.jit(engine.run, static_argnames=("capacity", "replications", "keep_actions"))


def run(*arguments: Any, **settings: Any) -> Record:
    """`engine.run`, compiled, in double precision: after 10⁹ plays a posterior is a few float32 roundings wide."""
    with jax.enable_x64(True):
        return _program(*arguments, **settings)
