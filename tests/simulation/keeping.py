"""What tests of kept programs share."""

from __future__ import annotations

import pathlib

from blts.simulation import memory, programs, stored


def forget() -> None:
    """As in a new process."""
    programs._PROGRAMS.clear()
    memory._BYTES.clear()
    stored._code.cache_clear()


def kept(folder: pathlib.Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.traced")}
