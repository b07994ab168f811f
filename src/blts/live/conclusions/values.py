"""What policies are worth where decisions have contexts: pure functions on arrays, without JAX and without a database.

A decision's score of an arm is m(x, a) + 1[A = a] (r - m(x, a)) / p(a), where m predicts rewards from earlier decisions alone. So
whatever m is, and however the probabilities p depend on the context and on earlier rewards, a score's mean is the arm's mean reward
in this context. Means of scores are AIPW estimates; with m = 0 they are those of IPW.

Shapes: T decisions, K arms; `x[t]` has the numbers of decision t's context, `p[t, a]` its probability of arm a.
"""

from __future__ import annotations

import itertools

import numpy as np

from ...statistics import noise_of_squares
from .estimates import DF, Estimate

GROWTH = 1.2  # predictions are fitted again whenever there are so many times as many decisions
RIDGE = 1.0  # precision that every coefficient has around the mean of all rewards, in units of one reward
BEYOND = "some decisions could not have been this arm"
FEWEST = 2  # rewards of an arm that an estimate of it needs


def predictions(x: np.ndarray, arms: np.ndarray, rewards: np.ndarray, K: int) -> np.ndarray:
    """What earlier decisions predict of each decision and arm, by ridge regression of an arm's rewards on its contexts.

    Args:
        x: numbers of the contexts, with a constant, `[T, d]`.
        arms: of the decisions.
        rewards: of the decisions.
        K: how many arms there are.

    Returns:
        Predictions `[T, K]`. Those of decision t are fitted to decisions before t, of which the last sixth may be left out; of the
        first decision they are 0.

    >>> import numpy as np
    >>> predictions(np.ones((3, 1)), np.array([0, 0, 1]), np.array([1.0, 3.0, 9.0]), 2).tolist()
    [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]
    """
    T, d = x.shape
    out = np.zeros((T, K))
    gram, moment, sums = np.zeros((K, d, d)), np.zeros((K, d)), np.zeros((K, d))
    edges = [0, *np.unique(np.ceil(GROWTH ** np.arange(int(np.log(max(T, 1)) / np.log(GROWTH)) + 1)).astype(int)), T]
    for start, stop in itertools.pairwise(edges):
        some = slice(start, min(stop, T))
        if start:
            centre = rewards[:start].mean()
            beta = np.linalg.solve(gram + RIDGE * np.eye(d), (moment - centre * sums)[..., None])[..., 0]
            out[some] = centre + x[some] @ beta.T
        for k in range(K):
            mine = x[some][arms[some] == k]
            gram[k] += mine.T @ mine
            moment[k] += rewards[some][arms[some] == k] @ mine
            sums[k] += mine.sum(0)
    return out


def scores(arms: np.ndarray, rewards: np.ndarray, p: np.ndarray, m: np.ndarray) -> np.ndarray:
    """The scores of all decisions and arms, `[T, K]`; NaN where a decision could not have been the arm."""
    played = arms[:, None] == np.arange(p.shape[1])
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(p > 0, m + np.where(played, (rewards[:, None] - m) / p, 0.0), np.nan)


def mean_of(terms: np.ndarray, enough: np.ndarray | bool = True) -> Estimate:
    """The mean of terms whose differences from the truth are martingale differences, with Student intervals.

    Args:
        terms: `[T]` or `[T, K]`; NaN where there is none.
        enough: where False, the estimate is refused.

    Returns:
        An estimate for each column. The degrees of freedom are those that normal terms would need to know their spread as well.
    """
    terms = terms.reshape(len(terms), -1)
    n = (~np.isnan(terms)).sum(0).astype(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.where(n > 0, np.nansum(terms, 0), np.nan) / n
        squares = np.nan_to_num(np.square(terms - value))
        total = squares.sum(0)
        se = np.sqrt(total / (n - 1) / n)
        noise = noise_of_squares(total, np.square(squares).sum(0), n)
        df = np.where(noise > 0, 2.0 / noise**2, n - 1)
    good = np.broadcast_to(enough, n.shape) & (n > 1) & (df >= DF)
    why = tuple("" if ok else "there are too few rewards, or nothing was left to chance" for ok in good)
    return Estimate(np.where(good, value, np.nan), np.where(good, se, np.nan), df=np.where(good, df, np.inf), why=why)


def constant_arms(arms: np.ndarray, p: np.ndarray, scored: np.ndarray) -> Estimate:
    """The value of always playing each arm. Over fewer decisions it would be that of other contexts, so an arm needs them all.

    Args:
        arms: of the decisions.
        p: their probabilities.
        scored: their scores.

    Returns:
        An estimate for each arm that every decision could have been, that has rewards, and that was left to chance.
    """
    plays, beyond = np.bincount(arms, minlength=p.shape[1]), unplayable(p)
    found = mean_of(scored, (plays >= FEWEST) & (beyond == 0) & ((p > 0) & (p < 1)).any(0))
    return found._replace(why=tuple(BEYOND if n else why for n, why in zip(beyond, found.why, strict=True)))


def unplayable(p: np.ndarray) -> np.ndarray:
    """How many decisions could not have been each arm, such as one that was added later, or was not available to some units."""
    return (p <= 0).sum(0)


def of_policy(pi: np.ndarray, arms: np.ndarray, rewards: np.ndarray, p: np.ndarray, m: np.ndarray) -> Estimate:
    """The value of a policy that plays arm a with probability `pi[t, a]` where decision t is made.

    Args:
        pi: `[T, K]`; zero where the decision could not have been the arm.
        arms: of the decisions.
        rewards: of the decisions.
        p: their probabilities.
        m: predictions.

    Returns:
        One estimate. It is right for a policy that does not depend on these rewards.
    """
    own = np.arange(len(arms)), arms
    return mean_of((pi * m).sum(1) + pi[own] / p[own] * (rewards - m[own]))


def interval(estimate: Estimate, level: float) -> list[dict[str, float]]:
    """Value, standard error and limits of each entry of an estimate."""
    low, high = estimate.interval(level)
    return [
        {"value": float(v), "se": float(s), "low": float(a), "high": float(b)}
        for v, s, a, b in zip(estimate.value, estimate.se, low, high, strict=True)
    ]


def bonferroni(level: float, comparisons: int) -> float:
    """The level of each of several intervals that together have a level."""
    return 1.0 - (1.0 - level) / max(comparisons, 1)
