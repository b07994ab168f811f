"""`simulate`: thousands of replications in one call, checked before they start."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np

from .. import freshness, leap, silent_faults, wrong_returns
from .._module import require_part
from .._random import as_key, numbers
from .._typing import PRNGKey
from ..agents import Agent
from ..batching import Batching
from ..compilation import keep_programs
from ..envs import Env, Late
from ..errors import ConfigError, whole
from ..progress import bar, wanted
from ..record import Record, Sent
from ..specification import check_private, check_rewards, check_states, check_told, stale_regret, too_far_from_zero
from ..trace import Trace
from ..wrong_returns import explained
from . import memory
from .messages import messages
from .programs import LONGEST, Run, Sizes, execute
from .programs import cores as cores
from .shown import check_contexts


def simulate(
    key: int | PRNGKey,
    env: Env,
    agent: Agent,
    batching: Batching,
    *,
    horizon: int,
    replications: int,
    first: int = 0,
    times: int | Iterable[int] | None = None,
    keep_actions: bool = False,
    chunk: int | None = None,
    threads: int | None = None,
    engine: str = "auto",
    misspecified: bool = False,
    progress: bool | None = None,
) -> Trace:
    """Simulate an agent in an environment: independent replications of `horizon` rounds, numbered from `first`.

    The results of replication r depend on the key and on r, not on which others run with it: replications can be spread over
    several calls.

    Args:
        key: a seed or a key from `jax.random.key`.
        env: the environment, which pays rewards.
        agent: the agent, with as many actions as the environment.
        batching: the batching scheme, which decides when the agent sees rewards.
        horizon: the number of rounds.
        replications: the number of replications.
        first: the number of the first one.
        times: the rounds at which the cumulative regret is recorded: every round (None), this many log-spaced rounds
            (a number), or the rounds given. Agents that need every reward, as with SGLD, still store O(horizon) of them.
        keep_actions: whether every action is recorded.
        chunk: how many replications run at once (None: all); a smaller chunk needs less memory.
        threads: how many threads the replications are spread over (None: one per core, on a CPU). Results do not depend on it.
        engine: "step" plays round by round. "leap" simulates all rounds up to the next batch end or recorded round at once, at
            a cost that does not grow with their number; it needs a `Thompson` agent whose mean rewards have a posterior in
            closed form, and a `Bandit`. Results of both have the same distribution but are different random draws, and those
            of "leap" depend on `times`. "auto" leaps where it is possible and faster; the choice depends only on the
            environment, the agent, the batching scheme, the horizon and what is recorded. `trace.engine` tells which was used.
        misspecified: run an agent although its model cannot give the environment's rewards. Otherwise it is refused.
        progress: whether a bar shows how many replications are done, chunk by chunk; None: in terminals and notebooks.

    Returns:
        A `Trace`: regret, plays, batches and diagnostics of every replication.

    Raises:
        ConfigError: an argument is invalid, or the parts do not fit one another; the message says what to change.
        MemoryNeeded: the arrays would not fit into memory.

    >>> from blts import Exact, Gaussian, Thompson, DoublingCounts, simulate
    >>> from blts.envs import Bandit
    >>> model = Gaussian(prior_mean=[0.0, 0.0, 0.0], prior_sd=2.0, sd=0.5)
    >>> env = Bandit.with_means(Gaussian(sd=0.5), [0.0, 0.5, 1.0])
    >>> trace = simulate(0, env, Thompson(model, Exact()), DoublingCounts(), horizon=200, replications=50)
    >>> trace.regret.shape
    (50, 200)
    """
    for name, value in {
        "horizon": horizon,
        "replications": replications,
        "chunk": replications if chunk is None else chunk,
        "threads": 1 if threads is None else threads,
    }.items():
        whole(name, value)
    whole("first", first, 0)
    wanted(progress)
    for name, value in {"horizon": horizon, "first + replications": first + replications}.items():
        if value > LONGEST:
            raise ConfigError(f"{name} must be at most {LONGEST}, the largest whole number of 32 bits; got {value}.")
    if not isinstance(keep_actions, bool | np.bool_):
        raise ConfigError(f"keep_actions must be True or False; got {keep_actions!r}.")
    names = ": blts.condition(env, agent, batching) makes objects of names"
    require_part("env", env, Env, "Bandit.with_means(Gaussian(), [0.0, 1.0])", names)
    require_part("agent", agent, Agent, "UCB1(10)", names)
    require_part("batching", batching, Batching, "DoublingCounts()", names)
    for part in (env, agent):
        whole(f"{type(part).__name__}: actions", part.actions, 0)
    if env.actions != agent.actions:
        raise ConfigError(
            f"The environment has {env.actions} actions and the agent {agent.actions}; give both the same number of arms."
        )
    counted, states = batching.states, env.states
    if counted is not None and counted != states:
        raise ConfigError(
            f"The batching counts visits of {counted} states and the environment has "
            + (f"{states}; give it states={states}." if states else "no table of them; use StaticDoubling, Fixed or Geometric.")
        )
    keep_programs()
    root, rounds = as_key(key), recorded_times(times, horizon)
    horizon, replications, keep_actions = int(horizon), int(replications), bool(keep_actions)
    freshness.look_again(env, agent, batching)
    with explained(env, agent, batching, horizon):
        check_states(env, agent)
        silent_faults.check(env, agent, batching)
        wrong_returns.check(env, agent, batching, horizon)
        check_private(env, agent, batching)
        check_told(env, agent)
        if not misspecified:
            check_rewards(env, agent)
        chosen = leap.choose(engine, env, agent, batching, points=len(rounds), horizon=horizon, keep_actions=keep_actions)
        at_once = min(chunk or replications, replications)
        sizes = Sizes(horizon, len(rounds), at_once, keep_actions).rounded_up()
        memory.check(env, agent, batching, sizes, replications)
        block = memory.block(env, agent, batching, sizes) if chosen == "step" else replications
        run, records = Run(root, env, agent, batching, rounds, horizon, block), []
        with bar("replications", replications, progress if at_once < replications else False) as advance:
            for done in range(0, replications, at_once):
                now = min(at_once, replications - done)
                records += execute(run, chosen, first + done, now, threads, keep_actions)
                advance(now)
    _check_records(records, env, agent, batching, horizon)
    trace = Trace.of(records, rounds, horizon=horizon, engine=chosen, names=(str(env), str(agent), str(batching)))
    paying = env.env if isinstance(env, Late) else env
    check_contexts(root, paying, first, trace)
    counted = np.concatenate([record.sent for record in records], -1)
    return dataclasses.replace(
        trace,
        world=_digest(env),
        first=int(first),
        notes=stale_regret(paying, trace.plays, trace.mean_reward, trace.final_regret)
        + too_far_from_zero(paying, trace.mean_reward),
        messages=messages(Sent(*counted), env, agent) if len(counted) else None,
    )


def _digest(env: Env) -> str:
    """What tells an environment from others: its classes and fixed fields, the names of its functions, and all of its numbers."""
    leaves, structure = jax.tree.flatten(env)
    digest = hashlib.sha256(re.sub(r" at 0x[0-9a-f]+", "", str(structure)).encode())
    for leaf in leaves:
        array = numbers(leaf)
        with np.errstate(over="ignore"):  # as JAX has it
            digest.update(f"{array.shape} ".encode() + array.astype(np.float32).tobytes())
    return digest.hexdigest()


def _check_records(records: list[Record], env: Any, agent: Any, batching: Any, horizon: int) -> None:
    """Refuse results with actions that do not exist, or with more batches than there was room for."""
    played = min(int(record.plays.sum(0).min()) for record in records) if env.actions else horizon
    if played < horizon:
        raise ConfigError(
            f"{type(agent).__name__} played actions that do not exist in up to {horizon - played} of {horizon} rounds; "
            f"its act must return whole numbers from 0 to {env.actions - 1}."
        )
    closed, most = max(int(record.batches.max()) for record in records), batching.max_batches(horizon, env.actions)
    if closed > most:
        raise ConfigError(f"{type(batching).__name__} closed {closed} batches, and its max_batches() returns {most}; mend it.")
    if any(record.ends.shape[0] < record.batches.max() for record in records):  # arrays have room for more rounds than the horizon
        raise ConfigError(
            f"{type(batching).__name__} closed {closed} batches, and its max_batches() returns {most} for {horizon} rounds but "
            "less for more rounds; it must not decrease with the horizon."
        )


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def recorded_times(times: int | Iterable[int] | None, horizon: int) -> np.ndarray:
    """The rounds at which a trace is recorded, for the argument `times` of `simulate`; the horizon is always one of them."""
    if times is None:
        return np.arange(1, horizon + 1, dtype=np.int32)
    if _is_whole(times):
        if times < 1:  # type: ignore[operator]
            raise ConfigError(f"times must be at least 1 point; got {times}.")
        points = np.unique(np.round(np.geomspace(1, horizon, int(times))).astype(np.int64))  # type: ignore[call-overload]
    else:
        points = np.unique(np.asarray(list(times) if isinstance(times, Iterable) else 0.5))
        if points.size == 0 or points.dtype.kind not in "iu" or points[0] < 1 or points[-1] > horizon:
            raise ConfigError(f"times must be whole rounds between 1 and the horizon {horizon}, or how many; got {times!r}.")
    return np.union1d(points, [horizon]).astype(np.int32)
