"""The registry of names: environments, agents, batching schemes, models, samplers, published methods and tasks of studies.

Importing this module is cheap: the first look-up imports the modules that register the package's own parts (`catalogue`,
`problems`, `studies/tasks`). Parts of other packages (`plugins`) are imported when they are first looked up.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, NamedTuple, TypeVar

from . import plugins
from .declared import missing, why_lost
from .errors import BltsError, ConfigError, UnknownName, did_you_mean, type_and_message

F = TypeVar("F", bound=Callable[..., Any])


class Entry(NamedTuple):
    """A registered part."""

    kind: str
    """The kind: "agent", "batching", "environment", "model", "sampler", "stopping rule", "method" or "task"."""
    name: str
    summary: str
    """One sentence for `blts list`."""
    builder: Callable[..., Any]
    """A class, or a function that builds the part."""
    about: dict[str, Any]
    """Metadata: the `worlds` (kinds of environment) an agent can play, its default `batching`, whether it has a `prior`."""
    package: str
    """The installed package that it comes from; empty for what a program or a study's file registered itself."""

    def options(self) -> dict[str, Any]:
        """The options that `--set name=value` can change.

        Returns:
            Their names and defaults; None for what a model must be given.
        """
        given = FROM_SETTING if isinstance(self.builder, type) and self.kind in ("agent", "batching") else ()
        options = _defaults(self.builder, required=self.kind == "model")
        return {name: value for name, value in options.items() if name not in given}

    def build(self, *context: Any, **options: Any) -> Any:
        """Build the part, with some of its options changed.

        Args:
            context: for agents and batching schemes, the `Setting`. A function is called with it. A class gets those of its
                fields that are in `FROM_SETTING` from the setting's attributes.
            options: those to change; options of an environment are numbers.

        Returns:
            The part.

        Raises:
            ConfigError: an option is invalid, or a part of another package cannot be built.
        """
        if self.kind == "environment":
            defaults = self.options()
            for name, value in options.items():
                _check_number(name, value, defaults.get(name))
        if self.package in ("", OWN):
            return self._built(*context, **options)
        try:
            built = self._built(*context, **options)
        except BltsError:
            raise
        except Exception as error:  # whatever another package does
            raise ConfigError(f"{self} cannot be built ({type_and_message(error)}).") from error
        base, name = _BUILDS.get(self.kind, object), type(built).__name__
        if not isinstance(built, base):
            raise ConfigError(f"{self} builds a {name}; it must build an object of blts.{base.__name__} or of a subclass.")
        if lacking := missing(built, base):
            why = why_lost(built, lacking[0])
            lacks = f"{why.rstrip('.')}" if why else f"it does not define {', '.join(lacking)}: see help(blts.{base.__name__})"
            raise ConfigError(f"{self} builds a {name} that cannot be used: {lacks}.")
        return built

    def _built(self, *context: Any, **options: Any) -> Any:
        if not (context and isinstance(self.builder, type)):
            return self.builder(*context, **options)
        fields = inspect.signature(self.builder).parameters
        return self.builder(**{name: getattr(context[0], name) for name in FROM_SETTING if name in fields}, **options)

    def __str__(self) -> str:
        return f"The {self.kind} {self.name!r}" + ("" if self.package in ("", OWN) else f" of the package {self.package}")


FROM_SETTING = ("model", "actions", "arms", "horizon", "states", "shared", "features")
"""Fields that agents and batching schemes get from the `Setting`; they are not options. `arms` are the actions."""
OWN = "blts"
_BUILDS: dict[str, type] = {}
"""What entries of a kind must build; see `builds`."""


def builds(kind: str, base: type) -> None:
    """Say what entries of a kind must build, which is checked for those of other packages.

    Args:
        kind: of the entries.
        base: the class that what they build must inherit from.
    """
    _BUILDS[kind] = base


