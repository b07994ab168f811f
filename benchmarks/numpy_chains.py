"""Langevin Thompson sampling with contexts in NumPy, vectorised over replications: the chains of `ula-ts` with γ = 1, by hand.

At a refresh the mode is found by Newton's method, and one chain per θ takes STEPS unadjusted Langevin steps on all rows, in
coordinates in which the posterior is about a standard normal law; rounds draw around its end with the covariance at the mode
(`Perturb`, γ = 1). Only replications whose batch has ended are refreshed, all of them together.
"""

from __future__ import annotations

import numpy as np

from .numpy_baseline import Doubling

STEP, STEPS = np.float32(0.1), 50
FAR = 6.0  # a chain that starts further from the mode, beyond √dim sds, starts again near it, as ours does
real = np.float32


def chain(rng: np.random.Generator, start: np.ndarray, centre: np.ndarray, root: np.ndarray, slope) -> np.ndarray:
    """z ← z - h ∇U(z) + √(2h) ξ with θ = centre + root z.

    Args:
        rng: the generator.
        start: θ where chains start, `[chains, dim]`.
        centre: the modes.
        root: roots of the covariances at the modes, `[chains, dim, dim]`.
        slope: ∇U as a function of θ of all chains.

    Returns:
        Where the chains end.
    """
    dim = start.shape[1]
    z = np.linalg.solve(root, (start - centre)[:, :, None])[:, :, 0]
    near = np.sqrt((z * z).sum(1)) < FAR + dim**0.5
    z = np.where(near[:, None], z, rng.standard_normal(z.shape, real))
    back = np.ascontiguousarray(root.transpose(0, 2, 1))
    for _ in range(STEPS):
        g = (back @ slope(centre + (root @ z[:, :, None])[:, :, 0])[:, :, None])[:, :, 0]
        z = z - STEP * g + np.sqrt(2 * STEP) * rng.standard_normal(z.shape, real)
    return centre + (root @ z[:, :, None])[:, :, 0]


def root_of(precision: np.ndarray) -> np.ndarray:
    """Roots of the inverses of matrices `[…, dim, dim]`."""
    return np.linalg.inv(np.linalg.cholesky(precision)).swapaxes(-1, -2).astype(real)


