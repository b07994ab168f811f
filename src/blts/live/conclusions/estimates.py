"""What an adaptive experiment says about its arms: pure functions on arrays, without JAX and without a database.

After a bandit, an arm's mean reward is biased: an arm whose first rewards were unlucky is played less, and keeps them.
Weighting every reward by the probability of its decision undoes that.

Shapes: T decisions, K arms; `p[t, a]` is the probability that decision t had of arm a.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy import special

from ...statistics import noise_of_squares
from .blocks import Propensities, Sums, blocks, own_propensities

PAYMENTS = 5.0  # effective number of rewards above zero that an interval needs, where their sizes differ
DF = 3.0  # degrees of freedom that an interval needs


class Estimate(NamedTuple):
    """A number for each arm, with its standard error; NaN where there is none.

    Its interval has the means x with |value - x| ≤ z √v(x), where v(x) is the variance that the estimate has if x is the mean
    (Wilson's interval, for rewards 0 or 1). v is quadratic, and the limits are the roots of a quadratic equation.
    """

    value: np.ndarray
    se: np.ndarray
    variance: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None
    """c0, c1 and c2 of v(x) = c0 + c1 x + c2 x², for each arm. Where it is None, v is se²."""
    df: np.ndarray | float = np.inf
    """Degrees of freedom: of the t distribution that z is the quantile of."""
    limits: tuple[float, float] = (-np.inf, np.inf)
    """Between which means can be."""
    why: tuple[str, ...] = ()
    """For each arm why it has no interval; empty where it has one."""

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """An interval for each arm.

        Args:
            level: the share of experiments whose interval has the arm's mean.

        Returns:
            Lower and upper limits; NaN where the interval is refused (`why`).
        """
        c0, c1, c2 = (np.square(self.se), 0.0, 0.0) if self.variance is None else self.variance
        z2, x = np.square(special.stdtrit(self.df, 0.5 + 0.5 * level)), self.value
        # The roots' distances from x, so that a mean far above its standard error loses no digits.
        a, b = 1.0 - z2 * c2, z2 * (0.5 * c1 + c2 * x)
        root = np.sqrt(np.maximum(b * b + a * z2 * (c0 + c1 * x + c2 * x * x), 0.0))
        low, high = np.clip(x + (b - root) / a, *self.limits), np.clip(x + (b + root) / a, *self.limits)
        refused = np.array([bool(why) for why in self.why]) if self.why else np.zeros(np.shape(self.value), bool)
        return np.where(refused, np.nan, low), np.where(refused, np.nan, high)


def naive(arms: np.ndarray, rewards: np.ndarray, K: int, *, binary: bool = False) -> Estimate:
    """Each arm's mean reward, as if nothing had been adaptive, with a Student interval, or Wilson's where rewards are 0 or 1."""
    n = np.bincount(arms, minlength=K).astype(float)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.bincount(arms, rewards, K) / n
        square = np.bincount(arms, (rewards - mean[arms]) ** 2, K)
        se = np.sqrt(square / (n - 1) / n)
        if binary:
            return Estimate(mean, se, (np.zeros(K), 1.0 / n, -1.0 / n), limits=(0.0, 1.0))
    highest, lowest = np.full(K, -np.inf), np.full(K, np.inf)
    np.maximum.at(highest, arms, rewards)
    np.minimum.at(lowest, arms, rewards)
    why = ["its rewards are all equal, and say nothing of their spread" if equal else "" for equal in highest <= lowest]
    return Estimate(mean, se, df=np.maximum(n - 1, 1.0), why=tuple(why))


def ipw(arms: np.ndarray, rewards: np.ndarray, p: np.ndarray | Propensities) -> Estimate:
    """Inverse propensity weighting: the mean over decisions of 1[A_t = a] r_t / p_t(a), unbiased for arm a's mean.

    Decisions that could not have played arm a (it was not there yet, or retired) say nothing of it and are left out.

    Args:
        arms: of T decisions.
        rewards: of these decisions.
        p: their propensities, [T, arms].

    Returns:
        An estimate for each arm that has two rewards and was left to chance at least once; NaN for others.
    """
    return _weighted(arms, rewards, p, augmented=False)


def aipw(arms: np.ndarray, rewards: np.ndarray, p: np.ndarray | Propensities) -> Estimate:
    """Augmented IPW: the mean of m_t(a) + 1[A_t = a] (r_t - m_t(a)) / p_t(a), with m_t(a) the mean of arm a's earlier rewards.

    m depends on earlier decisions alone, so every term is unbiased whatever m is, and the better m is, the smaller the variance.
    The first decision, before which nothing is known, is left out: far from zero it would be most of the variance. (Weights
    √p_t(a), as in Hadad et al. 2021, make narrower intervals, and were biased at a thousand decisions; DESIGN.md has the numbers.)

    Args:
        arms: of T decisions.
        rewards: of these decisions.
        p: their propensities, [T, arms].

    Returns:
        As `ipw` does.
    """
    return _weighted(arms, rewards, p, augmented=True)


def _augmented(arms: np.ndarray, rewards: np.ndarray, p: np.ndarray, m: np.ndarray) -> np.ndarray:
    """The terms of AIPW with predictions m, one for every decision and arm."""
    return m + _one_hot(arms, p.shape[1]) * (rewards[:, None] - m) / np.where(p > 0, p, 1.0)


def _one_hot(arms: np.ndarray, K: int) -> np.ndarray:
    return (arms[:, None] == np.arange(K)).astype(float)


class _Block(NamedTuple):
    """Some decisions, with what earlier ones predict of them."""

    arms: np.ndarray
    rewards: np.ndarray
    p: np.ndarray
    m: np.ndarray
    """The means of the arms' earlier rewards (`earlier_means`), `[decisions, K]`."""

    @property
    def terms(self) -> np.ndarray:
        return _augmented(*self)


def _in_blocks(arms: np.ndarray, rewards: np.ndarray, p: np.ndarray | Propensities) -> Iterator[_Block]:
    """All decisions, some at a time."""
    K, before = p.shape[1], None
    for some in blocks(len(arms)):
        m, before = _earlier_means(arms[some], rewards[some], K, before)
        yield _Block(arms[some], rewards[some], p[some], m)


def _weighted(arms: np.ndarray, rewards: np.ndarray, p: np.ndarray | Propensities, *, augmented: bool) -> Estimate:
    """The mean of each arm's augmented terms over the decisions that could have played it, and its variance.

    The terms less the truth are martingale differences, so their squares estimate the variance of the sum. With few conversions
    they do so badly. Where the variance of a reward is tied to its mean x, as σ²(x) = κ x - x² (κ = 1 for rewards 0 or 1; see
    `_ratio`), that of a term is known before its decision: σ²(x)/p + (x - m)² (1/p - 1). v(x) is the sum of these, enlarged where
    the squares say that it is too small, as where rewards drift: by their ratio at the estimate less half its standard error,
    because the noise of the squares is no reason. Elsewhere v is the squares', with as many degrees of freedom as normal rewards
    would need to know it as well.

    Shares of 95 % intervals that had the rate, for Thompson sampling with a floor of 5 % (tests/live/test_estimates.py):

        decisions  arms  rate   normal IPW   this IPW   normal AIPW   this AIPW
              512     2   2 %       87.6 %     95.2 %        87.2 %      95.4 %
              512     4   2 %       79.0 %     94.3 %        78.7 %      94.5 %
              512     4  10 %       92.4 %     95.6 %        92.7 %      96.0 %
             2048     4   2 %       90.3 %     95.2 %        90.3 %      95.3 %
    """
    first, K = int(augmented), p.shape[1]  # the first decision has nothing before it to be predicted from

    def parts() -> Iterator[_Block]:
        for i, block in enumerate(_in_blocks(arms, rewards, p)):
            used = block if augmented else block._replace(m=np.zeros_like(block.m))
            yield _Block(*(x[first:] for x in used)) if i == 0 else used

    plays = np.bincount(arms[first:], minlength=K)
    ratio, payments, limits = _ratio(arms[first:], rewards[first:], own_propensities(arms, p)[first:], K)
    tied, sums = np.isfinite(ratio), Sums()
    for block in parts():
        there = block.p > 0
        rest = np.where(there, 1.0 / np.where(there, block.p, 1.0) - 1.0, 0.0)
        sums.add(n=there, chance=there & (block.p < 1), terms=np.where(there, block.terms, 0.0))
        sums.add(rest=rest, m=rest * block.m, m2=rest * block.m * block.m)
    n = sums.n
    with np.errstate(invalid="ignore", divide="ignore"):
        value = sums.terms / n
        for block in parts():
            squares = np.where(block.p > 0, np.square(block.terms - value), 0.0)
            sums.add(squares=squares, fourth=np.square(squares))
        total = sums.squares
        noise = noise_of_squares(total, sums.fourth, n)
        weights = sums.rest + n
        known = sums.m2, ratio * weights - 2.0 * sums.m, sums.rest - weights
        x = np.clip(value, *limits)
        excess = total / (known[0] + known[1] * x + known[2] * x * x) * (1.0 - 0.5 * noise)
        scale = np.where(excess > 1.0, excess, 1.0) / n**2
        c0, c1, c2 = (np.where(tied, c * scale, other) for c, other in zip(known, (total / n**2, 0.0, 0.0), strict=True))
        df = np.where(tied, np.inf, 2.0 / noise**2)
        se = np.sqrt(np.where(tied, c0 + c1 * x + c2 * x * x, total / n**2))
    blind = (sums.chance == 0) | (plays < 2)  # IPW needs probabilities strictly between 0 and 1
    why = [_why(*row) for row in zip(blind, tied, payments, df, strict=True)]
    return Estimate(np.where(blind, np.nan, value), np.where(blind, np.nan, se), (c0, c1, c2), df, limits, tuple(why))


def _ratio(arms: np.ndarray, rewards: np.ndarray, own: np.ndarray, K: int) -> tuple[np.ndarray, np.ndarray, tuple[float, float]]:
    """For each arm E[r²]/E[r], which ties the variance of rewards to their mean; NaN where nothing does.

    It is 1 for rewards 0 or 1. For other rewards of zero or above whose sd is larger than their mean, as that of revenue, it is
    estimated: another mean is taken to be another share of payments of the same sizes. `own` has the probability that each decision
    had of its own arm.

    Returns:
        The ratios, the effective number of payments that they are estimated from (infinite for 0 or 1), and the limits of means.
    """
    if np.isin(rewards, (0.0, 1.0)).all() and rewards.any():
        return np.ones(K), np.full(K, np.inf), (0.0, 1.0)
    if (rewards < 0).any():
        return np.full(K, np.nan), np.full(K, np.inf), (-np.inf, np.inf)
    with np.errstate(invalid="ignore", divide="ignore"):
        weights = 1.0 / own
        zeroth, first, second = (np.bincount(arms, weights * rewards**k, K) for k in range(3))
        ratio, payments = second / first, first**2 / np.bincount(arms, (weights * rewards) ** 2, K)
        return np.where(ratio > 2.0 * first / zeroth, ratio, np.nan), np.nan_to_num(payments), (0.0, np.inf)


def _why(blind: bool, tied: bool, payments: float, df: float) -> str:
    """Why an arm has no interval; empty where it has one."""
    if blind:
        return "it has fewer than two rewards, or its decisions left nothing to chance"
    if payments < PAYMENTS:
        return f"its rewards above zero weigh as much as {payments:.1f} equal ones, and an interval needs {PAYMENTS:.0f}"
    if not tied and np.isnan(df):
        return "its weighted rewards are all equal, and say nothing of their spread"
    if not tied and df < DF:
        return f"its weighted rewards say as much of their spread as {df:.1f} equal ones would, and an interval needs {DF:.0f}"
    return ""


def earlier_means(arms: np.ndarray, rewards: np.ndarray, K: int) -> np.ndarray:
    """For every decision and arm, the mean of the arm's rewards before it; where it has none that of all arms, and then 0."""
    return _earlier_means(arms, rewards, K, None)[0]


def _earlier_means(
    arms: np.ndarray, rewards: np.ndarray, K: int, before: tuple[np.ndarray, np.ndarray] | None
) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """`earlier_means` for decisions after others, of which `before` has the arms' counts and sums; and the same after these."""
    played = _one_hot(arms, K)
    gained = played * rewards[:, None]
    counts, totals = before or (np.zeros(K), np.zeros(K))
    counted, summed = (np.cumsum(np.concatenate([x[None], more]), 0)[1:] for x, more in ((counts, played), (totals, gained)))
    count, total = counted - played, summed - gained
    all_count, all_total = count.sum(1, keepdims=True), total.sum(1, keepdims=True)
    anyone = np.divide(all_total, all_count, out=np.zeros_like(all_total), where=all_count > 0)
    means = np.divide(total, count, out=np.repeat(anyone, K, 1), where=count > 0)
    return means, (counted[-1], summed[-1]) if len(arms) else (counts, totals)


class Gain(NamedTuple):
    per_unit: float
    se: float
    total: float
    low: float = np.nan
    """Limits of an interval of `per_unit`; NaN where it is refused."""
    high: float = np.nan


def value_against_equal(arms: np.ndarray, rewards: np.ndarray, p: np.ndarray | Propensities, level: float = 0.95) -> Gain:
    """What the allocation earned a unit more than equal shares of the arms that could be played would have.

    The mean over decisions of r_t - mean_a of its augmented term, which less the truth is a martingale difference. Where the
    variance of rewards is tied to their mean, that of the difference is known given the arms' means; the lower limit takes them at
    the ends of their own intervals that make the gain smaller, the upper limit at the other ends (see `_weighted`).

    Args:
        arms: of T decisions.
        rewards: of these decisions.
        p: their propensities, [T, arms].
        level: of the interval.

    Returns:
        The gain; NaN with fewer than two decisions.
    """
    T, K = len(arms), p.shape[1]
    if T < 2:
        return Gain(np.nan, np.nan, np.nan)
    terms, done = np.empty(T), 0
    for b in _in_blocks(arms, rewards, p):
        mine = b.rewards - (np.where(b.p > 0, b.terms, 0.0) / _possible(b.p)).sum(1)
        # Propensities are single precision: where all arms had the same, what is left is rounding.
        terms[done : done + len(mine)] = np.where(np.abs(mine) <= 1e-6 * np.abs(b.rewards), 0.0, mine)
        done += len(mine)
    value, total, se = terms.mean(), float(terms.sum()), terms.std(ddof=1) / np.sqrt(T)
    squares = np.square(np.subtract(terms, value, out=terms), out=terms)
    spread = squares.sum()
    noise = noise_of_squares(spread, np.square(squares).sum(), T)
    del terms, squares
    own, ratio = aipw(arms, rewards, p), _ratio(arms, rewards, own_propensities(arms, p), K)[0]
    if not np.isfinite(ratio).all():
        z = special.stdtrit(2.0 / noise**2, 0.5 + 0.5 * level) if noise > 0 else special.ndtri(0.5 + 0.5 * level)
        return Gain(float(value), float(se), total, float(value - z * se), float(value + z * se))

    def weights(p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What a term changes by with its prediction, and with its arm's mean."""
        there = p > 0
        share = np.where(there, 1.0 / (_possible(p) * np.where(there, p, 1.0)), 0.0)
        return share, np.where(there, 1.0 - share, 0.0)

    def variance(means: np.ndarray) -> float:
        """Of the sum of the terms, if these were the arms' means."""
        total = 0.0
        for block in _in_blocks(arms, rewards, p):
            share, slope = weights(block.p)
            expected = slope * means + share * block.m
            between = np.square(expected - (block.p * expected).sum(1, keepdims=True))
            total += float((block.p * ((ratio - means) * means * slope**2 + between)).sum())
        return total

    z, ends = special.ndtri(0.5 + 0.5 * level), own.interval(level)
    known = variance(np.clip(own.value, *own.limits))
    excess = max(1.0, spread / known * (1.0 - 0.5 * noise)) if known > 0 else 1.0
    sums = Sums()
    for some in blocks(T):
        sums.add(slope=weights(p[some])[1])
    up = sums.slope > 0  # a larger mean of this arm is a larger gain
    low, high = (z * np.sqrt(excess * variance(np.where(up == upper, ends[1], ends[0]))) / T for upper in (False, True))
    return Gain(float(value), float(se), total, float(value - low), float(value + high))


def _possible(p: np.ndarray) -> np.ndarray:
    """How many arms each decision could have played, at least 1; `[decisions, 1]`."""
    return np.maximum((p > 0).sum(1, keepdims=True), 1)
