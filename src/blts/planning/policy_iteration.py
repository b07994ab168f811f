"""Howard's policy iteration for the average reward (multichain), for many small dense models at once."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._typing import Array, Float, Int, Scalar
from .base import Plan, default_tolerance, rounding, unit
from .elimination import Values, evaluate

CACHED = 2**18
"""Matrix entries evaluated together: what fits in a core's cache."""
WRITTEN_OUT = 64
"""Up to this many states the sum over successors is unrolled, so that XLA vectorises it over the models."""


@jax.jit
def howard(
    transitions: Float[Array, "*models states actions states"],
    rewards: Float[Array, "*models states actions"],
    policy: Int[Array, "*models states"] | None = None,
    *,
    tolerance: Scalar | float | None = None,
    max_iterations: Int[Array, ""] | int = 100,
) -> Plan:
    """Policy iteration: evaluate the policy and improve it until no action is better.

    Improvement compares gains first and biases among equal gains (Howard 1960; Puterman 1994, §9.2), so intermediate policies
    may have several closed classes. An action is kept unless another is better by more than rounding error, so that the method
    terminates. Leading axes are faster than `vmap`; both work.

    Args:
        transitions: of one model, or of several along leading axes.
        rewards: expected rewards, with the same leading axes or shared by all models.
        policy: the initial policy, such as the plan of a similar model; by default the best immediate reward.
        tolerance: the residual that counts as converged, as a fraction of the largest |reward|; 1e-4 in float32, else 1e-9.
        max_iterations: policies to evaluate.

    Returns:
        A plan per model. `converged` is false where the residual exceeds the tolerance.

    >>> import jax.numpy as jnp
    >>> stay, swap = jnp.eye(2), jnp.eye(2)[::-1]
    >>> plan = howard(jnp.stack([stay, swap], 1), jnp.array([[0.0, 0.0], [1.0, 0.0]]))  # 1 a round for staying in state 1
    >>> plan.policy.tolist(), float(plan.gain), plan.bias.tolist()
    ([1, 0], 1.0, [0.0, 1.0])
    """
    P, r, start, shape = flat(transitions, rewards, policy)
    found = howard_flat(P, r, start, default_tolerance(r.dtype) if tolerance is None else tolerance, max_iterations)
    return jax.tree.map(lambda x: x.reshape(*shape, *x.shape[1:]), found)


def flat(transitions: Array, rewards: Array, policy: Array | None) -> tuple[Array, Array, Array, tuple[int, ...]]:
    """Flatten the leading axes into one.

    Args:
        transitions: as in `howard`.
        rewards: as in `howard`.
        policy: as in `howard`.

    Returns:
        Transitions, rewards and policies with one leading axis, and the shape that it replaces.
    """
    transitions, rewards = jnp.asarray(transitions), jnp.asarray(rewards)
    dtype = jnp.promote_types(jnp.result_type(transitions, rewards), jnp.float32)
    start = jnp.argmax(rewards, -1) if policy is None else jnp.asarray(policy)
    shape = np.broadcast_shapes(transitions.shape[:-3], rewards.shape[:-2], start.shape[:-1])
    spread = lambda x, rank: jnp.broadcast_to(x, (*shape, *x.shape[x.ndim - rank :])).reshape(-1, *x.shape[x.ndim - rank :])  # noqa: E731
    return spread(transitions.astype(dtype), 3), spread(rewards.astype(dtype), 2), spread(start.astype(int), 1), shape


