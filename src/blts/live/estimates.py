"""What an adaptive experiment says about its arms: pure functions on arrays, without JAX and without a database.

After a bandit, an arm's mean reward is biased: an arm whose first rewards were unlucky is played less, and keeps them.
Weighting every reward by the probability of its decision undoes that.

Shapes: T decisions, K arms; `p[t, a]` is the probability that decision t had of arm a.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import stats

ALARM = 1e-3  # a sample-ratio p-value below it is an alarm, as is usual
FEWEST = 5.0  # expected plays of a cell of the sample-ratio test; smaller cells are put together


class Estimate(NamedTuple):
    """A number for each arm, with its standard error; NaN where there is none."""

    value: np.ndarray
    se: np.ndarray

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        z = stats.norm.ppf(0.5 + 0.5 * level)
        return self.value - z * self.se, self.value + z * self.se


def naive(arms: np.ndarray, rewards: np.ndarray, K: int) -> Estimate:
    """Each arm's mean reward and its standard error, as if nothing had been adaptive."""
    n = np.bincount(arms, minlength=K).astype(float)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.bincount(arms, rewards, K) / n
        square = np.bincount(arms, (rewards - mean[arms]) ** 2, K)
        return Estimate(mean, np.sqrt(square / (n - 1) / n))


def ipw(arms: np.ndarray, rewards: np.ndarray, p: np.ndarray) -> Estimate:
    """Inverse propensity weighting: the mean over decisions of 1[A_t = a] r_t / p_t(a), unbiased for arm a's mean.

    The terms less the truth are martingale differences, so their squares estimate the variance. Decisions that could
    not have played arm a (it was not there yet, or retired) say nothing of it and are left out.
    """
    scores = np.where(_played(arms, p), rewards[:, None], 0.0) / np.where(p > 0, p, 1.0)
    return _mean(scores, p > 0)


def aipw(arms: np.ndarray, rewards: np.ndarray, p: np.ndarray, batches: np.ndarray) -> Estimate:
    """Augmented IPW: the mean of m_t(a) + 1[A_t = a] (r_t - m_t(a)) / p_t(a), with m_t(a) the mean of arm a in earlier batches.

    m depends on what came before the batch alone, so every term is unbiased whatever m is, and the better m is, the
    smaller the variance. (Weights √p_t(a), as in Hadad et al. 2021, make narrower intervals, and were biased at a
    thousand decisions; DESIGN.md has the numbers.)
    """
    return _mean(augmented(arms, rewards, p, batches), p > 0)


def augmented(arms: np.ndarray, rewards: np.ndarray, p: np.ndarray, batches: np.ndarray) -> np.ndarray:
    """The terms of AIPW, one for every decision and arm."""
    m = earlier_means(arms, rewards, batches, p.shape[1])
    return m + np.where(_played(arms, p), rewards[:, None] - m, 0.0) / np.where(p > 0, p, 1.0)


def _played(arms: np.ndarray, p: np.ndarray) -> np.ndarray:
    return arms[:, None] == np.arange(p.shape[1])


def _mean(scores: np.ndarray, there: np.ndarray) -> Estimate:
    """The mean of every column over the decisions that count for it, and its standard error."""
    n = there.sum(0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(there, scores, 0.0).sum(0) / n
        se = np.sqrt(np.where(there, (scores - mean) ** 2, 0.0).sum(0)) / n
    return Estimate(np.where(n > 0, mean, np.nan), np.where(n > 0, se, np.nan))


def earlier_means(arms: np.ndarray, rewards: np.ndarray, batches: np.ndarray, K: int) -> np.ndarray:
    """For every decision and arm, the mean of the arm's rewards in batches before the decision's; 0 where there are none."""
    numbers, which = np.unique(batches, return_inverse=True)
    count, total = np.zeros((len(numbers) + 1, K)), np.zeros((len(numbers) + 1, K))
    np.add.at(count, (which + 1, arms), 1.0)
    np.add.at(total, (which + 1, arms), rewards)
    before_count, before = count.cumsum(0)[:-1], total.cumsum(0)[:-1]
    return np.divide(before, before_count, out=np.zeros_like(before), where=before_count > 0)[which]


def is_randomised(p: np.ndarray) -> np.ndarray:
    """For every arm, whether chance had a say: IPW needs probabilities strictly between 0 and 1."""
    return np.asarray(((p > 0) & (p < 1)).any(0))


class RatioTest(NamedTuple):
    p_value: float
    """Zero where the impossible happened; not a number where nothing was left to chance."""
    expected: np.ndarray
    """Summed propensities."""
    observed: np.ndarray
    alarm: bool


def sample_ratio(arms: np.ndarray, p: np.ndarray) -> RatioTest:
    """Were arms played as often as their propensities say? A quadratic form of observed less expected counts.

    Their difference is a martingale with covariance Σ_t (diag p_t - p_t p_tᵀ), whatever the propensities were made of. An
    arm that was played with propensity zero is an alarm by itself.
    """
    K = p.shape[1]
    observed, expected = np.bincount(arms, minlength=K).astype(float), p.sum(0)
    cells = _cells(expected)
    q = p @ cells.T
    gap = cells @ (observed - expected)
    covariance = np.diag(q.sum(0)) - q.T @ q
    values, vectors = np.linalg.eigh(covariance)
    solid = values > 1e-9 * max(1.0, values.max(initial=0.0))
    impossible = bool((p[np.arange(len(arms)), arms] <= 0).any())
    if impossible:
        return RatioTest(0.0, expected, observed, True)
    if not solid.any():
        return RatioTest(float("nan"), expected, observed, False)
    statistic = np.sum((vectors.T @ gap)[solid] ** 2 / values[solid])
    p_value = float(stats.chi2.sf(statistic, int(solid.sum())))
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


class Gain(NamedTuple):
    per_unit: float
    se: float
    total: float


def value_against_equal(arms: np.ndarray, rewards: np.ndarray, p: np.ndarray, batches: np.ndarray) -> Gain:
    """What the allocation earned a unit more than equal shares of the arms that could be played would have.

    The mean over decisions of r_t - mean_a of its augmented score, whose terms less the truth are martingale differences.
    """
    there = p > 0
    equal = np.where(there, augmented(arms, rewards, p, batches), 0.0).sum(1) / np.maximum(there.sum(1), 1)
    terms = rewards - equal
    # Propensities are single precision: where all arms had the same, what is left is rounding.
    terms = np.where(np.abs(terms) <= 1e-6 * np.abs(rewards), 0.0, terms)
    T = len(terms)
    if T < 2:
        return Gain(float("nan"), float("nan"), float("nan"))
    return Gain(float(terms.mean()), float(terms.std(ddof=1) / np.sqrt(T)), float(terms.sum()))
