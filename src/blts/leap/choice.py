"""The choice of the engine: which simulations can leap, and when leaping is faster.

The choice depends on the condition alone (environment, agent, batching scheme, horizon, what is recorded), never on the number of
replications, the machine or the version of a library: replication r then has the same numbers in whatever call it appears.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import _random
from .._typing import Row
from ..batching import Aged, DoublingCounts, OneOf
from ..declared import provides, why_lost
from ..errors import ConfigError
from ..history import Log

ENGINES = ("auto", "step", "leap")
LONGEST = int(np.iinfo(np.int32).max)
# What a leap costs, in rounds of stepping one replication: measured by `python -m benchmarks --only leap`.
ROUNDS_A_BATCH = 1200
ROUNDS_A_POINT = 100
WORTH_LEAPING = 300_000
"""How many rounds per replication leaping must save, because its program takes some seconds longer to compile."""


def choose(engine: str, env: Any, agent: Any, batching: Any, *, horizon: int, points: int, keep_actions: bool) -> str:
    """Choose the engine of a simulation.

    Args:
        engine: "auto", "step" or "leap".
        env: the environment.
        agent: the agent.
        batching: the batching scheme.
        horizon: the number of rounds.
        points: at how many rounds the regret is recorded.
        keep_actions: whether every action is recorded.

    Returns:
        "step" or "leap".

    Raises:
        ConfigError: engine="leap" was given and cannot run this.
    """
    if engine not in ENGINES:
        raise ConfigError(f"engine must be one of {', '.join(map(repr, ENGINES))}; got {engine!r}.")
    if engine == "step" or (engine == "auto" and not _worth_it(env, batching, horizon, points)):
        return "step"
    why = obstacle(env, agent, batching, horizon, keep_actions)
    if engine == "leap" and why is not None:
        raise ConfigError(f'engine="leap" cannot run this: {why}')
    return "leap" if why is None else "step"


def _worth_it(env: Any, batching: Any, horizon: int, points: int) -> bool:
    # Under dynamic doubling one arm goes on doubling, and the others soon stop.
    doubling = type(batching) is DoublingCounts and batching.states == 1
    batches = env.actions + math.log2(horizon) if doubling else batching.max_batches(horizon, env.actions)
    return horizon - ROUNDS_A_BATCH * batches - ROUNDS_A_POINT * points > WORTH_LEAPING


def obstacle(env: Any, agent: Any, batching: Any, horizon: int, keep_actions: bool) -> str | None:
    """Why a simulation cannot leap.

    Args:
        env: the environment.
        agent: the agent.
        batching: the batching scheme.
        horizon: the number of rounds.
        keep_actions: whether every action is recorded.

    Returns:
        The reason and what to do, or None where it can leap.
    """
    if keep_actions:
        return 'it draws no single actions; leave keep_actions out, or use engine="step".'
    if horizon > LONGEST:
        return f"the horizon is at most {LONGEST}; got {horizon}."
    why = _of_env(env) or _of_agent(agent, env) or _of_batching(batching, env.actions)
    return None if why is None else f'{why.rstrip(".")}; or use engine="step".'


def _of_env(env: Any) -> str | None:
    name = type(env).__name__
    if not env.pays_as_model:
        lost = why_lost(env, "pays_as_model")
        return lost or f"it needs a Bandit, whose arms pay the same law at every round, not {name}"
    model = type(env.model).__name__
    if not provides(env.model, "sample_summary"):
        lost = why_lost(env.model, "sample_summary")
        return lost or f"the sum of {model} rewards cannot be drawn at once; give the model sample_summary"
    return None


def _of_agent(agent: Any, env: Any) -> str | None:
    name = type(agent).__name__
    if provides(agent, "conclusion"):
        return f"{name} concludes at refreshes, which a leap does not keep"
    if not (provides(agent, "propensities") and agent.plain_memory):
        lost = why_lost(agent, "propensities") or _overridden_memory(agent)
        return lost or f"{name} has no closed probabilities within a batch; use Thompson(model, Exact())"
    if not agent.starts_from_prior:
        lost = why_lost(agent, "_starts_as_belief") or why_lost(agent.belief, "starts_from_prior")
        return lost or f"{name} does not start from the prior"
    if type(agent.model) is not type(env.model):
        return (
            f"rewards are drawn as the summary of a {type(env.model).__name__} model, and the agent believes in "
            f"{type(agent.model).__name__}; give both the same model"
        )
    if isinstance(jax.eval_shape(lambda: agent.empty(Row((), jnp.zeros((), int), jnp.zeros(())), 1)), Log):
        return "its chains need every single reward; use chains on all data such as ula()"
    if jax.eval_shape(lambda: agent.laws(agent.init(_random.as_key(0)))) is None:
        lost = why_lost(agent, "draws_mean_rewards") or why_lost(agent.belief, "laws") or why_lost(agent.model, "marginal")
        return lost or "the laws of its arms within a batch are not closed; use Thompson(model, Exact())"
    return None


def _overridden_memory(agent: Any) -> str | None:
    if agent.belief is not None and not agent.plain_memory:
        return f"{type(agent).__name__} with {type(agent.belief).__name__} remembers rewards in a way of its own"
    return None


def _of_batching(batching: Any, actions: int) -> str | None:
    for scheme in _schemes(batching):
        for name in ("room", "advance"):
            if not provides(scheme, name):
                return why_lost(scheme, name) or f"{type(scheme).__name__} does not say when a batch ends before it does"
    return None


def _schemes(batching: Any) -> list[Any]:
    """A scheme, after those that it is made of."""
    parts = batching.schemes if isinstance(batching, OneOf) else (batching.scheme,) if isinstance(batching, Aged) else ()
    return [scheme for part in parts for scheme in _schemes(part)] + [batching]
