"""Rewards from a file or standard input: CSV with a header (commas or semicolons), JSON lines, or one JSON list."""

from __future__ import annotations

import codecs
import csv
import io
import json
import pathlib
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import typer

from ...errors import ConfigError


def read_text(file: str, *, strict: bool = False) -> str:
    """A file, or standard input for "-", in UTF-8, or in UTF-16 with its mark, as spreadsheets write "Unicode text".

    Other bytes become question marks, so that their rows are refused by name; with `strict` the file is refused.
    """
    if file == "-" and sys.stdin.isatty():
        typer.echo("Reading standard input, up to Ctrl-D.", err=True)
    try:
        data = sys.stdin.buffer.read() if file == "-" else pathlib.Path(file).read_bytes()
    except OSError as error:
        raise ConfigError(f"The file {file} cannot be read ({error.strerror}).") from None
    except ValueError as error:
        raise ConfigError(f"The file {file!r} cannot be read ({error}).") from None
    if data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        try:
            return data.decode("utf-16")
        except UnicodeDecodeError:
            pass
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if strict:
            line = data.count(b"\n", 0, error.start) + 1
            raise ConfigError(f"Line {line} of the file {file} is not text in UTF-8; save it as UTF-8.") from None
        return data.decode("utf-8-sig", errors="replace")


def read_units(file: str) -> list[str]:
    """The units in a file: one a line, or the column `unit` where its first line names one."""
    text = read_text(file, strict=True)
    header = [cell.strip().strip('"').lower() for cell in re.split("[,;]", text.lstrip().partition("\n")[0])]
    if "unit" not in header:
        return [line.strip() for line in text.splitlines() if line.strip()]
    lines, place = _cells(text)[0][1:], header.index("unit")
    return [line[place].strip() for line in lines if len(line) > place and line[place].strip()]


def read_rewards(file: str, metrics: Sequence[str] = (), metric: str | None = None) -> list[Any]:
    """Rows for `tell` from CSV with a header, or from one JSON object a line.

    Args:
        file: its path, or "-".
        metrics: those of the experiment: a column of such a name is not taken for rewards.
        metric: whose values they are, if they are all of one: they may be in a column of its name.

    Returns:
        The rows, as mappings.

    Raises:
        ConfigError: the file cannot be read, or lacks a column.
    """
    text = read_text(file)
    first = text.lstrip("\ufeff \t\r\n")[:1]
    return _from_jsonl(text) if first in ("{", "[") else _from_csv(text, metrics, metric)


def _cells(text: str) -> tuple[list[list[str]], bool]:
    """The lines of a CSV file, and whether they are separated by semicolons, as spreadsheets with decimal commas write them."""
    csv.field_size_limit(1 << 30)
    text = text.lstrip("\ufeff").replace("\x00", "�")
    header = text.lstrip().partition("\n")[0]
    semicolons = ";" in header and "," not in header
    try:
        lines = list(csv.reader(io.StringIO(text, newline=""), delimiter=";" if semicolons else ","))
    except csv.Error as error:
        raise ConfigError(f"This is not CSV: {error}.") from None
    return [line for line in lines if line], semicolons


def _from_csv(text: str, metrics: Sequence[str], metric: str | None) -> list[Any]:
    lines, semicolons = _cells(text)
    if not lines:
        return []
    header = [_column(cell.strip(), metric) for cell in lines[0]]
    names = [name for name in ("decision_id", "unit") if name in header]
    values = [name for name in ("reward", "value") if name in header]
    if not names or not values:
        if "�" in lines[0][0]:
            raise ConfigError("The file is not text in UTF-8; save it as CSV in UTF-8.")
        measured = [name for name in metrics if name in header]
        hint = f" {measured[0]!r} is a metric of this experiment: add --metric {measured[0]!r}." if measured and names else ""
        raise ConfigError(
            f"The file needs the columns decision_id (or unit) and reward (or value); it has {', '.join(header)[:200]}.{hint}"
        )
    if len(values) > 1 or any(header.count(name) > 1 for name in (*names, *values, "metric")):
        raise ConfigError(f"The file has a column twice, or both reward and value, among {', '.join(header)[:200]}; leave one.")
    _check_widths(lines)
    cell = lambda line, name: line[i].strip() if (i := header.index(name)) < len(line) else ""  # noqa: E731
    if semicolons:
        check_decimals([cell(line, values[0]) for line in lines[1:]])
    rows: list[Any] = []
    for line in lines[1:]:
        name = next((name for name in names if cell(line, name)), names[0])  # the decision's id, or where it is empty the unit
        said = cell(line, values[0])
        rows.append({name: cell(line, name), "reward": number_of(said.replace(",", ".") if semicolons else said)})
    if "metric" in header:
        for row, line in zip(rows, lines[1:], strict=True):
            row["metric"] = cell(line, "metric")
    return rows


