"""Extended value iteration: the best gain of any model within a confidence set (Jaksch, Ortner and Auer 2010)."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from .._typing import Array, Float, Scalar
from .base import Plan


def most_hopeful(
    rows: Float[Array, "states actions states"], radius: Float[Array, "states actions"], values: Float[Array, " states"]
) -> Float[Array, "states actions"]:
    """max p·values over p with |p - row|₁ ≤ radius, for every pair: mass radius/2 moves from the worst to the best state."""
    order = jnp.argsort(-values)
    p = rows[..., order]
    first = jnp.minimum(1.0, p[..., 0] + radius / 2)
    # Every other state keeps what it has until the total is used up; what is left over is taken from the worst ones.
    before = first[..., None] + jnp.cumsum(p[..., 1:], -1) - p[..., 1:]
    rest = jnp.clip(1.0 - before, 0.0, p[..., 1:])
    return jnp.concatenate([first[..., None], rest], -1) @ values[order]


def extended_value_iteration(
    rows: Float[Array, "states actions states"],
    rewards: Float[Array, "states actions"],
    radius: Float[Array, "states actions"],
    *,
    tolerance: Scalar,
    most: int = 20_000,
) -> Plan:
    """The policy and the gain of the most hopeful model, to within `tolerance`; `rewards` are upper bounds already.

    The optimistic model is aperiodic: a radius above zero lets every state stay where it is wanted. Where the radius is zero
    the sweeps are damped all the same, which changes no gain.
    """
    damping = 0.9

    def sweep(values):
        q = rewards + most_hopeful(rows, radius, values)
        new = jnp.max(q, -1)
        return q, (new - values)

    def body(carry):
        values, _, k = carry
        _, change = sweep(values)
        values = values + damping * change
        return values - jnp.min(values), jnp.max(change) - jnp.min(change), k + 1

    start = (jnp.zeros(rewards.shape[0], rewards.dtype), jnp.asarray(jnp.inf, rewards.dtype), jnp.zeros((), int))
    values, _, k = lax.while_loop(lambda carry: (carry[1] > tolerance) & (carry[2] < most), body, start)
    q, change = sweep(values)
    low, high = jnp.min(change), jnp.max(change)
    return Plan(jnp.argmax(q, -1), (low + high) / 2, values, jnp.max(values), high - low, k, high - low <= tolerance)
