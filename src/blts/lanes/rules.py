"""How one equation of a program is computed for all lanes, with the lanes as the last axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend import core

from .._typing import Array
from .program import WHOLE, asks_all_lanes, attempt, bind, called, is_whole

ELEMENTWISE = (
    *("add", "add_any", "and", "atan2", "clamp", "complex", "div", "eq", "ge", "gt", "le", "lt", "max", "min", "mul", "ne"),
    *("nextafter", "or", "pow", "rem", "select_n", "shift_left", "shift_right_arithmetic", "shift_right_logical", "sub", "xor"),
)
UNARY = (
    *("abs", "bitcast_convert_type", "ceil", "clz", "convert_element_type", "copy", "cos", "erf", "erf_inv", "erfc"),
    *("exp", "exp2", "expm1", "floor", "imag", "integer_pow", "is_finite", "lgamma", "log", "log1p", "logistic", "neg"),
    *("not", "population_count", "real", "round", "rsqrt", "sign", "sin", "sqrt", "square", "stop_gradient", "tan", "tanh"),
)
FROM_THE_FRONT = ("argmax", "argmin", "cumsum", "reduce_and", "reduce_max", "reduce_min", "reduce_or", "reduce_sum", "squeeze")
"""Primitives of one array that count axes from the front, so that another axis at the end changes nothing."""

LARGEST_PRODUCT = 4096
"""Products of two numbers per lane, up to which a matrix product is a sum of products."""
FEW_ROWS = 64
"""Rows up to which comparing the index of all of them beats XLA's gather on a CPU."""


def on_cpu() -> bool:
    """Whether programs run on a CPU by default.

    Returns:
        Whether JAX's default backend is the CPU.
    """
    return jax.default_backend() == "cpu"


class Value(NamedTuple):
    """An array, and whether its last axis is the lanes."""

    array: Any
    mapped: bool


