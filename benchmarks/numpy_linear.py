"""Exact linear Thompson sampling in NumPy, vectorised over replications: what somebody who knows NumPy writes by hand."""

from __future__ import annotations

import numpy as np

ARMS, SD = 5, 0.5


def simulate(seed: int, dim: int, horizon: int, replications: int, real: type = np.float32) -> np.ndarray:
    """Linear-20d, sequentially: V⁻¹ by Sherman–Morrison, one normal an arm and round. V⁻¹x of all arms is computed once a
    round, as one matrix product a replication, and used for the draws and for the update of the arm that was played.

    Args:
        seed: of NumPy's fastest generator.
        dim: coordinates of a context.
        horizon: rounds.
        replications: runs.
        real: the type of all numbers.

    Returns:
        The regret of each run.
    """
    rng, sd = np.random.Generator(np.random.SFC64(seed)), real(SD)
    everyone = np.arange(replications)
    theta = rng.standard_normal((replications, ARMS, dim), real)
    mean = np.zeros((replications, ARMS, dim), real)
    inverse = np.broadcast_to(np.eye(dim, dtype=real) / sd**2, (replications, ARMS, dim, dim)).copy()  # of V = sd² I + Σ x xᵀ
    stacked = inverse.reshape(replications, ARMS * dim, dim)  # the same memory
    regret = np.zeros(replications)
    for _ in range(horizon):
        x = rng.standard_normal((replications, dim), real)
        along = (stacked @ x[:, :, None]).reshape(replications, ARMS, dim)
        spread = np.einsum("rai,ri->ra", along, x)
        drawn = np.einsum("rai,ri->ra", mean, x) + sd * np.sqrt(spread) * rng.standard_normal((replications, ARMS), real)
        arm = drawn.argmax(1)
        means = np.einsum("rai,ri->ra", theta, x)
        reward = means[everyone, arm] + sd * rng.standard_normal(replications, real)
        regret += means.max(1) - means[everyone, arm]
        gain = along[everyone, arm] / (1 + spread[everyone, arm])[:, None]
        error = reward - np.einsum("ri,ri->r", mean[everyone, arm], x)
        mean[everyone, arm] += gain * error[:, None]
        inverse[everyone, arm] -= along[everyone, arm][:, :, None] * gain[:, None, :]
    return regret
