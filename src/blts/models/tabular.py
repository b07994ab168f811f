"""What is believed of a tabular MDP: a Dirichlet law on every row of transitions, and rewards that are known or learned."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .. import _random, planning
from .._module import array, is_concrete, module, require, short, static
from .._typing import Array, Float, Int, Numbers, PRNGKey, Row, Scalar, Tree
from ..declared import fact
from ..errors import ConfigError
from .arms import stack
from .base import Model


class Sampled(NamedTuple):
    """One MDP out of the posterior."""

    rows: Float[Array, "*models states actions states"]
    rewards: Float[Array, "*models states actions"]


@module
class Tabular:
    """Rows p(·|s, a) ~ Dirichlet(alpha), times e^{log_prior(row)} where a log-density of one's own is given.

    Args:
        rewards: known expected rewards `[states, actions]`, or a conjugate reward model to learn them with.
        alpha: the Dirichlet parameters: one number, or an array that broadcasts to `[states, actions, states]`.
        log_prior: any differentiable function of one row, for beliefs that are not conjugate.
        states, actions: needed only where `rewards` is a model.

    >>> from blts.models import Gaussian, Tabular
    >>> print(Tabular([[0.0, 0.0], [0.0, 1.0]]))
    An MDP of 2 states and 2 actions with Dirichlet(1) rows and known rewards.
    >>> print(Tabular(Gaussian(sd=0.1), states=5, actions=2))
    An MDP of 5 states and 2 actions with Dirichlet(1) rows and rewards learned by a Gaussian model.
    """

    rewards: Any
    alpha: Numbers = array(default=1.0)
    log_prior: Callable[[Float[Array, " states"]], Scalar] | None = static(default=None)
    states: int | None = static(default=None)
    actions: int | None = static(default=None)

    def check(self):
        if self.learns_rewards:
            if self.states is None or self.actions is None:
                raise ConfigError("Tabular: where the rewards are learned, give states=… and actions=….")
            object.__setattr__(self, "rewards", stack(self.rewards, self.states * self.actions))
        else:
            try:
                rewards = self.rewards if not is_concrete(self.rewards) else np.asarray(self.rewards, float)
            except (TypeError, ValueError):
                raise ConfigError(
                    "Tabular: rewards must be an array [states, actions] or a conjugate reward model; "
                    f"got {type(self.rewards).__name__}."
                ) from None
            if np.ndim(rewards) != 2 or (is_concrete(rewards) and not np.isfinite(rewards).all()):
                raise ConfigError(f"Tabular: rewards must be finite numbers [states, actions]; got shape {np.shape(rewards)}.")
            object.__setattr__(self, "rewards", rewards)
            object.__setattr__(self, "states", np.shape(rewards)[0])
            object.__setattr__(self, "actions", np.shape(rewards)[1])
        shape = self.shape
        try:
            fits = np.broadcast_shapes(np.shape(self.alpha), shape) == shape
        except ValueError:
            fits = False
        if not fits:
            raise ConfigError(f"Tabular: alpha must be a number or broadcast to {shape}; got shape {np.shape(self.alpha)}.")
        ok = (self.alpha > 0) & (self.alpha < math.inf) if is_concrete(self.alpha) else True
        require(self, ok, f"alpha must be > 0 and finite; got {short(self.alpha)}.")

    def __str__(self) -> str:
        rewards = f"rewards learned by a {type(self.rewards).__name__} model" if self.learns_rewards else "known rewards"
        extra = " and a prior density of their own" if self.log_prior is not None else ""
        alpha = short(self.alpha) if np.ndim(self.alpha) == 0 else "given numbers"
        return f"An MDP of {self.states} states and {self.actions} actions with Dirichlet({alpha}) rows{extra} and {rewards}."

    @property
    def learns_rewards(self) -> bool:
        return isinstance(self.rewards, Model) and self.rewards.has_posterior

    @property
    def shape(self) -> tuple[int, int, int]:
        """[states, actions, states]."""
        assert self.states is not None
        assert self.actions is not None
        return self.states, self.actions, self.states

    @property
    def weights(self) -> Float[Array, "states actions states"]:
        """The Dirichlet parameters of every row."""
        return jnp.broadcast_to(jnp.asarray(self.alpha, float), self.shape)

    # Rewards, pair by pair

    def no_rewards(self) -> Tree:
        """The summary of rewards before any is seen; nothing where they are known."""
        return jax.vmap(lambda single: single.empty())(self.rewards) if self.learns_rewards else ()

    def draw_rewards(self, key: PRNGKey, summary: Tree) -> Float[Array, "states actions"]:
        """Expected rewards: the known ones, or those of one draw from each pair's posterior."""
        S, A, _ = self.shape
        if not self.learns_rewards:
            return jnp.asarray(self.rewards, float)

        def one(single, key, summary, pair):
            return single.mean_reward(single.draw(key, summary), (), pair)

        keys = _random.split(key, S * A)
        return jax.vmap(one)(self.rewards, keys, summary, jnp.arange(S * A)).reshape(S, A)

    def pair_row(self, row: Row) -> Row:
        """The row as a reward model sees it: pairs are its arms."""
        assert self.actions is not None
        return Row((), row.obs * self.actions + row.action, row.reward)

    # The decision

    follows_plans = fact("act")
    """Whether `act` is what `plan` says at an observation."""
    plans_optimally = fact("plan", "act")
    """Whether it follows the optimal plans of the drawn rows and rewards."""
    plans_drawn_rewards = fact("plan", "draw_rewards")
    """Whether `plan` is optimal for the drawn rows and rewards, and the rewards are the known or learned ones."""

    def plan(self, sampled: Sampled, plans: planning.Plan | None = None) -> planning.Plan:
        """Optimal plans of sampled models, with any leading axes; the plans of the last refresh are a warm start."""
        return planning.plan(sampled.rows, sampled.rewards, None if plans is None else plans.policy)

    def act(self, plan: planning.Plan, obs: Int[Array, ""]) -> Int[Array, ""]:
        return plan.policy[obs]
