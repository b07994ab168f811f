"""Posterior sampling on RiverSwim in NumPy, by hand: one replication after another, and all of them at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Runs(NamedTuple):
    regret: np.ndarray
    batches: np.ndarray


def plan_one(P: np.ndarray, r: np.ndarray, policy: np.ndarray) -> np.ndarray:
    """Howard's method for one model; h[0] = 0."""
    S = r.shape[0]
    while True:
        A = np.zeros((S, S))
        A[:, 0] = 1.0  # the gain takes the place of h[0]
        A[:, 1:] = np.eye(S)[:, 1:] - P[np.arange(S), policy][:, 1:]
        x = np.linalg.solve(A, r[np.arange(S), policy])
        h = np.concatenate([[0.0], x[1:]])
        q = r + P @ h
        better = np.where(q.max(1) > q[np.arange(S), policy] + 1e-9, q.argmax(1), policy)
        if (better == policy).all():
            return policy
        policy = better


def plan_all(P: np.ndarray, r: np.ndarray, policy: np.ndarray) -> np.ndarray:
    """Howard's method for all models at once, with batched solves."""
    R, S = policy.shape
    every = np.arange(S)
    moving = np.arange(R)
    while moving.size:
        rows = P[moving[:, None], every, policy[moving]]
        A = np.concatenate([np.ones((moving.size, S, 1)), (np.eye(S) - rows)[:, :, 1:]], 2)
        x = np.linalg.solve(A, r[every, policy[moving]][..., None])[..., 0]
        h = np.concatenate([np.zeros((moving.size, 1)), x[:, 1:]], 1)
        q = r + np.einsum("msax,mx->msa", P[moving], h)
        now = np.take_along_axis(q, policy[moving][..., None], 2)[..., 0]
        better = np.where(q.max(2) > now + 1e-9, q.argmax(2), policy[moving])
        changed = (better != policy[moving]).any(1)
        policy[moving] = better
        moving = moving[changed]
    return policy


class Rule:
    """When to switch: "static", "dynamic" (a count of a pair doubled) or "tsde" (that, or longer than the last batch)."""

    def __init__(self, name: str, replications: int, states: int, actions: int):
        self.name = name
        self.counts = np.zeros((replications, states * actions), int)
        self.mark = self.counts.copy()
        self.length, self.previous = np.zeros(replications, int), np.zeros(replications, int)

    def step(self, t: int, pair: np.ndarray) -> np.ndarray:
        """Which replications switch after round t."""
        every = np.arange(pair.size)
        if self.name == "static":
            return np.full(pair.size, (t + 1) & t == 0)
        self.counts[every, pair] += 1
        self.length += 1
        due = self.counts[every, pair] > 2 * self.mark[every, pair]  # only the pair just visited can have doubled
        if self.name == "tsde":
            due |= self.length > self.previous
        self.mark[due] = self.counts[due]
        self.previous[due], self.length[due] = self.length[due], 0
        return due


def simulate(seed: int, P: np.ndarray, r: np.ndarray, gain: float, rule: str, *, horizon: int, replications: int) -> Runs:
    """All replications in step, vectorised; the posterior is Dirichlet(1 + counts) and rewards are known."""
    rng = np.random.default_rng(seed)
    S, A = r.shape
    R, every = replications, np.arange(replications)
    below = np.cumsum(P, -1)
    counts = np.zeros((R, S, A, S))
    state, reward = np.zeros(R, int), np.zeros(R)
    switch = Rule(rule, R, S, A)
    batches = np.zeros(R, int)

    def refresh(who: np.ndarray, policy: np.ndarray) -> None:
        g = rng.standard_gamma(1.0 + counts[who])
        policy[who] = plan_all(g / g.sum(-1, keepdims=True), r, policy[who])

    policy = np.tile(r.argmax(1), (R, 1))
    refresh(every, policy)
    for t in range(1, horizon + 1):
        action = policy[every, state]
        reward += r[state, action]
        following = (rng.random(R)[:, None] >= below[state, action]).sum(1)
        counts[every, state, action, following] += 1
        due = switch.step(t, state * A + action)
        batches += due
        state = following
        if t < horizon and due.any():
            refresh(np.flatnonzero(due), policy)
    return Runs(gain * horizon - reward, batches)


def simulate_one_by_one(
    seed: int, P: np.ndarray, r: np.ndarray, gain: float, rule: str, *, horizon: int, replications: int
) -> Runs:
    """A plain loop over rounds, one replication after another."""
    rng = np.random.default_rng(seed)
    S, A = r.shape
    below = np.cumsum(P, -1)
    regret, batches = np.zeros(replications), np.zeros(replications, int)
    for i in range(replications):
        counts, policy = np.zeros((S, A, S)), r.argmax(1)
        visits, mark = np.zeros((S, A), int), np.zeros((S, A), int)
        state, reward, length, previous, due = 0, 0.0, 0, 0, True
        uniforms = rng.random(horizon)
        for t in range(1, horizon + 1):
            if due:
                g = rng.standard_gamma(1.0 + counts)
                policy = plan_one(g / g.sum(-1, keepdims=True), r, policy)
                batches[i] += t > 1
            a = policy[state]
            reward += r[state, a]
            following = int(np.searchsorted(below[state, a], uniforms[t - 1], side="right"))
            counts[state, a, following] += 1
            if rule == "static":
                due = (t + 1) & t == 0
            else:
                visits[state, a] += 1
                length += 1
                due = visits[state, a] > 2 * mark[state, a] or (rule == "tsde" and length > previous)
                if due:
                    mark, previous, length = visits.copy(), length, 0
            state = min(following, S - 1)
        batches[i] += due
        regret[i] = gain * horizon - reward
    return Runs(regret, batches)
