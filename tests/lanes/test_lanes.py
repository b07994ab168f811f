"""Mapping with the lanes last is `jax.vmap`, and a function in two parts is the function."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

import programs
from blts import _random, condition, lanes, loop, random, simulate
from blts.lanes import loops, program, rules

LANES = 7
X = jnp.linspace(-1.0, 2.0, LANES * 4).reshape(LANES, 4)
N = jnp.arange(LANES) % 4
KEYS = random.split(random.key(0), LANES)
TABLE = jnp.arange(12.0).reshape(4, 3)


def grow(n, x):
    return lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] * 1.5), (0, x))[1]


CASES = {
    "elementwise": lambda x, n: jnp.where(x > 0, x * n, jax.nn.relu(x) - x.sum()),
    "spread": lambda x, n: (jnp.arange(4) == n) & (x == jnp.max(x)),
    "clipped": lambda x, n: jnp.clip(x, -n / 4, 1.0),
    "reductions": lambda x, n: (x.sum(), x.max(), jnp.argmin(x), jnp.cumsum(x), jnp.sort(x)),
    "products": lambda x, n: (TABLE.T @ x, jnp.outer(x, x), jnp.linalg.solve(jnp.eye(4) + 0.1 * jnp.outer(x, x), x)),
    "places": lambda x, n: (x[n], TABLE[n], x.at[n].set(5.0), x[:3].reshape(3, 1), jnp.concatenate([x, jnp.ones(2)])),
    "written": lambda x, n: (jnp.zeros((6, 4)).at[n].set(x), jnp.zeros(6).at[n + 4].set(1.0, mode="drop")),
    "written outside": lambda x, n: lax.scatter(x, (n - 2)[None], 9.0, lax.ScatterDimensionNumbers((), (0,), (0,)), mode="drop"),
    "clipped into place": lambda x, n: x.at[n + 2].set(7.0, mode="clip"),
    "slices": lambda x, n: (lax.dynamic_update_slice(jnp.zeros(6), x, (1,)), lax.dynamic_slice(x, (n,), (2,))),
    "complex": lambda x, n: jnp.where(n == 0, lax.complex(x, -x).real, lax.complex(x, -x).imag),
    "a loop of one length": lambda x, n: lax.fori_loop(0, 5, lambda i, y: y + i * x.sum(), jnp.zeros(4)),
    "a loop of another length in each lane": grow,
    "a loop whose length is known late": lambda x, n: lax.fori_loop(0, TABLE.shape[0] + jnp.zeros((), int), lambda i, y: y + x, x),
    "rows": lambda x, n: lax.scan(lambda c, row: (c + row.sum() * n, c), 0.0, TABLE),
    "one choice": lambda x, n: lax.cond(jnp.sum(TABLE) > 3, lambda: x + n, lambda: x),
    "a choice in each lane": lambda x, n: lax.switch(n, [lambda: x, lambda: 2 * x, lambda: -x, lambda: x * n]),
    "a constant": lambda x, n: (jnp.arange(3), 2.0),
}


def assert_same(first, last):
    for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(last), strict=True):
        np.testing.assert_allclose(np.moveaxis(np.asarray(a), 0, -1), b, rtol=1e-5, atol=1e-6)


def last(tree):
    return jax.tree.map(lambda x: jnp.moveaxis(x, 0, -1), tree)


@pytest.mark.parametrize("name", CASES)
def test_the_lanes_may_be_last(name):
    f = CASES[name]
    if f is grow:
        f = lambda x, n: grow(n, x[0])  # noqa: E731
    assert_same(jax.vmap(f)(X, N), jax.jit(lanes.vmap(f))(last(X), N))


def test_random_numbers_are_the_same():
    def f(key, x):
        folded = random.fold_in(key, 3)
        return random.normal(folded, (4,)) * x, random.uniform(random.split(key)[1]), jax.random.gamma(_random.stock(key), 2.0)

    assert_same(jax.vmap(f)(KEYS, X), jax.jit(lanes.vmap(f))(KEYS, last(X)))


@pytest.mark.parametrize("agent", ["exact-ts", "ucb1", "eps-greedy"])
def test_a_round_in_two_parts_is_the_round(agent):
    """What depends on the key alone is computed ahead, and nothing else is."""
    parts = condition("gaussian", agent, "dynamic", horizon=9)
    _, state, _ = loop.start(KEYS, parts.env, parts.agent, parts.batching, 9, capacity=9, keep_actions=False)
    words, pair, half = _random.words_of(KEYS).T, jnp.full(LANES, 2), jnp.full(LANES, 1)

    def play(*arguments):
        return loop.play(parts.env, parts.agent, parts.batching, *arguments, jnp.asarray(True))

    example = jax.tree.map(lanes.one_lane, (words, pair, half, state))
    split = lanes.split(play, [example[:2]], example[2:])
    early = split.early[0](words, pair)
    whole = jax.jit(lanes.vmap(play))(words, pair, half, state)
    in_parts = jax.jit(lambda half, state: split.late([split.early[0](words, pair)], half, state))(half, state)
    for a, b in zip(jax.tree.leaves(whole), jax.tree.leaves(in_parts), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    ahead = [value for value in early if value.mapped and value.array.dtype == jnp.complex64]
    assert any(value.array.shape == (15, 1, LANES) for value in ahead) == (agent == "exact-ts")


def test_each_part_is_computed_from_its_own_group():
    def f(a, b, c):
        return jnp.sin(a) * jnp.cos(b), jnp.exp(b) + c, a * 2, jnp.ones(2)

    example = jax.tree.map(lanes.one_lane, (X.T, N.astype(float), X.T))
    parts = lanes.split(f, [example[:1], example[1:2]], example[2:])
    early = [parts.early[0](X.T), parts.early[1](N.astype(float))]
    assert [len(values) for values in early] == [3, 2]  # sin a, 2a and the ones; cos b and exp b
    for whole, part in zip(jax.tree.leaves(f(X.T, N, X.T)[:3]), parts.late(early, X.T), strict=False):
        np.testing.assert_allclose(whole, part, rtol=1e-6)
    late = jax.make_jaxpr(lambda c: parts.late(early, c))(X.T)
    assert not {"sin", "cos", "exp"} & {eqn.primitive.name for eqn in late.eqns}


def test_a_loop_carries_what_is_needed_alone():
    """Of a, b, c, d: `after` reads a; a is made of b; c is made of itself alone, d of all."""

    def turn(key, state):
        a, b, c, d = state
        return (a + b, 2 * b, c + key, a + b + c + d), c > 0

    state = (1.0, 1.0, 1.0, 1.0)
    after = lanes.Program.of(lambda state: state[0], state)
    assert lanes.carried(lanes.Program.of(lambda k, s: (turn(k, s)[0],), 1.0, state), after, state) == [True, True, False, False]
    # Other results of a turn are wanted too, and this one reads c.
    assert lanes.carried(lanes.Program.of(turn, 1.0, state), after, state) == [True, True, True, False]
    assert lanes.taken(state, [True, False, False, True]) == [1.0, 1.0]
    assert lanes.replaced({"a": 1, "b": 2, "c": 3}, [False, True, True], [5, 6]) == {"a": 1, "b": 5, "c": 6}


def equal(begin, turn, *arguments) -> list[int]:
    state = begin(1.0)
    size = len(jax.tree.leaves(state))
    return lanes.equal_leaves(lanes.Program.of(begin, 1.0), lanes.Program.of(turn, *arguments, state), size)


def test_leaves_that_are_always_equal_are_found():
    """b is a; c begins as a and goes another way; d goes as a from another start; e is f, through c, and both are whole numbers."""

    def begin(x):
        return x, x, x, x + 1, jnp.zeros((), int), jnp.zeros((), int)

    def turn(key, state):
        a, b, c, d, e, f = state
        return (a + key, b + key, c - key, d + key, e + (c > 0), jnp.where(True, f + (c > 0), 0) + 0), key

    assert equal(begin, turn, 1.0) == [0, 0, 2, 3, 4, 5]  # f is computed by another expression
    assert equal(begin, lambda key, s: ((*turn(key, s)[0][:5], s[5] + (s[2] > 0)), key), 1.0) == [0, 0, 2, 3, 4, 4]
    # Equal until the second iteration: a and b are made of leaves that part in the first.
    assert equal(lambda x: (x, x, x, x), lambda key, s: ((s[2], s[3], s[2] + 1, s[3] + 2), key), 1.0) == [0, 1, 2, 3]
    # Whole numbers and floats that begin with the same zero are not one.
    assert equal(lambda x: (jnp.zeros(()), jnp.zeros((), int)), lambda key, s: (s, key), 1.0) == [0, 1]
    assert lanes.shared({"a": 1, "b": 2, "c": 3}, [0, 0, 2]) == {"a": 1, "b": 1, "c": 3}


def test_of_equal_leaves_one_is_carried():
    def turn(key, state):
        a, b, c = state
        return (a + key, b + key, c * 2), key

    state = (1.0, 1.0, 1.0)
    after = lanes.Program.of(lambda state: state[1], state)
    assert lanes.carried(lanes.Program.of(turn, 1.0, state), after, state) == [False, True, False]
    assert lanes.carried(lanes.Program.of(turn, 1.0, state), after, state, [0, 0, 2]) == [True, False, False]


@pytest.mark.parametrize("agent", ["exact-ts", "ucb1"])
def test_plays_are_carried_once(agent):
    """The loop's and the batching's, in a real round; the trace is that of a loop that carries both."""
    run = lambda: simulate(0, *condition("gaussian", agent, "dynamic", horizon=40)[:3], horizon=40, replications=3)  # noqa: E731
    found, seen = lanes.equal_leaves, []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lanes, "equal_leaves", lambda *given: seen.append(found(*given)) or list(range(given[-1])))
        jax.clear_caches()
        apart = run()
    jax.clear_caches()
    assert any(first != i for i, first in enumerate(seen[0]))
    assert run() == apart


def test_nothing_is_computed_twice():
    def f(key, x):
        return random.normal(key, (4,)) + x, random.normal(key, (4,)) * x, jnp.sin(x) + jnp.sin(x + 0.0) + jnp.sin(x + 1.0)

    names = [eqn.primitive.name for eqn in lanes.Program.of(f, KEYS[0], X[0]).jaxpr.eqns]
    assert names.count("random_bits") + names.count("complex") == 1
    assert names.count("sin") == 3  # x, x + 0 and x + 1 are not known to be the same

    def tell(x):
        for _ in range(2):
            jax.debug.print("{}", x)
        return x

    told = [eqn.primitive.name for eqn in lanes.Program.of(tell, 1.0).jaxpr.eqns]
    assert sum("callback" in name or "print" in name for name in told) == 2  # what acts on the world acts twice


def test_a_round_is_what_vmap_makes_of_it():
    parts = condition("gaussian", "blts", "dynamic", horizon=9)
    _, state, _ = loop.start(KEYS, parts.env, parts.agent, parts.batching, 9, capacity=9, keep_actions=False)

    def play(key, lane):
        return loop.play(parts.env, parts.agent, parts.batching, _random.words_of(key), *_random.Round.of(3), lane, key is not None)

    first = jax.tree.map(lambda x: jnp.moveaxis(x, -1, 0), state)
    assert_same(jax.jit(jax.vmap(play))(KEYS, first), jax.jit(lanes.vmap(play))(KEYS, state))


# Random programs


def random_function(seed: int):
    body = programs.Maker(seed).program(10)

    def f(*arguments):
        results = [x for some in body(programs.start(*arguments)).values() for x in some]
        return [jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x for x in results]

    return f


def run_random(seed: int) -> list[tuple[np.ndarray, ...]]:
    """All results of a random program: by `jax.vmap`, by `lanes.vmap`, and in three parts by `lanes.split`."""
    f = random_function(seed)

    def all_ways(x, y, n, keys):
        example = jax.tree.map(lanes.one_lane, (keys, last(x), n, last(y)))
        parts = lanes.split(lambda key, x, n, y: f(x, y, n, key), [example[:1], example[1:2]], example[2:])
        early = [parts.early[0](keys), parts.early[1](last(x))]
        return last(jax.vmap(f)(x, y, n, keys)), lanes.vmap(f)(last(x), last(y), n, keys), parts.late(early, n, last(y))

    quickly = {"xla_backend_optimization_level": 0} if lanes.on_cpu() else None  # compiling is what takes long
    found = jax.jit(all_ways, compiler_options=quickly)(programs.X, programs.Y, programs.N, programs.KEYS)
    return [tuple(map(np.asarray, ways)) for ways in zip(*found, strict=True)]


def same(seed: int) -> bool:
    """Equal: numbers to rounding, all others exactly."""
    close = lambda a, b: np.allclose(a, b, rtol=1e-5, atol=1e-6) if a.dtype.kind == "f" else np.array_equal(a, b)  # noqa: E731
    return all(a.shape == b.shape and close(a, b) for a, *others in run_random(seed) for b in others)


@pytest.mark.parametrize("seed", range(16))
def test_random_programs_are_what_vmap_makes_of_them(seed):
    assert same(seed)


def half_of_it(eqn, inputs, lanes):
    return [rules.Value(x * 0.5, True) for x in program.bind(eqn, [inputs[0].array])]


def of_the_next_lane(eqn, inputs, lanes):
    return [rules.Value(jnp.roll(x, 1, -1), True) for x in program.bind(eqn, [inputs[0].array])]


@pytest.mark.parametrize(("name", "mutant"), [("reduce_sum", half_of_it), ("tanh", of_the_next_lane)])
def test_a_wrong_rule_is_found(name, mutant, monkeypatch):
    arguments = (last(programs.X), last(programs.Y), programs.N, programs.KEYS)
    has_it = lambda seed: f"lanes last  {name}:" in lanes.explain(random_function(seed), *arguments)  # noqa: E731
    seeds = [seed for seed in range(8) if has_it(seed)]
    monkeypatch.setitem(rules.RULES, name, mutant)
    assert not all(map(same, seeds))  # one result of the primitive may be of no use


def test_equations_that_are_merged_though_not_equal_are_found(monkeypatch):
    monkeypatch.setattr(program, "_what", lambda eqn, inputs: (eqn.primitive.name, len(inputs), str(eqn.outvars[0].aval)))
    assert not same(0)


# What is not known


def vmap_of(f) -> str:
    """What `explain` says of a function of X and N, whose results are equal by `lanes.vmap`, `lanes.split` and `jax.vmap`."""
    x, n = last(X), N
    example = jax.tree.map(lanes.one_lane, (x, n))
    parts = lanes.split(f, [example[:1]], example[1:])
    expected = jax.vmap(f)(X, N)
    assert_same(expected, jax.jit(lanes.vmap(f))(x, n))
    assert_same(expected, jax.jit(lambda x, n: parts.late([parts.early[0](x)], n))(x, n))
    return lanes.explain(f, x, n)


def doubled_first(x):
    return jnp.concatenate([2 * x[:1], x[1:]])


mystery = Primitive("mystery")
mystery.def_abstract_eval(lambda x: x)
mlir.register_lowering(mystery, mlir.lower_fun(doubled_first, multiple_results=False))
batching.primitive_batchers[mystery] = lambda arrays, axes: (jax.vmap(doubled_first, axes[0])(arrays[0]), 0)


@pytest.mark.parametrize("kind", [float, int, bool])
@pytest.mark.parametrize(("on_cpu", "how"), [(True, "reduce_sum"), (False, "gather")])
def test_an_entry_is_gathered_but_on_a_cpu(on_cpu, how, kind, monkeypatch):
    """Comparing all entries cost a GPU a quarter of its steps a second, and nothing said so: the numbers are the same."""
    monkeypatch.setattr(rules, "on_cpu", lambda: on_cpu)
    values, places = jnp.arange(30).reshape(5, 6).astype(kind), jnp.array([4, 0, 3, 9, -1, 2])
    one = lambda x, i: lax.dynamic_index_in_dim(x, i, keepdims=False)  # noqa: E731
    expected = jax.vmap(one, (1, 0))(values, places)
    np.testing.assert_array_equal(lanes.vmap(one)(values, places), expected)
    used = str(jax.make_jaxpr(lanes.vmap(one))(values, places))
    assert kind is bool or (how in used and ("gather" in used) == (how == "gather"))


def test_an_unknown_primitive_is_left_to_vmap():
    said = vmap_of(lambda x, n: mystery.bind(x * 2) + n)
    assert re.search(r"^jax.vmap    mystery: float32\[4\]$", said, re.M)
    assert said.count("jax.vmap") == 1


def mutable(x, n):
    ref = jax.new_ref(x)
    ref[1:2] = x[:1] + n  # a slice: JAX 0.10.0 itself cannot map `ref[1] = …`
    return ref[...] * 2


@pytest.mark.parametrize(
    ("name", "f"),
    [
        ("remat2", lambda x, n: jax.checkpoint(lambda y: jnp.sin(y) * n)(x)),
        ("custom_linear_solve", lambda x, n: lax.custom_linear_solve(lambda y: 2 * y, x * n, lambda _, b: b / 2, symmetric=True)),
        ("pure_callback", lambda x, n: jax.pure_callback(lambda y: 2 * np.asarray(y), x, x, vmap_method="sequential") + n),
        ("jit", mutable),
        ("eigh", lambda x, n: jnp.linalg.eigh(jnp.outer(x, x) + n * jnp.eye(4))[0]),
        ("while", lambda x, n: lax.while_loop(lambda i: i < n, lambda i: i + 1, 0) * x),
        ("bitcast_convert_type", lambda x, n: lax.bitcast_convert_type(x, jnp.uint8)),
        ("scatter", lambda x, n: programs._corner(jnp.zeros((4, 3)), n, x[:3])),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_what_has_no_rule_is_left_to_vmap(name, f):
    assert re.search(rf"^jax.vmap  +{name}\d*:", vmap_of(f), re.M)


def test_loops_of_one_length_have_a_rule_that_keeps_the_lanes_last():
    said = vmap_of(lambda x, n: lax.scan(lambda c, row: (jnp.sin(c) * row.sum(), c), x, TABLE)[0] * n)
    assert re.search(r"^lanes last  scan", said, re.M)
    assert re.search(r"^lanes last    sin", said, re.M)
    assert re.search(r"^once        +reduce_sum", said, re.M)


def raising(*arguments):
    raise KeyError("a parameter that this JAX does not have")


@pytest.mark.parametrize(
    ("place", "name", "broken", "what"),
    [
        (rules.RULES, "sin", raising, "The rule of sin"),
        (rules.RULES, "sin", lambda eqn, inputs, lanes: [rules.Value(inputs[0].array[:2], True)], "The rule of sin"),
        (rules.RULES, "sin", lambda eqn, inputs, lanes: [rules.Value(inputs[0].array.astype(int), True)], "The rule of sin"),
        (rules.RULES, "sin", lambda eqn, inputs, lanes: [], "The rule of sin"),
        (loops, "_carried", raising, "The rule of scan"),
        (program, "_shortcut", raising, "Inlining"),
    ],
    ids=["it raises", "another shape", "another type", "too few results", "a loop", "inlining"],
)
def test_what_fails_is_left_to_vmap(place, name, broken, what, monkeypatch):
    (monkeypatch.setitem if place is rules.RULES else monkeypatch.setattr)(place, name, broken)
    f = lambda x, n: lax.fori_loop(0, 3, lambda i, y: jax.jit(jnp.sin)(y) + n, x)  # noqa: E731
    with pytest.warns(RuntimeWarning, match=what):
        assert_same(jax.vmap(f)(X, N), jax.jit(lanes.vmap(f))(last(X), N))


def test_what_acts_on_the_world_does_so_in_every_lane_and_not_ahead():
    def f(x, n):
        jax.debug.callback(heard.append, x[0])
        return x * n

    heard: list = []
    example = jax.tree.map(lanes.one_lane, (last(X), N))
    parts = lanes.split(f, [example[:1]], example[1:])
    early = parts.early[0](last(X))
    jax.effects_barrier()
    assert heard == []
    parts.late([early], N)
    jax.effects_barrier()
    np.testing.assert_array_equal(np.sort(heard), np.sort(X[:, 0]))
    # A loop carries what is told of it, though nothing else is made of it.
    turn = lanes.Program.of(lambda n, x: (f(x, n) * 0,), 1.0, X[0])
    assert lanes.carried(turn, lanes.Program.of(lambda x: 1.0, X[0]), X[0]) == [True]
