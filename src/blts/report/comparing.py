"""Comparisons: conditions on common seeds, families of p-values, and numbers that others printed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from ..errors import ConfigError
from .statistics import Summary, summarise

DIFFERS = 0.01
"""A printed mean differs from ours where Welch's test has a p-value below this."""


class Difference(NamedTuple):
    """Ours less the reference's, replication by replication on the same seeds."""

    summary: Summary
    p: float
    """Of the paired t-test."""


class Agreement(NamedTuple):
    """Our mean against a printed one."""

    gap: float
    """Ours less theirs, in standard errors of that difference."""
    p: float
    verdict: Literal["agrees", "differs"]


def paired(values: np.ndarray, reference: np.ndarray) -> Difference:
    """The mean difference on common seeds, its bootstrap-t interval, and the p-value of the paired t-test."""
    values, reference = np.asarray(values, float), np.asarray(reference, float)
    if values.shape != reference.shape:
        raise ConfigError(f"Paired conditions need the same replications; got {values.shape} and {reference.shape}.")
    found = summarise(values - reference)
    return Difference(found, _two_sided(found.mean, found.se, found.n - 1))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down correction: the i-th smallest of m becomes the largest of (m − j + 1) p(j) for j ≤ i, at most 1.

    >>> from blts.report.comparing import holm
    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, float)
    order = np.argsort(p, kind="stable")
    steps = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    corrected = np.empty_like(p)
    corrected[order] = steps
    return corrected.tolist()


def agreement(ours: Summary, mean: float, sd: float, n: int) -> Agreement:
    """Welch's t-test from summaries. Where neither has spread, the means are equal or not."""
    if n < 2:
        raise ConfigError(f"A printed number can be tested where it has an sd over n ≥ 2 runs; got n = {n}.")
    a, b = ours.sd**2 / ours.n, sd**2 / n
    if a + b == 0:
        same = bool(np.isclose(ours.mean, mean, rtol=1e-9, atol=0))
        return Agreement(
            0.0 if same else float(np.copysign(np.inf, ours.mean - mean)), float(same), "agrees" if same else "differs"
        )
    freedom = (a + b) ** 2 / (a**2 / (ours.n - 1) + b**2 / (n - 1))
    se = float(np.sqrt(a + b))
    p = _two_sided(ours.mean - mean, se, freedom)
    return Agreement((ours.mean - mean) / se, p, "differs" if p < DIFFERS else "agrees")


def _two_sided(mean: float, se: float, freedom: float) -> float:
    from scipy.special import stdtr

    if se == 0:
        return float(mean == 0)
    return float(2 * stdtr(freedom, -abs(mean) / se))
