"""A function as a JAX program for one lane: calls inlined, common subexpressions eliminated."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core
from jax.ref import AbstractRef

from .._typing import Tree

CALLS = {"jit": "jaxpr", "closed_call": "call_jaxpr", "custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr"}
"""Primitives that only call another program, and the parameter that holds it."""
LOOPS = {"while": ("cond_jaxpr", "body_jaxpr"), "scan": ("jaxpr",), "cond": ("branches",)}
"""Primitives that run other programs, and the parameters that hold them."""
WHOLE: dict[str, Callable] = {}
"""Calls that are not inlined, by name: see `elementwise`."""


def elementwise(f: Callable) -> Callable:
    """Mark a function to be mapped as one primitive, not equation by equation.

    Args:
        f: an elementwise function of arrays of one shape; its name must be unique in the package.

    Returns:
        The function, compiled once for each shape.
    """
    f.__name__ = f"blts_{f.__name__}"
    WHOLE[f.__name__] = jax.jit(f)
    return WHOLE[f.__name__]


def _any_lane(flag: Any) -> Any:
    return flag


ANY_LANE = "blts_any_lane"
_any_lane.__name__ = ANY_LANE
WHOLE[ANY_LANE] = jax.jit(_any_lane)


def any_lane(flag: Any) -> Any:
    """Whether a flag is set in any of the lanes that are computed together, the same answer for all of them.

    A loop on this has one length for all lanes, whose bodies mask what is not theirs. A loop on a flag of each lane would copy
    everything that it carries at every iteration. Under `jax.vmap`, which does not know this function, each lane has its own flag
    and the results are the same.

    Args:
        flag: of one lane.

    Returns:
        The flag of all.
    """
    return WHOLE[ANY_LANE](flag)


def asks_all_lanes(eqn: core.JaxprEqn) -> bool:
    """Whether an equation is a call of `any_lane`.

    Args:
        eqn: the equation.

    Returns:
        Whether it is.
    """
    return is_whole(eqn) and eqn.params["name"] == ANY_LANE


class Program(NamedTuple):
    """A function traced for one lane."""

    jaxpr: core.Jaxpr
    consts: Sequence[Any]
    tree: Any
    """The structure of its results."""

    @staticmethod
    def of(f: Callable, *arguments: Tree) -> Program:
        """Trace `f`, inline its calls and eliminate common subexpressions.

        Args:
            f: a function of one lane.
            arguments: of one lane; arrays, or anything with their shapes and dtypes.

        Returns:
            The program, whose inputs and outputs are the leaves of the arguments and of the result.
        """
        leaves, tree = jax.tree.flatten(arguments)
        results: list[Any] = []

        def flat(*leaves):
            out, structure = jax.tree.flatten(f(*jax.tree.unflatten(tree, leaves)))
            results.append(structure)
            return out

        closed = jax.make_jaxpr(flat)(*leaves)
        if _has_refs(closed.jaxpr):
            closed = jax.make_jaxpr(jax.jit(flat))(*leaves)  # one equation, which is not inlined
        closed = attempt("Inlining", lambda: _simplified(closed, leaves)) or closed
        return Program(closed.jaxpr, closed.consts, results[0])

    def needs(self, results: Sequence[bool]) -> list[bool]:
        """Which inputs some outputs, and the side effects, depend on.

        Args:
            results: a flag for each output.

        Returns:
            A flag for each input.
        """
        live = {v for v, wanted in zip(self.jaxpr.outvars, results, strict=True) if wanted and not isinstance(v, core.Literal)}
        for eqn in reversed(self.jaxpr.eqns):
            if eqn.effects or not live.isdisjoint(eqn.outvars):
                live |= {v for v in eqn.invars if not isinstance(v, core.Literal)}
        return [v in live for v in self.jaxpr.invars]


def attempt(what: str, f: Callable) -> Any | None:
    """Run an optimisation that may fail.

    Args:
        what: its name, for the warning.
        f: the optimisation.

    Returns:
        Its result, or None and a `RuntimeWarning` if it raised.
    """
    try:
        return f()
    except Exception as error:
        warnings.warn(f"{what} failed and is left out, at the cost of speed: {error!r}", RuntimeWarning, stacklevel=2)
        return None


def bind(eqn: core.JaxprEqn, inputs: Sequence[Any], **changes: Any) -> Sequence[Any]:
    """Evaluate an equation.

    Args:
        eqn: the equation.
        inputs: the values of its inputs.
        changes: parameters to change.

    Returns:
        A list of its results.
    """
    settings = {**eqn.params, **changes}
    if type(eqn.primitive).get_bind_params is not core.Primitive.get_bind_params:
        settings = eqn.primitive.get_bind_params(settings)  # custom derivatives are bound with functions, not with programs
    out = eqn.primitive.bind(*inputs, **settings)
    return out if eqn.primitive.multiple_results else [out]


def called(eqn: core.JaxprEqn) -> Any | None:
    """The program that an equation calls.

    Args:
        eqn: the equation.

    Returns:
        The program; None for other equations and for calls that are not inlined.
    """
    inner = eqn.params.get(CALLS.get(eqn.primitive.name, ""))
    return None if inner is None or is_whole(eqn) or _has_refs(inner.jaxpr) else inner


def is_whole(eqn: core.JaxprEqn) -> bool:
    """Whether an equation calls a function marked by `elementwise`, or `any_lane`.

    Args:
        eqn: the equation.

    Returns:
        Whether it does.
    """
    return eqn.primitive.name == "jit" and eqn.params["name"] in WHOLE


def _has_refs(jaxpr: core.Jaxpr) -> bool:
    """Whether it makes or takes mutable arrays. Such equations cannot be mapped one by one."""
    variables = [*jaxpr.invars, *(v for eqn in jaxpr.eqns for v in eqn.outvars)]
    return any(isinstance(v.aval, AbstractRef) for v in variables)


class _Made(NamedTuple):
    """Values computed so far, for common-subexpression elimination."""

    origins: dict[int, Any]
    """The equation that made a value, by the value's id: see `_shortcut`."""
    results: dict[Any, Any]
    """The results of an equation, by a key of its primitive, parameters and inputs; with the inputs, to keep their ids alive."""


