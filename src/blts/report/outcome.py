"""A study with its results: what varies between its conditions, and the words for it."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import ConfigError, UnknownName
from ..statistics import Summary, summarise
from ..studies.spec import Condition, Study
from ..studies.store import Result, Store
from .comparing import Agreement, agreement
from .growth import Growth, growth
from .words import word_of

PROBLEM = ("env", "horizon", "drawn", "n", "arms", "states", "condition_number")
"""Names that say which problem is solved. Scores of different problems are not compared."""
TELLING = (*PROBLEM, "agents", "leave", "method")
"""Names that tell the problem where a label has them: T counts the rounds of all agents, and a method names its setting."""
SETTLED = ("agent", "batching", "times")
"""Names whose place a study's rows and columns decide, and one that changes no result."""
WITHOUT_PRIOR = ("ucb1", "eps-greedy", "base", "sequential-halving", "uniform", "optimal")
"""Agents that read no prior. Conditions name one for them, which matters where worlds are drawn from it or a rule stops by it."""
IMPORTANT = ("env", "agent", "batching", "prior", "method")
"""Names in the order in which a table or figure prefers them; options follow, then these:"""
LEAST = ("horizon", "drawn", "times")
NOT_NAMES = ("metric", "mean", "sd", "n", "study", "where")
"""Keys of a printed row that name no condition: the number itself, and where it was printed."""


@dataclasses.dataclass(frozen=True, eq=False)
class Measured:
    """One condition and the arrays of all its replications."""

    condition: Condition
    arrays: dict[str, np.ndarray]
    about: dict[str, Any]
    provenance: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    """Of each cell, by its address."""
    kept: dict[Any, Any] = dataclasses.field(default_factory=dict)
    """Statistics that were asked for before."""

    def values(self, metric: str) -> np.ndarray:
        """The numbers of a metric, a replication each."""
        known = self.metrics()
        if metric not in known:
            raise UnknownName("metric", metric, known)
        return np.asarray(self.arrays[metric], float)

    def metrics(self) -> list[str]:
        return [name for name, array in self.arrays.items() if array.ndim == 1 and array.dtype.kind in "iuf"]

    def summary(self, metric: str, first: int | None = None) -> Summary | None:
        """Over all replications or the first few; None where some are not finite."""
        if (metric, first) not in self.kept:
            values = self.values(metric)[:first]
            fit = np.isfinite(values).all() and len(values) > 1
            self.kept[metric, first] = summarise(values) if fit else None
        return self.kept[metric, first]

    def growth(self, array: str) -> Growth | None:
        """Growth of an array of curves; None where some are not finite."""
        if array not in self.kept:
            curves = self.arrays[array]
            self.kept[array] = growth(np.asarray(self.about["times"]), curves) if np.isfinite(curves).all() else None
        return self.kept[array]

    def key(self, names: Iterable[str]) -> tuple[Any, ...]:
        return tuple(self.condition.get(name) for name in names)


class Printed(NamedTuple):
    """A published number that stands beside ours."""

    mean: float
    sd: float | None
    n: int | None
    agreement: Agreement | None
    first: Summary | None
    """Ours over as many replications as the publication had, the first ones."""


