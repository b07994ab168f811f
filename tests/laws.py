"""Two-sided tests of a law on independent draws. A right algorithm passes at p > LEVEL with a fixed key, a mutant must not."""

from __future__ import annotations

import numpy as np
from scipy import stats

LEVEL = 1e-4


def mean_p(x, mean: float, sd: float) -> float:
    """z-test of the mean, the sd being known."""
    x = np.asarray(x, float)
    return float(2 * stats.norm.sf(abs(x.mean() - mean) / (sd / np.sqrt(x.size))))


def variance_p(x, sd: float) -> float:
    """Chi-square test of the variance of normal draws."""
    x = np.asarray(x, float)
    statistic = np.sum((x - x.mean()) ** 2) / sd**2
    law = stats.chi2(x.size - 1)
    return float(min(1.0, 2 * min(law.cdf(statistic), law.sf(statistic))))


def second_moment_p(x, mean: float, variance: float) -> float:
    """z-test of E(x - mean)² with its own estimated error, for draws that need not be normal."""
    square = (np.asarray(x, float) - mean) ** 2
    return float(2 * stats.norm.sf(abs(square.mean() - variance) / (square.std(ddof=1) / np.sqrt(square.size))))


def gaussian_p(x, mean: float, sd: float) -> float:
    """The smaller p-value of mean and variance."""
    return min(mean_p(x, mean, sd), variance_p(x, sd))


def ks_p(x, cdf) -> float:
    return float(stats.kstest(np.asarray(x, float).ravel(), cdf).pvalue)


def counts_p(counts, probabilities) -> float:
    """Chi-square test of frequencies; cells expecting fewer than 5 are merged into the smallest larger one."""
    counts, expected = np.asarray(counts, float), np.asarray(probabilities, float) * np.sum(counts)
    order = np.argsort(expected)
    counts, expected = counts[order], expected[order]
    while expected.size > 1 and expected[0] < 5:
        counts = np.concatenate([[counts[0] + counts[1]], counts[2:]])
        expected = np.concatenate([[expected[0] + expected[1]], expected[2:]])
    if expected.size == 1:
        return 1.0
    return float(stats.chi2(expected.size - 1).sf(np.sum((counts - expected) ** 2 / expected)))