def _simplified(closed: Any, arguments: Sequence[Any]) -> Any:
    return jax.make_jaxpr(lambda *xs: _inlined(closed.jaxpr, closed.consts, xs, _Made({}, {})))(*arguments)


def _inlined(jaxpr: core.Jaxpr, consts: Sequence[Any], arguments: Sequence[Any], made: _Made) -> list[Any]:
    """The results of a program, with its calls inlined and nothing computed twice."""
    known = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *arguments], strict=True))
    for eqn in jaxpr.eqns:
        inputs = [v.val if isinstance(v, core.Literal) else known[v] for v in eqn.invars]
        name, inner = eqn.primitive.name, called(eqn)
        if inner is not None:
            out = _inlined(inner.jaxpr, inner.consts, inputs, made)
        elif name in LOOPS:
            out = bind(eqn, inputs, **{place: _inside(eqn.params[place]) for place in LOOPS[name] if place in eqn.params})
        else:
            what = _what(eqn, inputs)
            if what not in made.results:
                direct = _shortcut(eqn, inputs, made.origins)
                made.results[what] = (bind(eqn, inputs) if direct is None else [direct], inputs)
            out = made.results[what][0]
            if name in ("broadcast_in_dim", "concatenate", "random_wrap"):
                made.origins[id(out[0])] = (eqn, inputs)
        known |= dict(zip(eqn.outvars, out, strict=True))
    return [v.val if isinstance(v, core.Literal) else known[v] for v in jaxpr.outvars]


def _inside(inner: Any) -> Any:
    """The body of a loop or the branches of a `cond`, simplified; unchanged where its types would change."""
    if isinstance(inner, tuple):
        return tuple(map(_inside, inner))
    new = attempt("Inlining", lambda: _simplified(inner, inner.in_avals))
    return new if new is not None and new.in_avals == inner.in_avals and new.out_avals == inner.out_avals else inner


def _what(eqn: core.JaxprEqn, inputs: Sequence[Any]) -> Any:
    """A key that equations with equal results share; unique for those with side effects or unhashable parameters."""
    settings = eqn.params["name"] if is_whole(eqn) else tuple(eqn.params.items())
    what = (eqn.primitive.name, settings, *map(_identity, inputs))
    try:
        hash(what)
    except TypeError:
        return object()
    return object() if eqn.effects else what


def _identity(x: Any) -> Any:
    """A key of an input: the bits of a constant number, the id of anything else."""
    if isinstance(x, jax.Array) or jnp.size(x) != 1:
        return id(x)
    return str(jnp.result_type(x)), jnp.shape(x), np.asarray(x).tobytes()


def _is_flag(x: Any) -> bool:
    """Whether a value is a constant True or False."""
    return not isinstance(x, jax.Array) and jnp.shape(x) == () and jnp.issubdtype(jnp.result_type(x), bool)


def _shortcut(eqn: core.JaxprEqn, inputs: Sequence[Any], origins: dict[int, Any]) -> Any | None:
    """Simplify `slice(concatenate(xs))` to the matching part, `random_unwrap(random_wrap(x))` and `x[None][0]` to x, and choices by
    a constant.

    A random key is concatenated from words. Without this, all of a round's key would depend on the word that selects one half of
    its normals, and nothing could be drawn in advance.
    """
    name = eqn.primitive.name
    if name == "select_n" and _is_flag(inputs[0]):
        return inputs[1 + bool(inputs[0])]
    if name == "and" and _is_flag(inputs[1]) and inputs[1]:
        return inputs[0]
    if not inputs or id(inputs[0]) not in origins:
        return None
    origin, parts = origins[id(inputs[0])]
    if name == "random_unwrap" and origin.primitive.name == "random_wrap":
        return parts[0]
    if name == "squeeze" and origin.primitive.name == "broadcast_in_dim" and eqn.params["dimensions"] == (0,):
        whole = origin.params["shape"] == (1, *jnp.shape(parts[0])) and len(parts) == 1
        return parts[0] if whole and origin.params["broadcast_dimensions"] == tuple(range(1, jnp.ndim(parts[0]) + 1)) else None
    if name == "slice" and origin.primitive.name == "concatenate" and jnp.ndim(inputs[0]) == 1:
        begin, end, strides = eqn.params["start_indices"][0], eqn.params["limit_indices"][0], eqn.params["strides"]
        offset = 0
        for part in parts:
            if offset <= begin and end <= offset + part.shape[0] and strides in (None, (1,)):
                return lax.slice(part, (begin - offset,), (end - offset,))
            offset += part.shape[0]
    return None
