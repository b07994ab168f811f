"""Policies that are evaluated: probabilities of actions for every row of a log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import _random
from ..agents import Agent
from ..declared import provides
from ..errors import ConfigError, did_you_mean, shown
from .learned import log_of
from .log import Log

ROUNDING = 1e-3
"""By how much probabilities may miss a sum of 1; single precision does by less."""
AT_ONCE = 1024
"""Contexts whose propensities are computed together."""


def probabilities(log: Log, policy: Any) -> np.ndarray:
    """The probability that a policy gives to each action, in every row of a log.

    Args:
        log: its contexts and actions.
        policy: an action that is always played (its label or number), an array `[rows, actions]` or `[actions]`, or a function from
            contexts `[rows, features]` to such an array (of an agent: `policy_of`).

    Returns:
        `[rows, actions]`; every row sums to 1.

    Raises:
        ConfigError: it is no policy for this log.
    """
    n, K = len(log), len(log.labels)
    if isinstance(policy, str) or (isinstance(policy, int | np.integer) and not isinstance(policy, bool)):
        return _always(log, policy)
    if isinstance(policy, Agent):
        raise ConfigError("An agent has a policy in a state; give policy_of(agent, state), with the state of learn(agent, log).")
    if callable(policy):
        policy = policy(log.contexts)
    try:
        p = np.asarray(policy, float)
    except (TypeError, ValueError):
        raise ConfigError(
            f"A policy is an action, an array of probabilities, or a function of contexts; got {shown(policy)}."
        ) from None
    if p.shape not in ((n, K), (K,)):
        raise ConfigError(f"A policy for this log has probabilities of shape ({n}, {K}) or ({K},); got {p.shape}.")
    p = np.broadcast_to(p, (n, K))
    bad = np.flatnonzero(~(np.isfinite(p).all(1) & (p >= -1e-6).all(1) & (np.abs(p.sum(1) - 1) < ROUNDING)))
    if len(bad):
        raise ConfigError(
            f"The probabilities of a policy are at least 0 and sum to 1; row {bad[0] + 1} has {shown(p[bad[0]].tolist())}."
        )
    p = np.maximum(p, 0.0)
    return p / p.sum(1, keepdims=True)


def _always(log: Log, action: Any) -> np.ndarray:
    K = len(log.labels)
    if isinstance(action, str):
        if action not in log.labels:
            raise ConfigError(
                f"The log has no action {action!r}.{did_you_mean(action, log.labels)} It has: {', '.join(log.labels)}."
            )
        action = log.labels.index(action)
    elif str(action) in log.labels and log.labels.index(str(action)) != action:
        raise ConfigError(
            f"{action} is the label of one action and the number of another; give the label as text, {str(action)!r}."
        )
    if not 0 <= action < K:
        raise ConfigError(f"Actions of this log are numbered from 0 to {K - 1}; got {action}.")
    return np.broadcast_to(np.arange(K) == action, (len(log), K)).astype(float)


def policy_of(agent: Agent, state: Any) -> Callable[[np.ndarray], np.ndarray]:
    """The policy of an agent in a state, as a function of contexts, for `evaluate` and `compare`.

    Args:
        agent: it must have `propensities`.
        state: as `learn` returned it, for example.

    Returns:
        A function from contexts `[rows, features]` to probabilities `[rows, actions]`. It knows the log that `learn` made the state
        of, and `evaluate` warns where it is evaluated on the same rows.

    Raises:
        ConfigError: the agent has no propensities.

    >>> import numpy as np
    >>> from blts import agents, logged, random
    >>> agent = agents.Uniform(2)
    >>> logged.policy_of(agent, agent.init(random.key(0)))(np.zeros((3, 0))).tolist()
    [[0.5, 0.5], [0.5, 0.5], [0.5, 0.5]]
    """
    if not isinstance(agent, Agent):
        raise ConfigError(f"policy_of takes an agent, such as Thompson(model); got {shown(agent)}.")
    if not provides(agent, "propensities"):
        raise ConfigError(f"{type(agent).__name__} has no propensities that are the same within a batch, so its policy has none.")

    shapes = lambda tree: [np.shape(x) for x in jax.tree.leaves(tree)]  # noqa: E731
    wanted = jax.eval_shape(agent.init, _random.as_key(0))
    if jax.tree.structure(state) != jax.tree.structure(wanted) or shapes(state) != shapes(wanted):
        raise ConfigError(
            f"policy_of: the state is of another agent than this {type(agent).__name__}; give the one that learned it."
        )

    def policy(contexts: np.ndarray) -> np.ndarray:
        if not contexts.shape[1]:
            return np.broadcast_to(_propensities(agent, state, jnp.zeros((1, 0)))[0], (len(contexts), agent.actions))
        return np.asarray(_propensities(agent, state, jnp.asarray(contexts, float)))

    policy.learned_from = log_of(state)  # type: ignore[attr-defined]
    return policy


@jax.jit
def _propensities(agent: Agent, state: Any, contexts: jax.Array) -> jax.Array:
    one = lambda x: agent.propensities(state, x if contexts.shape[1] else ())  # noqa: E731
    return jax.lax.map(one, contexts, batch_size=min(AT_ONCE, contexts.shape[0]))
