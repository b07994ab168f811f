"""The one loop: every agent in every environment under every batching scheme, many replications at once.

Replications are an explicit axis and need not be in the same round. One that has closed its batch waits; when enough
rounds were lost to waiting, or nobody can play on, all who wait learn together. Under `vmap` a
per-replication `cond` would run the sampler in every lane at every round; in lockstep all would wait for the longest
batch. Agents whose learning is cheap (`incremental`) learn round by round instead.

Keys come from indices, never from a carried key: replication key = fold_in(root, replication), round keys =
split(fold_in(replication key, t)). So chunked = whole, and a lane's schedule cannot change its numbers.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from . import _random
from ._typing import Array, Bool, Float, Info, Int, Key, Played, Row, Tree
from .history import count, where

PATIENCE = 25  # rounds of all lanes that may be lost to waiting before those that wait learn
LAST = 2**32 - 1  # no round has this number: what folds it in has a key of its own


class Diagnostics(NamedTuple):
    """What the refreshes of a replication reported, gathered."""

    refreshes: Int[Array, " replications"]
    finite: Bool[Array, " replications"]
    acceptance: Float[Array, " replications"]
    """Mean over refreshes."""
    ess: Float[Array, " replications"]
    """Smallest of any refresh."""
    rhat: Float[Array, " replications"]
    """Largest of any refresh."""
    distance: Float[Array, " replications"]
    """Mean over refreshes of the distance to the exact posterior, in posterior sds."""
    residual: Float[Array, " replications"]
    """Largest of any refresh: what a plan may lose a round in the model it was made for."""

    @staticmethod
    def start(replications: int) -> Diagnostics:
        fill = lambda value: jnp.full(replications, value, float)  # noqa: E731
        return Diagnostics(
            jnp.zeros(replications, int),
            jnp.ones(replications, bool),
            fill(0),
            fill(jnp.inf),
            fill(-jnp.inf),
            fill(0),
            fill(-jnp.inf),
        )

    def plus(self, info: Info) -> Diagnostics:
        k = self.refreshes + 1
        return Diagnostics(
            k,
            self.finite & info.finite,
            self.acceptance + (info.acceptance - self.acceptance) / k,
            jnp.minimum(self.ess, info.ess),
            jnp.maximum(self.rhat, info.rhat),
            self.distance + (info.distance - self.distance) / k,
            jnp.maximum(self.residual, info.residual),
        )


class Record(NamedTuple):
    """What is written down of a run."""

    regret: Float[Array, "replications points"]
    """Cumulative regret at the recorded times."""
    ends: Int[Array, "replications batches"]
    """The rounds with which batches ended; 0 beyond the last."""
    actions: Array
    """Every action, `[replications, rounds, …]`, where asked for; otherwise no columns."""
    plays: Int[Array, "replications actions"]
    batches: Int[Array, " replications"]
    reward: Float[Array, " replications"]
    """Mean reward over all rounds."""
    best: Float[Array, " replications"]
    """Share of rounds in which a best action was played; in an MDP, an optimal action of the state."""
    diagnostics: Diagnostics


class Lanes(NamedTuple):
    """The state of all replications; every field has the replications in front."""

    t: Int[Array, " replications"]
    env: Tree
    obs: Tree
    agent: Tree
    history: Tree
    batching: Tree
    due: Bool[Array, " replications"]
    idle: Int[Array, ""]
    """Rounds that lanes have waited since all had learned."""
    total: Float[Array, " replications"]
    point: Int[Array, " replications"]
    record: Record


def run(
    key: Key[Array, ""],
    env: Any,
    agent: Any,
    batching: Any,
    times: Int[Array, " points"],
    first: Array,
    *,
    horizon: int,
    replications: int,
    keep_actions: bool,
) -> Record:
    """All rounds of `replications` runs, numbered from `first`."""
    keys = jax.vmap(partial(_random.fold_in, key))(first + jnp.arange(replications))
    lanes = start(keys, env, agent, batching, times.shape[0], horizon=horizon, keep_actions=keep_actions)
    play = partial(play_round, keys, env, agent, batching, times, horizon)
    patience = 0 if agent.incremental else PATIENCE * replications

    def someone_plays(lanes: Lanes) -> Array:
        return jnp.any(~lanes.due & (lanes.t < horizon)) & (~jnp.any(lanes.due) | (lanes.idle < patience))

    def turn(lanes: Lanes) -> Lanes:
        lanes = lax.while_loop(someone_plays, play, lanes)
        return lax.cond(jnp.any(lanes.due), partial(learn, keys, agent), lambda same: same, lanes)

    lanes = lax.while_loop(lambda lanes: jnp.any(lanes.t < horizon), turn, lanes)
    record = lanes.record
    return record._replace(reward=record.reward / horizon, best=record.best / horizon)


def start(keys, env, agent, batching, points: int, *, horizon: int, keep_actions: bool) -> Lanes:
    R = keys.shape[0]
    key_env, key_agent = jnp.moveaxis(jax.vmap(lambda k: _random.split(_random.fold_in(k, 0)))(keys), 1, 0)
    env_state, obs = jax.vmap(env.reset)(key_env)
    row = Row(*jax.eval_shape(lambda k: _row(env, k), keys[0]))
    history = agent.empty(jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), row), horizon)
    repeat = lambda tree: jax.tree.map(lambda x: jnp.broadcast_to(x, (R, *jnp.shape(x))), tree)  # noqa: E731
    zero = jnp.zeros(R, int)
    record = Record(
        regret=jnp.zeros((R, points)),
        ends=jnp.zeros((R, batching.most(horizon, env.actions)), int),
        actions=jnp.zeros((R, horizon if keep_actions else 0, *row.action.shape), row.action.dtype),
        plays=jnp.zeros((R, env.actions), int),
        batches=zero,
        reward=jnp.zeros(R),
        best=jnp.zeros(R),
        diagnostics=Diagnostics.start(R),
    )
    return Lanes(
        zero,
        env_state,
        obs,
        jax.vmap(agent.init)(key_agent),
        repeat(history),
        jax.vmap(lambda k: batching.init(_random.fold_in(k, LAST), env.actions))(keys),
        jnp.full(R, agent.observes_first),
        jnp.zeros((), int),
        jnp.zeros(R),
        zero,
        record,
    )


def _row(env, key) -> Row:
    """A row as this environment makes it, for its shapes."""
    state, obs = env.reset(key)
    action = jnp.zeros((), int if env.actions else float)  # without a number of actions, they are continuous
    _, step = env.step(key, state, action)
    return Row(obs, action, step.reward, step.obs)


def play_round(keys, env, agent, batching, times, horizon: int, lanes: Lanes) -> Lanes:
    """One round in every lane that is inside a batch; the other lanes stay as they are."""
    R = jnp.arange(keys.shape[0])
    # Agents that learn every round never wait, so all their lanes play: a constant that XLA removes the masks for.
    live = jnp.ones_like(lanes.due) if agent.incremental else ~lanes.due & (lanes.t < horizon)
    t = lanes.t + 1
    round_keys = jax.vmap(lambda k, t: _random.split(_random.fold_in(k, t), 3))(keys, t)
    action = jax.vmap(agent.act)(round_keys[:, 1], lanes.agent, lanes.obs, Played(t, lanes.record.plays))
    env_state, step = jax.vmap(env.step)(round_keys[:, 0], lanes.env, action)
    history = jax.vmap(agent.remember)(lanes.history, Row(lanes.obs, action, step.reward, step.obs), live)
    batching_state, due = jax.vmap(batching.step)(lanes.batching, lanes.obs, action)
    due = due & live

    # Writes of lanes that are not concerned fall outside their row and are dropped.
    total = lanes.total + jnp.where(live, step.regret, 0.0)
    hit = live & (times[jnp.minimum(lanes.point, times.shape[0] - 1)] == t)
    old = lanes.record
    record = Record(
        regret=old.regret.at[R, jnp.where(hit, lanes.point, times.shape[0])].set(total, mode="drop"),
        ends=old.ends.at[R, jnp.where(due, old.batches, old.ends.shape[1])].set(t, mode="drop"),
        actions=old.actions.at[R, jnp.where(live, lanes.t, horizon)].set(action, mode="drop"),
        plays=jax.vmap(count)(old.plays, action, live),
        batches=old.batches + due,
        reward=old.reward + jnp.where(live, step.reward, 0.0),
        best=old.best + (live & (step.regret <= 0 if step.best is None else step.best)),
        diagnostics=old.diagnostics,
    )
    return Lanes(
        jnp.where(live, t, lanes.t),
        where(live, env_state, lanes.env),
        where(live, step.obs, lanes.obs),
        lanes.agent,
        history,
        where(live, batching_state, lanes.batching),
        lanes.due | (due & (t < horizon)),  # what would be learned after the last round decides nothing
        lanes.idle + jnp.sum(lanes.due, dtype=int),
        total,
        lanes.point + hit,
        record,
    )


def learn(keys, agent, lanes: Lanes) -> Lanes:
    """Every lane whose batch is closed sees its rewards."""
    observe_keys = jax.vmap(lambda k, t: _random.split(_random.fold_in(k, t), 3)[2])(keys, lanes.t)
    state, info = agent.observe(observe_keys, lanes.agent, lanes.history)
    diagnostics = where(lanes.due, lanes.record.diagnostics.plus(info), lanes.record.diagnostics)
    record = lanes.record._replace(diagnostics=diagnostics)
    idle = jnp.zeros_like(lanes.idle)
    return lanes._replace(agent=where(lanes.due, state, lanes.agent), due=lanes.due & False, idle=idle, record=record)
