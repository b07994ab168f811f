"""Types shared by the planners: `Plan`, `Sparse`, and the residual that certifies a plan.

A model is a table of transitions, dense `[states, actions, states]` or `Sparse`, and expected rewards `[states, actions]`.
With T h = max_a (r_a + P_a h) the optimal Bellman operator and T_π that of a policy, every vector h bounds both gains:

    min (T_π h − h)  ≤  gain of π  ≤  optimal gain  ≤  max (T h − h).

The width of this interval is the plan's `residual`: an upper bound on what the policy loses, whichever method found it.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

from .._typing import Array, Bool, Float, Int, Scalar


class Plan(NamedTuple):
    """A stationary policy, its average reward (gain), and a bound on its suboptimality. Leading axes hold several plans.

    In a model that is not weakly communicating, the optimal gain depends on the initial state. The certified interval then
    contains the gains from all states, so the residual cannot vanish and `converged` is false.

    >>> import numpy as np
    >>> from blts.planning import solve
    >>> right, left = np.eye(3)[[1, 2, 2]], np.eye(3)[[0, 0, 1]]
    >>> plan = solve(np.stack([left, right], 1), [[0.1, 0], [0, 0], [0, 1]])
    >>> plan.policy.tolist(), round(float(plan.gain), 9), bool(plan.converged)
    ([1, 1, 1], 1.0, True)
    """

    policy: Int[Array, " states"]
    gain: Scalar
    """The midpoint of the certified interval: within half the residual of the policy's gain and of the optimal gain."""
    bias: Float[Array, " states"]
    """Relative values h, zero at their smallest."""
    span: Scalar
    """max h − min h."""
    residual: Scalar
    """max (T h − h) − min (T_π h − h), plus rounding error: an upper bound on what the policy loses per round."""
    iterations: Int[Array, ""]
    """Policies evaluated by Howard's method, or sweeps of value iteration."""
    converged: Bool[Array, ""]
    """Whether the residual is within the tolerance; false for NaN."""


class Sparse(NamedTuple):
    """Transitions with at most K successors per pair: `prob[s, a, k]` is the probability of `next[s, a, k]`; entries may repeat.

    >>> import numpy as np
    >>> stay = Sparse(np.zeros((1, 1, 1), int), np.ones((1, 1, 1)))
    >>> stay.expect(np.array([3.0]))
    array([[3.]])
    """

    next: Int[Array, "states actions k"]
    prob: Float[Array, "states actions k"]

    def expect(self, values: Float[Array, " states"]) -> Float[Array, "states actions"]:
        """The expected value after one transition.

        Args:
            values: one number per state, a NumPy or JAX array.

        Returns:
            E[values(s') | s, a] for every pair, in the same library.
        """
        return (self.prob * values[self.next]).sum(-1)


Transitions: TypeAlias = "Float[Array, 'states actions states'] | Sparse"


def expected(transitions: Transitions, values: Float[Array, " states"]) -> Float[Array, "states actions"]:
    """The expected value after one transition.

    Args:
        transitions: dense or `Sparse`.
        values: one number per state.

    Returns:
        E[values(s') | s, a] for every pair.

    >>> import numpy as np
    >>> from blts.planning import expected
    >>> expected(np.array([[[0.5, 0.5]], [[0.0, 1.0]]]), np.array([0.0, 2.0])).tolist()
    [[1.0], [2.0]]
    """
    return transitions.expect(values) if isinstance(transitions, Sparse) else transitions @ values


def residual(
    transitions: Float[Array, "*models states actions states"], rewards: Float[Array, "*models states actions"], plan: Plan
) -> Float[Array, "*models"]:
    """Recompute `Plan.residual` from the policy and the bias alone, for plans from any source.

    Args:
        transitions: of one model, or of several along leading axes.
        rewards: expected rewards, with the same leading axes.
        plan: the plans, with the same leading axes.

    Returns:
        An upper bound on what each policy loses per round.

    >>> import numpy as np
    >>> from blts.planning import residual, solve
    >>> swap, rewards = np.eye(2)[::-1][:, None], np.array([[0.0], [1.0]])
    >>> bool(residual(swap, rewards, solve(swap, rewards)) < 1e-6)
    True
    """
    h = plan.bias
    q = rewards + jnp.einsum("...sat,...t->...sa", transitions, h)
    kept = jnp.take_along_axis(q, plan.policy[..., None], -1)[..., 0]
    size = jnp.abs(rewards).max((-2, -1)) + h.max(-1) - h.min(-1)
    return (q.max(-1) - h).max(-1) - (kept - h).min(-1) + size * jnp.finfo(h.dtype).eps


def default_tolerance(dtype: jax.typing.DTypeLike) -> float:
    """The default tolerance, as a fraction of the largest |reward|.

    Args:
        dtype: of the rewards.

    Returns:
        10⁻⁴ in single precision, where h itself is rounded; 10⁻⁹ in double.
    """
    return 1e-4 if jnp.finfo(dtype).bits < 64 else 1e-9


def unit(rewards: Float[Array, "states actions *lanes"], bias: Float[Array, "states *lanes"]) -> Float[Array, "*lanes"]:
    """The rounding error of one entry of r + P h. A residual is never reported smaller than this.

    Where the biases are huge, T h − h may look constant only because it is a difference of huge numbers.

    Args:
        rewards: expected rewards, with the models as the last axis.
        bias: h, likewise.

    Returns:
        One number per model.
    """
    return (jnp.abs(rewards).max((0, 1)) + bias.max(0) - bias.min(0)) * jnp.finfo(bias.dtype).eps


def rounding(rewards: Float[Array, "states actions *lanes"], bias: Float[Array, "states *lanes"]) -> Float[Array, "*lanes"]:
    """A bound on the rounding error of the sum r + P h. Smaller differences between actions count as ties.

    Args:
        rewards: expected rewards, with the models as the last axis.
        bias: h, likewise.

    Returns:
        One number per model.
    """
    return (2 + bias.shape[0] ** 0.5) * unit(rewards, bias)
