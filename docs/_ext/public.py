"""The public names of blts, one for each object, in the order in which modules are looked through."""

from __future__ import annotations

import importlib
import inspect
import pathlib
import re
from typing import Any

MODULES = (
    "blts",
    "blts.agents",
    "blts.batching",
    "blts.contexts",
    "blts.dynamics",
    "blts.envs",
    "blts.live",
    "blts.logged",
    "blts.models",
    "blts.planning",
    "blts.random",
    "blts.samplers",
    "blts.theory",
    "blts.client",
    "blts.openfeature",
)
"""Modules that users import from; that of a name found twice is the first."""
EXPORTED = re.compile(r"^from \.[\w.]* import (\w+) as \1$", re.MULTILINE)


def names_of(module: str) -> list[str]:
    """What a module exports: imports of the form `from .x import Name as Name`, `__all__`, and what it defines itself.

    Args:
        module: its full name.

    Returns:
        Names without an underscore in front, sorted; modules are left out.
    """
    loaded = importlib.import_module(module)
    file = pathlib.Path(str(loaded.__file__))
    source = file.with_suffix(".pyi") if module == "blts" else file
    listed = set(EXPORTED.findall(source.read_text(encoding="utf-8"))) | set(getattr(loaded, "__all__", ()))
    here = {name for name, value in vars(loaded).items() if callable(value) and getattr(value, "__module__", "") == module}
    named = (name for name in listed | here if not name.startswith("_"))
    return sorted(name for name in named if not inspect.ismodule(getattr(loaded, name)))


def names() -> dict[str, Any]:
    """Every public object by its full name, such as `blts.Thompson`; one that has several names is listed under the first.

    Returns:
        The objects.
    """
    found: dict[str, Any] = {}
    seen: set[int] = set()
    for module in MODULES:
        for name in names_of(module):
            value = getattr(importlib.import_module(module), name)
            if id(value) not in seen:
                seen.add(id(value))
                found[f"{module}.{name}"] = value
    return found


def origins() -> dict[str, str]:
    """The public name of every object, by where it is defined: `blts.agents.thompson.Thompson` is `blts.Thompson`.

    Returns:
        Public names.
    """
    return {
        f"{value.__module__}.{value.__qualname__}": name for name, value in names().items() if getattr(value, "__qualname__", None)
    }
