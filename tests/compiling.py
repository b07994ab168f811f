"""How programs of tests are compiled, where it matters."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from jax._src import compiler


@contextmanager
def optimised() -> Iterator[None]:
    """Programs first met inside are compiled by LLVM with optimisation, for half as long again: those that run for seconds.

    Last bits are not those of tests' other programs (see `QUICK` in tests/conftest.py): no place for equalities of two programs.
    """
    options: Any = compiler.get_compile_options
    slow = "BLTS_SLOW" in os.environ  # then all is compiled as in a user's process
    level = {} if slow else {"xla_backend_optimization_level": 1}

    def well(*args, env_options_overrides=None, **settings):
        return options(*args, env_options_overrides=level | (env_options_overrides or {}), **settings)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler, "get_compile_options", well)
        yield
