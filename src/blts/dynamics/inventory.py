"""An inventory whose shortages wait."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax.scipy.special import gammaln

from .._module import array, module, positive, static
from .._typing import Array, Int, Numbers
from ..declared import rests_on
from ..models import rate
from .base import Certified, Dynamics
from .base_stock import DEMAND, EARNED, MOST_LEVELS, BaseStock
from .poisson_demand import log_pmf


@module
class Inventory(BaseStock, Dynamics):
    """Order up to a level S, then Poisson(λ) demand comes: `holding` a unit left, `shortage` a unit of backlog, a period.

    The observation is the stock x, negative where demand waits; the action is S, and the period starts with max(x, S).
    θ = log λ with the prior λ ~ Gamma(a, rate b), for a rate cannot be negative. The posterior is exact.

    Args:
        holding: cost of a unit left, a period.
        shortage: cost of a unit of backlog, a period.
        rate: λ in simulations.
        a: shape of the prior of λ.
        b: rate of that prior.
        levels: how many base stocks there are, 0 … levels - 1; by default as many as `rate` and the prior need. Fewer than
            `rate` needs are refused.

    >>> from blts.dynamics import Inventory
    >>> shop = Inventory()
    >>> print(f"up to {shop.plan(shop.true)} at {-shop.gain(shop.true):.4f} a period")
    up to 6 at 2.9772 a period
    """

    holding: Numbers = array(default=1.0)
    shortage: Numbers = array(default=4.0)
    rate: Numbers = array(default=4.0)
    a: Numbers = array(default=2.0)
    b: Numbers = array(default=0.5)
    levels: Any = static(default=None)  # a number as soon as it is checked

    def check(self):
        positive(self, "holding", "shortage", "rate", "a", "b")
        self._fit_levels(MOST_LEVELS)

    def __str__(self) -> str:
        return (
            f"An inventory of up to {self.levels - 1} units with backlog: holding {float(self.holding):.4g}, "
            f"shortage {float(self.shortage):.4g}, Poisson demand of rate {float(self.rate):.4g} in simulations."
        )

    @property
    def margin(self):
        return self.shortage

    # The belief

    def _served(self, row):
        """The demand of a row."""
        return (jnp.maximum(row.obs, row.action) - row.next_obs).astype(float)

    @rests_on("sample", "_demand")
    def log_likelihood(self, theta, row):
        return log_pmf(self._served(row), theta[0])

    @rests_on(*DEMAND)
    def information(self, theta):
        return jnp.exp(theta)

    @rests_on(*DEMAND, "_served")
    def empty(self):
        return rate.Totals.zero()

    @rests_on(*DEMAND)
    def add(self, summary, row):
        demand = self._served(row)
        return summary.plus(demand, -gammaln(demand + 1.0))

    @rests_on(*DEMAND)
    def log_likelihood_of(self, theta, summary):
        return summary.rewards.total * theta[0] - summary.rows * jnp.exp(theta[0]) + summary.base.value

    @rests_on(*DEMAND, "log_prior", "init", "empty", "add")
    def draw(self, key, summary):
        """A draw from the exact posterior."""
        return rate.draw(key, self.a + summary.rewards.total, self.b + summary.rows)[None]

    # The decision

    @rests_on(*EARNED, "act")
    def plan(self, theta) -> Int[Array, ""]:
        """The least level S with P(D ≤ S) ≥ b/(b + h), or the largest there is."""
        return self._stock(theta)[0]

    @rests_on(*EARNED)
    def gain(self, theta):
        return -self.costs(theta)[self._stock(theta)[0]]

    @rests_on(*EARNED, "act")
    def gain_of(self, theta, policy):
        return -self.costs(theta)[policy]

    @rests_on(*EARNED, "act", "plan", "gain")
    def certify(self, theta) -> Certified:
        level, lost = self._stock(theta)
        return Certified(level, -self.costs(theta)[level], lost)

    def act(self, policy, obs):
        return policy

    # The world

    @rests_on("log_likelihood")
    def sample(self, key, theta, obs, action):
        next_obs = jnp.maximum(obs, action) - self._demand(key, theta)
        left, backlog = jnp.maximum(next_obs, 0), jnp.maximum(-next_obs, 0)
        return next_obs, -(self.holding * left + self.shortage * backlog)
