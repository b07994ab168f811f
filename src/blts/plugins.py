"""Parts of other installed packages: Python entry points, imported when they are first used.

A package declares its parts in its `pyproject.toml`, in one of the groups below:

    [project.entry-points."blts.agents"]
    top-two = "blts_example_parts.agent:TopTwo"
"""

from __future__ import annotations

import functools
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


@functools.cache
def offered(kind: str) -> dict[str, tuple[Plugin, ...]]:
    """The parts that installed packages offer; nothing is imported.

    Args:
        kind: as in `GROUPS`.

    Returns:
        The parts by name; several where packages use the same name.
    """
    if kind not in GROUPS:
        return {}
    from importlib.metadata import entry_points

    found = {
        (point.name, package): Plugin(kind, point.name, package, point)
        for point in entry_points(group=GROUPS[kind])
        if (package := point.dist.name if point.dist else point.module.split(".")[0])
    }
    names = sorted({name for name, _ in found})
    return {name: tuple(found[key] for key in sorted(found) if key[0] == name) for name in names}


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
