"""What the builders of agents and batching schemes are told."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..errors import ConfigError
from ..models import Tabular


class Setting(NamedTuple):
    """The world an agent will play in, as far as it may know it, and for how long."""

    env: Any
    model: Any
    horizon: int

    @property
    def actions(self) -> int:
        return self.env.actions

    @property
    def arms(self) -> int:
        return self.env.actions

    @property
    def states(self) -> int:
        """The states whose pairs a batching scheme counts: 1 for a bandit."""
        states = self.env.states
        if states is None:
            raise ConfigError(
                "This world has no table of states to count visits in; use the batching static, fixed, sequential or geometric."
            )
        return states

    def weight(self, pseudo_count: float | str) -> float:
        """A pseudo-count for every pair: "prior" is the least sum of Dirichlet parameters of any (0 in a bandit)."""
        if pseudo_count != "prior":
            if isinstance(pseudo_count, str | bool) or pseudo_count is None:
                raise ConfigError(f'pseudo_count must be a number or "prior"; got {pseudo_count!r}.')
            return pseudo_count
        if not isinstance(self.model, Tabular):
            return 0.0
        weights = np.broadcast_to(np.asarray(self.model.alpha, float), self.model.shape).sum(-1)
        return float(weights.min())
