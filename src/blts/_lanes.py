"""`jax.vmap` with the lanes last, and with what is random worked out ahead.

Replications are lanes. XLA's loops on a CPU are fast where the innermost axis is long: `[arms, lanes]` takes half the time
of `[lanes, arms]`. `jax.vmap` moves its axis to the front wherever two operands differ in shape, so a function is mapped here
one primitive at a time, and the lanes stay last throughout.

`split` divides a function: what can be computed from some of its arguments alone, and the rest. What a round draws at
random depends on its key and not on what was learned, so the draws of many rounds are made at once, in long vectors,
outside the loop over rounds; nobody who writes an agent or an environment has to know.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core

from ._typing import Array, Tree

INLINED = {"jit": "jaxpr", "closed_call": "call_jaxpr", "custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr"}
"""Primitives that only call another program, and where it is."""
WHOLE: dict[str, Callable] = {}
"""Programs that are called and not inlined: see `elementwise`."""
LOOPS = {"while": ("cond_jaxpr", "body_jaxpr"), "scan": ("jaxpr",), "cond": ("branches",)}
"""Primitives that run other programs, and where those are."""
ELEMENTWISE = frozenset(
    (
        *("add", "add_any", "and", "atan2", "clamp", "complex", "div", "eq", "ge", "gt", "le", "lt", "max", "min", "mul", "ne"),
        *("nextafter", "or", "pow", "rem", "select_n", "shift_left", "shift_right_arithmetic", "shift_right_logical", "sub", "xor"),
    )
)
UNARY = frozenset(
    (
        *("abs", "bitcast_convert_type", "ceil", "clz", "convert_element_type", "copy", "cos", "erf", "erf_inv", "erfc"),
        *("exp", "exp2", "expm1", "floor", "imag", "integer_pow", "is_finite", "lgamma", "log", "log1p", "logistic", "neg"),
        *("not", "population_count", "real", "round", "rsqrt", "sign", "sin", "sqrt", "square", "stop_gradient", "tan", "tanh"),
    )
)
FROM_THE_FRONT = frozenset(("argmax", "argmin", "cumsum", "reduce_max", "reduce_min", "reduce_sum", "squeeze"))
"""Primitives whose axes are counted from the front, so that one more axis at the end changes nothing."""
PAIRS = frozenset(("real", "imag"))
"""A complex number is how two normals leave one kernel; taken apart at once, XLA would compute it twice."""


def elementwise(f: Callable) -> Callable:
    """A function of numbers that is mapped as one primitive and not one by one: written out once for each shape."""
    f.__name__ = f"blts_{f.__name__}"
    WHOLE[f.__name__] = jax.jit(f)
    return WHOLE[f.__name__]


class Value(NamedTuple):
    """An array, and whether its last axis is the lanes."""

    array: Any
    mapped: bool


class Program(NamedTuple):
    """A function written out for one lane."""

    jaxpr: core.Jaxpr
    consts: Sequence[Any]
    tree: Any
    """Of its results."""

    @staticmethod
    def of(f: Callable, *arguments: Tree) -> Program:
        """`f` for arguments of these shapes, with all calls inlined."""
        leaves, tree = jax.tree.flatten(arguments)
        results: list[Any] = []

        def flat(*leaves):
            out, structure = jax.tree.flatten(f(*jax.tree.unflatten(tree, leaves)))
            results.append(structure)
            return out

        closed = jax.make_jaxpr(flat)(*leaves)
        closed = jax.make_jaxpr(lambda *xs: _inlined(closed.jaxpr, closed.consts, xs))(*leaves)
        return Program(closed.jaxpr, closed.consts, results[0])

    def needs(self, results: Sequence[bool]) -> list[bool]:
        """Which arguments these of its results depend on."""
        live = needed(self.jaxpr, [v for v, wanted in zip(self.jaxpr.outvars, results, strict=True) if wanted])
        return [v in live for v in self.jaxpr.invars]


def needed(jaxpr: core.Jaxpr, results: Sequence[Any]) -> set[Any]:
    """The variables that these depend on."""
    live = {v for v in results if not isinstance(v, core.Literal)}
    for eqn in reversed(jaxpr.eqns):
        if not live.isdisjoint(eqn.outvars):
            live |= {v for v in eqn.invars if not isinstance(v, core.Literal)}
    return live


def vmap(f: Callable) -> Callable:
    """`jax.vmap(f, -1, -1)`, with the lanes last in every intermediate array too."""

    def mapped(*arguments: Tree) -> Tree:
        leaves = jax.tree.leaves(arguments)
        lanes = leaves[0].shape[-1]
        program = Program.of(f, *jax.tree.map(one_lane, arguments))
        known = dict(zip(program.jaxpr.invars, (Value(x, True) for x in leaves), strict=True))
        known |= dict(zip(program.jaxpr.constvars, (Value(x, False) for x in program.consts), strict=True))
        _run(program.jaxpr.eqns, known, lanes)
        return jax.tree.unflatten(program.tree, [_spread(_read(known, v), lanes) for v in program.jaxpr.outvars])

    return mapped


def carried(turn: Program, after: Program, state: Tree) -> list[bool]:
    """Which leaves of its state a loop must carry: those that `after` reads, and whatever a turn computes them from.

    The state is the last argument and the first result of `turn`, whose other results are all wanted, and the last argument
    of `after`. XLA finds by itself what a single loop carries in vain, but not what two nested loops hand to each other.
    """
    size = len(jax.tree.leaves(state))
    others = [True] * (len(turn.jaxpr.outvars) - size)
    needed = after.needs([True] * len(after.jaxpr.outvars))[-size:]
    while True:
        more = [a or b for a, b in zip(needed, turn.needs([*needed, *others])[-size:], strict=True)]
        if more == needed:
            return needed
        needed = more


def taken(tree: Tree, flags: Sequence[bool]) -> list[Any]:
    """The leaves that are flagged."""
    return [leaf for leaf, flag in zip(jax.tree.leaves(tree), flags, strict=True) if flag]


def replaced(tree: Tree, flags: Sequence[bool], leaves: Sequence[Any]) -> Tree:
    """The tree with other leaves where it is flagged."""
    new = iter(leaves)
    old, structure = jax.tree.flatten(tree)
    return jax.tree.unflatten(structure, [next(new) if flag else leaf for leaf, flag in zip(old, flags, strict=True)])


class Split(NamedTuple):
    """A function in parts, for lanes in the last axis."""

    program: Program
    """All of it, for one lane."""
    early: list[Callable]
    """early[g](*arguments) → values, from the arguments of group g alone."""
    late: Callable
    """late(values of all groups, *arguments) → the results, from these values and the other arguments."""


def split(f: Callable, groups: Sequence[tuple], then: tuple) -> Split:
    """`f(*groups[0], *groups[1], …, *then)` in parts: what depends on one group of arguments alone, and the rest.

    The arguments given are those of one lane, for their shapes.
    """
    program = Program.of(f, *(x for group in groups for x in group), *then)
    invars, constvars = list(program.jaxpr.invars), program.jaxpr.constvars
    mine = [[invars.pop(0) for _ in jax.tree.leaves(group)] for group in groups]
    owner: dict[Any, int] = {v: g for g, some in enumerate(mine) for v in some}
    constants = dict(zip(constvars, (Value(x, False) for x in program.consts), strict=True))
    first: list[list[core.JaxprEqn]] = [[] for _ in groups]
    rest = []
    for eqn in program.jaxpr.eqns:
        read = [v for v in eqn.invars if not isinstance(v, core.Literal) and v not in constants]
        owners = {owner.get(v) for v in read} or {0}
        (g,) = owners if len(owners) == 1 else (None,)
        if g is None or eqn.primitive.name in PAIRS:
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
        _run(first[g], known, leaves[0].shape[-1])
        return [known[v] for v in passed[g]]

    def late(values: Sequence[Sequence[Value]], *arguments: Tree) -> Tree:
        leaves = jax.tree.leaves(arguments)
        lanes = leaves[0].shape[-1]
        known = constants | dict(zip((v for some in passed for v in some), (x for some in values for x in some), strict=True))
        known |= dict(zip(invars, (Value(x, True) for x in leaves), strict=True))
        _run(rest, known, lanes)
        return jax.tree.unflatten(program.tree, [_spread(_read(known, v), lanes) for v in program.jaxpr.outvars])

    return Split(program, [partial(early, g) for g in range(len(groups))], late)


def of_lanes(values: Sequence[Value], f: Callable[[Array], Array]) -> list[Value]:
    """`f` of the arrays that have lanes."""
    return [v._replace(array=f(v.array)) if v.mapped else v for v in values]


def on_cpu() -> bool:
    return jax.default_backend() == "cpu"


def one_lane(x: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(x.shape[:-1], x.dtype)


class _Made(NamedTuple):
    """What the equations of a program have made so far."""

    origins: dict[int, Any]
    """How a value was put together: see `_shortcut`."""
    results: dict[Any, Any]
    """The results of an equation, by what it does and to what; with its inputs, so that no other value takes their ids."""


def _inlined(jaxpr: core.Jaxpr, consts: Sequence[Any], arguments: Sequence[Any], made: _Made | None = None) -> list[Any]:
    """The results of a program, computed without a call, without detours (see `_shortcut`), and nothing twice."""
    made = _Made({}, {}) if made is None else made
    known = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *arguments], strict=True))
    for eqn in jaxpr.eqns:
        inputs = [v.val if isinstance(v, core.Literal) else known[v] for v in eqn.invars]
        name = eqn.primitive.name
        if name in INLINED and not _is_whole(eqn):
            inner = eqn.params[INLINED[name]]
            out = _inlined(inner.jaxpr, inner.consts, inputs, made)
        elif name in LOOPS:
            out = _bind(eqn, inputs, **{program: _inlined_inside(eqn.params[program]) for program in LOOPS[name]})
        else:
            what = _what(eqn, inputs)
            if what not in made.results:
                direct = _shortcut(eqn, inputs, made.origins)
                made.results[what] = (_bind(eqn, inputs) if direct is None else [direct], inputs)
            out = made.results[what][0]
            if name in ("concatenate", "random_wrap"):
                made.origins[id(out[0])] = (eqn, inputs)
        known |= dict(zip(eqn.outvars, out, strict=True))
    return [v.val if isinstance(v, core.Literal) else known[v] for v in jaxpr.outvars]


def _is_whole(eqn: core.JaxprEqn) -> bool:
    return eqn.primitive.name == "jit" and eqn.params["name"] in WHOLE


def _what(eqn: core.JaxprEqn, inputs: Sequence[Any]) -> Any:
    """What is equal for equations with equal results. One that acts on the world, or has settings that cannot be compared,
    equals none."""
    settings = eqn.params["name"] if _is_whole(eqn) else tuple(eqn.params.items())
    what = (eqn.primitive.name, settings, *map(_identity, inputs))
    try:
        hash(what)
    except TypeError:
        return object()
    return object() if eqn.effects else what


def _identity(x: Any) -> Any:
    """What is the same for the same value: a constant number is known by its bits, anything else by its place."""
    if isinstance(x, jax.Array) or jnp.size(x) != 1:
        return id(x)
    return str(jnp.result_type(x)), jnp.shape(x), np.asarray(x).tobytes()


def _inlined_inside(inner: Any) -> Any:
    """The program of a loop's body, or those of a choice, inlined."""
    if isinstance(inner, tuple):
        return tuple(map(_inlined_inside, inner))
    return jax.make_jaxpr(lambda *xs: _inlined(inner.jaxpr, inner.consts, xs))(*inner.in_avals)


