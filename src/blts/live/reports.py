"""Reports that are kept, one for each policy version, so that looking at a large experiment costs nothing."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from ..errors import ConfigError
from . import schema

if TYPE_CHECKING:
    from .experiment import Experiment


def keep(experiment: Experiment) -> bool:
    """Store the report of the last policy version, if it is not stored yet; whether it was stored now."""
    with experiment.database.read() as c:
        version = experiment.database.find(c, experiment.name).versions
        if _row(c, experiment.id, version) is not None:
            return False
    text, now = json.dumps(experiment.report(), allow_nan=False), experiment.context.now()
    with experiment.database.write() as c:
        if (
            experiment.database.find(c, experiment.name, lock=True).versions != version
            or _row(c, experiment.id, version) is not None
        ):
            return False  # the next round has it
        values = {"experiment": experiment.id, "version": version, "report": text, "digest": digest(version, text, now), "at": now}
        c.execute(sa.insert(schema.reports).values(**values))
    return True


def kept(experiment: Experiment, version: int | None) -> dict[str, Any]:
    """A stored report; by default the last. It says as of when it is."""
    found = last(experiment, version)
    if found is None:
        which = "any version" if version is None else f"version {version}"
        raise ConfigError(f"No report of {which} is stored; run: blts worker, or ask for a fresh one.")
    return found


def last(experiment: Experiment, version: int | None = None) -> dict[str, Any] | None:
    """The stored report of a version, by default the last; None where there is none."""
    with experiment.database.read() as c:
        row = _row(c, experiment.id, version)
    return None if row is None else json.loads(row.report) | {"as_of": {"version": row.version, "at": row.at}}


def digest(version: int, report: str, at: float) -> str:
    """What shows that a stored report was not changed."""
    return hashlib.sha256(f"{version} {at!r} {report}".encode()).hexdigest()[:40]


def _row(c: sa.Connection, experiment: int, version: int | None) -> Any:
    table = schema.reports
    query = sa.select(table).where(table.c.experiment == experiment).order_by(table.c.version.desc()).limit(1)
    return c.execute(query if version is None else query.where(table.c.version == version)).first()
