"""The leaping engine: many rounds per iteration, for agents whose policy within a batch is one probability vector p.

Within a batch the actions are independent draws from p, so the plays of each arm in n rounds are multinomial. A *stretch* of
rounds ends with the batch, or with a round whose regret is recorded; the horizon is one of these. Suppose that an arm would end the
batch with its r-th play and has c ≥ r plays in the stretch. These lie at c independent uniform times, and the r-th of them at
U ~ Beta(r, c - r + 1). The smallest U ends the batch. Before it, an arm that would have ended the batch later has
Binomial(r - 1, smallest/U) plays, and any other arm Binomial(c, smallest). The rewards of k plays are drawn as their summary.

Keys are derived as in the loop, with the number of the stretch in place of the round.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from .. import _random
from .._draws import binomial, log_gamma, multinomial
from .._typing import Array, Bool, Float, Int, Key, PRNGKey, Tree
from ..agents import propensity
from ..arrays import where
from ..lanes import on_cpu
from ..models.moments import Sum
from ..record import Diagnostics, Record

BLOCK = 64  # lanes refreshed together on a CPU: their quadrature fits in the cache, and few idle lanes are computed
ACCELERATOR_BLOCK = 2**15  # as many lanes as a GPU can use at once; more would only take more memory


class Learning(NamedTuple):
    """The part of the state that changes when a batch ends."""

    agent: Tree
    summary: Tree
    """The summaries of all observed rewards, `[replications, arms, …]`."""
    pending: Int[Array, "replications arms"]
    """Plays whose rewards are not observed yet."""
    p: Float[Array, "replications arms"]
    diagnostics: Diagnostics


class Lanes(NamedTuple):
    """The state of all replications; the first axis of every field is the replications."""

    t: Int[Array, " replications"]
    number: Int[Array, " replications"]
    """Stretches so far."""
    batching: Tree
    due: Bool[Array, " replications"]
    learning: Learning
    plays: Int[Array, "replications arms"]
    point: Int[Array, " replications"]
    regret: Float[Array, "replications points"]
    ends: Int[Array, "replications batches"]
    batches: Int[Array, " replications"]


def run(
    key: Key[Array, ""],
    env: Any,
    agent: Any,
    batching: Any,
    times: Int[Array, " points"],
    first: Array,
    horizon: int | Int[Array, ""],
    used: int | Int[Array, ""] | None = None,
    *,
    replications: int,
    keep_actions: bool,
    capacity: int | None = None,
) -> Record:
    """Simulate `replications` runs. The result has the same distribution as that of `loop.run`.

    Args:
        key: the root key.
        env: the environment.
        agent: the agent.
        batching: the batching scheme.
        times: the rounds at which regret is recorded; those after the horizon are not reached.
        first: the number of the first replication.
        horizon: the number of rounds.
        used: of the replications the first so many are wanted (None: all); the others are not played.
        replications: how many runs.
        keep_actions: unused, because single actions are not simulated.
        capacity: for how many rounds the arrays have room (None: `horizon`, which is then a plain number).

    Returns:
        The record, with the replications last.
    """
    del keep_actions
    keys = jax.vmap(partial(_random.fold_in, key))(first + jnp.arange(replications))
    key_env, key_agent = jnp.moveaxis(jax.vmap(lambda k: _random.split(_random.fold_in(k, 0)))(keys), 1, 0)
    worlds, _ = jax.vmap(env.reset)(key_env)
    lanes = start(keys, key_agent, env, agent, batching, times.shape[0], int(horizon) if capacity is None else capacity)
    wanted = jnp.arange(replications) < (replications if used is None else used)
    lanes = lanes._replace(t=jnp.where(wanted, 0, horizon).astype(lanes.t.dtype), due=wanted)

    def turn(lanes: Lanes) -> Lanes:
        # From 1: number 0 is for `reset` and `init`.
        stretch_keys = jax.vmap(lambda k, j: _random.split(_random.fold_in(k, j + 1), 3))(keys, lanes.number)
        known = (stretch_keys[:, 1:], worlds.theta, (lanes.t > 0) & (lanes.t < horizon))
        learning = in_blocks(lanes.due, partial(learn, env, agent), known, lanes.learning)
        return play(stretch_keys[:, 0], batching, times, horizon, worlds.gaps, lanes._replace(learning=learning))

    lanes = lax.while_loop(lambda lanes: jnp.any(lanes.due | (lanes.t < horizon)), turn, lanes)
    record = Record(
        lanes.regret.T,
        lanes.ends.T,
        jnp.zeros((0, replications), int),
        lanes.plays.T,
        lanes.batches,
        Sum.of(jnp.sum(jax.vmap(jax.vmap(lambda one: one.total))(lanes.learning.summary), 1)),
        jnp.sum(jnp.where(worlds.gaps <= 0, lanes.plays, 0), 1),
        lanes.learning.diagnostics,
        jnp.zeros((0, replications), int),  # schemes of several agents do not leap
    )
    # Readers of the record use 32-bit integers; none of these exceeds the horizon.
    return jax.tree.map(lambda x: x.astype(jnp.int32) if jnp.issubdtype(x.dtype, jnp.integer) else x, record)


def start(keys, key_agent, env, agent, batching, points: int, horizon: int) -> Lanes:
    """The initial state. Every lane is due: a refresh without data before round 1 computes the first p with the same program.

    Args:
        keys: of the replications.
        key_agent: keys for `agent.init`.
        env: the environment.
        agent: the agent.
        batching: the batching scheme.
        points: at how many rounds the regret is recorded.
        horizon: the number of rounds.

    Returns:
        The state of all lanes.
    """
    R = keys.shape[0]
    zero, none = jnp.zeros(R, int), jnp.zeros((R, env.actions), int)
    summary = jax.vmap(lambda single: single.empty())(agent.model)
    repeat = lambda tree: jax.tree.map(lambda x: jnp.broadcast_to(x, (R, *x.shape)), tree)  # noqa: E731
    learning = Learning(
        jax.vmap(agent.init)(key_agent), repeat(summary), none, jnp.zeros((R, env.actions)), repeat(Diagnostics.start())
    )
    schemes = jax.vmap(lambda k: batching.init(k, env.actions))(keys)
    ends = jnp.zeros((R, batching.max_batches(horizon, env.actions)), int)
    return Lanes(zero, zero, schemes, jnp.ones(R, bool), learning, none, zero, jnp.zeros((R, points)), ends, zero)


def play(keys, batching, times, horizon, gaps, lanes: Lanes) -> Lanes:
    """Play one stretch in every lane that is not at the horizon.

    Args:
        keys: of this stretch, one per lane.
        batching: the batching scheme.
        times: the rounds at which regret is recorded.
        horizon: the number of rounds.
        gaps: the regret of each arm, `[replications, arms]`.
        lanes: the state.

    Returns:
        The state after it.
    """
    R = jnp.arange(keys.shape[0])
    live = lanes.t < horizon
    point = jnp.minimum(lanes.point, times.shape[0] - 1)
    left, rounds = jax.vmap(batching.room)(lanes.batching)
    left = jnp.broadcast_to(left.reshape(R.size, -1), lanes.plays.shape)
    rounds = jnp.where(live, jnp.minimum(rounds, times[point] - lanes.t), 0)
    key_plays, key_cut = jnp.moveaxis(jax.vmap(_random.split)(keys), 1, 0)
    plays = jax.vmap(multinomial)(key_plays, rounds, lanes.learning.p)
    plays = in_blocks(jnp.any(plays >= left, 1), jax.vmap(cut), (key_cut, left), plays)

    t = lanes.t + jnp.sum(plays, 1)
    scheme, due = jax.vmap(batching.advance)(lanes.batching, plays)
    due, hit = due & live, live & (t == times[point])
    total = lanes.plays + plays
    regret = jnp.sum(total * gaps, 1)
    return Lanes(
        t,
        lanes.number + live,
        jax.vmap(where)(live, scheme, lanes.batching),
        live & (due | (t == horizon)),  # at the horizon the rewards are counted; no action depends on them
        lanes.learning._replace(pending=lanes.learning.pending + plays),
        total,
        lanes.point + hit,
        lanes.regret.at[R, jnp.where(hit, point, times.shape[0])].set(regret, mode="drop"),
        lanes.ends.at[R, jnp.where(due, lanes.batches, lanes.ends.shape[1])].set(t, mode="drop"),
        lanes.batches + due,
    )


def cut(known: tuple[PRNGKey, Int[Array, " arms"]], plays: Int[Array, " arms"]) -> Int[Array, " arms"]:
    """Cut a stretch at the play that ends the batch (see the module's docstring).

    Args:
        known: a key, and how many more plays of each arm would end the batch.
        plays: of the whole stretch; at least one arm ends the batch.

    Returns:
        The plays up to the one that ends it.
    """
    key, left = known
    arms = plays.shape[0]
    keys = _random.split(key, (3, arms))
    over = plays >= left
    shapes = jnp.stack([jnp.where(over, left, 1), jnp.where(over, plays - left + 1, 1)]).astype(float)
    log_a, log_b = jax.vmap(jax.vmap(log_gamma))(keys[:2], shapes)
    when = jnp.where(over, jax.nn.sigmoid(log_a - log_b), jnp.inf)
    end = jnp.min(when)
    before = jax.vmap(binomial)(keys[2], jnp.where(over, left - 1, plays), jnp.where(over, end / when, end))
    return jnp.where(jnp.arange(arms) == jnp.argmin(when), left, before)


def learn(env, agent, known: tuple[Key[Array, "block 2"], Array, Bool[Array, " block"]], old: Learning) -> Learning:
    """Refresh a block of lanes whose batch has ended.

    Args:
        env: the environment.
        agent: the agent.
        known: keys, the arms' θ, and whether this is neither before round 1 nor at the horizon, for the diagnostics.
        old: the state before the refresh.

    Returns:
        The state after it.
    """
    keys, theta, within = known
    summary = jax.vmap(partial(draw_rewards, env.model))(keys[:, 0], theta, old.pending, old.summary)
    state, info = agent.observe(keys[:, 1], old.agent, summary)
    p = jax.vmap(lambda one: propensity.of_laws(agent.belief.laws(agent.model, one, ()), fast=True))(state)
    diagnostics = jax.vmap(where)(within, old.diagnostics.plus(info), old.diagnostics)
    return Learning(state, summary, jnp.zeros_like(old.pending), p, diagnostics)


def draw_rewards(model, key: PRNGKey, theta, plays: Int[Array, " arms"], summary: Tree) -> Tree:
    """Draw the rewards of many plays as their summary.

    Args:
        model: of the arms.
        key: for the draws.
        theta: the arms' parameters.
        plays: how many rewards of each arm.
        summary: of the rewards so far.

    Returns:
        The summary with the new rewards.
    """
    keys = _random.split(key, plays.shape[0])
    return jax.vmap(lambda single, k, x, n, old: old.join(single.sample_summary(k, x, n)))(model, keys, theta, plays, summary)


def in_blocks(mask: Bool[Array, " lanes"], f: Callable, known: Tree, old: Tree) -> Tree:
    """Apply a function in some lanes, gathered into blocks so that few other lanes are computed.

    Args:
        mask: the lanes.
        f: a function of a block of `known` and `old`.
        known: its first argument, for all lanes.
        old: its second argument, for all lanes.

    Returns:
        `f(known, old)` in the lanes of the mask, `old` elsewhere.
    """
    R = mask.shape[0]
    size = min(R, BLOCK if on_cpu() else ACCELERATOR_BLOCK)
    lanes = jnp.concatenate([jnp.nonzero(mask, size=R, fill_value=R)[0], jnp.full(size, R)])

    def block(b, new: Tree) -> Tree:
        mine = lax.dynamic_slice_in_dim(lanes, b * size, size)
        part = f(*jax.tree.map(lambda x: x[jnp.minimum(mine, R - 1)], (known, new)))
        return jax.tree.map(lambda store, x: store.at[mine].set(x, mode="drop"), new, part)

    return lax.fori_loop(0, (jnp.sum(mask) + size - 1) // size, block, old)
