"""The rules of `while`, `scan` and `cond`. A carried value is mapped if its initial value is, or if an iteration maps it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax import lax
from jax.extend import core

from .program import asks_all_lanes
from .rules import Value, program, rule, spread


def _flags(jaxpr: core.Jaxpr, mapped: Sequence[bool]) -> list[bool]:
    """Which results are mapped, given which arguments are."""
    known = dict(zip(jaxpr.invars, mapped, strict=True))
    for eqn in jaxpr.eqns:
        inputs = [not isinstance(v, core.Literal) and known.get(v, False) for v in eqn.invars]
        mapped_result = any(inputs) and not asks_all_lanes(eqn)
        out = _flags_of_while(eqn, inputs)[1] if eqn.primitive.name == "while" else [mapped_result] * len(eqn.outvars)
        known |= dict(zip(eqn.outvars, out, strict=True))
    return [not isinstance(v, core.Literal) and known.get(v, False) for v in jaxpr.outvars]


def _carried(body: Any, consts: Sequence[bool], carry: Sequence[bool], rest: Sequence[bool] = ()) -> list[bool]:
    """Which carried values are mapped."""
    mapped = list(carry)
    while True:
        out = _flags(body.jaxpr, [*consts, *mapped, *rest])
        more = [a or b for a, b in zip(mapped, out, strict=False)]
        if more == mapped:
            return mapped
        mapped = more


def _flags_of_while(eqn: core.JaxprEqn, inputs: Sequence[bool]) -> tuple[bool, list[bool]]:
    """Whether lanes stop after different iterations, and which carried values are mapped; in the first case all are."""
    p = eqn.params
    a, b = p["cond_nconsts"], p["cond_nconsts"] + p["body_nconsts"]
    mapped = _carried(p["body_jaxpr"], inputs[a:b], inputs[b:])
    (apart,) = _flags(p["cond_jaxpr"].jaxpr, [*inputs[:a], *mapped])
    return apart, [m or apart for m in mapped]


def _arrays(values: Sequence[Value], mapped: Sequence[bool], lanes: int) -> list[Any]:
    return [spread(v, lanes) if m else v.array for v, m in zip(values, mapped, strict=True)]


@rule("while")
def _while(eqn: core.JaxprEqn, inputs: list[Value], lanes: int) -> list[Value] | None:
    p = eqn.params
    a, b = p["cond_nconsts"], p["cond_nconsts"] + p["body_nconsts"]
    test_consts, consts, carry = inputs[:a], inputs[a:b], inputs[b:]
    apart, mapped = _flags_of_while(eqn, [v.mapped for v in inputs])
    if apart:
        return None

    def test(arrays):
        return program(p["cond_jaxpr"], [*test_consts, *map(Value, arrays, mapped)], lanes)[0].array

    def body(arrays):
        return _arrays(program(p["body_jaxpr"], [*consts, *map(Value, arrays, mapped)], lanes), mapped, lanes)

    return list(map(Value, lax.while_loop(test, body, _arrays(carry, mapped, lanes)), mapped))


@rule("scan")
def _scan(eqn: core.JaxprEqn, inputs: list[Value], lanes: int) -> list[Value]:
    p, body = eqn.params, eqn.params["jaxpr"]
    # Inside the body, rows and stacked results have one axis less. JAX 0.10 and 0.11 record their number in different ways.
    ndim = lambda v: v.aval.ndim  # noqa: E731
    num_carry = sum(ndim(v) == ndim(w) for v, w in zip(eqn.outvars, body.jaxpr.outvars, strict=True))
    b = sum(ndim(v) == ndim(w) for v, w in zip(eqn.invars, body.jaxpr.invars, strict=True))
    a = b - num_carry
    consts, carry, rows = inputs[:a], inputs[a:b], inputs[b:]
    flags = [v.mapped for v in rows]
    mapped = _carried(body, [v.mapped for v in consts], [v.mapped for v in carry], flags)

    def turn(arrays, row):
        out = program(body, [*consts, *map(Value, arrays, mapped), *map(Value, row, flags)], lanes)
        return _arrays(out[:num_carry], mapped, lanes), [spread(v, lanes) for v in out[num_carry:]]

    begin, stacked = _arrays(carry, mapped, lanes), [v.array for v in rows]
    carried, made = lax.scan(turn, begin, stacked, length=p["length"], reverse=p["reverse"], unroll=p["unroll"])
    return [*map(Value, carried, mapped), *(Value(x, True) for x in made)]


@rule("cond")
def _cond(eqn: core.JaxprEqn, inputs: list[Value], lanes: int) -> list[Value] | None:
    which, *operands = inputs
    if which.mapped:
        return None  # each lane has its own branch: jax.vmap computes both
    flags = [v.mapped for v in operands]
    branches = [
        lambda *arrays, branch=branch: [spread(v, lanes) for v in program(branch, list(map(Value, arrays, flags)), lanes)]
        for branch in eqn.params["branches"]
    ]
    out = lax.switch(which.array, branches, *[v.array for v in operands])
    return [Value(x, True) for x in out]
