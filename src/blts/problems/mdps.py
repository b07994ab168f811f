"""Named MDPs: tabular ones, and those with a parameter vector."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dynamics, envs
from ..errors import whole
from ..models import Tabular
from ..registry import register
from .base import Problem

HORIZON = 4095  # the paper's: twelve policies under static doubling


def _table(env: envs.MDP) -> Problem:
    """Rewards are known, as in the paper."""
    return Problem(env, {"uniform": Tabular(env.rewards), "sparse": Tabular(env.rewards, 1 / env.states)}, HORIZON)


@register("environment", "riverswim-paper", mdp=True)
def riverswim_paper(states=5, left=2.0, right=10.0) -> Problem:
    """RiverSwim exactly as the paper prints it."""
    return _table(envs.riverswim_paper(states, left, right))


@register("environment", "strens-chain", mdp=True)
def strens_chain(states=5, slip=0.2, left=2.0, right=10.0) -> Problem:
    """The chain that fits the paper's RiverSwim table: a slip turns forward into back to the start."""
    return _table(envs.strens_chain(states, slip, left, right))


@register("environment", "riverswim", mdp=True)
def riverswim(states=6, left=0.005, right=1.0) -> Problem:
    """RiverSwim as in Osband et al. (2013), of any length."""
    return _table(envs.riverswim(states, left, right))


@register("environment", "riverswim-strehl", mdp=True)
def riverswim_strehl(states=6, left=5.0, right=10000.0) -> Problem:
    """RiverSwim as in Strehl and Littman (2008), of any length."""
    return _table(envs.riverswim_strehl(states, left, right))


@register("environment", "garnet", mdp=True)
def garnet(states=10, actions=3, successors=3, seed=0) -> Problem:
    """A random MDP with a few successors a pair."""
    return _table(envs.garnet(states, actions, successors, seed))


@register("environment", "dirichlet-mdp", mdp=True)
def dirichlet_mdp(states=5, actions=2, alpha=1.0, seed=0) -> Problem:
    """MDPs drawn from a Dirichlet prior for each replication, with random known rewards: Bayesian regret."""
    for name, value, least in (("states", states, 2), ("actions", actions, 1), ("seed", seed, 0)):
        whole(name, value, least)
    rewards = np.random.default_rng(seed).uniform(size=(states, actions))
    model = Tabular(rewards, alpha)
    return Problem(envs.DrawnMDP(model), {"uniform": model}, HORIZON)


def _parametric(world: Any) -> Problem:
    return Problem(envs.ParametricMDP(world), {"own": world}, HORIZON)


@register("environment", "poi-recommender", mdp=True)
def poi_recommender(points=8, width=1.5, phi=0.5) -> Problem:
    """The paper's appendix: recommend points of interest to a tourist who follows with probability p^φ, φ = 1/θ."""
    return _parametric(dynamics.recommender(points, width, phi))


@register("environment", "linear-quadratic", mdp=True)
def linear_quadratic(a=0.9, b=0.5, q=1.0, r=0.1, sd=1.0) -> Problem:
    """Linear-quadratic control: x' = a x + b u + noise, cost q x² + r u², θ = (a, b)."""
    return _parametric(dynamics.LinearQuadratic(a, b, q, r, sd))


@register("environment", "inventory", mdp=True)
def inventory(rate=4.0, holding=1.0, shortage=4.0, levels=None) -> Problem:
    """Poisson demand with backlog, θ = log rate: order up to a base stock. Without levels, as many as are needed."""
    return _parametric(dynamics.Inventory(holding, shortage, rate, levels=levels))


@register("environment", "lost-sales", mdp=True)
def lost_sales(rate=4.0, holding=1.0, price=4.0, unit_cost=0.0, fixed_cost=0.0, levels=None) -> Problem:
    """Poisson demand with lost sales: demand beyond the stock is not seen. Without levels, as many as are needed."""
    return _parametric(dynamics.LostSales(holding, price, rate, levels=levels, unit_cost=unit_cost, fixed_cost=fixed_cost))


@register("environment", "admission", mdp=True)
def admission(arrival=0.8, service=1.0, reward=6.0, cost=1.0, capacity=None) -> Problem:
    """M/M/1 admission control, θ = log rates: admit while the queue is short. Without a capacity, as long a queue as is needed."""
    return _parametric(dynamics.Admission(arrival, service, reward, cost, capacity=capacity))


@register("environment", "machine-replacement", mdp=True)
def machine_replacement(theta0=-1.0, theta1=2.0, levels=10, running=0.15, replacing=8.0) -> Problem:
    """A machine that wears with a logistic probability: when to replace it."""
    return _parametric(dynamics.Replacement((theta0, theta1), running, replacing, levels=levels))


@register("environment", "logit-riverswim", mdp=True)
def logit_riverswim(states=6, left=0.005, right=1.0) -> Problem:
    """RiverSwim of any length whose moves are multinomial logits of a few parameters."""
    return _parametric(dynamics.LogitRiverSwim(small=left, large=right, length=states))
