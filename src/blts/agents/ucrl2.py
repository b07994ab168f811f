"""UCRL2 (Jaksch, Ortner and Auer 2010): plan in the most hopeful model of a confidence set. The frequentist baseline."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from .._module import array, is_concrete, module, positive, require, short
from .._typing import Info, Numbers, Row
from ..declared import why_lost
from ..errors import ConfigError
from ..models.tabular import Tabular
from ..planning.optimistic import extended_value_iteration
from .base import Agent
from .transitions import Visits


@module
class UCRL2(Agent):
    """Rows within √(14 S log(2 A t/δ)/n) of their frequencies in L1, and known rewards.

    With the batching `DoubledSinceSwitch.ucrl2(states)` this is UCRL2. Its sets are wide: the regret bound is the point of
    it, not the regret.

    Args:
        model: a table with known rewards.
        delta: the probability that the confidence set misses the truth.
        scale: factor of the confidence radius; 1 is the published one.

    >>> from blts.agents import UCRL2
    >>> from blts.models import Tabular
    >>> UCRL2(Tabular([[0.0, 0.0], [0.0, 1.0]])).actions
    2
    """

    model: Tabular
    delta: Numbers = array(default=0.05)
    scale: Numbers = array(default=1.0)
    """Shrinks the confidence radius; 1 is the published one."""
    observes_first: ClassVar[bool] = True

    def check(self):
        if not isinstance(self.model, Tabular) or self.model.learns_rewards:
            raise ConfigError("UCRL2 needs a Tabular model with known rewards; give rewards as an array [states, actions].")
        if (why := why_lost(self.model, "plans_drawn_rewards")) is not None:
            raise ConfigError(f"UCRL2 plans by itself, so give it a plain Tabular: {why}")
        positive(self, "scale")
        ok = (self.delta > 0) & (self.delta < 1) if is_concrete(self.delta) else True
        require(self, ok, f"delta must be a probability; got {short(self.delta)}.")

    def __str__(self) -> str:
        return f"UCRL2 with confidence {short(1 - np.asarray(self.delta))}.\n{self.model}"

    @property
    def actions(self) -> int:
        return self.model.shape[1]

    def init(self, key):
        del key
        plan = jax.eval_shape(self._plan, self.empty(None, 0))
        return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), plan)

    def act(self, key, state, obs, played):
        del key, played
        return self.model.act(state, obs)

    def empty(self, row: Row | None, capacity):
        return Visits.none(self.model)

    def remember(self, history, row, live):
        return history.plus(self.model, row, live)

    def _plan(self, history: Visits):
        S, A, _ = self.model.shape
        counts = history.counts.reshape(S, A, S)
        n, t = jnp.sum(counts, -1), jnp.sum(counts) + 1
        rows = jnp.where(n[..., None] > 0, counts / jnp.maximum(n, 1)[..., None], 1 / S)
        radius = self.scale * jnp.sqrt(14 * S * jnp.log(2 * A * t / self.delta) / jnp.maximum(n, 1))
        rewards = jnp.asarray(self.model.rewards, float)
        largest = jnp.maximum(jnp.max(jnp.abs(rewards)), 1e-30)
        return extended_value_iteration(rows, rewards, radius, tolerance=largest / jnp.sqrt(t))

    def observe(self, keys, states, histories):
        plans = jax.vmap(self._plan)(histories)
        return plans, Info.of(jnp.isfinite(plans.gain))._replace(residual=plans.residual)