def howard_flat(P: Array, r: Array, policy: Array, tolerance: Scalar | float, max_iterations: Int[Array, ""] | int) -> Plan:
    """Policy iteration in blocks of models that fit in the cache; a block takes as long as its slowest model.

    Args:
        P: transitions `[models, states, actions, states]`.
        r: rewards `[models, states, actions]`.
        policy: initial policies `[models, states]`.
        tolerance: as in `howard`.
        max_iterations: as in `howard`.

    Returns:
        The plans, with the models in front.
    """
    models, S = policy.shape
    blocks = max(1, -(-models * S * S // CACHED))
    size = -(-models // blocks)
    fill = jnp.arange(blocks * size) % models

    def one(block: tuple[Array, Array, Array]) -> Plan:
        P, r, policy = (jnp.moveaxis(x, 0, -1) for x in block)
        found = howard_lanes(P, r, policy, tolerance, max_iterations)
        return jax.tree.map(lambda x: jnp.moveaxis(x, -1, 0), found)

    if blocks == 1:
        return one((P, r, policy))
    found = lax.map(one, tuple(x[fill].reshape(blocks, size, *x.shape[1:]) for x in (P, r, policy)))
    return jax.tree.map(lambda x: x.reshape(blocks * size, *x.shape[2:])[:models], found)


def howard_lanes(P: Array, r: Array, policy: Array, tolerance: Scalar | float, max_iterations: Int[Array, ""] | int) -> Plan:
    """Policy iteration with the models as the last axis.

    Args:
        P: transitions `[states, actions, states, models]`.
        r: rewards `[states, actions, models]`.
        policy: initial policies `[states, models]`.
        tolerance: as in `howard`.
        max_iterations: as in `howard`.

    Returns:
        The plans, with the models as the last axis.
    """

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
        # A model that has terminated keeps its policy; evaluating it again gives the same numbers.
        return change & (count + 1 < max_iterations), jnp.where(change, better, policy), count + moving, policy, bias, low, high

    lanes, number = r.shape[-1], jnp.zeros_like(r[0, 0])
    start = (jnp.ones(lanes, bool), policy, jnp.zeros(lanes, int), policy, jnp.zeros_like(r[:, 0]), number, number)
    _, _, count, policy, bias, low, high = lax.while_loop(going, improve, start)
    residual = high - low + unit(r, bias)
    converged = residual <= tolerance * jnp.abs(r).max((0, 1)) + jnp.finfo(r.dtype).tiny
    return Plan(policy, (low + high) / 2, bias, bias.max(0), residual, count, converged)


def improved(P: Array, r: Array, policy: Array, gain: Values, bias: Values, q: Array) -> tuple[Array, Values]:
    """One improvement step.

    Args:
        P: transitions, with the models as the last axis.
        r: rewards, likewise.
        policy: the policy that was evaluated.
        gain: its gain from every state.
        bias: its bias h.
        q: r + P h.

    Returns:
        The improved policy, and q at the actions of the current one.
    """
    # Actions are compared by gain first. Where all gains agree, only q counts.
    slack = 4 * rounding(r, jnp.zeros_like(bias))
    unequal = gain.max(0) - gain.min(0) > slack
    toward = lax.cond(unequal.any(), lambda: jnp.where(unequal, expect(P, gain), 0.0), lambda: jnp.zeros_like(q))
    best, now = toward.max(1), following(toward, policy)
    level = jnp.where(best > now + slack, best, now)
    value = jnp.where(toward >= (level - slack)[:, None], q, -jnp.inf)
    kept = following(q, policy)
    # The smallest best action; argmax over a tiny axis is slower. XLA may compute q twice, with other last bits, so that no action
    # need reach the maximum of all.
    first, top = jnp.zeros_like(policy), value[:, 0]
    for a in range(1, r.shape[1]):
        above = value[:, a] > top
        first, top = jnp.where(above, a, first), jnp.where(above, value[:, a], top)
    stays = (now >= level - slack) & (top <= kept + 2 * rounding(r, bias))
    return jnp.where(stays, policy, first), kept


def following(table: Array, policy: Array) -> Array:
    """The entries `table[s, policy[s], …]`, by `where` instead of a gather.

    Args:
        table: `[states, actions, …, models]`.
        policy: `[states, models]`.

    Returns:
        `[states, …, models]`.
    """
    chosen = table[:, 0]
    for a in range(1, table.shape[1]):
        where = (policy == a).reshape(policy.shape[0], *(1,) * (chosen.ndim - policy.ndim), policy.shape[1])
        chosen = jnp.where(where, table[:, a], chosen)
    return chosen


def expect(P: Array, values: Values) -> Array:
    """The expected value after one transition.

    Args:
        P: transitions, with the models as the last axis.
        values: one number per state and model.

    Returns:
        E[values(s') | s, a] for every pair and model.
    """
    if P.shape[2] <= WRITTEN_OUT:
        return sum(P[:, :, x] * values[x] for x in range(P.shape[2]))  # type: ignore[return-value]
    return lax.fori_loop(0, P.shape[2], lambda x, total: total + P[:, :, x] * values[x], jnp.zeros_like(P[:, :, 0]))
