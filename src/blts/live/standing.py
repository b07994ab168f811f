"""Whether an experiment makes decisions, by its row."""

from __future__ import annotations

from .database import DbRow


def is_paused(row: DbRow) -> bool:
    """Whether it waits for `resume`. A stopped one does not, whatever the row says: stopping without an arm marks it as paused."""
    return bool(row.paused) and row.stopped is None


def why_no_decisions(row: DbRow) -> str | None:
    """Why there are no new decisions, in words; None where there are. A promoted arm is decided even if it was paused before."""
    if row.stopped == "":
        return "the experiment is stopped"
    return "the experiment is paused" if is_paused(row) else None
