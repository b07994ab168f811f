"""The one loop: every agent in every environment under every batching scheme, many replications at once.

`play` is one round of one replication. The loop runs it for all replications, which are the lanes of the batch axis (see
`lanes`). There are two ways to go through the rounds:

- In lockstep (`_together`), for agents whose `observe` is cheap (`incremental`): all lanes are in the same round, and `observe` is
  part of the round. Random numbers of many rounds are drawn at once.
- In turns (`_in_turns`), for all others: a lane whose batch has ended waits until a block of lanes is due, and `observe` is called
  for the block, those furthest behind first. A `cond` under `vmap` would run the sampler in every lane at every round, and in
  lockstep all lanes would wait for the longest batch.

Keys are computed from indices and never carried: a replication's key is fold_in(root, replication), and the keys of round t for the
environment, for acting and for learning are the generator's blocks (purpose, t) under it. So the results of a replication depend
neither on the others nor on when it waits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from . import _random, arrivals
from . import lanes as _lanes  # `lanes` are the states of the replications below
from ._random import ACT, ENV, OBSERVE, Round, round_key
from ._typing import Array, Bool, Float, Info, Int, Key, PRNGKey, Row, Tree
from .arrays import order, where
from .decision import Clock, decide
from .declared import provides
from .history import block_of
from .models.moments import Sum
from .record import Concluded, Diagnostics, Record

AHEAD = 8  # pairs of rounds drawn at once: long vectors that fit into the cache; 2·AHEAD bits must fit into 32
BLOCK = 192  # lanes refreshed together on a CPU; elsewhere at least a quarter of all lanes
PLANNING_BLOCK = 64  # the same for agents that plan: a block takes as long as its longest plan
LONG = 512  # numbers of a lane from which vectors are long enough: what is drawn ahead is lost to lanes whose batch ends before
LAST = 2**32 - 1  # an index that no round has, for keys that belong to no round


class Lane(NamedTuple):
    """The state of one replication."""

    env: Tree
    obs: Tree
    agent: Tree
    history: Tree
    batching: Tree
    plays: Int[Array, " actions"]
    batches: Int[Array, ""]
    regret: Sum
    reward: Sum
    best: Int[Array, ""]
    diagnostics: Diagnostics
    waiting: Tree = ()
    """Plays whose rewards are late (`arrivals.Waiting`); `()` where none are."""


class Written(NamedTuple):
    """The arrays that are written to at each round, with the lanes last; see `Record`."""

    regret: Float[Array, "points lanes"]
    ends: Int[Array, "batches lanes"]
    actions: Array


class Inputs(NamedTuple):
    """The arguments of `_together` and `_in_turns`."""

    keys: Key[Array, " replications"]
    wanted: Bool[Array, " replications"]
    """False for replications that are only there because sizes are rounded up."""
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
    """Simulate replications.

    Args:
        key: the root key.
        env: the environment.
        agent: the agent.
        batching: the batching scheme.
        times: the rounds at which the regret is recorded, in order; those after the horizon are ignored.
        first: the number of the first replication.
        horizon: the number of rounds.
        used: how many replications are wanted (None: all); the results of the others are undefined.
        replications: the number of replications, `used` rounded up to the size of a program.
        keep_actions: whether every action is recorded.
        capacity: how many rounds the arrays have room for (None: `horizon`, which is then a plain number).

    Returns:
        Their record.
    """
    keys = jax.vmap(partial(_random.fold_in, key))(first + jnp.arange(replications))
    capacity = int(horizon) if capacity is None else capacity
    horizon = jnp.asarray(horizon, int)
    begin, lanes, written = start(keys, env, agent, batching, times.shape[0], capacity=capacity, keep_actions=keep_actions)
    go = _together if agent.incremental else _in_turns
    wanted = jnp.arange(replications) < (replications if used is None else used)
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
        sent=jnp.stack(batching.sent(lane.batching)) if provides(batching, "sent") else jnp.zeros((0, replications), int),
        concluded=jax.vmap(partial(conclude, env, agent), in_axes=-1)(keys, lane) if provides(agent, "conclusion") else (),
        in_flight=lane.waiting.plays if lane.waiting else (),
    )


def conclude(env, agent, key: PRNGKey, lane: Lane) -> Concluded:
    """What one replication concluded. The regret of a play of the recommended arm is its simple regret."""
    arm, stopped = agent.conclusion(lane.agent)
    return Concluded(arm, stopped, env.step(_random.fold_in(key, LAST), lane.env, arm)[1].regret)


class Start(NamedTuple):
    """What a run starts with."""

    begin: Callable[[PRNGKey], Lane]
    """A replication's state before round 1."""
    lanes: Lane
    """The same of all replications."""
    written: Written


