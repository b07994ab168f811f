"""Reports that are kept, one for each policy version, so that looking at a large experiment costs nothing."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from ..compilation import give_back_memory
from ..errors import ConfigError, whole
from . import schema
from .conclusions.feedback_share import alarming
from .damage import Damaged

if TYPE_CHECKING:
    from .experiment import Experiment


FRESH = 50_000
"""Up to so many decisions a report is computed when it is asked for; of larger experiments the stored one is shown."""


def keep(experiment: Experiment) -> bool:
    """Store the report of the last policy version, if it is not stored yet; whether it was stored now."""
    with experiment.database.read() as c:
        version = experiment.database.find(c, experiment.name).versions
        if _row(c, experiment.id, version) is not None:
            return False
    report, now = fresh(experiment), experiment.session.now()
    text = json.dumps(report, allow_nan=False)
    with experiment.database.write() as c:
        if (
            experiment.database.find(c, experiment.name, lock=True).versions != version
            or _row(c, experiment.id, version) is not None
        ):
            return False  # the next round has it
        own = digest(experiment.code, version, text, now)
        values = {"experiment": experiment.id, "version": version, "report": text, "digest": own, "at": now}
        c.execute(sa.insert(schema.reports).values(**values))
    return True


def fresh(experiment: Experiment) -> dict[str, Any]:
    """A report on everything that is known now; "as_of" says up to where."""
    from .report import report_of

    with experiment.database.read() as c:
        row = experiment.database.find(c, experiment.name)
    give_back_memory()  # what a refresh left, because the decisions of a large experiment take as much
    as_of = {"version": row.versions, "at": experiment.session.now(), "decisions": row.t, "entries": row.entries}
    return report_of(experiment) | {"as_of": as_of | {"later_entries": 0}}


def report(experiment: Experiment) -> dict[str, Any]:
    """What is known now, or of a large experiment what was known when the worker stored its last report."""
    with experiment.database.read() as c:
        row = experiment.database.find(c, experiment.name)
        stored = _row(c, experiment.id, None) if row.t > FRESH else None
    if stored is None:
        return fresh(experiment)
    found = read(experiment.code, experiment.name, stored)
    found["as_of"]["later_entries"] = row.entries - found["as_of"]["entries"]
    return found


def kept(experiment: Experiment, version: int) -> dict[str, Any]:
    """The report that was stored with a policy version."""
    whole("version", version, 1, 2**62)
    with experiment.database.read() as c:
        row = _row(c, experiment.id, version)
    if row is None:
        raise ConfigError(f"No report of version {version} is stored; the worker stores them: blts worker.")
    return read(experiment.code, experiment.name, row)


def last(experiment: Experiment) -> dict[str, Any] | None:
    """The report that was stored last; None where there is none."""
    with experiment.database.read() as c:
        row = _row(c, experiment.id, None)
    return None if row is None else read(experiment.code, experiment.name, row)


def differing_feedback(c: sa.Connection, experiment: int) -> list[str]:
    """What the report that was stored last says where decisions of some arms count more often; empty where it does not.

    Only `read` says that a report was changed; here it says nothing.
    """
    row = _row(c, experiment, None)
    try:
        return [] if row is None else alarming(json.loads(row.report).get("feedback_share"))
    except (ValueError, AttributeError, LookupError, TypeError):
        return []


def read(code: str, name: str, row: Any) -> dict[str, Any]:
    """The report in a row of theirs, of the experiment with this code and name (`Damaged` where it was changed)."""
    if digest(code, row.version, row.report, row.at) != row.digest:
        raise Damaged(f"the stored report of version {row.version} is not as it was written", name)
    return json.loads(row.report)


def digest(code: str, version: int, report: str, at: float) -> str:
    """What shows that a stored report was not changed, and is of the experiment with this code."""
    return hashlib.sha256(f"{code} {version} {at!r} {report}".encode()).hexdigest()[:40]


def _row(c: sa.Connection, experiment: int, version: int | None) -> Any:
    table = schema.reports
    query = sa.select(table).where(table.c.experiment == experiment).order_by(table.c.version.desc()).limit(1)
    return c.execute(query if version is None else query.where(table.c.version == version)).first()
