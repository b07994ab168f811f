"""Whether a function computes with the same numbers whenever it is called.

JAX calls a function once, to trace it, and then runs its program in every round. A number that the function had from elsewhere than
its arguments, such as a random generator of its own or a clock, would be the same in all rounds, and nothing would say so. So
functions of users are traced twice, and the numbers that are written into the two programs are compared.
"""

from __future__ import annotations

from collections.abc import Callable
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


def steady(function: Callable[..., Any], *arguments: Any) -> tuple[bool, Any]:
    """Whether two programs of a function have the same numbers, and the shapes of its results. See `traced`."""
    (first, shapes), (second, _) = traced(function, *arguments), traced(function, *arguments)
    return numbers_of(first) == numbers_of(second), shapes


def numbers_of(program: core.ClosedJaxpr) -> list[bytes]:
    """The numbers that are written into a program, and into those that it calls, in order."""
    found = [_random.numbers(const).tobytes() for const in program.consts]
    for step in program.jaxpr.eqns:
        found += [np.asarray(used.val).tobytes() for used in step.invars if isinstance(used, core.Literal)]
        for held in jax.tree.leaves(list(step.params.values()), is_leaf=_is_program):
            if _is_program(held):
                found += numbers_of(held if isinstance(held, core.ClosedJaxpr) else core.ClosedJaxpr(held, ()))
    return found


def _is_program(value: Any) -> bool:
    return isinstance(value, core.ClosedJaxpr | core.Jaxpr)
