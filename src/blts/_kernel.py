"""All rounds of a tile of lanes in one kernel of an accelerator, written from the program of one round of one lane.

Round by round the state of every lane goes through memory, some thirty times. Here a thread keeps the numbers of one lane in
its registers from the first round to the last, and draws its random numbers itself. Registers have no shapes, so the program
of a round is taken apart into single numbers (`_graph`). What the two rounds of a pair draw from the same blocks is computed
once, and a number of the state that nothing needs, or that always equals another, is not carried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core

from ._graph import Graph, Node, Unsupported, elements, reachable
from ._lanes import Program, on_cpu
from ._typing import Array

NUMBERS = 200  # of a lane that are kept from round to round: an NVIDIA thread has 255 registers
OPERATIONS = 30_000  # in a round: more take minutes to compile
WORTH = 10**8  # rounds in all: fewer take less time than compiling does
LANES, WARPS = 128, 4  # of a tile: one lane a thread


class Plan(NamedTuple):
    outer: list[Array]
    """What is equal for all lanes and rounds."""
    words: list[Node]
    pair: Node
    half: Node
    state: list[list[Node]]
    """The numbers of each leaf before a round. Those that always equal each other are one node."""
    start: dict[Node, Node | tuple[int, int]]
    """What a number of the state begins with: a constant, or what number j of leaf i does."""
    after: dict[Node, Node]
    """What a number of the state is after a round."""
    carried: list[Node]
    """The numbers of the state that change, and are of use."""
    wanted: list[int]
    """The leaves that change, and are of use after the last round."""
    batches: Node
    """How many were closed before the round."""
    regret: Node
    """After the round."""
    due: Node
    action: list[Node]

    @property
    def roots(self) -> list[Node]:
        """All that a round computes."""
        return [*(self.after[node] for node in self.carried), self.batches, self.regret, self.due, *self.action]


def pays(rounds: int) -> bool:
    """Whether a kernel for so many rounds can be compiled here, and is worth it."""
    return jax.default_backend() == "gpu" and rounds >= WORTH and find_spec("jax.experimental.pallas.triton") is not None


def plan(one: Program, begin: Program, end: Program, lanes: Any) -> Plan | None:
    """How a kernel plays `one(words, pair, half, lane)`, where a lane starts as `begin(key)` and `end(words, lane)` is made of
    its last state.

    None where it does something that a kernel cannot, or has too many numbers for registers.
    """
    wanted = end.needs([True] * len(end.jaxpr.outvars))[1:]
    try:
        found = _plan(one, begin, lanes, wanted)
    except Unsupported:
        return None
    return found if len(found.carried) <= NUMBERS else None


def _plan(program: Program, beginning: Program, lanes: Any, wanted: Sequence[bool]) -> Plan:
    leaves, tree = jax.tree.flatten(lanes)
    words, pair, half, *before = program.jaxpr.invars
    untouched = [a is b for a, b in zip(before, program.jaxpr.outvars, strict=False)]
    same, starts = _starts(beginning.jaxpr)
    outside = [a and b for a, b in zip(untouched, same, strict=True)]
    # Numbers that begin equal are taken to stay equal, until a round says otherwise.
    known = [[start or (i, j) for j, start in enumerate(leaf)] for i, leaf in enumerate(starts)]
    classes: list[list[Any]] = [[] if out else leaf for leaf, out in zip(known, outside, strict=True)]
    while True:
        graph = Graph(OPERATIONS)
        ours = [graph.node("word", dtype=words.aval.dtype, place=i) for i in range(words.aval.shape[0])]  # type: ignore[attr-defined]
        which, second = graph.node("pair", dtype=pair.aval.dtype), graph.node("half", dtype=half.aval.dtype)  # type: ignore[attr-defined]
        state = [[graph.node("state", dtype=x.dtype, of=c) for c in some] for x, some in zip(leaves, classes, strict=True)]
        numbers = [
            x[..., 0] if out else elements(x.shape[:-1], nodes) for x, nodes, out in zip(leaves, state, outside, strict=True)
        ]
        inputs = [elements(words.aval.shape, ours), elements((), [which]), elements((), [second]), *numbers]  # type: ignore[attr-defined]
        result = graph.evaluate(program.jaxpr, program.consts, inputs)
        new = [[] if out else graph.flat(x) for x, out in zip(result, outside, strict=False)]
        finer = [[(c, new[i][j].id) for j, c in enumerate(some)] for i, some in enumerate(classes)]
        names: dict[Any, int] = {}
        for c in (c for some in finer for c in some):
            names.setdefault(c, len(names))
        if len(names) == len({c for some in classes for c in some}):
            break
        classes = [[names[c] for c in some] for some in finer]
    lane, due, action = jax.tree.unflatten(program.tree, result)
    regret, due, action = graph.flat(lane.regret)[0], graph.flat(due)[0], graph.flat(action)
    after = {n: m for ns, ms in zip(state, new, strict=True) for n, m in zip(ns, ms, strict=True)}
    start: dict[Node, Any] = {}
    for i, nodes in enumerate(state):
        for j, node in enumerate(nodes):
            start.setdefault(node, known[i][j])
    final = [i for i, of_use in enumerate(wanted) if of_use and not untouched[i]]
    batches = jax.tree.unflatten(tree, state).batches[0]
    live: set[Node] = set()
    roots = [batches, regret, due, *action, *(node for i in final for node in state[i])]
    while roots:
        fresh = {node for node in reachable(roots) if node.op == "state"} - live
        live |= fresh
        roots = [after[node] for node in fresh]
    carried = [n for n in dict.fromkeys(n for nodes in state for n in nodes) if n in live and after[n] is not n]
    return Plan(graph.outer, ours, which, second, state, start, after, carried, final, batches, regret, due, action)


def _starts(jaxpr: core.Jaxpr) -> tuple[list[bool], list[list[Node | None]]]:
    """Which results are equal for all keys; and of each, the numbers that are constants."""
    graph, same, known = Graph(OPERATIONS), set(jaxpr.constvars), {}
    literal = lambda v: isinstance(v, core.Literal)  # noqa: E731
    read = lambda v: graph.literal(v) if literal(v) else known.get(v)  # noqa: E731
    for eqn in jaxpr.eqns:
        if all(literal(v) or v in same for v in eqn.invars):
            same |= set(eqn.outvars)
        inputs = [read(v) for v in eqn.invars]
        if all(x is not None for x in inputs):
            try:
                out = graph.equation(eqn, inputs)
            except Unsupported:
                continue
            known |= {v: x for v, x in zip(eqn.outvars, out, strict=True) if isinstance(x, np.ndarray)}
    values = [read(v) for v in jaxpr.outvars]
    constant = lambda node: node if isinstance(node, Node) and node.op == "constant" else None  # noqa: E731
    sizes = [int(np.prod(v.aval.shape)) for v in jaxpr.outvars]  # type: ignore[attr-defined]
    return (
        [literal(v) or v in same for v in jaxpr.outvars],
        [[None] * size if x is None else [constant(node) for node in x.flat] for x, size in zip(values, sizes, strict=True)],
    )


# The kernel


def play(plan: Plan, words: Array, lanes: Any, written: Any, times: Array, horizon: int) -> tuple[Any, Any]:
    """All rounds: the lanes after the last, and what was written down. Without an accelerator the kernel is interpreted."""
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    leaves, tree = jax.tree.flatten(lanes)
    R, tile = words.shape[-1], LANES
    tiles = -(-R // tile)
    nodes = reachable([*plan.roots, *plan.carried, *(node for i in plan.wanted for node in plan.state[i])])
    level = _levels(nodes, plan)
    fixed = [node for node in nodes if node.op == "state" and level[node] == 0]
    begins = {node: plan.start[node] for node in (*plan.carried, *fixed)}
    read = sorted({place[0] for place in begins.values() if isinstance(place, tuple)})
    keeps = written.actions.shape[0] > 0

    def wide(x: Array) -> Array:
        """With a row for each number, and lanes up to a whole number of tiles."""
        return jnp.pad(x.reshape(-1, R), ((0, 0), (0, tiles * tile - R)))

    inputs = [*(x.reshape(-1) for x in plan.outer), times, wide(words), *(wide(leaves[i]) for i in read)]
    rows = [*(leaves[i] for i in plan.wanted), written.regret, written.ends, *([written.actions] if keeps else [])]
    shapes = [jax.ShapeDtypeStruct((x.size // R, tiles * tile), x.dtype) for x in rows]
    whole = lambda x: pl.BlockSpec(x.shape, lambda i: (0,))  # noqa: E731
    tall = lambda x: pl.BlockSpec((x.shape[0], tile), lambda i: (0, i))  # noqa: E731

    def kernel(*refs):
        outer, (moments, words_ref, *refs) = refs[: len(plan.outer)], refs[len(plan.outer) :]
        of_leaf = dict(zip(read, refs, strict=False))
        *finals, regret_ref, ends_ref = refs[len(read) : len(refs) - keeps]
        lane = jnp.arange(tile)
        compute = partial(_compute, tile=tile, outer=outer, load=triton.load)

        def begin(node: Node) -> Array:
            place = begins[node]
            if isinstance(place, Node):
                return jnp.full(tile, place.params["value"], node.dtype)
            return of_leaf[place[0]][place[1], :]

        base: dict[Node, Any] = {node: words_ref[node.params["place"], :] for node in nodes if node.op == "word"}
        base |= {node: begin(node) for node in fixed}
        compute([node for node in nodes if level[node] == 0], base)

        def rounds(i: Any, carry: tuple) -> tuple:
            """The two rounds of a pair; there is no round 0."""
            known = base | {plan.pair: lax.convert_element_type(i, plan.pair.dtype)}
            compute([node for node in nodes if level[node] == 1], known)  # what does not depend on the state
            return lax.fori_loop(jnp.maximum(2 * i, 1), jnp.minimum(2 * i + 2, horizon + 1), partial(round, known), carry)

        def round(known: dict[Node, Any], t: Any, carry: tuple) -> tuple:
            point, *numbers = carry
            known = known | {plan.half: lax.convert_element_type(t & 1, plan.half.dtype)}
            known |= dict(zip(plan.carried, numbers, strict=True))
            now = moments[point] == t
            spread = lambda node: jnp.broadcast_to(known[node], tile)  # noqa: E731
            compute(plan.roots, known)
            triton.store(regret_ref.at[point, :], spread(plan.regret), mask=jnp.broadcast_to(now, tile))
            triton.store(ends_ref.at[spread(plan.batches), lane], jnp.full(tile, t, ends_ref.dtype), mask=spread(plan.due))
            for j, node in enumerate(plan.action if keeps else []):
                triton.store(refs[-1].at[(t - 1) * len(plan.action) + j, :], spread(node))
            return jnp.minimum(point + now, times.shape[0] - 1), *(spread(plan.after[node]) for node in plan.carried)

        carry = (jnp.int32(0), *(begin(node) for node in plan.carried))
        carry = lax.fori_loop(0, horizon // 2 + 1, rounds, carry)
        last = base | dict(zip(plan.carried, carry[1:], strict=True))
        for ref, i in zip(finals, plan.wanted, strict=True):
            for j, node in enumerate(plan.state[i]):
                ref[j, :] = last[node]

    out = pl.pallas_call(
        kernel,
        grid=(tiles,),
        in_specs=[*map(whole, inputs[: len(plan.outer) + 1]), *map(tall, inputs[len(plan.outer) + 1 :])],
        out_specs=[*map(tall, shapes)],
        out_shape=shapes,
        compiler_params=triton.CompilerParams(num_warps=WARPS, num_stages=1),
        interpret=on_cpu(),
        name="rounds",
    )(*inputs)
    found = [x[:, :R].reshape(old.shape) for x, old in zip(out, rows, strict=True)]
    for i, x in zip(plan.wanted, found, strict=False):
        leaves[i] = x
    return jax.tree.unflatten(tree, leaves), type(written)(*[*found[len(plan.wanted) :], written.actions][:3])


def _levels(nodes: Iterable[Node], plan: Plan) -> dict[Node, int]:
    """When a number is known: always (-1: for all lanes, 0), in a pair of rounds (1), or in one of them (2)."""
    own = {"word": 0, "state": 0, "pair": 1, "half": 2}
    level = {}
    for node in nodes:
        level[node] = max([own.get(node.op, -1), *(level[arg] for arg in node.args)])
        if node.op == "state" and node in plan.carried:
            level[node] = 2
    return level


def _compute(roots: Iterable[Node], known: dict[Node, Any], *, tile: int, outer: Sequence[Any], load: Callable) -> None:
    """Adds the roots, and what they need, to what is known."""
    for node in reachable(roots, known):
        args = [known[arg] for arg in node.args]
        if node.op == "constant":
            known[node] = node.params["value"]
        elif node.op == "outer":
            known[node] = outer[node.params["array"]][node.params["place"]]
        elif node.op == "looked up":
            inside = (args[0] >= 0) & (args[0] < node.params["count"])
            place = jnp.broadcast_to(args[0] + node.params["first"], tile)
            zero = jnp.zeros(tile, node.dtype)
            known[node] = load(outer[node.params["array"]].at[place], mask=jnp.broadcast_to(inside, tile), other=zero)
        elif node.op == "picked":
            index, *xs = args
            value: Any = jnp.zeros(tile, node.dtype)
            for place, x in zip(node.params["places"], xs, strict=True):
                value = jnp.where(index == place, x, value)
            known[node] = value
        elif all(isinstance(x, np.generic) for x in args):
            with jax.ensure_compile_time_eval():
                known[node] = np.asarray(node.op.bind(*args, **node.params))[()]
        else:
            shape = jnp.broadcast_shapes(*map(jnp.shape, args))
            known[node] = node.op.bind(*(jnp.broadcast_to(x, shape) for x in args), **node.params)
