"""Tables for documents: in Markdown, and put where a document marks a place for them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..errors import ConfigError, UnknownName
from .outcome import Outcome
from .tables import Line, Table, table

OPENING = re.compile(r"^<!-- table: (?P<name>\S+) -->[ \t]*$", re.MULTILINE)
CLOSING = re.compile(r"^<!-- /table -->[ \t]*$", re.MULTILINE)


def markdown_table(outcome: Outcome, metric: str) -> str:
    """Mean ± sd of a metric as a Markdown table, published numbers on lines of their own."""
    found = table(outcome, metric)
    lines = [_row([found.corner, *found.columns]), "|" + "---|" * (1 + len(found.columns))]
    for group in found.groups:
        if group.label and len(found.groups) > 1:
            lines.append(_row([f"*{escaped(group.label)}*", *[""] * len(found.columns)], escape=False))
        for line in group.lines:
            lines.append(_row([line.label, *(found.mean_sd(e.summary) if e else "" for e in line.entries)]))
            if any(e and e.printed for e in line.entries):
                lines.append(_published(found, line))
    return "\n".join(lines) + "\n"


def insert(text: str, tables: Mapping[str, str]) -> str:
    """A document with its tables renewed: what stands between `<!-- table: NAME -->` and `<!-- /table -->` is replaced.

    >>> from blts.report import insert
    >>> print(insert("<!-- table: a -->\\nold\\n<!-- /table -->", {"a": "| new |\\n"}))
    <!-- table: a -->
    | new |
    <!-- /table -->
    """
    pieces, place = [], 0
    for opening in OPENING.finditer(text):
        name = opening["name"]
        if opening.start() < place:
            raise ConfigError(f"The table {name!r} begins inside another one; end that with <!-- /table --> on a line of its own.")
        if name not in tables:
            raise UnknownName("table", name, tables)
        closing = CLOSING.search(text, opening.end())
        if closing is None:
            raise ConfigError(f"The table {name!r} is not ended; write <!-- /table --> on a line of its own below it.")
        pieces += [text[place : opening.end()], "\n", tables[name].strip("\n"), "\n"]
        place = closing.start()
    return "".join([*pieces, text[place:]])


def _published(found: Table, line: Line) -> str:
    return _row(["… in the paper", *(found.printed(e.printed) if e and e.printed else "" for e in line.entries)])


def _row(cells: list[str], escape: bool = True) -> str:
    return "| " + " | ".join(escaped(cell) if escape else cell for cell in cells) + " |"


def escaped(text: str) -> str:
    """Text that cannot end a cell or begin a tag."""
    plain = " ".join(text.split())
    return plain.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
