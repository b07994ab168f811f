"""`solve`: one model, in double precision, with an answer that is certified or refused."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import BltsError, ConfigError
from .base import Plan, Transitions, expected
from .chains import evaluated, unichain
from .checks import check
from .classes import structure

DAMPING = 0.2
"""Sweeps stay put with this probability, so that periodic models settle."""
SWEEPS = 50
"""Sweeps of value iteration between two evaluations at first; they double, since what a policy does not know spreads one state
a sweep, and by evaluations alone it would spread one state an evaluation."""


class NotConverged(BltsError, ArithmeticError):
    """A model that could not be solved to the tolerance asked for. `plan` is the best found, with its residual."""

    def __init__(self, sentence: str, plan: Plan):
        super().__init__(sentence)
        self.plan = plan


def solve(transitions: Transitions, rewards: Any, *, tolerance: float = 1e-9, most: int = 200) -> Plan:
    """A policy whose gain is the best to within `tolerance` times the largest |reward|, or an error that says what was found.

    Policy iteration with exact (dense or sparse) evaluations and sweeps of value iteration between them, in NumPy and double
    precision whatever JAX's mode. It ends when the residual certifies the plan and by nothing else: a cap that is reached
    raises `NotConverged`, with the plan so far, and a policy that has not changed is no proof either.

    In a model that is not weakly communicating the best gain depends on the state in which a run starts; it is refused,
    since one number cannot say it. `structure` shows the classes; solve each closed one as a model of its own.

    Args:
        transitions: `[states, actions, states]`, or `Sparse` for models of thousands of states.
        rewards: expected rewards, `[states, actions]`.
        most: policies to evaluate at most.

    >>> import numpy as np
    >>> right, left = np.eye(3)[[1, 2, 2]], np.eye(3)[[0, 0, 1]]
    >>> plan = solve(np.stack([left, right], 1), [[0.1, 0], [0, 0], [0, 1]])
    >>> plan.policy.tolist(), round(float(plan.gain), 9)
    ([1, 1, 1], 1.0)
    """
    if not tolerance > 0:
        raise ConfigError(f"tolerance must be > 0; got {tolerance}.")
    if most < 1:
        raise ConfigError(f"most must be at least 1; got {most}.")
    transitions, r = check(transitions, rewards)
    found = structure(transitions)
    if not found.weakly_communicating:
        raise ConfigError(_decomposed(found.closed, found.classes, found.staying))
    goal = tolerance * float(np.abs(r).max())
    # To begin with, go where the best reward is: on a long chain that is far from what the first sweeps would find.
    hint = int(r.max(1).argmax())
    policy = unichain(transitions, r.argmax(1), [hint])
    best = _plan(transitions, r, policy, np.zeros(policy.size), 0, goal)
    sweeps = SWEEPS
    for count in range(1, most + 1):
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
        if last.converged:  # good enough; evaluated exactly it is better still
            policy, h = evaluated(transitions, r, np.asarray(last.policy), hint)
            return _better(best, _plan(transitions, r, policy, h, count + 1, goal))
        if (last.policy == policy).all() and not best.residual <= known / 2:
            break  # evaluated exactly, swept, and no better: this is what rounding leaves
        policy, sweeps = np.asarray(last.policy), min(2 * sweeps, 40 * SWEEPS + policy.size)
    raise NotConverged(
        f"This model was not solved to {goal:.2g}: the best plan found loses at most {best.residual:.2g} a round, in a model "
        f"whose biases span {best.span:.2g}; allow that as tolerance, or drop probabilities that are as good as zero.",
        best,
    )


def _swept(transitions: Transitions, r: np.ndarray, h: np.ndarray, sweeps: int, goal: float) -> tuple[np.ndarray, int]:
    """Relative values after some sweeps of damped value iteration, and a state where they grow fastest."""
    difference = np.zeros_like(h)
    for _ in range(sweeps):
        difference = (r + expected(transitions, h)).max(1) - h  # type: ignore[arg-type]
        low, high = difference.min(), difference.max()
        if high - low <= goal:
            break
        h = h + (1 - DAMPING) * (difference - (low + high) / 2)
    return h, int(difference.argmax())


def _plan(transitions: Transitions, r: np.ndarray, policy: np.ndarray, h: np.ndarray, count: int, goal: float) -> Plan:
    """The best policy for h, ties keeping the action of the one given, with its certificate."""
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
