"""Extended value iteration: the largest gain of any model in a confidence set (Jaksch, Ortner and Auer 2010), for UCRL2."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax

from .._typing import Array, Float, Scalar
from .base import Plan


def optimistic_values(
    rows: Float[Array, "states actions states"], radius: Float[Array, "states actions"], values: Float[Array, " states"]
) -> Float[Array, "states actions"]:
    """max p·values over p with |p - row|₁ ≤ radius, for every pair: mass radius/2 moves from the worst states to the best.

    Args:
        rows: the centres of the confidence sets.
        radius: their L1 radii.
        values: one number per state.

    Returns:
        The optimistic expectation of each pair.
    """
    order = jnp.argsort(-values)
    p = rows[..., order]
    first = jnp.minimum(1.0, p[..., 0] + radius / 2)
    # The others keep their probability until the total reaches 1; the excess is taken from the worst states.
    before = first[..., None] + jnp.cumsum(p[..., 1:], -1) - p[..., 1:]
    rest = jnp.clip(1.0 - before, 0.0, p[..., 1:])
    return jnp.concatenate([first[..., None], rest], -1) @ values[order]


def extended_value_iteration(
    rows: Float[Array, "states actions states"],
    rewards: Float[Array, "states actions"],
    radius: Float[Array, "states actions"],
    *,
    tolerance: Scalar,
    max_iterations: int = 20_000,
) -> Plan:
    """The optimal policy and gain of the most optimistic model.

    A positive radius makes the optimistic model aperiodic. The sweeps are damped for pairs with radius zero, which changes no gain.

    Args:
        rows: the centres of the confidence sets of transition probabilities.
        rewards: upper confidence bounds of the rewards.
        radius: the L1 radii of the sets.
        tolerance: the residual to stop at.
        max_iterations: sweeps.

    Returns:
        The plan; `converged` is false where the sweeps ran out.
    """
    damping = 0.9

    def sweep(values):
        q = rewards + optimistic_values(rows, radius, values)
        new = jnp.max(q, -1)
        return q, (new - values)

    def body(carry):
        values, _, k = carry
        _, change = sweep(values)
        values = values + damping * change
        return values - jnp.min(values), jnp.max(change) - jnp.min(change), k + 1

    start = (jnp.zeros(rewards.shape[0], rewards.dtype), jnp.asarray(jnp.inf, rewards.dtype), jnp.zeros((), int))
    values, _, k = lax.while_loop(lambda carry: (carry[1] > tolerance) & (carry[2] < max_iterations), body, start)
    q, change = sweep(values)
    low, high = jnp.min(change), jnp.max(change)
    return Plan(jnp.argmax(q, -1), (low + high) / 2, values, jnp.max(values), high - low, k, high - low <= tolerance)
