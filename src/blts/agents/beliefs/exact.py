"""Exact posterior draws of a conjugate model."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from ... import _random
from ..._module import module
from ..._typing import Info, Row
from ...declared import fact, provides, rests_on, why_lost
from ...errors import ConfigError
from ...history.summaries import keep_arm, remember_summary
from ...models import marginal
from ...models.base import Model
from ...models.drawing import draws_from_marginal, laws_of_normal, marginals, posterior_draws
from .base import Belief
from .diagnostics import finite_numbers


@module
class Exact(Belief):
    """Draws from the exact posterior of a conjugate model, anew each round.

    >>> from blts import Exact, Gaussian, Thompson
    >>> print(Thompson(Gaussian(prior_mean=[0.0, 1.0]), Exact()))
    Thompson sampling, exact posterior draws each round.
    2 arms with Gaussian rewards (prior mean [0, 1], prior sd 1 (×2), sd 1 (×2)), inside the paper's theory: m = L =
    ν = 1.
    """

    def check_model(self, model):
        if not model.has_posterior:
            why = (why_lost(model, "draw") or why_lost(model, "log_likelihood_of") or "").rstrip(".")
            raise ConfigError(
                f"Exact needs a conjugate model, and {type(model).__name__} has no closed posterior{f' ({why})' if why else ''}; "
                "leave out the belief, or use Perturb(sgld()) or Pool(mala()) (agents thompson, blts, mala-ts)."
            )
        return self

    def __str__(self) -> str:
        return "exact posterior draws each round"

    @rests_on("refresh")
    def incremental(self, model):
        return True

    starts_from_prior = fact("init")
    plain_memory = fact("empty", "remember")  # a normal posterior takes one row after another, as a summary does
    draws_posterior = fact("init", "empty", "remember", "refresh", "draw")

    def init(self, key, model):
        return self._held(model, self.empty(model, None, 0))

    def _held(self, model, history):
        """What draws need: the distribution of the mean reward where they are a function of it, that of θ where it is normal and
        rounds have contexts, so that no matrix is factorised within a round; the summary elsewhere."""
        if draws_from_marginal(model):
            return marginals(model, history, ())
        if not holds_normal(model) or provides(model, "normal_after"):
            return history
        return jax.vmap(lambda single, s: single.normal(s))(model, history)

    def empty(self, model, row: Row | None, capacity):
        """A summary of each arm; its posterior where that is normal and takes one row after another."""
        if holds_normal(model) and provides(model, "normal_after"):
            return jax.vmap(lambda single: single.normal(single.empty()))(model)
        return jax.vmap(lambda single: single.empty())(model)

    def of_summaries(self, model, summaries):
        """What would be remembered of rows with these summaries."""
        if holds_normal(model) and provides(model, "normal_after"):
            return jax.vmap(lambda single, s: single.normal(s))(model, summaries)
        return summaries

    def remember(self, model, history, row, live):
        if holds_normal(model) and provides(model, "normal_after"):
            # Every arm is updated, and one is kept: to pick that one first would read all matrices once more.
            after = jax.vmap(lambda single, normal: single.normal_after(normal, row))(model, history)
            return keep_arm(after, history, row.action, live)
        return remember_summary(model, history, row, live)

    def refresh(self, keys, model, state, history):
        state = jax.vmap(lambda summary: self._held(model, summary))(history)
        return state, Info.of(finite_numbers(state, keys.shape), distance=jnp.zeros(keys.shape))

    @rests_on("normal")  # which says what it draws from
    def draw(self, key, model, state):
        if not holds_normal(model):
            return posterior_draws(key, model, state)
        z = _random.normal(key, state.mean.shape)
        return state.mean + jnp.sum(state.root * z[:, None], -1)

    @rests_on("draw")
    def laws(self, model, state, obs) -> marginal.Marginal | None:
        """The laws of the arms' mean rewards, stacked."""
        if draws_from_marginal(model):
            return state
        if not holds_normal(model):
            return marginals(model, state, obs)
        return laws_of_normal(model, state, obs) if model.gaussian_prior_and_linear_mean else None

    @rests_on("draw")
    def normal(self, model, state):
        """The exact posterior of θ, where it is held."""
        return state if holds_normal(model) else None


def holds_normal(model: Model) -> bool:
    """Whether the normal posterior of θ is held instead of the summary."""
    return model.contextual and provides(model, "normal") and not draws_from_marginal(model)
