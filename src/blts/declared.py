"""What a class declares about its methods, and loses where a subclass overrides what the declaration rests on.

Engines, live experiments and reports take shortcuts: whole batches drawn at once, an exact posterior, closed propensities. Each
is made true by some methods of a class, and false as soon as a subclass changes one of them. So the class says which:

    class Gaussian:
        def log_likelihood(self, theta, row): ...

        @rests_on("log_prior", "log_likelihood")
        def draw(self, key, summary): ...

For a subclass that overrides `log_likelihood` and not `draw`, `draw` is gone: `hasattr` is False and a call raises `Lost` with
the reason. A subclass that overrides both has a `draw` of its own, from which `super().draw` can still be called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from .errors import Lost

F = TypeVar("F")


class _Declared:
    def __init__(self, value: Any, rests: tuple[str, ...]):
        self.value, self.rests = value, rests
        self.name, self.owner = "", object
        self.__doc__ = value.__doc__
        self._reasons: dict[type, str | None] = {}

    def __set_name__(self, owner: type, name: str) -> None:
        self.owner, self.name = owner, name

    def remedy(self, cls: str) -> str:
        return f"override {self.name} too"

    def why_lost(self, cls: type) -> str | None:
        """The sentence that says which override took it from `cls`; None where it holds."""
        if cls not in self._reasons:
            self._reasons[cls] = self._look(cls)
        return self._reasons[cls]

    def _look(self, cls: type) -> str | None:
        below = cls.__mro__[: cls.__mro__.index(self.owner)]
        if any(self.name in vars(c) for c in below):
            return None  # overridden itself: this is a call through super()
        for name in self.rests:
            definers = [c for c in cls.__mro__ if name in vars(c)]
            # A method that the owner leaves to its subclasses is first defined, then overridden.
            if definers and definers[0] in below and len(definers) > 1:
                return (
                    f"{definers[0].__name__} overrides {name}, on which {self.owner.__name__}.{self.name} rests; "
                    f"{self.remedy(definers[0].__name__)}."
                )
        return None


class _Method(_Declared):
    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self.value
        why = self.why_lost(type(instance))
        if why is not None:
            raise Lost(why)
        return self.value.__get__(instance, owner)


class _Fact(_Declared):
    def remedy(self, cls: str) -> str:
        return f"set {self.name} = True in {cls} if it still holds"

    def __get__(self, instance: Any, owner: type | None = None) -> bool:
        return self.why_lost(type(instance) if instance is not None else owner or self.owner) is None


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
    for c in type(value).__mro__:
        if name in vars(c):
            found = vars(c)[name]
            return found.why_lost(type(value)) if isinstance(found, _Declared) else None
    return None


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
