"""Marks: what tells whether an experiment is still as somebody saw it when they decided to change it."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Self

import sqlalchemy as sa

from ..errors import Stale
from . import entries
from .damage import notices
from .database import DbRow
from .standing import is_paused

if TYPE_CHECKING:
    from .session import Session


class Marked:
    """The methods of an experiment that change it only while it is as somebody saw it."""

    def __init__(self, context: Session):
        self.session = context

    def expecting(self, *marks: str) -> Self:
        """The same experiment, which is changed only while it is as somebody saw it; elsewhere changes are refused (`Stale`).

        >>> from blts.live import Experiment
        >>> mail = Experiment.create("sqlite://", "mail", ["A", "B", "C"], "conversions")
        >>> seen = mail.definition()["mark"]
        >>> mail.expecting(seen).pause("B looks broken")
        >>> mail.expecting(seen).retire_arm("C")
        Traceback (most recent call last):
        blts.errors.Stale: The experiment 'mail' was changed meanwhile; look at it again before you change it.

        Args:
            marks: of `definition`; one of them must be the present one.

        Returns:
            An experiment that shares connections and everything in memory with this one.
        """
        return type(self)(self.session.expecting(frozenset(marks)))

    @notices
    def definition(self) -> dict[str, Any]:
        """What the experiment is: its specification, its arms, whether it is paused or stopped, and a mark (see `expecting`)."""
        return definition(self.session)


def definition(session: Session) -> dict[str, Any]:
    """What an experiment is, without what changes by itself: decisions, rewards and refreshes.

    Args:
        session: the experiment.

    Returns:
        Its specification, its arms, whether it is paused or stopped, and the mark of all that.
    """
    with session.database.read() as c:
        row = session.row(c)
        arms = entries.arms_of(c, session.id)
        return {
            "name": session.name,
            "specification": json.loads(row.spec),
            "arms": [{"label": a.label, "metadata": json.loads(a.metadata), "active": a.retired is None} for a in arms],
            "paused": is_paused(row),
            "stopped": row.stopped is not None,
            "promoted": row.stopped or None,
            "created_at": row.created_at,
            "mark": mark_of(session, c, row),
        }


def mark_of(session: Session, c: sa.Connection, row: DbRow) -> str:
    """A digest of what people change: which arms are active, whether it is paused, whether it is stopped."""
    arms = [(arm.label, arm.retired is None) for arm in entries.arms_of(c, session.id)]
    text = json.dumps([session.code, bool(row.paused), row.stopped, arms])
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def check(session: Session, c: sa.Connection, row: DbRow, expected: frozenset[str]) -> None:
    """Refuse a change of an experiment that is not as whoever asks for it saw it (`Stale`)."""
    if mark_of(session, c, row) not in expected:
        raise Stale(f"The experiment {session.name!r} was changed meanwhile; look at it again before you change it.")
