"""Find the method of a user's part that returned something invalid, or that JAX cannot trace: most after a simulation failed, and
before it what would not make it fail, because JAX takes it for something else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from . import _random, freshness
from ._typing import Array, Info, Played, Row, Tree
from .agents import Agent, Belief, Thompson
from .batching import Batching
from .envs import Env, Step
from .errors import BltsError, ConfigError
from .models.custom import somebodys
from .models.drawing import arms_of
from .untraceable import untraceable


@contextmanager
def explained(env: Env, agent: Agent, batching: Batching, horizon: int) -> Iterator[None]:
    """A context manager that replaces an error of a run by a clearer one, where a method returned something invalid, or is not
    one that JAX can trace.

    Args:
        env: the environment of the run.
        agent: its agent.
        batching: its batching scheme.
        horizon: its number of rounds.

    Returns:
        The context manager.

    Raises:
        ConfigError: which method returned what; any other error is raised unchanged.
    """
    try:
        yield
    except (TypeError, ValueError, AttributeError, IndexError) as error:
        why = None if isinstance(error, BltsError) else untraceable(error) or why_wrong(env, agent, batching, horizon)
        if why is None:
            raise
        raise ConfigError(why) from error


def check(env: Env, agent: Agent, batching: Batching, horizon: int) -> None:
    """Refuse parts of somebody's own that return what JAX silently takes for something else: a number as the end of a batch, of
    which one bit would count, and states of another type, which would be cast.

    Args:
        env: the environment of a run.
        agent: its agent.
        batching: its batching scheme.
        horizon: its number of rounds.

    Raises:
        ConfigError: which method returned what.
    """
    own = [part for part in (agent, batching) if somebodys(part)]
    parts = jax.tree.structure((env, agent, batching))
    if not own or parts in _CHECKED:
        return
    looks = [look for part, look in ((batching, _look_at_end), (agent, _look_at_states)) if any(part is each for each in own)]
    for look in looks:
        why = _why(partial(look, horizon), env, agent, batching)
        if why is not None:
            raise ConfigError(why)
    _CHECKED.add(parts)


_CHECKED: set[Any] = freshness.emptied(set())
"""The structures of parts whose results are of the right types."""


def why_wrong(env: Env, agent: Agent, batching: Batching, horizon: int) -> str | None:
    """Trace every required method once, as the loop calls it, and check what it returns.

    Args:
        env: the environment of the run that failed.
        agent: its agent.
        batching: its batching scheme.
        horizon: its number of rounds.

    Returns:
        A sentence that names the method, what it returned and what it must return; None if all are correct, or if a method raises
        an error itself.
    """
    return _why(partial(_look, horizon), env, agent, batching)


def _why(look: Callable[..., None], env: Env, agent: Agent, batching: Batching) -> str | None:
    """The sentence that looking at what these parts return comes to; None if there is none."""
    try:
        # The parts are arguments, as in the loop: of constants, JAX 0.10 keeps single-precision copies that leaping then meets.
        jax.eval_shape(look, env, agent, batching)
    except _Wrong as wrong:
        return str(wrong)
    except Exception:
        return None
    return None


class _Wrong(Exception):
    """The sentence."""


def _look(horizon: int, env: Env, agent: Agent, batching: Batching) -> None:
    key, none = _random.as_key(0), jnp.zeros((), int)
    kind = int if env.actions else float
    env_state, obs = _pair(env, "reset", env.reset(key), "(state, obs)")
    state, clock = agent.init(key), batching.init(key, env.actions)
    _look_at_draw(key, agent, state)
    action = agent.act(key, state, obs, Played(none + 1, jnp.zeros(env.actions, int)))
    _number(agent, "act", action, "a whole number, of shape ()" if env.actions else "a number, of shape ()", kind)
    action = jnp.asarray(action, kind)
    new_state, step = _pair(env, "step", env.step(key, env_state, action), "(state, Step(obs, reward, regret))")
    if not isinstance(step, Step):
        raise _Wrong(_sentence(env, "step", step, "(state, Step(obs, reward, regret))"))
    _same(env, "step", new_state, env_state, "a state as reset returned it")
    _same(env, "step", step.obs, obs, "an obs as reset returned it")
    _number(env, "step", step.reward, "a reward that is a number, of shape ()")
    _number(env, "step", step.regret, "a regret that is a number, of shape ()")
    if step.best is not None:
        _number(env, "step", step.best, "best as a flag of shape (), or None", bool)
    row = Row(obs, action, step.reward, step.obs)
    history = agent.empty(jax.tree.map(jnp.zeros_like, row), horizon)
    _same(agent, "remember", agent.remember(history, row, none == 0), history, "a memory as empty returned it")
    new_clock, due = _pair(batching, "step", batching.step(clock, obs, action), "(state, due)")
    _same(batching, "step", new_clock, clock, "a state as init returned it")
    _number(batching, "step", due, FLAG, bool)
    most = batching.max_batches(horizon, env.actions)
    if not isinstance(most, int | np.integer) or most < 0:
        raise _Wrong(f"{type(batching).__name__}.max_batches must return a whole number from 0; it returned {most!r}.")
    block = jax.tree.map(lambda x: jnp.asarray(x)[None], (state, history))
    new_states, info = _pair(agent, "observe", agent.observe(key[None], *block), "(states, Info)")
    _same(agent, "observe", new_states, block[0], STATES)
    if not isinstance(info, Info) or any(jnp.shape(x) != (1,) for x in info):
        raise _Wrong(_sentence(agent, "observe", info, "an Info of arrays of shape (block,): Info.of(finite)"))


def _look_at_end(horizon: int, env: Env, agent: Agent, batching: Batching) -> None:
    """Whether the batching scheme returns a flag."""
    _, row, _ = _first_round(env, agent)
    clock = batching.init(_random.as_key(0), env.actions)
    _, due = _pair(batching, "step", batching.step(clock, row.obs, row.action), "(state, due)")
    _number(batching, "step", due, FLAG, bool)


def _look_at_states(horizon: int, env: Env, agent: Agent, batching: Batching) -> None:
    """Whether the agent learns states of the kind of its first one."""
    key, row, state = _first_round(env, agent)
    history = agent.empty(jax.tree.map(jnp.zeros_like, row), horizon)
    block = jax.tree.map(lambda x: jnp.asarray(x)[None], (state, history))
    new_states, _ = _pair(agent, "observe", agent.observe(key[None], *block), "(states, Info)")
    # Floats of another precision are as good.
    alike = lambda x: jnp.asarray(x, float) if jnp.issubdtype(jnp.result_type(x), jnp.floating) else x  # noqa: E731
    if not _alike(*jax.tree.map(alike, (new_states, block[0]))):
        _same(agent, "observe", new_states, block[0], STATES)


def _first_round(env: Env, agent: Agent) -> tuple[Array, Row, Tree]:
    """A key, the first round, and the agent's state in it."""
    key = _random.as_key(0)
    (env_state, obs), state = env.reset(key), agent.init(key)
    action = agent.act(key, state, obs, Played(jnp.ones((), int), jnp.zeros(env.actions, int)))
    action = jnp.asarray(action, int if env.actions else float)
    step = env.step(key, env_state, action)[1]
    return key, Row(obs, action, step.reward, step.obs), state


