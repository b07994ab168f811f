"""Evidence that one arm's mean reward is above another's, valid whenever one looks and however units were allocated.

For two arms and a number m,

    M(m) = Π over both arms of ∫ p(rewards | mean μ) dπ_m(μ) / p(rewards | mean m)

is a martingale where both means are m: the allocation may depend on earlier rewards, because it cancels. So E = min_m M(m) is an
e-value of "the means are equal" at every time (universal inference, Wasserman et al. 2020): the chance that it ever reaches x is at
most 1/x. Where the first arm has the larger sample mean, the minimum over all pairs of means of which the first is not larger lies
at equal means too, so E is evidence against those as well.

π_m has mean m and variance r · Var(reward), and M is the average over the r of `EFFECTS`. For rewards of 0 or 1, π_m is a Beta
distribution and E is exact. All other rewards are treated as normal with unknown variances (the ratio of a t-test with a normal
prior), which is right in large samples of rewards with a finite variance; `varied` says what counts as large.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy import special

ERROR = 0.05
"""The largest chance that a winner is ever named that is not the best arm."""
EFFECTS = (0.1, 0.01, 0.001)
"""Prior variances of an arm's mean about m, in variances of a reward: differences of about 0.3, 0.1 and 0.03 sds. Looked at every
100 units, a difference of 0.1 sd is found after 2,400 units an arm in half of all experiments and after 3,900 in 80 %; 10 % against
12 % after 5,600 and 8,800. A test that may be looked at once needs 1,600 and 3,800 for its 80 %."""
LEAST, LEAST_BINARY = 30, 10
"""How many rewards an arm needs (see `varied`). Under Thompson sampling on equal means, where one arm's rewards are mostly zero and
the other's normal, 40 % of experiments had a false winner with 30 rewards, 7 % with 10 nonzero rewards, 2 % with 30. Rewards of
0 or 1, where nothing is asymptotic, need only a few."""
ASSUMES = "Evidence assumes that an arm's rewards keep their distribution over time."
ASSUMES_NUMBERS = "It is that of a t-test, for rewards with a finite variance."
NODES, PASSES = 17, 4
"""The minimum over m is searched on so many values, and again between the neighbours of the lowest: to 1/8000 of their range.
Where one arm has far more rewards than the other, m is next to its mean."""


class ArmRewards(NamedTuple):
    """The rewards of arms, summarised; arrays of one shape."""

    n: np.ndarray
    mean: np.ndarray
    """0 without rewards."""
    squares: np.ndarray
    """Sum of squared deviations from the mean."""

    def at(self, where: object) -> ArmRewards:
        """Some of them, by a NumPy index."""
        return ArmRewards(*(x[where] for x in self))  # type: ignore[index]


def summarise(arms: np.ndarray, rewards: np.ndarray, K: int) -> ArmRewards:
    """Count, mean and squared deviations of every arm's rewards.

    Args:
        arms: the arm of each reward, from 0.
        rewards: as many numbers.
        K: how many arms there are.

    Returns:
        The summaries, `[K]`.
    """
    n = np.bincount(arms, minlength=K).astype(float)
    mean = np.bincount(arms, rewards, K) / np.maximum(n, 1)
    return ArmRewards(n, mean, np.bincount(arms, (rewards - mean[arms]) ** 2, K))


def varied(arms: np.ndarray, rewards: np.ndarray, K: int) -> np.ndarray:
    """How many rewards of each arm differ from its most common one: of revenue the payments, of measurements nearly all.

    Args:
        arms: the arm of each reward, from 0.
        rewards: as many numbers.
        K: how many arms there are.

    Returns:
        The counts, `[K]`.

    >>> import numpy as np
    >>> varied(np.array([0, 0, 0, 1]), np.array([0.0, 0.0, 7.5, 1.0]), 2).tolist()
    [1, 0]
    """
    order = np.lexsort((rewards, arms))
    a, r = arms[order], rewards[order]
    first = np.flatnonzero(np.append(True, (a[1:] != a[:-1]) | (r[1:] != r[:-1]))[: len(a)])  # of equal rewards of an arm
    most = np.zeros(K)
    np.maximum.at(most, a[first], np.diff(np.append(first, len(a))))
    return (np.bincount(arms, minlength=K) - most).astype(int)


def log_evidence(leader: ArmRewards, other: ArmRewards, *, binary: bool) -> np.ndarray:
    """log E that the mean reward of `leader` is above that of `other`; -inf where its sample mean is not.

    Args:
        leader: the arms that may be better.
        other: the arms that they are compared with, as many.
        binary: whether rewards are 0 or 1.

    Returns:
        log E, one for each pair.

    >>> import numpy as np
    >>> ones = np.concatenate([np.arange(1000) < 150, np.arange(1000) < 100])  # 15 % and 10 % of 1,000 each
    >>> two = summarise(np.repeat([0, 1], 1000), ones.astype(float), 2)
    >>> np.exp(log_evidence(two.at([0]), two.at([1]), binary=True)).round(1).tolist()
    [9.3]
    """
    low, high = np.minimum(leader.mean, other.mean)[..., None], np.maximum(leader.mean, other.mean)[..., None]
    if binary:  # the minimum may lie a little outside
        low, high = np.clip([low - 0.25 * (high - low), high + 0.25 * (high - low)], 1e-9, 1 - 1e-9)
    log_ratio = _log_ratio_binary if binary else _log_ratio_numbers
    within = ((leader.squares + other.squares) / np.maximum(leader.n + other.n, 1))[..., None]
    E = np.zeros(0)
    for _ in range(PASSES):
        m = low + (high - low) * np.linspace(0, 1, NODES)
        M = [log_ratio(_column(leader), m, r, within) + log_ratio(_column(other), m, r, within) for r in EFFECTS]
        log_M = np.logaddexp.reduce(M) - math.log(len(EFFECTS))
        E, at = np.min(log_M, axis=-1), np.argmin(log_M, axis=-1)[..., None]
        low, high = (np.take_along_axis(m, np.clip(at + step, 0, NODES - 1), -1) for step in (-1, 1))
    return np.where((leader.mean > other.mean) & (leader.n > 0) & (other.n > 0), E, -np.inf)


def _column(arm: ArmRewards) -> ArmRewards:
    return ArmRewards(*(np.asarray(x, float)[..., None] for x in arm))


def _log_ratio_binary(arm: ArmRewards, m: np.ndarray, r: float, within: np.ndarray) -> np.ndarray:
    """log of Beta-binomial over binomial likelihood; Beta(cm, c(1 - m)) has the variance r m (1 - m) for c = 1/r - 1."""
    c, ones = 1 / r - 1, np.round(arm.n * arm.mean)
    a, b, zeros = c * m, c * (1 - m), arm.n - ones
    return special.betaln(a + ones, b + zeros) - special.betaln(a, b) - ones * np.log(m) - zeros * np.log1p(-m)


def _log_ratio_numbers(arm: ArmRewards, m: np.ndarray, r: float, within: np.ndarray) -> np.ndarray:
    """log of (1 + nr)^(-1/2) (S / (S - n²r/(1 + nr) (mean - m)²))^(n/2), with S the squares about m.

    An arm of skewed rewards that lacks the rare large ones has too low a mean and too low a variance at once. So its variance is at
    least that of both arms together, about their own means.
    """
    gap = arm.n * (arm.mean - m) ** 2
    squares = np.maximum(arm.squares, arm.n * within) + gap
    share = arm.n * r / (1 + arm.n * r)
    return -0.5 * np.log1p(arm.n * r) - 0.5 * arm.n * np.log1p(-share * gap / np.maximum(squares, 1e-300))


def needed(K: int) -> float:
    """The E that a winner needs against every other active arm.

    A winner that is not best has this much evidence against a best arm, for which there are at most K - 1 pairs, each with a
    chance of at most 1/E.

    Args:
        K: how many arms there have been.

    Returns:
        (K - 1)/ERROR.

    >>> needed(2), needed(5)
    (20.0, 80.0)
    """
    return max(K - 1, 1) / ERROR
