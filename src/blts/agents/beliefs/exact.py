"""Exact posterior draws of a conjugate model."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from ..._module import module
from ..._typing import Info, Row
from ...declared import fact, rests_on, why_lost
from ...errors import ConfigError
from ...history import remember_summary
from ...models import marginal
from ...models.drawing import draws_from_marginal, marginals, posterior_draws
from .base import Belief
from .diagnostics import finite_numbers


@module
class Exact(Belief):
    """Draws from the exact posterior of a conjugate model, anew each round."""

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
    plain_memory = fact("empty", "remember")
    draws_posterior = fact("init", "empty", "remember", "refresh", "draw")

    def init(self, key, model):
        return self._held(model, self.empty(model, None, 0))

    def _held(self, model, summary):
        """What draws need: the law of the mean reward where they are a function of it, the summary elsewhere."""
        return marginals(model, summary, ()) if draws_from_marginal(model) else summary

    def empty(self, model, row: Row | None, capacity):
        return jax.vmap(lambda single: single.empty())(model)

    def remember(self, model, history, row, live):
        return remember_summary(model, history, row, live)

    def refresh(self, keys, model, state, history):
        state = jax.vmap(lambda summary: self._held(model, summary))(history)
        return state, Info.of(finite_numbers(state, keys.shape), distance=jnp.zeros(keys.shape))

    def draw(self, key, model, state):
        return posterior_draws(key, model, state)

    @rests_on("draw")
    def laws(self, model, state, obs) -> marginal.Marginal | None:
        """The laws of the arms' mean rewards, stacked."""
        return state if draws_from_marginal(model) else marginals(model, state, obs)
