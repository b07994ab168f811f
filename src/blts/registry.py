"""Where names become objects: environments, agents, batching schemes, published methods and tasks of studies.

Importing this module is cheap; the first look-up imports what registers everything.
"""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, NamedTuple, TypeVar

from .errors import ConfigError, UnknownName

F = TypeVar("F", bound=Callable[..., Any])


class Entry(NamedTuple):
    kind: str
    name: str
    summary: str
    builder: Callable[..., Any]
    about: dict[str, Any]
    """What is known of it besides: an agent's worlds, its usual batching, whether it has a prior."""

    def options(self) -> dict[str, Any]:
        """Options that `--set name=value` can change, with their defaults."""
        return dict(_defaults(self.builder))

    def build(self, *context: Any, **options: Any) -> Any:
        """What is registered, with some of its options changed. Those of an environment are numbers like their defaults."""
        if self.kind == "environment":
            defaults = self.options()
            for name, value in options.items():
                _check_number(name, value, defaults.get(name))
        return self.builder(*context, **options)


@functools.cache
def _defaults(builder: Callable[..., Any]) -> dict[str, Any]:
    if isinstance(builder, type) and builder.__init__ is object.__init__:
        return {}  # `inspect` would parse the signature of `object` as Python source, which threads must not (studies/store.py)
    parameters = inspect.signature(builder).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty}


def _check_number(name: str, value: Any, default: Any) -> None:
    kind, words = (Integral, "a whole number") if isinstance(default, Integral) else (Real, "a number")
    if not isinstance(value, kind) or isinstance(value, bool) or value != value:
        raise ConfigError(f"{name} must be {words}; got {value!r}.")


_ENTRIES: dict[str, dict[str, Entry]] = {}


def register(kind: str, name: str, **about: Any) -> Callable[[F], F]:
    """Register a builder under a name; the first line of its docstring is its summary."""

    def add(build: F) -> F:
        summary = (inspect.getdoc(build) or "").split("\n")[0]
        _ENTRIES.setdefault(kind, {})[name] = Entry(kind, name, summary, build, about)
        return build

    return add


def entries(kind: str) -> dict[str, Entry]:
    from . import catalogue as catalogue  # fill the registry on first use
    from .studies import tasks as tasks

    return _ENTRIES[kind]


def find(kind: str, name: str) -> Entry:
    known = entries(kind)
    if not isinstance(name, str):
        raise ConfigError(f"The {kind} must be a name, one of {', '.join(known)}; got {name!r}.")
    if name not in known:
        raise UnknownName(kind, name, known)
    return known[name]


def build(kind: str, name: str, *context: Any, **options: Any) -> Any:
    """The object registered under a name, built in a context and with some of its options changed."""
    entry = find(kind, name)
    known = entry.options()
    for option in options:
        if option not in known:
            near = difflib.get_close_matches(option, known, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            have = ", ".join(known) or "none"
            raise ConfigError(f"The {kind} {name!r} has no option {option!r}.{hint} Its options: {have}.")
    return entry.build(*context, **options)


def text_to_value(text: str) -> Any:
    """`--set` values: whole numbers, numbers, true/false/none, otherwise text."""
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
