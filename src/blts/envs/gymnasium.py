"""Gymnasium's tabular environments (FrozenLake, CliffWalking, Taxi) as MDPs. blts itself does not import Gymnasium."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .._typing import Int
from ..errors import ConfigError
from .tabular import MDP

_Row = dict[int, float]
"""Probabilities of next states."""


def from_gymnasium(env: Any) -> MDP:
    """Convert an environment whose transitions are in `env.unwrapped.P`, as P[s][a] = [(p, s', reward, done), …].

    Episodes are concatenated, so that there is an average reward: a transition with `done` leads to the initial distribution in
    the same round. States that cannot be reached from an initial state, including terminal ones, are left out (`states_of`). The
    first episode starts in the most likely initial state. Time limits of wrappers are ignored.

    Args:
        env: the Gymnasium environment.

    Returns:
        The MDP, with expected rewards r(s, a) = Σ p · reward.

    Raises:
        ConfigError: the environment is not tabular, or its table is malformed.

    >>> from types import SimpleNamespace
    >>> step = [{0: [(0.5, 0, 0.0, False), (0.5, 1, 1.0, True)]}, {0: [(1.0, 1, 0.0, True)]}]
    >>> print(from_gymnasium(SimpleNamespace(P=step, initial_state_distrib=[1.0, 0.0])))
    An MDP of 1 states and 1 actions with the optimal average reward 0.5.
    """
    outcomes, initial = _read(env)
    rows, rewards = _continued(outcomes, initial)
    kept = _reachable(rows, initial)
    number = {int(s): i for i, s in enumerate(kept)}
    width = max(len(row) for s in number for row in rows[s])
    successors = np.zeros((kept.size, len(rows[0]), width), int)
    transitions = np.zeros(successors.shape)
    for s, i in number.items():
        for a, row in enumerate(rows[s]):
            successors[i, a, : len(row)] = [number[after] for after in row]
            transitions[i, a, : len(row)] = list(row.values())
    return MDP(transitions, rewards[kept], start=number[int(np.argmax(initial))], successors=successors)


def states_of(env: Any) -> Int[np.ndarray, " states"]:
    """The Gymnasium states that `from_gymnasium` keeps: state i of the MDP is `states_of(env)[i]`.

    Args:
        env: the Gymnasium environment.

    Returns:
        Their numbers in Gymnasium.

    >>> from types import SimpleNamespace
    >>> stay = [{0: [(1.0, s, 0.0, False)]} for s in range(3)]
    >>> states_of(SimpleNamespace(P=stay, initial_state_distrib=[0.0, 1.0, 0.0])).tolist()
    [1]
    """
    outcomes, initial = _read(env)
    return _reachable(_continued(outcomes, initial)[0], initial)


def _read(env: Any) -> tuple[list[list[list[tuple]]], np.ndarray]:
    """The outcomes of each state and action, and the initial distribution; or an error if the environment is not tabular."""
    inner = getattr(env, "unwrapped", env)
    name, table, initial = type(inner).__name__, getattr(inner, "P", None), getattr(inner, "initial_state_distrib", None)
    if table is None:
        raise ConfigError(f"from_gymnasium needs a tabular environment, one with env.unwrapped.P; {name} has none.")
    if initial is None:
        raise ConfigError(f"from_gymnasium needs env.unwrapped.initial_state_distrib, where episodes start; {name} has none.")
    try:
        outcomes = [[[(float(p), int(t), float(r), bool(d)) for p, t, r, d in pair] for pair in _listed(s)] for s in _listed(table)]
        start = np.asarray(initial, float)
    except (TypeError, ValueError, KeyError):
        raise ConfigError(f"{name}: P must be P[state][action] = [(probability, next state, reward, done), …].") from None
    states, actions = len(outcomes), {len(pairs) for pairs in outcomes}
    if len(actions) != 1 or 0 in actions:
        raise ConfigError(f"{name}: P must have the same actions in every state; got {sorted(actions)} of them.")
    for s, pairs in enumerate(outcomes):
        for a, pair in enumerate(pairs):
            if any(not 0 <= after < states for _, after, _, _ in pair):
                raise ConfigError(f"{name}: next states must be from 0 to {states - 1}; P[{s}][{a}] has another.")
            if any(not 0 <= p <= 1 for p, *_ in pair) or abs(sum(p for p, *_ in pair) - 1) > 1e-5:
                raise ConfigError(f"{name}: the probabilities of P[{s}][{a}] must be ≥ 0 and add up to 1.")
    if start.shape != (states,) or not (start >= 0).all() or abs(start.sum() - 1) > 1e-5:
        raise ConfigError(f"{name}: initial_state_distrib must have {states} probabilities that add up to 1.")
    return outcomes, start


def _listed(table: Any) -> list:
    """A dictionary with the keys 0, 1, … as a list."""
    return [table[i] for i in range(len(table))] if isinstance(table, Mapping) else list(table)


def _continued(outcomes: list[list[list[tuple]]], initial: np.ndarray) -> tuple[list[list[_Row]], np.ndarray]:
    """The transitions of the concatenated episodes, and the expected rewards."""
    rewards = np.array([[sum(p * r for p, _, r, _ in pair) for pair in pairs] for pairs in outcomes])
    starts = [(int(s), float(initial[s])) for s in np.flatnonzero(initial)]

    def row(pair: list[tuple]) -> _Row:
        found: _Row = {}
        for p, after, _, done in pair:
            for s, share in starts if done else [(after, 1.0)]:
                found[s] = found.get(s, 0.0) + p * share
        return {s: p for s, p in found.items() if p > 0}

    return [[row(pair) for pair in pairs] for pairs in outcomes], rewards


def _reachable(rows: list[list[_Row]], initial: np.ndarray) -> Int[np.ndarray, " states"]:
    """The states that some policy reaches from an initial state, in order."""
    ahead = np.flatnonzero(initial).tolist()
    seen = set(ahead)
    while ahead:
        new = {after for row in rows[ahead.pop()] for after in row} - seen
        seen |= new
        ahead += new
    return np.array(sorted(seen))
