"""The hash chain: each operation's line in the audit log carries a digest of all that it wrote and of the operation before it.

A row that is changed, added or taken away later changes the digest of its operation, and so those of all that follow. What the
chain does not cover is checked otherwise: propensity vectors are named by their own digests, and the columns of `experiments` and
`arms` that change are computed again.
"""

from __future__ import annotations

import bisect
import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from . import ledger, schema

if TYPE_CHECKING:
    from .context import Context
    from .database import DbRow

COVERED = (
    schema.experiments,
    schema.arms,
    schema.decisions,
    schema.units,
    schema.exposures,
    schema.rewards,
    schema.measures,
    schema.policies,
    schema.requests,
    schema.audit,
)
"""The tables of the chain, in the order in which an operation's rows enter its digest."""
_CHANGING = {
    schema.experiments.name: {"name", "code", "spec", "created_at", "pepper"},
    schema.arms.name: {"arm", "label", "metadata", "options", "added"},
}
"""Of these tables only some columns never change."""


def _kind(column: sa.Column) -> str:
    if isinstance(column.type, sa.Double):
        return "d"
    return "s" if isinstance(column.type, sa.Text) else "q"


COLUMNS: dict[str, tuple[tuple[str, str], ...]] = {
    table.name: tuple(
        (column.name, _kind(column))
        for column in table.columns
        if column.name in _CHANGING.get(table.name, set(table.columns.keys()) - {"experiment", "chain"})
    )
    for table in COVERED
}
"""The columns that enter the chain, with how they are written: whole numbers, floats or text."""


def rows(table: sa.Table, columns: Mapping[str, Any], count: int) -> bytes:
    """Rows of a table as bytes.

    Args:
        table: the table.
        columns: for each column a list, or one value that all rows have.
        count: how many rows there are.

    Returns:
        The same bytes for the same rows in the same order, whichever database they come from.
    """
    written: list[Any] = [table.name, count]
    for name, kind in COLUMNS[table.name]:
        given = columns[name]
        values = given if isinstance(given, list) else [given] * count
        if kind == "d":
            values = [None if x is None else float(x) for x in values]
        elif kind == "q":
            values = [int(x) for x in values]  # of which some databases make truth values
        written.append(values)
    return json.dumps(written).encode()


def link(previous: str, parts: Mapping[str, bytes]) -> str:
    """The digest of an operation.

    Args:
        previous: that of the operation before it; empty for the first.
        parts: the rows that it wrote (`rows`), by the names of their tables.

    Returns:
        A digest in hexadecimal.
    """
    digest = hashlib.sha256(previous.encode())
    for table in COVERED:
        if table.name in parts:
            digest.update(parts[table.name])
    return digest.hexdigest()[:40]


def check_chain(ctx: Context, c: sa.Connection, row: DbRow) -> list[str]:
    """Compute the chain again from what is stored.

    Args:
        ctx: the experiment.
        c: a connection to its database.
        row: the experiment's row.

    Returns:
        A sentence for the first operation that is not as it was written, which all later ones rest on; empty where all are.
    """
    lines = _read(c, ctx.id, schema.audit, schema.audit.c.position, ("chain",))
    written = {table.name: _by_operation(ctx, c, table, row) for table in COVERED[:-1]}
    head, began = "", False
    for line in lines:
        position = line["position"]
        parts = {name: of.pop(position) for name, of in written.items() if position in of}
        if not began and not line["chain"]:
            continue  # written before there was a chain
        began = True
        own = {schema.audit.name: rows(schema.audit, {name: [line[name]] for name, _ in COLUMNS[schema.audit.name]}, 1)}
        head = link(head, parts | own)
        if line["chain"] != head:
            return [
                f"the {line['what']} at position {position} is not as it was written: a row of it was changed, added or deleted"
            ]
    extra = [(name, min(of)) for name, of in written.items() if of]
    if extra:
        return [f"{extra[0][0]} has rows of an operation at position {extra[0][1]}, which the audit log does not have"]
    return [] if row.chain == head else ["the last operations are missing from the audit log, or the experiment's row was changed"]


def _read(c: sa.Connection, experiment: int, table: sa.Table, order: Any, more: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """The rows of an experiment, with the columns of the chain."""
    names = [name for name, _ in COLUMNS[table.name]] + list(more)
    own = table.c.id == experiment if table is schema.experiments else table.c.experiment == experiment
    found = ledger.fetch(c, sa.select(*(table.c[name] for name in names)).where(own).order_by(order))
    return [dict(zip(names, values, strict=True)) for values in found]


def _by_operation(ctx: Context, c: sa.Connection, table: sa.Table, row: DbRow) -> dict[int, bytes]:
    """A table's rows as bytes, by the position of the operation that wrote them."""
    operations = sorted(c.execute(sa.select(schema.audit.c.position).where(schema.audit.c.experiment == ctx.id)).scalars())
    versions = sa.select(schema.policies.c.version, schema.policies.c.position).where(schema.policies.c.experiment == ctx.id)
    position_of = dict(ledger.fetch(c, versions)) | {1: 1}  # the first version was written when the experiment was created
    order = {"blts_experiments": "id", "blts_arms": "arm", "blts_policies": "version", "blts_requests": "position"}
    groups: dict[int, list[dict[str, Any]]] = {}
    for found in _read(c, ctx.id, table, table.c[order.get(table.name, "position" if table is schema.rewards else "t")]):
        if table is schema.experiments:
            position = 1
        elif table is schema.arms:
            position = position_of.get(found["added"], 0)
        elif table is schema.policies:
            position = position_of.get(found["version"], 0)
        elif table is schema.rewards:  # each has a position of its own, and its operation the next one
            place = bisect.bisect_left(operations, found["position"])
            position = operations[place] if place < len(operations) else 0
        else:
            position = found["position"]
        groups.setdefault(position, []).append(found)
    names = [name for name, _ in COLUMNS[table.name]]
    groups.pop(0, None) if table is schema.requests else None  # written before there was a chain
    return {p: rows(table, {name: [one[name] for one in some] for name in names}, len(some)) for p, some in groups.items()}
