"""What decides, without a database: decisions from a frozen state, and a new state from the rewards.

Keys come from indices exactly as in the simulation: with k = fold_in(key(seed), 0), decision t acts with the second of
split(fold_in(k, t), 3) and a refresh after t decisions learns with the third. Fed a simulation's rewards, this makes a
simulation's decisions.
"""

from __future__ import annotations

import base64
import json
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .. import _random
from .._typing import Array, Bool, Float, Info, Int, Key, Played, PRNGKey, Row, Tree
from ..agents import Pool, Thompson
from ..errors import ConfigError
from ..history import Log, count
from ..samplers.chain import remember_summary

LAST = 2**32 - 1  # no decision has this index: what folds it in has a key of its own
GROWN = 2**32 - 2  # folded in for the starting values of arms that come later
SMALLEST = 16  # decisions of the smallest compiled chunk
LARGEST = 2**14  # and of the largest: more are decided in several
LEAST_ROWS = 256  # room for rewards; it grows fourfold, so that few sizes are compiled


class Never:
    """The batching of somebody else: no decision closes a batch."""

    def init(self, key: PRNGKey, actions: int) -> Tree:
        return ()

    def step(self, state: Tree, obs: Tree, action: Array) -> tuple[Tree, Array]:
        return state, jnp.zeros((), bool)


jax.tree_util.register_pytree_node(Never, lambda never: ((), None), lambda aux, leaves: Never())


class Clock(NamedTuple):
    """What runs on with decisions and never with rewards."""

    t: Int[Array, ""]
    """Decisions so far."""
    plays: Int[Array, " arms"]
    batching: Tree
    due: Bool[Array, ""]
    """Whether the last decision closed its batch."""


class Mixture(NamedTuple):
    """What is mixed into the agent's own choice, so that no arm starves."""

    added: Float[Array, " arms"]
    """Probability that each arm has whatever the agent says: its floor, and the control's share."""
    burn_in: Int[Array, ""]
    """Units that every arm has first. While some lack them, each of those has probability 1/arms on top."""


class Frozen(NamedTuple):
    """A policy version as decisions need it."""

    state: Tree
    law: Float[Array, " arms"]
    """The agent's propensities, where they are the same for the whole batch."""
    by_law: Bool[Array, ""]
    """Whether arms are drawn from `law` itself, because the agent's own choice has no exact propensities."""


class Decided(NamedTuple):
    arms: Int[Array, " size"]
    propensities: Float[Array, "size arms"]
    live: Bool[Array, " size"]
    """False for the padding, and after the end of the batch."""


_replication = jax.jit(lambda key: _random.fold_in(key, 0))


def root_key(seed: int) -> PRNGKey:
    """The key that all others are folded from: that of replication 0."""
    return _replication(_random.as_key(seed))


@jax.jit
def start(key: PRNGKey, agent: Any) -> Tree:
    return agent.init(_random.split(_random.fold_in(key, 0))[1])


@partial(jax.jit, static_argnames=("arms",))
def start_clock(key: PRNGKey, batching: Any, arms: int) -> Clock:
    state = batching.init(_random.fold_in(key, LAST), arms)
    return Clock(jnp.zeros((), int), jnp.zeros(arms, int), state, jnp.zeros((), bool))


def check_agent(agent: Any, name: str) -> None:
    if not hasattr(agent, "propensities") and not hasattr(agent, "propensities_at"):
        raise ConfigError(f"{name} does not say with which probability it plays each arm; use one of the registered agents.")
    if agent.observes_first:
        raise ConfigError(f"{name} plans in an MDP and cannot run an experiment; use blts, exact-ts or another bandit agent.")


def is_fixed(agent: Any) -> bool:
    """Whether the propensities are one vector for the whole batch."""
    return hasattr(agent, "propensities")


def has_exact_law(agent: Any, state: Tree) -> bool:
    """Whether `propensities` is exact up to quadrature, rather than estimated from draws."""
    if not isinstance(agent, Thompson):
        return True
    if isinstance(agent.belief, Pool):
        return bool(np.all(np.asarray(state.n) > 0))
    structure = jax.tree.structure((agent, state))
    if structure not in _CLOSED:  # tracing takes longer than the refresh of a small experiment
        _CLOSED[structure] = jax.eval_shape(lambda s: agent.belief.laws(agent.model, s, ()), state) is not None
    return _CLOSED[structure]


_CLOSED: dict[Any, bool] = {}


_propensities = jax.jit(lambda agent, state: agent.propensities(state))


def freeze(agent: Any, state: Tree, draw: str) -> Frozen:
    """A state with its propensities; `draw` says who chooses: "agent", "vector", or "auto" for the one that is exact."""
    if not is_fixed(agent):
        return Frozen(state, jnp.full(agent.actions, jnp.nan), jnp.zeros((), bool))
    by_law = draw == "vector" or (draw == "auto" and not has_exact_law(agent, state))
    return Frozen(state, _propensities(agent, state), jnp.asarray(by_law))


# Decisions


def chunk_size(n: int) -> int:
    """The compiled size that holds n decisions."""
    return min(max(SMALLEST, 1 << max(n - 1, 0).bit_length()), LARGEST)


