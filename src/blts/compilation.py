"""How JAX compiles and runs programs in a process of our own. Call `prepare` before JAX is imported."""

from __future__ import annotations

import os
import pathlib


def prepare() -> None:
    """Keep compiled programs between runs, and run each in the thread that calls it, where JAX is not told otherwise.

    `simulate` spreads replications over threads itself. XLA would hand the kernels of a round, which take microseconds, to
    a pool of threads and wait for them, which takes longer.
    """
    home = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(home / "blts" / "xla"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.5")
    os.environ.setdefault("NPROC", "1")  # the size of XLA's pool
    os.environ.setdefault("JAX_CPU_ENABLE_ASYNC_DISPATCH", "false")  # or the pool's only thread would run all calls
