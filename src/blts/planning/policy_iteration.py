"""Howard's policy iteration for the average reward, multichain on its way, for many small dense models at once."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._typing import Array, Float, Int, Scalar
from .base import Plan, default_tolerance, rounding, unit
from .elimination import Values, evaluate

CACHED = 2**18
"""Numbers of the chains evaluated together: what a core's cache holds."""
WRITTEN_OUT = 64
"""Up to this many states a sum over successors is written out, so that XLA vectorises it over the models."""


@jax.jit
def howard(
    transitions: Float[Array, "*models states actions states"],
    rewards: Float[Array, "*models states actions"],
    policy: Int[Array, "*models states"] | None = None,
    *,
    tolerance: Scalar | float | None = None,
    most: Int[Array, ""] | int = 100,
) -> Plan:
    """Evaluate the policy, take better actions, until none is: one model, or as many as there are leading axes.

    Gains are compared first and biases among equal gains (Howard 1960; Puterman 1994, §9.2), so a policy with several
    closed classes on the way does no harm. An action is kept unless another is better by more than rounding: the method
    ends, at a policy that the residual certifies or does not. Leading axes are faster than `vmap`; both work.

    Args:
        policy: where to start, such as the plan of a similar model. Without it, the best immediate reward.
        tolerance: the residual that counts as converged, as a share of the largest |reward|; 1e-4 in float32, else 1e-9.
        most: policies to evaluate at most.

    >>> import jax.numpy as jnp
    >>> stay, swap = jnp.eye(2), jnp.eye(2)[::-1]
    >>> plan = howard(jnp.stack([stay, swap], 1), jnp.array([[0.0, 0.0], [1.0, 0.0]]))  # 1 a round for staying in state 1
    >>> plan.policy.tolist(), float(plan.gain), plan.bias.tolist()
    ([1, 0], 1.0, [0.0, 1.0])
    """
    P, r, start, shape = flat(transitions, rewards, policy)
    found = howard_flat(P, r, start, default_tolerance(r.dtype) if tolerance is None else tolerance, most)
    return jax.tree.map(lambda x: x.reshape(*shape, *x.shape[1:]), found)


def flat(transitions: Array, rewards: Array, policy: Array | None) -> tuple[Array, Array, Array, tuple[int, ...]]:
    """Models, rewards and policies along one leading axis, and the shape it stands for. Rewards may be shared by all."""
    transitions, rewards = jnp.asarray(transitions), jnp.asarray(rewards)
    dtype = jnp.promote_types(jnp.result_type(transitions, rewards), jnp.float32)
    start = jnp.argmax(rewards, -1) if policy is None else jnp.asarray(policy)
    shape = np.broadcast_shapes(transitions.shape[:-3], rewards.shape[:-2], start.shape[:-1])
    spread = lambda x, rank: jnp.broadcast_to(x, (*shape, *x.shape[x.ndim - rank :])).reshape(-1, *x.shape[x.ndim - rank :])  # noqa: E731
    return spread(transitions.astype(dtype), 3), spread(rewards.astype(dtype), 2), spread(start.astype(int), 1), shape


def howard_flat(P: Array, r: Array, policy: Array, tolerance: Scalar | float, most: Int[Array, ""] | int) -> Plan:
    """Blocks of models that stay in the cache. A block ends with its own slowest model."""
    models, S = policy.shape
    blocks = max(1, -(-models * S * S // CACHED))
    size = -(-models // blocks)
    fill = jnp.arange(blocks * size) % models

    def one(block: tuple[Array, Array, Array]) -> Plan:
        P, r, policy = (jnp.moveaxis(x, 0, -1) for x in block)
        found = howard_lanes(P, r, policy, tolerance, most)
        return jax.tree.map(lambda x: jnp.moveaxis(x, -1, 0), found)

    if blocks == 1:
        return one((P, r, policy))
    found = lax.map(one, tuple(x[fill].reshape(blocks, size, *x.shape[1:]) for x in (P, r, policy)))
    return jax.tree.map(lambda x: x.reshape(blocks * size, *x.shape[2:])[:models], found)


def howard_lanes(P: Array, r: Array, policy: Array, tolerance: Scalar | float, most: Int[Array, ""] | int) -> Plan:
    """Models as the last axis: P [states, actions, states, lanes], r [states, actions, lanes]."""

    def going(carry):
        return carry[0].any()

    def improve(carry):
        moving, policy, count, *_ = carry
        gain, bias = evaluate(following(P, policy), following(r, policy))
        bias = bias - bias.min(0)
        q = r + expect(P, bias)
        better, kept = improved(P, r, policy, gain, bias, q)
        change = (better != policy).any(0) & moving
        low, high = (kept - bias).min(0), (q.max(1) - bias).max(0)
        # A model that has ended keeps its policy: evaluating it again gives the same numbers.
        return change & (count + 1 < most), jnp.where(change, better, policy), count + moving, policy, bias, low, high

    lanes, number = r.shape[-1], jnp.zeros_like(r[0, 0])
    start = (jnp.ones(lanes, bool), policy, jnp.zeros(lanes, int), policy, jnp.zeros_like(r[:, 0]), number, number)
    _, _, count, policy, bias, low, high = lax.while_loop(going, improve, start)
    residual = high - low + unit(r, bias)
    converged = residual <= tolerance * jnp.abs(r).max((0, 1)) + jnp.finfo(r.dtype).tiny
    return Plan(policy, (low + high) / 2, bias, bias.max(0), residual, count, converged)


def improved(P: Array, r: Array, policy: Array, gain: Values, bias: Values, q: Array) -> tuple[Array, Values]:
    """The improved policy, and q = r + P h at the current one."""
    # Between classes of different gain only that difference counts; where all gains agree they are not looked at.
    slack = 4 * rounding(r, jnp.zeros_like(bias))
    unequal = gain.max(0) - gain.min(0) > slack
    toward = lax.cond(unequal.any(), lambda: jnp.where(unequal, expect(P, gain), 0.0), lambda: jnp.zeros_like(q))
    best, now = toward.max(1), following(toward, policy)
    level = jnp.where(best > now + slack, best, now)
    value = jnp.where(toward >= (level - slack)[:, None], q, -jnp.inf)
    kept, top = following(q, policy), value.max(1)
    stays = (now >= level - slack) & (top <= kept + 2 * rounding(r, bias))
    first = jnp.zeros_like(policy)
    for a in reversed(range(r.shape[1])):  # the smallest best action; argmax over a tiny axis is slower
        first = jnp.where(value[:, a] >= top, a, first)
    return jnp.where(stays, policy, first), kept


def following(table: Array, policy: Array) -> Array:
    """The entries `table[s, policy[s], …]`, by selection and not by gathering."""
    chosen = table[:, 0]
    for a in range(1, table.shape[1]):
        where = (policy == a).reshape(policy.shape[0], *(1,) * (chosen.ndim - policy.ndim), policy.shape[1])
        chosen = jnp.where(where, table[:, a], chosen)
    return chosen


def expect(P: Array, values: Values) -> Array:
    """E[values(s') | s, a] of each lane."""
    if P.shape[2] <= WRITTEN_OUT:
        return sum(P[:, :, x] * values[x] for x in range(P.shape[2]))  # type: ignore[return-value]
    return lax.fori_loop(0, P.shape[2], lambda x, total: total + P[:, :, x] * values[x], jnp.zeros_like(P[:, :, 0]))
