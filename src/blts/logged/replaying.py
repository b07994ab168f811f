"""Agents on a log: replay, which plays the rows that agree, and learning from all rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .. import _random
from .._typing import Array, Info, Played, PRNGKey, Row, Tree
from ..agents import Agent
from ..batching import Batching
from ..decision import Clock, decide
from ..envs.sources import LARGEST
from ..errors import ConfigError, shown
from ..models.support import SUPPORTS, support_of_likelihood
from .evaluation import Value, mean_value
from .learned import remember
from .log import Log

UNIFORM = 1e-3
"""Relative differences of propensities that still are the same."""


class Replay(NamedTuple):
    """What an agent earned in a replay.

    >>> from blts import Bernoulli, Fixed, Thompson, logged
    >>> log = logged.read_log({"action": [0, 1] * 200, "reward": [0, 1] * 200}, propensity=0.5)
    >>> found = logged.replay(log, Thompson(Bernoulli(), arms=2), Fixed(20))
    >>> len(found.rows) == len(found.rewards), found.batches == len(found.rows) // 20
    (True, True)
    """

    value: Value
    """The mean reward of the rows that count."""
    rewards: np.ndarray
    """Of these rows, in their order."""
    rows: np.ndarray
    """Which rows of the log these are."""
    batches: int
    """How many batches ended."""
    state: Any
    """The agent's state at the end."""


def replay(log: Log, agent: Agent, batching: Batching, *, seed: int = 0, level: float = 0.95) -> Replay:
    """Let an agent choose for one row after another; a row counts where it chooses what was logged (Li et al. 2011).

    The agent learns from rows that count, and sees their rewards when the batch ends. Where the log was written by uniform play,
    the rows that count are distributed as if the agent had played them itself, about one of every `actions`.

    Args:
        log: uniform play: all propensities are one over the number of actions.
        agent: who chooses and learns.
        batching: when it learns.
        seed: of its choices.
        level: of the interval.

    Returns:
        What it earned.

    Raises:
        ConfigError: the log is of another policy, or has other actions than the agent, or a state is not finite.

    >>> import numpy as np
    >>> from blts import Bernoulli, Sequential, Thompson, logged
    >>> rng = np.random.default_rng(0)
    >>> action = rng.integers(0, 3, 3000)
    >>> reward = rng.random(3000) < np.array([0.1, 0.2, 0.6])[action]
    >>> log = logged.read_log({"action": action, "reward": reward}, propensity=1 / 3)
    >>> found = logged.replay(log, Thompson(Bernoulli(), arms=3), Sequential())
    >>> len(found.rows) > 900, found.value.low < 0.6 < found.value.high + 0.05
    (True, True)
    """
    _require(log, agent, "replay")
    K = len(log.labels)
    if (np.abs(K * log.propensities - 1) > UNIFORM).any():
        raise ConfigError(
            f"replay needs a log of uniform play, with all propensities 1/{K}; this one has {log.propensities.min():.3g} to "
            f"{log.propensities.max():.3g}. Use evaluate, which weights."
        )
    if not isinstance(batching, Batching):
        raise ConfigError(f"replay: batching must be a scheme such as DoublingCounts(); got {shown(batching)}.")
    counts, batches, state, finite = _replay(_random.as_key(seed), agent, batching, *_arrays(log))
    if not bool(finite):
        raise ConfigError("replay: the state after a refresh is not finite; scale contexts and rewards to about 1.")
    rows = np.flatnonzero(np.asarray(counts))
    if not len(rows):
        raise ConfigError("replay: the agent chose what was logged in no row; the log is too short.")
    remember(state, log._rows(rows))
    return Replay(mean_value(log.rewards[rows], level), log.rewards[rows], rows, int(batches), state)


def learn(agent: Agent, log: Log, *, seed: int = 0) -> tuple[Any, Info]:
    """Train an agent on all rows of a log: a warm start.

    Whoever chose the actions, the rewards say the same of them, so propensities are not used. Evaluate what was learned on other
    rows (`Log.split`): on its own rows the estimate tends to be too high, and `evaluate` warns.

    Args:
        agent: who learns.
        log: the rows.
        seed: of the agent's chains.

    Returns:
        Its state after one refresh on all rows, for `policy_of(agent, state)`, and how the refresh went (`info.sound`).

    Raises:
        ConfigError: the log has other actions than the agent, or the state is not finite.

    >>> import numpy as np
    >>> from blts import Bernoulli, Thompson, logged
    >>> log = logged.read_log({"action": [0, 1] * 200, "reward": [0, 1] * 200}, propensity=0.5)
    >>> train, test = log.split(0.5)
    >>> agent = Thompson(Bernoulli(), arms=2)
    >>> state, info = logged.learn(agent, train)
    >>> bool(info.sound), logged.evaluate(test, logged.policy_of(agent, state)).dr.value > 0.9
    (True, True)
    """
    _require(log, agent, "learn")
    state, info = _learn(_random.as_key(seed), agent, *_arrays(log))
    if not bool(info.finite):
        raise ConfigError("learn: the state after the refresh is not finite; scale contexts and rewards to about 1.")
    remember(state, log)
    return state, info


