"""Matrix products, picks of a row and reshapes with the lanes last, against `jax.vmap`."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from blts import lanes

LANES = 5
SIZES = {"i": 2, "j": 3, "k": 4, "b": 3}


def array(axes: str, seed: int):
    shape = [SIZES[axis] for axis in axes]
    return np.random.default_rng(seed).normal(size=(*shape, LANES)).astype(np.float32)


def agree(f, *arguments) -> None:
    expected = jax.vmap(f, -1, -1)(*arguments)
    assert np.allclose(lanes.vmap(f)(*arguments), expected, rtol=1e-5, atol=1e-6)


PRODUCTS = (
    "i,i->",
    "i,j->ij",
    "ij,j->i",
    "ji,j->i",
    "ij,jk->ik",
    "ij,jk->ki",
    "bij,bj->bi",
    "bij,bjk->bik",
    "ijk,jk->i",
    "ib,bj->bij",
)


@pytest.mark.parametrize("product", PRODUCTS)
def test_products_are_sums_of_products(product):
    left, right = product.split("->")[0].split(",")
    a, b = array(left, 0), array(right, 1)
    f = lambda a, b: jnp.einsum(product, a, b)  # noqa: E731
    agree(f, a, b)
    agree(lambda a: f(a, b[..., 0]), a)  # the other is equal for all lanes
    agree(lambda b: f(a[..., 0], b), b)
    assert "dot_general" not in "".join(line for line in str(lanes.explain(f, a, b)).splitlines() if "jax.vmap" in line)


def test_large_products_and_other_types_are_left_to_jax():
    rng = np.random.default_rng(0)
    large = rng.normal(size=(20, 20, LANES)).astype(np.float32)
    agree(lambda a: a @ a, large)
    whole = rng.integers(0, 9, (3, 4, LANES))
    assert np.array_equal(lanes.vmap(lambda a: a @ a.T)(whole), jax.vmap(lambda a: a @ a.T, -1, -1)(whole))
    wider = lambda a: jax.lax.dot(a, a, preferred_element_type=jnp.float32)  # noqa: E731
    half = large.astype(jnp.bfloat16)
    assert lanes.vmap(wider)(half).dtype == jnp.float32


@pytest.mark.parametrize("rows", [3, 100])  # few are compared with all, many gathered
def test_a_row_is_picked_as_jax_does(rows):
    table = np.random.default_rng(0).normal(size=(rows, 2, LANES)).astype(np.float32)
    index = np.array([0, 2, -1, 1, 7])  # the last is beyond the end of three rows
    pick = lambda table, i: jax.lax.dynamic_index_in_dim(table, i, 0, False)  # noqa: E731
    agree(pick, table, index)
    agree(lambda i: pick(jnp.asarray(table[..., 0]), i), index)
    agree(lambda table, i: jax.lax.dynamic_index_in_dim(table.T, i, 1), table, index)
    part = lambda table, i: jax.lax.dynamic_slice(table, (i, 0), (2, 2))  # noqa: E731
    agree(part, table, index)
    flags = table > 0
    assert np.array_equal(lanes.vmap(pick)(flags, index), jax.vmap(pick, -1, -1)(flags, index))


def test_shapes_change_within_a_lane():
    x = array("ijk", 0)
    agree(lambda x: x.reshape(6, 4), x)
    agree(lambda x: x.reshape(-1), x)
    agree(lambda x: jnp.all(x.reshape(2, 12) > 0, 1).astype(float), x)


def test_an_axis_that_comes_and_goes_is_no_work():
    """`x[None][0]` is x, so that a loop can tell that two of its leaves are equal; other first rows are not."""
    program = lanes.Program.of(lambda x: (x[None][0], x + 1.0), jnp.zeros(3))
    assert program.jaxpr.outvars[0] is program.jaxpr.invars[0]
    row = lambda x: jnp.broadcast_to(x[None], (4, 3))[0]  # noqa: E731
    agree(row, array("j", 0))
    agree(lambda x: jnp.squeeze(jax.lax.broadcast_in_dim(x, (1, 3, 3), (1,)), 0), array("j", 0))
    agree(lambda x: jnp.squeeze(jax.lax.broadcast_in_dim(x, (1, 3, 3), (2,)), 0), array("j", 0))
