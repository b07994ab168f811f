"""What beliefs that forget share: they hold the posterior of what they still know as another belief does."""

from __future__ import annotations

import dataclasses

from ..._module import require_part
from ...declared import fact, rests_on
from ...errors import ConfigError
from ...models import marginal
from .base import Belief
from .private import holds_private


class Forgetting:
    """What beliefs that forget share: another belief draws from the posterior of what is not forgotten.

    Under a batching scheme that ends few batches, what is forgotten is decided at refreshes only, by the age of a row in rounds.
    """

    belief: Belief

    def check(self):
        require_part(f"{type(self).__name__}: belief", self.belief, Belief, "Exact() or Perturb(sgld())")
        if holds_private(self.belief):
            raise ConfigError(
                f"{type(self).__name__} tells its belief the same rows at every refresh, and Private releases a row once; leave "
                "out one of them."
            )

    def check_model(self, model):
        return dataclasses.replace(self, belief=self.belief.check_model(model))  # type: ignore[type-var]

    def _held(self, state):
        """The state of the other belief."""
        return state

    @property
    def starts_from_prior(self) -> bool:
        return self._starts_as_belief and self.belief.starts_from_prior

    _starts_as_belief = fact("init")

    def draw(self, key, model, state):
        return self.belief.draw(key, model, self._held(state))

    @rests_on("draw")
    def laws(self, model, state, obs) -> marginal.Marginal | None:
        """Those of the other belief, given what is not forgotten."""
        return self.belief.laws(model, self._held(state), obs)

    @rests_on("draw")
    def normal(self, model, state):
        """Those of the other belief, given what is not forgotten."""
        return self.belief.normal(model, self._held(state))

    @property
    def draws_members(self) -> bool:
        return self._draws_as_belief and self.belief.draws_members

    _draws_as_belief = fact("draw", "members", "values")

    def members(self, state):
        return self.belief.members(self._held(state))

    def values(self, model, thetas, obs):
        return self.belief.values(model, thetas, obs)
