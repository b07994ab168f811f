"""The communicating classes of a model, on the host, for models of any size."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .base import Sparse, Transitions

if TYPE_CHECKING:
    from scipy.sparse import csr_array


class Structure(NamedTuple):
    """The communicating classes of a model.

    In a weakly communicating model the optimal gain is the same from every state. Otherwise it depends on the initial state.

    >>> import numpy as np
    >>> from blts.planning import structure
    >>> structure(np.eye(2)[:, None]).closed
    (True, True)
    """

    communicating: bool
    """Every state can be reached from every other, under some policy."""
    weakly_communicating: bool
    """There is one closed class, and every policy ends up in it."""
    classes: tuple[np.ndarray, ...]
    """The sets of states that can reach each other, each sorted, by their first state."""
    closed: tuple[bool, ...]
    """Whether each class is closed: no action leaves it."""
    staying: np.ndarray
    """States from which some policy never enters a closed class."""


def structure(transitions: Transitions) -> Structure:
    """The communicating classes of a model. Only which probabilities are positive matters.

    Args:
        transitions: `[states, actions, states]` or `Sparse`.

    Returns:
        The classes, and whether the model is communicating or weakly communicating.

    >>> import numpy as np
    >>> found = structure(np.array([[[0.5, 0.5]], [[0.0, 1.0]]]))
    >>> found.communicating, found.weakly_communicating, [states.tolist() for states in found.classes]
    (False, True, [[0], [1]])
    """
    from scipy.sparse.csgraph import connected_components

    graph, pairs = graph_of(transitions)
    count, label = connected_components(graph, directed=True, connection="strong")
    every = np.arange(label.size)
    if count == 1:
        return Structure(True, True, (every,), (True,), every[:0])
    classes = sorted((np.flatnonzero(label == k) for k in range(count)), key=lambda members: members[0])
    for k, members in enumerate(classes):
        label[members] = k
    sources, targets = graph.nonzero()
    open_ = np.zeros(count, bool)
    open_[label[sources[label[sources] != label[targets]]]] = True
    closed = tuple(bool(x) for x in ~open_)
    staying = _staying(open_[label], *pairs)
    return Structure(False, sum(closed) == 1 and not staying.any(), tuple(classes), closed, np.flatnonzero(staying))


def graph_of(transitions: Transitions) -> tuple[csr_array, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """The graph of possible transitions.

    Args:
        transitions: dense or `Sparse`.

    Returns:
        A sparse adjacency matrix of the states, and the triples (state, action, successor) with positive probability.
    """
    from scipy.sparse import csr_array

    if isinstance(transitions, Sparse):
        prob, successors = np.asarray(transitions.prob), np.asarray(transitions.next)
        s, a, k = np.nonzero(prob > 0)
        t = successors[s, a, k]
    else:
        prob = np.asarray(transitions)
        s, a, t = np.nonzero(prob > 0)
    return csr_array((np.ones(s.size, np.int32), (s, t)), shape=(prob.shape[0],) * 2), (s, a, t)


def _staying(inside: np.ndarray, s: np.ndarray, a: np.ndarray, t: np.ndarray) -> np.ndarray:
    """The largest subset in which every state has an action that never leaves the subset."""
    actions = int(a.max()) + 1
    keep = inside.copy()
    while True:
        leads_out = np.zeros((keep.size, actions), bool)
        np.logical_or.at(leads_out, (s, a), ~keep[t])
        left = keep & ~leads_out.all(1)
        if (left == keep).all():
            return keep
        keep = left
