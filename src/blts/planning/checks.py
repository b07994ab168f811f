"""Validate transition probabilities and rewards."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ConfigError
from .base import Sparse, Transitions


def check(transitions: Transitions, rewards: Any) -> tuple[Transitions, np.ndarray]:
    """Validate a model and convert it to double precision.

    A row of probabilities may sum to 1 ± 10⁻⁵, as in single precision; it is then rescaled.

    Args:
        transitions: `[states, actions, states]` or `Sparse`.
        rewards: expected rewards `[states, actions]`.

    Returns:
        Transitions and rewards as float64 NumPy arrays.

    Raises:
        ConfigError: what is wrong, and for which state and action.

    >>> import numpy as np
    >>> check(np.array([[[0.5, 0.4]], [[0.0, 1.0]]]), np.zeros((2, 1)))
    Traceback (most recent call last):
    blts.errors.ConfigError: The probabilities of each state and action must add up to 1; those of (0, 0) add up to 0.9.
    """
    prob, successors = _arrays(transitions)
    states, actions = prob.shape[:2]
    r = _numbers("Rewards", rewards)
    if r.shape != (states, actions):
        raise ConfigError(f"Rewards must have one number a state and action, shape {(states, actions)}; got shape {r.shape}.")
    if not np.isfinite(r).all():
        raise ConfigError(f"Rewards must be finite; that of {_where(~np.isfinite(r))} is {r[~np.isfinite(r)][0]}.")
    wrong = ~(np.isfinite(prob) & (prob >= 0))
    if wrong.any():
        raise ConfigError(f"Probabilities must be finite and ≥ 0; {_where(wrong)} has {prob[wrong][0]:.6g}.")
    if successors is not None and not ((successors >= 0) & (successors < states)).all():
        outside = (successors < 0) | (successors >= states)
        raise ConfigError(f"Successors must be states from 0 to {states - 1}; {_where(outside)} has {successors[outside][0]}.")
    total = prob.sum(-1)
    wrong = np.abs(total - 1) > 1e-5
    if wrong.any():
        raise ConfigError(
            "The probabilities of each state and action must add up to 1; "
            f"those of {_where(wrong)} add up to {total[wrong][0]:.6g}."
        )
    prob = prob / total[..., None]
    return (prob if successors is None else Sparse(successors, prob)), r  # type: ignore[return-value]


def _arrays(transitions: Transitions) -> tuple[np.ndarray, np.ndarray | None]:
    if not isinstance(transitions, Sparse):
        prob = _numbers("Transitions", transitions)
        if prob.ndim != 3 or prob.shape[0] != prob.shape[2] or 0 in prob.shape:
            raise ConfigError(f"Transitions must have shape (states, actions, states), or be Sparse; got shape {prob.shape}.")
        return prob, None
    prob, successors = _numbers("Transitions", transitions.prob), np.asarray(transitions.next)
    if prob.ndim != 3 or prob.shape != successors.shape or 0 in prob.shape:
        raise ConfigError(
            f"Sparse: next and prob must both have shape (states, actions, k); got shapes {successors.shape} and {prob.shape}."
        )
    if successors.dtype.kind not in "iu":
        raise ConfigError(f"Sparse: next must hold whole numbers; got {successors.dtype}.")
    return prob, successors


def _numbers(name: str, value: Any) -> np.ndarray:
    try:
        return np.asarray(value, np.float64)
    except (TypeError, ValueError):
        raise ConfigError(f"{name} must be an array of numbers; got {type(value).__name__}.") from None


def _where(wrong: np.ndarray) -> str:
    """The first offending (state, action)."""
    s, a = np.argwhere(wrong)[0][:2]
    return f"({s}, {a})"
