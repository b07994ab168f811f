"""The source files of this package as a digest, and whether this process runs what they say. Importing this loads no JAX."""

from __future__ import annotations

import functools
import hashlib
import os
import pathlib
import sys
import sysconfig
import types
from collections.abc import Callable
from importlib import metadata
from typing import Any

import blts

PACKAGE = pathlib.Path(__file__).resolve().parent
LIBRARIES = ("jax", "jaxlib", "numpy", "scipy", "numpyro", "blackjax")
STANDARD = (sysconfig.get_path("stdlib") + os.sep, "<frozen ")
"""Where Python's own functions are."""
TRUSTED = {"blts", "jaxtyping", *LIBRARIES, *sys.stdlib_module_names}
"""Where classes in the modules of this package come from."""
NOT_COMPUTING = {"cli", "service", "client", "openfeature", "answers", "report", "paper", "live", "drawing"}
"""Parts that no simulated number depends on."""
GENERATED = "<string>"
"""The file name of methods that `dataclass` and `NamedTuple` write."""
MARGIN = 2 * 10**9
"""Nanoseconds: clocks of file systems are coarse."""


def version_of(library: str) -> str:
    """The installed version of a library, or that it is not installed."""
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return "not installed"


def digest_of_sources(counts: Callable[[pathlib.Path], bool] = lambda place: True) -> Any:
    """A digest of the source and data files of this package.

    Args:
        counts: whether a file counts, by its place in the package.

    Returns:
        An open SHA-256 digest, to which more can be added.
    """
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*")):
        place = path.relative_to(PACKAGE)
        if path.suffix in {".py", ".csv", ".gz"} and counts(place):
            digest.update(str(place).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest


def changed_since(began: int) -> bool:
    """Whether a source file may have been changed after this time (nanoseconds since 1970), so that modules may hold older code."""
    about = (path.stat() for path in PACKAGE.rglob("*.py"))
    return any(max(each.st_mtime_ns, each.st_ctime_ns) > began - MARGIN for each in about)


def contents_of_modules() -> str | None:
    """What the loaded modules that compute hold, which a program may have changed since they were imported.

    Returns:
        The names of the functions in every module and class, and the numbers and texts in every module; None where a function
        comes from another package than this one and its libraries, or a module from a file that is no longer there.
    """
    lines = []
    for name, module in sorted(sys.modules.items()):
        if not name.startswith(f"{blts.__name__}.") or name.split(".")[1] in NOT_COMPUTING:
            continue
        if not pathlib.Path(module.__file__ or "").is_file():
            return None
        for key, value in vars(module).items():
            if key.startswith("__"):
                continue
            values = vars(value) if isinstance(value, type) and value.__module__ == name else {"": value}
            for inner, one in values.items():
                said = _said(one) if inner != "__doc__" else ""
                if said is None:
                    return None
                if said:
                    lines.append(f"{name} {key} {inner} {said}")
    return "\n".join(lines)


def _said(value: Any) -> str | None:
    """A function by its name, a number or text as it is, nothing of other objects; None of a function or class from elsewhere."""
    value = getattr(value, "__func__", getattr(value, "fget", value))
    if isinstance(value, type):
        return f"{value.__module__} {value.__qualname__}" if value.__module__.split(".")[0] in TRUSTED else None
    if _is_plain(value):
        return repr(value)
    names = []
    while value is not None:  # what is decorated, and what by
        if isinstance(value, types.FunctionType):
            if not _is_trusted(value):
                return None
            names.append(f"{value.__module__} {value.__qualname__} {value.__code__.co_firstlineno}")
        value = getattr(value, "__wrapped__", None)
    return " ".join(names)


def _is_trusted(function: types.FunctionType) -> bool:
    """Whether the code of a function is in a file of this package, of its libraries or of Python, or was made by `dataclass`."""
    file = function.__code__.co_filename
    if file == GENERATED:
        name = function.__code__.co_name
        return not hasattr(function, "__wrapped__") and (name.startswith("__") or function.__module__.startswith("namedtuple_"))
    return file.startswith(_folders()) or (file.startswith(STANDARD) and "site-packages" not in file)


@functools.cache
def _folders() -> tuple[str, ...]:
    libraries = (sys.modules[library].__path__[0] for library in LIBRARIES if library in sys.modules)
    return tuple(f"{folder}{os.sep}" for folder in (PACKAGE, *libraries))


def _is_plain(value: Any) -> bool:
    return isinstance(value, int | float | str) or (isinstance(value, tuple) and all(map(_is_plain, value)))