def _shortcut(eqn: core.JaxprEqn, inputs: Sequence[Any], origins: dict[int, Any]) -> Any | None:
    """A piece of what was just put together: the words of a key that was made of words, without the other words.

    Without it all of a key would seem to depend on which half of its normals is meant, and nothing could be drawn ahead.
    """
    if not inputs or id(inputs[0]) not in origins:
        return None
    origin, parts = origins[id(inputs[0])]
    if eqn.primitive.name == "random_unwrap" and origin.primitive.name == "random_wrap":
        return parts[0]
    if eqn.primitive.name == "slice" and origin.primitive.name == "concatenate" and jnp.ndim(inputs[0]) == 1:
        begin, end, strides = eqn.params["start_indices"][0], eqn.params["limit_indices"][0], eqn.params["strides"]
        offset = 0
        for part in parts:
            if offset <= begin and end <= offset + part.shape[0] and strides in (None, (1,)):
                return lax.slice(part, (begin - offset,), (end - offset,))
            offset += part.shape[0]
    return None


def _bind(eqn: core.JaxprEqn, inputs: Sequence[Any], **changes: Any) -> Sequence[Any]:
    out = eqn.primitive.bind(*inputs, **{**eqn.params, **changes})
    return out if eqn.primitive.multiple_results else [out]