def start(keys, env, agent, batching, points: int, *, capacity: int, keep_actions: bool) -> Start:
    """The state of all lanes before round 1, and the arrays to write to, with room for `capacity` rounds."""
    R = keys.shape[0]
    row = jax.eval_shape(partial(example_row, env), keys[0])
    late = not isinstance(row.t, tuple)
    # One slot more than there can be batches: the running batch has one too.
    ends = jnp.zeros((batching.max_batches(capacity, env.actions) + 1, R), int)
    actions = jnp.zeros((capacity if keep_actions else 0, *row.action.shape, R), row.action.dtype)

    def begin(key: PRNGKey) -> Lane:
        history = agent.empty(jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), row), capacity)
        key_env, key_agent = _random.split(_random.fold_in(key, 0))
        env_state, obs = env.reset(key_env)
        state, clock = agent.init(key_agent), batching.init(_random.fold_in(key, LAST), env.actions)
        none = jnp.zeros((), int)
        counted = (jnp.zeros(env.actions, int), none, Sum.zero(), Sum.zero(), none, Diagnostics.start())
        waiting = arrivals.nothing(row, capacity) if late else ()
        return Lane(env_state, obs, state, history, clock, *counted, waiting)

    return Start(begin, jax.vmap(begin, out_axes=-1)(keys), Written(jnp.zeros((points, R)), ends, actions))


def example_row(env, key) -> Row:
    """A row of this environment, for its shapes and types."""
    state, obs = env.reset(key)
    action = jnp.zeros((), int if env.actions else float)  # without a number of actions, they are continuous
    _, step = env.step(key, state, action)
    return Row(obs, action, step.reward, step.obs, () if step.arrival is None else jnp.zeros((), int))


def play(env, agent, batching, words: Array, pair, half, lane: Lane, live) -> tuple[Lane, Bool[Array, ""], Array]:
    """One round of one replication where `live`: the lane after it, whether the batch ends with it, and the action."""
    key, now = _random.from_words(words), Round(pair, half)
    choose = lambda played: (agent.act(round_key(key, now, ACT), lane.agent, lane.obs, played), ())  # noqa: E731
    clock = Clock(now.t, lane.plays, lane.batching, jnp.asarray(False))
    clock, action, _ = decide(choose, batching, clock, now.t, lane.obs, live)
    env_state, step = env.step(round_key(key, now, ENV), lane.env, action)
    row = Row(lane.obs, action, step.reward, step.obs)
    if step.arrival is None:
        waiting, history = (), agent.remember(lane.history, row, live)
    else:
        waiting, history = arrivals.exchange(agent, lane.waiting, lane.history, row._replace(t=now.t), step.arrival, live)
    best = step.regret <= 0 if step.best is None else step.best
    after = Lane(
        env=where(live, env_state, lane.env),
        obs=where(live, step.obs, lane.obs),
        agent=lane.agent,
        history=history,
        batching=clock.batching,
        plays=clock.plays,
        batches=lane.batches + clock.due,
        regret=lane.regret.plus(jnp.where(live, step.regret, 0.0)),
        reward=lane.reward.plus(jnp.where(live, step.reward, 0.0)),
        best=lane.best + (live & best),
        diagnostics=lane.diagnostics,
        waiting=waiting,
    )
    return after, clock.due, action


def observe_alone(agent, key: PRNGKey, lane: Lane) -> tuple[Tree, Info]:
    """`agent.observe` for one replication, as a block of one."""
    block = jax.tree.map(lambda x: x[None], (lane.agent, lane.history))
    return jax.tree.map(lambda x: x[0], agent.observe(key[None], *block))


def draw_ahead(draw, words: Array, first: Int[Array, " lanes"], pairs: int) -> list[_lanes.Value]:
    """The random numbers of `pairs` pairs of rounds, from each lane's pair `first` on; arrays have axes (…, pairs, lanes)."""
    numbers = (first + jnp.arange(pairs)[:, None]).reshape(-1)
    drawn = draw(jnp.tile(words, pairs), numbers)
    return _lanes.of_lanes(drawn, lambda x: x.reshape(*x.shape[:-1], pairs, first.shape[0]))


