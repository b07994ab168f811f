"""Rewards that are linear in θ: along an arm's own vector, or along the context of the round."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np

from .. import _random
from .._module import array, finite, is_concrete, module, positive, require, short
from .._typing import Array, Int, Numbers, Scalar
from ..declared import fact, rests_on
from ..errors import ConfigError
from ..factors import cholesky, solve, solve_lower, solve_transposed
from . import marginal
from .base import Model, Normal, Theory
from .coefficients import NormalCoefficients
from .covariance import rank_one
from .moments import Sum
from .normal import HALF_LOG_2PI
from .printing import low_high


class Equations(NamedTuple):
    """The normal equations of the residuals e = r - x·prior_mean: Σ x xᵀ, Σ x e and Σ e²."""

    rows: Int[Array, ""]
    gram: Sum
    moment: Sum
    square: Sum

    def scaled(self, factor: Scalar) -> Equations:
        """The equations of rows that count `factor` times as much."""
        return Equations(factor * self.rows, *(part.scaled(factor) for part in (self.gram, self.moment, self.square)))


@module
class Linear(NormalCoefficients, Model):
    """Rewards N(x·θ, sd²) with a prior N(prior_mean, diag(prior_sd²)) on θ ∈ R^d.

    x is the arm's fixed vector `alpha` (the paper's α_a) where that is given, and the context `row.obs` otherwise. With contexts,
    chains run in units of the information of the rows seen, so that features of unequal scale do no harm.

    Args:
        prior_mean: of θ, `[dim]` or one row for each arm.
        prior_sd: of the coordinates of θ: a number, one for each coordinate, or one row of either for each arm. As many numbers as
            there are arms are one for each arm, where that is not the number of coordinates too.
        sd: of the rewards, known.
        alpha: the arms' features; None where each round shows a context.
        centre: what is subtracted from the features of a round; None for nothing (see `standardised`).
        scale: what they are then divided by; None for 1.

    >>> from blts.models import Linear
    >>> Linear(prior_mean=[0.0, 0.0], alpha=[[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
    Linear(prior_mean=0 (×2), prior_sd=1, sd=1, alpha=[1, 0, …, 1] (3×2), centre=None, scale=None)
    """

    prior_mean: Numbers = array(ndim=1)
    prior_sd: Numbers = array(default=1.0, ndim=1, or_number=True)
    sd: Numbers = array(default=1.0)
    alpha: Numbers = array(default=None, ndim=1)
    centre: Numbers = array(default=None, ndim=1)
    scale: Numbers = array(default=None, ndim=1)
    noun: ClassVar[str] = "linear rewards"
    gaussian_prior_and_linear_mean = fact("init", "init_from", "mean_reward", "prior_mean_reward")
    log_concave = fact("log_likelihood", "log_prior")

    def check(self):
        super().check()
        positive(self, "sd")
        if self.alpha is None:
            return
        if self.centre is not None or self.scale is not None:
            raise ConfigError("Linear: centre and scale standardise the features of a round; scale alpha itself.")
        if np.shape(self.alpha)[-1] != self.dim:
            raise ConfigError(f"Linear: alpha has {np.shape(self.alpha)[-1]} coordinates and prior_mean {self.dim}; give as many.")
        finite(self, "alpha")
        seen = np.any(self.alpha != 0, axis=-1) if is_concrete(self.alpha) else True
        require(self, seen, f"alpha must not be zero, for its rewards would say nothing about θ; got {short(self.alpha)}.")

    @property
    def contextual(self) -> bool:
        """Whether the mean reward depends on the round's context."""
        return self.alpha is None

    def _x(self, obs):
        return super()._x(obs) if self.alpha is None else jnp.asarray(self.alpha, float)

    def log_likelihood(self, theta, row):
        return -0.5 * jnp.square((row.reward - self._x(row.obs) @ theta) / self.sd) - jnp.log(self.sd) - HALF_LOG_2PI

    @rests_on("log_likelihood")
    def mean_reward(self, theta, obs, action):
        return self._x(obs) @ theta

    @rests_on("init", "init_from", "mean_reward")
    def prior_mean_reward(self, obs, action):
        """Mean and sd of the mean reward under the prior."""
        x, sd = self._x(obs), self._sd
        return x @ jnp.asarray(self.prior_mean), sd[0] * jnp.linalg.norm(x) if sd.shape == (1,) else jnp.linalg.norm(sd * x)

    @rests_on("mean_reward")
    def theta_of_mean(self, mean):
        """The θ nearest to prior_mean with α·θ = mean; every such θ has the same rewards."""
        if self.alpha is None:
            raise ConfigError("Linear: without alpha the mean depends on the context; give theta.")
        x = self._x(())
        return self.prior_mean + x * (mean - x @ jnp.asarray(self.prior_mean)) / jnp.sum(jnp.square(x))

    @rests_on("log_likelihood")
    def sample(self, key, theta, obs, action):
        return self._x(obs) @ theta + self.sd * _random.normal(key)

    @rests_on("log_likelihood", "log_prior", "information")
    @property
    def information_sets_step(self) -> bool:
        """Whether `information` is that of the rewards: not with contexts, which it takes for coordinates of mean square 1."""
        return self.alpha is not None

    @rests_on("log_likelihood", "_x")
    def row_weight(self):
        return 1.0 / jnp.square(self.sd)

    @rests_on("log_likelihood")
    def information(self, theta):
        """The largest curvature |x|²/sd² for every coordinate, which is the L of Algorithm 1: it lies along x alone."""
        square = 1.0 if self.alpha is None else jnp.sum(jnp.square(self.alpha))
        return jnp.full(self.dim, square / jnp.square(self.sd))

    @rests_on("log_likelihood")
    def theory(self):
        nu = 1.0 / self.sd**2
        if self.alpha is None:
            return Theory(False, "a reward bends log p along its context only, and contexts have no bounds, so no m and L.", nu=nu)
        norm = jnp.linalg.norm(jnp.asarray(self.alpha), axis=-1)
        # Assumption 1 needs L ≥ |α|²/sd², and Assumption 2, for ∇_θ log p as a function of r, L ≥ |α|/sd².
        L = jnp.maximum(norm, norm**2) * nu
        if self.dim > 1:
            return Theory(
                False, f"L = {low_high(L)}, but log p is strongly concave only along α, so m exists for d = 1 alone.", L=L, nu=nu
            )
        m = norm**2 * nu
        return Theory(True, f"m = {low_high(m)}, L = {low_high(L)}, ν = {low_high(nu)}.", m, L, nu)

    # The exact posterior

    def empty(self):
        d = self.dim
        return Equations(jnp.zeros((), int), Sum.zero((d, d)), Sum.zero((d,)), Sum.zero())

    def add(self, summary, row):
        x = self._x(row.obs)
        e = row.reward - x @ jnp.asarray(self.prior_mean)
        rows, gram, moment, square = summary
        return Equations(rows + 1, gram.plus(jnp.outer(x, x)), moment.plus(x * e), square.plus(e * e))

    @rests_on("log_likelihood", "empty", "add")
    def log_likelihood_of(self, theta, summary):
        # Around prior_mean, so that no digits are lost where that is a fair guess.
        delta = theta - self.prior_mean
        square = summary.square.value - 2.0 * delta @ summary.moment.value + delta @ summary.gram.value @ delta
        return -0.5 * square / jnp.square(self.sd) - summary.rows * (jnp.log(self.sd) + HALF_LOG_2PI)

    def _posterior(self, summary):
        """Mean, and the Cholesky factor of the precision diag(1/prior_sd²) + Σ x xᵀ/sd²."""
        data = jnp.square(self.sd)
        factor = cholesky(jnp.eye(self.dim) / jnp.square(self._sd) + summary.gram.value / data)
        return self.prior_mean + solve(factor, summary.moment.value / data), factor

    @rests_on("init", "init_from", "log_prior", "log_likelihood", "log_likelihood_of", "empty", "add", "draw", "marginal")
    def normal(self, summary):
        mean, factor = self._posterior(summary)
        return Normal(mean, solve_transposed(factor, jnp.eye(self.dim)))

    @rests_on("init", "init_from", "log_prior", "log_likelihood", "log_likelihood_of", "empty", "add", "draw", "marginal", "normal")
    def normal_after(self, normal, row):
        x = self._x(row.obs)
        new = rank_one(normal.root, x, 1.0 / jnp.square(self.sd))
        error = row.reward - jnp.sum(x * normal.mean)
        return Normal(normal.mean + new.gain * error, new.root)

    @rests_on("init", "init_from", "log_prior", "log_likelihood", "log_likelihood_of", "empty", "add", "marginal")
    def draw(self, key, summary):
        mean, factor = self._posterior(summary)
        return mean + solve_transposed(factor, _random.normal(key, (self.dim,)))

    @rests_on("init", "init_from", "log_prior", "log_likelihood", "log_likelihood_of", "empty", "add", "draw", "mean_reward")
    def marginal(self, summary, obs, action):
        mean, factor = self._posterior(summary)
        x = self._x(obs)
        sd = jnp.linalg.norm(solve_lower(factor, x))
        return marginal.NormalLaw(x @ mean, jnp.maximum(sd, marginal.LEAST_SD))
