"""What a class declares about its methods, and loses where a subclass overrides what the declaration rests on.

Engines, live experiments and reports take shortcuts: whole batches drawn at once, an exact posterior, closed propensities. Each
is made true by some methods of a class, and false as soon as a subclass changes one of them. So the class says which:

    class Gaussian:
        def log_likelihood(self, theta, row): ...

        @rests_on("log_prior", "log_likelihood")
        def draw(self, key, summary): ...

For a subclass that overrides `log_likelihood` and not `draw`, `draw` is gone: `hasattr` is False and a call raises `Lost` with
the reason. A subclass that overrides both has a `draw` of its own, from which `super().draw` can still be called; it rests on the
same methods, so a further subclass that overrides `log_likelihood` loses it again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Protocol, TypeVar

from .errors import Lost

F = TypeVar("F")


class _Declared:
    """A class attribute that holds as long as no more derived class overrides what it rests on."""

    def __init__(self, value: Any, rests: tuple[str, ...]):
        self.value, self.rests = value, rests
        self.name, self.owner = "", object
        self.__doc__ = value.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.owner, self.name = owner, name


class _Method(_Declared):
    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self.value
        why = reason(type(instance), self.name)
        # What another class defines again is called through super(), and that class answers for it.
        if why is not None and _definers(type(instance), self.name)[0] is self.owner:
            raise Lost(why)
        return self.value.__get__(instance, owner)


class _Fact(_Declared):
    def __get__(self, instance: Any, owner: type | None = None) -> bool:
        return reason(type(instance) if instance is not None else owner or self.owner, self.name) is None


class _Gone:
    """What stands in a class for a name that it has lost, where a plain override further up does not know it."""

    def __init__(self, why: str, is_fact: bool):
        self.why, self.is_fact = why, is_fact

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if self.is_fact:
            return False
        raise Lost(self.why)


def _definers(cls: type, name: str) -> list[type]:
    """The classes that define a name, the most derived first."""
    return [c for c in cls.__mro__ if name in vars(c) and not isinstance(vars(c)[name], _Gone)]


@cache
def reason(cls: type, name: str) -> str | None:
    """The sentence that says which override has taken a declared name from `cls`; None where it holds.

    A name holds where no class more derived than its own definer overrides what it rests on. Whoever defines it again takes over
    what it rests on.
    """
    definers = _definers(cls, name)
    declared = [vars(c)[name] for c in definers if isinstance(vars(c)[name], _Declared)]
    order = cls.__mro__.index
    for rested in dict.fromkeys(rested for one in declared for rested in one.rests):
        overriders = _definers(cls, rested)
        # A method that a base leaves to its subclasses is first defined, then overridden.
        if len(overriders) > 1 and order(overriders[0]) < order(definers[0]):
            by = overriders[0].__name__
            is_fact = isinstance(declared[0], _Fact)
            remedy = f"set {name} = True in {by} if it still holds" if is_fact else f"override {name} too"
            return f"{by} overrides {rested}, on which {definers[0].__name__}.{name} rests; {remedy}."
    return None


def mark_lost(cls: type) -> None:
    """Hide from a new class the plain overrides that rest on what it overrides: they were written for another method."""
    names = {name: item for c in cls.__mro__ for name, item in vars(c).items() if isinstance(item, _Declared)}
    for name, item in names.items():
        first = vars(_definers(cls, name)[0])[name]
        why = reason(cls, name)
        if why is not None and not isinstance(first, _Declared):
            setattr(cls, name, _Gone(why, isinstance(item, _Fact)))


def rests_on(*names: str) -> Callable[[F], F]:
    """A method or property that is right as long as no subclass overrides the methods named.

    >>> class Square:
    ...     def side(self):
    ...         return 2
    ...
    ...     @rests_on("side")
    ...     def area(self):
    ...         return 4
    >>> class Large(Square):
    ...     def side(self):
    ...         return 3
    >>> hasattr(Square(), "area"), hasattr(Large(), "area")
    (True, False)
    >>> why_lost(Large(), "area")
    'Large overrides side, on which Square.area rests; override area too.'
    """
    return lambda function: _Method(function, names)  # type: ignore[return-value]


def fact(*names: str) -> Any:
    """A class attribute that is True, and False for subclasses that override one of the methods named.

    >>> class Coin:
    ...     fair = fact("toss")
    ...
    ...     def toss(self, u):
    ...         return u < 0.5
    >>> class Bent(Coin):
    ...     def toss(self, u):
    ...         return u < 0.6
    >>> Coin().fair, Bent().fair
    (True, False)
    """
    return _Fact(None, names)


def why_lost(value: Any, name: str) -> str | None:
    """The sentence that says why `value` has lost a declared method or fact; None where it has it, or never had."""
    declared = any(isinstance(vars(c).get(name), _Declared) for c in type(value).__mro__)
    return reason(type(value), name) if declared else None


def methods_of(protocol: type) -> list[str]:
    """The public names that a protocol asks for, those of the protocols it extends included."""
    parts = [c for c in protocol.__mro__ if c not in (object, Protocol) and c.__module__ != "typing"]
    names = {name: None for c in reversed(parts) for name in (*vars(c).get("__annotations__", ()), *vars(c))}
    return [name for name in names if not name.startswith("_")]


def missing(value: Any, protocol: type) -> list[str]:
    """What `value` lacks of a protocol: methods it never had, and those it has lost.

    Unlike `isinstance` with a protocol, this sees what was lost.
    """
    return [name for name in methods_of(protocol) if not hasattr(value, name)]


def provides(value: Any, protocol: type) -> bool:
    """Whether an object (and not a class) has everything that a protocol asks for."""
    return not isinstance(value, type) and not missing(value, protocol)
