"""Where compiled programs are kept. Call it before JAX is imported."""

from __future__ import annotations

import os
import pathlib


def keep_programs() -> None:
    """Keep compiled programs between runs, where JAX is not told another place."""
    home = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(home / "blts" / "xla"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.5")
