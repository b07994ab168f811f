"""Small array operations, written for what XLA does well: on a CPU comparisons, elsewhere gathers."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from ._typing import Array, Bool, Int, Tree
from .lanes import on_cpu


def order(values: Int[Array, " n"], most: int | Int[Array, ""]) -> Int[Array, " n"]:
    """Places from the smallest value up, of whole numbers up to `most`.

    One sort of plain integers, a value with its place behind it, which XLA does on a CPU in a tenth of an argsort's time.
    Values too large to leave room for the place are compared without their last bits.
    """
    n = values.shape[0]
    bits = 32 - lax.clz(jnp.asarray(most, jnp.int32))
    shift = jnp.maximum(0, bits + (n.bit_length() - 31))
    return jnp.sort((values >> shift) * n + jnp.arange(n), stable=False) % n


def count(counts: Int[Array, " actions"], action: Int[Array, ""], live: Bool[Array, ""]) -> Int[Array, " actions"]:
    """The counts with one more play of `action` where `live`; a comparison, because XLA's scatters are slow on a CPU."""
    return counts + ((jnp.arange(counts.shape[0]) == action) & live)


FEW = 64  # entries up to which looking at all of them beats XLA's gather on a CPU


def pick(values: Array, index: Int[Array, ""]) -> Array:
    """`values[index]`, on a CPU by comparison where there are few."""
    values = jnp.asarray(values)
    if not on_cpu() or not 1 <= values.shape[0] <= FEW:
        return values[index]
    mine = (jnp.arange(values.shape[0]) == index).reshape(-1, *[1] * (values.ndim - 1))
    if values.dtype == bool:
        return jnp.any(mine & values, 0)
    return jnp.sum(jnp.where(mine, values, jnp.zeros((), values.dtype)), 0, dtype=values.dtype)


def where(mask: Bool[Array, ""], new: Tree, old: Tree) -> Tree:
    """`new` where the mask is true, `old` elsewhere, for every array of two trees."""
    # What a step handed on untouched, such as the world that a replication lives in, need not be copied.
    return jax.tree.map(lambda a, b: a if a is b else jnp.where(mask, a, b), new, old)
