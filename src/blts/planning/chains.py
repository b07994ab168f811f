"""One policy's Markov chain on the host: its closed classes, gain and bias, dense or sparse."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from .base import Sparse, Transitions, expected
from .classes import graph_of, structure

DENSE = 64
"""Up to this many states a dense solver is quicker than a sparse one, whatever the chain."""
SOUND = 1e-3
"""An evaluation that misses its own equations by more than this share of the largest reward has lost its digits."""


class Chain:
    """The chain that a policy makes of a model."""

    def __init__(self, transitions: Transitions, rewards: np.ndarray, policy: np.ndarray):
        every = np.arange(policy.size)
        self.rewards = rewards[every, policy]
        if isinstance(transitions, Sparse):
            self.table: Transitions = Sparse(transitions.next[every, policy][:, None], transitions.prob[every, policy][:, None])
        else:
            self.table = transitions[every, policy][:, None]

    @cached_property
    def classes(self) -> list[np.ndarray]:
        """The closed classes."""
        found = structure(self.table)
        return [members for members, end in zip(found.classes, found.closed, strict=True) if end]

    def best_class(self) -> np.ndarray:
        """The closed class with the largest gain."""
        gains = []
        for members in self.classes:
            part = _restricted(self.table, members)
            gains.append(Chain.of(part, self.rewards[members]).gain_and_bias()[0])
        return self.classes[int(np.argmax(gains))]

    @staticmethod
    def of(table: Transitions, rewards: np.ndarray) -> Chain:
        return Chain(table, rewards[:, None], np.zeros(rewards.size, int))

    def gain_and_bias(self) -> tuple[float, np.ndarray]:
        """From the reward x and the time y until a state o is met: g = (r_o + p_o x)/(1 + p_o y) and h = x − g y.

        The state should be met often, or y is large and h loses digits: it is where the chain spends most time. Where the
        digits do not suffice, the bias is NaN.
        """
        states = self.rewards.size
        if states == 1:
            return float(self.rewards[0]), np.zeros(1)
        o = int(self.visits(self.classes[0]).argmax())
        rest = np.delete(np.arange(states), o)
        right = np.stack([self.rewards[rest], np.ones(states - 1)], 1)
        from_o, solution = self._without(o, rest, right)
        with np.errstate(all="ignore"):
            x, y = solution.T
            gain = (self.rewards[o] + from_o @ x) / (1 + from_o @ y)
            h = np.insert(x - gain * y, o, 0.0)
            error = self.rewards + expected(self.table, h)[:, 0] - h - gain  # type: ignore[arg-type]
            sound = np.abs(error).max() <= SOUND * np.abs(self.rewards).max()
        return float(gain), h if sound else np.full(states, np.nan)

    def visits(self, members: np.ndarray, steps: int = 200) -> np.ndarray:
        """Expected visits to each state, in some steps from anywhere among the members."""
        share = np.zeros(self.rewards.size)
        share[members] = 1 / members.size
        total = np.zeros_like(share)
        for _ in range(steps):
            share = self._push(share)
            total += share
        return total

    def _push(self, share: np.ndarray) -> np.ndarray:
        if isinstance(self.table, Sparse):
            mass = self.table.prob[:, 0] * share[:, None]
            return np.bincount(self.table.next[:, 0].ravel(), mass.ravel(), minlength=share.size)
        return share @ self.table[:, 0]

    def _without(self, o: int, rest: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Row o without its diagonal, and the solution of (I − P) x = right among the others."""
        states = self.rewards.size
        if isinstance(self.table, Sparse) and states > DENSE:
            from scipy import sparse
            from scipy.sparse.linalg import splu

            table = self.table
            start = np.arange(states + 1) * table.next.shape[-1]
            P = sparse.csr_array((table.prob.ravel(), table.next.ravel(), start), (states, states))
            inner = sparse.eye_array(states - 1, format="csc") - P[rest][:, rest].tocsc()
            from_o, invert = P[[o]].toarray()[0][rest], lambda: splu(inner.tocsc()).solve(right)
        else:
            P = dense(self.table)
            from_o, invert = P[o, rest], lambda: np.linalg.solve(np.eye(states - 1) - P[np.ix_(rest, rest)], right)
        try:
            return from_o, invert()
        except (np.linalg.LinAlgError, RuntimeError):  # singular: o is out of reach, if only in floating point
            return from_o, np.full_like(right, np.nan)


def evaluated(transitions: Transitions, rewards: np.ndarray, policy: np.ndarray, hint: int) -> tuple[np.ndarray, np.ndarray]:
    """The policy and its bias. With several closed classes, or one that takes for ever to reach, the policy is changed so
    that it leads to the best of them: in a weakly communicating model there is a way, and the gain is no smaller.

    What takes for ever is a class in all but name; `hint` is a state in the most promising one."""
    chain = Chain(transitions, rewards, policy)
    if len(chain.classes) > 1:
        policy = unichain(transitions, policy, chain.best_class())
        chain = Chain(transitions, rewards, policy)
    h = chain.gain_and_bias()[1]
    if np.isfinite(h).all():
        return policy, h
    found = [(-np.inf, policy, h)]
    for members, steps in (([hint], 10 * policy.size), (chain.classes[0], 200), (np.arange(policy.size), 200)):
        visits = chain.visits(np.asarray(members), steps)
        there = unichain(transitions, policy, np.flatnonzero(visits > 1e-3 * visits.max()))
        gain, h = Chain(transitions, rewards, there).gain_and_bias()
        if np.isfinite(h).all():
            found.append((gain, there, h))
    return max(found, key=lambda one: one[0])[1:]


def dense(table: Transitions) -> np.ndarray:
    """The matrix of a chain."""
    if not isinstance(table, Sparse):
        return table[:, 0]  # type: ignore[return-value]
    P = np.zeros((table.next.shape[0],) * 2)
    np.add.at(P, (np.arange(P.shape[0])[:, None], table.next[:, 0]), table.prob[:, 0])
    return P


def _restricted(table: Transitions, members: np.ndarray) -> Transitions:
    """The chain within a closed class."""
    if not isinstance(table, Sparse):
        return table[members][:, :, members]
    number = np.zeros(table.next.shape[0], int)
    number[members] = np.arange(members.size)
    return Sparse(number[table.next[members]], table.prob[members])  # type: ignore[arg-type]


def unichain(transitions: Transitions, policy: np.ndarray, goal) -> np.ndarray:
    """The policy, changed outside `goal` so that from everywhere it leads there by a shortest way, if there is one."""
    from scipy.sparse.csgraph import dijkstra

    graph, (s, a, t) = graph_of(transitions)
    far = dijkstra(graph.T, indices=goal, unweighted=True, min_only=True)
    nearer = np.isfinite(far[t]) & (far[t] == far[s] - 1)
    policy = policy.copy()
    policy[s[nearer][::-1]] = a[nearer][::-1]  # the first such action
    return policy
