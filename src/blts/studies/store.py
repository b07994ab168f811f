"""Results on disk: one immutable file a cell, named by its content, written whole or not at all. No JAX here."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import math
import os
import pathlib
import platform
import re
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import StoreError
from .spec import Cell, Study

MAGIC, FIRST_MAGIC = b"blts cell 2\n", b"blts cell 1\n"
MARK, HEADING = "blts.json", "run.json"
FORMAT = 2
READABLE = (1, 2)
"""Folders of format 1 have cells of NumPy's format, which are read and no longer written."""
PLAIN = "biufcUS"
"""Kinds of arrays that are their bytes: no objects, no records."""
WRITING = f".writing-{platform.node()}-"
"""Files that are being written, and by whom."""


class Corrupt(StoreError):
    """A file that is not what was written."""


class Heading(NamedTuple):
    """What stands above the report of a run."""

    title: str = ""
    lead: str = ""


class Result(NamedTuple):
    """What a cell gave. Arrays have the replications in front."""

    arrays: dict[str, np.ndarray]
    about: dict[str, Any]
    """What is the same for all replications: recorded rounds, bounds, descriptions."""
    provenance: dict[str, Any]


def encode(result: Result) -> bytes:
    """A result as bytes: a checksum of all that follows, the length of a header in JSON, the header, the arrays' bytes.

    Not `np.savez`: `np.load` parses its headers as Python source, and CPython before 3.11.8 fails with "AST constructor
    recursion depth mismatch" where two threads do that at once (python/cpython#106905).
    """
    arrays = {name: np.asarray(array, order="C") for name, array in result.arrays.items()}
    for name, array in arrays.items():
        if array.dtype.kind not in PLAIN:
            raise StoreError(f"The array {name!r} of a result has the type {array.dtype}; a task's arrays hold numbers or text.")
    layout = [[name, array.dtype.str, list(array.shape)] for name, array in arrays.items()]
    header = json.dumps({"about": result.about, "provenance": result.provenance, "arrays": layout}).encode()
    payload = b"".join([len(header).to_bytes(8, "little"), header, *(array.tobytes() for array in arrays.values())])
    return MAGIC + _digest(MAGIC + payload) + b"\n" + payload


def decode(content: bytes, name: str) -> Result:
    """The result that `encode` wrote, or that an earlier version did; `Corrupt` where a byte differs."""
    start = len(MAGIC) + 65
    if not content.startswith((MAGIC, FIRST_MAGIC)) or len(content) < start:
        raise Corrupt(f"{name} is not a file of results, or is cut off.")
    payload, first = content[start:], content.startswith(FIRST_MAGIC)
    if _digest(payload if first else MAGIC + payload) != content[len(MAGIC) : start - 1]:
        raise Corrupt(f"{name} was changed or is cut off.")
    return _decode_first(payload) if first else _decode(payload)


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()


def _decode(payload: bytes) -> Result:
    place = 8 + int.from_bytes(payload[:8], "little")
    header = json.loads(payload[8:place])
    arrays = {}
    for name, dtype, shape in header["arrays"]:
        arrays[name], place = _array(payload, place, dtype, shape)
    return Result(arrays, header["about"], header["provenance"])


def _array(content: bytes, place: int, dtype: str, shape: Sequence[int]) -> tuple[np.ndarray, int]:
    """The array whose bytes begin at a place, and where they end."""
    size = math.prod(shape)
    end = place + size * np.dtype(dtype).itemsize
    return np.frombuffer(content[place:end], dtype, size).reshape(shape).copy(), end


_NPY_HEADER = re.compile(r"\{'descr': '([^']+)', 'fortran_order': (True|False), 'shape': \(([0-9, ]*)\), \}\s*")


def _decode_first(payload: bytes) -> Result:
    """A cell of format 1: a zip archive of NumPy's .npy files, whose headers are read without parsing Python."""
    arrays = {}
    with zipfile.ZipFile(io.BytesIO(payload)) as archive:
        for name in archive.namelist():
            content = archive.read(name)
            start = 10 if content[6] == 1 else 12  # version 1 has two bytes for the header's length, later ones four
            place = start + int.from_bytes(content[8:start], "little")
            header = _NPY_HEADER.fullmatch(content[start:place].decode())
            if header is None:
                raise Corrupt(f"The array {name} of a result has a header that blts never wrote.")
            by_columns, shape = header[2] == "True", [int(size) for size in header[3].replace(" ", "").split(",") if size]
            array, _ = _array(content, place, header[1], shape[::-1] if by_columns else shape)
            arrays[name.removesuffix(".npy")] = array.T if by_columns else array
    header = json.loads(str(arrays.pop("header")))
    return Result(arrays, header["about"], header["provenance"])


