"""Which engine a simulation runs on: what can leap, and when that is faster."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import _random
from .._typing import Row
from ..agents import Thompson
from ..batching import DoublingCounts, OneOf
from ..envs import Bandit
from ..errors import ConfigError
from ..history import Log

ENGINES = ("auto", "step", "leap")
LONGEST = int(np.iinfo(np.int32).max)
# What a leap costs, in rounds of stepping one replication: measured by `python -m benchmarks --only leap`.
ROUNDS_A_BATCH = 1200
ROUNDS_A_POINT = 100
ROUNDS_TO_COMPILE = 1.5e8  # what its program takes longer to compile


def choose(
    engine: str, env: Any, agent: Any, batching: Any, *, horizon: int, replications: int, points: int, keep_actions: bool
) -> str:
    """The engine that runs, "step" or "leap", where so many `points` are recorded; a leap that cannot be is refused."""
    if engine not in ENGINES:
        raise ConfigError(f"engine must be one of {', '.join(map(repr, ENGINES))}; got {engine!r}.")
    if engine == "step" or (engine == "auto" and not _faster(env, batching, horizon, replications, points)):
        return "step"
    why = _obstacle(env, agent, batching, horizon, keep_actions)
    if engine == "leap" and why is not None:
        raise ConfigError(f'engine="leap" cannot run this: {why}')
    return "leap" if why is None else "step"


def _faster(env: Any, batching: Any, horizon: int, replications: int, points: int) -> bool:
    """Whether leaping is, where it is possible; both engines take about as long for each arm."""
    # Of the arms whose doublings are counted one goes on, and the others soon stop.
    doubling = isinstance(batching, DoublingCounts) and batching.states == 1
    batches = env.actions + math.log2(horizon) if doubling else batching.most(horizon, env.actions)
    saved = horizon - ROUNDS_A_BATCH * batches - ROUNDS_A_POINT * points
    return replications * saved > ROUNDS_TO_COMPILE


def _obstacle(env: Any, agent: Any, batching: Any, horizon: int, keep_actions: bool) -> str | None:
    """Why this cannot leap and what to do, or None where it can."""
    if keep_actions:
        return 'it draws no single actions; leave keep_actions out, or use engine="step".'
    if horizon > LONGEST:
        return f"the horizon is at most {LONGEST}; got {horizon}."
    if not isinstance(env, Bandit):
        return f'it needs a Bandit, whose arms pay the same law at every round, not {type(env).__name__}; use engine="step".'
    if not hasattr(env.model, "sample_summary"):
        return f'the sum of {type(env.model).__name__} rewards cannot be drawn at once (sample_summary); use engine="step".'
    if not isinstance(agent, Thompson) or not hasattr(agent.belief, "laws"):
        what = type(agent.belief).__name__ if isinstance(agent, Thompson) else type(agent).__name__
        return f'{what} has no closed probabilities within a batch; use Thompson(model, Exact()), or engine="step".'
    if type(agent.model) is not type(env.model):
        return (
            f"rewards are drawn as the summary of a {type(env.model).__name__} model, and the agent believes in "
            f'{type(agent.model).__name__}; give both the same model, or use engine="step".'
        )
    if isinstance(jax.eval_shape(lambda: agent.empty(Row((), jnp.zeros((), int), jnp.zeros(())), 1)), Log):
        return 'its chains need every single reward; use chains on all data such as ula(), or engine="step".'
    if jax.eval_shape(lambda: agent.belief.laws(agent.model, agent.init(_random.as_key(0)), ())) is None:
        return 'the laws of its arms within a batch are not closed; use Thompson(model, Exact()), or engine="step".'
    schemes = batching.schemes if isinstance(batching, OneOf) else (batching,)
    if blind := [type(scheme).__name__ for scheme in schemes if not hasattr(scheme, "room")]:
        return f'{blind[0]} does not say when a batch ends before it does; use engine="step".'
    return None
