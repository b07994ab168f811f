"""What a planner is given and what it returns.

A model is a table of transitions, dense `[states, actions, states]` or `Sparse`, and expected rewards `[states, actions]`.
With T h = max_a (r_a + P_a h) the optimal Bellman operator and T_π that of a policy, any h whatever bounds both gains:

    min (T_π h − h)  ≤  gain of π  ≤  optimal gain  ≤  max (T h − h).

The width of this interval is a plan's `residual`. It certifies a plan whatever method found it.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

from .._typing import Array, Bool, Float, Int, Scalar


class Plan(NamedTuple):
    """A stationary policy and how good it is known to be. With leading axes in front, that many plans.

    In a model that is not weakly communicating the best gain depends on the state a run starts in. The interval then
    holds the gains from all states, so the residual cannot vanish, and `converged` is false.
    """

    policy: Int[Array, " states"]
    gain: Scalar
    """The middle of the certified interval: at most half the residual from the policy's gain and from the optimal one."""
    bias: Float[Array, " states"]
    """Relative values h, zero at their smallest."""
    span: Scalar
    """max h − min h."""
    residual: Scalar
    """max (T h − h) − min (T_π h − h), and the rounding of h: the policy loses no more than this a round."""
    iterations: Int[Array, ""]
    """Policies evaluated by Howard's method, sweeps of value iteration."""
    converged: Bool[Array, ""]
    """Whether the residual is within the tolerance asked for. NaN never is."""


class Sparse(NamedTuple):
    """At most K successors a pair: `prob[s, a, k]` is the probability of `next[s, a, k]`. A state may appear twice.

    >>> import numpy as np
    >>> stay = Sparse(np.zeros((1, 1, 1), int), np.ones((1, 1, 1)))
    >>> stay.expect(np.array([3.0]))
    array([[3.]])
    """

    next: Int[Array, "states actions k"]
    prob: Float[Array, "states actions k"]

    def expect(self, values: Float[Array, " states"]) -> Float[Array, "states actions"]:
        """E[values(s') | s, a], in NumPy or in JAX: whichever holds the values."""
        return (self.prob * values[self.next]).sum(-1)


Transitions: TypeAlias = "Float[Array, 'states actions states'] | Sparse"


def expected(transitions: Transitions, values: Float[Array, " states"]) -> Float[Array, "states actions"]:
    """E[values(s') | s, a]."""
    return transitions.expect(values) if isinstance(transitions, Sparse) else transitions @ values


def residual(
    transitions: Float[Array, "*models states actions states"], rewards: Float[Array, "*models states actions"], plan: Plan
) -> Float[Array, "*models"]:
    """The certificate of plans that anything may have made, from their policies and biases alone: `Plan.residual`."""
    h = plan.bias
    q = rewards + jnp.einsum("...sat,...t->...sa", transitions, h)
    kept = jnp.take_along_axis(q, plan.policy[..., None], -1)[..., 0]
    size = jnp.abs(rewards).max((-2, -1)) + h.max(-1) - h.min(-1)
    return (q.max(-1) - h).max(-1) - (kept - h).min(-1) + size * jnp.finfo(h.dtype).eps


def default_tolerance(dtype: jax.typing.DTypeLike) -> float:
    """A share of the largest reward: 10⁻⁴ in single precision, where h itself is rounded, 10⁻⁹ in double."""
    return 1e-4 if jnp.finfo(dtype).bits < 64 else 1e-9


def unit(rewards: Float[Array, "states actions *lanes"], bias: Float[Array, "states *lanes"]) -> Float[Array, "*lanes"]:
    """The last digit of r + P h: a residual is not known better than this, and is never reported smaller.

    In a model whose biases are huge T h − h may look constant only because it is a difference of huge numbers.
    """
    return (jnp.abs(rewards).max((0, 1)) + bias.max(0) - bias.min(0)) * jnp.finfo(bias.dtype).eps


def rounding(rewards: Float[Array, "states actions *lanes"], bias: Float[Array, "states *lanes"]) -> Float[Array, "*lanes"]:
    """What may be lost when r + P h is added up: smaller differences are ties."""
    return (2 + bias.shape[0] ** 0.5) * unit(rewards, bias)
