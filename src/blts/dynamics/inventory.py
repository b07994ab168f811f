"""Inventories with Poisson demand: shortages wait, or are lost and not seen."""

from __future__ import annotations

from functools import partial
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.scipy.special import gammaln

from .. import _random
from .._module import array, at_least, module, positive, static
from .._typing import Array, Float, Int, Numbers, Scalar
from ..models import rate
from ..models.base import Sum
from .base import clipped

SERIES = 24  # terms beyond the number of levels; the factors λ/(y + j) of the tail are then below 1/2 for most of them


def log_pmf(k, log_rate: Scalar):
    return k * log_rate - jnp.exp(log_rate) - gammaln(k + 1.0)


@partial(jax.custom_jvp, nondiff_argnums=(0, 2))
def log_tail(y, log_rate: Scalar, levels: int):
    """log P(D ≥ y) for Poisson demand and y < levels, by sums of positive terms on either side of the mean.

    λ ≤ y + 1:  log pmf(y) + log(1 + λ/(y+1) (1 + λ/(y+2) (1 + …)))
    λ > y + 1:  log(1 - pmf(y-1) (1 + (y-1)/λ (1 + (y-2)/λ (1 + …))))
    """
    y = jnp.asarray(y, float)
    above = jnp.exp(log_rate) > y + 1.0
    low_log, high_log = jnp.where(above, jnp.log(y + 1.0), log_rate), jnp.where(above, log_rate, jnp.log(y + 2.0))
    low, high, one = jnp.exp(low_log), jnp.exp(high_log), jnp.ones_like(y + log_rate)
    terms = levels + SERIES
    up = lax.fori_loop(0, terms, lambda i, sum: 1.0 + low / (y + (terms - i)) * sum, one)
    down = lax.fori_loop(0, levels, lambda i, sum: 1.0 + jnp.maximum(y - (levels - i), 0.0) / high * sum, one)
    below = jnp.where(y > 0, jnp.exp(log_pmf(jnp.maximum(y - 1.0, 0.0), high_log)) * down, 0.0)
    return jnp.where(y == 0, 0.0, jnp.where(above, jnp.log1p(-below), log_pmf(y, low_log) + jnp.log(up)))


@log_tail.defjvp
def _log_tail_jvp(y, levels, primals, tangents):
    """d log P(D ≥ y)/d log λ = λ pmf(y - 1)/P(D ≥ y)."""
    (log_rate,), (change,) = primals, tangents
    value = log_tail(y, log_rate, levels)
    below = jnp.maximum(jnp.asarray(y, float) - 1.0, 0.0)
    slope = jnp.where(y == 0, 0.0, jnp.exp(log_rate + log_pmf(below, log_rate) - value))
    return value, slope * change


@module
class BaseStock:
    """What both inventories share: a level for the period, its newsvendor cost, and the Gamma prior of the rate."""

    holding: Numbers = array(default=1.0)
    shortage: Numbers = array(default=4.0)
    rate: Numbers = array(default=4.0)
    a: Numbers = array(default=2.0)
    b: Numbers = array(default=0.5)
    levels: int = static(default=20)
    dim: ClassVar[int] = 1

    def check(self):
        positive(self, "holding", "shortage", "rate", "a", "b")
        at_least(self, "levels", 2)

    @property
    def actions(self) -> int:
        return self.levels

    @property
    def true(self):
        return jnp.log(jnp.asarray(self.rate, float))[None]

    def init(self, key):
        return rate.draw(key, jnp.asarray(self.a, float), self.b)[None]

    def log_prior(self, theta):
        return rate.log_density(theta[0], self.a, self.b)

    def information(self, theta):
        return jnp.exp(theta)

    def prior_precision(self):
        return jnp.reshape(self.a + 0.0 * self.b, (1,))

    def _below(self, theta) -> Float[Array, " levels"]:
        """P(D ≤ S) for all levels S."""
        log_rate = clipped(theta, -10.0, 10.0)[0]
        return jnp.minimum(jnp.cumsum(jnp.exp(log_pmf(jnp.arange(self.levels), log_rate))), 1.0)

    def costs(self, theta) -> Float[Array, " levels"]:
        """h E(S - D)⁺ + b E(D - S)⁺ a period, with E(S - D)⁺ = Σ_{k<S} P(D ≤ k)."""
        F = self._below(theta)
        left = jnp.cumsum(F) - F
        return self.holding * left + self.shortage * (jnp.exp(clipped(theta, -10.0, 10.0)[0]) - jnp.arange(self.levels) + left)

    def plan(self, theta) -> Int[Array, ""]:
        """The least level S with P(D ≤ S) ≥ b/(b + h), or the largest there is."""
        short = self._below(theta) < self.shortage / (self.shortage + self.holding)
        return jnp.minimum(jnp.sum(short), self.levels - 1)

    def gain(self, theta):
        return self.gain_of(theta, self.plan(theta))

    def gain_of(self, theta, policy):
        return -self.costs(theta)[policy]

    def table(self, theta) -> tuple[Array, Array]:
        """The same world as a finite MDP over the stock on hand, 0 … levels - 1: transitions and expected rewards.

        What is owed to customers is part of the next order and changes nothing else, so every backlog is state 0.
        """
        levels = jnp.arange(self.levels)
        pmf = jnp.exp(log_pmf(levels, theta[0]))
        gap = levels[:, None] - levels  # the demand that leads from the level y to the stock left
        moves = jnp.where(gap >= 0, pmf[jnp.maximum(gap, 0)], 0.0)
        moves = moves.at[:, 0].set(jnp.maximum(1.0 - jnp.sum(moves[:, 1:], 1), 0.0))
        after = jnp.maximum(levels[:, None], levels)  # [stock, action]: a level below the stock orders nothing
        gains = jax.vmap(lambda y: self.gain_of(theta, y))(levels)
        return moves[after], gains[after]

    def act(self, policy, obs):
        return policy

    def start(self) -> Int[Array, ""]:
        return jnp.zeros((), int)

    def _demand(self, key, theta):
        return jax.random.poisson(_random.stock(key), jnp.exp(theta[0])).astype(int)


