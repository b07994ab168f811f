"""Relative value iteration, for models of any size whose expectations can be computed."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jax import lax

from .._typing import Array, Float, Int, Scalar
from .base import Plan, default_tolerance, unit


def relative_value_iteration(
    expect: Callable[[Float[Array, " states"]], Float[Array, "states actions"]],
    rewards: Float[Array, "states actions"],
    bias: Float[Array, " states"] | None = None,
    *,
    tolerance: Scalar | float | None = None,
    max_iterations: Int[Array, ""] | int = 10_000,
    damping: Scalar | float = 0.2,
) -> Plan:
    """h ← (1 − d) T h + d h, shifted to stay bounded, until T h − h is constant up to the tolerance (White 1963).

    Staying put with probability d makes every policy aperiodic and changes neither gains nor, up to a factor, biases
    (Puterman 1994, §8.5.4); with d = 0 a periodic model may never converge.

    Args:
        expect: h ↦ E[h(s') | s, a]: `lambda h: P @ h`, `Sparse.expect`, or a formula of the model's own.
        rewards: expected rewards `[states, actions]`.
        bias: the initial h, such as the bias of a similar model; zero by default.
        tolerance: the residual to stop at, as a fraction of the largest |reward|; 1e-4 in float32, else 1e-9.
        max_iterations: sweeps.
        damping: d.

    Returns:
        The plan; `converged` is false where the sweeps ran out, and the residual then bounds the loss.

    >>> import jax.numpy as jnp
    >>> swap = jnp.eye(2)[::-1][:, None]  # one action: go to the other state
    >>> plan = relative_value_iteration(lambda h: swap @ h, jnp.array([[0.0], [1.0]]))
    >>> round(float(plan.gain), 3), bool(plan.converged)
    (0.5, True)
    """
    rewards = jnp.asarray(rewards, jnp.promote_types(jnp.result_type(rewards), jnp.float32))
    scale = jnp.abs(rewards).max()
    goal = (default_tolerance(rewards.dtype) if tolerance is None else tolerance) * scale + jnp.finfo(rewards.dtype).tiny

    def backup(h):
        return (rewards + expect(h)).astype(rewards.dtype)

    def going(carry):
        _, residual, count = carry
        return (count < max_iterations) & ~(residual <= goal)

    def sweep(carry):
        h, _, count = carry
        difference = backup(h).max(1) - h
        low, high = difference.min(), difference.max()
        residual = high - low + unit(rewards, h)
        stop = residual <= goal  # keep this h
        return jnp.where(stop, h, h + (1 - damping) * (difference - (low + high) / 2)), residual, count + 1

    h = jnp.zeros_like(rewards[:, 0]) if bias is None else jnp.asarray(bias, rewards.dtype)
    start = (h - (h.min() + h.max()) / 2, jnp.full_like(scale, jnp.inf), jnp.asarray(0))
    h, _, count = lax.while_loop(going, sweep, start)
    q = backup(h)  # again: where the sweeps ran out, the last one changed h
    high, low = (q.max(1) - h).max(), (q.max(1) - h).min()
    residual = high - low + unit(rewards, h)
    return Plan(jnp.argmax(q, 1), (low + high) / 2, h - h.min(), h.max() - h.min(), residual, count, residual <= goal)
