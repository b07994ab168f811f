"""Numbers of all experiments of a database, for whoever watches a service."""

from __future__ import annotations

from typing import NamedTuple

import sqlalchemy as sa

from . import schema
from .database import Database


class Totals(NamedTuple):
    """Counts since the beginning."""

    experiments: int
    decisions: int
    entries: int
    """Of rewards: told, corrected, cancelled, missing."""
    refreshes: int
    """Policy versions in use that a refresh wrote, now or before."""
    failed_refreshes: int
    """Refreshes that were kept out of use."""
    jobs: dict[str, int]
    """By state: waiting, running, done, failed."""


def totals(database: Database) -> Totals:
    """Count everything.

    >>> from blts.live import Experiment
    >>> mail = Experiment.create("sqlite://", "mail", ["A", "B"], "conversions")
    >>> asked = mail.ask(5)
    >>> totals(mail.database).decisions
    5

    Args:
        database: where the experiments are.

    Returns:
        Their numbers.
    """
    own, made, jobs = schema.experiments.c, schema.policies.c, schema.jobs.c
    none = sa.func.coalesce
    with database.read() as c:
        experiments, decisions, entries = c.execute(
            sa.select(sa.func.count(), none(sa.func.sum(own.t), 0), none(sa.func.sum(own.entries), 0)).select_from(
                schema.experiments
            )
        ).one()
        refreshed = sa.select(made.in_use, sa.func.count()).where(made.kind == "refresh").group_by(made.in_use)
        used = {bool(in_use): count for in_use, count in c.execute(refreshed)}
        states = dict(c.execute(sa.select(jobs.state, sa.func.count()).group_by(jobs.state)).all())
    known = {state: states.get(state, 0) for state in ("waiting", "running", "done", "failed")}
    return Totals(experiments, int(decisions), int(entries), used.get(True, 0), used.get(False, 0), known)