def _together(inputs: Inputs, lanes: Lane, written: Written) -> tuple[Lane, Written]:
    """All rounds in lockstep: `observe` is part of the round, and its result is used where the batch ended."""
    keys, _, env, agent, batching, times, horizon, begin = inputs  # `wanted` is not used: in lockstep it would save nothing
    R = keys.shape[0]

    def one(words, pair, half, lane: Lane) -> tuple[Lane, Bool[Array, ""], Array]:
        after, due, action = play(env, agent, batching, words, pair, half, lane, jnp.asarray(True))
        learned, _ = observe_alone(agent, round_key(_random.from_words(words), Round(pair, half), OBSERVE), after)
        return after._replace(agent=where(due, learned, after.agent)), due, action

    def report(words, lane: Lane) -> Lane:
        # Such agents report the same at every refresh, so `observe` is asked once, at the end. (What is not finite stays so.)
        learned, info = observe_alone(agent, _random.from_words(words), lane)
        diagnostics = lane.diagnostics.plus(info)._replace(refreshes=lane.batches)
        kept = (lane.env, (), learned) if provides(agent, "conclusion") else ((), (), ())
        clock = lane.batching if provides(batching, "sent") else ()
        counted = (lane.plays, lane.batches, lane.regret, lane.reward, lane.best, diagnostics)
        return Lane(*kept, (), clock, *counted, lane.waiting and lane.waiting._replace(rows=(), after=(), first=()))

    words, zero = _random.words_of(keys).T, jnp.zeros(R, int)
    example = jax.tree.map(_lanes.one_lane, (words, zero, zero, lanes))
    parts = _lanes.split(one, [example[:2]], example[2:])
    end = _lanes.Program.of(report, example[0], example[-1])
    first = _lanes.Program.of(lambda words: begin(_random.from_words(words)), example[0])
    lanes, written = _in_lockstep(first, parts, end, words, times, horizon, lanes, written)
    lane = _lanes.over_lanes(end, words, lanes)
    closed_last = written.ends[jnp.maximum(lane.batches - 1, 0), jnp.arange(R)] == horizon
    refreshes = lane.diagnostics.refreshes - (closed_last & (lane.batches > 0))
    return lane._replace(diagnostics=lane.diagnostics._replace(refreshes=refreshes)), written


