"""Random JAX programs of one lane, for comparing ways to map them.

A program is a list of operations that take values from a pool and add their results to it. Numbers are kept small, so that
programs of any length can be compared to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from blts import random

SHAPES = ((), (1,), (3,), (4,), (4, 3), (4, 4))
TABLE = jnp.linspace(-1.0, 1.0, 48).reshape(4, 4, 3)
"""Equal for all lanes."""

Pool = dict[str, list[Any]]
"""Floats by their shape, such as "(4, 3)"; and "int" (0 … 3), "bool" and "key" for numbers of those kinds."""
Operation = Callable[[Pool], list[Any]]


def start(x: Any, y: Any, n: Any, key: Any) -> Pool:
    """The pool before the first operation, from arguments of shapes (4, 3), (4,), () and ()."""
    pool: Pool = {str(shape): [jnp.full(shape, 0.5)] for shape in SHAPES}
    pool["(4, 3)"] += [x, TABLE[0]]
    pool["(4,)"] += [y, jnp.arange(4.0)]
    pool["(3,)"].append(x[0] * 0.5)
    pool["(4, 4)"].append(jnp.outer(y, y))
    pool["()"] += [y[1], x[0, 2]]
    pool["int"], pool["bool"], pool["key"] = [n, jnp.asarray(2)], [n > 1, y[0] > y[1]], [key]
    return pool


def add(pool: Pool, results: list[Any]) -> None:
    for x in results:
        if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
            kind = "key"
        else:
            kind = "bool" if x.dtype == bool else "int" if jnp.issubdtype(x.dtype, jnp.integer) else str(x.shape)
        pool[kind].append(x)


class Maker:
    """Draws operations; what they will take is decided here, once, by its place in the pool."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.pool: Pool = jax.eval_shape(lambda: start(X[0], Y[0], N[0], KEYS[0]))
        """The types of what is in the pool before the next operation."""

    def take(self, kind: Any) -> Callable[[Pool], Any]:
        i = int(self.rng.integers(len(self.pool[str(kind)])))
        return lambda pool: pool[str(kind)][i]

    def shape(self, *ranks: int) -> tuple[int, ...]:
        some = [shape for shape in SHAPES if not ranks or len(shape) in ranks]
        return some[self.rng.integers(len(some))]

    def one_of(self, **choices: Callable) -> Callable:
        """One of these; the names are for the reader."""
        return list(choices.values())[self.rng.integers(len(choices))]

    def program(self, length: int, nested: bool = True) -> Callable[[Pool], Pool]:
        operations = []
        for _ in range(length):
            kinds = [getattr(self, name) for name in (*SIMPLE, *(NESTED if nested else ()))]
            operation = kinds[self.rng.integers(len(kinds))]()
            operations.append(operation)
            add(self.pool, jax.eval_shape(operation, self.pool))

        def run(pool: Pool) -> Pool:
            pool = {kind: list(some) for kind, some in pool.items()}
            for operation in operations:
                add(pool, operation(pool))
            return pool

        return run

    # Operations without a program inside

    def unary(self) -> Operation:
        f = self.one_of(
            tanh=jnp.tanh,
            sin=jnp.sin,
            gauss=lambda x: jnp.exp(-x * x),
            log=lambda x: jnp.log1p(jnp.abs(x)),
            floor=lambda x: x - jnp.floor(x),
            erf=jax.scipy.special.erf,
            relu=jax.nn.relu,
            softplus=jax.nn.softplus,
            power=lambda x: lax.integer_pow(jnp.tanh(x), 3),
            complex=lambda x: lax.complex(x, -x).imag,
            bits=lambda x: (lax.bitcast_convert_type(x, jnp.uint32) >> np.uint32(9)).astype(jnp.float32) * 1e-7,
            half=lambda x: x.astype(jnp.float16).astype(jnp.float32),
            clip=lambda x: jnp.clip(x, -0.3, 0.7),
        )
        take = self.take(self.shape())
        return lambda pool: [f(take(pool))]

    def binary(self) -> Operation:
        f = self.one_of(
            add=lambda x, y: 0.5 * (x + y),
            mul=lambda x, y: jnp.tanh(x * y),
            div=lambda x, y: x / (1 + y * y),
            max=jnp.maximum,
            atan2=jnp.arctan2,
            rem=lambda x, y: jnp.remainder(x, 1 + jnp.abs(y)),
            power=lambda x, y: (1 + x * x) ** jnp.tanh(y),
        )
        shape = self.shape()
        first, second = self.take(shape), self.take(() if self.rng.random() < 0.4 else shape)
        return lambda pool: [jnp.broadcast_to(f(first(pool), second(pool)), shape)]

    def choose(self) -> Operation:
        shape = self.shape()
        a, b, c, scalar = self.take(shape), self.take(shape), self.take("bool"), self.rng.random() < 0.5
        return lambda pool: [jnp.where(c(pool) if scalar else a(pool) > 0.1, a(pool), b(pool))]

    def reduce(self) -> Operation:
        f = self.one_of(sum=jnp.sum, max=jnp.max, min=jnp.min, mean=jnp.mean, prod=lambda x, i: jnp.prod(jnp.tanh(x), i))
        shape = self.shape(1, 2)
        take, axis = self.take(shape), int(self.rng.integers(len(shape)))
        return lambda pool: [jnp.tanh(f(take(pool), axis))]

    def along(self) -> Operation:
        shape = self.shape(1, 2)
        axis = int(self.rng.integers(len(shape)))
        f = self.one_of(
            cumsum=lambda x: jnp.tanh(jnp.cumsum(x, axis)),
            cummax=lambda x: lax.cummax(x, axis),
            sort=lambda x: jnp.sort(x, axis),
            flip=lambda x: jnp.flip(x, axis),
            roll=lambda x: jnp.roll(x, 1, axis),
            ranks=lambda x: jnp.argsort(x, axis).astype(float),
            softmax=lambda x: jax.nn.softmax(x, axis),
            pad=lambda x: lax.slice_in_dim(jnp.concatenate([x, x], axis), 1, 1 + x.shape[axis], axis=axis),
        )
        take = self.take(shape)
        return lambda pool: [f(take(pool))]

    def which(self) -> Operation:
        take, f = self.take((4,)), self.one_of(argmax=jnp.argmax, argmin=jnp.argmin, count=lambda x: jnp.sum(x > 0) % 4)
        return lambda pool: [f(take(pool))]

    def compare(self) -> Operation:
        a, b = self.take(()), self.take(())
        f = self.one_of(less=lambda x, y: x < y, any=lambda x, y: (x > 0) | (y > 0.3), equal=lambda x, y: x == y)
        return lambda pool: [f(a(pool), b(pool))]

    def count(self) -> Operation:
        a, b = self.take("int"), self.take("int")
        f = self.one_of(sum=lambda x, y: (x + y) % 4, xor=lambda x, y: x ^ y, larger=jnp.maximum, shift=lambda x, y: (x << y) % 4)
        return lambda pool: [f(a(pool), b(pool))]

    def gather(self) -> Operation:
        f = self.one_of(
            row=lambda x, y, n: [x[n]],
            element=lambda x, y, n: [y[n], x[n, n % 3]],
            table=lambda x, y, n: [TABLE[n], TABLE[:, n, 1]],
            slice=lambda x, y, n: [lax.dynamic_slice(y, (n % 2,), (3,))],
            column=lambda x, y, n: [lax.dynamic_index_in_dim(x, n % 3, 1, keepdims=False)],
            places=lambda x, y, n: [y[jnp.arange(3) + n % 2]],
        )
        x, y, n = self.take((4, 3)), self.take((4,)), self.take("int")
        return lambda pool: f(x(pool), y(pool), n(pool))

    def scatter(self) -> Operation:
        f = self.one_of(
            element=lambda x, y, n, row: [y.at[n].set(0.25)],
            row=lambda x, y, n, row: [x.at[n].set(row)],
            outside=lambda x, y, n, row: [x.at[n + 2].set(row, mode="drop")],
            clipped=lambda x, y, n, row: [x.at[n + 2].set(row, mode="clip")],
            plus=lambda x, y, n, row: [x.at[n].add(row * 0.1)],
            column=lambda x, y, n, row: [x.at[:, n % 3].set(y)],
            part=lambda x, y, n, row: [_corner(x, n, row)],
            update=lambda x, y, n, row: [lax.dynamic_update_slice(y, row, (n % 2,)), lax.dynamic_update_slice(y, row, (1,))],
        )
        takes = self.take((4, 3)), self.take((4,)), self.take("int"), self.take((3,))
        return lambda pool: f(*(take(pool) for take in takes))

    def reshape(self) -> Operation:
        x, y, row = self.take((4, 3)), self.take((4, 4)), self.take((1,))
        f = self.one_of(
            transpose=lambda x, y, row: [y.T, x.T.reshape(4, 3)],
            squeeze=lambda x, y, row: [row[0], row.reshape(())],
            repeat=lambda x, y, row: [jnp.tile(row, 4), jnp.broadcast_to(row, (4, 3))],
            bytes=lambda x, y, row: [lax.bitcast_convert_type(x[:, 0], jnp.uint8).astype(float) / 256],
        )
        return lambda pool: f(x(pool), y(pool), row(pool))

    def linear(self) -> Operation:
        f = self.one_of(
            product=lambda x, y, z: [jnp.tanh(x @ x.T), jnp.tanh(x.T @ y), jnp.tanh(z @ y)],
            table=lambda x, y, z: [jnp.tanh(TABLE[0].T @ y), jnp.tanh(jnp.einsum("ijk,jk->i", TABLE, x))],
            solve=lambda x, y, z: [jnp.tanh(jnp.linalg.solve(_positive(z), y))],
            cholesky=lambda x, y, z: [jnp.linalg.cholesky(_positive(z))],
            triangular=lambda x, y, z: [jnp.tanh(jax.scipy.linalg.solve_triangular(_positive(z), y, lower=True))],
            inverse=lambda x, y, z: [jnp.linalg.inv(_positive(z)), jnp.tanh(jnp.linalg.slogdet(_positive(z))[1])],
        )
        x, y, z = self.take((4, 3)), self.take((4,)), self.take((4, 4))
        return lambda pool: f(x(pool), y(pool), z(pool))

    def draw(self) -> Operation:
        f = self.one_of(
            normal=lambda key, n: [random.normal(key, (4,))],
            pair=lambda key, n: [random.normal(key, ()), random.uniform(key, (4, 3))],
            fold=lambda key, n: [random.fold_in(key, n)],
            split=lambda key, n: [*random.split(key)],
            bits=lambda key, n: [(jax.random.bits(key, (), jnp.uint32) % 4).astype(int)],
            gamma=lambda key, n: [jnp.tanh(jax.random.gamma(key, 2.0 + n))],
        )
        key, n = self.take("key"), self.take("int")
        return lambda pool: f(key(pool), n(pool))

    # Operations with programs inside

    def inside(self) -> Callable[[Pool, Any, Any], tuple[Any, Any]]:
        """A short program as a function of the pool, a vector and an integer, to a vector and an integer."""
        pool = {kind: list(some) for kind, some in self.pool.items()}
        run = self.program(int(self.rng.integers(1, 4)), nested=self.rng.random() < 0.3)
        y, n = self.take((4,)), self.take("int")
        self.pool = pool

        def step(pool: Pool, a: Any, i: Any) -> tuple[Any, Any]:
            after = run({**pool, "(4,)": [*pool["(4,)"][:-1], a], "int": [*pool["int"][:-1], i]})
            return jnp.tanh(y(after) + a), (n(after) + i) % 4

        return step

    def loop(self) -> Operation:
        step, y, n = self.inside(), self.take((4,)), self.take("int")

        def until(pool: Pool, i: Any) -> list[Any]:
            go_on = lambda c: (c[0] < i) & (jnp.sum(c[1]) < 6)  # noqa: E731
            return list(lax.while_loop(go_on, lambda c: (c[0] + 1, *step(pool, *c[1:])), (0, y(pool), n(pool)))[1:])

        f = self.one_of(
            fixed=lambda pool: list(lax.fori_loop(0, 3, lambda i, c: step(pool, *c), (y(pool), n(pool)))),
            late=lambda pool: list(lax.fori_loop(0, 3 + 0 * pool["int"][1], lambda i, c: step(pool, *c), (y(pool), n(pool)))),
            apart=lambda pool: list(lax.fori_loop(0, n(pool), lambda i, c: step(pool, *c), (y(pool), n(pool)))),
            until=lambda pool: until(pool, n(pool)),
            constant=lambda pool: [lax.while_loop(lambda i: i < n(pool), lambda i: i + 1, jnp.asarray(0))],
        )
        return f

    def scan(self) -> Operation:
        step, y, n, rows = self.inside(), self.take((4,)), self.take("int"), self.take((4, 4))
        over = [rows, lambda pool: jnp.concatenate([TABLE[0], TABLE[1, :, :1]], 1)][self.rng.integers(2)]
        reverse = bool(self.rng.random() < 0.5)

        def f(pool: Pool) -> list[Any]:
            def turn(c, row):
                a, i = step(pool, c[0] + row, c[1])
                return (a, i), a * row

            (a, i), stacked = lax.scan(turn, (y(pool), n(pool)), over(pool), reverse=reverse)
            return [a, i, stacked]

        return f

    def branch(self) -> Operation:
        steps = [self.inside() for _ in range(2)]
        y, n = self.take((4,)), self.take("int")
        f = self.one_of(
            apart=lambda pool: lax.cond(n(pool) > 1, *(lambda s=s: s(pool, y(pool), n(pool)) for s in steps)),
            same=lambda pool: lax.cond(jnp.sum(TABLE) > 3, *(lambda s=s: s(pool, y(pool), n(pool)) for s in steps)),
            switch=lambda pool: lax.switch(n(pool), [lambda s=s: s(pool, y(pool), n(pool)) for s in (*steps, *steps)]),
        )
        return lambda pool: list(f(pool))

    def call(self) -> Operation:
        step, y, n = self.inside(), self.take((4,)), self.take("int")
        f = self.one_of(
            jit=lambda pool: jax.jit(step)(pool, y(pool), n(pool)),
            checkpoint=lambda pool: jax.checkpoint(step)(pool, y(pool), n(pool)),
            gradient=lambda pool: (jnp.tanh(jax.grad(lambda a: jnp.sum(_smooth(a) * y(pool)))(y(pool))),),
            vmap=lambda pool: (jax.vmap(lambda a: step(pool, a, n(pool))[0])(jnp.stack([y(pool)] * 4)),),
            solver=lambda pool: (_custom_solve(y(pool)),),
        )
        return lambda pool: list(f(pool))


