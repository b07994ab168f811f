"""Divide a function into parts that depend on some arguments alone, which can be computed in advance, and the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
from jax.extend import core

from .._typing import Array, Tree
from .program import Program
from .rules import Value, read, run, spread

PAIRS = frozenset(("real", "imag"))
"""One kernel returns two normals as a complex number. If its parts were taken early, XLA would compute the kernel twice."""


class Split(NamedTuple):
    """The parts of a function, with the lanes as the last axis."""

    program: Program
    """The whole function, for one lane."""
    early: list[Callable]
    """early[g](*arguments) → values, from the arguments of group g alone."""
    late: Callable
    """late(values of all groups, *arguments) → the results, from these values and the other arguments."""


def split(f: Callable, groups: Sequence[tuple], then: tuple) -> Split:
    """Divide `f(*groups[0], *groups[1], …, *then)` into what depends on one group of arguments alone, and the rest.

    Args:
        f: a function of one lane.
        groups: the arguments of each group, of one lane, for their shapes; each has one leaf at least.
        then: the other arguments, likewise.

    Returns:
        The parts. Equations with side effects are in the last.
    """
    program = Program.of(f, *(x for group in groups for x in group), *then)
    invars, constvars = list(program.jaxpr.invars), program.jaxpr.constvars
    mine = [[invars.pop(0) for _ in jax.tree.leaves(group)] for group in groups]
    owner: dict[Any, int] = {v: g for g, some in enumerate(mine) for v in some}
    constants = dict(zip(constvars, (Value(x, False) for x in program.consts), strict=True))
    first: list[list[core.JaxprEqn]] = [[] for _ in groups]
    rest = []
    for eqn in program.jaxpr.eqns:
        inputs = [v for v in eqn.invars if not isinstance(v, core.Literal) and v not in constants]
        owners = {owner.get(v) for v in inputs} or {0}
        (g,) = owners if len(owners) == 1 else (None,)
        if g is None or eqn.effects or eqn.primitive.name in PAIRS:
            rest.append(eqn)
        else:
            first[g].append(eqn)
            owner |= dict.fromkeys(eqn.outvars, g)
    needed = [v for eqn in rest for v in eqn.invars] + list(program.jaxpr.outvars)
    needed = list(dict.fromkeys(v for v in needed if not isinstance(v, core.Literal)))
    passed = [[v for v in needed if owner.get(v) == g] for g in range(len(groups))]

    def early(g: int, *arguments: Tree) -> list[Value]:
        leaves = jax.tree.leaves(arguments)
        known = constants | dict(zip(mine[g], (Value(x, True) for x in leaves), strict=True))
        run(first[g], known, leaves[0].shape[-1])
        return [known[v] for v in passed[g]]

    def late(values: Sequence[Sequence[Value]], *arguments: Tree) -> Tree:
        leaves = jax.tree.leaves(arguments)
        lanes = leaves[0].shape[-1]
        known = constants | dict(zip((v for some in passed for v in some), (x for some in values for x in some), strict=True))
        known |= dict(zip(invars, (Value(x, True) for x in leaves), strict=True))
        run(rest, known, lanes)
        return jax.tree.unflatten(program.tree, [spread(read(known, v), lanes) for v in program.jaxpr.outvars])

    return Split(program, [partial(early, g) for g in range(len(groups))], late)


def of_lanes(values: Sequence[Value], f: Callable[[Array], Array]) -> list[Value]:
    """Apply a function to the arrays that are mapped.

    Args:
        values: what an early part of a `Split` gave.
        f: a function of an array with the lanes last.

    Returns:
        The values; those that are not mapped are unchanged.
    """
    return [v._replace(array=f(v.array)) if v.mapped else v for v in values]


def carried(turn: Program, after: Program, state: Tree, first: Sequence[int] | None = None) -> list[bool]:
    """Which leaves of its state a loop must carry: those that `after` reads, and whatever a turn computes them from.

    XLA removes unused values that a single loop carries, but not those that two nested loops pass to each other.

    Args:
        turn: one iteration. The state is its last argument and its first result; all its other results are used.
        after: what is computed from the last state, its last argument.
        state: for its number of leaves.
        first: what `equal_leaves` found, where only the first of equal leaves shall be carried.

    Returns:
        A flag for each leaf of the state.
    """
    size = len(jax.tree.leaves(state))
    others = [True] * (len(turn.jaxpr.outvars) - size)
    needed = after.needs([True] * len(after.jaxpr.outvars))[-size:]
    while True:
        more = [a or b for a, b in zip(needed, turn.needs([*needed, *others])[-size:], strict=True)]
        if more == needed:
            break
        needed = more
    return needed if first is None else [i in {f for f, flag in zip(first, needed, strict=True) if flag} for i in range(size)]


def equal_leaves(start: Program, turn: Program, size: int) -> list[int]:
    """Which leaves of a loop's state are equal in every iteration, because they start equal and are computed alike.

    Args:
        start: the initial state, as its results.
        turn: one iteration. The state is its last argument and its first result.
        size: the number of leaves of the state.

    Returns:
        For each leaf the number of the first one that it equals.
    """
    found = _value_numbers(start, list(range(len(start.jaxpr.invars))))[:size]
    while True:
        first = [found.index(number) for number in found]
        others = [("input", i) for i in range(len(turn.jaxpr.invars) - size)]
        found = list(zip(first, _value_numbers(turn, [*others, *first])[:size], strict=True))
        if len(set(found)) == len(set(first)):
            return first


def _value_numbers(program: Program, inputs: Sequence[Any]) -> list[Any]:
    """A key for each result of a program; equal keys mean equal results, for inputs of which those with equal keys are equal."""
    known: dict[Any, Any] = dict(zip(program.jaxpr.invars, inputs, strict=True))
    known |= {v: ("constant", i) for i, v in enumerate(program.jaxpr.constvars)}

    def number(v: Any) -> Any:
        return (str(v.aval), str(v.val)) if isinstance(v, core.Literal) else known[v]

    numbers: dict[Any, int] = {}
    for i, eqn in enumerate(program.jaxpr.eqns):
        what: Any = (eqn.primitive.name, tuple(eqn.params.items()), *map(number, eqn.invars))
        try:
            hash(what)
        except TypeError:
            what = i
        of_eqn = numbers.setdefault(i if eqn.effects else what, i)
        known |= {v: ("result", of_eqn, place) for place, v in enumerate(eqn.outvars)}
    return [(str(v.aval), number(v)) for v in program.jaxpr.outvars]


def shared(tree: Tree, first: Sequence[int]) -> Tree:
    """A tree in which leaves that are equal are one array.

    Args:
        tree: the state of a loop.
        first: what `equal_leaves` found.

    Returns:
        A tree of the same structure.
    """
    leaves, structure = jax.tree.flatten(tree)
    return jax.tree.unflatten(structure, [leaves[i] for i in first])


def taken(tree: Tree, flags: Sequence[bool]) -> list[Any]:
    """The flagged leaves of a tree.

    Args:
        tree: any pytree.
        flags: one for each leaf.

    Returns:
        A list of leaves.
    """
    return [leaf for leaf, flag in zip(jax.tree.leaves(tree), flags, strict=True) if flag]


def replaced(tree: Tree, flags: Sequence[bool], leaves: Sequence[Any]) -> Tree:
    """A tree with its flagged leaves replaced: the inverse of `taken`.

    Args:
        tree: any pytree.
        flags: one for each leaf.
        leaves: what replaces the flagged ones, in order.

    Returns:
        A tree of the same structure.
    """
    new = iter(leaves)
    old, structure = jax.tree.flatten(tree)
    return jax.tree.unflatten(structure, [next(new) if flag else leaf for leaf, flag in zip(old, flags, strict=True)])
