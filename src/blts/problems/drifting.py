"""Named bandits whose means change, and the one that they begin as. Their regret is against the best arm of each round."""

from __future__ import annotations

import numpy as np

from .. import envs, models
from ..errors import whole
from ..registry import register
from .base import Problem

SD = 0.5  # of a reward: twice the gap between two arms of five
HORIZON = 4000


def _problem(arms: int, drift: envs.Drift | None, means: np.ndarray | None = None) -> Problem:
    whole("arms", arms, 2)
    bandit = envs.Bandit.with_means(models.Gaussian(sd=SD), np.linspace(0, 1, arms) if means is None else means)
    prior = models.Gaussian(prior_mean=0.5, prior_sd=0.5, sd=SD)
    return Problem(bandit if drift is None else envs.Drifting(bandit, drift), {"uninformative": prior}, HORIZON)


@register("environment", "drifting-none")
def drifting_none(arms=5) -> Problem:
    """The bandit that the drifting ones begin with: Gaussian arms, means evenly spaced in [0, 1], sd 0.5."""
    return _problem(arms, None)


@register("environment", "drifting-walk")
def drifting_walk(arms=5, walk=0.01) -> Problem:
    """Means that move by N(0, walk²) a round, reflected at 0 and 1."""
    return _problem(arms, envs.RandomWalk(walk, low=0.0, high=1.0))


@register("environment", "drifting-abrupt")
def drifting_abrupt(arms=5, rate=1 / 800) -> Problem:
    """Means that the arms exchange after a round with probability `rate`: another arm is then the best one."""
    return _problem(arms, envs.AbruptChanges(rate=rate))


@register("environment", "drifting-seasonal")
def drifting_seasonal(arms=5, period=2000, amplitude=0.5) -> Problem:
    """Means 0.5 ± amplitude that rise and fall with a period, each arm at its own time: every arm is the best one in turn."""
    return _problem(arms, envs.Seasonal(period, amplitude), np.full(arms, 0.5))
