"""Mapping with the lanes last is `jax.vmap`, and a function in two parts is the function."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from blts import _random, condition, loop, random
from blts import lanes as _lanes

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
    assert_same(jax.vmap(f)(X, N), jax.jit(_lanes.vmap(f))(last(X), N))


def test_random_numbers_are_the_same():
    def f(key, x):
        folded = random.fold_in(key, 3)
        return random.normal(folded, (4,)) * x, random.uniform(random.split(key)[1]), jax.random.gamma(_random.stock(key), 2.0)

    assert_same(jax.vmap(f)(KEYS, X), jax.jit(_lanes.vmap(f))(KEYS, last(X)))


@pytest.mark.parametrize("agent", ["exact-ts", "ucb1", "eps-greedy"])
def test_a_round_in_two_parts_is_the_round(agent):
    """What depends on the key alone is computed ahead, and nothing else is."""
    parts = condition("gaussian", agent, "dynamic", horizon=9)
    lanes, _ = loop.start(KEYS, parts.env, parts.agent, parts.batching, 9, horizon=9, keep_actions=False)
    words, pair, half = _random.words_of(KEYS).T, jnp.full(LANES, 2), jnp.full(LANES, 1)

    def play(*arguments):
        return loop.play(parts.env, parts.agent, parts.batching, *arguments, jnp.asarray(True))

    example = jax.tree.map(_lanes.one_lane, (words, pair, half, lanes))
    split = _lanes.split(play, [example[:2]], example[2:])
    early = split.early[0](words, pair)
    whole = jax.jit(_lanes.vmap(play))(words, pair, half, lanes)
    in_parts = jax.jit(lambda half, lanes: split.late([split.early[0](words, pair)], half, lanes))(half, lanes)
    for a, b in zip(jax.tree.leaves(whole), jax.tree.leaves(in_parts), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    ahead = [value for value in early if value.mapped and value.array.dtype == jnp.complex64]
    assert any(value.array.shape == (15, 1, LANES) for value in ahead) == (agent == "exact-ts")


def test_each_part_is_computed_from_its_own_group():
    def f(a, b, c):
        return jnp.sin(a) * jnp.cos(b), jnp.exp(b) + c, a * 2, jnp.ones(2)

    example = jax.tree.map(_lanes.one_lane, (X.T, N.astype(float), X.T))
    parts = _lanes.split(f, [example[:1], example[1:2]], example[2:])
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
    after = _lanes.Program.of(lambda state: state[0], state)
    assert _lanes.carried(_lanes.Program.of(lambda k, s: (turn(k, s)[0],), 1.0, state), after, state) == [True, True, False, False]
    # Other results of a turn are wanted too, and this one reads c.
    assert _lanes.carried(_lanes.Program.of(turn, 1.0, state), after, state) == [True, True, True, False]
    assert _lanes.taken(state, [True, False, False, True]) == [1.0, 1.0]
    assert _lanes.replaced({"a": 1, "b": 2, "c": 3}, [False, True, True], [5, 6]) == {"a": 1, "b": 5, "c": 6}


def test_nothing_is_computed_twice():
    def f(key, x):
        return random.normal(key, (4,)) + x, random.normal(key, (4,)) * x, jnp.sin(x) + jnp.sin(x + 0.0) + jnp.sin(x + 1.0)

    names = [eqn.primitive.name for eqn in _lanes.Program.of(f, KEYS[0], X[0]).jaxpr.eqns]
    assert names.count("random_bits") + names.count("complex") == 1
    assert names.count("sin") == 3  # x, x + 0 and x + 1 are not known to be the same

    def tell(x):
        for _ in range(2):
            jax.debug.print("{}", x)
        return x

    told = [eqn.primitive.name for eqn in _lanes.Program.of(tell, 1.0).jaxpr.eqns]
    assert sum("callback" in name or "print" in name for name in told) == 2  # what acts on the world acts twice


def test_a_round_is_what_vmap_makes_of_it():
    parts = condition("gaussian", "blts", "dynamic", horizon=9)
    lanes, _ = loop.start(KEYS, parts.env, parts.agent, parts.batching, 9, horizon=9, keep_actions=False)

    def play(key, lane):
        return loop.play(parts.env, parts.agent, parts.batching, _random.words_of(key), *_random.Round.of(3), lane, key is not None)

    first = jax.tree.map(lambda x: jnp.moveaxis(x, -1, 0), lanes)
    assert_same(jax.jit(jax.vmap(play))(KEYS, first), jax.jit(_lanes.vmap(play))(KEYS, lanes))
