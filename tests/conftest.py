"""Settings of the test run, made before anything imports JAX."""

from __future__ import annotations

import os
import pathlib
from importlib.metadata import version

# Compiled programs are kept between runs; a second run of the tests spends its time on the tests.
_CACHE = pathlib.Path(__file__).resolve().parent.parent / ".pytest_cache" / "xla"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(_CACHE))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.3")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("NPROC", "1")  # as `compilation.prepare` does
os.environ.setdefault("JAX_CPU_ENABLE_ASYNC_DISPATCH", "false")

# Most of the time goes into compiling, and without XLA's newer emitters that takes a third less. `make slow` runs with them.
if os.environ.get("BLTS_SLOW") is None and version("jaxlib").startswith("0.10."):
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_use_fusion_emitters=false"
