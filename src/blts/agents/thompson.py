"""Thompson sampling for any model and any way to hold its posterior: BLTS, exact, ULA, MALA are all this agent."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from .. import _random
from .._module import module, static
from .._typing import Array, Float
from ..errors import ConfigError
from ..models import base as models
from . import propensity
from .base import argmax
from .beliefs import Pool, default_belief, prior_draws


@module
class Thompson:
    """Draw θ for every arm, play the arm with the largest mean reward (Algorithm 2, lines 3–4).

    Without a belief, a conjugate model is drawn from exactly, and any other by a pool of adjusted chains around its modes. The
    paper's own method is `Thompson(model, Perturb(sgld()))`.

    >>> from blts.agents import Exact, Thompson
    >>> from blts.models import Gaussian
    >>> agent = Thompson(Gaussian(prior_mean=[0.0, 1.0], prior_sd=1.0, sd=0.5), Exact())
    >>> agent.actions
    2
    """

    model: Any
    belief: Any = None
    """How the posterior is held within a batch; None for the model's default (`default_belief`)."""
    observes_first: ClassVar[bool] = False
    arms: int | None = static(default=None)
    """The number of arms, where the model's numbers do not say it."""

    def check(self):
        if not isinstance(self.model, models.Model):
            raise ConfigError(
                f"Thompson: model must have init, log_prior, log_likelihood and mean_reward; got {type(self.model).__name__}."
            )
        arms = self.arms if self.arms is not None else models.arm_count(self.model)
        if arms is None:
            raise ConfigError("Thompson: the model does not say how many arms there are; give arms=…, or one number per arm.")
        if arms < 1:
            raise ConfigError(f"Thompson: arms must be ≥ 1; got {arms}.")
        object.__setattr__(self, "model", models.stack(self.model, arms))
        belief = default_belief(self.model) if self.belief is None else self.belief
        object.__setattr__(self, "belief", belief.check_model(self.model))
        object.__setattr__(self, "arms", arms)

    def __str__(self) -> str:
        return f"Thompson sampling, {self.belief}.\n{self.model}"

    def _repr_html_(self) -> str:
        return "".join(f"<p>{line}</p>" for line in str(self).splitlines())

    @property
    def actions(self) -> int:
        assert self.arms is not None
        return self.arms

    @property
    def incremental(self) -> bool:
        return self.belief.incremental(self.model)

    def init(self, key):
        return self.belief.init(key, self.model)

    def act(self, key, state, obs, played):
        theta = self.belief.draw(key, self.model, state)
        return argmax(self.mean_rewards(theta, obs))

    def mean_rewards(self, theta, obs) -> Float[Array, " arms"]:
        return jax.vmap(lambda single, x, a: single.mean_reward(x, obs, a))(self.model, theta, jnp.arange(self.actions))

    def empty(self, row, capacity):
        return self.belief.empty(self.model, row, capacity)

    def remember(self, history, row, live):
        return self.belief.remember(self.model, history, row, live)

    def observe(self, keys, state, history):
        return self.belief.refresh(keys, self.model, state, history)

    def propensities(self, state, obs=(), *, draws: int = 4096) -> Float[Array, " arms"]:
        """P(a is played) for every arm, the same at every round of the batch.

        By quadrature where the arms' mean rewards have closed laws, exactly for pools of arms with data; otherwise from
        `draws` draws an arm, whose error is below 1/√draws (fixed draws: the same state gives the same answer).
        """
        if isinstance(self.belief, Pool):
            return propensity.of_values(self._pool_values(state, obs, draws))
        laws = self.belief.laws(self.model, state, obs)
        if laws is not None:
            return propensity.of_laws(laws)
        keys = _random.split(_random.as_key(0), draws)
        values = jax.lax.map(lambda k: self.mean_rewards(self.belief.draw(k, self.model, state), obs), keys, batch_size=256)
        return propensity.of_values(values.T)

    def _pool_values(self, state, obs, draws: int) -> Float[Array, "arms values"]:
        """The mean rewards that each arm's draw is one of: its pool, repeated, or `draws` of its prior without data."""
        pool = self.belief.values(self.model, state.thetas, obs)
        repeats = -(-draws // pool.shape[1])
        keys = _random.split(_random.as_key(0), repeats * pool.shape[1])
        prior = jax.vmap(lambda k: self.mean_rewards(prior_draws(k, self.model), obs))(keys).T
        return jnp.where((state.n > 0)[:, None], jnp.tile(pool, (1, repeats)), prior)
