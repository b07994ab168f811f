"""The Markov chain that a policy induces: closed classes, gain and bias. On the host, dense or sparse, for `solve`."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from .base import Sparse, Transitions, expected
from .classes import graph_of, structure

DENSE = 64
"""Up to this many states a dense solver is faster than a sparse one."""
SOUND = 1e-3
"""An evaluation is rejected if it violates its own equations by more than this fraction of the largest reward."""


class PolicyChain:
    """The Markov chain that a policy induces in a model."""

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
        """The closed class with the largest gain.

        Returns:
            Its states.
        """
        gains = []
        for members in self.classes:
            part = _restricted(self.table, members)
            gains.append(PolicyChain.of(part, self.rewards[members]).gain_and_bias()[0])
        return self.classes[int(np.argmax(gains))]

    @staticmethod
    def of(table: Transitions, rewards: np.ndarray) -> PolicyChain:
        """A chain from its own transitions, with one action.

        Args:
            table: `[states, 1, states]` or `Sparse`.
            rewards: one number per state.

        Returns:
            The chain.
        """
        return PolicyChain(table, rewards[:, None], np.zeros(rewards.size, int))

    def gain_and_bias(self) -> tuple[float, np.ndarray]:
        """Gain and bias, from the expected reward x and time y until a state o is hit: g = (r_o + p_o x)/(1 + p_o y), h = x − g y.

        o is the state visited most: with a rarely visited one y is large and h loses precision.

        Returns:
            The gain and the bias; the bias is NaN where rounding errors are too large.
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
        """Expected visits to each state.

        Args:
            members: the initial state is uniform among these.
            steps: how many transitions.

        Returns:
            One number per state.
        """
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
        """Row o without its diagonal, and the solution of (I − P) x = right on the other states."""
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
        except (np.linalg.LinAlgError, RuntimeError):  # singular: o cannot be reached, at least in floating point
            return from_o, np.full_like(right, np.nan)


def evaluated(transitions: Transitions, rewards: np.ndarray, policy: np.ndarray, hint: int) -> tuple[np.ndarray, np.ndarray]:
    """Evaluate a policy, after changing it where needed so that it has one closed class.

    With several closed classes, or one that is practically never reached, the policy is redirected to the best of them. In a
    weakly communicating model this is possible and does not lower the gain.

    Args:
        transitions: of a weakly communicating model.
        rewards: expected rewards `[states, actions]`.
        policy: an action per state.
        hint: a state where value iteration grows fastest, to redirect to where no class can be evaluated.

    Returns:
        The policy and its bias; the bias is NaN where no redirection could be evaluated.
    """
    chain = PolicyChain(transitions, rewards, policy)
    if len(chain.classes) > 1:
        policy = unichain(transitions, policy, chain.best_class())
        chain = PolicyChain(transitions, rewards, policy)
    h = chain.gain_and_bias()[1]
    if np.isfinite(h).all():
        return policy, h
    found = [(-np.inf, policy, h)]
    for members, steps in (([hint], 10 * policy.size), (chain.classes[0], 200), (np.arange(policy.size), 200)):
        visits = chain.visits(np.asarray(members), steps)
        there = unichain(transitions, policy, np.flatnonzero(visits > 1e-3 * visits.max()))
        gain, h = PolicyChain(transitions, rewards, there).gain_and_bias()
        if np.isfinite(h).all():
            found.append((gain, there, h))
    return max(found, key=lambda one: one[0])[1:]


def dense(table: Transitions) -> np.ndarray:
    """The transition matrix of a chain.

    Args:
        table: `[states, 1, states]` or `Sparse`.

    Returns:
        `[states, states]`.
    """
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
    """Redirect a policy to some states: outside them, take the first action on a shortest path to them.

    Args:
        transitions: of the model.
        policy: an action per state.
        goal: the states to lead to.

    Returns:
        The changed policy; states from which `goal` cannot be reached keep their action.
    """
    from scipy.sparse.csgraph import dijkstra

    graph, (s, a, t) = graph_of(transitions)
    far = dijkstra(graph.T, indices=goal, unweighted=True, min_only=True)
    nearer = np.isfinite(far[t]) & (far[t] == far[s] - 1)
    policy = policy.copy()
    policy[s[nearer][::-1]] = a[nearer][::-1]  # the first such action
    return policy
