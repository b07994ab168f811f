"""The errors that blts raises. Each message is a sentence that tells the user what to do."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable
from numbers import Integral
from typing import Any

FRAMES = 'pip install "blts[frames]"'
"""Installs what data frames and data sets need."""


class BltsError(Exception):
    """Base class of all errors of blts; the command line prints the message without a traceback.

    >>> from blts import BltsError, UCB1
    >>> try:
    ...     UCB1(0)
    ... except BltsError as error:
    ...     print(error)
    UCB1: actions must be a whole number ≥ 1; got 0.
    """


class ConfigError(BltsError, ValueError):
    """An invalid argument or configuration.

    >>> from blts import ConfigError, Gaussian
    >>> try:
    ...     Gaussian(sd=-1.0)
    ... except ConfigError as error:
    ...     print(error)
    Gaussian: sd must be > 0 and finite; got -1.
    """


def shown(value: Any, longest: int = 200) -> str:
    """A value for a sentence, whatever it is.

    Args:
        value: what was given; a very long number, or an object of one's own, may have no `repr`.
        longest: characters after which it is cut.

    Returns:
        Its `repr`, or its type.
    """
    try:
        text = repr(value)
    except Exception:
        return f"an object of type {type(value).__name__}"
    return text if len(text) <= longest else text[:longest] + "…"


def require_object(where: str, value: Any, members: Iterable[str], example: str, names: str = "") -> None:
    """Raise an error if an argument is a name, a class or an object without some members.

    Args:
        where: the argument, as the subject of the sentence.
        value: what was given.
        members: attributes and methods that it must have.
        example: an expression for a valid object.
        names: advice for a user who gave a name, if there is any.

    Raises:
        ConfigError: what is wrong with it, and what to write.
    """
    if isinstance(value, str):
        raise ConfigError(f"{where} must be an object such as {example}; got the text {value!r}{names}.")
    if isinstance(value, type):
        raise ConfigError(f"{where} is the class {value.__name__}; give an object of it, such as {value.__name__}(…).")
    missing = [name for name in members if not hasattr(value, name)]
    if missing:
        name = getattr(value, "__name__", None) if callable(value) else None
        got = f"the function {name} is not called, and" if name else f"an object of type {type(value).__name__}"
        raise ConfigError(f"{where} must be an object such as {example}; {got} has no {', '.join(missing)}.")


def whole(name: str, value: Any, least: int = 1, most: int | None = None) -> int:
    """Check that an argument is an integer within limits.

    Args:
        name: the argument, as the subject of the sentence.
        value: what was given; True and False are refused.
        least: the smallest allowed value.
        most: the largest allowed value, if there is one.

    Returns:
        The number as an `int`.

    Raises:
        ConfigError: it is not an integer, or outside the limits.
    """
    number = int(value) if isinstance(value, Integral) and not isinstance(value, bool) else None
    if number is not None and number >= least and (most is None or number <= most):
        return number
    limits = f"≥ {least}" if most is None else f"from {least} to {most}"
    raise ConfigError(f"{name} must be a whole number {limits}; got {shown(value)}.")


def type_and_message(error: BaseException) -> str:
    """An error of other code, for a sentence.

    Args:
        error: the error.

    Returns:
        Its type and message, without the full stop; the type alone where `str(error)` fails.
    """
    try:
        return f"{type(error).__name__}: {str(error).rstrip('.')}"
    except Exception:
        return type(error).__name__


def counted(n: int, noun: str) -> str:
    """A number with its noun.

    >>> from blts.errors import counted
    >>> counted(1, "arm"), counted(3, "arm")
    ('1 arm', '3 arms')
    """
    return f"{n} {noun}{'' if n == 1 else 's'}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint for a misspelt name.

    Args:
        name: the unknown name.
        known: the known names.

    Returns:
        A question with the closest known name, to append to a sentence; empty if none is close.
    """
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6) if isinstance(name, str) and len(name) < 1000 else []
    return f" Did you mean {near[0]!r}?" if near else ""


class UnknownName(BltsError, LookupError):
    """A name that is not registered; the message has the closest one."""

    def __init__(self, kind: str, name: str, known: Iterable[str]):
        self.kind, self.name = kind, name
        known = sorted(one for one in known if isinstance(one, str))  # a damaged database may have anything
        others = f" Known: {', '.join(known)}." if known else ""
        super().__init__(f"There is no {kind} named {shown(name)}.{did_you_mean(name, known)}{others}")


class Conflict(ConfigError):
    """A request that contradicts what was said or done before."""


class Stale(ConfigError):
    """A request that was made for something which has changed meanwhile."""


class Lost(BltsError, AttributeError):
    """A method that a subclass has lost by overriding another method that it rests on; see `declared`."""


class StoreError(BltsError):
    """A database or folder that cannot be read or written, or that was written by an incompatible version."""


class MemoryNeeded(BltsError, MemoryError):
    """A run that would not fit in memory, found before it starts."""


def needs(library: str, what: str, install: str) -> Any:
    """A library that not everybody has installed.

    Args:
        library: its name.
        what: needs it.
        install: how to install it.

    Returns:
        The module.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        return importlib.import_module(library)
    except ImportError:
        raise ConfigError(f"{what} needs {library}; install it with: {install}.") from None
