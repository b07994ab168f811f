"""Where an experiment stands, by its row: whether it makes decisions, and which rewards it awaits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from . import schema
from .database import DbRow

if TYPE_CHECKING:
    from .session import Session


def is_paused(row: DbRow) -> bool:
    """Whether it waits for `resume`. A stopped one does not, whatever the row says: stopping without an arm marks it as paused."""
    return bool(row.paused) and row.stopped is None


def why_no_decisions(row: DbRow) -> str | None:
    """Why there are no new decisions, in words; None where there are. A promoted arm is decided even if it was paused before."""
    if row.stopped == "":
        return "the experiment is stopped"
    return "the experiment is paused" if is_paused(row) else None


def rewards_awaited(session: Session, c: sa.Connection, row: DbRow) -> int:
    """How many rewards of this batch can still come in time: of decisions that were carried out, and whose window is not over.

    The row counts all decisions without a reward; an end of a window is written down only by the next refresh. Where refreshes are
    private, which rewards have come is not told: decisions count whose window is not over.
    """
    explicit, window, private = session.spec.exposure == "explicit", session.spec.window, session.spec.privacy is not None
    if not private and (not row.awaited or (window is None and not explicit)):
        return row.awaited
    began, told = schema.exposures if explicit else schema.decisions, schema.rewards
    query = sa.select(sa.func.count()).select_from(began).where(began.c.experiment == session.id)
    if not private:
        query = query.where(~sa.exists().where(told.c.experiment == session.id, told.c.t == began.c.t))
    query = query.where(began.c.t > row.began, began.c.t <= (row.closing or row.t))
    if window is not None:
        query = query.where(began.c.at > session.now() - window)
    return c.execute(query).scalar_one()
