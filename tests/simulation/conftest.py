"""The folder of traced programs, empty for each test."""

from __future__ import annotations

import jax
import pytest

import blts
from blts.compilation import keep_programs
from keeping import forget


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """The private folder, as of a user who told JAX nothing."""
    before = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(blts, "_IMPORTED", 2**63)  # sources that are edited while the tests run
    jax.config.update("jax_compilation_cache_dir", None)
    keep_programs.cache_clear()
    yield keep_programs()
    jax.config.update("jax_compilation_cache_dir", before)
    keep_programs.cache_clear()


@pytest.fixture(autouse=True)
def _forget():
    forget()
    yield
    forget()
