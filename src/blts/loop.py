"""The one loop: every agent in every environment under every batching scheme, many replications at once.

`play` is one round of one replication, and the loop runs it in all replications, which are lanes (see `lanes`). There are two
ways to go through the rounds:

- agents whose learning is cheap (`incremental`) learn as part of the round, and all lanes are in the same round (`_together`).
  What many rounds draw at random is then drawn at once, ahead of them;
- others wait when their batch is closed until enough have gathered, and a block of those furthest behind learns (`_in_turns`).
  Under `vmap` a per-replication `cond` would run the sampler in every lane at every round; in lockstep all would wait for
  the longest batch.

Keys come from indices, never from a carried key: replication key = fold_in(root, replication), and the round's keys for the
environment, for acting and for learning are the generator's blocks (purpose, t) under it. So chunked = whole, and a lane's
schedule cannot change its numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from . import _random
from . import lanes as _lanes  # `lanes` are the states of the replications below
from ._random import ACT, ENV, OBSERVE, Round, round_key
from ._typing import Array, Bool, Float, Info, Int, Key, PRNGKey, Row, Tree
from .arrays import order, where
from .decision import Clock, decide
from .history import block_of
from .record import Diagnostics, Record

AHEAD = 8  # pairs of rounds drawn at once: enough for long vectors, few enough for the cache and for the bits of a word
BLOCK = 192  # lanes that learn together on a CPU; elsewhere a quarter of them do
PLANNING_BLOCK = 64  # of those that plan, where all wait for the longest plan
LAST = 2**32 - 1  # no round has this number: what folds it in has a key of its own


class Lane(NamedTuple):
    """The state of one replication."""

    env: Tree
    obs: Tree
    agent: Tree
    history: Tree
    batching: Tree
    plays: Int[Array, " actions"]
    batches: Int[Array, ""]
    regret: Float[Array, ""]
    reward: Float[Array, ""]
    best: Float[Array, ""]
    diagnostics: Diagnostics


class Written(NamedTuple):
    """What is written down round by round, with the lanes last; see `Record`."""

    regret: Float[Array, "points lanes"]
    ends: Int[Array, "batches lanes"]
    actions: Array


class Inputs(NamedTuple):
    """What both ways through the rounds are given."""

    keys: Key[Array, " replications"]
    wanted: Bool[Array, " replications"]
    """False for replications that only fill up an array."""
    env: Any
    agent: Any
    batching: Any
    times: Int[Array, " points"]
    horizon: int | Int[Array, ""]
    begin: Callable[[PRNGKey], Lane]
    """A replication's state before round 1."""


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
    """All rounds of `replications` runs, numbered from `first`.

    The arrays have room for `capacity` rounds (None: for `horizon`, which is then a plain number). Recorded `times` after the
    horizon are not reached; they fill up an array that has room for more. Of the replications the first `used` ones are wanted
    (None: all); the others need not be played.
    """
    keys = jax.vmap(partial(_random.fold_in, key))(first + jnp.arange(replications))
    capacity = int(horizon) if capacity is None else capacity
    horizon = jnp.asarray(horizon, int)
    lanes, written = start(keys, env, agent, batching, times.shape[0], horizon=capacity, keep_actions=keep_actions)
    go = _together if agent.incremental else _in_turns
    wanted = jnp.arange(replications) < (replications if used is None else used)
    begin = beginning(env, agent, batching, capacity)
    lane, written = go(Inputs(keys, wanted, env, agent, batching, times, horizon, begin), lanes, written)
    return Record(
        regret=written.regret,
        ends=jnp.where(jnp.arange(written.ends.shape[0])[:, None] < lane.batches, written.ends, 0),
        actions=written.actions,
        plays=lane.plays,
        batches=lane.batches,
        reward=lane.reward,
        best=lane.best,
        diagnostics=lane.diagnostics,
    )


def start(keys, env, agent, batching, points: int, *, horizon: int, keep_actions: bool) -> tuple[Lane, Written]:
    R = keys.shape[0]
    action = jax.eval_shape(partial(_row, env), keys[0]).action
    # One slot more than there can be batches: what is written of a batch that has not ended stays in the last.
    ends = jnp.zeros((batching.max_batches(horizon, env.actions) + 1, R), int)
    actions = jnp.zeros((horizon if keep_actions else 0, *action.shape, R), action.dtype)
    begin = beginning(env, agent, batching, horizon)
    return jax.vmap(begin, out_axes=-1)(keys), Written(jnp.zeros((points, R)), ends, actions)