def _read(known: dict, v: Any) -> Value:
    return Value(v.val, False) if isinstance(v, core.Literal) else known[v]


def _spread(value: Value, lanes: int) -> Array:
    """The array with lanes, repeated where it has none."""
    x = jnp.asarray(value.array) if not value.mapped else value.array
    return x if value.mapped else lax.broadcast_in_dim(x, (*x.shape, lanes), range(x.ndim))


def _shaped(value: Value, shape: tuple[int, ...], lanes: int) -> Value:
    """The value with lanes and this shape for each."""
    x = value.array if isinstance(value.array, jax.Array) else jnp.asarray(value.array)
    axes = jnp.ndim(x) - value.mapped
    dimensions = [*range(axes), *[len(shape)] * value.mapped]
    return Value(x if jnp.shape(x) == (*shape, lanes) else lax.broadcast_in_dim(x, (*shape, lanes), dimensions), True)


def _run(eqns: Sequence[core.JaxprEqn], known: dict, lanes: int) -> None:
    """Adds the results of the equations to what is known."""
    for eqn in eqns:
        out = _equation(eqn, [_read(known, v) for v in eqn.invars], lanes)
        known |= dict(zip(eqn.outvars, out, strict=True))


def _equation(eqn: core.JaxprEqn, inputs: list[Value], lanes: int) -> list[Value]:
    if not any(value.mapped for value in inputs):
        return [Value(x, False) for x in _bind(eqn, [value.array for value in inputs])]
    name, shape = eqn.primitive.name, eqn.outvars[0].aval.shape  # type: ignore[attr-defined]
    if _is_whole(eqn):
        arrays = [_shaped(v, shape, lanes).array for v in inputs]
        return [Value(x, True) for x in WHOLE[eqn.params["name"]](*arrays)]
    if name in INLINED:
        return _program(eqn.params[INLINED[name]], inputs, lanes)
    special = {"while": _while, "scan": _scan, "cond": _cond, "scatter": _scatter}.get(eqn.primitive.name)
    out = special(eqn, inputs, lanes) if special else None
    if out is not None:
        return out
    if name == "broadcast_in_dim":
        dimensions = (*eqn.params["broadcast_dimensions"], len(shape))
        return [Value(lax.broadcast_in_dim(inputs[0].array, (*shape, lanes), dimensions), True)]
    if name in FROM_THE_FRONT:
        return [Value(x, True) for x in _bind(eqn, [inputs[0].array])]
    if name == "dynamic_update_slice" and not any(v.mapped for v in inputs[2:]):
        store, new, *start = [v if i > 1 else Value(_spread(v, lanes), True) for i, v in enumerate(inputs)]
        return [Value(lax.dynamic_update_slice(store.array, new.array, [*(v.array for v in start), 0]), True)]
    if name == "concatenate":
        return [Value(x, True) for x in _bind(eqn, [_spread(v, lanes) for v in inputs])]
    if name in UNARY:
        return [Value(x, True) for x in _bind(eqn, [inputs[0].array])]
    if name in ELEMENTWISE:
        return [Value(x, True) for x in _bind(eqn, [_shaped(v, shape, lanes).array for v in inputs])]
    mapped = jax.vmap(
        lambda *arrays: _bind(eqn, arrays), in_axes=[-1 if v.mapped else None for v in inputs], out_axes=-1, axis_size=lanes
    )
    return [Value(x, True) for x in mapped(*[v.array for v in inputs])]


