"""A new state from the rewards, without a database. The keys are the simulation's, as in `policy`."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .. import _random, diagnosis
from .._typing import Array, Info, Key, PRNGKey, Row, Tree
from ..agents import Agent
from ..history import Log, remember_summary
from ..models import Model
from .policy import Frozen

LEAST_ROWS = 256  # room for rewards; it grows fourfold, so that few sizes are compiled


class Data(NamedTuple):
    """The rewards that a refresh learns from, in the order of their decisions."""

    arms: np.ndarray
    rewards: np.ndarray
    x: np.ndarray | None = None
    """The numbers of their contexts, `[rows, columns]`; None where decisions have none."""

    def of(self, active: tuple[int, ...]) -> Data:
        """The rows of some arms, renumbered."""
        if active == tuple(range(len(active))) and self.arms.max(initial=-1) < len(active):
            return self
        place = np.full(max((*active, int(self.arms.max(initial=-1)))) + 1, -1)
        place[list(active)] = np.arange(len(active))
        mine = place[self.arms] >= 0
        return Data(place[self.arms[mine]], self.rewards[mine], None if self.x is None else self.x[mine])


def capacity_for(rows: int) -> int:
    """Room for so many rewards."""
    capacity = LEAST_ROWS
    while capacity < rows:
        capacity *= 4
    return capacity


@partial(jax.jit, static_argnames="capacity")
def _empty(agent: Agent, row: Row, capacity: int) -> Tree:
    return agent.empty(row, capacity)


@jax.jit
def _remember_all(agent: Agent, history: Tree, rows: Row, live: Array) -> Tree:
    def add(history, x):
        row, ok = x
        return agent.remember(history, row, ok), None

    return lax.scan(add, history, (rows, live))[0]


@jax.jit
def _seen(agent: Agent, rows: Row) -> Row:
    """Rounds as the agent's model sees them."""
    return jax.vmap(agent.seen)(rows)


def seen_rows(agent: Agent, data: Data) -> Row:
    """Rewards with contexts as the agent's model sees them."""
    seen = jax.device_get(_seen(agent, _padded(data)))
    return jax.tree.map(lambda x: x[: len(data.arms)], seen)


def _padded(data: Data) -> Row:
    """Rewards as rows, with room for more, so that few sizes are compiled."""
    rows, capacity = len(data.arms), capacity_for(len(data.arms))

    def pad(values: np.ndarray, kind: Any) -> Any:
        out = np.zeros((capacity, *values.shape[1:]), kind)
        out[:rows] = values
        return out

    shown = () if data.x is None else pad(data.x, empty_dtype())
    return Row(shown, pad(data.arms, np.int32), pad(data.rewards, empty_dtype()), ())


class _Summaries(NamedTuple):
    """Only the summaries of a log, one row at a time."""

    model: Model

    def remember(self, history, row, live):
        return remember_summary(self.model, history, row, live)


def load(agent: Agent, data: Data) -> Tree:
    """The agent's memory of these rows, as if it had been told them one by one. This is linear in their number."""
    rows, capacity = len(data.arms), capacity_for(len(data.arms))
    x: Any = () if data.x is None else jnp.zeros(data.x.shape[1])
    empty = _empty(agent, Row(x, jnp.zeros((), int), jnp.zeros(()), ()), capacity)
    all_rows, live = _padded(data), np.arange(capacity) < rows
    if not isinstance(empty, Log) or not agent.plain_memory:
        return _remember_all(agent, empty, all_rows, live)
    if data.x is not None:
        all_rows = jax.device_get(_seen(agent, all_rows))
    # A log need not be written row by row: a row's rank is its place among those of its arm.
    own = np.asarray(all_rows.action)[:rows]
    counts = np.bincount(own, minlength=len(empty.counts))
    rank = np.zeros(capacity, np.int32)
    by_arm = np.argsort(own, kind="stable")
    rank[by_arm] = np.arange(rows) - np.repeat(np.cumsum(counts) - counts, counts)
    summary = empty.summary
    if jax.tree.leaves(summary):
        summary = _remember_all(_Summaries(agent.model), summary, all_rows, live)
    columns: Any = (all_rows, rank, counts, 0, rows, summary)
    return jax.tree.map(lambda new, like: jnp.asarray(new, jnp.result_type(like)), Log(*columns), empty)


def empty_dtype() -> np.dtype:
    """The precision that rewards have in computations."""
    return jnp.zeros(()).dtype