def _in_lockstep(first, parts, end, words, times, horizon, lanes: Lane, written: Written) -> tuple[Lane, Written]:
    """Run the compiled parts of a round for all rounds.

    Args:
        first: the program of `begin`.
        parts: the program of a round, split into random numbers and the rest.
        end: the program that reads the final state: leaves that neither it nor a round reads are not carried.
        words: the replications' keys.
        times: the rounds at which the regret is recorded.
        horizon: the number of rounds.
        lanes: the state before round 1.
        written: the arrays to write to.

    Returns:
        The state after the last round, and the arrays.
    """
    R, points = words.shape[-1], times.shape[0]
    everyone = jnp.arange(R)
    equal = _lanes.equal_leaves(first, parts.program, len(jax.tree.leaves(lanes)))
    kept = _lanes.carried(parts.program, end, lanes, equal)
    whole = lambda state: _lanes.shared(_lanes.replaced(lanes, kept, state), equal)  # noqa: E731

    def rounds(i, carry):
        """Rounds 2·AHEAD·i to 2·AHEAD·(i + 1) - 1; there is no round 0."""
        first = i * AHEAD
        drawn = draw_ahead(parts.early[0], words, jnp.broadcast_to(first, R), AHEAD)

        def round(t, carry):
            state, closed, written, point = carry
            now = _lanes.of_lanes(drawn, lambda x: lax.dynamic_index_in_dim(x, t // 2 - first, -2, False))
            after, due, action = parts.late([now], jnp.broadcast_to(t % 2, R), whole(state))
            written = written._replace(regret=lax.dynamic_update_index_in_dim(written.regret, after.regret.high, point, 0))
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
        """Write the rounds `first` + i for the bits i that are set in `closed`.

        Scattering at every round would be slow on a CPU, and most rounds end no batch.
        """

        def earliest(carry):
            closed, ended, ends = carry
            t = first + lax.population_count((closed & -closed) - 1).astype(int)
            return closed & (closed - 1), ended + (closed != 0), ends.at[ended, everyone].set(t)

        return lax.while_loop(lambda carry: jnp.any(carry[0] != 0), earliest, (closed, ended, ends))[1:]

    carry = (_lanes.taken(lanes, kept), jnp.zeros(R, int), written, jnp.zeros((), int))
    state, _, written, _ = lax.fori_loop(0, horizon // (2 * AHEAD) + 1, rounds, carry)
    return whole(state), written


class Turns(NamedTuple):
    """The state of all lanes, each in a round of its own."""

    t: Int[Array, " lanes"]
    due: Bool[Array, " lanes"]
    """Whether the batch has ended and the agent is not refreshed yet."""
    point: Int[Array, " lanes"]
    lanes: Lane
    written: Written


def _in_turns(inputs: Inputs, lanes: Lane, written: Written) -> tuple[Lane, Written]:
    """All rounds in turns: lanes play until a block of them is due, or none can play; then those furthest behind are refreshed."""
    keys, wanted, env, agent, batching, times, horizon, _ = inputs
    R, points, concludes = keys.shape[0], times.shape[0], provides(agent, "conclusion")
    block = PLANNING_BLOCK if agent.observes_first else BLOCK
    everyone, size = jnp.arange(R), min(R, block if _lanes.on_cpu() else max(block, R // 4))
    words, zero = _random.words_of(keys).T, jnp.zeros(R, int)

    def one(words, pair, state, half, lane: Lane, live) -> tuple[Lane, Bool[Array, ""], Array]:
        after, due, action = play(env, agent, batching, words, pair, half, lane._replace(agent=state), live)
        return after._replace(agent=()), due, action

    example = jax.tree.map(_lanes.one_lane, (words, zero, lanes.agent, zero, lanes._replace(agent=()), zero == 0))
    parts = _lanes.split(one, [example[:2], example[2:3]], example[3:])
    drawn = jax.eval_shape(partial(draw_ahead, parts.early[0], words, zero, 1))
    numbers = sum(x.size for x in jax.tree.leaves(drawn)) // R
    ahead = max(1, min(AHEAD, LONG // max(1, numbers)))

    def plays(turns: Turns) -> Bool[Array, " lanes"]:
        return ~turns.due & (turns.t < horizon)

    def someone_plays(turns: Turns) -> Bool[Array, ""]:
        return jnp.any(plays(turns)) & (jnp.sum(turns.due) < size)

    def rounds(turns: Turns) -> Turns:
        """At most 2·`ahead` rounds of every lane. What needs only the keys or the agent's state is computed before them."""
        first = Round.of(turns.t + 1)
        drawn = draw_ahead(parts.early[0], words, first.pair, ahead)
        frozen = parts.early[1](turns.lanes.agent)

        def round(carry: tuple[Array, Turns]) -> tuple[Array, Turns]:
            i, turns = carry
            now = _lanes.of_lanes(drawn, lambda x: lax.dynamic_index_in_dim(x, i // 2, -2, False))
            # Lanes whose next round is the second of a pair wait for those whose next is the first.
            live, t = plays(turns) & (i >= first.half), turns.t + 1
            before = turns.lanes
            after, due, action = parts.late([now, frozen], jnp.broadcast_to(i % 2, R), before._replace(agent=()), live)
            old, last = turns.written, turns.written.actions.shape[0]
            written = Written(
                old.regret.at[turns.point, everyone].set(after.regret.high),
                old.ends.at[before.batches, everyone].set(jnp.where(live, t, turns.t)),
                old.actions.at[jnp.where(live, turns.t, last), ..., everyone].set(jnp.moveaxis(action, -1, 0), mode="drop"),
            )
            point = jnp.minimum(turns.point + (live & (times[turns.point] == t)), points - 1)
            due = turns.due | (due & (t < horizon))
            if concludes:  # what is recommended depends on the last batch too
                due = due | (live & (t == horizon))
            return i + 1, Turns(jnp.where(live, t, turns.t), due, point, after._replace(agent=before.agent), written)

        go_on = lambda carry: (carry[0] < 2 * ahead) & someone_plays(carry[1])  # noqa: E731
        return lax.while_loop(go_on, round, (jnp.zeros((), int), turns))[1]

    def some_learn(turns: Turns) -> Turns:
        behind = order(jnp.where(turns.due, turns.t, horizon + 1), horizon + 1)[:size]
        waits = turns.due[behind]
        block = block_of(turns.lanes, behind, waits)
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
    go_on = lambda turns: jnp.any(turns.t < horizon) | (jnp.any(turns.due) if concludes else False)  # noqa: E731
    turns = lax.while_loop(go_on, turn, turns)
    return turns.lanes, turns.written