def shared_linear(seed: int, horizon: int, replications: int, arms: int = 50, dim: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """`shared-linear`, batches by the determinant: one θ, and gradients from Σ x xᵀ and Σ x r, which are all that rows say.

    Args:
        seed: of the generator.
        horizon: rounds.
        replications: runs.
        arms: arms of a round.
        dim: coordinates of their features.

    Returns:
        Regret and number of batches of each run.
    """
    rng, R, sd = np.random.Generator(np.random.SFC64(seed)), replications, real(0.5)
    everyone, prior, weight = np.arange(R), real(dim), 1 / sd**2
    unit = lambda x: x / np.sqrt((x * x).sum(-1, keepdims=True))  # noqa: E731
    truth = unit(rng.standard_normal((R, dim), real))
    precision = np.broadcast_to(prior * np.eye(dim, dtype=real), (R, dim, dim)).copy()
    inverse = np.broadcast_to(np.eye(dim, dtype=real) / prior, (R, dim, dim)).copy()
    moment, growth = np.zeros((R, dim), real), np.zeros(R)
    theta = rng.standard_normal((R, dim), real) / np.sqrt(prior)
    centre, root = np.zeros((R, dim), real), np.broadcast_to(np.eye(dim, dtype=real) / np.sqrt(prior), (R, dim, dim)).copy()
    regret, batches = np.zeros(R), np.zeros(R, int)
    for t in range(1, horizon + 1):
        x = unit(rng.standard_normal((R, arms, dim), real))
        around = np.where((batches > 0)[:, None], theta, 0)  # without data the prior is drawn
        drawn = around + (root @ rng.standard_normal((R, dim, 1), real))[:, :, 0]
        arm = (x @ drawn[:, :, None])[:, :, 0].argmax(1)
        means = (x @ truth[:, :, None])[:, :, 0]
        played, mean = x[everyone, arm], means[everyone, arm]
        reward = mean + sd * rng.standard_normal(R, real)
        regret += means.max(1) - mean
        precision += weight * played[:, :, None] * played[:, None, :]
        moment += weight * played * reward[:, None]
        along = (inverse @ played[:, :, None])[:, :, 0]
        ratio = 1 + weight * (along * played).sum(1)
        inverse -= along[:, :, None] * (along * (weight / ratio)[:, None])[:, None, :]
        growth += np.log(ratio)
        ended = growth > np.log(2)
        growth[ended] = 0
        batches += ended
        due = np.flatnonzero(ended)
        if due.size and t < horizon:
            P, b = precision[due], moment[due]
            root[due] = root_of(P)
            centre[due] = np.linalg.solve(P, b[:, :, None])[:, :, 0]
            theta[due] = chain(rng, theta[due], centre[due], root[due], lambda x, P=P, b=b: (P @ x[:, :, None])[:, :, 0] - b)
    return regret, batches


def logistic(seed: int, horizon: int, replications: int, arms: int = 5, dim: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """`logistic-20d`, dynamic batches: a θ for each arm, and gradients from all of its rows. Rows are kept arm by arm, so that a
    gradient is two matrix products on as many rows as the arm of some replication that is refreshed has.

    Args:
        seed: of the generator.
        horizon: rounds.
        replications: runs.
        arms: arms.
        dim: coordinates of a context.

    Returns:
        Regret and number of batches of each run.
    """
    rng, R = np.random.Generator(np.random.SFC64(seed)), replications
    everyone, scheme = np.arange(R), Doubling(R, arms)
    truth = rng.standard_normal((R, arms, dim), real)
    rows, rewards = np.zeros((arms, R, horizon, dim), real), np.zeros((arms, R, horizon), real)
    n = np.zeros((R, arms), int)
    seen = np.zeros((R, arms), bool)
    theta, mode = rng.standard_normal((R, arms, dim), real), np.zeros((R, arms, dim), real)
    root = np.broadcast_to(np.eye(dim, dtype=real), (R, arms, dim, dim)).copy()
    regret, batches = np.zeros(R), np.zeros(R, int)
    odds = lambda eta: 1 / (1 + np.exp(-eta))  # noqa: E731
    for t in range(1, horizon + 1):
        x = rng.standard_normal((R, dim), real)
        noise = (root @ rng.standard_normal((R, arms, dim, 1), real))[..., 0]
        drawn = np.where(seen[:, :, None], theta, 0) + noise  # without data the prior is drawn
        arm = np.einsum("rai,ri->ra", drawn, x).argmax(1)
        means = odds(np.einsum("rai,ri->ra", truth, x))
        mean = means[everyone, arm]
        regret += means.max(1) - mean
        place = n[everyone, arm]
        rows[arm, everyone, place], rewards[arm, everyone, place] = x, rng.random(R, real) < mean
        n[everyone, arm] += 1
        due = scheme.closed(arm)
        batches[due] += 1
        if not due.size or t == horizon:
            continue
        for a in range(arms):
            mine = due[n[due, a] > 0]
            if not mine.size:
                continue
            most = n[mine, a].max()
            X, r = rows[a, mine, :most], rewards[a, mine, :most]  # rows that are not there are zero, and add nothing
            back = X.transpose(0, 2, 1)

            def slope(at: np.ndarray, X: np.ndarray = X, r: np.ndarray = r, back: np.ndarray = back) -> np.ndarray:
                return (back @ (odds((X @ at[:, :, None])[:, :, 0]) - r)[:, :, None])[:, :, 0] + at

            at = mode[mine, a]
            for _ in range(12):
                p = odds((X @ at[:, :, None])[:, :, 0])
                precision = back @ (X * (p * (1 - p))[:, :, None]) + np.eye(dim, dtype=real)
                move = np.linalg.solve(precision, slope(at)[:, :, None])[:, :, 0]
                if np.einsum("ri,rij,rj->r", move, precision, move).max() < 1e-4:  # within 0.01 sds of all modes
                    break
                at = at - move
            mode[mine, a], root[mine, a] = at, root_of(precision)
            theta[mine, a] = chain(rng, theta[mine, a], at, root[mine, a], slope)
            seen[mine, a] = True
    return regret, batches
