"""How the commands print: JSON for programs; sentences and tables for people."""

from __future__ import annotations

import datetime
import json
from typing import Any

import typer


def print_json(data: Any) -> None:
    typer.echo(json.dumps(data, allow_nan=False))


def say(text: str, wrap: bool = True) -> None:
    """Print text; `wrap=False` keeps the lines of tables as they are, however narrow the terminal."""
    from rich.console import Console

    Console().print(printable(text), highlight=False, markup=False, soft_wrap=not wrap)


def printable(text: str) -> str:
    """Text without lone surrogates, which no terminal takes."""
    return text.encode(errors="backslashreplace").decode()


def done(as_json: bool, data: dict[str, Any], sentence: str) -> None:
    if as_json:
        print_json(data)
    else:
        say(sentence)


def show_table(title: str, columns: list[str], rows: list[list[Any]], words: tuple[str, ...] = ()) -> None:
    """A table whose first column and `words` are text; the others are numbers, which no terminal may break."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    for i, column in enumerate(columns):
        text = i == 0 or column in words
        table.add_column(escape(column), justify="left" if text else "right", no_wrap=not text)
    for row in rows:
        table.add_row(*(escape(printable(cell(x))) for x in row))
    console = Console()
    console.print(escape(printable(title)), style="bold", highlight=False)  # a table's own title breaks at its width
    console.print(table)


def cell(x: Any) -> str:
    if x is None or isinstance(x, bool):
        return {None: "–", True: "yes", False: "no"}[x]
    return f"{x:.4g}" if isinstance(x, float) else str(x)


def interval(value: float | None, low: float | None, high: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.3g} [{low:.3g}, {high:.3g}]" if low is not None and high is not None else f"{value:.3g}"


def moment(at: float) -> str:
    """Seconds since 1970 as a date and time."""
    try:
        return datetime.datetime.fromtimestamp(at, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):  # outside the years 1 to 9999
        return f"{at:g} s"


def in_words(count: int, noun: str) -> str:
    """A count with its noun."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"
