"""Columns by name: from a CSV or Parquet file, or from arrays."""

from __future__ import annotations

import csv
import os
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import ConfigError, did_you_mean, shown


def columns(source: Any, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Some columns of a table.

    Args:
        source: the path of a .csv or .parquet file, a dictionary of arrays, or a data frame.
        names: of the columns.

    Returns:
        The columns, of one length.

    Raises:
        ConfigError: the table cannot be read, or it has no such column.
    """
    if isinstance(source, str | os.PathLike):
        place = pathlib.Path(source)
        kind = place.suffix.lower()
        if kind not in (".csv", ".parquet"):
            raise ConfigError(f"A log is a .csv or a .parquet file, or a dictionary of arrays; got {shown(str(place))}.")
        try:
            found = _csv(place, names) if kind == ".csv" else _parquet(place, names)
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise ConfigError(f"{shown(str(place))} cannot be read ({error}).") from None
    elif hasattr(source, "keys") and hasattr(source, "__getitem__"):
        known = [str(name) for name in source.keys()]  # noqa: SIM118 (a data frame is no dictionary)
        found = {name: np.asarray(source[name]) for name in _required(names, known)}
    else:
        raise ConfigError(f"A log is a .csv or a .parquet file, or a dictionary of arrays; got {shown(source)}.")
    lengths = {name: len(column) if column.ndim == 1 else -1 for name, column in found.items()}
    if -1 in lengths.values():
        raise ConfigError(
            f"A column of a log has one entry a row; that is not so of {', '.join(n for n, k in lengths.items() if k < 0)}."
        )
    if len(set(lengths.values())) > 1:
        raise ConfigError(
            f"The columns of a log must have as many rows; got {', '.join(f'{k} of {n}' for n, k in lengths.items())}."
        )
    if not max(lengths.values(), default=0):
        raise ConfigError("The log has no rows.")
    return found


def _required(names: Sequence[str], known: Sequence[str]) -> Sequence[str]:
    for name in names:
        if name not in known:
            raise ConfigError(f"The log has no column {name!r}.{did_you_mean(name, known)} It has: {', '.join(known)}.")
    return names


def _csv(place: pathlib.Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    with place.open(newline="", encoding="utf-8-sig") as file:
        rows = csv.reader(file)
        heading = next(rows, None)
        if heading is None:
            raise ConfigError(f"{shown(str(place))} is empty; its first line must name the columns.")
        where = [heading.index(name) for name in _required(names, heading)]
        twice = next((name for name in names if heading.count(name) > 1), None)
        if twice is not None:
            raise ConfigError(f"{shown(str(place))} has two columns {twice!r}; rename one of them.")
        kept: list[list[str]] = []
        for row in rows:
            if not row:
                continue  # an empty line
            if len(row) != len(heading):
                raise ConfigError(
                    f"Line {rows.line_num} of {place.name} has {len(row)} entries; the first line names {len(heading)}."
                )
            kept.append([row[i] for i in where])
    return {name: np.array([row[i] for row in kept], str) for i, name in enumerate(names)}


def _parquet(place: pathlib.Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as parquet
    except ImportError:
        raise ConfigError('Parquet needs pyarrow; install it with: pip install "blts[parquet]", or give a .csv.') from None
    try:
        known = parquet.read_schema(place).names
        table = parquet.read_table(place, columns=list(_required(names, known)))
    except pa.ArrowInvalid as error:
        raise ConfigError(f"{shown(str(place))} cannot be read ({error}).") from None
    return {name: table.column(name).to_numpy() for name in names}


def numbers(name: str, column: np.ndarray) -> np.ndarray:
    """A column as finite numbers.

    Args:
        name: of the column.
        column: texts or numbers.

    Returns:
        The numbers, in double precision.

    Raises:
        ConfigError: the first entry that is none.
    """
    if column.dtype.kind in "mM":
        raise ConfigError(f"Column {name!r} must have numbers; it has dates or times.")
    try:
        values = column.astype(float)
    except (TypeError, ValueError):
        i, entry = next((i, x) for i, x in enumerate(column.tolist()) if not _is_number(x))
        hint = "; leave such rows out" if entry in ("", None) else "; where it has levels, give each a column of 0 and 1"
        raise ConfigError(f"Column {name!r} must have numbers; row {i + 1} has {shown(entry)}{hint}.") from None
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise ConfigError(f"Column {name!r} must have finite numbers; row {bad[0] + 1} has {values[bad[0]]}; leave such rows out.")
    return values


def _is_number(entry: Any) -> bool:
    try:
        float(entry)
    except (TypeError, ValueError):
        return False
    return True
