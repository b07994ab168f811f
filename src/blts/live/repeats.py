"""Decisions of units that were asked for before, kept in memory: a unit's decision never changes, and most visitors come again."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import TYPE_CHECKING

from .answers import Answer, Decision
from .asking import Request, standing_answer

if TYPE_CHECKING:
    from .session import Session

FRESH = 1.0  # seconds for which what was read of an experiment is used again
KEPT = 200_000  # units of an experiment


class Repeats:
    """The units of an experiment that were answered lately.

    A decision's arm and propensities are fixed; whether its arm was retired since, and whether the experiment is paused, are not.
    `look` reads these, and a new policy version, which every change of arms makes, empties the memory. Another process may thus be
    noticed a second late. `look` may be called from several threads; the other methods are quick and for one thread.

    Args:
        session: the experiment.
    """

    def __init__(self, session: Session):
        self._session = session
        self._decisions: OrderedDict[str, Decision] = OrderedDict()
        self._seen: tuple[float, int, Answer] | None = None
        """When the experiment was read, its versions then, and an answer without decisions."""

    @property
    def is_fresh(self) -> bool:
        """Whether `look` need not be called."""
        return self._seen is not None and 0 <= time.monotonic() - self._seen[0] < FRESH

    def look(self) -> None:
        """Read where the experiment stands."""
        now = time.monotonic()
        with self._session.database.read() as c:
            row = self._session.row(c)
        if self._seen is None or self._seen[1] != row.versions:
            self._decisions = OrderedDict()
        self._seen = now, row.versions, standing_answer(self._session, row)

    def forget(self) -> None:
        """Look again before the next answer, because the experiment was just changed."""
        self._seen = None

    def serves(self, request: Request) -> bool:
        """Whether a request could be answered from memory: it names units and nothing else."""
        return request.units is not None and request.id is None and request.shown is None

    def answer(self, request: Request) -> Answer | None:
        """The answer to a request, if all its units are known and the experiment was looked at lately."""
        if not self.is_fresh or self._seen is None or request.units is None:
            return None
        found = [self._decisions.get(unit) for unit in request.units]
        known = tuple(decision for decision in found if decision is not None)
        if len(known) < len(found):
            return None
        for unit in request.units:
            self._decisions.move_to_end(unit)
        return self._seen[2]._replace(decisions=known)

    @property
    def versions(self) -> int:
        """How many policy versions there were when the experiment was read; 0 before that."""
        return 0 if self._seen is None else self._seen[1]

    def keep(self, answer: Answer, versions: int) -> None:
        """Remember the decisions of an answer.

        Args:
            answer: from the database.
            versions: what `versions` was before it was asked for. If there are more by now, its arms may have been retired since.
        """
        if versions != self.versions:
            return
        for decision in answer.decisions:
            if decision.unit is not None:
                self._decisions[decision.unit] = decision
        while len(self._decisions) > KEPT:
            self._decisions.popitem(last=False)
