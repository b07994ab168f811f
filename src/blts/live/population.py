"""What the rewards of all arms say of arms as a group, for priors that are learned."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

LIMIT = 0.25  # a learned prior is worth at most this share of an arm's average number of rewards
SHARE = 0.1  # and has at least this share of the mean, or of the spread of rewards, as its sd
LEAST = 1.0  # smallest shape of a learned Beta or Gamma prior: an sd of at most the mean; below, arms without a success starve


class Moments(NamedTuple):
    """Of the arms that have rewards."""

    n: np.ndarray
    mean: np.ndarray
    square: float
    """Squared deviations from the arms' means, summed over all."""

    @staticmethod
    def of(arms: np.ndarray, rewards: np.ndarray) -> Moments:
        n = np.bincount(arms).astype(float)
        mean = np.bincount(arms, rewards) / np.maximum(n, 1)
        return Moments(n[n > 0], mean[n > 0], float(np.square(rewards - mean[arms]).sum()))

    @property
    def total(self) -> float:
        return float(self.n.sum())

    @property
    def grand(self) -> float:
        """The mean of all rewards."""
        return float((self.n * self.mean).sum() / self.total)

    @property
    def freedom(self) -> float:
        return self.total - len(self.n)

    def within(self, guess: float) -> float:
        """The variance of an arm's rewards. While it has few degrees of freedom, the variance of all rewards bounds it from
        below, and `guess` where they are all equal."""
        overall = (self.square + float((self.n * np.square(self.mean - self.grand)).sum())) / max(self.total - 1, 1)
        own = self.square / self.freedom if self.freedom else 0.0
        return max(own, (overall or guess) / (1 + self.freedom) ** 2, 1e-12 * guess)


def population(data: Moments, within: float, least: float) -> tuple[float, float]:
    """Mean and variance of the arms' mean rewards: those of the prior of each.

    The variance between arms is estimated by moments (DerSimonian and Laird 1986), which gives 0 in about half of all tests of
    equal arms. The prior of the arms that it was fitted to must then not be as narrow as it says, or it would use their rewards
    twice: `within / limit` is added, which makes the prior worth at most `limit` rewards. With a limit of the average number of
    rewards times 1/4 or less, 95 % intervals cover 93 to 97 % for 2 to 5 arms, equal or not, with 20 or 200 rewards each.

    Args:
        data: of the arms that have rewards.
        within: variance of an arm's rewards.
        least: smallest sd between arms.

    Returns:
        The mean, in which arms weigh by what is known of them, and the variance.
    """
    n, K, N = data.n, len(data.n), data.total
    between = 0.0
    if K > 1:
        excess = float((n * np.square(data.mean - data.grand)).sum()) - (K - 1) * within
        between = max(0.0, excess / (N - float(np.square(n).sum()) / N))
    limit = LIMIT * (1 - 0.8 / K) * N / K  # of one arm alone, the prior's mean is its own
    variance = max(between + within / limit, least**2)
    weights = 1 / (variance + within / n)
    return float((weights * data.mean).sum() / weights.sum()), variance
