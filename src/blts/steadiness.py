"""Whether a function computes with the same numbers whenever it is called.

JAX calls a function once, to trace it, and then runs its program in every round. A number that the function had from elsewhere than
its arguments, such as a random generator of its own or a clock, would be the same in all rounds, and nothing would say so. So
functions of users are traced twice, and the numbers that are written into the two programs are compared. Two tosses of a coin agree
half of the time, so random generators are looked at too: whether they have drawn meanwhile.
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterable
from typing import Any

import jax
import numpy as np
from jax.extend import core

from . import _random

UNSTEADY = (
    "computes with other numbers whenever it is called: those of a random generator of its own, or of a clock. JAX calls it once "
    "and not in every round, so that all rounds would have the same numbers; draw from the key that is given, with blts.random or "
    "jax.random."
)


def traced(function: Callable[..., Any], *arguments: Any) -> tuple[core.ClosedJaxpr, Any]:
    """The program of a function, traced anew, and the shapes of its results.

    Args:
        function: what is traced.
        arguments: arrays, or their shapes; whole numbers are handed on as they are.

    Returns:
        The program and the shapes.
    """
    static = tuple(i for i, each in enumerate(arguments) if isinstance(each, int))
    afresh = lambda *arguments: function(*arguments)  # noqa: E731  (JAX keeps what it traced)
    return jax.make_jaxpr(afresh, static_argnums=static, return_shape=True)(*arguments)


def steady(function: Callable[..., Any], *arguments: Any, generators: Iterable[Any] = ()) -> tuple[bool, Any]:
    """Whether two programs of a function have the same numbers, and are made without random numbers of generators.

    Args:
        function: what is traced, twice.
        arguments: as `traced` takes them.
        generators: random generators that the function may use, besides those of `numpy.random` and `random` themselves.

    Returns:
        Whether it is so, and the shapes of the function's results.
    """
    generators = tuple(generators)
    begun, before = list(map(_state, generators)), list(map(_state, _random.SHARED))
    first, shapes = traced(function, *arguments)
    between = list(map(_state, _random.SHARED))
    second, _ = traced(function, *arguments)
    after = list(map(_state, _random.SHARED))
    # Another thread may draw from a generator of the whole process, but hardly in both traces of a function that does not.
    drew = any(a != b != c for a, b, c in zip(before, between, after, strict=True)) or begun != list(map(_state, generators))
    return not drew and numbers_of(first) == numbers_of(second), shapes


def _state(generator: Any) -> bytes:
    """The state of a generator of NumPy or of `random`; nothing where it has none, as the system's."""
    if isinstance(generator, np.random.RandomState):
        return pickle.dumps(generator.get_state())
    if isinstance(generator, random.Random):
        return b"" if isinstance(generator, random.SystemRandom) else pickle.dumps(generator.getstate())
    return pickle.dumps(getattr(generator, "bit_generator", generator).state)


def numbers_of(program: core.ClosedJaxpr) -> list[bytes]:
    """The numbers that are written into a program, and into those that it calls, in order."""
    found = [_random.numbers(const).tobytes() for const in program.consts]
    for step in program.jaxpr.eqns:
        found += [np.asarray(used.val).tobytes() for used in step.invars if isinstance(used, core.Literal)]
        for held in jax.tree.leaves(list(step.params.values()), is_leaf=_is_program):
            if _is_program(held):
                found += numbers_of(held if isinstance(held, core.ClosedJaxpr) else core.ClosedJaxpr(held, ()))
    return found + [np.asarray(result.val).tobytes() for result in program.jaxpr.outvars if isinstance(result, core.Literal)]


def _is_program(value: Any) -> bool:
    return isinstance(value, core.ClosedJaxpr | core.Jaxpr)
