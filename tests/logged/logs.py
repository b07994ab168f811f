"""Simulated logs with known values."""

from __future__ import annotations

import numpy as np

from blts.logged import Log

SLOPES = np.array([[1.0, 0.0], [0.0, 1.0], [-0.5, -0.5]])
OFFSETS = np.array([0.2, 0.0, 0.4])


def means(x: np.ndarray) -> np.ndarray:
    """The mean reward of every action."""
    return OFFSETS + x @ SLOPES.T + 0.3 * np.sin(3 * x[:, :1])


def softmax(scores: np.ndarray) -> np.ndarray:
    p = np.exp(scores - scores.max(1, keepdims=True))
    return p / p.sum(1, keepdims=True)


def logging_policy(x: np.ndarray) -> np.ndarray:
    """It prefers what is good, so that the mean of an action's rewards is too high."""
    return 0.1 + 0.7 * softmax(1.5 * means(x))


def target_policy(x: np.ndarray) -> np.ndarray:
    return softmax(np.stack([x[:, 1], -x[:, 0], x[:, 0]], 1))


def simulated(rng: np.random.Generator, n: int = 1000) -> Log:
    x = rng.normal(size=(n, 2))
    p = logging_policy(x)
    a = (rng.random((n, 1)) > p.cumsum(1)).sum(1).clip(0, 2)
    r = means(x)[np.arange(n), a] + 0.5 * rng.normal(size=n)
    return Log(x, a, r, p[np.arange(n), a], ("a", "b", "c"), ("x", "y"))


def truth(policy) -> float:
    """The value of a policy, from two million contexts."""
    x = np.random.default_rng(99).normal(size=(1_000_000, 2))
    x = np.concatenate([x, -x])
    return float((policy(x) * means(x)).sum(1).mean())