def beginning(env, agent, batching, horizon: int) -> Callable[[PRNGKey], Lane]:
    """A function from a replication's key to its state before round 1, with room for so many rounds."""

    def begin(key: PRNGKey) -> Lane:
        row = jax.eval_shape(partial(_row, env), key)
        history = agent.empty(jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), row), horizon)
        key_env, key_agent = _random.split(_random.fold_in(key, 0))
        env_state, obs = env.reset(key_env)
        state, clock = agent.init(key_agent), batching.init(_random.fold_in(key, LAST), env.actions)
        none, zero = jnp.zeros((), int), jnp.zeros(())
        return Lane(env_state, obs, state, history, clock, jnp.zeros(env.actions, int), none, zero, zero, zero, Diagnostics.start())

    return begin


def _row(env, key) -> Row:
    """A row as this environment makes it, for its shapes."""
    state, obs = env.reset(key)
    action = jnp.zeros((), int if env.actions else float)  # without a number of actions, they are continuous
    _, step = env.step(key, state, action)
    return Row(obs, action, step.reward, step.obs)


def play(env, agent, batching, words: Array, pair, half, lane: Lane, live) -> tuple[Lane, Bool[Array, ""], Array]:
    """One round of one replication where `live`: the lane after it, whether it closes the batch, and the action."""
    key, now = _random.from_words(words), Round(pair, half)
    choose = lambda played: (agent.act(round_key(key, now, ACT), lane.agent, lane.obs, played), ())  # noqa: E731
    clock = Clock(now.t, lane.plays, lane.batching, jnp.asarray(False))
    clock, action, _ = decide(choose, batching, clock, now.t, lane.obs, live)
    env_state, step = env.step(round_key(key, now, ENV), lane.env, action)
    history = agent.remember(lane.history, Row(lane.obs, action, step.reward, step.obs), live)
    best = step.regret <= 0 if step.best is None else step.best
    after = Lane(
        env=where(live, env_state, lane.env),
        obs=where(live, step.obs, lane.obs),
        agent=lane.agent,
        history=history,
        batching=clock.batching,
        plays=clock.plays,
        batches=lane.batches + clock.due,
        regret=lane.regret + jnp.where(live, step.regret, 0.0),
        reward=lane.reward + jnp.where(live, step.reward, 0.0),
        best=lane.best + (live & best),
        diagnostics=lane.diagnostics,
    )
    return after, clock.due, action


def observe_alone(agent, key: PRNGKey, lane: Lane) -> tuple[Tree, Info]:
    """`observe` for one replication, a block of one."""
    block = jax.tree.map(lambda x: x[None], (lane.agent, lane.history))
    return jax.tree.map(lambda x: x[0], agent.observe(key[None], *block))


def draw_ahead(draw, words: Array, first: Int[Array, " lanes"], pairs: int) -> list[_lanes.Value]:
    """What every lane draws in so many pairs of rounds from its `first` one on, with the pairs before the lanes."""
    numbers = (first + jnp.arange(pairs)[:, None]).reshape(-1)
    drawn = draw(jnp.tile(words, pairs), numbers)
    return _lanes.of_lanes(drawn, lambda x: x.reshape(*x.shape[:-1], pairs, first.shape[0]))


def _together(inputs: Inputs, lanes: Lane, written: Written) -> tuple[Lane, Written]:
    """All lanes in the same round, learning whenever their batch is closed."""
    keys, _, env, agent, batching, times, horizon, begin = inputs  # those that are not wanted cost next to nothing here
    R = keys.shape[0]

    def one(words, pair, half, lane: Lane) -> tuple[Lane, Bool[Array, ""], Array]:
        after, due, action = play(env, agent, batching, words, pair, half, lane, jnp.asarray(True))
        learned, _ = observe_alone(agent, round_key(_random.from_words(words), Round(pair, half), OBSERVE), after)
        return after._replace(agent=where(due, learned, after.agent)), due, action

    def report(words, lane: Lane) -> Lane:
        # What such agents report is the same at every refresh, so they are asked once. (A number that is not finite stays so.)
        _, info = observe_alone(agent, _random.from_words(words), lane)
        diagnostics = lane.diagnostics.plus(info)._replace(refreshes=lane.batches)
        return Lane((), (), (), (), (), lane.plays, lane.batches, lane.regret, lane.reward, lane.best, diagnostics)

    words, zero = _random.words_of(keys).T, jnp.zeros(R, int)
    example = jax.tree.map(_lanes.one_lane, (words, zero, zero, lanes))
    parts = _lanes.split(one, [example[:2]], example[2:])
    end = _lanes.Program.of(report, example[0], example[-1])
    first = _lanes.Program.of(lambda words: begin(_random.from_words(words)), example[0])
    lanes, written = _in_lockstep(first, parts, end, words, times, horizon, lanes, written)
    lane = _lanes.vmap(report)(words, lanes)
    closed_last = written.ends[jnp.maximum(lane.batches - 1, 0), jnp.arange(R)] == horizon
    refreshes = lane.diagnostics.refreshes - (closed_last & (lane.batches > 0))
    return lane._replace(diagnostics=lane.diagnostics._replace(refreshes=refreshes)), written


