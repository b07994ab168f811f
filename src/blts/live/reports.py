"""Reports that are kept, one for each policy version, so that looking at a large experiment costs nothing."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from ..errors import ConfigError, StoreError, whole
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
        own = digest(experiment.code, version, text, now)
        values = {"experiment": experiment.id, "version": version, "report": text, "digest": own, "at": now}
        c.execute(sa.insert(schema.reports).values(**values))
    return True


def kept(experiment: Experiment, version: int | None) -> dict[str, Any]:
    """A stored report; by default the last. It says as of when it is."""
    if version is not None:
        whole("version", version, 1, 2**62)
    with experiment.database.read() as c:
        row = _row(c, experiment.id, version)
    if row is None:
        which = "any version" if version is None else f"version {version}"
        raise ConfigError(f"No report of {which} is stored; run: blts worker, or ask for a fresh one.")
    if digest(experiment.code, row.version, row.report, row.at) != row.digest:
        raise StoreError(f"The stored report of version {row.version} was changed; run: blts experiment verify.")
    return json.loads(row.report) | {"as_of": {"version": row.version, "at": row.at}}


def digest(code: str, version: int, report: str, at: float) -> str:
    """What shows that a stored report was not changed, and is of the experiment with this code."""
    return hashlib.sha256(f"{code} {version} {at!r} {report}".encode()).hexdigest()[:40]


def _row(c: sa.Connection, experiment: int, version: int | None) -> Any:
    table = schema.reports
    query = sa.select(table).where(table.c.experiment == experiment).order_by(table.c.version.desc()).limit(1)
    return c.execute(query if version is None else query.where(table.c.version == version)).first()
