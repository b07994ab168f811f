"""Rewards from a file or standard input: CSV with a header, JSON lines, or one JSON list."""

from __future__ import annotations

import csv
import io
import json
import pathlib
import sys
from typing import Any

from ...errors import ConfigError


def read_rewards(file: str) -> list[tuple[Any, Any]]:
    """(decision id, reward) pairs from CSV with a header, or from one JSON object a line."""
    if file == "-":
        text = sys.stdin.read()
    else:
        try:
            text = pathlib.Path(file).read_bytes().decode("utf-8-sig", errors="replace")
        except OSError as error:
            raise ConfigError(f"The file {file} cannot be read ({error.strerror}).") from None
    first = text.lstrip("\ufeff \t\r\n")[:1]
    return _from_jsonl(text) if first in ("{", "[") else _from_csv(text)


def _from_csv(text: str) -> list[tuple[Any, Any]]:
    csv.field_size_limit(1 << 30)
    try:
        lines = list(csv.reader(io.StringIO(text.lstrip("\ufeff").replace("\x00", "�"), newline="")))
    except csv.Error as error:
        raise ConfigError(f"This is not CSV: {error}.") from None
    lines = [line for line in lines if line]
    if not lines:
        return []
    header = [cell.strip() for cell in lines[0]]
    if "decision_id" not in header or "reward" not in header:
        raise ConfigError(f"The file needs the columns decision_id and reward; it has {', '.join(header)[:200]}.")
    which, what = header.index("decision_id"), header.index("reward")
    cell = lambda line, i: line[i].strip() if i < len(line) else ""  # noqa: E731
    return [(cell(line, which), _number(cell(line, what))) for line in lines[1:]]


def _from_jsonl(text: str) -> list[tuple[Any, Any]]:
    try:
        whole = json.loads(text) if text.lstrip("\ufeff").lstrip().startswith("[") else None
        items = whole if whole is not None else [json.loads(line) for line in text.splitlines() if line.strip()]
    except (json.JSONDecodeError, RecursionError) as error:
        raise ConfigError(f"This is not JSON, one object a line: {error}.") from None
    return [(item.get("decision_id"), item.get("reward")) if isinstance(item, dict) else (None, None) for item in items]


def _number(text: str) -> Any:
    """A number where the text is one; otherwise the text, which `tell` then calls invalid."""
    try:
        return float(text) if "_" not in text else text
    except ValueError:
        return text