@module
class Inventory(BaseStock):
    """Order up to a level S, then Poisson(λ) demand comes: `holding` a unit left, `shortage` a unit of backlog, a period.

    The observation is the stock x, negative where demand waits; the action is S, and the period starts with max(x, S).
    θ = log λ with the prior λ ~ Gamma(a, rate b), for a rate cannot be negative. The posterior is exact.

    >>> from blts.dynamics import Inventory
    >>> shop = Inventory()
    >>> print(f"up to {shop.plan(shop.true)} at {-shop.gain(shop.true):.4f} a period")
    up to 6 at 2.9772 a period
    """

    def __str__(self) -> str:
        return (
            f"An inventory of up to {self.levels - 1} units with backlog: holding {float(self.holding):.4g}, "
            f"shortage {float(self.shortage):.4g}, Poisson demand of rate {float(self.rate):.4g} in simulations."
        )

    def _served(self, row):
        """The demand of a row."""
        return (jnp.maximum(row.obs, row.action) - row.next_obs).astype(float)

    def log_likelihood(self, theta, row):
        return log_pmf(self._served(row), theta[0])

    def empty(self):
        return rate.Totals.zero()

    def add(self, summary, row):
        demand = self._served(row)
        return summary.plus(demand, -gammaln(demand + 1.0))

    def log_likelihood_of(self, theta, summary):
        return summary.rewards.total * theta[0] - summary.rows * jnp.exp(theta[0]) + summary.base.value

    def draw(self, key, summary):
        """A draw from the exact posterior."""
        return rate.draw(key, self.a + summary.rewards.total, self.b + summary.rows)[None]

    def sample(self, key, theta, obs, action):
        next_obs = jnp.maximum(obs, action) - self._demand(key, theta)
        left, backlog = jnp.maximum(next_obs, 0), jnp.maximum(-next_obs, 0)
        return next_obs, -(self.holding * left + self.shortage * backlog)


class Sales(NamedTuple):
    """Units sold in periods that ended with stock, and how many periods sold out, by the level they started with."""

    rows: Int[Array, ""]
    sold: Sum
    served: Int[Array, ""]
    base: Sum
    stockouts: Int[Array, " levels"]


@module
class LostSales(BaseStock):
    """The same with demand beyond the stock lost and not seen: `shortage` is earned a unit sold, `holding` paid a unit left.

    Sales are censored demand: below the stock they have the Poisson probability, at a stock-out its upper tail P(D ≥ y). The
    average reward is shortage · λ less the cost of the inventory with backlog, so the best level is the same.

    >>> from blts.dynamics import LostSales
    >>> shop = LostSales()
    >>> print(f"up to {shop.plan(shop.true)} for {shop.gain(shop.true):.4f} a period")
    up to 6 for 13.0228 a period
    """

    def __str__(self) -> str:
        return (
            f"An inventory of up to {self.levels - 1} units with lost sales: holding {float(self.holding):.4g}, margin "
            f"{float(self.shortage):.4g}, demand seen as sales only, Poisson of rate {float(self.rate):.4g} in simulations."
        )

    def log_likelihood(self, theta, row):
        y = jnp.maximum(row.obs, row.action)
        seen = log_pmf((y - row.next_obs).astype(float), theta[0])
        return jnp.where(row.next_obs > 0, seen, log_tail(y, theta[0], self.levels))

    def empty(self):
        zero = jnp.zeros((), int)
        return Sales(zero, Sum.zero(), zero, Sum.zero(), jnp.zeros(self.levels, int))

    def add(self, summary, row):
        y = jnp.maximum(row.obs, row.action)
        out = row.next_obs == 0
        sold = jnp.where(out, 0.0, (y - row.next_obs).astype(float))
        rows, units, served, base, stockouts = summary
        stockouts = stockouts + ((jnp.arange(self.levels) == y) & out)
        return Sales(rows + 1, units.plus(sold), served + ~out, base.plus(-gammaln(sold + 1.0)), stockouts)

    def log_likelihood_of(self, theta, summary):
        seen = summary.sold.value * theta[0] - summary.served * jnp.exp(theta[0]) + summary.base.value
        return seen + jnp.sum(summary.stockouts * log_tail(jnp.arange(self.levels), theta[0], self.levels))

    def gain_of(self, theta, policy):
        return self.shortage * jnp.exp(clipped(theta, -10.0, 10.0)[0]) - self.costs(theta)[policy]

    def sample(self, key, theta, obs, action):
        y = jnp.maximum(obs, action)
        sold = jnp.minimum(y, self._demand(key, theta))
        return y - sold, self.shortage * sold - self.holding * (y - sold)
