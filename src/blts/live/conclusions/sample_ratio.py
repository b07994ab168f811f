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
    cells = _cells(expected)
    gap = cells @ (observed - expected)
    for some in blocks(len(arms)):
        q = p[some] @ cells.T
        sums.add(q=q, products=(q.T @ q)[None])
    covariance = np.diag(sums.q) - sums.products
    values, vectors = np.linalg.eigh(covariance)
    solid = values > 1e-9 * max(1.0, values.max(initial=0.0))
    impossible = bool((own_propensities(arms, p) <= 0).any())
    if impossible:
        return RatioTest(0.0, expected, observed, True)
    if not solid.any():
        return RatioTest(float("nan"), expected, observed, False)
    statistic = np.sum((vectors.T @ gap)[solid] ** 2 / values[solid])
    p_value = float(special.chdtrc(int(solid.sum()), statistic))
    return RatioTest(p_value, expected, observed, p_value < ALARM)


def _cells(expected: np.ndarray) -> np.ndarray:
    """Arms as cells of a test, those that expect few plays put together: a 0-1 matrix [cells, arms]."""
    order = np.argsort(expected)
    groups: list[list[int]] = []
    for arm in order:
        if groups and expected[groups[-1]].sum() < FEWEST:
            groups[-1].append(int(arm))
        else:
            groups.append([int(arm)])
    out = np.zeros((len(groups), len(expected)))
    for i, group in enumerate(groups):
        out[i, group] = 1.0
    return out
