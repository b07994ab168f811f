"""Parts of other packages and modules, imported when they are first used.

An installed package declares its parts as entry points in its `pyproject.toml`, in one of the groups below:

    [project.entry-points."blts.agents"]
    runner-up = "blts_example_parts.agent:RunnerUp"

What is not declared has its import path as its name, such as `my_models:Skewed` for a class in my_models.py.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import operator
import os
import re
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from .errors import ConfigError, type_and_message

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUPS = {
    "agent": "blts.agents",
    "batching": "blts.batching",
    "environment": "blts.environments",
    "model": "blts.models",
    "sampler": "blts.samplers",
}
"""The entry-point group of each kind of part."""


class Plugin(NamedTuple):
    """A part that an installed package offers under a name."""

    kind: str
    name: str
    package: str
    point: EntryPoint

    def __str__(self) -> str:
        return f"The {self.kind} {self.name!r} of the package {self.package}"

    def load(self) -> Any:
        """Import what the entry point names.

        Returns:
            A class, or a function that builds the part.

        Raises:
            ConfigError: it cannot be imported, or is neither of these.
        """
        try:
            loaded = self.point.load()
        except KeyboardInterrupt:  # by whoever waits
            raise
        except BaseException as error:  # whatever another package does, sys.exit() too
            raise ConfigError(
                f"{self} cannot be imported from {self.point.value!r} ({type_and_message(error)}); "
                f"mend, update or uninstall {self.package}."
            ) from None
        if not callable(loaded):
            raise ConfigError(
                f"{self} is the {type(loaded).__name__} {self.point.value!r}; its entry point must name a class, or a function "
                "that builds one of its objects."
            )
        return loaded


def offered(kind: str) -> dict[str, tuple[Plugin, ...]]:
    """The parts that installed packages offer; nothing is imported.

    Args:
        kind: as in `GROUPS`.

    Returns:
        The parts by name; several where packages use the same name.
    """
    return all_offered().get(kind, {})


@functools.cache
def all_offered() -> dict[str, dict[str, tuple[Plugin, ...]]]:
    """The parts that installed packages offer, by kind; all entry points are read once."""
    from importlib.metadata import entry_points

    installed, every = entry_points(), {}
    for kind, group in GROUPS.items():
        found = {
            (point.name, package): Plugin(kind, point.name, package, point)
            for point in installed.select(group=group)
            if (package := point.dist.name if point.dist else point.module.split(".")[0])
        }
        names = sorted({name for name, _ in found})
        every[kind] = {name: tuple(found[key] for key in sorted(found) if key[0] == name) for name in names}
    return every


def chosen(kind: str, name: str) -> Plugin:
    """The part that is offered under a name.

    Args:
        kind: as in `GROUPS`.
        name: a name in `offered(kind)`.

    Returns:
        The part.

    Raises:
        ConfigError: several packages offer one.
    """
    first, *others = offered(kind)[name]
    if others:
        packages = " and ".join(plugin.package for plugin in (first, *others))
        raise ConfigError(f"The packages {packages} all have the {kind} {name!r}, so none is used; uninstall all but one.")
    return first


def look_here() -> None:
    """Let modules in the current folder be imported, after all others."""
    with contextlib.suppress(OSError):  # it was removed
        if (here := os.getcwd()) not in sys.path:
            sys.path.append(here)


def top_module(path: str) -> str:
    """The top package or module that an import path begins with; empty for another name of a part."""
    return path.split(":")[0].split(".")[0] if ":" in path else ""


def imported(kind: str, path: str, base: type) -> Any:
    """What an import path names; modules are also looked for in the current folder, as `python -m` does.

    Names of parts are stored in databases, so whoever can write to a database chooses what is imported by those who open it. Only
    classes and objects of parts are taken, never functions, but importing a module runs it.

    Args:
        kind: as in `GROUPS`.
        path: a module and a name in it, with a colon between them.
        base: what the parts of this kind inherit from.

    Returns:
        A class of parts, or a part.

    Raises:
        ConfigError: it cannot be imported, or is neither of these.
    """
    if not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", path):
        raise ConfigError(f"The {kind} {path!r} is no import path; write it as module:Name.")
    module, name = path.split(":")
    look_here()
    try:
        found = operator.attrgetter(name)(importlib.import_module(module))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever the module does, sys.exit() too
        why = f"({type_and_message(error)}); it is looked for in the current folder and among installed packages"
        raise ConfigError(f"The {kind} {path!r} cannot be imported {why}.") from None
    if not (isinstance(found, base) or (isinstance(found, type) and issubclass(found, base))):
        raise ConfigError(f"The {kind} {path!r} is no class and no object of blts.{base.__name__}; name one of these.")
    return found
