"""Whole batches at a time: a horizon T costs as much as its batches, for Thompson sampling with closed posteriors."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import jax

from ..loop import Record
from . import engine
from .choice import choose as choose
from .choice import obstacle as obstacle

# XLA's newer emitters take twice as long to compile these loops, and what they make runs no faster.
_OPTIONS: Any = {"xla_cpu_use_fusion_emitters": False} if version("jaxlib").startswith("0.10.") else None
_program = jax.jit(engine.run, static_argnames=("horizon", "replications", "keep_actions"), compiler_options=_OPTIONS)


def run(*arguments: Any, **settings: Any) -> Record:
    """`engine.run`, compiled, in double precision: after 10⁹ plays a posterior is a few float32 roundings wide."""
    with jax.enable_x64(True):
        return _program(*arguments, **settings)
