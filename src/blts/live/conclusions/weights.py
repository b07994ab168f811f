"""How evenly rewards are weighted: what inverse propensities leave of a number of rewards."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .blocks import Propensities, own_propensities


class Weights(NamedTuple):
    """Of each arm; NaN where it has no rewards."""

    smallest: np.ndarray
    """The least probability with which a decision gave the arm that it played."""
    effective: np.ndarray
    """How many equally weighted rewards the weighted ones are worth, (Σ w)² / Σ w² with w = 1 / p (Kish)."""


def weights(arms: np.ndarray, p: np.ndarray | Propensities, K: int) -> Weights:
    """The weights of decisions, summarised.

    >>> import numpy as np
    >>> found = weights(np.array([0, 0, 1]), np.array([[0.5, 0.5], [0.25, 0.75], [0.25, 0.75]]), 3)
    >>> found.smallest.tolist(), found.effective.tolist()
    ([0.25, 0.75, nan], [1.8, 1.0, nan])

    Args:
        arms: of T decisions.
        p: their propensities, [T, arms].
        K: how many arms there are.

    Returns:
        Of each arm its smallest propensity and its effective number of rewards.
    """
    smallest, effective = np.full(K, np.nan), np.full(K, np.nan)
    if not len(arms):
        return Weights(smallest, effective)
    own = own_propensities(arms, p)
    first, second = (np.bincount(arms, weights=own**-power, minlength=K) for power in (1.0, 2.0))
    for k in np.flatnonzero(first):
        smallest[k], effective[k] = own[arms == k].min(), first[k] ** 2 / second[k]
    return Weights(smallest, effective)