@partial(jax.jit, static_argnames=("size",))
def decide(
    key: PRNGKey, agent: Any, batching: Any, frozen: Frozen, clock: Clock, mixture: Mixture, limit: Int[Array, ""], *, size: int
) -> tuple[Clock, Decided]:
    """Up to `limit` decisions, cut where the batch ends."""
    ts = clock.t + 1 + jnp.arange(size)
    keys = jax.vmap(lambda t: _random.split(_random.fold_in(key, t), 3)[1])(ts)
    fixed = is_fixed(agent)
    act = jax.vmap(lambda k, t: agent.act(k, frozen.state, (), Played(t, clock.plays)))
    own = act(keys, ts) if fixed else ts  # where nothing depends on the decisions before, all are drawn at once
    # An agent splits its key into as many as it has arms; the last index is none of them.
    coins = jax.vmap(lambda k: _random.uniform(_random.fold_in(k, LAST), (2,)))(keys)

    def step(carry, x):
        clock = carry
        t, k, arm, coin, inside = x
        live = inside & ~clock.due
        law = frozen.law
        if not fixed:
            played = Played(t, clock.plays)
            arm, law = agent.act(k, frozen.state, (), played), agent.propensities_at(frozen.state, (), played)
        arm, law = mix(coin, arm, law, frozen.by_law, mixture, clock.plays)
        state, closes = batching.step(clock.batching, (), arm)
        after = Clock(t, count(clock.plays, arm, live), state, closes)
        after = jax.tree.map(lambda new, old: jnp.where(live, new, old), after, clock)
        return after, Decided(arm, law, live)

    return lax.scan(step, clock, (ts, keys, own, coins, jnp.arange(size) < limit))


def mix(coin: Float[Array, " 2"], arm: Array, law: Array, by_law: Array, mixture: Mixture, plays: Array) -> tuple[Array, Array]:
    """The arm played and its propensities: burn-in first, then floors, then the agent."""
    arms = plays.shape[0]
    lacking = jnp.where(plays < mixture.burn_in, 1.0, 0.0)
    burning = jnp.sum(lacking) / arms
    added = jnp.sum(mixture.added)
    which, within = coin
    arm = jnp.where(by_law, pick(within, law), arm)
    arm = jnp.where(which < burning + (1 - burning) * added, pick(within, mixture.added), arm)
    arm = jnp.where(which < burning, pick(within, lacking), arm)
    return arm, lacking / arms + (1 - burning) * (mixture.added + (1 - added) * law)


def pick(u: Array, weights: Array) -> Array:
    """The arm that u ∈ [0, 1) falls on; one without weight is never picked."""
    total = jnp.cumsum(weights)
    last = weights.shape[0] - 1 - jnp.argmax((weights > 0)[::-1])  # where rounding carries u beyond the end
    return jnp.minimum(jnp.sum(u * total[-1] >= total), last)


# Rewards


class Data(NamedTuple):
    """The rewards that a refresh learns from, in the order of their decisions."""

    arms: np.ndarray
    rewards: np.ndarray

    def of(self, active: tuple[int, ...]) -> Data:
        """The rows of some arms, renumbered."""
        place = np.full(max((*active, int(self.arms.max(initial=-1)))) + 1, -1)
        place[list(active)] = np.arange(len(active))
        mine = place[self.arms] >= 0
        return Data(place[self.arms[mine]], self.rewards[mine])


def capacity_for(rows: int) -> int:
    """Room for so many rewards."""
    capacity = LEAST_ROWS
    while capacity < rows:
        capacity *= 4
    return capacity


@jax.jit
def _remember_all(agent: Any, history: Tree, arms: Array, rewards: Array, live: Array) -> Tree:
    def add(history, x):
        arm, reward, ok = x
        return agent.remember(history, Row((), arm, reward, ()), ok), None

    return lax.scan(add, history, (arms, rewards, live))[0]


class _Summaries(NamedTuple):
    """Only the summaries of a log, one row at a time."""

    model: Any

    def remember(self, history, row, live):
        return remember_summary(self.model, history, row, live)


def load(agent: Any, data: Data) -> Tree:
    """The agent's memory of these rows, as if it had been told them one by one. This is linear in their number."""
    rows, capacity = len(data.arms), capacity_for(len(data.arms))
    empty = agent.empty(Row((), jnp.zeros((), int), jnp.zeros(()), ()), capacity)
    arms, rewards = np.zeros(capacity, np.int32), np.zeros(capacity, empty_dtype())
    arms[:rows], rewards[:rows] = data.arms, data.rewards
    live = np.arange(capacity) < rows
    if not isinstance(empty, Log):
        return _remember_all(agent, empty, arms, rewards, live)
    # A log need not be written row by row: a row's rank is its place among those of its arm.
    counts = np.bincount(data.arms, minlength=agent.actions)
    rank = np.zeros(capacity, np.int32)
    by_arm = np.argsort(data.arms, kind="stable")
    rank[by_arm] = np.arange(rows) - np.repeat(np.cumsum(counts) - counts, counts)
    summary = empty.summary
    if jax.tree.leaves(summary):
        summary = _remember_all(_Summaries(agent.model), summary, arms, rewards, live)
    columns: Any = (Row((), arms, rewards, ()), rank, counts, 0, rows, summary)  # type: ignore[arg-type]
    return jax.tree.map(lambda new, like: jnp.asarray(new, jnp.result_type(like)), Log(*columns), empty)


