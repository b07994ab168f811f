"""Finite worlds from one function: the probabilities of the next state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from .. import _random, planning
from .._typing import Array, Float, Int, PRNGKey, Row, Scalar, Theta
from ..declared import rests_on
from ..planning.elimination import evaluate
from .base import Certified

TINY = 1e-30  # keeps the logarithm of a state that cannot follow finite in float32


MOVES = ("sample", "log_likelihood")


class Finite:
    """What follows from `probabilities(theta, state, action) -> [states]` and the known `rewards() -> [states, actions]`.

    A dynamics that inherits it adds sizes, a prior and the curvature. Plans are by policy iteration. One that overrides how
    the world moves in some other way, such as `sample`, says the rest itself.

    >>> import jax, jax.numpy as jnp
    >>> from blts.dynamics import Finite, from_probabilities
    >>> coin = lambda theta, state, action: jnp.stack([jax.nn.sigmoid(theta[0]), jax.nn.sigmoid(-theta[0])])
    >>> world = from_probabilities(coin, [[0.0], [1.0]], prior_mean=[0.0])
    >>> isinstance(world, Finite), world.transitions(world.true).tolist()
    (True, [[[0.5, 0.5]], [[0.5, 0.5]]])
    """

    states: Any
    actions: Any
    probabilities: Callable[[Theta, Int[Array, ""], Int[Array, ""]], Float[Array, " states"]]
    rewards: Callable[[], Float[Array, "states actions"]]

    def transitions(self, theta: Theta) -> Float[Array, "states actions states"]:
        """All rows of the transition law at θ."""
        over_actions = jax.vmap(self.probabilities, (None, None, 0))
        return jax.vmap(over_actions, (None, 0, None))(theta, jnp.arange(self.states), jnp.arange(self.actions))

    @rests_on(*MOVES)
    def table(self, theta: Theta) -> tuple[Array, Array]:
        """Transitions and rewards as a finite MDP."""
        return self.transitions(theta), self.rewards()

    @rests_on("sample", "transitions")
    def log_likelihood(self, theta: Theta, row: Row) -> Scalar:
        p = self.probabilities(theta, row.obs, row.action)
        return jnp.log(jnp.maximum(p[row.next_obs], TINY))

    def inside(self, theta: Theta) -> Theta:
        """θ brought to where it can be planned; here, finite numbers."""
        return jnp.nan_to_num(theta)

    @rests_on(*MOVES, "act")
    def plan(self, theta: Theta) -> Int[Array, " states"]:
        return self.solve(theta).policy

    @rests_on(*MOVES)
    def gain(self, theta: Theta) -> Scalar:
        return self.solve(theta).gain

    @rests_on(*MOVES)
    def solve(self, theta: Theta) -> planning.Plan:
        """Policy, gain and bias by Howard's policy iteration."""
        return planning.howard(self.transitions(self.inside(theta)), self.rewards())

    @rests_on(*MOVES, "act", "plan", "gain")
    def certify(self, theta: Theta) -> Certified:
        found = self.solve(theta)
        planned = jnp.all(self.inside(theta) == theta)
        return Certified(found.policy, found.gain, jnp.where(planned, found.residual, jnp.inf))

    @rests_on(*MOVES, "act", "start")
    def gain_of(self, theta: Theta, policy: Int[Array, " states"]) -> Scalar:
        return stationary_reward(self.transitions(theta), self.rewards(), policy)

    def act(self, policy: Int[Array, " states"], obs: Int[Array, ""]) -> Int[Array, ""]:
        return policy[obs]

    def start(self) -> Int[Array, ""]:
        return jnp.zeros((), int)

    @rests_on("log_likelihood", "transitions")
    def sample(self, key: PRNGKey, theta: Theta, obs: Int[Array, ""], action: Int[Array, ""]):
        return categorical(key, self.probabilities(theta, obs, action)), self.rewards()[obs, action]


def categorical(key: PRNGKey, p: Float[Array, " states"]) -> Int[Array, ""]:
    """A state by inversion: how many of the cumulative probabilities are below u."""
    below = jnp.cumsum(p)
    return jnp.minimum(jnp.sum(below <= _random.uniform(key) * below[-1]), p.shape[0] - 1)


def stationary_reward(
    transitions: Float[Array, "states actions states"], rewards: Float[Array, "states actions"], policy: Int[Array, " states"]
) -> Scalar:
    """The gain of a policy from state 0."""
    states = jnp.arange(policy.shape[0])
    gain, _ = evaluate(transitions[states, policy][..., None], rewards[states, policy][:, None])
    return gain[0, 0]
