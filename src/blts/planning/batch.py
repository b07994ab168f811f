"""The planner of a learning loop: thousands of sampled models at each refresh, none of them wrong in silence."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from .._typing import Array, Float, Int, Scalar
from .base import Plan, default_tolerance
from .policy_iteration import flat, howard_flat
from .value_iteration import relative_value_iteration

BLOCK = 32
"""Models that value iteration takes on together: few, so that one hard model does not make thousands wait."""


@jax.jit
def plan(
    transitions: Float[Array, "*models states actions states"],
    rewards: Float[Array, "*models states actions"],
    policy: Int[Array, "*models states"] | None = None,
    *,
    tolerance: Scalar | float | None = None,
    most: Int[Array, ""] | int = 50,
    sweeps: Int[Array, ""] | int = 2000,
) -> Plan:
    """Howard's method for all models, then relative value iteration for those that it did not certify.

    Of the two plans of such a model the one with the smaller residual is returned; `converged` says whether it is small
    enough. Policies of a nearly decomposed model are then good for some `sweeps` rounds, and no more is promised.

    Args:
        policy: a warm start, such as the plans of the last refresh.
        tolerance: the residual that counts as converged, as a share of the largest |reward|; 1e-4 in float32, else 1e-9.
        most: policies that Howard's method evaluates at most; in single precision it may go round in a circle of near ties.
        sweeps: sweeps of value iteration at most.

    >>> import jax.numpy as jnp
    >>> chains = jnp.full((1000, 4, 2, 4), 0.25)
    >>> found = plan(chains, jnp.array([[0.0, 1.0]] * 4))
    >>> found.policy.shape, bool(found.converged.all()), float(found.gain[0])
    ((1000, 4), True, 1.0)
    """
    P, r, start, shape = flat(transitions, rewards, policy)
    tolerance = default_tolerance(r.dtype) if tolerance is None else tolerance
    found = rescued(P, r, howard_flat(P, r, start, tolerance, most), tolerance, sweeps)
    return jax.tree.map(lambda x: x.reshape(*shape, *x.shape[1:]), found)


def rescued(P: Array, r: Array, found: Plan, tolerance: Scalar | float, sweeps: Int[Array, ""] | int) -> Plan:
    """Value iteration, block by block, for the models that have not converged: no block if all have."""
    size = min(BLOCK, r.shape[0])
    failed = ~found.converged
    order = jnp.argsort(~failed, stable=True)

    @jax.vmap
    def iterate(P, r):
        return relative_value_iteration(lambda h: P @ h, r, tolerance=tolerance, most=sweeps)

    def block(carry):
        k, found = carry
        # The last block may reach back over models done before; the better plan is kept, so that changes nothing.
        chosen = lax.dynamic_slice_in_dim(order, k * size, size)
        before = jax.tree.map(lambda x: x[chosen], found)
        after = iterate(P[chosen], r[chosen])
        after = after._replace(iterations=before.iterations + after.iterations)
        use = ~before.converged & (after.converged | ~(before.residual <= after.residual))
        best = jax.tree.map(lambda new, old: jnp.where(use.reshape(-1, *(1,) * (new.ndim - 1)), new, old), after, before)
        return k + 1, jax.tree.map(lambda x, new: x.at[chosen].set(new.astype(x.dtype)), found, best)

    return lax.while_loop(lambda carry: carry[0] * size < failed.sum(), block, (jnp.asarray(0), found))[1]
