"""Exposures: which decisions were carried out, where an experiment learns only from those."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import sqlalchemy as sa

from ..errors import ConfigError
from . import entries, ledger, schema
from .asking import unit_hash, units_of
from .database import chunks
from .telling import index_of

if TYPE_CHECKING:
    from .context import Context


def expose(ctx: Context, decision_ids: Sequence[str], units: Sequence[str]) -> int:
    """Record that decisions were carried out; how many were not recorded before."""
    if ctx.spec.exposure != "explicit":
        raise ConfigError('This experiment assumes that every decision is carried out; create it with exposure="explicit" to tell.')
    ids = [decision_ids] if isinstance(decision_ids, str) else list(decision_ids)
    names = [units] if isinstance(units, str) else list(units)
    with ctx.database.write() as c:
        row = ctx.row(c, lock=True)
        numbers = {i: index_of(i, ctx.code) for i in ids}
        hashes = {unit: unit_hash(ctx, unit) for unit in names}
        found = units_of(ctx, c, list(hashes.values()))
        numbers |= {unit: found.get(h) for unit, h in hashes.items()}
        unknown = [name for name, t in numbers.items() if t is None or t > row.t]
        if unknown:
            raise ConfigError(f"There is no decision for {unknown[0]!r} in the experiment {ctx.name!r}; nothing was recorded.")
        ts = sorted(
            {t for t in numbers.values() if t is not None} - _exposed(ctx, c, [t for t in numbers.values() if t is not None])
        )
        if ts:
            change = entries.Change(ctx, c, row)
            change.insert(schema.exposures, {"t": ts, "position": change.position + 1, "at": change.now}, len(ts))
            change.finish("expose", {"count": len(ts)})
        return len(ts)


def _exposed(ctx: Context, c: sa.Connection, ts: Sequence[int]) -> set[int]:
    """Those of some decisions that were exposed before."""
    table, found = schema.exposures, set()
    for some in chunks(sorted(ts)):
        numbers = sa.bindparam("some", some, expanding=True, literal_execute=True, type_=sa.BigInteger)
        found |= {t for (t,) in ledger.fetch(c, sa.select(table.c.t).where(table.c.experiment == ctx.id, table.c.t.in_(numbers)))}
    return found
