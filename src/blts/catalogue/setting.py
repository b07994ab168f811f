"""The argument of the functions that build named agents and batching schemes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..errors import ConfigError
from ..models import Tabular


class Setting(NamedTuple):
    """What a builder of an agent or a batching scheme may depend on."""

    env: Any
    """The environment."""
    model: Any
    """The agent's model, with its prior."""
    horizon: int
    """The number of rounds."""

    @property
    def actions(self) -> int:
        """How many actions there are."""
        return self.env.actions

    @property
    def arms(self) -> int:
        """How many actions there are, under the name that bandit agents use."""
        return self.env.actions

    @property
    def shared(self) -> bool:
        """Whether all arms of a contextual bandit have one θ."""
        return self.env.shared

    @property
    def features(self) -> Any:
        """The feature map of a contextual bandit; None for `contexts.features`."""
        return self.env.features

    @property
    def states(self) -> int:
        """How many states a batching scheme counts visits for: 1 for a bandit.

        Raises:
            ConfigError: the environment has no finite set of states.
        """
        states = self.env.states
        if states is None:
            raise ConfigError(
                "This world has no table of states to count visits in; use the batching static, fixed, sequential or geometric."
            )
        return states

    def weight(self, pseudo_count: float | str) -> float:
        """The pseudo-count of every state–action pair.

        Args:
            pseudo_count: a number, or "prior": the smallest sum of Dirichlet parameters of a pair, and 0 in a bandit.

        Returns:
            The number.

        Raises:
            ConfigError: it is neither.
        """
        if pseudo_count != "prior":
            if isinstance(pseudo_count, str | bool) or pseudo_count is None:
                raise ConfigError(f'pseudo_count must be a number or "prior"; got {pseudo_count!r}.')
            return pseudo_count
        if not isinstance(self.model, Tabular):
            return 0.0
        weights = np.broadcast_to(np.asarray(self.model.alpha, float), self.model.shape).sum(-1)
        return float(weights.min())
