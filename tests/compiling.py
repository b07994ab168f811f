"""How programs of tests are compiled, where it matters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import conftest
import pytest
from jax._src import compiler


@contextmanager
def optimised() -> Iterator[None]:
    """Programs first met inside are compiled by LLVM with optimisation, which takes half as long again: for those that run for seconds.

    Their numbers differ from those of tests' other programs in last bits (see `conftest.QUICK`): no place for equalities of two programs.
    """
    options, level = compiler.get_compile_options, {} if conftest.SLOW else {"xla_backend_optimization_level": 1}

    def well(*args, env_options_overrides=None, **settings):
        return options(*args, env_options_overrides=level | (env_options_overrides or {}), **settings)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler, "get_compile_options", well)
        yield
