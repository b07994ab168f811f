"""`solve`: one model in double precision; the result is certified by its residual, or an error is raised."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import BltsError, ConfigError
from .base import Plan, Transitions, expected
from .chains import evaluated, unichain
from .checks import check
from .classes import structure

DAMPING = 0.2
"""Probability of staying put in value iteration, so that it converges for periodic models."""
SWEEPS = 50
"""Initial number of value-iteration sweeps between two policy evaluations. It doubles: values propagate one state per sweep, and
with evaluations alone they would propagate one state per evaluation."""


class NotConverged(BltsError, ArithmeticError):
    """A model was not solved to the given tolerance. `plan` is the best plan found, with its residual.

    >>> import numpy as np
    >>> from blts.planning import NotConverged, solve
    >>> rng = np.random.default_rng(0)
    >>> try:
    ...     solve(rng.dirichlet(np.ones(20), (20, 3)), rng.random((20, 3)), tolerance=1e-30)
    ... except NotConverged as error:
    ...     print(error.plan.residual < 1e-9)
    True
    """

    def __init__(self, sentence: str, plan: Plan):
        super().__init__(sentence)
        self.plan = plan


def solve(transitions: Transitions, rewards: Any, *, tolerance: float = 1e-9, max_iterations: int = 200) -> Plan:
    """Find a policy whose gain is optimal to within `tolerance` times the largest |reward|.

    Policy iteration with exact (dense or sparse) evaluations and sweeps of value iteration between them, in NumPy and in double
    precision whatever JAX's mode. Only the residual stops it; an unchanged policy does not.

    A model that is not weakly communicating is refused, because its optimal gain depends on the initial state. `structure` gives
    its classes; solve each closed one as a model of its own.

    Args:
        transitions: `[states, actions, states]`, or `Sparse` for models with thousands of states.
        rewards: expected rewards, `[states, actions]`.
        tolerance: the residual to stop at, as a fraction of the largest |reward|.
        max_iterations: policies to evaluate.

    Returns:
        The plan, with `converged` true.

    Raises:
        ConfigError: the arrays are not a model, or the model is not weakly communicating.
        NotConverged: the tolerance was not reached; the error has the best plan found.

    >>> import numpy as np
    >>> right, left = np.eye(3)[[1, 2, 2]], np.eye(3)[[0, 0, 1]]
    >>> plan = solve(np.stack([left, right], 1), [[0.1, 0], [0, 0], [0, 1]])
    >>> plan.policy.tolist(), round(float(plan.gain), 9)
    ([1, 1, 1], 1.0)
    """
    if not tolerance > 0:
        raise ConfigError(f"tolerance must be > 0; got {tolerance}.")
    if max_iterations < 1:
        raise ConfigError(f"max_iterations must be at least 1; got {max_iterations}.")
    transitions, r = check(transitions, rewards)
    found = structure(transitions)
    if not found.weakly_communicating:
        raise ConfigError(_decomposed(found.closed, found.classes, found.staying))
    goal = tolerance * float(np.abs(r).max())
    # Start with a policy that goes to the largest reward: on a long chain, the first sweeps would not find it.
    hint = int(r.max(1).argmax())
    policy = unichain(transitions, r.argmax(1), [hint])
    best = _plan(transitions, r, policy, np.zeros(policy.size), 0, goal)
    sweeps = SWEEPS
    for count in range(1, max_iterations + 1):
        known = best.residual
        policy, h = evaluated(transitions, r, policy, hint)
        if np.isfinite(h).all():
            best = _better(best, _plan(transitions, r, policy, h, count, goal))
        else:
            h = best.bias
        if best.converged:
            return best
        h, hint = _swept(transitions, r, np.asarray(h), sweeps, goal)
        last = _plan(transitions, r, policy, h, count, goal)
        best = _better(best, last)
        if last.converged:  # converged; one exact evaluation reduces the residual further
            policy, h = evaluated(transitions, r, np.asarray(last.policy), hint)
            return _better(best, _plan(transitions, r, policy, h, count + 1, goal))
        if (last.policy == policy).all() and not best.residual <= known / 2:
            break  # no improvement after an exact evaluation and sweeps: rounding error is all that is left
        policy, sweeps = np.asarray(last.policy), min(2 * sweeps, 40 * SWEEPS + policy.size)
    raise NotConverged(
        f"This model was not solved to {goal:.2g}: the best plan found loses at most {best.residual:.2g} a round, in a model "
        f"whose biases span {best.span:.2g}; allow that as tolerance, or drop probabilities that are as good as zero.",
        best,
    )


def _swept(transitions: Transitions, r: np.ndarray, h: np.ndarray, sweeps: int, goal: float) -> tuple[np.ndarray, int]:
    """Relative values after damped value iteration, and the state where they grow fastest."""
    difference = np.zeros_like(h)
    for _ in range(sweeps):
        difference = (r + expected(transitions, h)).max(1) - h  # type: ignore[arg-type]
        low, high = difference.min(), difference.max()
        if high - low <= goal:
            break
        h = h + (1 - DAMPING) * (difference - (low + high) / 2)
    return h, int(difference.argmax())


def _plan(transitions: Transitions, r: np.ndarray, policy: np.ndarray, h: np.ndarray, count: int, goal: float) -> Plan:
    """The greedy policy for h, keeping the given action in ties, with its residual."""
    q = r + np.asarray(expected(transitions, h))  # type: ignore[arg-type]
    every, top = np.arange(r.shape[0]), q.max(1)
    digit = np.finfo(float).eps * (np.abs(r).max() + np.ptp(h))
    policy = np.where(q[every, policy] >= top - 4 * digit, policy, q.argmax(1))
    low, high = (q[every, policy] - h).min(), (top - h).max()
    residual = high - low + digit
    return Plan(policy, (low + high) / 2, h - h.min(), np.ptp(h), residual, np.int64(count), np.bool_(residual <= goal))  # type: ignore[arg-type]


def _better(one: Plan, other: Plan) -> Plan:
    return other if np.isfinite(other.residual) and not other.residual >= one.residual else one


def _decomposed(closed: tuple[bool, ...], classes: tuple[np.ndarray, ...], staying: np.ndarray) -> str:
    ends = [members for members, end in zip(classes, closed, strict=True) if end]
    if len(ends) > 1:
        why = f"runs end in one of {len(ends)} classes that cannot be left, such as those of states {ends[0][0]} and {ends[1][0]}"
    else:
        why = f"a policy can stay for ever in state {staying[0]} and others outside the class of state {ends[0][0]}"
    return (
        f"This model is not weakly communicating ({why}), so its best gain depends on the state a run starts in and is no single "
        "number; solve the part that a run can reach, or give every state a way back."
    )
