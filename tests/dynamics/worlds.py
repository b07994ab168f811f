"""Every parametric dynamics of the package."""

from __future__ import annotations

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from blts import random
from blts._typing import Row
from blts.dynamics import (
    Admission,
    Feedback,
    Inventory,
    LinearQuadratic,
    LogitRiverSwim,
    LostSales,
    Replacement,
    recommender,
    rollout,
)

ALL = (recommender(), LinearQuadratic(), Inventory(), LostSales(), Admission(), Replacement(), LogitRiverSwim())
by_name = pytest.mark.parametrize("dynamics", ALL, ids=lambda d: type(d).__name__)


def best_of_all(P, r) -> float:
    """The largest gain from state 0 over all stationary policies: P^(2^40) by squaring, lazily so that no cycle is left."""
    S, A = np.shape(r)
    policies = np.array(list(np.ndindex(*(A,) * S)))
    states = np.arange(S)
    power = 0.5 * (np.eye(S) + np.asarray(P, float)[states, policies])
    for _ in range(40):
        power = power @ power
        power /= power.sum(-1, keepdims=True)
    return float(np.einsum("ps,ps->p", power[:, 0], np.asarray(r, float)[states, policies]).max())


@jax.jit
def solved(dynamics, theta):
    policy = dynamics.plan(theta)
    return policy, dynamics.gain(theta), dynamics.gain_of(theta, policy)


FAR = (0.0, -8.0, 8.0, -60.0, 60.0, -1e30, 1e30, -np.inf, np.inf, np.nan)


@cache
def data_of(dynamics, n: int) -> Row:
    """Simulated transitions; rounds take turns between the best plan and another, so that all of θ shows."""
    plan, other = dynamics.plan(dynamics.true), None
    if isinstance(dynamics, LinearQuadratic):
        other = Feedback(jnp.asarray(-0.3), jnp.asarray(True))
    elif isinstance(dynamics, LostSales):
        plan = plan - 2  # more stock-outs: a third of the rows is censored
    elif isinstance(dynamics, Replacement):
        plan = plan + 5
    run = jax.jit(lambda key: rollout(key, dynamics, dynamics.true, plan, n, explore=other).rows)
    return run(random.key(11))
