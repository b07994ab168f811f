"""A small study, and what several files do with it."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import numpy as np

from blts.studies import Store, Study

SMALL = {"env": "gaussian", "horizon": 12, "times": 4}
TOML = """
title = "A small study"
replications = 8
block = 4
figures = ["curves"]

[[conditions]]
env = "gaussian"
agent = "ucb1"
scale = [1.0, 2.0]
batching = "static"
horizon = 12
times = 4
"""


def small(**changes) -> Study:
    """Two conditions that are compiled once."""
    table = {**SMALL, "agent": "ucb1", "scale": [1.0, 2.0], "batching": "static"}
    return Study(**{"name": "small", "conditions": (table,), "replications": 8, "block": 4} | changes)


def written(tmp_path: pathlib.Path, text: str = TOML) -> pathlib.Path:
    path = tmp_path / "small.toml"
    path.write_text(text)
    return path


def arrays_of(study: Study, store: Store) -> dict[str, dict[str, np.ndarray]]:
    """Every condition's arrays, its blocks put together."""
    found: dict[str, dict[str, list[np.ndarray]]] = {}
    for cell in study.cells():
        result = store.read(cell)
        assert result is not None
        for name, array in result.arrays.items():
            found.setdefault(repr(cell.condition), {}).setdefault(name, []).append(array)
    return {c: {name: np.concatenate(parts) for name, parts in arrays.items()} for c, arrays in found.items()}


def same(a: dict[str, dict[str, np.ndarray]], b: dict[str, dict[str, np.ndarray]]) -> bool:
    return a.keys() == b.keys() and all(
        a[c].keys() == b[c].keys() and all(a[c][n].tobytes() == b[c][n].tobytes() and a[c][n].dtype == b[c][n].dtype for n in a[c])
        for c in a
    )


def blts(*arguments: str, **options) -> subprocess.Popen:
    command = [sys.executable, "-c", "from blts.cli import main; main()", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, **options)