def _require(log: Log, agent: Any, name: str) -> None:
    if not isinstance(agent, Agent):
        raise ConfigError(f"{name} takes an agent, such as Thompson(model); got {shown(agent)}.")
    if agent.actions != len(log.labels):
        raise ConfigError(
            f"{name}: the agent plays {agent.actions} actions, and the log has {len(log.labels)}; make them the same."
        )
    if np.abs(log.contexts).max(initial=0.0) > LARGEST:
        raise ConfigError(f"{name}: contexts up to {np.abs(log.contexts).max():.3g} overflow when they are squared; scale them.")
    support = None if agent.model is None else support_of_likelihood(agent.model)
    holds, words = SUPPORTS[support or "real"]
    strange = next((reward for reward in np.unique(log.rewards).tolist() if not holds(reward)), None)
    if strange is not None:
        raise ConfigError(f"{name}: rewards of {type(agent.model).__name__} are {words}; the log has {strange:g}.")


def _arrays(log: Log) -> tuple[Array, Array, Array]:
    return jnp.asarray(log.contexts, float), jnp.asarray(log.actions, int), jnp.asarray(log.rewards, float)


def _row(contexts: Array) -> Row:
    obs = jnp.zeros(contexts.shape[1:]) if contexts.shape[1] else ()
    return Row(obs, jnp.zeros((), int), jnp.zeros(()), ())


def _observed(agent: Agent, key: PRNGKey, state: Tree, history: Tree) -> tuple[Tree, Info]:
    block = jax.tree.map(lambda x: jnp.asarray(x)[None], (state, history))
    return jax.tree.map(lambda x: x[0], agent.observe(key[None], *block))


@jax.jit
def _learn(key: PRNGKey, agent: Agent, contexts: Array, actions: Array, rewards: Array) -> tuple[Tree, Info]:
    def add(history, x):
        context, action, reward = x
        return agent.remember(history, Row(context if contexts.shape[1] else (), action, reward, ()), jnp.asarray(True)), None

    key_init, key_observe = _random.split(key)
    history = lax.scan(add, agent.empty(_row(contexts), contexts.shape[0]), (contexts, actions, rewards))[0]
    return _observed(agent, key_observe, agent.init(key_init), history)


@jax.jit
def _replay(
    key: PRNGKey, agent: Agent, batching: Batching, contexts: Array, actions: Array, rewards: Array
) -> tuple[Array, Array, Tree, Array]:
    key_init, key_scheme, key_rows = _random.split(key, 3)

    def row(carry, x):
        state, history, clock, batches, finite = carry
        event, context, logged, reward = x
        obs, now = context if contexts.shape[1] else (), _random.Round.of(event)
        # The key is the row's, not the round's: a choice that was not logged must not be made again for the next row.
        chosen = agent.act(_random.round_key(key_rows, now, _random.ACT), state, obs, Played(clock.t + 1, clock.plays))
        counts = chosen == logged
        clock, _, _ = decide(lambda _: (chosen, ()), batching, clock, clock.t + 1, obs, counts)
        history = agent.remember(history, Row(obs, chosen, reward, ()), counts)

        def refresh():
            new, info = _observed(agent, _random.round_key(key_rows, now, _random.OBSERVE), state, history)
            return new, finite & info.finite

        state, finite = lax.cond(clock.due, refresh, lambda: (state, finite))
        return (state, history, clock, batches + clock.due, finite), counts

    zero = jnp.zeros((), int)
    clock = Clock(zero, jnp.zeros(agent.actions, int), batching.init(key_scheme, agent.actions), jnp.asarray(False))
    start = agent.init(key_init), agent.empty(_row(contexts), contexts.shape[0]), clock, zero, jnp.asarray(True)
    (state, _, _, batches, finite), counts = lax.scan(row, start, (jnp.arange(1, len(actions) + 1), contexts, actions, rewards))
    return counts, batches, state, finite
