"""A program of one lane as a graph of single numbers: arrays become registers.

Every element of every array is a node, so what only moves elements (reshapes, slices, broadcasts) vanishes, equal numbers are one
node, and what nothing needs is never reached. Arrays that are equal for all lanes and rounds stay arrays outside, for XLA.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial, reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core
from jax.extend.core import primitives as p

from . import _random
from ._lanes import Program, needed
from ._module import is_concrete

ELEMENTWISE = frozenset(
    (
        *("abs", "add", "add_any", "and", "bitcast_convert_type", "cbrt", "ceil", "clamp", "convert_element_type", "copy", "cos"),
        *("div", "eq", "erf_inv", "exp", "exp2", "expm1", "floor", "ge", "gt", "integer_pow", "is_finite", "le", "log", "log1p"),
        *("logistic", "lt", "max", "min", "mul", "ne", "neg", "not", "or", "pow", "rem", "rsqrt", "select_n", "shift_left"),
        *("shift_right_arithmetic", "shift_right_logical", "sign", "sin", "sqrt", "square", "stop_gradient", "sub", "tan", "tanh"),
        "xor",
    )
)
"""What Triton can do to a number."""
FOLDED: dict[str, Callable] = {
    "add": np.add,
    "and": np.bitwise_and,
    "convert_element_type": lambda x: x,
    "eq": np.equal,
    "ge": np.greater_equal,
    "gt": np.greater,
    "le": np.less_equal,
    "lt": np.less,
    "max": np.maximum,
    "min": np.minimum,
    "mul": np.multiply,
    "ne": np.not_equal,
    "neg": np.negative,
    "not": np.invert,
    "or": np.bitwise_or,
    "shift_left": np.left_shift,
    "sub": np.subtract,
    "xor": np.bitwise_xor,
}
"""What NumPy does to constants as XLA would."""
COMMUTATIVE = frozenset(("add", "mul", "max", "min", "and", "or", "xor", "eq", "ne"))
REDUCTIONS = {"reduce_sum": p.add_p, "reduce_max": p.max_p, "reduce_min": p.min_p, "reduce_and": p.and_p, "reduce_or": p.or_p}


class Unsupported(Exception):
    """The program does something that a kernel cannot."""


@dataclass(frozen=True, eq=False, slots=True)
class Node:
    """One number of a lane."""

    id: int
    """Those of its arguments are smaller."""
    op: Any
    """A primitive, or the name of an input."""
    args: tuple[Node, ...] = field(repr=False)  # or a traceback writes out the whole graph
    dtype: np.dtype
    params: dict[str, Any]

    @property
    def constant(self) -> Any | None:
        return self.params["value"] if self.op == "constant" else None

    def is_number(self, value: Any) -> bool:
        return self.op == "constant" and bool(self.params["value"] == value)


Elements = np.ndarray
"""Of nodes; an element that is a complex number or a key is a tuple of them."""


def elements(shape: Sequence[int], items: Iterable[Any]) -> Elements:
    out = np.empty(math.prod(shape), object)
    for i, item in enumerate(items):
        out[i] = item
    return out.reshape(shape)


def reachable(roots: Iterable[Node], stop: Any = ()) -> list[Node]:
    """The nodes that these need, themselves among them, each after its arguments; nothing in `stop`."""
    seen: set[Node] = set()
    waiting = list(roots)
    while waiting:
        node = waiting.pop()
        if node not in seen and node not in stop:
            seen.add(node)
            waiting += node.args
    return sorted(seen, key=lambda node: node.id)


@dataclass
class Graph:
    most: int
    """Nodes; a longer program is not supported."""
    nodes: dict[Any, Node] = field(default_factory=dict)
    outer: list[Any] = field(default_factory=list)
    """The arrays that are equal for all lanes and rounds, of which there are nodes."""
    made: dict[Any, list[Any]] = field(default_factory=dict)
    """What was computed of such arrays, so that it is computed once."""
    shaped: dict[int, tuple[Any, Any]] = field(default_factory=dict)
    """Such arrays that have the numbers of another one, by their id, with both."""

    def node(self, op: Any, args: tuple[Node, ...] = (), *, dtype: Any, **params: Any) -> Node:
        key = (op, *(arg.id for arg in args), np.dtype(dtype), tuple(params.items()))
        if key not in self.nodes:
            if len(self.nodes) >= self.most:
                raise Unsupported("a program that is too long")
            self.nodes[key] = Node(len(self.nodes), op, args, np.dtype(dtype), params)
        return self.nodes[key]

    def number(self, value: Any, dtype: Any) -> Node:
        with np.errstate(all="ignore"):
            value = np.asarray(value).astype(dtype)[()]
        key = ("constant", value.tobytes(), value.dtype)
        return self.nodes.setdefault(key, Node(len(self.nodes), "constant", (), value.dtype, {"value": value}))

    def constant(self, value: Any, dtype: Any) -> Elements:
        array = np.asarray(value)
        return elements(array.shape, (self.number(x, dtype) for x in array.flat))

    def literal(self, v: Any) -> Elements:
        return self.constant(v.val, v.aval.dtype)

    def of_outer(self, array: Any) -> Elements:
        """The numbers of an array that is equal for all lanes."""
        if jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
            return self.keys(self.of_outer(jax.random.key_data(array)))
        if id(array) in self.shaped:
            return self.of_outer(self.shaped[id(array)][1]).reshape(array.shape)
        place = next((i for i, other in enumerate(self.outer) if other is array), len(self.outer))
        if place == len(self.outer):
            self.outer.append(array)
        nodes = (self.node("outer", dtype=array.dtype, array=place, place=j) for j in range(array.size))
        return elements(array.shape, nodes)

    def flat(self, value: Any) -> list[Node]:
        return list((value if isinstance(value, Elements) else self.of_outer(value)).flat)

    # Programs

    def evaluate(self, jaxpr: core.Jaxpr, consts: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
        """The results of a program: elements, or arrays that are equal for all lanes."""
        consts = [self.constant(x, x.dtype) if is_concrete(x) and not _is_key(x) else x for x in consts]
        known = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *arguments], strict=True))
        read = lambda v: self.literal(v) if isinstance(v, core.Literal) else known[v]  # noqa: E731
        live = needed(jaxpr, jaxpr.outvars)
        for eqn in jaxpr.eqns:
            if not live.isdisjoint(eqn.outvars):
                known |= dict(zip(eqn.outvars, self.equation(eqn, [read(v) for v in eqn.invars]), strict=True))
        return [read(v) for v in jaxpr.outvars]

    def equation(self, eqn: core.JaxprEqn, inputs: list[Any]) -> list[Any]:
        outside = [x if not isinstance(x, Elements) else _as_constant(x) for x in inputs]
        name, shape = eqn.primitive.name, eqn.outvars[0].aval.shape  # type: ignore[attr-defined]
        rule = getattr(self, f"_{name}", None)
        strange = rule is None and name not in ELEMENTWISE and name not in REDUCTIONS
        if all(x is not None for x in outside) and (strange or not all(isinstance(x, Elements) for x in inputs)):
            return self.beyond(eqn, outside)
        inner = [x if isinstance(x, Elements) else self.of_outer(x) for x in inputs]
        if name in ELEMENTWISE:
            dtype = eqn.outvars[0].aval.dtype  # type: ignore[attr-defined]
            spread = [np.broadcast_to(x, shape).flat for x in inner]
            return [elements(shape, (self.apply(eqn.primitive, dtype, args, eqn.params) for args in zip(*spread, strict=True)))]
        if name in REDUCTIONS:
            return [self.reduced(inner[0], eqn.params["axes"], partial(self.reduction, REDUCTIONS[name]))]
        if rule is None:
            raise Unsupported(name)
        out = rule(eqn, *inner)
        return out if isinstance(out, list) else [out]

    def beyond(self, eqn: core.JaxprEqn, inputs: list[Any]) -> list[Any]:
        """What is the same for all lanes and rounds, computed outside of the kernel."""
        key = (
            eqn.primitive,
            str(eqn.params),
            *((x.dtype, x.shape, x.tobytes()) if isinstance(x, np.ndarray) else id(x) for x in inputs),
        )
        if key not in self.made:
            out = eqn.primitive.bind(*inputs, **eqn.params)
            self.made[key] = [inputs, *out] if eqn.primitive.multiple_results else [inputs, out]  # so that no other takes their ids
            if eqn.primitive.name in ("reshape", "squeeze", "expand_dims", "broadcast_in_dim") and out.size == inputs[0].size:
                self.shaped[id(out)] = (out, inputs[0])
        return self.made[key][1:]

    # One number

    def apply(self, op: core.Primitive, dtype: Any, args: Any, params: dict[str, Any] | None = None) -> Any:
        """A number made of others, or one that is known to equal it."""
        if any(isinstance(arg, tuple) for arg in args):
            if op.name != "select_n":
                raise Unsupported(f"{op.name} of a complex number or a key")
            return tuple(self.apply(op, a.dtype, (args[0], a, b)) for a, b in zip(*args[1:], strict=True))
        if op.name == "select_n" and (len(args) > 3 or args[0].dtype != bool):
            raise Unsupported("a choice of more than two")
        simple = self.simplified(op.name, np.dtype(dtype), args)
        if simple is not None:
            return simple
        if op.name in COMMUTATIVE:
            args = tuple(sorted(args, key=lambda arg: arg.id))
        kept = {} if op.name in ("select_n", *COMMUTATIVE) else dict(sorted((params or {}).items()))
        return self.node(op, args, dtype=dtype, **kept)

    def simplified(self, name: str, dtype: np.dtype, args: tuple[Node, ...]) -> Node | None:
        if name in ("copy", "stop_gradient") or (name == "convert_element_type" and args[0].dtype == dtype):
            return args[0]
        if name in FOLDED and all(arg.op == "constant" for arg in args):
            with np.errstate(all="ignore"):
                return self.number(FOLDED[name](*(arg.constant for arg in args)), dtype)
        if name == "select_n":
            return self._chosen(*args)
        if len(args) != 2 or dtype.kind == "f":
            return None
        for x, y in (args, args[::-1]):  # whole numbers and truth values
            if (name in ("add", "or", "xor") and y.is_number(0)) or (name == "and" and dtype.kind == "b" and y.is_number(1)):
                return x
            if (name == "and" and y.is_number(0)) or (name == "or" and dtype.kind == "b" and y.is_number(1)):
                return y
        return None

    def _chosen(self, which: Node, old: Node, new: Node) -> Node | None:
        if which.op == "constant":
            return new if which.constant else old
        if old is new:
            return old
        if old.dtype.kind in "iu" and new.op is p.add_p and new.args[0].op == "constant":
            # x where not c, and x + 1 where c; the x may have been picked by the index that c compares.
            one, x = new.args
            index, place = _compared(which)
            if x.op == "picked" and x.args[0] is index and (place, old) in zip(x.params["places"], x.args[1:], strict=True):
                x = old
            if x is old and one.is_number(1):
                return self.apply(p.add_p, old.dtype, (old, self.converted(which, old.dtype)))
        return None

    def converted(self, x: Node, dtype: Any) -> Node:
        params = {"new_dtype": np.dtype(dtype), "weak_type": False, "sharding": None}
        return self.apply(p.convert_element_type_p, dtype, (x,), params)

    def _jit(self, eqn, *inputs):
        return self.evaluate(eqn.params["jaxpr"].jaxpr, eqn.params["jaxpr"].consts, inputs)

    # Reductions

    def reduced(self, x: Elements, axes: Sequence[int], f: Callable[[list[Node]], Node]) -> Elements:
        kept = [axis for axis in range(x.ndim) if axis not in axes]
        rows = x.transpose([*kept, *axes]).reshape([*(x.shape[axis] for axis in kept), -1])
        if not rows.shape[-1]:
            raise Unsupported("a reduction of nothing")
        return elements(rows.shape[:-1], (f(list(rows[i])) for i in np.ndindex(*rows.shape[:-1])))

    def reduction(self, op: core.Primitive, items: list[Node]) -> Node:
        return (self._picked(items) if op is p.add_p else None) or _tree(lambda a, b: self.apply(op, a.dtype, (a, b)), items)

    def _picked(self, items: list[Node]) -> Node | None:
        """Σ_i (x_i where index == i, 0 elsewhere): the one that the index picks, 0 if it is none of them."""
        if not all(item.op is p.select_n_p and item.args[1].is_number(0) for item in items):
            return None
        indices, places = zip(*(_compared(item.args[0]) for item in items), strict=True)
        if indices[0] is None or len(set(indices)) > 1 or len(set(places)) < len(places):
            return None
        index, xs = indices[0], [item.args[2] for item in items]
        array, first = xs[0].params.get("array"), xs[0].params.get("place", 0)
        table = all(x.op == "outer" and x.params == {"array": array, "place": first + i} for i, x in enumerate(xs))
        if table and places == tuple(range(len(xs))):
            return self.node("looked up", (index,), dtype=xs[0].dtype, array=array, first=first, count=len(xs))
        return self.node("picked", (index, *xs), dtype=xs[0].dtype, places=places)

    def _extreme(self, larger: core.Primitive, eqn: core.JaxprEqn, x: Elements) -> Elements:
        """`argmax` and `argmin`: the first of the extreme ones, where a NaN is more extreme than any number."""

        def more(first: tuple[Node, Node], second: tuple[Node, Node]) -> tuple[Node, Node]:
            (a, _), (b, _) = first, second
            isnan, isnt = self.apply(p.ne_p, bool, (b, b)), self.apply(p.eq_p, bool, (a, a))
            better = self.apply(p.or_p, bool, (self.apply(larger, bool, (b, a)), self.apply(p.and_p, bool, (isnan, isnt))))
            return self.apply(p.select_n_p, a.dtype, (better, first, second))

        index = lambda row: [(x, self.number(i, eqn.params["index_dtype"])) for i, x in enumerate(row)]  # noqa: E731
        return self.reduced(x, eqn.params["axes"], lambda row: _tree(more, index(row))[1])

    def _argmax(self, eqn, x):
        return self._extreme(p.gt_p, eqn, x)

    def _argmin(self, eqn, x):
        return self._extreme(p.lt_p, eqn, x)

    # Shapes

    def _broadcast_in_dim(self, eqn, x):
        shape, dimensions = eqn.params["shape"], eqn.params["broadcast_dimensions"]
        return np.broadcast_to(
            x.reshape([x.shape[dimensions.index(i)] if i in dimensions else 1 for i in range(len(shape))]), shape
        )

    def _reshape(self, eqn, x):
        return x.reshape(eqn.outvars[0].aval.shape)

    _squeeze = _expand_dims = _reshape

    def _slice(self, eqn, x):
        q = eqn.params
        return x[tuple(map(slice, q["start_indices"], q["limit_indices"], q["strides"] or [1] * x.ndim))]

    def _concatenate(self, eqn, *xs):
        return np.concatenate(xs, eqn.params["dimension"])

    def _stack(self, eqn, *xs):
        return np.stack(xs, eqn.params["axis"])

    def _split(self, eqn, x):
        return np.split(x, np.cumsum(eqn.params["sizes"])[:-1], eqn.params["axis"])

    def _transpose(self, eqn, x):
        return x.transpose(eqn.params["permutation"])

    def _rev(self, eqn, x):
        return np.flip(x, eqn.params["dimensions"])

    def _iota(self, eqn):
        shape, dimension = eqn.params["shape"], eqn.params["dimension"]
        return self.constant(np.indices(shape)[dimension], eqn.params["dtype"])

    # Pairs and keys

    def _complex(self, eqn, x, y):
        return elements(x.shape, zip(x.flat, y.flat, strict=True))

    def _real(self, eqn, x):
        return elements(x.shape, (pair[0] for pair in x.flat))

    def _imag(self, eqn, x):
        return elements(x.shape, (pair[1] for pair in x.flat))

    def _optimization_barrier(self, eqn, *xs):
        return list(xs)

    def keys(self, words: Elements) -> Elements:
        if words.shape[-1] != _random._WORDS:
            raise Unsupported("keys of another generator")
        return elements(words.shape[:-1], map(tuple, words.reshape(-1, _random._WORDS)))

    def _random_wrap(self, eqn, words):
        return self.keys(words)

    def _random_unwrap(self, eqn, keys):
        return elements((*keys.shape, _random._WORDS), (word for key in keys.flat for word in key))

    def _of_keys(self, program: Program, keys: Elements, *others: Elements) -> Elements:
        """What our generator makes of each key."""
        out = []
        for key, *other in zip(keys.flat, *(x.flat for x in others), strict=True):
            words = elements((_random._WORDS,), key)
            out += self.evaluate(program.jaxpr, program.consts, [words, *(elements((), [x]) for x in other)])
        return np.stack(out).reshape((*keys.shape, *out[0].shape))

    def _random_bits(self, eqn, keys):
        return self._of_keys(_bits(eqn.params["bit_width"], eqn.params["shape"]), keys)

    def _random_split(self, eqn, keys):
        return self.keys(self._of_keys(_splits(eqn.params["shape"]), keys))

    def _random_fold_in(self, eqn, keys, data):
        return self.keys(self._of_keys(_folds(data.flat[0].dtype), keys, np.broadcast_to(data, keys.shape)))


def _words() -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((_random._WORDS,), jnp.uint32)


@cache
def _bits(width: int, shape: tuple[int, ...]) -> Program:
    return Program.of(lambda words: _random._bits(words, width, shape), _words())


@cache
def _splits(shape: tuple[int, ...]) -> Program:
    return Program.of(lambda words: _random._split(words, shape), _words())


@cache
def _folds(dtype: Any) -> Program:
    return Program.of(_random._fold_in, _words(), jax.ShapeDtypeStruct((), dtype))


def _is_key(x: Any) -> bool:
    return jnp.issubdtype(x.dtype, jax.dtypes.prng_key)


def _as_constant(x: Elements) -> np.ndarray | None:
    """The array, where all its elements are constants."""
    if not all(isinstance(node, Node) and node.op == "constant" for node in x.flat) or not x.size:
        return None
    return np.array([node.constant for node in x.flat], x.flat[0].dtype).reshape(x.shape)


def _compared(node: Node) -> tuple[Node | None, Any]:
    """(index, i) of the comparison index == i."""
    if node.op is p.eq_p:
        for x, y in (node.args, node.args[::-1]):
            if y.op == "constant":
                return x, y.constant
    return None, None


def _tree(f: Callable, items: list[Any]) -> Any:
    """All items joined two by two, in few steps."""
    while len(items) > 1:
        items = [reduce(f, items[i : i + 2]) for i in range(0, len(items), 2)]
    return items[0]