def _program(closed: core.ClosedJaxpr, inputs: Sequence[Value], lanes: int) -> list[Value]:
    jaxpr = closed.jaxpr
    known = dict(zip(jaxpr.invars, inputs, strict=True))
    known |= dict(zip(jaxpr.constvars, (Value(x, False) for x in closed.consts), strict=True))
    _run(jaxpr.eqns, known, lanes)
    return [_read(known, v) for v in jaxpr.outvars]


# Loops. What they carry has lanes if it starts with them, or is given them by a turn.


def _flags(jaxpr: core.Jaxpr, mapped: Sequence[bool]) -> list[bool]:
    """Which results have lanes, where these arguments do."""
    known = dict(zip(jaxpr.invars, mapped, strict=True))
    for eqn in jaxpr.eqns:
        inputs = [not isinstance(v, core.Literal) and known.get(v, False) for v in eqn.invars]
        if eqn.primitive.name == "while":
            a, b = eqn.params["cond_nconsts"], eqn.params["cond_nconsts"] + eqn.params["body_nconsts"]
            out = _carried(eqn.params["body_jaxpr"], inputs[a:b], inputs[b:])
        else:
            out = [any(inputs)] * len(eqn.outvars)
        known |= dict(zip(eqn.outvars, out, strict=True))
    return [not isinstance(v, core.Literal) and known.get(v, False) for v in jaxpr.outvars]


