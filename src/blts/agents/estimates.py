"""Contextual agents that act on an estimate of each arm's mean reward and its sd: UCB, greedy, ε-greedy and SquareCB."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from .. import _random, contexts, models
from .._module import array, is_concrete, module, positive, require, short
from .._typing import Array, Bool, Float, Numbers
from ..declared import rests_on
from ..errors import ConfigError
from ..models.drawing import mean_and_slope
from .base import argmax
from .beliefs import Exact, LaplaceApproximation
from .beliefs.choice import exact_or
from .beliefs.normal import require_normal
from .thompson import Thompson


class OnEstimates(Thompson):
    """What these agents share with Thompson sampling: the model, how its posterior is held, and what is remembered."""

    def check(self):
        if self.belief is None and isinstance(self.model, models.Model):
            object.__setattr__(self, "belief", exact_or(LaplaceApproximation(), self.model))
        super().check()
        if not self.draws_mean_rewards:
            raise ConfigError(f"{type(self).__name__} does not use mean_rewards; override estimates instead.")
        require_normal(type(self).__name__, self.belief, self.model)

    def _sentence(self, rule: str) -> str:
        shared = f" with one θ for {self.arms} arms" if self.shared else ""
        held = {Exact: "the exact posterior", LaplaceApproximation: "the Laplace approximation"}.get(type(self.belief))
        return f"{rule}{shared}, on {held or self.belief}.\n{self.model}"

    def laws(self, state, obs=()) -> None:
        """None: a round does not play the largest of draws."""
        return None

    def estimates(self, state, obs) -> tuple[Float[Array, " arms"], Float[Array, " arms"]]:
        """The mean rewards at the mean of θ, and their sds to first order.

        Args:
            state: that of the batch.
            obs: what the round shows.

        Returns:
            One mean and one sd an arm.
        """
        mean, root = self.belief.normal(self.model, state)  # type: ignore[misc]
        seen = self._by_arm(obs)
        if self.shared:
            single = models.first_arm(self.model)
            of_arm = lambda x, a: jax.value_and_grad(single.mean_reward)(mean[0], x, a)  # noqa: E731
            values, slope = jax.vmap(of_arm)(seen, jnp.arange(self.actions))
        else:
            values, slope = mean_and_slope(self.model, mean, seen)
        return values, jnp.linalg.norm(jnp.sum(slope[:, :, None] * root, 1), axis=-1)


def _nonnegative(owner: Thompson, name: str) -> None:
    value = getattr(owner, name)
    holds = (value >= 0) & (value < np.inf) if is_concrete(value) else True
    require(owner, holds, f"{name} must be ≥ 0 and finite; got {short(value)}.")


def one_hot(action, actions: int) -> Float[Array, " arms"]:
    """1 for the action, 0 for all others."""
    return jnp.where(jnp.arange(actions) == action, 1.0, 0.0)


class Optimistic(OnEstimates):
    """Plays the largest mean + width · sd, with probability 1."""

    def widths(self, state) -> Numbers:
        """How many sds are added to the means.

        Args:
            state: that of the batch.

        Returns:
            A number, or one an arm.
        """
        raise NotImplementedError

    def _best(self, state, obs):
        mean, sd = self.estimates(state, obs)
        return argmax(mean + self.widths(state) * sd, contexts.available(obs))

    def act(self, key, state, obs, played):
        return self._best(state, obs)

    @rests_on("act")
    def propensities(self, state, obs=()) -> Float[Array, " arms"]:  # type: ignore[override]
        """1 for the arm that is played."""
        return one_hot(self._best(state, obs), self.actions)


@module
class UCB(Optimistic):
    """Play the largest mean + width · sd of the posterior's mean reward: LinUCB (Li et al. 2010) where the model is linear.

    With the ridge parameter λ = sd²/prior_sd² of a `Linear` model, LinUCB's α is width · sd. With `shared=True` this is its shared
    form. `OFUL` has a width that grows with the determinant. Of a logistic model the sd is that of the Laplace approximation.

    Args:
        model: what is believed of the arms' rewards; it needs contexts.
        belief: how the posterior is held; by default exactly where it is known, by the Laplace approximation elsewhere.
        arms: how many arms, where the model's numbers do not say it.
        shared: whether all arms have one θ.
        features: what the rewards of an arm depend on; by default `contexts.features`.
        width: sds that are added to the mean.

    >>> from blts import Linear
    >>> from blts.agents import UCB
    >>> print(str(UCB(Linear(prior_mean=[0.0, 0.0]), arms=3, width=2.0)).splitlines()[0])
    UCB, mean + 2 sd, on the exact posterior.
    """

    width: Numbers = array(default=1.0)

    def check(self):
        super().check()
        _nonnegative(self, "width")

    def __str__(self) -> str:
        return self._sentence(f"UCB, mean + {short(self.width)} sd")

    def widths(self, state):
        return self.width


@module
class Greedy(OnEstimates):
    """Play the best estimate; with probability ε_t = min(1, c·N/t) any available arm instead. N is the number of arms.

    Args:
        model: what is believed of the arms' rewards; it needs contexts.
        belief: how the posterior is held; by default exactly where it is known, by the Laplace approximation elsewhere.
        arms: how many arms, where the model's numbers do not say it.
        shared: whether all arms have one θ.
        features: what the rewards of an arm depend on; by default `contexts.features`.
        c: how much is explored; 0, the default, is greedy play.

    >>> from blts import Greedy, Linear
    >>> print(str(Greedy(Linear(prior_mean=[0.0, 0.0]), arms=3)).splitlines()[0])
    Greedy play, on the exact posterior.
    """

    c: Numbers = array(default=0.0)

    def check(self):
        super().check()
        _nonnegative(self, "c")

    def __str__(self) -> str:
        return self._sentence(f"Decaying ε-greedy, ε = min(1, {short(self.c * self.actions)}/t)" if self.c else "Greedy play")

    def _best(self, state, obs):
        return argmax(self.estimates(state, obs)[0], contexts.available(obs))

    def act(self, key, state, obs, played):
        key_explore, key_arm = _random.split(key)
        explore = _random.uniform(key_explore) < self.c * self.actions / played.t
        anything = argmax(_random.uniform(key_arm, (self.actions,)), contexts.available(obs))
        return jnp.where(explore, anything, self._best(state, obs))

    @rests_on("act")
    def propensities_at(self, state, obs, played) -> Float[Array, " arms"]:
        """P(a is played) in this round of the batch."""
        explore = jnp.minimum(1.0, self.c * self.actions / played.t)
        open_arms = _open(obs, self.actions)
        return explore * open_arms / jnp.sum(open_arms) + (1.0 - explore) * one_hot(self._best(state, obs), self.actions)


def _open(obs, actions: int) -> Float[Array, " arms"]:
    """1 for the arms that can be played; for all where none is said to be."""
    mask: Bool[Array, " arms"] | None = contexts.available(obs)
    return jnp.ones(actions) if mask is None else jnp.where(mask | ~jnp.any(mask), 1.0, 0.0)


@module
class SquareCB(OnEstimates):
    """Inverse gap weighting (Foster & Rakhlin 2020): P(a) = 1/(N + γ_t · gap_a), the rest for the best estimate; γ_t = gamma·√t.

    N is the number of available arms and gap_a how far the estimate of arm a is below the best.

    Args:
        model: what is believed of the arms' rewards; it needs contexts.
        belief: how the posterior is held; by default exactly where it is known, by the Laplace approximation elsewhere.
        arms: how many arms, where the model's numbers do not say it.
        shared: whether all arms have one θ.
        features: what the rewards of an arm depend on; by default `contexts.features`.
        gamma: how greedy it is, in 1/reward.

    >>> from blts import Linear, SquareCB
    >>> print(str(SquareCB(Linear(prior_mean=[0.0, 0.0]), arms=3)).splitlines()[0])
    SquareCB, γ = 10·√t, on the exact posterior.
    """

    gamma: Numbers = array(default=10.0)

    def check(self):
        super().check()
        positive(self, "gamma")

    def __str__(self) -> str:
        return self._sentence(f"SquareCB, γ = {short(self.gamma)}·√t")

    def _weights(self, state, obs, t) -> Float[Array, " arms"]:
        mean, open_arms = self.estimates(state, obs)[0], _open(obs, self.actions)
        best = argmax(mean, contexts.available(obs))
        gap = jnp.maximum(mean[best] - mean, 0.0)
        others = open_arms / (jnp.sum(open_arms) + self.gamma * jnp.sqrt(t) * gap)
        others = jnp.where(jnp.arange(self.actions) == best, 0.0, others)
        return others + (1.0 - jnp.sum(others)) * one_hot(best, self.actions)

    def act(self, key, state, obs, played):
        ends = jnp.cumsum(self._weights(state, obs, played.t))
        u = _random.uniform(key) * ends[-1]
        return jnp.argmax(ends > u)

    @rests_on("act")
    def propensities_at(self, state, obs, played) -> Float[Array, " arms"]:
        """P(a is played) in this round of the batch."""
        return self._weights(state, obs, played.t)
