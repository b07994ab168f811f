"""A posterior at another temperature: its covariance multiplied by a number."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp

from ..._module import array, module, positive, require_part, short
from ..._typing import Numbers
from ...declared import fact, rests_on
from ...models import marginal
from ...models.base import Normal
from ...models.drawing import laws_of_normal
from .base import Belief
from .normal import draw_normal, require_normal


@module
class Tempered(Belief):
    """Draws N(mean, temperature · Σ) where another belief draws N(mean, Σ), such as `Exact` of a linear model.

    Temperature 1 is the posterior. An agent that assumes a noise of variance v where it is s² draws at temperature v/s²; published
    comparisons often differ in this number alone.

    Args:
        belief: what is tempered; it must draw θ from normal distributions.
        temperature: what the covariance is multiplied by.

    >>> from blts import Exact, Linear, Tempered, Thompson
    >>> print(Thompson(Linear(prior_mean=[0.0, 0.0]), Tempered(Exact(), 4.0), arms=3).belief)
    exact posterior draws each round, at temperature 4
    """

    belief: Belief
    temperature: Numbers = array(default=1.0)

    def check(self):
        require_part("Tempered: belief", self.belief, Belief, "Exact() or LaplaceApproximation()")
        positive(self, "temperature")

    def __str__(self) -> str:
        return f"{self.belief}, at temperature {short(self.temperature)}"

    def check_model(self, model):
        belief = self.belief.check_model(model)
        require_normal("Tempered", belief, model)
        return dataclasses.replace(self, belief=belief)

    @rests_on("refresh")
    def incremental(self, model):
        return self.belief.incremental(model)

    @property
    def plain_memory(self) -> bool:
        return self._remembers_as_belief and self.belief.plain_memory

    _remembers_as_belief = fact("empty", "remember")

    @property
    def starts_from_prior(self) -> bool:
        return self._starts_as_belief and self.belief.starts_from_prior

    _starts_as_belief = fact("init")

    def init(self, key, model):
        return self.belief.init(key, model)

    def empty(self, model, row, capacity):
        return self.belief.empty(model, row, capacity)

    def remember(self, model, history, row, live):
        return self.belief.remember(model, history, row, live)

    def refresh(self, keys, model, state, history):
        return self.belief.refresh(keys, model, state, history)

    @rests_on("normal")  # which says what it draws from
    def draw(self, key, model, state):
        return draw_normal(key, self._scaled(model, state))

    def _scaled(self, model, state) -> Normal:
        mean, root = self.belief.normal(model, state)  # type: ignore[misc]
        return Normal(mean, jnp.sqrt(self.temperature) * root)

    @rests_on("draw")
    def normal(self, model, state):
        """The distributions that `draw` draws θ from."""
        return self._scaled(model, state)

    @rests_on("draw")
    def laws(self, model, state, obs) -> marginal.Marginal | None:
        """Normal laws where the mean reward is linear in θ; None elsewhere."""
        return laws_of_normal(model, self._scaled(model, state), obs) if model.gaussian_prior_and_linear_mean else None