@functools.cache
def _defaults(builder: Callable[..., Any], required: bool) -> dict[str, Any]:
    """The arguments of a builder with their defaults; with `required` also those without one, as None."""
    if isinstance(builder, type) and builder.__init__ is object.__init__:
        return {}  # `inspect` would parse the signature of `object` as Python source, which threads must not (studies/store.py)
    none, several = inspect.Parameter.empty, (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    named = [p for p in inspect.signature(builder).parameters.values() if p.kind not in several]
    return {p.name: None if p.default is none else p.default for p in named if required or p.default is not none}


def _check_number(name: str, value: Any, default: Any) -> None:
    kind, words = (Integral, "a whole number") if isinstance(default, Integral) else (Real, "a number")
    if not isinstance(value, kind) or isinstance(value, bool) or value != value:
        raise ConfigError(f"{name} must be {words}; got {value!r}.")


_ENTRIES: dict[str, dict[str, Entry]] = {}


def register(kind: str, name: str, summary: str = "", **about: Any) -> Callable[[F], F]:
    """Register a class or a function that builds a part, under a name.

    Args:
        kind: "agent", "batching", "environment", "model", "sampler", "stopping rule", "method" or "task".
        name: what `blts simulate`, studies and live experiments call it.
        summary: a sentence for `blts list`; by default the first line of the docstring.
        about: metadata: `worlds`, `batching` and `prior` of an agent, `mdp` of an environment, `contextual` of a model.

    Returns:
        A decorator that leaves the class or function as it is.

    Raises:
        ConfigError: a part of blts itself has that name.

    >>> from blts import register
    >>> named = register("agent", "wide-ucb1", "UCB1 with a wider bonus.")
    >>> callable(named)  # @named above a class or a function gives it that name
    True
    """

    def add(build: F) -> F:
        package = OWN if f"{build.__module__}.".startswith(f"{OWN}.") else ""
        taken = _ENTRIES.get(kind, {}).get(name)
        if taken is not None and taken.package == OWN != package:
            raise ConfigError(f"The {kind} {name!r} is one of blts itself; register yours under another name.")
        _add(kind, name, build, package, summary, about)
        return build

    return add


def _add(
    kind: str, name: str, build: Callable[..., Any], package: str, summary: str = "", about: dict[str, Any] | None = None
) -> Entry:
    words = summary or (inspect.getdoc(build) or "").split("\n")[0]
    entry = Entry(kind, name, words, build, about or {}, package)
    _ENTRIES.setdefault(kind, {})[name] = entry
    return entry


def _registered(kind: str) -> dict[str, Entry]:
    from . import catalogue as catalogue  # fill the registry on first use

    if kind == "task":
        from .studies import tasks as tasks
    return _ENTRIES[kind]


def _from_plugin(kind: str, name: str) -> Entry:
    """Import a part of another package and register it, with the metadata of its own `register` call if there is one."""
    plugin = plugins.chosen(kind, name)
    loaded = plugin.load()
    own = _ENTRIES[kind].get(name)
    summary, about = (own.summary, own.about) if own is not None and own.builder is loaded else ("", {})
    return _add(kind, name, loaded, plugin.package, summary, about)


def _from_path(kind: str, path: str) -> Entry:
    """An entry of what an import path names: a class, or a part as it is, which has no options."""
    found = plugins.imported(kind, path, _BUILDS[kind])
    builder = found if isinstance(found, type) else lambda *context: found
    return Entry(kind, path, "", builder, {}, plugins.top_module(path))


def entries(kind: str) -> dict[str, Entry]:
    """All usable parts of a kind.

    Args:
        kind: as in `register`.

    Returns:
        The entries by name, those of other packages last. `unusable_parts` explains what is left out.
    """
    for name in plugins.offered(kind).keys() - _registered(kind).keys():
        with contextlib.suppress(ConfigError):
            _from_plugin(kind, name)
    return dict(
        sorted(_ENTRIES[kind].items(), key=lambda item: (item[1].package != OWN, "" if item[1].package == OWN else item[0]))
    )


def unusable_parts() -> list[str]:
    """Why parts of other installed packages cannot be used.

    Returns:
        A sentence for each.
    """
    found = []
    for kind in plugins.GROUPS:
        for name, offers in plugins.offered(kind).items():
            if (own := _registered(kind).get(name)) is not None and own.package == OWN:
                why = "because blts has a part of that name; rename it in the package, or uninstall it"
                found += [f"{plugin} is left out, {why}." for plugin in offers]
                continue
            try:
                find(kind, name)
            except ConfigError as error:
                found.append(str(error))
    return found


def find(kind: str, name: str) -> Entry:
    """Look up a name.

    Args:
        kind: as in `register`.
        name: the name, or an import path such as `my_models:Skewed`.

    Returns:
        Its entry.

    Raises:
        ConfigError: it is a part of another package or module that cannot be imported.
        UnknownName: there is none; the message has the closest name.
    """
    known = _registered(kind)
    offers = plugins.offered(kind)
    if not isinstance(name, str):
        raise ConfigError(
            f"The {kind} must be a name, one of {', '.join([*known, *(offers.keys() - known.keys())])}; got {name!r}."
        )
    if name in known:
        return known[name]
    if name in offers:
        return _from_plugin(kind, name)
    if ":" in name and kind in plugins.GROUPS:
        return _from_path(kind, name)
    raise UnknownName(kind, name, {*known, *offers})


def build(kind: str, name: str, *context: Any, **options: Any) -> Any:
    """Build a registered part.

    Args:
        kind: as in `register`.
        name: the name.
        context: for agents and batching schemes, the `Setting`.
        options: options to change.

    Returns:
        The part.

    Raises:
        UnknownName: nothing has that name.
        ConfigError: there is no such option, or the part cannot be built.

    >>> from blts.registry import build
    >>> build("model", "gaussian", sd=0.5)
    Gaussian(prior_mean=0, prior_sd=1, sd=0.5)
    """
    entry = find(kind, name)
    known = entry.options()
    for option in options:
        if option not in known:
            have = ", ".join(known) or "none"
            raise ConfigError(f"The {kind} {name!r} has no option {option!r}.{did_you_mean(option, known)} Its options: {have}.")
    return entry.build(*context, **options)


def text_to_value(text: str) -> Any:
    """Parse the value of `--set`.

    Args:
        text: as typed.

    Returns:
        An int, a float, True, False or None where it reads as one; otherwise the text.

    >>> from blts.registry import text_to_value
    >>> [text_to_value(text) for text in ("3", "0.5", "true", "prior")]
    [3, 0.5, True, 'prior']
    """
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
