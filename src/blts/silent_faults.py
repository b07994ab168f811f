"""Mistakes in somebody's own part that raise nothing, and would make every number of a simulation wrong."""

from __future__ import annotations

import pickle
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ._module import parts_within
from ._random import as_key
from ._typing import Played, Row
from .agents import Agent
from .batching import Batching
from .envs import Env
from .errors import ConfigError
from .loop import example_row


@contextmanager
def refused(env: Env, agent: Agent, batching: Batching) -> Iterator[None]:
    """A context manager around a run: a memory that grows while a replication waits is refused before it, and random numbers that
    do not come from keys after it.

    Args:
        env: the environment of the run.
        agent: its agent.
        batching: its batching scheme.

    Returns:
        The context manager.

    Raises:
        ConfigError: what to change.
    """
    parts = jax.tree.structure((env, agent, batching))
    if parts not in _DRAWING:
        check_waiting(env, agent)
        _DRAWING[parts] = None
    before = _states()
    yield
    if _DRAWING[parts] is None and _states() != before:
        _DRAWING[parts] = _drawing(env, agent, batching)  # kept: in a later run no method is called, for the program is compiled
    if (method := _DRAWING[parts]) is not None:
        raise ConfigError(
            f"{method}, or what it calls, draws from numpy.random or random. JAX calls it once and not in every round, so that all "
            "rounds would have the same numbers; draw from the key that the method is given, with blts.random or jax.random."
        )


_DRAWING: dict[Any, str | None] = {}
"""By the structure of parts that were run: the method that draws random numbers of its own, or None."""


def _states() -> bytes:
    """Of the random numbers of NumPy and Python."""
    return pickle.dumps((np.random.get_state(legacy=False), random.getstate()))


def _drawing(env: Env, agent: Agent, batching: Batching) -> str | None:
    """The method that draws from NumPy or Python whenever it is traced; None where another thread did."""
    found = set()
    for _ in range(3):
        before = _states()
        time.sleep(0.01)
        if _states() != before:  # another thread draws all the time
            return None
        found.add(_first_that_draws(env, agent, batching))
    return found.pop() if len(found) == 1 else None


def _first_that_draws(env: Env, agent: Agent, batching: Batching) -> str | None:
    found = []

    def watched(owner: Any, name: str, *arguments: Any) -> Any:
        before = _states()
        result = getattr(owner, name)(*arguments)
        if _states() != before:
            found.append(f"{type(owner).__name__}.{name}")
        return result

    def look(env, agent, batching) -> None:
        key, false = as_key(0), jnp.zeros((), bool)
        env_state, obs = watched(env, "reset", key)
        played = Played(jnp.ones((), int), jnp.zeros(env.actions, int))
        state, clock = watched(agent, "init", key), watched(batching, "init", key, env.actions)
        action = watched(agent, "act", key, state, obs, played)
        _, step = watched(env, "step", key, env_state, action)
        watched(batching, "step", clock, obs, action)
        row = Row(obs, action, step.reward, step.obs)
        history = watched(agent, "remember", watched(agent, "empty", row, 1), row, false)
        watched(agent, "observe", key[None], *jax.tree.map(lambda x: jnp.asarray(x)[None], (state, history)))

    with suppress(Exception):  # what is found by then counts
        jax.eval_shape(look, env, agent, batching)
    return next(iter(found), None)


def check_waiting(env: Env, agent: Agent) -> None:
    """Refuse an agent or belief of somebody's own whose `remember` does not look at `live`.

    Args:
        env: the environment.
        agent: the agent.

    Raises:
        ConfigError: which method it is.
    """
    for each in parts_within(agent):
        if not isinstance(each, Agent):
            continue
        own = [part for part in (each, getattr(each, "belief", None)) if _has_own_memory(part)]
        if own and _ignores_live(env, each):
            raise ConfigError(
                f"{type(own[-1]).__name__}.remember must return the memory unchanged where live is False, and does not look at "
                "live: replications whose batch has ended would remember rounds that they did not play. Write "
                "jnp.where(live, new, history)."
            )


def _has_own_memory(part: Any) -> bool:
    remember = getattr(type(part), "remember", None)
    return remember is not None and not getattr(remember, "__module__", "blts.").startswith("blts.")


def _ignores_live(env: Env, agent: Agent) -> bool:
    """Whether the program of `remember` leaves its argument `live` unused."""

    def remember(live, key):
        row = example_row(env, key)
        history = agent.empty(row, 1)
        return agent.remember(history, row, live), history

    try:
        traced, shapes = jax.make_jaxpr(remember, return_shape=True)(jnp.zeros((), bool), as_key(0))
    except Exception:  # what is wrong with it is said where it is called
        return False
    if len({str(jax.tree.map(jnp.shape, each)) for each in shapes}) > 1:  # another memory, which is said likewise
        return False
    program = traced.jaxpr
    live = program.invars[0]
    return not any(live is used for step in program.eqns for used in step.invars) and live not in program.outvars
