"""Mistakes in somebody's own part that raise nothing, and would make every number of a simulation wrong."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import jax
import jax.numpy as jnp

from . import freshness
from ._module import parts_within
from ._random import as_key
from ._typing import Played, Row
from .agents import Agent
from .batching import Batching
from .envs import Env
from .errors import ConfigError
from .loop import example_row
from .models.custom import somebodys
from .steadiness import UNSTEADY, steady, traced


def check(env: Env, agent: Agent, batching: Batching) -> None:
    """Refuse parts of somebody's own whose methods would raise nothing, and make all numbers of a simulation wrong.

    Args:
        env: the environment of a run.
        agent: its agent.
        batching: its batching scheme.

    Raises:
        ConfigError: what to change.
    """
    parts = jax.tree.structure((env, agent, batching))
    if parts not in _CHECKED:
        check_steady(env, agent, batching)
        check_waiting(env, agent)
        _CHECKED.add(parts)


_CHECKED: set[Any] = freshness.emptied(set())
"""The structures of parts without a fault."""


def check_steady(env: Env, agent: Agent, batching: Batching) -> None:
    """Refuse a method of somebody's own that computes with other numbers whenever it is called, or that cuts numbers.

    Args:
        env: the environment.
        agent: the agent.
        batching: the batching scheme.

    Raises:
        ConfigError: which method it is.
    """
    generators = {id(part): freshness.generators(part) for part in (env, agent, batching) if somebodys(part)}
    if not generators:
        return
    found = []

    def watched(owner: Any, name: str, *arguments: Any) -> Any:
        if id(owner) not in generators:
            # Other parts need only what an agent plays, and not what it learns, which takes long to trace.
            learns = owner is agent and name in ("empty", "remember", "observe")
            return None if learns else traced(getattr(owner, name), *arguments)[1]
        with _cutting() as cut:
            same, shapes = steady(getattr(owner, name), *arguments, generators=generators[id(owner)])
        faults = [sentence for fault, sentence in ((not same, UNSTEADY), (cut, CUTS)) if fault]
        found.extend(f"{type(owner).__name__}.{name}, or what it calls, {sentence}" for sentence in faults)
        return shapes

    with suppress(Exception):  # what is wrong with a part is said where it is called
        _call_all(watched, env, agent, batching)
    if found:
        freshness.let_go()  # a method under `jit` would not be traced the next time, and seem without a fault
        raise ConfigError(found[0])


CUTS = (
    "writes numbers with fractions into an array of whole numbers, which cuts the fractions: 0.7 would be 0. Make the array of "
    "floats; or write .astype(int) where that is meant."
)
_WRITTEN = re.compile(r"scatter inputs have incompatible types: .*dtype=(\w+) to dtype=(\w+)")


@contextmanager
def _cutting() -> Iterator[list[str]]:
    """A context manager that notes the warnings of JAX that numbers with fractions were written into arrays of whole numbers."""
    cut: list[str] = []
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        yield cut
    for each in seen:
        types = _WRITTEN.match(str(each.message))
        if types and jnp.issubdtype(types[1], jnp.inexact) and not jnp.issubdtype(types[2], jnp.inexact):
            cut.append(str(each.message))


def _call_all(call: Callable[..., Any], env: Env, agent: Agent, batching: Batching) -> None:
    """Every method that a simulation calls, once, in the order of a round.

    Args:
        call: called with a part, the name of its method, and arguments or their shapes; it returns the shapes of the results.
        env: the environment.
        agent: the agent.
        batching: the batching scheme.
    """
    key, played = as_key(0), Played(jnp.ones((), int), jnp.zeros(env.actions, int))
    env_state, obs = call(env, "reset", key)
    state, clock = call(agent, "init", key), call(batching, "init", key, env.actions)
    action = call(agent, "act", key, state, obs, played)
    _, step = call(env, "step", key, env_state, action)
    call(batching, "step", clock, obs, action)
    row = Row(obs, action, step.reward, step.obs)
    history = call(agent, "remember", call(agent, "empty", row, 1), row, jnp.zeros((), bool))
    one_lane = lambda x: jax.ShapeDtypeStruct((1, *x.shape), x.dtype)  # noqa: E731
    call(agent, "observe", key[None], *jax.tree.map(one_lane, (state, history)))


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
