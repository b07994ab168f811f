"""Evidence that one arm's mean reward is above another's, valid whenever one looks and however units were allocated.

For two arms and a number m,

    M(m) = Π over both arms of ∫ p(rewards | mean μ) dπ_m(μ) / p(rewards | mean m)

is a martingale where both means are m: the allocation may depend on earlier rewards, because it cancels. So E = min_m M(m) is an
e-value of "the means are equal" at every time (universal inference, Wasserman et al. 2020): the chance that it ever reaches x is at
most 1/x. Where the first arm has the larger sample mean, the minimum over all pairs of means of which the first is not larger lies
at equal means too, so E is evidence against those as well.

π_m has mean m and variance r · Var(reward), and M is the average over the r of `EFFECTS`. For rewards of 0 or 1, π_m is a Beta
distribution and E is exact. All other rewards are treated as normal with unknown variances (the ratio of a t-test with a normal
prior), which is right in large samples of rewards with a finite variance: `LEAST` says what counts as large.

Reports of live experiments compute it with NumPy, and simulated agents that stop (`agents/stopping.py`) with JAX.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

ERROR = 0.05
"""The largest chance that a winner is ever named that is not the best arm."""
EFFECTS = (0.1, 0.01, 0.001)
"""Prior variances of an arm's mean about m, in variances of a reward: differences of about 0.3, 0.1 and 0.03 sds. Looked at every
100 units, a difference of 0.1 sd is found after 2,400 units an arm in half of all experiments and after 3,900 in 80 %; 10 % against
12 % after 5,600 and 8,800. A test that may be looked at once needs 1,600 and 3,800 for its 80 %."""
LEAST, LEAST_BINARY = 30, 10
"""How many rewards an arm needs that differ from its most common one. Under Thompson sampling on equal means, where one arm's
rewards are mostly zero and the other's normal, 40 % of experiments had a false winner with 30 rewards, 7 % with 10 nonzero rewards,
2 % with 30. Rewards of 0 or 1, where nothing is asymptotic, need only a few."""
NODES, PASSES = 17, 4
"""The minimum over m is searched on so many values, and again between the neighbours of the lowest: to 1/8000 of their range.
Where one arm has far more rewards than the other, m is next to its mean."""


class ArmRewards(NamedTuple):
    """The rewards of arms, summarised; arrays of one shape, of NumPy or JAX."""

    n: Any
    mean: Any
    """0 without rewards."""
    squares: Any
    """Sum of squared deviations from the mean."""

    def at(self, where: object) -> ArmRewards:
        """Some of them, by an index of NumPy's."""
        return ArmRewards(*(x[where] for x in self))


def log_evidence(leader: ArmRewards, other: ArmRewards, *, binary: bool, xp: Any = np) -> Any:
    """log E that the mean reward of `leader` is above that of `other`; -inf where its sample mean is not.

    Args:
        leader: the arms that may be better.
        other: the arms that they are compared with, as many.
        binary: whether rewards are 0 or 1.
        xp: what computes, `numpy` or `jax.numpy`. In single precision log E of rates is off by 0.01 or more from 10⁴ rewards on.

    Returns:
        log E, one for each pair.

    >>> import numpy as np
    >>> leader, other = ArmRewards(*np.array([[1000.0], [0.15], [127.5]])), ArmRewards(*np.array([[1000.0], [0.10], [90.0]]))
    >>> np.exp(log_evidence(leader, other, binary=True)).round(1).tolist()
    [9.3]
    """
    low, high = xp.minimum(leader.mean, other.mean)[..., None], xp.maximum(leader.mean, other.mean)[..., None]
    if binary:  # the minimum may lie a little outside
        edge = 1e-9 if low.dtype == np.float64 else 1e-6
        low, high = (xp.clip(x, edge, 1 - edge) for x in (low - 0.25 * (high - low), high + 0.25 * (high - low)))
    log_ratio = _log_ratio_binary if binary else _log_ratio_numbers
    within = ((leader.squares + other.squares) / xp.maximum(leader.n + other.n, 1))[..., None]
    mine, theirs = (ArmRewards(*(x[..., None] * 1.0 for x in arm)) for arm in (leader, other))
    E = xp.zeros(0)
    for _ in range(PASSES):
        m = low + (high - low) * xp.linspace(0, 1, NODES)
        M = [log_ratio(mine, m, r, within, xp) + log_ratio(theirs, m, r, within, xp) for r in EFFECTS]
        log_M = reduce(xp.logaddexp, M) - math.log(len(EFFECTS))
        E, at = xp.min(log_M, axis=-1), xp.argmin(log_M, axis=-1)[..., None]
        low, high = (xp.take_along_axis(m, xp.clip(at + step, 0, NODES - 1), -1) for step in (-1, 1))
    return xp.where((leader.mean > other.mean) & (leader.n > 0) & (other.n > 0), E, -xp.inf)


def _log_ratio_binary(arm: ArmRewards, m: Any, r: float, within: Any, xp: Any) -> Any:
    """log of Beta-binomial over binomial likelihood; Beta(cm, c(1 - m)) has the variance r m (1 - m) for c = 1/r - 1."""
    if xp is np:
        from scipy.special import betaln
    else:
        from jax.scipy.special import betaln
    c, ones = 1 / r - 1, xp.round(arm.n * arm.mean)
    a, b, zeros = c * m, c * (1 - m), arm.n - ones
    return betaln(a + ones, b + zeros) - betaln(a, b) - ones * xp.log(m) - zeros * xp.log1p(-m)


def _log_ratio_numbers(arm: ArmRewards, m: Any, r: float, within: Any, xp: Any) -> Any:
    """log of (1 + nr)^(-1/2) (S / (S - n²r/(1 + nr) (mean - m)²))^(n/2), with S the squares about m.

    An arm of skewed rewards that lacks the rare large ones has too low a mean and too low a variance at once. So its variance is at
    least that of both arms together, about their own means.
    """
    gap = arm.n * (arm.mean - m) ** 2
    squares = xp.maximum(arm.squares, arm.n * within) + gap
    share = arm.n * r / (1 + arm.n * r)
    return -0.5 * xp.log1p(arm.n * r) - 0.5 * arm.n * xp.log1p(-share * gap / xp.maximum(squares, np.finfo(squares.dtype).tiny))


def needed(K: int, error: Any = ERROR) -> Any:
    """The E that a winner needs against every other active arm.

    A winner that is not best has this much evidence against a best arm, for which there are at most K - 1 pairs, each with a
    chance of at most 1/E.

    Args:
        K: how many arms there have been.
        error: the largest chance of a winner that is not the best arm.

    Returns:
        (K - 1)/error.

    >>> needed(2), needed(5)
    (20.0, 80.0)
    """
    return max(K - 1, 1) / error