class Outcome:
    """A study and what was measured, condition by condition in the order planned."""

    def __init__(self, study: Study, measured: Sequence[Measured]):
        self.study = study
        self.measured = tuple(measured)
        names = {name: None for m in self.measured for name in m.condition}
        options = [name for name in names if name not in IMPORTANT and name not in LEAST]
        self.varying = tuple(n for n in (*IMPORTANT, *options, *LEAST) if self.count(n) > 1)
        """Names that have more than one value."""

    @functools.cached_property
    def score(self) -> str:
        """The study's score; where its task has no regret and the study says nothing else, the first array."""
        known = self.measured[0].metrics()
        if self.study.score in known or not known:
            return self.study.score
        return known[0] if self.study.score == "regret" else self.study.score

    def metrics(self) -> list[str]:
        """The score, the metrics asked for, and whatever else was measured in all conditions."""
        common = [name for name in self.measured[0].metrics() if all(name in m.metrics() for m in self.measured)]
        return list(dict.fromkeys((self.score, *self.study.metrics, *common)))

    def keep(self, leading: Sequence[str]) -> list[str]:
        """The varying names beyond `leading` that are needed to tell all conditions apart; what follows from others is dropped."""
        return self._needed([name for name in self.varying if name not in leading], leading)

    def lines(self, against: str) -> list[str]:
        """The names that make lines where one name is the horizontal axis: lines that differ are never joined."""
        return self._needed([name for name in self.varying if name != against], ())

    def _needed(self, kept: list[str], leading: Sequence[str]) -> list[str]:
        for name in reversed(list(kept)):
            fewer = [n for n in kept if n != name]
            if self._count((*leading, *fewer)) == self._count((*leading, *kept)):
                kept = fewer
        return kept

    def unsaid_problem(self, said: Sequence[str]) -> list[str]:
        """The names of PROBLEM that differ and do not follow from what labels say of it, such as T where agents differ in it."""
        found: list[str] = []
        for name in (n for n in self.varying if n in PROBLEM and n not in said):
            if not self.follows(name, [n for n in (*said, *found) if n in TELLING]):
                found.append(name)
        return found

    def unsaid_settings(self, lines: Sequence[str], apart: Sequence[str]) -> list[str]:
        """Settings that differ between lines that stand together, those alike in `apart`, and that no label says.

        What only some of them have follows from their other names, and is unsaid, but for the sampler.
        """
        if "method" in (*lines, *apart):
            return []
        found = []
        for name in self.varying:
            if name in (*lines, *apart, *PROBLEM, *SETTLED):
                continue
            have = [m for m in self.measured if name == "sampler" or m.condition.get(name) is not None]
            if name == "prior":
                have = [m for m in have if _reads_prior(m.condition)]
            if len({repr(m.key([*apart, name])) for m in have}) > len({repr(m.key(apart)) for m in have}):
                found.append(name)
        return found

    def follows(self, name: str, others: Sequence[str]) -> bool:
        """Whether the values of other names determine this one."""
        return self._count((*others, name)) == self._count(tuple(others))

    def count(self, name: str) -> int:
        """How many values a name has."""
        return self._count((name,))

    def _count(self, names: Sequence[str]) -> int:
        return len({repr(m.key(names)) for m in self.measured})

    # Words

    def word(self, name: str, value: Any) -> str:
        """The words for one name and value."""
        return word_of(self.study.labels, name, value)

    def label(self, measured: Measured, names: Sequence[str], otherwise: str = "") -> str:
        """The words for a condition's values of some names."""
        found = [self.word(name, measured.condition[name]) for name in names if name in measured.condition]
        return " · ".join(filter(None, dict.fromkeys(found))) or otherwise

    # Comparisons

    def printed(self, measured: Measured, metric: str) -> Printed | None:
        """The published number of a condition, the first that matches."""
        for row in self.study.printed:
            names = {name: value for name, value in row.items() if name not in NOT_NAMES}
            ours = row.get("study", self.study.name) == self.study.name and row.get("metric", self.score) == metric
            if ours and "mean" in row and matches(names, measured.condition):
                return _printed(measured, metric, row)
        return None

    def reference(self, measured: Measured) -> Measured | None:
        """The condition that one is compared with: the reference by name, of the same problem, otherwise as alike as there is.

        A reference that names nothing but a problem is meant: then problems are compared.
        """
        first = self.measured[0].condition
        chief = [name for name in (self.study.rows, self.study.columns) if name in first and name not in PROBLEM]
        usual = {name: first[name] for name in chief} or {name: value for name, value in first.items() if name not in PROBLEM}
        given = self.study.reference or usual
        names = {name: value for name, value in given.items() if name not in PROBLEM} or given
        problem = [name for name in PROBLEM if name not in names]
        same = [m for m in self.measured if matches(names, m.condition) and m.key(problem) == measured.key(problem)]
        alike = sorted(same, key=lambda m: -sum(m.condition.get(n) == measured.condition.get(n) for n in self.varying))
        return alike[0] if alike else None


def load(store: Store, study: Study) -> Outcome:
    """A study's results. Missing cells are refused."""
    missing = total = 0
    blocks: dict[str, dict[str, Result]] = {}
    for cell in study.cells():
        result = store.read(cell)
        total += 1
        missing += result is None
        if result is not None:
            blocks.setdefault(repr(cell.condition), {})[store.path(cell).stem] = result
    if missing:
        raise Incomplete(store, missing, total)
    return Outcome(study, [_joined(condition, blocks[repr(condition)]) for condition in study.conditions])


def _joined(condition: Condition, blocks: dict[str, Result]) -> Measured:
    """A condition's blocks of replications, one after the other."""
    parts = list(blocks.values())
    arrays = {name: np.concatenate([part.arrays[name] for part in parts]) for name in parts[0].arrays}
    return Measured(condition, arrays, parts[0].about, {address: part.provenance for address, part in blocks.items()})


class Incomplete(ConfigError):
    """A study of which not all cells are stored."""

    def __init__(self, store: Store, missing: int, total: int):
        self.missing, self.total = missing, total
        super().__init__(f"{missing} of {total} cells are missing; run `blts study resume {store.folder}` first.")


def _reads_prior(condition: Condition) -> bool:
    stops = condition.get("stop") is not None
    return condition.get("agent") not in WITHOUT_PRIOR or bool(condition.get("drawn")) or stops


def matches(names: Condition, condition: Condition) -> bool:
    """Whether a condition has all these names with these values."""
    return all(name in condition and condition[name] == value for name, value in names.items())


def _printed(measured: Measured, metric: str, row: Condition) -> Printed:
    mean, sd, n = float(row["mean"]), row.get("sd"), row.get("n")
    ours = measured.summary(metric)
    tested = sd is not None and n is not None and n >= 2 and ours is not None
    first = measured.summary(metric, n) if n is not None and 2 <= n < len(measured.values(metric)) else None
    return Printed(mean, sd, n, agreement(ours, mean, sd, n) if tested and ours and sd is not None and n else None, first)