def _column(name: str, metric: str | None) -> str:
    """The name of a column: those that are known in small letters, and "value" for that of the metric which is told."""
    if metric is not None and name == metric:
        return "value"
    small = name.lower().replace(" ", "_")
    return small if small in ("decision_id", "unit", "reward", "value", "metric") else name


def by_metric(rows: list[Any], metric: str | None) -> dict[str | None, list[Any]]:
    """Rows by the metric that they are about.

    Args:
        rows: as `read_rewards` gives them.
        metric: of all of them, where they do not say it themselves.

    Returns:
        Rows by metric; those of rewards under None.

    Raises:
        ConfigError: the metric is given twice, or is no text.
    """
    said = [row.get("metric") if isinstance(row, dict) else None for row in rows]
    if metric is not None:
        if any(said):
            raise ConfigError("The file names the metric of each row; leave --metric out.")
        return {metric: rows}
    out: dict[str | None, list[Any]] = {}
    for row, name in zip(rows, said, strict=True):
        if not isinstance(name, str | None):
            raise ConfigError(f"A metric is named by text; got {name!r}.")
        out.setdefault(None if name in (None, "", "reward") else name, []).append(row)
    return out or {None: []}


def csv_rows(text: str) -> tuple[list[dict[str, str]], bool]:
    """The lines of a CSV file with a header, as tables, and whether semicolons separate their cells.

    A cell that is missing at the end of a line is left out.
    """
    lines, semicolons = _cells(text)
    if not lines:
        return [], semicolons
    header = [cell.strip() for cell in lines[0]]
    if len(set(header)) < len(header):
        raise ConfigError(f"The file has a column twice, among {', '.join(header)[:200]}; leave one.")
    _check_widths(lines)
    return [dict(zip(header, map(str.strip, line), strict=False)) for line in lines[1:]], semicolons


def _check_widths(lines: list[list[str]]) -> None:
    """Refuse lines with more cells than the header: between commas, a decimal comma makes two cells of one (`ConfigError`)."""
    width = len(lines[0])
    for i, line in enumerate(lines):
        if any(cell.strip() for cell in line[width:]):
            said = f"Line {i + 1} of the file has {len(line)} cells, and its header {width}"
            raise ConfigError(f"{said}; where commas separate cells, write decimals with a point.")


def check_decimals(cells: Iterable[str]) -> None:
    """Refuse numbers of which some have a decimal comma and others a point: 1.234 may then be a thousand (`ConfigError`)."""
    numbers = [cell for cell in cells if isinstance(number_of(cell.replace(",", ".")), float)]
    comma, point = (next((cell for cell in numbers if mark in cell), None) for mark in ",.")
    if comma is not None and point is not None:
        raise ConfigError(f"The file has numbers with a comma ({comma}) and with a point ({point}); write all of them one way.")


def json_rows(text: str) -> list[dict[str, Any]]:
    """One JSON object a line, or a list of them."""
    rows = _from_jsonl(text)
    if not all(isinstance(row, dict) for row in rows):
        raise ConfigError("The file must have one JSON object a line.")
    return rows


def _from_jsonl(text: str) -> list[Any]:
    try:
        whole = json.loads(text) if text.lstrip("\ufeff").lstrip().startswith("[") else None
        items = whole if whole is not None else [_from_line(i, line) for i, line in enumerate(text.splitlines(), 1) if line.strip()]
    except ConfigError:
        raise
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"This is not JSON, one object a line: {error}.") from None
    return [item if isinstance(item, dict) else (None, None) for item in items]


def _from_line(number: int, line: str) -> Any:
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise ConfigError(f"Line {number} of the file is not a JSON object: {error.msg} (column {error.colno}).") from None


def number_of(text: str) -> Any:
    """A number where the text is one; otherwise the text, which is then refused by name."""
    try:
        return float(text) if "_" not in text else text
    except ValueError:
        return text
