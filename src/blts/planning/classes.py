"""Which states a model can travel between: on the host, for models of any size."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .base import Sparse, Transitions


class Structure(NamedTuple):
    """How the states of a model hang together.

    In a weakly communicating model the best gain is the same from every state. In any other it depends on where a run
    starts, and one number cannot say it.
    """

    communicating: bool
    """Every state can be reached from every other, under some policy."""
    weakly_communicating: bool
    """There is one closed class, and under every policy a run ends up in it."""
    classes: tuple[np.ndarray, ...]
    """The sets of states that can reach each other, each sorted, by their first state."""
    closed: tuple[bool, ...]
    """Which classes no action leaves."""
    staying: np.ndarray
    """States outside the closed classes in which a policy can remain for ever outside them."""


def structure(transitions: Transitions) -> Structure:
    """The classes of a model, whatever the probabilities: only which of them are positive matters.

    >>> import numpy as np
    >>> found = structure(np.array([[[0.5, 0.5]], [[0.0, 1.0]]]))
    >>> found.communicating, found.weakly_communicating, [states.tolist() for states in found.classes]
    (False, True, [[0], [1]])
    """
    start, targets, pairs = edges(transitions)
    states = start.size - 1
    sources = np.repeat(np.arange(states), np.diff(start))
    back_start, back = _csr(targets, sources, states)
    every = np.arange(states)
    if reached(start, targets, [0]).all() and reached(back_start, back, [0]).all():
        return Structure(True, True, (every,), (True,), every[:0])
    label = _strong(start, targets)
    classes = [np.flatnonzero(label == k) for k in range(label.max() + 1)]
    classes.sort(key=lambda members: members[0])
    for k, members in enumerate(classes):
        label[members] = k
    open_ = np.zeros(len(classes), bool)
    open_[label[sources[label[sources] != label[targets]]]] = True
    closed = tuple(bool(x) for x in ~open_)
    staying = _staying(open_[label], *pairs)
    return Structure(False, sum(closed) == 1 and not staying.any(), tuple(classes), closed, np.flatnonzero(staying))


def edges(transitions: Transitions) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Who can follow whom under some action, as (start, targets), and the triples (state, action, successor) behind it."""
    if isinstance(transitions, Sparse):
        prob, successors = np.asarray(transitions.prob), np.asarray(transitions.next)
        s, a, k = np.nonzero(prob > 0)
        t = successors[s, a, k]
    else:
        s, a, t = np.nonzero(np.asarray(transitions) > 0)
        prob = np.asarray(transitions)
    states = prob.shape[0]
    unique = np.unique(s.astype(np.int64) * states + t)
    start, targets = _csr(unique // states, unique % states, states)
    return start, targets, (s, a, t)


def _csr(sources: np.ndarray, targets: np.ndarray, states: int) -> tuple[np.ndarray, np.ndarray]:
    """Edges grouped by source: those of s are `targets[start[s]:start[s + 1]]`."""
    order = np.argsort(sources, kind="stable")
    return np.concatenate([[0], np.cumsum(np.bincount(sources, minlength=states))]), targets[order]


def reached(start: np.ndarray, targets: np.ndarray, first) -> np.ndarray:
    """Which states can be reached from those given."""
    return distance(start, targets, first) >= 0


def distance(start: np.ndarray, targets: np.ndarray, first) -> np.ndarray:
    """Steps from the states given along the edges; −1 where none leads."""
    far = np.full(start.size - 1, -1)
    frontier, steps = np.unique(first), 0
    while frontier.size:
        far[frontier] = steps
        counts = start[frontier + 1] - start[frontier]
        ends = np.cumsum(counts)
        along = np.arange(counts.sum()) + np.repeat(start[frontier] - ends + counts, counts)
        after = targets[along]
        frontier, steps = np.unique(after[far[after] < 0]), steps + 1
    return far


def _strong(start: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Strongly connected components (Tarjan 1972), without recursion."""
    states, first, after = start.size - 1, start.tolist(), targets.tolist()
    order, low, label = [-1] * states, [0] * states, [-1] * states
    stack: list[int] = []
    seen = found = 0
    for root in range(states):
        if order[root] >= 0:
            continue
        path = [(root, first[root])]
        while path:
            s, edge = path.pop()
            if order[s] < 0:
                order[s] = low[s] = seen
                seen += 1
                stack.append(s)
            deeper = False
            while edge < first[s + 1]:
                t = after[edge]
                edge += 1
                if order[t] < 0:
                    path += [(s, edge - 1), (t, first[t])]  # the edge is looked at again when t is done
                    deeper = True
                    break
                if label[t] < 0:
                    low[s] = min(low[s], low[t])
            if not deeper and low[s] == order[s]:
                while True:
                    t = stack.pop()
                    label[t] = found
                    if t == s:
                        break
                found += 1
    return np.array(label)


def _staying(inside: np.ndarray, s: np.ndarray, a: np.ndarray, t: np.ndarray) -> np.ndarray:
    """The largest set of states inside in which each has an action that never leads out of it."""
    actions = int(a.max()) + 1
    keep = inside.copy()
    while True:
        leads_out = np.zeros((keep.size, actions), bool)
        np.logical_or.at(leads_out, (s, a), ~keep[t])
        left = keep & ~leads_out.all(1)
        if (left == keep).all():
            return keep
        keep = left
