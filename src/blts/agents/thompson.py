"""Thompson sampling for any model and any way to hold its posterior: BLTS, exact, ULA, MALA are all this agent."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import _random, models
from .._module import module, require_part, static
from .._typing import Array, Float
from ..declared import fact, rests_on
from ..errors import ConfigError
from ..models import marginal
from ..models.drawing import prior_draws
from ..samplers.chain import Chain
from . import propensity
from .base import Agent, argmax
from .beliefs import Belief, default_belief


@module
class Thompson(Agent):
    """Draw θ for every arm, play the arm with the largest mean reward (Algorithm 2, lines 3–4).

    Without a belief, a conjugate model is drawn from exactly, and any other by a pool of adjusted chains around its modes. The
    paper's own method is `Thompson(model, Perturb(sgld()))`.

    Args:
        model: what is believed of the arms' rewards.
        belief: how the posterior is held within a batch; None for the model's default.
        arms: how many arms, where the model's numbers do not say it.

    >>> from blts.agents import Exact, Thompson
    >>> from blts.models import Gaussian
    >>> agent = Thompson(Gaussian(prior_mean=[0.0, 1.0], prior_sd=1.0, sd=0.5), Exact())
    >>> agent.actions
    2
    """

    model: models.Model
    belief: Belief = None  # type: ignore[assignment]
    """How the posterior is held within a batch; None for the model's default (`default_belief`)."""
    arms: int | None = static(default=None)
    """The number of arms, where the model's numbers do not say it."""

    def check(self):
        models.require_model("Thompson", self.model)
        arms = self.arms if self.arms is not None else models.arm_count(self.model)
        if arms is None:
            raise ConfigError("Thompson: the model does not say how many arms there are; give arms=…, or one number per arm.")
        object.__setattr__(self, "model", models.stack(self.model, arms))
        belief = default_belief(self.model) if self.belief is None else self.belief
        if isinstance(belief, Chain):
            raise ConfigError(
                "Thompson: belief says how each round draws from the chain's ends; give Perturb(chain) or Pool(chain)."
            )
        require_part("Thompson: belief", belief, Belief, "Exact(), Perturb(sgld()) or Pool(mala())")
        object.__setattr__(self, "belief", belief.check_model(self.model))
        object.__setattr__(self, "arms", arms)

    def __str__(self) -> str:
        name = "Thompson sampling" if type(self) is Thompson else f"{type(self).__name__}, changed from Thompson sampling"
        return f"{name}, {self.belief}.\n{self.model}"

    def _repr_html_(self) -> str:
        return "".join(f"<p>{line}</p>" for line in str(self).splitlines())

    @property
    def actions(self) -> int:
        assert self.arms is not None
        return self.arms

    @rests_on("observe")
    @property
    def incremental(self) -> bool:
        return self.belief.incremental(self.model)

    @property
    def plain_memory(self) -> bool:
        return self._remembers_as_belief and self.belief.plain_memory

    _remembers_as_belief = fact("empty", "remember")

    @property
    def starts_from_prior(self) -> bool:
        return self._starts_as_belief and self.belief.starts_from_prior

    _starts_as_belief = fact("init")

    @property
    def holds_posterior(self) -> bool:
        return self._learns_as_belief and self.belief.draws_posterior

    _learns_as_belief = fact("init", "empty", "remember", "observe")

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

    def observe(self, keys, states, histories):
        return self.belief.refresh(keys, self.model, states, histories)

    @rests_on("act")
    def propensities(self, state, obs=(), *, draws: int = 4096) -> Float[Array, " arms"]:
        """P(a is played) for every arm, the same at every round of the batch.

        By quadrature where the arms' mean rewards have distributions in closed form, exactly for pools of arms with data;
        otherwise from `draws` draws per arm, with an error below 1/√draws (the draws are fixed, so is the answer for a state).
        """
        laws = self.laws(state, obs)
        if laws is not None:
            return propensity.of_laws(laws)
        if self._draws_members:
            return propensity.of_values(self._member_values(state, obs, draws))
        keys = _random.split(_random.as_key(0), draws)
        values = jax.lax.map(lambda k: self.mean_rewards(self.belief.draw(k, self.model, state), obs), keys, batch_size=256)
        return propensity.of_values(values.T)

    def laws(self, state, obs=()) -> marginal.Marginal | None:
        """The distributions of the arms' mean rewards that a round draws from; None where they have no closed form."""
        return self.belief.laws(self.model, state, obs) if self.draws_mean_rewards else None

    @rests_on("propensities", "act")
    def propensities_are_exact(self, state) -> bool:
        """Whether `propensities` is exact up to quadrature, rather than estimated from draws."""
        if self._draws_members:
            return bool(np.all(np.asarray(state.n) > 0))
        structure = jax.tree.structure((self, state))
        if structure not in _CLOSED:  # tracing takes longer than the refresh of a small experiment
            _CLOSED[structure] = jax.eval_shape(self.laws, state) is not None
        return _CLOSED[structure]

    draws_mean_rewards = fact("mean_rewards")
    """Whether the value of a draw is the model's mean reward."""

    @property
    def _draws_members(self) -> bool:
        return self.draws_mean_rewards and self.belief.draws_members

    def _member_values(self, state, obs, draws: int) -> Float[Array, "arms values"]:
        """The mean rewards that each arm's draw is one of: its members, repeated, or `draws` of its prior without data."""
        values = self.belief.values(self.model, self.belief.members(state), obs)
        repeats = -(-draws // values.shape[1])
        keys = _random.split(_random.as_key(0), repeats * values.shape[1])
        prior = jax.vmap(lambda k: self.mean_rewards(prior_draws(k, self.model), obs))(keys).T
        return jnp.where((state.n > 0)[:, None], jnp.tile(values, (1, repeats)), prior)


_CLOSED: dict[Any, bool] = {}
"""Whether the laws are closed, for agents and states of one structure."""
