"""The sample-ratio test: whether arms were played as often as their propensities say."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

from .blocks import Propensities, Sums, blocks, own_propensities

ALARM = 1e-3  # a sample-ratio p-value below it is an alarm, as is usual
FEWEST = 5.0  # expected plays of a cell of the sample-ratio test; smaller cells are put together


class RatioTest(NamedTuple):
    p_value: float
    """Zero where the impossible happened; not a number where nothing was left to chance."""
    expected: np.ndarray
    """Summed propensities."""
    observed: np.ndarray
    alarm: bool


def sample_ratio(arms: np.ndarray, p: np.ndarray | Propensities) -> RatioTest:
    """Were arms played as often as their propensities say? A quadratic form of observed less expected counts.

    Their difference is a martingale with covariance Σ_t (diag p_t - p_t p_tᵀ), whatever the propensities were made of. An
    arm that was played with propensity zero is an alarm by itself.
    """
    K, sums = p.shape[1], Sums()
    for some in blocks(len(arms)):
        sums.add(p=p[some])
    observed, expected = np.bincount(arms, minlength=K).astype(float), sums.p
    cells = cells_of(expected)
    gap = cells @ (observed - expected)
    for some in blocks(len(arms)):
        q = p[some] @ cells.T
        sums.add(q=q, products=(q.T @ q)[None])
    impossible = bool((own_propensities(arms, p) <= 0).any())
    if impossible:
        return RatioTest(0.0, expected, observed, True)
    p_value = chance(gap, np.diag(sums.q) - sums.products)
    return RatioTest(p_value, expected, observed, p_value < ALARM)


def chance(gap: np.ndarray, covariance: np.ndarray) -> float:
    """The p-value of a gap that is normal with mean 0: of its quadratic form. Not a number where nothing was left to chance."""
    values, vectors = np.linalg.eigh(covariance)
    solid = values > 1e-9 * max(1.0, values.max(initial=0.0))
    if not solid.any():
        return float("nan")
    return float(special.chdtrc(int(solid.sum()), np.sum((vectors.T @ gap)[solid] ** 2 / values[solid])))


def cells_of(expected: np.ndarray, fewest: float = FEWEST) -> np.ndarray:
    """Arms as cells of a test, those that expect few plays put together: a 0-1 matrix [cells, arms]."""
    order = np.argsort(expected)
    groups: list[list[int]] = []
    for arm in order:
        if groups and expected[groups[-1]].sum() < fewest:
            groups[-1].append(int(arm))
        else:
            groups.append([int(arm)])
    out = np.zeros((len(groups), len(expected)))
    for i, group in enumerate(groups):
        out[i, group] = 1.0
    return out
