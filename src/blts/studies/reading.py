"""Studies from files: TOML, or Python that also registers agents and environments of its own."""

from __future__ import annotations

import dataclasses
import hashlib
import pathlib
import re
import runpy
import sys
import threading
import tomllib
from typing import Any, NamedTuple

from ..errors import BltsError, ConfigError, type_and_message
from .spec import Study, UnknownField, check_fields


def read(path: pathlib.Path | str) -> list[Study]:
    """The studies of a file: the table of a TOML file, or what a Python file calls `study` or `studies`."""
    path = pathlib.Path(path)
    if path.suffix == ".py":
        return _read_python(path)
    return [parse(_text(path), path.stem, str(path))]


def parse(text: str, name: str, where: str = "") -> Study:
    """A study in TOML; `where` it is written leads the messages of what is wrong with it."""
    where = where or f"The study {name!r}"
    try:
        fields: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{where} is not valid TOML: {error}.") from None
    try:
        check_fields(fields)
        return Study(**{"name": name, **fields})
    except UnknownField as error:
        raise ConfigError(f"{where}, line {line_of(text, error.field)}: {error}") from None
    except ConfigError as error:
        raise ConfigError(f"{where}, line {_line_about(text, str(error))}: {error}") from None


def plan_file(path: pathlib.Path | str) -> list[Study]:
    """The studies of a file, planned; a name or number that is wrong is reported with its line."""
    from .planning import BadCondition, plan

    planned = []
    for study in read(path):
        try:
            planned.append(plan(study))
        except BadCondition as error:
            text = "" if pathlib.Path(path).suffix == ".py" else _text(pathlib.Path(path))
            where = f", line {line_of_condition(text, error.number, str(error))}" if text else ""
            raise ConfigError(f"{path}{where}: {error}") from None
        except BltsError as error:
            text = "" if pathlib.Path(path).suffix == ".py" else _text(pathlib.Path(path))
            raise ConfigError(f"{path}{_where(text, str(error))}: {error}") from None
    return planned


def _where(text: str, message: str) -> str:
    """The line that a message is about, by the rarest of the words that it quotes."""
    found = _quoted(text, message)
    return f", line {found}" if found else ""


def _line_about(text: str, message: str) -> int:
    """The line of the key that a message begins with or, in a list of tables, of what it quotes."""
    key = line_of(text, message.split()[0].rstrip(":"))
    return _quoted(text, message, key) or key if message.startswith("findings: ") else key


def _quoted(text: str, message: str, first: int = 1) -> int:
    """The first line, from `first` on, that has the rarest of the words that a message quotes; 0 where none has."""
    words = re.findall(r"'([^']+)'", message)
    lines = [[i for i, line in enumerate(text.splitlines(), 1) if i >= first and word in line] for word in words]
    return min((found for found in lines if found), key=len, default=[0])[0]


class _Loaded(NamedTuple):
    code: str
    """The digest of the file that was run."""
    names: dict[str, Any]


_LOADED: dict[str, _Loaded] = {}
_LOADING = threading.RLock()


def import_beside(path: str) -> None:
    """Let a file import the modules in its folder, as if Python had been started with it.

    Args:
        path: of the file.
    """
    if (folder := str(pathlib.Path(path).resolve().parent)) not in sys.path:
        sys.path.insert(0, folder)


def load_source(path: str, code: str | None = None) -> dict[str, Any]:
    """Run a user's Python file, once a process while it stays the same; what it registers is then known here.

    A file that does not have the digest `code` is refused: its results would be stored as those of the file that was planned.
    """
    key = str(pathlib.Path(path).resolve())
    with _LOADING:
        loaded = _LOADED.get(key)
        if loaded is None or code is None:
            found = digest_of(_text(pathlib.Path(key)))
            if code in (None, found) and (loaded is None or loaded.code != found):
                import_beside(key)
                loaded = _LOADED[key] = _Loaded(found, runpy.run_path(key, run_name="blts_study"))
        if loaded is None or code not in (None, loaded.code):
            raise ConfigError(f"{path} was changed since its study was planned; run it again with `blts study run {path}`.")
        return loaded.names


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _read_python(path: pathlib.Path) -> list[Study]:
    try:
        found = load_source(str(path))
    except BltsError:
        raise
    except Exception as error:  # whatever a user's file does
        raise ConfigError(f"{path} cannot be run ({type_and_message(error)}).") from None
    studies = found.get("studies", [found["study"]] if "study" in found else [])
    if not studies or not all(isinstance(study, Study) for study in studies):
        raise ConfigError(f"{path} must call a Study `study`, or a list of them `studies`.")
    code = _LOADED[str(path.resolve())].code
    return [dataclasses.replace(study, code=code, source=str(path.resolve())) for study in studies]


def _text(path: pathlib.Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not text in UTF-8.") from None
    except OSError as error:
        raise ConfigError(f"The study {path} cannot be read ({error.strerror}).") from None


def line_of(text: str, key: str, first: int = 1) -> int:
    """The line, from `first` on, that sets a key or opens a table of its name; `first` where there is none."""
    setting = re.compile(rf"""^\s*(["']?){re.escape(key)}\1\s*=|^\s*\[\[?\s*{re.escape(key)}\s*\]""")
    for number, line in enumerate(text.splitlines(), 1):
        if number >= first and setting.search(line):
            return number
    return first


def line_of_condition(text: str, number: int, message: str) -> int:
    """The line in the given [[conditions]] table that a message is about: the first that has a word it quotes or names."""
    starts = [i for i, line in enumerate(text.splitlines(), 1) if re.match(r"\s*\[\[\s*conditions\s*\]\]", line)]
    if number >= len(starts):
        return line_of(text, "conditions")
    end = starts[number + 1] if number + 1 < len(starts) else len(text.splitlines()) + 1
    words = re.findall(r"'([^']+)'", message) + message.split()[:1]
    for word in words:
        for line in range(starts[number] + 1, end):
            if re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text.splitlines()[line - 1]):
                return line
    return starts[number]