SIMPLE = (
    *("unary", "binary", "choose", "reduce", "along", "which", "compare", "count", "gather", "scatter", "reshape", "linear"),
    "draw",
)
NESTED = ("loop", "scan", "branch", "call")


def _positive(z: Any) -> Any:
    return jnp.eye(4) * 2 + 0.1 * jnp.tanh(z @ z.T)


def _corner(x: Any, n: Any, row: Any) -> Any:
    """Row n of x with another first number: a window that is smaller than a row."""
    return lax.scatter(x, n[None], row[:1], lax.ScatterDimensionNumbers((0,), (0,), (0,)), mode="drop")


def _custom_solve(y: Any) -> Any:
    scale = 2 + jnp.sum(y) ** 2
    return lax.custom_linear_solve(lambda a: scale * a, y, lambda _, b: b / scale, symmetric=True)


@jax.custom_vjp
def _smooth(x: Any) -> Any:
    return jnp.sin(x)


_smooth.defvjp(lambda x: (jnp.sin(x), x), lambda x, t: (0.5 * jnp.cos(x) * t,))

LANES = 4  # as many as some axes have elements: a mixed-up axis must not be told by its length alone
X = jnp.asarray(np.random.default_rng(0).normal(size=(LANES, 4, 3)), jnp.float32)
Y = jnp.asarray(np.random.default_rng(1).normal(size=(LANES, 4)), jnp.float32)
N = jnp.arange(LANES)
KEYS = random.split(random.key(0), LANES)
