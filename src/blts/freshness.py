"""Whether what users' functions use besides their arguments is what it was when JAX traced them.

JAX calls a function once and keeps its program, with the numbers in it. Somebody who changes a number in a notebook, that his
environment uses, would get the results of the number before, and nothing would say so. So before a run everything that his classes
and functions refer to is looked at: numbers, texts, arrays and containers of them, in modules, closures, defaults and classes, and
the code of other functions that they call.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import random
import types
import weakref
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, TypeVar

import jax
import numpy as np

from . import _random
from ._module import parts_within
from .sources import TRUSTED

C = TypeVar("C")
DEPTH, MOST = 8, 5000
"""How far objects are followed that objects refer to, and how many are looked at for a class or function at most."""
PLAIN = (bool, int, float, complex, str, bytes, types.NoneType, types.EllipsisType, np.generic)
GENERATORS = (np.random.Generator, np.random.BitGenerator, np.random.RandomState, random.Random)

_LAST: weakref.WeakKeyDictionary[Any, bytes] = weakref.WeakKeyDictionary()
"""A digest of what each class and function of somebody's own referred to in the last run."""
_CACHES: list[Any] = []


def emptied(cache: C) -> C:
    """A cache of what depends on traced programs: it is emptied when those are let go."""
    _CACHES.append(cache)
    return cache


def look_again(*parts: Any) -> None:
    """Let all traced programs go if something that the classes and functions of these parts use has changed since the last time.

    Args:
        parts: an environment, an agent, a model, …
    """
    if changed(*parts):
        let_go()


def let_go() -> None:
    """Let all traced programs go."""
    jax.clear_caches()
    for cache in _CACHES:
        cache.clear()


def changed(*parts: Any) -> bool:
    """Whether something that the classes and functions of these parts use has changed since they were last looked at.

    Args:
        parts: an environment, an agent, a model, …

    Returns:
        Whether programs that were traced before may have other numbers than a program that is traced now.
    """
    found = False
    for owner in {id(each): each for part in parts for held in parts_within(part) for each in from_elsewhere(held)}.values():
        digest = hashlib.sha256()
        for token in _Looked().tokens(owner, DEPTH):
            digest.update(token)
            digest.update(b"\0")
        found |= _LAST.setdefault(owner, digest.digest()) != digest.digest()
        _LAST[owner] = digest.digest()
    return found


def generators(*parts: Any) -> list[Any]:
    """The random generators that these parts, their classes and their functions refer to, other than those of whole modules.

    Args:
        parts: an environment, an agent, a model, …

    Returns:
        Generators of NumPy and of `random`.
    """
    found: dict[int, Any] = {}
    for held in (held for part in parts for held in parts_within(part)):
        fields = [each for each in getattr(held, "__dict__", {}).values() if not isinstance(each, np.ndarray | jax.Array)]
        for owner in (*fields, *from_elsewhere(held)):
            looked = _Looked()
            for _ in looked.tokens(owner, DEPTH):
                pass
            found |= {id(each): each for each in looked.generators}
    return list(found.values())


def from_elsewhere(part: Any) -> list[Any]:
    """The class of a part and the functions in its fields, those that are not of this package or its libraries."""
    fields = dataclasses.fields(part) if dataclasses.is_dataclass(part) else ()
    functions = [_plain_function(getattr(part, field.name)) for field in fields]
    every = [type(part), *(each for each in functions if isinstance(each, types.FunctionType))]
    return [each for each in every if not _is_trusted(each)]


def _is_trusted(value: Any) -> bool:
    """Whether a class, function or module is this package's, its libraries' or Python's, which nobody changes on the way."""
    name = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None) or ""
    return name.partition(".")[0] in TRUSTED


def _plain_function(value: Any) -> Any:
    """What a decorated function or a method is made of."""
    while hasattr(value, "__wrapped__"):
        value = value.__wrapped__
    return getattr(value, "__func__", getattr(value, "fget", value))


class _Looked:
    """What was looked at, so that each object is looked at once."""

    def __init__(self) -> None:
        self.seen: set[int] = set()
        self.left = MOST
        self.generators: list[Any] = []

    def tokens(self, value: Any, depth: int) -> Iterator[Any]:
        """What decides the numbers that a value brings into a program, as bytes or arrays of bytes."""
        self.left -= 1
        yield type(value).__name__.encode()
        drawing = getattr(value, "__self__", None) if isinstance(value, types.MethodType | types.BuiltinMethodType) else value
        if isinstance(drawing, GENERATORS) and not any(drawing is each for each in _random.SHARED):
            self.generators.append(drawing)
        if isinstance(value, PLAIN):
            yield (hex(value) if isinstance(value, int) else repr(value)).encode()
            return
        if isinstance(value, np.ndarray | jax.Array):
            yield from _array(value)
            return
        if id(value) in self.seen or depth == 0:
            return
        self.seen.add(id(value))
        for each in self._held(value):
            if self.left <= 0:
                return
            yield from self.tokens(each, depth - 1)

    def _held(self, value: Any) -> Iterator[Any]:
        function = _plain_function(value)
        if isinstance(function, types.FunctionType):
            yield from () if _is_trusted(function) else self._used_by(function)
        elif isinstance(value, functools.partial):
            yield from (value.func, value.args, value.keywords)
        elif isinstance(value, type):
            for cls in value.__mro__:
                if not _is_trusted(cls):
                    yield from (x for name, x in vars(cls).items() if not name.startswith("__") or callable(x))
        elif isinstance(value, dict):
            yield from (each for pair in tuple(value.items()) for each in pair)
        elif isinstance(value, tuple | list):
            yield from tuple(value)
        elif isinstance(value, set | frozenset):
            yield from sorted(map(repr, value))
        elif not isinstance(value, types.ModuleType):
            yield from tuple(getattr(value, "__dict__", {}).values())

    def _used_by(self, function: types.FunctionType) -> Iterator[Any]:
        yield from (function.__defaults__, function.__kwdefaults__)
        for cell in function.__closure__ or ():
            with suppress(ValueError):  # it has none yet
                yield cell.cell_contents
        for code in _codes(function.__code__):
            yield code.co_code
            yield from (const for const in code.co_consts if not isinstance(const, types.CodeType))
            for name in code.co_names:
                yield name
                if name in function.__globals__:
                    yield function.__globals__[name]
            for module in filter(_is_own_module, map(function.__globals__.get, code.co_names)):
                yield from (getattr(module, name) for name in code.co_names if hasattr(module, name))


def _array(value: Any) -> Iterator[Any]:
    """An array's type, shape and bytes; nothing of one that is being traced or was given away."""
    with suppress(RuntimeError, jax.errors.TracerArrayConversionError):
        array = _random.numbers(value)
        yield f"{array.dtype} {array.shape}".encode()
        if array.dtype != object:
            yield np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _is_own_module(value: Any) -> bool:
    return isinstance(value, types.ModuleType) and not _is_trusted(value)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """A code object and those of the functions within it."""
    yield code
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _codes(const)