def _in_lockstep(first, parts, end, words, times, horizon, lanes: Lane, written: Written) -> tuple[Lane, Written]:
    """Round after round, each as a few of XLA's own kernels."""
    R, points = words.shape[-1], times.shape[0]
    everyone = jnp.arange(R)
    equal = _lanes.equal_leaves(first, parts.program, len(jax.tree.leaves(lanes)))
    kept = _lanes.carried(parts.program, end, lanes, equal)
    whole = lambda state: _lanes.shared(_lanes.replaced(lanes, kept, state), equal)  # noqa: E731

    def rounds(i, carry):
        """Rounds 2·AHEAD·i … 2·AHEAD·(i + 1) - 1, of which there is no round 0."""
        first = i * AHEAD
        drawn = draw_ahead(parts.early[0], words, jnp.broadcast_to(first, R), AHEAD)

        def round(t, carry):
            state, closed, written, point = carry
            now = _lanes.of_lanes(drawn, lambda x: lax.dynamic_index_in_dim(x, t // 2 - first, -2, False))
            after, due, action = parts.late([now], jnp.broadcast_to(t % 2, R), whole(state))
            written = written._replace(regret=lax.dynamic_update_index_in_dim(written.regret, after.regret, point, 0))
            if written.actions.shape[0]:
                written = written._replace(actions=lax.dynamic_update_index_in_dim(written.actions, action, t - 1, 0))
            closed = closed | (due.astype(jnp.uint32) << (t - 2 * first).astype(jnp.uint32))
            return _lanes.taken(after, kept), closed, written, jnp.minimum(point + (times[point] == t), points - 1)

        state, ended, written, point = carry
        begin, stop = jnp.maximum(2 * first, 1), jnp.minimum(2 * (first + AHEAD), horizon + 1)
        state, closed, written, point = lax.fori_loop(begin, stop, round, (state, jnp.zeros(R, jnp.uint32), written, point))
        ended, ends = write_ends(closed, 2 * first, ended, written.ends)
        return state, ended, written._replace(ends=ends), point

    def write_ends(closed: Array, first: Int[Array, ""], ended: Int[Array, " lanes"], ends: Array) -> tuple[Array, Array]:
        """The rounds, counted from `first`, whose bits are set: scattering is slow on a CPU, and most rounds end no batch."""

        def earliest(carry):
            closed, ended, ends = carry
            t = first + lax.population_count((closed & -closed) - 1).astype(int)
            return closed & (closed - 1), ended + (closed != 0), ends.at[ended, everyone].set(t)

        return lax.while_loop(lambda carry: jnp.any(carry[0] != 0), earliest, (closed, ended, ends))[1:]

    carry = (_lanes.taken(lanes, kept), jnp.zeros(R, int), written, jnp.zeros((), int))
    state, _, written, _ = lax.fori_loop(0, horizon // (2 * AHEAD) + 1, rounds, carry)
    return whole(state), written


class Turns(NamedTuple):
    """Lanes that are each in a round of their own."""

    t: Int[Array, " lanes"]
    due: Bool[Array, " lanes"]
    """Whether the batch is closed and its rewards are not seen yet."""
    point: Int[Array, " lanes"]
    lanes: Lane
    written: Written


def _in_turns(inputs: Inputs, lanes: Lane, written: Written) -> tuple[Lane, Written]:
    """Lanes play while they can; when a block of them waits, or nobody can play, those furthest behind learn."""
    keys, wanted, env, agent, batching, times, horizon, _ = inputs
    R, points = keys.shape[0], times.shape[0]
    block = PLANNING_BLOCK if agent.observes_first else BLOCK
    everyone, size = jnp.arange(R), min(R, block if _lanes.on_cpu() else max(block, R // 4))
    words, zero = _random.words_of(keys).T, jnp.zeros(R, int)

    def one(words, pair, state, half, lane: Lane, live) -> tuple[Lane, Bool[Array, ""], Array]:
        after, due, action = play(env, agent, batching, words, pair, half, lane._replace(agent=state), live)
        return after._replace(agent=()), due, action

    example = jax.tree.map(_lanes.one_lane, (words, zero, lanes.agent, zero, lanes._replace(agent=()), zero == 0))
    parts = _lanes.split(one, [example[:2], example[2:3]], example[3:])

    def plays(turns: Turns) -> Bool[Array, " lanes"]:
        return ~turns.due & (turns.t < horizon)

    def someone_plays(turns: Turns) -> Bool[Array, ""]:
        return jnp.any(plays(turns)) & (jnp.sum(turns.due) < size)

    def rounds(turns: Turns) -> Turns:
        """At most 2·AHEAD rounds of every lane. What they draw, and what they make of the agent's state, is computed ahead."""
        first = Round.of(turns.t + 1)
        drawn = draw_ahead(parts.early[0], words, first.pair, AHEAD + 1)
        frozen = parts.early[1](turns.lanes.agent)

        def round(carry: tuple[Array, Turns]) -> tuple[Array, Turns]:
            i, turns = carry
            # Lanes that play have played in all rounds since `first`, of which some were the second of their pair.
            of_pair = lambda x, pair: lax.dynamic_index_in_dim(x, pair, -2, False)  # noqa: E731
            now = _lanes.of_lanes(drawn, lambda x: jnp.where(first.half == 0, of_pair(x, i // 2), of_pair(x, (i + 1) // 2)))
            live, t = plays(turns), turns.t + 1
            before = turns.lanes
            after, due, action = parts.late([now, frozen], (first.half + i) % 2, before._replace(agent=()), live)
            old, last = turns.written, turns.written.actions.shape[0]
            written = Written(
                old.regret.at[turns.point, everyone].set(after.regret),
                old.ends.at[before.batches, everyone].set(jnp.where(live, t, turns.t)),
                old.actions.at[jnp.where(live, turns.t, last), ..., everyone].set(jnp.moveaxis(action, -1, 0), mode="drop"),
            )
            point = jnp.minimum(turns.point + (live & (times[turns.point] == t)), points - 1)
            due = turns.due | (due & (t < horizon))
            return i + 1, Turns(jnp.where(live, t, turns.t), due, point, after._replace(agent=before.agent), written)

        go_on = lambda carry: (carry[0] < 2 * AHEAD) & someone_plays(carry[1])  # noqa: E731
        return lax.while_loop(go_on, round, (jnp.zeros((), int), turns))[1]

    def some_learn(turns: Turns) -> Turns:
        behind = order(jnp.where(turns.due, turns.t, horizon + 1), horizon + 1)[:size]
        waits = turns.due[behind]
        block = block_of(turns.lanes, behind)
        block_keys = jax.vmap(lambda k, t: round_key(k, Round.of(t), OBSERVE))(keys[behind], turns.t[behind])
        state, info = agent.observe(block_keys, block.agent, block.history)
        diagnostics = jax.vmap(Diagnostics.plus)(block.diagnostics, info)
        place = jnp.where(waits, behind, R)
        put = lambda old, new: old.at[..., place].set(jnp.moveaxis(new, 0, -1), mode="drop")  # noqa: E731
        lanes = turns.lanes._replace(
            agent=jax.tree.map(put, turns.lanes.agent, state),
            diagnostics=jax.tree.map(put, turns.lanes.diagnostics, diagnostics),
        )
        return turns._replace(lanes=lanes, due=turns.due.at[place].set(False, mode="drop"))

    def turn(turns: Turns) -> Turns:
        turns = rounds(turns)
        return lax.cond(~someone_plays(turns) & jnp.any(turns.due), some_learn, lambda same: same, turns)

    turns = Turns(jnp.where(wanted, zero, horizon), wanted & agent.observes_first, zero, lanes, written)
    turns = lax.while_loop(lambda turns: jnp.any(turns.t < horizon), turn, turns)
    return turns.lanes, turns.written
