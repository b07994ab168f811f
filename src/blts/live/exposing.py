"""Exposures: which decisions were carried out, where an experiment learns only from those."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import sqlalchemy as sa

from ..errors import ConfigError, shown
from . import entries, schema
from .answers import Told
from .asking import units_of
from .database import look_up
from .request import unit_hash
from .telling import index_of, several

if TYPE_CHECKING:
    from .session import Session


def expose(session: Session, decision_ids: Sequence[str], units: Sequence[str]) -> int:
    """Record that decisions were carried out; how many were not recorded before. Where one is unknown, nothing is recorded."""
    return _record(session, decision_ids, units, refuse=True).accepted


def tell(session: Session, decision_ids: Sequence[str], units: Sequence[str]) -> Told:
    """Record those that are known; what became of each."""
    return _record(session, decision_ids, units, refuse=False)


def _record(session: Session, decision_ids: Sequence[str], units: Sequence[str], *, refuse: bool) -> Told:
    if session.spec.exposure != "explicit":
        raise ConfigError('This experiment assumes that every decision is carried out; create it with exposure="explicit" to tell.')
    ids, names = several("decision_ids", decision_ids), several("units", units)
    hashes = [unit_hash(session, unit) if isinstance(unit, str) else "" for unit in names]
    with session.database.write() as c:
        row = session.row(c, lock=True)
        found = units_of(session, c, hashes)
        numbers = [index_of(i, session.code) for i in ids] + [found.get(h) for h in hashes]
        known = {t for t in numbers if t is not None and t <= row.t}
        seen, fates = _exposed(session, c, sorted(known)), {"duplicate": [], "unknown": []}
        new = known - seen
        for name, t in zip([*ids, *names], numbers, strict=True):
            if t not in known:
                fates["unknown"].append(name)
            elif t in seen:
                fates["duplicate"].append(name)
            else:
                seen.add(t)
        if refuse and fates["unknown"]:
            raise ConfigError(
                f"There is no decision for {shown(fates['unknown'][0])} in the experiment {session.name!r}; nothing was recorded."
            )
        if new:
            change = entries.Change(session, c, row)
            change.insert(schema.exposures, {"t": sorted(new), "position": change.position + 1, "at": change.now}, len(new))
            change.finish("expose", {"count": len(new)})
        others = {fate: some for fate, some in fates.items() if some}
        duplicate, unknown = len(fates["duplicate"]), len(fates["unknown"])
        return Told(len(new), duplicate, 0, unknown, 0, others, row.awaited, bool(row.due))


def _exposed(session: Session, c: sa.Connection, ts: Sequence[int]) -> set[int]:
    """Those of some decisions that were exposed before."""
    table = schema.exposures.c
    return {t for (t,) in look_up(c, (table.t,), session.id, table.t, ts)}
