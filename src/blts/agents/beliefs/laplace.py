"""The Laplace approximation: a normal distribution around the mode of the posterior."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..._module import at_least, module, static
from ..._typing import Array, Float, Info
from ...declared import fact, overridden_alone, rests_on
from ...errors import ConfigError
from ...factors import cholesky, solve, solve_transposed
from ...history import Log
from ...models import marginal
from ...models.base import Normal
from ...models.drawing import arms_of, laws_of_normal
from .base import Belief
from .diagnostics import finite_numbers
from .normal import draw_normal

LENGTHS = tuple(2.0**-k for k in range(8))
"""Lengths of a Newton step that are tried."""


@module
class LaplaceApproximation(Belief):
    """N(mode, H⁻¹) of each arm's posterior, H the Hessian of -log posterior at the mode.

    For models whose posterior is log-concave and close to normal, such as logistic regression; of a `Linear` model it is exact. The
    mode is found by Newton's method from the last one, on all rows.

    Args:
        steps: Newton steps a refresh.

    >>> from blts import LaplaceApproximation, Linear, Thompson
    >>> print(Thompson(Linear(prior_mean=[0.0, 0.0]), LaplaceApproximation(), arms=3).belief)
    draws each round from the Laplace approximation of the posterior
    """

    steps: int = static(default=8)

    def check(self):
        at_least(self, "steps", 1)

    def __str__(self) -> str:
        return "draws each round from the Laplace approximation of the posterior"

    def check_model(self, model):
        by = overridden_alone(model, "log_likelihood_of", "log_likelihood")
        if by is not None:
            raise ConfigError(
                f"LaplaceApproximation sums log_likelihood over rows, and {by} overrides log_likelihood_of alone, which would not "
                "be used; override log_likelihood too, or use Pool(mala())."
            )
        precision = np.asarray(jax.vmap(lambda single: single.prior_precision())(model))
        if not (precision > 0).all():
            raise ConfigError(
                f"LaplaceApproximation: the prior of {type(model).__name__} is flat (prior_precision 0), so there is no normal "
                "approximation until the rows of every arm determine its θ; give it a wide prior instead."
            )
        return self

    starts_from_prior = fact("init")
    plain_memory = fact("empty", "remember")

    def init(self, key, model):
        start = jax.vmap(lambda single: jnp.zeros_like(single.init(key)))(model)
        return jax.vmap(lambda single, x: self._around_mode(single.log_prior, x))(model, start)

    def empty(self, model, row, capacity):
        return Log.empty(row, capacity, arms_of(model))

    def remember(self, model, history, row, live):
        return history.append(row, live)

    def refresh(self, keys, model, state, history):
        def of_arm(single, mean, log: Log, arm):
            mine = (jnp.arange(log.rank.shape[0]) < log.size) & (log.rows.action == arm)

            def log_posterior(theta):
                terms = jax.vmap(lambda row: single.log_likelihood(theta, row))(log.rows)
                return single.log_prior(theta) + jnp.sum(jnp.where(mine, terms, 0.0))

            return self._around_mode(log_posterior, mean)

        arms = jnp.arange(arms_of(model))
        one = lambda state, log: jax.vmap(of_arm, (0, 0, None, 0))(model, state.mean, log, arms)  # noqa: E731
        # One replication at a time: each passes over all of its rows many times.
        new = lax.map(lambda pair: one(*pair), (state, history))
        return new, Info.of(finite_numbers(new, keys.shape))

    def _around_mode(self, log_posterior, start: Float[Array, " dim"]) -> Normal:
        def factor(x) -> Array:
            return cholesky(-jax.hessian(log_posterior)(x))

        def newton(_, x):
            step = solve(factor(x), jax.grad(log_posterior)(x))
            tried = x + jnp.asarray(LENGTHS)[:, None] * step
            heights = jax.vmap(log_posterior)(tried)
            best = jnp.argmax(jnp.where(jnp.isfinite(heights), heights, -jnp.inf))
            return jnp.where(heights[best] > log_posterior(x), tried[best], x)

        mode = lax.fori_loop(0, self.steps, newton, start)
        eye = jnp.eye(start.shape[0])
        return Normal(mode, solve_transposed(factor(mode), eye))

    @rests_on("normal")  # which says what it draws from
    def draw(self, key, model, state):
        return draw_normal(key, state)

    @rests_on("draw")
    def normal(self, model, state):
        """The approximation itself."""
        return state

    @rests_on("draw")
    def laws(self, model, state, obs) -> marginal.Marginal | None:
        """Normal laws where the mean reward is linear in θ; None elsewhere."""
        return laws_of_normal(model, state, obs) if model.gaussian_prior_and_linear_mean else None