@jax.jit
def _observe(agent: Agent, key: Key[Array, ""], state: Tree, history: Tree) -> tuple[Tree, Info]:
    block = jax.tree.map(lambda x: jnp.asarray(x)[None], (state, history))
    new, info = agent.observe(key[None], *block)
    return jax.tree.map(lambda x: x[0], (new, info))


def learn(key: PRNGKey, agent: Agent, state: Tree, data: Data, *, t: int, repeat: int) -> tuple[Tree, Info]:
    """The state after a refresh with t decisions made; `repeat` counts the refreshes at that t before this one."""
    return learn_from(key, agent, state, load(agent, data), t=t, repeat=repeat)


def learn_from(key: PRNGKey, agent: Agent, state: Tree, history: Tree, *, t: int, repeat: int) -> tuple[Tree, Info]:
    """The same from the agent's memory, however that was made."""
    return _observe(agent, _observe_key(key, t, repeat), state, history)


@jax.jit
def learn_many(
    keys: PRNGKey, agents: Agent, states: Tree, rows: tuple[Array, Array, Array], t: Array, repeat: Array
) -> tuple[Tree, Info]:
    """`learn` for several experiments at once: all arguments have one axis more in front.

    Args:
        keys: of the experiments.
        agents: who learns; they may differ in their prior.
        states: before the refresh.
        rows: arms [experiments, capacity], rewards [experiments, capacity], and how many of them there are [experiments].
        t: decisions made.
        repeat: refreshes at that t before this one.

    Returns:
        The states after the refresh, and their diagnostics.
    """
    arms, rewards, count = rows

    def add(i: Array, histories: Tree) -> Tree:
        one = lambda agent, history, arm, reward, live: agent.remember(history, Row((), arm, reward, ()), live)  # noqa: E731
        return jax.vmap(one)(agents, histories, arms[:, i], rewards[:, i], i < count)

    row = Row((), jnp.zeros((), int), jnp.zeros(()), ())
    histories = lax.fori_loop(0, jnp.max(count), add, jax.vmap(lambda agent, _: agent.empty(row, arms.shape[1]))(agents, count))
    return jax.vmap(_observe)(agents, jax.vmap(_observe_key)(keys, t, repeat), states, histories)


@jax.jit
def _observe_key(key: PRNGKey, t: Array, repeat: Array) -> PRNGKey:
    key = _random.round_key(key, _random.Round.of(t), _random.OBSERVE)
    return lax.cond(repeat > 0, lambda: _random.fold_in(key, repeat), lambda: key)


def failings(frozen: Frozen, info: dict[str, float | bool | None], fixed: bool, rhat_limit: float) -> list[str]:
    """Why a refreshed state must not decide; none where it may."""
    found = []
    if not info["finite"] or not all_finite(frozen.state):
        found.append("the posterior is not finite")
    elif fixed and not abs(float(np.asarray(frozen.law).sum()) - 1) < 1e-3:
        found.append("its propensities do not add up to one")
    figures = {name: _figure(info, name) for name in ("rhat", "stuck", "least")}
    return found + diagnosis.failings(**figures, rhat_limit=rhat_limit)


MOST_DIGITS = 1e5  # mean over standard error of an arm's rewards that single precision can tell draws apart at


def too_fine(arms: np.ndarray, rewards: np.ndarray) -> list[str]:
    """Why rewards cannot be learned from in single precision: they are far from zero and hardly differ.

    Args:
        arms: of the rewards.
        rewards: in any order.

    Returns:
        A sentence, or nothing.
    """
    for arm in np.unique(arms):
        mine = rewards[arms == arm]
        if len(mine) < 2 or not np.ptp(mine):
            continue
        centre, error = float(np.abs(mine).mean()), float(mine.std() / np.sqrt(len(mine)))
        if centre > MOST_DIGITS * error:
            return [
                f"rewards around {mine.mean():.6g} (standard error {error:.2g}) are too far from zero for single precision; "
                "subtract a constant"
            ]
    return []


def _figure(info: dict[str, float | bool | None], name: str) -> float:
    """NaN where it does not apply, or where an older version of this library wrote the figures."""
    value = info.get(name)
    return math.nan if value is None else float(value)


def chains_in_words(info: dict[str, float | bool | None]) -> str:
    """How the chains of a refresh did, in a sentence; empty where there were none to compare."""
    return diagnosis.describe(*(_figure(info, name) for name in ("acceptance", "least", "rhat", "stuck", "ess")))


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
