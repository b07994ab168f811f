"""Guarantees of a class that a subclass loses when it overrides a method that they depend on.

Engines, live experiments and reports take shortcuts: whole batches drawn at once, exact posterior draws, closed-form propensities.
Each is valid only for the original methods of a class. So the class declares which methods a shortcut depends on:

    class Gaussian:
        def log_likelihood(self, theta, row): ...

        @rests_on("log_prior", "log_likelihood")
        def draw(self, key, summary): ...

A subclass that overrides `log_likelihood` and not `draw` loses `draw`: `provides` is False, and a call raises `Lost` with the
reason. A subclass that overrides both keeps its own `draw`, and may call `super().draw`. That `draw` rests on the same methods, so
a further subclass that overrides `log_likelihood` loses it again.

The base classes of parts (`Agent`, `Env`, …; see `_module.Contract`) declare what a part must and may define. `@required` and
`@optional` methods have a docstring and no body, and exist only where a subclass defines them. Everything else in a base class is
a default, to which a lost method falls back: a scheme that overrides `step` uses `Batching.max_batches` again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any, TypeVar

from .errors import Lost

F = TypeVar("F")


class _Declared:
    """A class attribute that is valid as long as no subclass overrides what it rests on."""

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
        # If a subclass redefines it, this is a call through super(), and the subclass is responsible for it.
        if why is not None and _definers(type(instance), self.name)[0] is self.owner:
            return _default(instance, self.name, why)
        return self.value.__get__(instance, owner)


class _Fact(_Declared):
    def __get__(self, instance: Any, owner: type | None = None) -> bool:
        return reason(type(instance) if instance is not None else owner or self.owner, self.name) is None


class _Gone:
    """Replaces a lost method whose last definition is a plain override, without a declaration."""

    def __init__(self, name: str, why: str, is_fact: bool):
        self.name, self.why, self.is_fact = name, why, is_fact

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if self.is_fact:
            return False
        if instance is None:
            raise Lost(self.why)
        return _default(instance, self.name, self.why)


class _Asked:
    """A method or attribute that a base class describes and subclasses define. Not a data descriptor, so a field hides it."""

    def __init__(self, value: Any, must: bool):
        self.value, self.must, self.__doc__ = value, must, value.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.base, self.name = owner.__name__, name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self.value
        raise Lost(f"{type(instance).__name__} does not define {self.name}, which {self.base} describes.")


def is_base(cls: type) -> bool:
    """Whether a class is a base class of parts, whose definitions are defaults.

    Args:
        cls: the class.

    Returns:
        Whether it is.
    """
    return "_is_base" in vars(cls)


def _base_with_default(cls: type, name: str) -> type | None:
    """The base class of parts that has a default for a name."""
    bases = (c for c in cls.__mro__ if is_base(c) and name in vars(c))
    return next((c for c in bases if not isinstance(vars(c)[name], _Asked | _Declared)), None)


def _default(instance: Any, name: str, why: str) -> Any:
    """What a base class of parts says where a name is lost; without it, the loss is raised."""
    base = _base_with_default(type(instance), name)
    if base is None:
        raise Lost(why)
    value = vars(base)[name]
    return value.__get__(instance, type(instance)) if isinstance(value, FunctionType | property) else value


def _definers(cls: type, name: str) -> list[type]:
    """The classes that define a name, the most derived first. Requirements and defaults of base classes do not count."""
    named = ((c, vars(c)[name]) for c in cls.__mro__ if name in vars(c))
    return [c for c, item in named if not isinstance(item, _Gone | _Asked) and (isinstance(item, _Declared) or not is_base(c))]


@cache
def reason(cls: type, name: str, through: tuple[str, ...] | None = None) -> str | None:
    """Why a class has lost a declared name.

    A name is lost where a class more derived than its last definer overrides a method that it rests on.

    Args:
        cls: the class.
        name: the method or fact.
        through: only overrides of these methods are looked at; None for all.

    Returns:
        A sentence that names the override; None where the name is not lost.
    """
    definers = _definers(cls, name)
    declared = [vars(c)[name] for c in definers if isinstance(vars(c)[name], _Declared)]
    order = cls.__mro__.index
    for rested in dict.fromkeys(rested for one in declared for rested in one.rests if through is None or rested in through):
        overriders = _definers(cls, rested)
        # A method that a base leaves to its subclasses is first defined, then overridden.
        if len(overriders) > 1 and order(overriders[0]) < order(definers[0]):
            by = overriders[0].__name__
            is_fact = isinstance(declared[0], _Fact)
            remedy = f"set {name} = True in {by} if it still holds" if is_fact else f"override {name} too"
            return f"{by} overrides {rested}, on which {definers[0].__name__}.{name} rests; {remedy}."
    return None


def mark_lost(cls: type) -> None:
    """Hide from a new class the undeclared redefinitions that it has lost.

    Args:
        cls: the new class.
    """
    names = {name: item for c in cls.__mro__ for name, item in vars(c).items() if isinstance(item, _Declared)}
    for name, item in names.items():
        first = vars(_definers(cls, name)[0])[name]
        why = reason(cls, name)
        if why is not None and not isinstance(first, _Declared):
            setattr(cls, name, _Gone(name, why, isinstance(item, _Fact)))


def rests_on(*names: str) -> Callable[[F], F]:
    """Declare that a method or property is valid only as long as no subclass overrides some other methods.

    Args:
        names: the methods that it rests on.

    Returns:
        A decorator.

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
    >>> provides(Square(), "area"), provides(Large(), "area")
    (True, False)
    >>> why_lost(Large(), "area")
    'Large overrides side, on which Square.area rests; override area too.'
    """
    return lambda function: _Method(function, names)  # type: ignore[return-value]


def fact(*names: str) -> Any:
    """A class attribute that is True, and False in subclasses that override some methods.

    Args:
        names: the methods that it rests on.

    Returns:
        The attribute.

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