Rule = Callable[[core.JaxprEqn, list[Value], int], list[Value] | None]
RULES: dict[str, Rule] = {}
"""By the name of the primitive: (equation, inputs, of which some are mapped, number of lanes) → results, or None to fall back to
`jax.vmap`."""
HEARD: ContextVar[list[tuple[core.JaxprEqn, str, int]] | None] = ContextVar("HEARD", default=None)
"""The log of `explain`: each equation, how it is mapped, and its nesting depth."""
DEPTH: ContextVar[int] = ContextVar("DEPTH", default=0)


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a function as the rule of some primitives.

    Args:
        names: of the primitives.

    Returns:
        A decorator that leaves the function as it is.
    """

    def register(f: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, f))
        return f

    return register


def run(eqns: Sequence[core.JaxprEqn], known: dict, lanes: int) -> None:
    """Evaluate equations in order.

    Args:
        eqns: the equations.
        known: the values of variables; the results are added to it.
        lanes: the number of lanes.
    """
    for eqn in eqns:
        known |= dict(zip(eqn.outvars, equation(eqn, [read(known, v) for v in eqn.invars], lanes), strict=True))


def equation(eqn: core.JaxprEqn, inputs: list[Value], lanes: int) -> list[Value]:
    """Evaluate one equation: once for all lanes where no input is mapped, else by its rule or by `jax.vmap`.

    Args:
        eqn: the equation.
        inputs: the values of its inputs.
        lanes: the number of lanes.

    Returns:
        Its results.
    """
    if not any(value.mapped for value in inputs):
        tell(eqn, "once")
        return [Value(x, False) for x in bind(eqn, [value.array for value in inputs])]
    name = eqn.primitive.name
    if name in RULES:
        place = tell(eqn, "lanes last")
        out = attempt(f"The rule of {name}", lambda: _checked(eqn, RULES[name](eqn, inputs, lanes), lanes))
        if out is not None:
            return out
        tell(eqn, "jax.vmap", place)
    else:
        tell(eqn, "jax.vmap")
    axes = [-1 if v.mapped else None for v in inputs]
    mapped = jax.vmap(lambda *arrays: bind(eqn, arrays), in_axes=axes, out_axes=-1, axis_size=lanes)
    return [Value(x, True) for x in mapped(*[v.array for v in inputs])]


def program(closed: Any, inputs: Sequence[Value], lanes: int) -> list[Value]:
    """Evaluate a program inside an equation.

    Args:
        closed: the closed jaxpr.
        inputs: the values of its inputs.
        lanes: the number of lanes.

    Returns:
        Its results.
    """
    jaxpr = closed.jaxpr
    known = dict(zip(jaxpr.invars, inputs, strict=True))
    known |= dict(zip(jaxpr.constvars, (Value(x, False) for x in closed.consts), strict=True))
    depth = DEPTH.set(DEPTH.get() + 1)
    try:
        run(jaxpr.eqns, known, lanes)
    finally:
        DEPTH.reset(depth)
    return [read(known, v) for v in jaxpr.outvars]


def tell(eqn: core.JaxprEqn, how: str, place: int | None = None) -> int:
    """Log for `explain` how an equation is mapped.

    Args:
        eqn: the equation.
        how: a word or two.
        place: an earlier position of the log; everything since is replaced.

    Returns:
        The position in the log.
    """
    heard = HEARD.get()
    if heard is None:
        return 0
    del heard[len(heard) if place is None else place :]
    heard.append((eqn, how, DEPTH.get()))
    return len(heard) - 1


def _checked(eqn: core.JaxprEqn, out: list[Value] | None, lanes: int) -> list[Value] | None:
    """The results of a rule, if they have the shapes and types that the program states."""
    for v, value in zip(eqn.outvars, out or [], strict=out is not None):
        aval: Any = v.aval
        if jnp.shape(value.array) != (*aval.shape, *[lanes] * value.mapped) or value.array.dtype != aval.dtype:
            raise TypeError(f"{value.array.dtype}{jnp.shape(value.array)} is not {aval} in {lanes} lanes")
    return out


def read(known: dict, v: Any) -> Value:
    """The value of a variable or literal.

    Args:
        known: the values of variables.
        v: the variable or literal.

    Returns:
        Its value.
    """
    return Value(v.val, False) if isinstance(v, core.Literal) else known[v]


def spread(value: Value, lanes: int) -> Array:
    """The array with the lanes as its last axis, repeated where the value is not mapped.

    Args:
        value: the value.
        lanes: the number of lanes.

    Returns:
        The array.
    """
    x = jnp.asarray(value.array) if not value.mapped else value.array
    return x if value.mapped else lax.broadcast_in_dim(x, (*x.shape, lanes), range(x.ndim))


def _shaped(value: Value, shape: tuple[int, ...], lanes: int) -> Array:
    """The array, broadcast to this shape in each lane."""
    x = value.array if isinstance(value.array, jax.Array) else jnp.asarray(value.array)
    axes = jnp.ndim(x) - value.mapped
    dimensions = [*range(axes), *[len(shape)] * value.mapped]
    return x if jnp.shape(x) == (*shape, lanes) else lax.broadcast_in_dim(x, (*shape, lanes), dimensions)


def _shape(eqn: core.JaxprEqn) -> tuple[int, ...]:
    """Of the first result, for one lane."""
    return eqn.outvars[0].aval.shape  # type: ignore[attr-defined]


@rule("jit", "closed_call", "custom_jvp_call", "custom_vjp_call")
def _call(eqn: core.JaxprEqn, inputs: list[Value], lanes: int) -> list[Value] | None:
    if asks_all_lanes(eqn):
        return [Value(jnp.any(inputs[0].array, -1), False)]
    if is_whole(eqn):
        out = WHOLE[eqn.params["name"]](*[_shaped(v, _shape(eqn), lanes) for v in inputs])
        return [Value(x, True) for x in out]
    inner = called(eqn)
    return None if inner is None else program(inner, inputs, lanes)


@rule(*ELEMENTWISE)
def _elementwise(eqn: core.JaxprEqn, inputs: list[Value], lanes: int) -> list[Value]:
    return [Value(x, True) for x in bind(eqn, [_shaped(v, _shape(eqn), lanes) for v in inputs])]


@rule(*UNARY, *FROM_THE_FRONT)
def _as_it_is(eqn: core.JaxprEqn, inputs: list[Value], lanes: int) -> list[Value] | None:
    if eqn.primitive.name == "bitcast_convert_type" and _shape(eqn) != inputs[0].array.shape[:-1]:
        return None  # a wider or narrower type adds or removes the last axis
    return [Value(x, True) for x in bind(eqn, [inputs[0].array])]


@rule("broadcast_in_dim")
def _broadcast(eqn: core.JaxprEqn, inputs: list[Value], lanes: int) -> list[Value]:
    shape = _shape(eqn)
    dimensions = (*eqn.params["broadcast_dimensions"], len(shape))
    return [Value(lax.broadcast_in_dim(inputs[0].array, (*shape, lanes), dimensions), True)]


@rule("reshape")
def _reshape(eqn: core.JaxprEqn, inputs: list[Value], lanes: int) -> list[Value] | None:
    if eqn.params["dimensions"] is not None:
        return None
    return [Value(lax.reshape(inputs[0].array, (*_shape(eqn), lanes)), True)]


@rule("dot_general")
def _products(eqn: core.JaxprEqn, inputs: list[Value], lanes: int) -> list[Value] | None:
    """Small products as sums of products, which XLA fuses; as one matrix product per lane they would be loops over scalars."""
    dtypes, shapes = zip(*((v.aval.dtype, v.aval.shape) for v in eqn.invars), strict=True)  # type: ignore[attr-defined]
    summed, batch = eqn.params["dimension_numbers"]
    shape = tuple(shapes[0][i] for i in summed[0]) + _shape(eqn)
    wider = eqn.params["preferred_element_type"] not in (None, dtypes[0])
    if math.prod(shape) > LARGEST_PRODUCT or wider or dtypes[0] != dtypes[1]:
        return None
    # The axes of the products: those that are summed, those of the batch, the others of the left and those of the right.
    free = [[i for i in range(len(shapes[k])) if i not in (*summed[k], *batch[k])] for k in (0, 1)]
    first = [len(shape) - len(free[0]) - len(free[1]), len(shape) - len(free[1])]
    factors = []
    for k, value in enumerate(inputs):
        order = [*summed[k], *batch[k], *free[k]]
        places = [*range(len(summed[k]) + len(batch[k])), *range(first[k], first[k] + len(free[k]))]
        x = lax.transpose(value.array, [*order, *[len(order)] * value.mapped])
        factors.append(lax.broadcast_in_dim(x, (*shape, lanes), [*places, *[len(shape)] * value.mapped]))
    return [Value(jnp.sum(factors[0] * factors[1], tuple(range(len(summed[0])))), True)]


@rule("dynamic_slice")
def _pick(eqn: core.JaxprEqn, inputs: list[Value], lanes: int) -> list[Value] | None:
    """`values[i]`, each lane at its own i: by a gather from the store as it lies; on a CPU by comparison where there are few."""
    store, *starts = inputs
    sizes, full = eqn.params["slice_sizes"], eqn.invars[0].aval.shape  # type: ignore[attr-defined]
    cut = [axis for axis, (size, whole) in enumerate(zip(sizes, full, strict=True)) if size != whole]
    if len(cut) != 1 or sizes[cut[0]] != 1:
        return None
    (axis,) = cut
    x = spread(store, lanes)
    i = jnp.clip(spread(starts[axis], lanes), 0, full[axis] - 1)
    if axis == 0 and (full[0] > FEW_ROWS or not on_cpu()):
        return [Value(jnp.moveaxis(x[i, ..., jnp.arange(lanes)], 0, -1)[None], True)]
    if full[axis] > FEW_ROWS or x.dtype == bool:
        return None
    mine = lax.broadcasted_iota(i.dtype, x.shape, axis) == i
    return [Value(jnp.sum(jnp.where(mine, x, jnp.zeros((), x.dtype)), axis, dtype=x.dtype, keepdims=True), True)]


@rule("concatenate")
def _concatenate(eqn: core.JaxprEqn, inputs: list[Value], lanes: int) -> list[Value]:
    return [Value(x, True) for x in bind(eqn, [spread(v, lanes) for v in inputs])]


@rule("dynamic_update_slice")
def _update_slice(eqn: core.JaxprEqn, inputs: list[Value], lanes: int) -> list[Value] | None:
    store, new, *start = inputs
    if any(v.mapped for v in start):
        return None
    places = [*(v.array for v in start), 0]
    return [Value(lax.dynamic_update_slice(spread(store, lanes), spread(new, lanes), places), True)]


@rule("scatter")
def _scatter(eqn: core.JaxprEqn, inputs: list[Value], lanes: int) -> list[Value] | None:
    """`store.at[i].set(row)`, each lane at its own i: jax.vmap would move all of the store, and back."""
    numbers = eqn.params["dimension_numbers"]
    store, index, row = inputs
    shapes = [v.aval.shape for v in eqn.invars]  # type: ignore[attr-defined]
    one_row = numbers.inserted_window_dims == numbers.scatter_dims_to_operand_dims == (0,) and not numbers.operand_batching_dims
    if not one_row or shapes[1] != (1,) or shapes[2] != shapes[0][1:] or eqn.params["mode"] == lax.GatherScatterMode.CLIP:
        return None
    where = spread(index, lanes)[0]
    where = jnp.where(where < 0, store.array.shape[0], where)  # out of bounds; `at` would count from the end
    rows = jnp.moveaxis(spread(row, lanes), -1, 0)
    put = spread(store, lanes).at[where, ..., jnp.arange(lanes)]
    return [Value(put.set(rows, mode=eqn.params["mode"], unique_indices=True), True)]