def _carried(body: core.ClosedJaxpr, consts: Sequence[bool], carry: Sequence[bool], rest: Sequence[bool] = ()) -> list[bool]:
    """Which carried values have lanes."""
    mapped = list(carry)
    while True:
        out = _flags(body.jaxpr, [*consts, *mapped, *rest])
        more = [a or b for a, b in zip(mapped, out, strict=False)]
        if more == mapped:
            return mapped
        mapped = more


def _with(value: Value, mapped: bool, lanes: int) -> Value:
    return Value(_spread(value, lanes), True) if mapped else value


def _arrays(values: Sequence[Value], mapped: Sequence[bool], lanes: int) -> list[Any]:
    return [_with(v, m, lanes).array for v, m in zip(values, mapped, strict=True)]


def _while(eqn: core.JaxprEqn, inputs: list[Value], lanes: int) -> list[Value] | None:
    p = eqn.params
    a, b = p["cond_nconsts"], p["cond_nconsts"] + p["body_nconsts"]
    test_consts, consts, carry = inputs[:a], inputs[a:b], inputs[b:]
    mapped = _carried(p["body_jaxpr"], [v.mapped for v in consts], [v.mapped for v in carry])
    if any(_flags(p["cond_jaxpr"].jaxpr, [*(v.mapped for v in test_consts), *mapped])):
        return None  # lanes that stop at different turns: jax.vmap knows how

    def test(arrays):
        return _program(p["cond_jaxpr"], [*test_consts, *map(Value, arrays, mapped)], lanes)[0].array

    def body(arrays):
        return _arrays(_program(p["body_jaxpr"], [*consts, *map(Value, arrays, mapped)], lanes), mapped, lanes)

    return list(map(Value, lax.while_loop(test, body, _arrays(carry, mapped, lanes)), mapped))


def _scan(eqn: core.JaxprEqn, inputs: list[Value], lanes: int) -> list[Value] | None:
    p = eqn.params
    if "num_consts" not in p:
        return None  # JAX 0.11 says it in another way
    a, b = p["num_consts"], p["num_consts"] + p["num_carry"]
    consts, carry, rows = inputs[:a], inputs[a:b], inputs[b:]
    flags = [v.mapped for v in rows]
    mapped = _carried(p["jaxpr"], [v.mapped for v in consts], [v.mapped for v in carry], flags)

    def body(arrays, row):
        out = _program(p["jaxpr"], [*consts, *map(Value, arrays, mapped), *map(Value, row, flags)], lanes)
        return _arrays(out[: b - a], mapped, lanes), [_spread(v, lanes) for v in out[b - a :]]

    carried, made = lax.scan(
        body,
        _arrays(carry, mapped, lanes),
        [v.array for v in rows],
        length=p["length"],
        reverse=p["reverse"],
        unroll=p["unroll"],
    )
    return [*map(Value, carried, mapped), *(Value(x, True) for x in made)]


def _cond(eqn: core.JaxprEqn, inputs: list[Value], lanes: int) -> list[Value] | None:
    which, *operands = inputs
    if which.mapped:
        return None  # every lane its own branch: jax.vmap computes both
    flags = [v.mapped for v in operands]
    branches = [
        lambda *arrays, branch=branch: [_spread(v, lanes) for v in _program(branch, list(map(Value, arrays, flags)), lanes)]
        for branch in eqn.params["branches"]
    ]
    out = lax.switch(which.array, branches, *[v.array for v in operands])
    return [Value(x, True) for x in out]


def _scatter(eqn: core.JaxprEqn, inputs: list[Value], lanes: int) -> list[Value] | None:
    """`store.at[i].set(row)`, each lane at its own i: jax.vmap would move all of the store, and back."""
    numbers = eqn.params["dimension_numbers"]
    store, index, row = inputs
    one_row = numbers.inserted_window_dims == numbers.scatter_dims_to_operand_dims == (0,) and not numbers.operand_batching_dims
    if not one_row or jnp.shape(index.array)[: jnp.ndim(index.array) - index.mapped] != (1,):
        return None
    if eqn.params["mode"] == lax.GatherScatterMode.CLIP:
        return None
    where = _spread(index, lanes)[0]
    where = jnp.where(where < 0, store.array.shape[0], where)  # outside, like one beyond the end; `at` would count from the end
    rows = jnp.moveaxis(_spread(row, lanes), -1, 0)
    put = _spread(store, lanes).at[where, ..., jnp.arange(lanes)]
    return [Value(put.set(rows, mode=eqn.params["mode"], unique_indices=True), True)]