FLAG = "whether the batch ends, a flag of shape ()"
STATES = "states as it was given them, with the block of replications in front"


def _look_at_draw(key: Array, agent: Agent, state: Tree) -> None:
    """What the belief draws, where the agent has one and starts with its state."""
    if not (isinstance(agent, Thompson) and isinstance(agent.belief, Belief)):
        return
    drawn, arms = agent.belief.draw(key, agent.model, state), arms_of(agent.model)
    if len(jax.tree.leaves(drawn)) != 1 or jnp.shape(drawn) != (arms, agent.model.dim):
        raise _Wrong(_sentence(agent.belief, "draw", drawn, f"θ of every arm, of shape ({arms}, {agent.model.dim})"))


def _sentence(owner: Any, method: str, found: Any, wanted: str) -> str:
    return f"{type(owner).__name__}.{method} must return {wanted}; it returned {_words(found)}."


def _words(found: Any) -> str:
    """A value in a few words: the shapes and types of its arrays."""
    leaves = jax.tree.leaves(found)
    if not leaves or (isinstance(found, tuple) and len(leaves) > 1):
        return f"a {type(found).__name__} of {len(leaves)} arrays"
    return ", ".join(f"{jnp.result_type(x)} of shape {jnp.shape(x)}" for x in leaves)


def _pair(owner: Any, method: str, found: Any, wanted: str) -> tuple[Any, Any]:
    if not isinstance(found, tuple) or len(found) != 2:
        raise _Wrong(_sentence(owner, method, found, wanted))
    return found


def _number(owner: Any, method: str, found: Any, wanted: str, kind: type = float) -> None:
    kinds = {int: jnp.integer, float: jnp.number, bool: jnp.bool_}[kind]
    if len(jax.tree.leaves(found)) != 1 or jnp.shape(found) != () or not jnp.issubdtype(jnp.result_type(found), kinds):
        raise _Wrong(_sentence(owner, method, found, wanted))


def _same(owner: Any, method: str, found: Tree, like: Tree, wanted: str) -> None:
    if not _alike(found, like):
        raise _Wrong(f"{_sentence(owner, method, found, wanted).rstrip('.')}, which is {_words(like)}.")


def _alike(found: Tree, like: Tree) -> bool:
    """Whether two trees have the same structure, shapes and types."""
    described = lambda tree: ([(jnp.shape(x), jnp.result_type(x)) for x in jax.tree.leaves(tree)], jax.tree.structure(tree))  # noqa: E731
    return described(found) == described(like)
