"""Finite MDPs: from arrays, or drawn from a Dirichlet prior for each replication (Bayesian regret)."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from .. import _random, planning
from .._module import array, at_least, is_concrete, module, require, short, static
from .._typing import Array, Bool, Float, Int, Numbers, PRNGKey, Scalar
from ..declared import rests_on, why_lost
from ..errors import ConfigError, require_object
from ..models.tabular import Sampled, Tabular
from ..samplers.rows import ExactRows
from .base import Env, Step

LAWS = ("mean", "gaussian", "bernoulli")


class TableInstance(NamedTuple):
    """The tables of one replication."""

    below: Float[Array, "states actions k"]
    """Cumulative transition probabilities, for drawing by inversion."""
    successors: Int[Array, "states actions k"] | None
    """The next states; None where every state has an entry."""
    rewards: Float[Array, "states actions"]
    gain: Scalar
    best: Bool[Array, "states actions"]
    """Whether an action is optimal in a state."""


class Place(NamedTuple):
    """The state of `MDP` and `DrawnMDP`."""

    state: Int[Array, ""]
    world: TableInstance | None
    """The tables of this replication; None where all replications share them."""


def cumulative(transitions: Any) -> Any:
    """Cumulative probabilities, for draws by inversion.

    Args:
        transitions: probabilities along the last axis.

    Returns:
        Their cumulative sums, with the last entry raised above 1 so that rounding cannot leave a uniform number uncovered.
    """
    xp = jnp if not is_concrete(transitions) or not isinstance(transitions, np.ndarray) else np
    below = xp.cumsum(transitions, -1)
    last = xp.arange(below.shape[-1]) == below.shape[-1] - 1
    return xp.where(last, 2.0, below)


def move(
    key: PRNGKey, world: TableInstance, state: Int[Array, ""], action: Int[Array, ""], law: str, sd: Any
) -> tuple[Array, Step]:
    """One transition. Its regret is the optimal gain less the expected reward, without the noise of the reward.

    Args:
        key: for the next state and the reward.
        world: the tables.
        state: the current state.
        action: the action.
        law: the distribution of rewards, see `MDP`.
        sd: of Gaussian rewards.

    Returns:
        The next state, and the `Step`.
    """
    key_state, key_reward = (key, key) if law == "mean" else _random.split(key)
    row = world.below[state, action]
    following = jnp.sum(row <= _random.uniform(key_state), dtype=int)
    if world.successors is not None:
        following = world.successors[state, action, following]
    mean = world.rewards[state, action]
    if law == "gaussian":
        reward = mean + sd * _random.normal(key_reward)
    elif law == "bernoulli":
        reward = jnp.where(_random.uniform(key_reward) < mean, 1.0, 0.0)
    else:
        reward = mean
    return following, Step(following, reward, world.gain - mean, world.best[state, action])


def best_actions(transitions: Any, rewards: Any, plan: Any, tolerance: Any) -> Any:
    """Which actions are optimal for the plan's bias, ties included.

    Args:
        transitions: dense or sparse.
        rewards: expected rewards.
        plan: an optimal plan.
        tolerance: the largest difference that counts as a tie.

    Returns:
        A mask `[states, actions]`.
    """
    values = rewards + planning.expected(transitions, plan.bias)
    return values >= values.max(-1, keepdims=True) - tolerance


@module
class MDP(Env):
    """A finite MDP from transition probabilities `[states, actions, states]` and expected rewards `[states, actions]`.

    The optimal gain is solved for when it is built. A subclass that overrides `reset` or `step` must be given `gain` and `best`.

    Args:
        transitions: probabilities `[states, actions, states]`, or `[states, actions, K]` with `successors`.
        rewards: expected rewards `[states, actions]`.
        sd: of Gaussian rewards.
        gain: the optimal average reward; solved for by default.
        best: 1 where an action is optimal, `[states, actions]`; solved for by default.
        successors: a sparse table: the K possible next states of each pair, `[states, actions, K]`, whose probabilities are
            `transitions`. A chain of 5000 states fits so.
        start: the initial state of every run.
        law: the distribution of rewards: "mean" (no noise, as in the paper), "gaussian" with `sd`, or "bernoulli".

    >>> from blts.envs import MDP
    >>> print(MDP([[[0.9, 0.1], [0.1, 0.9]], [[0.5, 0.5], [0.0, 1.0]]], [[0.0, 0.0], [0.0, 1.0]]))
    An MDP of 2 states and 2 actions with the optimal average reward 1.
    """

    transitions: Numbers = array(ndim=3)
    rewards: Numbers = array(ndim=2)
    start: int = static(default=0)
    law: str = static(default="mean")
    sd: Numbers = array(default=0.0)
    gain: Numbers = array(default=None)
    best: Numbers = array(default=None, ndim=2)
    successors: Numbers = array(default=None, ndim=3, dtype=int)

    def check(self):
        planning.check(self.table, self.rewards)
        at_least(self, "start", 0)
        if self.start >= self.states:
            raise ConfigError(f"MDP: start must be one of the {self.states} states, from 0; got {self.start}.")
        if self.law not in LAWS:
            raise ConfigError(f"MDP: law must be one of {', '.join(LAWS)}; got {self.law!r}.")
        require(self, self.sd >= 0, f"sd must be ≥ 0; got {short(self.sd)}.")
        if self.law == "bernoulli":
            inside = (self.rewards >= 0) & (self.rewards <= 1)
            require(self, inside, "Bernoulli rewards need means between 0 and 1; give law='mean' or rescale them.")
        if self.gain is None or self.best is None:
            if (why := why_lost(self, "solve") or why_lost(self, "best_of")) is not None:
                raise ConfigError(f"The optimum is not known: {why} Or give gain=… and best=….")
            found = self.solve()
            object.__setattr__(self, "gain", np.asarray(found.gain, float))
            object.__setattr__(self, "best", np.asarray(self.best_of(found), float))

    @rests_on("reset", "step", "world", "dense", "table")
    def solve(self) -> planning.Plan:
        """The optimal plan, in double precision.

        Returns:
            The plan, certified by its residual.
        """
        return planning.solve(self.table, self.rewards)

    @rests_on("reset", "step", "world", "dense", "table")
    def best_of(self, plan: planning.Plan) -> Any:
        """Which actions are optimal.

        Args:
            plan: an optimal plan.

        Returns:
            A mask `[states, actions]`.
        """
        scale = np.abs(self.rewards).max() + plan.span
        return best_actions(self.table, self.rewards, plan, 1e-9 * float(scale) + 2 * float(plan.residual))

    @property
    def table(self) -> Any:
        """The transitions as planners take them: dense or `Sparse`."""
        return self.transitions if self.successors is None else planning.Sparse(self.successors, self.transitions)

    @property
    def dense(self) -> np.ndarray:
        """The transitions `[states, actions, states]`."""
        if self.successors is None:
            return self.transitions
        S, A, K = np.shape(self.transitions)
        out = np.zeros((S, A, S))
        s, a, _ = np.indices((S, A, K))
        np.add.at(out, (s, a, self.successors), self.transitions)
        return out

    def __str__(self) -> str:
        return f"An MDP of {self.states} states and {self.actions} actions with the optimal average reward {short(self.gain)}."

    @property
    def states(self) -> int:
        """How many states there are."""
        return np.shape(self.rewards)[0]

    @property
    def actions(self) -> int:
        """How many actions there are."""
        return np.shape(self.rewards)[1]

    @property
    def world(self) -> TableInstance:
        """The tables that `step` draws from."""
        number = lambda x: jnp.asarray(x, float)  # noqa: E731
        successors = None if self.successors is None else jnp.asarray(self.successors, int)
        best = jnp.asarray(self.best) > 0.5
        return TableInstance(number(cumulative(self.transitions)), successors, number(self.rewards), number(self.gain), best)

    @rests_on("reset", "step", "world", "table")
    @property
    def truth(self) -> Sampled:
        """The true tables, for the agent that follows the optimal policy."""
        return Sampled(jnp.asarray(self.dense), jnp.asarray(self.rewards))

    def reset(self, key):
        del key
        start = jnp.asarray(self.start, int)
        return Place(start, None), start

    def step(self, key, state, action):
        following, step = move(key, self.world, state.state, action, self.law, self.sd)
        return Place(following, None), step


@module
class DrawnMDP(Env):
    """An MDP that each replication draws from the prior of `model`: its mean regret is the Bayesian regret.

    Args:
        model: the prior that MDPs are drawn from.
        law: the distribution of rewards: "mean" (no noise), "gaussian" with `sd`, or "bernoulli".
        sd: of Gaussian rewards.

    >>> from blts.envs import DrawnMDP
    >>> from blts.models import Tabular
    >>> print(DrawnMDP(Tabular([[0.0, 0.0], [0.0, 1.0]])))
    An MDP drawn for each replication: An MDP of 2 states and 2 actions with Dirichlet(1) rows and known rewards.
    """

    model: Tabular
    law: str = static(default="mean")
    sd: Numbers = array(default=0.0)

    def check(self):
        require_object("DrawnMDP: model", self.model, ("log_prior", "shape", "weights"), "Tabular([[0.0, 0.0], [0.0, 1.0]])")
        if self.model.log_prior is not None:
            raise ConfigError("DrawnMDP: worlds are drawn from Dirichlet rows; leave out the model's log_prior.")
        if self.law not in LAWS:
            raise ConfigError(f"DrawnMDP: law must be one of {', '.join(LAWS)}; got {self.law!r}.")

    def __str__(self) -> str:
        return f"An MDP drawn for each replication: {self.model}"

    @property
    def states(self) -> int:
        """How many states there are."""
        return self.model.shape[0]

    @property
    def actions(self) -> int:
        """How many actions there are."""
        return self.model.shape[1]

    def reset(self, key):
        S, A, _ = self.model.shape
        key_rows, key_rewards = _random.split(key)
        weights = self.model.weights.reshape(S * A, S)
        drawn = ExactRows().draw(_random.split(key_rows, S * A), weights, jnp.zeros_like(weights), weights)
        sampled = Sampled(drawn.rows.reshape(S, A, S), self.model.draw_rewards(key_rewards, self.model.no_rewards()))
        plan = planning.plan(sampled.rows, sampled.rewards)  # not the model's own planner, which may be suboptimal
        tolerance = 1e-5 * (jnp.abs(sampled.rewards).max() + plan.span)
        best = best_actions(sampled.rows, sampled.rewards, plan, tolerance)
        world = TableInstance(cumulative(sampled.rows), None, sampled.rewards, plan.gain, best)
        start = jnp.zeros((), int)
        return Place(start, world), start

    def step(self, key, state, action):
        following, step = move(key, state.world, state.state, action, self.law, self.sd)
        return Place(following, state.world), step