def empty_dtype() -> Any:
    return jnp.zeros(()).dtype


@jax.jit
def _observe(agent: Any, key: Key[Array, ""], state: Tree, history: Tree) -> tuple[Tree, Info]:
    block = jax.tree.map(lambda x: jnp.asarray(x)[None], (state, history))
    new, info = agent.observe(key[None], *block)
    return jax.tree.map(lambda x: x[0], (new, info))


def learn(key: PRNGKey, agent: Any, state: Tree, data: Data, *, t: int, repeat: int) -> tuple[Tree, Info]:
    """The state after a refresh with t decisions made; `repeat` counts the refreshes at that t before this one."""
    return _observe(agent, _observe_key(key, t, repeat), state, load(agent, data))


@jax.jit
def _observe_key(key: PRNGKey, t: Array, repeat: Array) -> PRNGKey:
    key = _random.split(_random.fold_in(key, t), 3)[2]
    return lax.cond(repeat > 0, lambda: _random.fold_in(key, repeat), lambda: key)


def failings(frozen: Frozen, info: dict[str, float | bool | None], fixed: bool, rhat_limit: float) -> list[str]:
    """Why a refreshed state must not decide; none where it may."""
    found = []
    if not info["finite"] or not all_finite(frozen.state):
        found.append("the posterior is not finite")
    elif fixed and not abs(float(np.asarray(frozen.law).sum()) - 1) < 1e-3:
        found.append("its propensities do not add up to one")
    rhat = info["rhat"]
    if isinstance(rhat, float) and rhat > rhat_limit:
        found.append(f"R-hat is {rhat:.3f}, above {rhat_limit:g}: the chains do not agree; take more steps")
    return found


def all_finite(tree: Tree) -> bool:
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]
    return all(np.isfinite(leaf).all() for leaf in leaves if leaf.dtype.kind == "f")


def diagnostics(info: Info) -> dict[str, float | bool | None]:
    """An Info for JSON: a figure that does not apply is None."""
    out: dict[str, float | bool | None] = {"finite": bool(info.finite)}
    for name, value in info._asdict().items():
        if name != "finite":
            out[name] = float(value) if np.isfinite(value) else None
    return out


# Arms that come and go


def carry(old: Tree, fresh: Tree, before: tuple[int, ...], after: tuple[int, ...]) -> Tree:
    """`fresh` with what `old` knows of the arms that both have. Arrays have their arms in front; numbers are kept."""
    kept = [arm for arm in after if arm in before]
    source = [before.index(arm) for arm in kept]
    place = [after.index(arm) for arm in kept]

    def move(a, b):
        if jnp.ndim(b) == 0:
            return a
        if jnp.shape(a)[0] != len(before) or jnp.shape(b)[0] != len(after):
            raise ConfigError("This agent or batching keeps numbers that are not one for each arm, so its arms cannot change.")
        return jnp.asarray(b).at[np.array(place, int)].set(jnp.asarray(a)[np.array(source, int)])

    return jax.tree.map(move, old, fresh)


@jax.jit
def start_grown(key: PRNGKey, agent: Any, version: int) -> Tree:
    """Starting values for a policy version with other arms."""
    return agent.init(_random.fold_in(_random.fold_in(key, GROWN), version))


# As text, without losing a bit


def encode(tree: Tree) -> str:
    """The arrays of a tree as JSON, bit for bit."""

    def one(leaf):
        if jnp.issubdtype(getattr(leaf, "dtype", np.float32), jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        x = np.asarray(leaf)
        return [x.dtype.str, list(x.shape), base64.b64encode(np.ascontiguousarray(x).tobytes()).decode()]

    return json.dumps([one(leaf) for leaf in jax.tree.leaves(tree)])


def decode(text: str, like: Tree) -> Tree:
    """The tree that `encode` wrote, in the structure of `like`."""
    leaves, structure = jax.tree.flatten(like)

    def one(item, like):
        dtype, shape, data = item
        x = np.frombuffer(base64.b64decode(data), np.dtype(dtype)).reshape(shape)
        if jnp.issubdtype(getattr(like, "dtype", np.float32), jax.dtypes.prng_key):
            return jax.random.wrap_key_data(jnp.asarray(x), impl=jax.random.key_impl(like))
        return jnp.asarray(x)

    return jax.tree.unflatten(structure, [one(item, like) for item, like in zip(json.loads(text), leaves, strict=True)])


__all__ = [
    "Clock",
    "Data",
    "Decided",
    "Frozen",
    "Mixture",
    "Never",
    "carry",
    "chunk_size",
    "decide",
    "decode",
    "diagnostics",
    "encode",
    "failings",
    "freeze",
    "learn",
    "load",
    "root_key",
    "start",
    "start_clock",
]