class Store:
    """A folder of results: `cells/` with a file for each cell, `studies/` with the studies that were run."""

    def __init__(self, folder: pathlib.Path | str):
        self.folder = pathlib.Path(folder)

    @staticmethod
    def create(folder: pathlib.Path | str) -> Store:
        """A folder to write to: new, empty, or one of ours."""
        store = Store(folder)
        try:
            store.folder.mkdir(parents=True, exist_ok=True)
            others = [path.name for path in store.folder.iterdir()]
        except OSError as error:
            raise StoreError(f"The folder {folder} cannot be made or read ({_why(error)}); give another --out.") from None
        if MARK in others:
            if store.format() != FORMAT:
                store.mark()
        elif others:
            raise StoreError(
                f"The folder {folder} holds other files (such as {sorted(others)[0]}), and results would mix with them; "
                "give --out a new or empty folder."
            )
        else:
            store.mark()
        return store

    @staticmethod
    def open(folder: pathlib.Path | str) -> Store:
        """A folder that is ours already."""
        store = Store(folder)
        if not (store.folder / MARK).is_file():
            raise StoreError(f"{folder} is not a folder of results; `blts study run` or `blts paper` makes one.")
        store.format()
        return store

    def mark(self) -> None:
        self.write(MARK, json.dumps({"what": "results of blts studies", "format": FORMAT}) + "\n")

    def format(self) -> int:
        """The number of the format that the folder is in; `StoreError` where this version cannot read it."""
        try:
            mark = json.loads((self.folder / MARK).read_text())
            found = mark["format"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{self.folder / MARK} cannot be read ({error}); give another folder.") from None
        if found not in READABLE:
            raise StoreError(f"{self.folder} has results of format {found}, and this version reads {FORMAT}; give another folder.")
        return found

    # Cells

    def path(self, cell: Cell) -> pathlib.Path:
        return self.folder / "cells" / f"{cell.address()}.cell"

    def read(self, cell: Cell) -> Result | None:
        """The result of a cell; None where there is none, and `Corrupt` where the file is damaged."""
        path = self.path(cell)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(f"{path} cannot be read ({_why(error)}).") from None
        result = decode(content, str(path))
        if "cell" in result.provenance and not cell.is_described_by(result.provenance["cell"]):
            raise Corrupt(f"{path} has the results of another cell.")
        return result

    def put(self, cell: Cell, content: bytes) -> None:
        decode(content, "a result that has just arrived")
        self.write(str(self.path(cell).relative_to(self.folder)), content)

    # Studies

    def save(self, study: Study) -> None:
        self.write(f"studies/{study.name}.json", json.dumps(study.to_json(), indent=1, ensure_ascii=False) + "\n")

    def begin(self, studies: Sequence[Study], heading: Heading) -> None:
        """Write down what is run here, before anything is computed; it replaces what was run before, but for its cells."""
        names = [study.name for study in studies]
        if len(set(names)) < len(names):
            raise StoreError(f"Two studies have one name ({', '.join(names)}); rename one.")
        self.tidy()
        for study in studies:
            self.save(study)
        self.write(HEADING, json.dumps({**heading._asdict(), "studies": names}, indent=1, ensure_ascii=False) + "\n")

    def heading(self) -> Heading:
        found = self._contents()
        return Heading(found.get("title", ""), found.get("lead", ""))

    def studies(self) -> list[Study]:
        """The studies of the last run here, in its order."""
        present = {path.stem: path for path in sorted((self.folder / "studies").glob("*.json"))}
        names = self._contents().get("studies", list(present))
        found = []
        for name in names:
            path = present.get(name, self.folder / "studies" / f"{name}.json")
            try:
                found.append(Study.from_json(json.loads(path.read_text())))
            except (OSError, ValueError, TypeError) as error:
                raise StoreError(f"{path} cannot be read ({error}); run the study again.") from None
        return found

    def _contents(self) -> dict[str, Any]:
        path = self.folder / HEADING
        try:
            found = json.loads(path.read_text())
            _check_contents(found)
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise StoreError(f"{path} cannot be read ({error}); run the study again.") from None
        return found

    # Files

    def write(self, name: str, content: str | bytes) -> None:
        """Write a file whole or not at all: under another name first, then renamed."""
        path = self.folder / name
        temporary = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f"{WRITING}{os.getpid()}-", delete=False) as file:
                temporary = file.name
                file.write(content.encode() if isinstance(content, str) else content)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except OSError as error:
            if temporary is not None:
                pathlib.Path(temporary).unlink(missing_ok=True)
            advice = "free some space" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "mend that"
            raise StoreError(
                f"{path} cannot be written ({_why(error)}); {advice} and run the same command again: finished cells are kept."
            ) from None

    def tidy(self) -> None:
        """Remove what processes that were killed on this machine left half-written."""
        for path in self.folder.rglob(f"{WRITING}*"):
            pid = path.name.removeprefix(WRITING).split("-")[0]
            if pid.isdecimal() and not _runs(int(pid)):
                path.unlink(missing_ok=True)

    def sweep(self, cells: Iterable[Cell]) -> tuple[list[Cell], list[str]]:
        """The cells that are still to be computed, and what is wrong with damaged files among them."""
        missing, damaged = [], []
        for cell in cells:
            try:
                if self.read(cell) is None:
                    missing.append(cell)
            except Corrupt as error:
                damaged.append(str(error))
                missing.append(cell)
        return missing, damaged


def _check_contents(found: Any) -> None:
    """Refuse what is no heading of a run (`ValueError`)."""
    if not isinstance(found, dict):
        raise ValueError("it is no table")
    names = found.get("studies", [])
    if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
        raise ValueError("its studies are no list of names")
    if not all(isinstance(found.get(name, ""), str) for name in Heading._fields):
        raise ValueError("its title or lead is no text")


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _why(error: OSError) -> str:
    return error.strerror or str(error)
