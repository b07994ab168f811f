"""The hash chain: each operation's line in the audit log carries a digest of all that it wrote and of the operation before it.

A row that is changed, added or taken away later changes the digest of its operation, and so those of all that follow. What the
chain does not cover is checked otherwise: propensity vectors are named by their own digests, and the columns of `experiments` and
`arms` that change are computed again.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import sqlalchemy as sa

from . import ledger, schema

if TYPE_CHECKING:
    from .database import DbRow

COVERED = (
    schema.experiments,
    schema.arms,
    schema.decisions,
    schema.contexts,
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
    return json.dumps([table.name, count, *_columns(table, columns, count)]).encode()


def _columns(table: sa.Table, columns: Mapping[str, Any], count: int) -> Iterator[list[Any]]:
    """The columns that enter the chain, each value of the type that is written."""
    for name, kind in COLUMNS[table.name]:
        given = columns[name]
        values = given if isinstance(given, list) else [given] * count
        if kind == "d":
            values = [None if x is None else float(x) for x in values]
        elif kind == "q":
            values = [int(x) for x in values]  # of which some databases make truth values
        yield values


def rows_of_each(table: sa.Table, columns: Mapping[str, Any], counts: Sequence[int]) -> list[bytes]:
    """What `rows` makes of the rows of each of several operations, in a fraction of the time where these are small.

    Args:
        table: the table.
        columns: the rows of all operations, one operation after another, as in `rows`.
        counts: how many rows each operation has.

    Returns:
        For each operation the bytes of its rows; none where it has no rows.
    """
    texts: list[list[str]] = []
    for (_, kind), values in zip(COLUMNS[table.name], _columns(table, columns, sum(counts)), strict=True):
        if kind == "s":
            written = {value: json.dumps(value) for value in set(values)}
            texts.append([written[value] for value in values])
        else:
            texts.append(json.dumps(values)[1:-1].split(", "))
    out, start = [], 0
    for count in counts:
        lists = "], [".join([", ".join(some[start : start + count]) for some in texts])
        out.append(f'["{table.name}", {count}, [{lists}]]'.encode() if count else b"")
        start += count
    return out


def link(previous: str, parts: Mapping[str, bytes]) -> str:
    """The digest of an operation.

    Args:
        previous: that of the operation before it; empty for the first.
        parts: the rows that it wrote (`rows`), by the names of their tables; nothing for a table is as if it were left out.

    Returns:
        A digest in hexadecimal.
    """
    digest = hashlib.sha256(previous.encode())
    for table in COVERED:
        if table.name in parts:
            digest.update(parts[table.name])
    return digest.hexdigest()[:40]


class Unreadable(Exception):
    """A stored value that blts does not write; the message says where it is."""


def read(c: sa.Connection, experiment: int, table: sa.Table, names: Iterable[str], *order: str) -> dict[str, list[Any]]:
    """Columns of an experiment's rows, as the database has them. SQLite keeps any value in any column, so types are checked.

    Args:
        c: a connection to the database.
        experiment: its id.
        table: the table.
        names: the columns.
        order: the columns by which rows are sorted.

    Returns:
        A list for each column.

    Raises:
        Unreadable: a value is not of its column's type.
    """
    columns = [table.c[name] for name in names]
    own = table.c.id if table is schema.experiments else table.c.experiment
    found = ledger.fetch(c, sa.select(*columns).where(own == experiment).order_by(*(table.c[name] for name in order)))
    values = map(list, zip(*found, strict=True)) if found else [[] for _ in columns]
    out = dict(zip([column.name for column in columns], values, strict=True))
    for column in columns:
        _check_values(table, column, out[column.name])
    return out


def _check_values(table: sa.Table, column: sa.Column, values: list[Any]) -> None:
    """Refuse what does not belong into a column (`Unreadable`)."""
    if isinstance(column.type, sa.Double):
        what, types = "a finite number", {float}
        good = all(x is None or math.isfinite(x) for x in values if type(x) is float)
    elif isinstance(column.type, sa.Boolean):
        what, types = "true or false", {bool, int}
        good = all(x in (None, 0, 1) for x in values)
    elif isinstance(column.type, sa.Text):
        what, types, good = "text", {str}, True
    else:
        what, types, good = "a whole number", {int}, True
    if not good or set(map(type, values)) - types - ({type(None)} if column.nullable else set()):
        raise Unreadable(f"the column {column.name} of {table.name} has a value that is not {what}")


def check_chain(c: sa.Connection, experiment: int, row: DbRow) -> list[str]:
    """Compute the chain again from what is stored.

    Args:
        c: a connection to the database.
        experiment: its id.
        row: the experiment's row.

    Returns:
        A sentence for the first operation that is not as it was written, which all later ones rest on; empty where all are.
    """
    names = [name for name, _ in COLUMNS[schema.audit.name]]
    lines = read(c, experiment, schema.audit, [*names, "chain"], "position")
    written = _written(c, experiment, lines["position"])
    if lines["chain"] and not lines["chain"][0]:
        written[schema.requests.name].pop(0, None)  # answers from before there was a chain
    head, began = "", False
    for i, position in enumerate(lines["position"]):
        parts = {name: of.pop(position) for name, of in written.items() if position in of}
        if not began and not lines["chain"][i]:
            continue  # written before there was a chain
        began = True
        parts[schema.audit.name] = {name: [lines[name][i]] for name in names}
        head = link(head, {t.name: rows(t, parts[t.name], len(parts[t.name]["position"])) for t in COVERED if t.name in parts})
        if lines["chain"][i] != head:
            what = lines["what"][i]
            return [f"the {what} at position {position} is not as it was written: a row of it was changed, added or deleted"]
    extra = [(name, min(of)) for name, of in written.items() if of]
    if extra:
        return [f"{extra[0][0]} has rows of an operation at position {extra[0][1]}, which the audit log does not have"]
    return [] if row.chain == head else ["the last operations are missing from the audit log, or the experiment's row was changed"]


def _written(c: sa.Connection, experiment: int, operations: list[int]) -> dict[str, dict[int, dict[str, list[Any]]]]:
    """The rows of every table, by the position of the operation that wrote them."""
    out = {}
    position_of: dict[int, int] = {}
    for table in (schema.policies, *COVERED[:-1]):
        names = [name for name, _ in COLUMNS[table.name]]
        found = read(c, experiment, table, names, *_ORDER.get(table.name, ("t",)))
        if table is schema.policies:
            position_of = dict(zip(found["version"], found["position"], strict=True)) | {1: 1}  # the first was written at creation
            positions = [position_of[version] for version in found["version"]]
        elif table is schema.experiments:
            positions = [1] * len(found["name"])
        elif table is schema.arms:
            positions = [position_of.get(version, 0) for version in found["added"]]
        elif table is schema.rewards:  # each has a position of its own, and its operation the next one
            places = np.searchsorted(operations, found["position"]) if found["position"] else []
            positions = [operations[place] if place < len(operations) else 0 for place in places]
        else:
            positions = found["position"]
        out[table.name] = _by_operation(found | {"position": positions} if "position" not in found else found, positions)
    return out


_ORDER = {
    schema.experiments.name: ("id",),
    schema.arms.name: ("arm",),
    schema.policies.name: ("version",),
    schema.requests.name: ("position",),
    schema.rewards.name: ("position",),
}
"""The order in which an operation writes its rows of a table; elsewhere that of the decisions."""


def _by_operation(columns: dict[str, list[Any]], positions: list[int]) -> dict[int, dict[str, list[Any]]]:
    """Rows by the position of their operation, in their order."""
    if any(a > b for a, b in zip(positions, positions[1:])):  # noqa: B905, RUF007
        order = np.argsort(positions, kind="stable").tolist()
        columns = {name: [values[i] for i in order] for name, values in columns.items()}
        positions = [positions[i] for i in order]
    starts = [i for i, position in enumerate(positions) if i == 0 or positions[i - 1] != position]
    spans = zip(starts, [*starts, len(positions)][1:], strict=True)
    return {positions[a]: {name: values[a:b] for name, values in columns.items()} for a, b in spans}
