"""What both inventories share: base-stock levels, their newsvendor costs and the prior of the demand rate."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from .. import _draws
from .._module import at_least, is_concrete, short
from .._typing import Array, Float, Int, Scalar
from ..declared import rests_on
from ..errors import ConfigError
from ..models import rate
from .bounds import clipped, digits
from .poisson_demand import log_pmf, newsvendor

PRIOR_TAIL = 1e-6  # the prior probability of rates whose best level may be left out
MOST_LEVELS = 1 << 14
HIGHEST = 10.0  # log rates that are planned for


class BaseStock:
    """What both inventories share: levels 0 … levels - 1 to order up to, their newsvendor costs, the Gamma prior of the rate.

    A unit left over costs `holding` a period, and one that is missing costs `margin`.
    """

    holding: Any
    margin: Any
    rate: Any
    a: Any
    b: Any
    levels: Any
    dim: ClassVar[int] = 1

    @property
    def actions(self) -> int:
        return self.levels

    @property
    def true(self):
        return jnp.log(jnp.asarray(self.rate, float))[None]

    @rests_on("log_prior")
    def init(self, key):
        return rate.draw(key, jnp.asarray(self.a, float), self.b)[None]

    @rests_on("init")
    def log_prior(self, theta):
        return rate.log_density(theta[0], self.a, self.b)

    @rests_on("log_prior")
    def prior_precision(self):
        return jnp.reshape(self.a + 0.0 * self.b, (1,))

    # Levels: as many as the truth and the prior need

    def _fit_levels(self, most: int) -> None:
        """Check the number of levels that was given, or choose one: a power of two, so that similar worlds share a program."""
        name, numbers = type(self).__name__, (self.holding, self.margin, self.rate, self.a, self.b)
        if self.levels is not None:
            at_least(self, "levels", 2)
        if not all(map(is_concrete, numbers)):
            if self.levels is None:
                raise ConfigError(f"{name}: give levels=… where the other numbers are traced.")
            return
        need = self._need(float(np.max(self.rate)))
        if need > most:
            raise ConfigError(
                f"{name}: a demand of rate {short(self.rate)} needs {need} levels, and at most {most} are planned for; "
                "count demand in larger units."
            )
        levels = self.levels
        if levels is None:
            of_prior = min(self._need(self._prior_rate()), most)
            levels = 1 << (max(need, of_prior, 16) - 1).bit_length()
            object.__setattr__(self, "levels", levels)
        if levels > most:
            raise ConfigError(f"{name}: levels must be at most {most}; got {levels}.")
        if (why := self.why_cut(self.true)) is not None:
            raise ConfigError(why)

    def why_cut(self, theta=None) -> str | None:
        """The sentence that says what the levels cut off for θ or, without one, for the prior; None where nothing."""
        at = self._prior_rate() if theta is None else float(np.exp(np.asarray(theta, float))[0])
        need = self._need(at)
        if need <= self.levels:
            return None
        whose = ", the prior's upper quantile" if theta is None else ""
        return (
            f"{type(self).__name__}: levels={self.levels} cuts off what is best for a demand of rate {at:.4g}{whose}; "
            f"give levels={need} or more, or leave it out."
        )

    def _prior_rate(self) -> float:
        """The upper quantile of the prior."""
        from scipy.special import gammainccinv

        return float(np.max(gammainccinv(np.asarray(self.a, float), PRIOR_TAIL) / np.asarray(self.b, float)))

    def _need(self, at: float) -> int:
        """How many levels lose nothing at a demand rate: up to the quantile b/(b + h) of demand."""
        need = newsvendor(at, float(np.min(self.holding)), float(np.max(self.margin)))[0] + 1
        return need if math.log(at) <= HIGHEST else max(need, MOST_LEVELS + 1)

    # The newsvendor

    def _below(self, theta) -> Float[Array, " levels"]:
        """P(D ≤ S) for all levels S."""
        log_rate = clipped(theta, -30.0, HIGHEST)[0]
        return jnp.minimum(jnp.cumsum(jnp.exp(log_pmf(jnp.arange(self.levels), log_rate))), 1.0)

    def _left(self, theta) -> Float[Array, " levels"]:
        """E(S - D)⁺ = Σ_{k<S} P(D ≤ k) for all levels S."""
        F = self._below(theta)
        return jnp.cumsum(F) - F

    def costs(self, theta) -> Float[Array, " levels"]:
        """h E(S - D)⁺ + b E(D - S)⁺ a period, for all levels S."""
        left = self._left(theta)
        return self.holding * left + self.margin * (jnp.exp(clipped(theta, -30.0, HIGHEST)[0]) - jnp.arange(self.levels) + left)

    def _stock(self, theta) -> tuple[Int[Array, ""], Scalar]:
        """The least level S with P(D ≤ S) ≥ b/(b + h), or the largest there is, and what that may cost too much.

        No policy costs less a period than the cheapest level, and costs are convex in the level, so nothing is lost where
        S is among the levels. Where it is not, at most the whole cost is.
        """
        few = self._below(theta) < self.margin / (self.margin + self.holding)
        level = jnp.minimum(jnp.sum(few), self.levels - 1)
        costs = self.costs(theta)
        lost = jnp.where(few[-1], costs[level], 0.0) + digits(costs)
        return level, jnp.where(theta[0] <= HIGHEST, lost, jnp.inf)

    def start(self) -> Int[Array, ""]:
        return jnp.zeros((), int)

    def _demand(self, key, theta):
        return _draws.poisson(key, jnp.exp(theta[0])).astype(int)


DEMAND = ("sample", "_demand", "log_likelihood")
"""What says how a world moves and what is believed of it: nothing planned or summarised survives a change of one of them."""
EARNED = (*DEMAND, "margin", "costs", "_need")
"""And what it earns."""
