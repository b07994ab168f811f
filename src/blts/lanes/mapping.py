"""`jax.vmap` with the lanes last in every intermediate array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from .._typing import Tree
from . import loops as loops  # registers its rules
from .program import Program
from .rules import HEARD, Value, read, run, spread


def vmap(f: Callable) -> Callable:
    """`jax.vmap(f, -1, -1)`, with the lanes as the last axis of every intermediate array too.

    Args:
        f: a function of one lane.

    Returns:
        The function of all lanes: the leaves of its arguments (at least one) and of its results have the lanes last.
    """

    def mapped(*arguments: Tree) -> Tree:
        return over_lanes(Program.of(f, *jax.tree.map(one_lane, arguments)), *arguments)

    return mapped


def over_lanes(program: Program, *arguments: Tree) -> Tree:
    """Run a program for all lanes.

    Args:
        program: of one lane.
        arguments: their leaves have the lanes last.

    Returns:
        Its results, with the lanes last.
    """
    leaves = jax.tree.leaves(arguments)
    lanes = leaves[0].shape[-1]
    known = dict(zip(program.jaxpr.invars, (Value(x, True) for x in leaves), strict=True))
    known |= dict(zip(program.jaxpr.constvars, (Value(x, False) for x in program.consts), strict=True))
    run(program.jaxpr.eqns, known, lanes)
    return jax.tree.unflatten(program.tree, [spread(read(known, v), lanes) for v in program.jaxpr.outvars])


def explain(f: Callable, *arguments: Tree) -> str:
    """How `vmap(f)(*arguments)` maps each equation: by its rule, by `jax.vmap`, or once for all lanes.

    Args:
        f: a function of one lane.
        arguments: with the lanes last; arrays, or anything with their shapes and dtypes.

    Returns:
        A line for each equation: how it is mapped, its primitive, and the types of its results in one lane. Those inside a
        loop or a branch are indented.
    """
    heard: list[Any] = []
    token = HEARD.set(heard)
    try:
        jax.eval_shape(vmap(f), *arguments)
    finally:
        HEARD.reset(token)
    types = lambda eqn: ", ".join(v.aval.str_short() for v in eqn.outvars)  # noqa: E731
    return "\n".join(f"{how:<10}  {'  ' * depth}{eqn.primitive.name}: {types(eqn)}" for eqn, how, depth in heard)


def one_lane(x: Any) -> jax.ShapeDtypeStruct:
    """The shape and dtype of one lane.

    Args:
        x: an array with the lanes last.

    Returns:
        The same without its last axis, to trace functions of one lane with.
    """
    return jax.ShapeDtypeStruct(x.shape[:-1], jax.typeof(x).dtype)  # JAX's own dtype: NumPy's may be wider
