"""Batched Langevin Thompson Sampling.

Names are loaded when they are first used, so that `import blts` and `blts --help` do not wait for JAX. `__init__.pyi` lists them.
"""

import importlib
import importlib.util
import pathlib
import re
import time
from typing import Any

__version__ = "0.1.0"
_IMPORTED = time.time_ns()
"""When this process began to load the package: source files that are changed later are not what it runs."""

_IMPORTS = re.findall(r"^from \.(\w*) import (\w+) as", pathlib.Path(__file__).with_suffix(".pyi").read_text("utf-8"), re.MULTILINE)
_HOME = {name: module for module, name in _IMPORTS}
"""The module of each public name; of a module itself, the empty text."""
_ABSENT = () if importlib.util.find_spec("sqlalchemy") else ("live",)
"""Modules whose library is not installed: `from blts import *` leaves them out, `blts.live` says what to install."""
__all__ = [name for name in sorted(_HOME) if name not in _ABSENT]  # type: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'blts' has no attribute {name!r}")
    if not _HOME[name]:
        return importlib.import_module(f".{name}", __name__)
    return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)


def __dir__() -> list[str]:
    return [*_HOME, "__version__"]
