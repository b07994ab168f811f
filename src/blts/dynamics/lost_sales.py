"""An inventory whose shortages are lost and not seen."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import gammaln

from .._module import array, is_concrete, module, positive, require, short, static
from .._typing import Array, Float, Int, Numbers, Scalar
from ..declared import rests_on
from ..models.moments import Sum
from .base import Certified, Dynamics
from .base_stock import DEMAND, EARNED, HIGHEST, MOST_LEVELS, BaseStock
from .bounds import clipped, digits
from .finite import stationary_reward
from .poisson_demand import log_pmf, log_tail, newsvendor

MOST_STATES = 1 << 11  # where a plan is a table of all levels


class Sales(NamedTuple):
    """Units sold in periods that ended with stock, and how many periods sold out, by the level they started with."""

    rows: Int[Array, ""]
    sold: Sum
    served: Int[Array, ""]
    base: Sum
    stockouts: Int[Array, " levels"]


class Cycle(NamedTuple):
    """The best order-up-to cycle where a period costs g: its level, what it earns above that, and how long it lasts."""

    level: Int[Array, ""]
    surplus: Scalar
    periods: Scalar
    value: Float[Array, " levels"]
    """Of a stock until the next order, above its replacement value."""
    orders: Array
    """The stocks at which it is best to order."""


@module
class LostSales(BaseStock, Dynamics):
    """Order up to a level; demand beyond it is lost and not seen. A unit sold earns `price`, one left costs `holding` a period.

    An order costs `unit_cost` a unit and `fixed_cost` besides, and arrives at once. Sales are censored demand: below the stock
    they have the Poisson probability, at a stock-out its upper tail P(D ≥ y).

    Without a fixed cost a plan is one base stock: the average reward is (price - unit_cost) λ less the cost of the inventory
    with backlog whose shortage cost is that margin. With one a plan is a table, the level to order up to for each stock (its
    own where nothing is ordered), found by policy iteration over order cycles, whatever their structure.

    Args:
        holding: cost of a unit left, a period.
        price: of a unit sold.
        rate: λ in simulations.
        a: shape of the prior of λ.
        b: rate of that prior.
        unit_cost: of a unit ordered.
        fixed_cost: of each order; None or 0 where orders are free.
        levels: how many levels of stock there are, 0 … levels - 1; by default as many as `rate` and the prior need.

    >>> from blts.dynamics import LostSales
    >>> shop = LostSales()
    >>> print(f"up to {shop.plan(shop.true)} for {shop.gain(shop.true):.4f} a period")
    up to 6 for 13.0228 a period
    >>> shop = LostSales(price=9.0, unit_cost=5.0, fixed_cost=10.0)
    >>> print(shop.plan(shop.true)[:6].tolist(), f"for {shop.gain(shop.true):.4f} a period")
    [10, 10, 2, 3, 4, 5] for 7.2506 a period
    """

    holding: Numbers = array(default=1.0)
    price: Numbers = array(default=4.0)
    rate: Numbers = array(default=4.0)
    a: Numbers = array(default=2.0)
    b: Numbers = array(default=0.5)
    levels: Any = static(default=None)  # a number as soon as it is checked
    unit_cost: Numbers = array(default=0.0)
    fixed_cost: Numbers = array(default=None)

    def check(self):
        positive(self, "holding", "price", "rate", "a", "b")
        for name in ("unit_cost", "fixed_cost"):
            cost = getattr(self, name)
            ok = cost is None or not is_concrete(cost) or bool(np.all((np.asarray(cost) >= 0) & np.isfinite(cost)))
            require(self, ok, f"{name} must be ≥ 0 and finite; got {short(cost)}.")
        if is_concrete(self.price) and is_concrete(self.unit_cost):
            sound = bool(np.all(np.asarray(self.price) > np.asarray(self.unit_cost)))
            require(self, sound, f"price must be above unit_cost; got {short(self.price)} and {short(self.unit_cost)}.")
        if self.fixed_cost is not None and is_concrete(self.fixed_cost) and not np.any(self.fixed_cost):
            object.__setattr__(self, "fixed_cost", None)  # orders are free: one base stock is the plan
        self._fit_levels(MOST_LEVELS if self.fixed_cost is None else MOST_STATES)

    def __str__(self) -> str:
        fixed = "" if self.fixed_cost is None else f"an order {float(self.fixed_cost):.4g}, "
        unit = f"a unit {float(self.unit_cost):.4g}, " if not is_concrete(self.unit_cost) or np.any(self.unit_cost) else ""
        return (
            f"An inventory of up to {self.levels - 1} units with lost sales: price {float(self.price):.4g}, {unit}{fixed}"
            f"holding {float(self.holding):.4g}, demand seen as sales only, Poisson of rate {float(self.rate):.4g} in simulations."
        )

    @property
    def margin(self):
        return self.price - self.unit_cost

    def _need(self, at: float) -> int:
        """Above λ + (c + 2K)/h, with c the newsvendor's cost, no stock is worth holding: see `certify`."""
        need = super()._need(at)
        if self.fixed_cost is None:
            return need
        holding, fixed = float(np.min(self.holding)), float(np.max(self.fixed_cost))
        return max(need, math.ceil(at + (newsvendor(at, holding, float(np.max(self.margin)))[1] + 2 * fixed) / holding) + 1)

    # The belief

    @rests_on("sample", "_demand")
    def log_likelihood(self, theta, row):
        y = jnp.maximum(row.obs, row.action)
        seen = log_pmf((y - row.next_obs).astype(float), theta[0])
        return jnp.where(row.next_obs > 0, seen, log_tail(y, theta[0], self.levels))

    @rests_on(*DEMAND)
    def information(self, theta):
        return jnp.exp(theta)

    @rests_on(*DEMAND)
    def empty(self):
        zero = jnp.zeros((), int)
        return Sales(zero, Sum.zero(), zero, Sum.zero(), jnp.zeros(self.levels, int))

    @rests_on(*DEMAND)
    def add(self, summary, row):
        y = jnp.maximum(row.obs, row.action)
        out = row.next_obs == 0
        sold = jnp.where(out, 0.0, (y - row.next_obs).astype(float))
        rows, units, served, base, stockouts = summary
        stockouts = stockouts + ((jnp.arange(self.levels) == y) & out)
        return Sales(rows + 1, units.plus(sold), served + ~out, base.plus(-gammaln(sold + 1.0)), stockouts)

    @rests_on(*DEMAND)
    def log_likelihood_of(self, theta, summary):
        seen = summary.sold.value * theta[0] - summary.served * jnp.exp(theta[0]) + summary.base.value
        return seen + jnp.sum(summary.stockouts * log_tail(jnp.arange(self.levels), theta[0], self.levels))

    # The decision

    @rests_on(*EARNED, "act")
    def plan(self, theta):
        return self._solved(theta).policy

    @rests_on(*EARNED)
    def gain(self, theta):
        return self._solved(theta).gain

    @rests_on(*EARNED, "act", "plan", "gain")
    def certify(self, theta) -> Certified:
        """Where orders are free, as of `Inventory`. With a fixed cost K, let g be the gain of the best cycle and V(x) ≥ c x the
        value of a stock x until the next order, at g a period. V solves the optimality equation for all levels below
        N = `levels`, and V(x) = c x continues it above where (price - c) λ + h λ - h N - g + max (V(x) - c x) ≤ 0; what that
        exceeds 0 by bounds what a higher level could earn. V is bounded below, so the bound holds for every policy.
        """
        return self._solved(theta)

    def _solved(self, theta) -> Certified:
        if self.fixed_cost is None:
            level, lost = self._stock(theta)
            return Certified(level, self._revenue(theta) - self.costs(theta)[level], lost)
        rate = jnp.exp(clipped(theta, -30.0, HIGHEST)[0])

        def improve(carry):
            # Newton's method on the surplus, which is convex in g, or Howard's on cycles: g rises to the best gain.
            g, cycle, _, count = carry
            better = g + jnp.maximum(cycle.surplus, 0.0) / cycle.periods
            after = self._cycle(theta, better)
            return better, after, (better > g) & (count < 60), count + 1

        zero = jnp.zeros_like(rate)
        g, cycle, *_ = lax.while_loop(lambda c: c[2], improve, (zero, self._cycle(theta, zero), jnp.ones((), bool), 0))
        stock, over = jnp.arange(self.levels), jnp.maximum(cycle.surplus, 0.0)
        earns = g > 0  # otherwise it is best never to order
        policy = jnp.where(cycle.orders & (stock < cycle.level) & earns, cycle.level, stock)
        tail = (self.margin + self.holding) * rate - self.holding * self.levels - g + jnp.max(cycle.value)
        size = digits(jnp.stack([self.margin * rate, self.holding * self.levels, jnp.max(cycle.value) + self.margin * self.levels]))
        lost = over + jnp.maximum(tail, 0.0) + size
        return Certified(policy, g, jnp.where(theta[0] <= HIGHEST, lost, jnp.inf))

    def _revenue(self, theta):
        """The margin on all demand a period."""
        return self.margin * jnp.exp(clipped(theta, -30.0, HIGHEST)[0])

    def _period(self, theta) -> Float[Array, " levels"]:
        """What a period earns that starts with each level: price · sold - holding · left."""
        left = self._left(theta)
        return self.price * (jnp.arange(self.levels) - left) - self.holding * left

    def _cycle(self, theta, g: Scalar) -> Cycle:
        """The best way from an order to the next, where each period costs g.

        W(y) = r(y) - g + E V((y - D)⁺) with V(x) = max(W(x), c x) and V(0) = 0: the stock only falls until the next order, so
        one pass from below solves it. D = 0 leads back to y, which the division by P(D > 0) accounts for.
        """
        N, log_rate = self.levels, clipped(theta, -30.0, HIGHEST)[0]
        pmf = jnp.exp(log_pmf(jnp.arange(N), log_rate))
        r, worth = self._period(theta), self.unit_cost * jnp.arange(N)
        some = -jnp.expm1(-jnp.exp(log_rate))
        backwards = jnp.concatenate([pmf[::-1], jnp.zeros(N)])

        def level(carry, y):
            V, T = carry  # the value of a stock and the periods it lasts; both 0 where it is 0
            leads = lax.dynamic_slice_in_dim(backwards, N - 1 - y, N)  # P(D = y - x) for x ≤ y
            value, periods = r[y] - g + leads @ V, 1.0 + leads @ T
            orders = (value < some * worth[y]) | (y == 0)
            V_y, T_y = jnp.where(orders, worth[y], value / some), jnp.where(orders, 0.0, periods / some)
            V_y = jnp.where(y == 0, 0.0, V_y)
            at = jnp.arange(N) == y
            row = value + pmf[0] * V_y, periods + pmf[0] * T_y, orders
            return (jnp.where(at, V_y, V), jnp.where(at, T_y, T)), row

        none = jnp.zeros_like(r)
        (V, _), (W, periods, orders) = lax.scan(level, (none, none), jnp.arange(N))
        surplus = (W - worth - self.fixed_cost).at[0].set(-jnp.inf)
        best = jnp.argmax(surplus)
        return Cycle(best, surplus[best], periods[best], V - worth, orders)

    @rests_on(*EARNED, "act")
    def gain_of(self, theta, policy):
        if self.fixed_cost is None:
            return self._revenue(theta) - self.costs(theta)[policy]
        return stationary_reward(*self.table(theta), policy)

    @rests_on(*EARNED)
    def table(self, theta) -> tuple[Array, Array]:
        """The levels as a finite MDP over the stock, 0 … levels - 1: transitions and expected rewards."""
        levels = jnp.arange(self.levels)
        pmf = jnp.exp(log_pmf(levels, theta[0]))
        gap = levels[:, None] - levels  # the demand that leads from the level y to the stock left
        moves = jnp.where(gap >= 0, pmf[jnp.maximum(gap, 0)], 0.0)
        moves = moves.at[:, 0].set(jnp.maximum(1.0 - jnp.sum(moves[:, 1:], 1), 0.0))
        after = jnp.maximum(levels[:, None], levels)  # [stock, action]: a level below the stock orders nothing
        ordered = after - levels[:, None]
        paid = self.unit_cost * ordered + (0.0 if self.fixed_cost is None else self.fixed_cost) * (ordered > 0)
        return moves[after], self._period(theta)[after] - paid

    def act(self, policy, obs):
        return policy if self.fixed_cost is None else policy[obs]

    # The world

    @rests_on("log_likelihood")
    def sample(self, key, theta, obs, action):
        y = jnp.maximum(obs, action)
        sold = jnp.minimum(y, self._demand(key, theta))
        paid = self.unit_cost * (y - obs)
        if self.fixed_cost is not None:
            paid = paid + self.fixed_cost * (y > obs)
        return y - sold, self.price * sold - self.holding * (y - sold) - paid
