"""Rows as CSV text and back. A figure is drawn from the text that is stored beside it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence

Value = str | float | int | None
Row = Mapping[str, Value]


def to_csv(rows: Sequence[Row]) -> str:
    """Rows of one set of columns; numbers with ten digits, nothing for None."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns = list(dict.fromkeys(name for row in rows for name in row))
    writer.writerow(columns)
    writer.writerows([_text(row.get(name)) for name in columns] for row in rows)
    return text.getvalue()


def from_csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def number(text: str) -> float:
    """A number of a CSV; NaN where there is none."""
    return float(text) if text else float("nan")


def column(rows: Iterable[Mapping[str, str]], name: str) -> list[float]:
    return [number(row[name]) for row in rows]


def groups(rows: Iterable[Mapping[str, str]], name: str) -> dict[str, list[Mapping[str, str]]]:
    """Rows by the value of a column, in the order of first appearance."""
    found: dict[str, list[Mapping[str, str]]] = {}
    for row in rows:
        found.setdefault(row[name], []).append(row)
    return found


def _text(value: Value) -> str:
    if value is None or value != value:
        return ""
    return f"{value:.10g}" if isinstance(value, float) else str(value)
