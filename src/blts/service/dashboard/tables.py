"""Tables: rows of plain values, shown to people with formats and given to programs as CSV without them."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from . import numbers

FORMATS: dict[str, Callable[[Any], str]] = {
    "text": lambda value: numbers.NONE if value is None else numbers.visible(value),
    "arm": numbers.visible,
    "count": numbers.count,
    "number": numbers.number,
    "rate": numbers.percent,
    "share": numbers.percent,
    "chance": numbers.chance,
    "moment": numbers.moment,
    "duration": numbers.duration,
}


class Column(NamedTuple):
    """One column."""

    name: str
    format: str = "number"
    """One of `FORMATS`."""
    term: str | None = None
    """The word of the glossary that explains it."""

    @property
    def is_text(self) -> bool:
        """Whether it is set to the left."""
        return self.format in ("text", "arm")

    def show(self, value: Any) -> str:
        """A value for people."""
        return numbers.NONE if value is None else FORMATS[self.format](value)


class Table(NamedTuple):
    """Rows under columns. `id` is its address on its page."""

    id: str
    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]

    def csv(self) -> str:
        """As CSV, with all digits. Text that a spreadsheet would run as a formula begins with an apostrophe."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\r\n")
        writer.writerow([column.name for column in self.columns])
        for row in self.rows:
            writer.writerow([_cell(column, value) for column, value in zip(self.columns, row, strict=True)])
        return out.getvalue()


def _cell(column: Column, value: Any) -> Any:
    if value is None:
        return ""
    if column.format == "moment":
        return numbers.iso(value)
    if isinstance(value, str):
        return f"'{value}" if value.lstrip()[:1] in ("=", "+", "-", "@", "\t") else value
    return value