def required(method: F) -> F:
    """Decorate a method or property of a base class that every subclass must define.

    Args:
        method: with a docstring and no body.

    Returns:
        The declaration.
    """
    return _Asked(method, True)  # type: ignore[return-value]


def attribute(text: str) -> Any:
    """An attribute of a base class that every subclass must have, as a field or a property.

    Args:
        text: its docstring.

    Returns:
        The declaration.
    """
    return _Asked(property(doc=text), True)


def optional(method: F) -> F:
    """Decorate a method of a base class that a subclass may define, and that `provides` looks for.

    Args:
        method: with a docstring and no body.

    Returns:
        The declaration.
    """
    return _Asked(method, False)  # type: ignore[return-value]


def default(value: Any) -> Any:
    """An attribute of a base class that a subclass may set, as a value, a field or a property.

    Args:
        value: the default.

    Returns:
        The default.
    """
    return value


def why_lost(value: Any, name: str, *through: str) -> str | None:
    """Why an object has lost a declared method or fact.

    Args:
        value: the object.
        name: the method or fact.
        through: only overrides of these methods are looked at; all if none is given.

    Returns:
        A sentence that names the override; None where it has the name, or its class never declared it.
    """
    declared = any(isinstance(vars(c).get(name), _Declared) for c in type(value).__mro__)
    return reason(type(value), name, through or None) if declared else None


def overridden_alone(value: Any, name: str, other: str) -> str | None:
    """The class that overrides a method and leaves another one to its bases.

    Args:
        value: an object.
        name: the method that may be overridden.
        other: the method that says the same.

    Returns:
        The name of the class; None where `name` is not overridden, or `other` is as well.
    """
    cls = type(value)
    first, second = _definers(cls, name), _definers(cls, other)
    alone = len(first) > 1 and bool(second) and cls.__mro__.index(first[0]) < cls.__mro__.index(second[0])
    return first[0].__name__ if alone else None


def methods_of(cls: type) -> list[str]:
    """The names that a base class of parts requires."""
    bases = [c for c in reversed(cls.__mro__) if is_base(c)]
    asked = {name: item for c in bases for name, item in vars(c).items() if isinstance(item, _Asked)}
    return [name for name, item in asked.items() if item.must]


def missing(value: Any, cls: type) -> list[str]:
    """What `value` lacks of what a base class requires: methods it never had, and those it has lost.

    Args:
        value: the object.
        cls: a base class.

    Returns:
        Their names.
    """
    return [name for name in methods_of(cls) if not _has(type(value), name)]


@cache
def _has(cls: type, name: str) -> bool:
    """Whether objects of a class have a name: as a field, or because the class defines it and has not lost it, or has a default."""
    item = next((vars(c)[name] for c in cls.__mro__ if name in vars(c)), None)
    if isinstance(item, _Gone) or (isinstance(item, _Method) and reason(cls, name) is not None):
        return _base_with_default(cls, name) is not None
    if item is None or isinstance(item, _Asked):
        return any(name in vars(c).get("__dataclass_fields__", ()) for c in cls.__mro__)
    return True


def provides(value: Any, *what: type | str) -> bool:
    """Whether a part defines optional methods, given by name, and has not lost them; or all that a base class requires.

    Args:
        value: an object; a class provides nothing.
        what: names, or base classes.

    Returns:
        Whether it has all of them.

    >>> from blts import UCB1, Uniform
    >>> provides(UCB1(3), "propensities"), provides(Uniform(3), "propensities")
    (False, True)
    """
    if isinstance(value, type):
        return False
    return all(
        _has(type(value), one) if isinstance(one, str) else isinstance(value, one) and not missing(value, one) for one in what
    )
