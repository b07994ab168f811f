"""What a play loses: exactly 0 for a best arm, so that rounds with a best action are counted right."""

from __future__ import annotations

import numpy as np
import pytest

from blts import Bandit, Bernoulli, DoublingCounts, Gaussian, Laplace, Thompson, simulate
from blts.envs.base import gaps_of


@pytest.mark.parametrize("means", [[0.1, 0.7, 0.7], [-1.0, -2.0, -0.5], [0.0, 0.0, 0.0], [3.0, 1e-8, -5.0]])
def test_gaps(means: list[float]) -> None:
    gaps = np.asarray(gaps_of(np.asarray(means, np.float32)))
    assert gaps.tolist() == (np.max(np.float32(means)) - np.float32(means)).tolist()


@pytest.mark.parametrize(
    "model", [Gaussian(prior_mean=[0.0, 0.1, 0.2]), Laplace(prior_mean=[0.0, 0.1, 0.2]), Bernoulli(a=[1.0, 2.0, 3.0])]
)
def test_rounds_with_a_best_action_are_the_plays_of_one_arm(model) -> None:
    """Arms that are drawn have no ties, so the rounds without regret are all plays of one arm, in every replication."""
    trace = simulate(0, Bandit(model), Thompson(model), DoublingCounts(), horizon=60, replications=20)
    best = np.round(60 * trace.best_share)
    assert (best[:, None] == trace.plays).any(1).all()
