"""Numbers for each decision and arm, computed for some decisions at a time.

The propensities of a million decisions of ten arms are 80 MB, and so is every intermediate result of an estimate.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

BLOCK = 2**15  # decisions at a time


class Propensities:
    """The propensities of T decisions, `[T, K]`, of which many are equal: rows of an array with the distinct ones.

    Args:
        vectors: the distinct ones, `[vectors, K]`.
        which: of them each decision has, `[T]`.
    """

    def __init__(self, vectors: np.ndarray, which: np.ndarray):
        self.vectors, self.which = vectors, which

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.which), self.vectors.shape[1]

    def __getitem__(self, decisions: Any) -> np.ndarray:
        """The propensities of some decisions: a slice, a mask or numbers."""
        return self.vectors[self.which[decisions]]

    @property
    def differ(self) -> bool:
        """Whether not all decisions have the same."""
        some = self.vectors[np.unique(self.which)]
        return bool((some != some[:1]).any())

    def of(self, decisions: Any) -> Propensities:
        """The same for some decisions alone."""
        return Propensities(self.vectors, self.which[decisions])


def blocks(T: int) -> Iterator[slice]:
    """The numbers from 0 to T - 1, some at a time; one empty slice where there are none."""
    return (slice(start, min(start + BLOCK, T)) for start in range(0, max(T, 1), BLOCK))


def own_propensities(arms: np.ndarray, p: np.ndarray | Propensities) -> np.ndarray:
    """The probability that each decision had of its own arm."""
    return np.concatenate([p[some][np.arange(some.stop - some.start), arms[some]] for some in blocks(len(arms))])


class Sums:
    """Sums over decisions, added in their order, so that they do not depend on blocks."""

    def __init__(self):
        self._sums: dict[str, np.ndarray] = {}

    def add(self, **terms: np.ndarray) -> None:
        """More terms of some sums, `[decisions, ...]`."""
        for name, more in terms.items():
            before = self._sums.get(name)
            self._sums[name] = (more if before is None else np.concatenate([before[None], more])).sum(0)

    def __getattr__(self, name: str) -> np.ndarray:
        return self._sums[name]
