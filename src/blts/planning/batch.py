"""`plan`: the planner of the learning loop. It solves thousands of sampled models at once and flags those that did not converge."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from .._typing import Array, Float, Int, Scalar
from .base import Plan, default_tolerance
from .policy_iteration import flat, howard_flat
from .value_iteration import relative_value_iteration

BLOCK = 32
"""Models per block of value iteration: small, so that one slow model does not delay thousands."""


@jax.jit
def plan(
    transitions: Float[Array, "*models states actions states"],
    rewards: Float[Array, "*models states actions"],
    policy: Int[Array, "*models states"] | None = None,
    *,
    tolerance: Scalar | float | None = None,
    max_iterations: Int[Array, ""] | int = 50,
    max_sweeps: Int[Array, ""] | int = 2000,
) -> Plan:
    """Howard's method for all models, then relative value iteration for those that did not converge.

    Where both ran, the plan with the smaller residual is returned. In a nearly decomposable model, its policy is then only
    near-optimal over about `max_sweeps` rounds.

    Args:
        transitions: of one model, or of several along leading axes.
        rewards: expected rewards, with the same leading axes or shared by all models.
        policy: a warm start, such as the policies of the last refresh; by default the best immediate reward.
        tolerance: the residual that counts as converged, as a fraction of the largest |reward|; 1e-4 in float32, else 1e-9.
        max_iterations: of Howard's method; in single precision it may cycle among near ties.
        max_sweeps: of value iteration.

    Returns:
        A plan per model. `converged` is false where the residual exceeds the tolerance.

    >>> import jax.numpy as jnp
    >>> chains = jnp.full((1000, 4, 2, 4), 0.25)
    >>> found = plan(chains, jnp.array([[0.0, 1.0]] * 4))
    >>> found.policy.shape, bool(found.converged.all()), float(found.gain[0])
    ((1000, 4), True, 1.0)
    """
    P, r, start, shape = flat(transitions, rewards, policy)
    tolerance = default_tolerance(r.dtype) if tolerance is None else tolerance
    found = with_value_iteration(P, r, howard_flat(P, r, start, tolerance, max_iterations), tolerance, max_sweeps)
    return jax.tree.map(lambda x: x.reshape(*shape, *x.shape[1:]), found)


def with_value_iteration(P: Array, r: Array, found: Plan, tolerance: Scalar | float, max_sweeps: Int[Array, ""] | int) -> Plan:
    """Run value iteration, block by block, for the models that Howard's method left unconverged.

    Args:
        P: transitions `[models, states, actions, states]`.
        r: rewards `[models, states, actions]`.
        found: the plans of Howard's method.
        tolerance: as in `plan`.
        max_sweeps: as in `plan`.

    Returns:
        The plans, each replaced where value iteration gave a smaller residual.
    """
    size = min(BLOCK, r.shape[0])
    failed = ~found.converged
    order = jnp.argsort(~failed, stable=True)

    @jax.vmap
    def iterate(P, r):
        return relative_value_iteration(lambda h: P @ h, r, tolerance=tolerance, max_iterations=max_sweeps)

    def block(carry):
        k, found = carry
        # The last block may repeat models of the one before; the better plan is kept, so this changes nothing.
        chosen = lax.dynamic_slice_in_dim(order, k * size, size)
        before = jax.tree.map(lambda x: x[chosen], found)
        after = iterate(P[chosen], r[chosen])
        after = after._replace(iterations=before.iterations + after.iterations)
        use = ~before.converged & (after.converged | ~(before.residual <= after.residual))
        best = jax.tree.map(lambda new, old: jnp.where(use.reshape(-1, *(1,) * (new.ndim - 1)), new, old), after, before)
        return k + 1, jax.tree.map(lambda x, new: x.at[chosen].set(new.astype(x.dtype)), found, best)

    return lax.while_loop(lambda carry: carry[0] * size < failed.sum(), block, (jnp.asarray(0), found))[1]
