"""Evidence for the winner of a report: the e-values of `blts.evidence`, on the rewards of an experiment."""

from __future__ import annotations

import numpy as np

from ...evidence import ERROR as ERROR
from ...evidence import LEAST as LEAST
from ...evidence import LEAST_BINARY as LEAST_BINARY
from ...evidence import ArmRewards as ArmRewards
from ...evidence import log_evidence as log_evidence
from ...evidence import needed as needed

ASSUMES = "Evidence assumes that an arm's rewards keep their distribution over time."
ASSUMES_NUMBERS = "It is that of a t-test, for rewards with a finite variance."


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
