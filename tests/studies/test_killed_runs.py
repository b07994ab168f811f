"""Runs that are killed and resumed, by the command line."""

from __future__ import annotations

import json
import os
import pathlib
import random as python_random
import re
import signal
import subprocess
import sys
import time

import pytest

from blts.studies import Heading, Store
from blts.studies import store as store_module
from blts.studies.planning import plan
from blts.studies.store import StoreError, decode
from small import TOML, blts, small, written

# Killed and resumed

PROVENANCE = {"provenance.json", "report.json"}


def contents(folder: pathlib.Path) -> dict[str, bytes]:
    """Every file of a report but its provenance; of the page, what stands before the provenance box; of cells, their arrays."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if not path.is_file() or name in PROVENANCE:
            continue
        content = path.read_bytes()
        if path.suffix == ".cell":
            result = decode(content, name)
            content = b"".join(result.arrays[key].tobytes() for key in sorted(result.arrays)) + repr(result.about).encode()
        if name == "index.html":
            assert b'id="provenance"' in content
            content = content.split(b'id="provenance"')[0]
        found[name] = content
    return found


def finished(process: subprocess.Popen) -> str:
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err[-2000:]
    return out


CELLS = 30
KILLED = TOML.replace("replications = 8", "replications = 40").replace("[1.0, 2.0]", "[0.5, 1.0, 2.0]")


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("uninterrupted")
    finished(blts("study", "run", str(written(folder, KILLED)), "--out", str(folder / "out")))
    return contents(folder / "out")


def killed_and_resumed(tmp_path: pathlib.Path, engine: str, seed: int) -> tuple[dict[str, bytes], int]:
    """Run, kill -9 the whole group at a random moment once the folder is there, resume."""
    out = tmp_path / "out"
    process = blts("study", "run", str(written(tmp_path, KILLED)), "--out", str(out), "--engine", engine)
    deadline = time.monotonic() + 120
    wanted = python_random.Random(seed).randrange(CELLS)
    while process.poll() is None and len(list(out.glob("cells/*.cell"))) < wanted and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(python_random.Random(seed).uniform(0, 0.3))
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    before = len(list(out.glob("cells/*.cell")))
    if not (out / "run.json").exists():  # killed before anything was begun
        finished(blts("study", "run", str(written(tmp_path, KILLED)), "--out", str(out), "--engine", engine))
    else:
        said = finished(blts("study", "resume", str(out), "--engine", engine))
        assert re.search(rf"\b{CELLS - before} cells? computed", said)
    return contents(out), before


@pytest.mark.parametrize("engine", ["in-process", "processes", "dask"])
def test_a_killed_run_is_resumed_to_the_same_bytes(engine, uninterrupted, tmp_path):
    if engine == "dask":
        pytest.importorskip("distributed", reason="Dask is not installed")
    found, _ = killed_and_resumed(tmp_path, engine, seed=len(engine))
    assert found.keys() == uninterrupted.keys()
    assert [name for name in found if found[name] != uninterrupted[name]] == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_killed_at_many_moments(seed, uninterrupted, tmp_path):
    found, _ = killed_and_resumed(tmp_path, "in-process", seed)
    assert found == uninterrupted


def test_the_commands(uninterrupted, tmp_path):
    """Run, run again, status, report, another seed: what they print and what they leave alone."""
    spec, out = str(written(tmp_path, KILLED)), str(tmp_path / "out")
    assert f"{CELLS} cells computed" in finished(blts("study", "run", spec, "--out", out))
    assert "0 cells computed" in finished(blts("study", "run", spec, "--out", out))
    status = json.loads(finished(blts("study", "status", out, "--json")))
    assert status == [{"study": "small", "cells": CELLS, "stored": CELLS, "damaged": 0}]
    (tmp_path / "out" / "index.html").unlink()
    finished(blts("study", "report", out))
    assert contents(tmp_path / "out") == uninterrupted


def test_heading_and_order_are_kept(tmp_path):
    store = Store.create(tmp_path / "out")
    studies = [plan(small(name=name)) for name in ("b", "a")]
    store.begin(studies, Heading("Title", "Lead"))
    assert [study.name for study in store.studies()] == ["b", "a"]
    assert store.heading() == Heading("Title", "Lead")
    with pytest.raises(StoreError, match="Two studies have one name"):
        store.begin([studies[0], studies[0]], Heading())


def test_what_killed_processes_left_is_removed(tmp_path):
    store = Store.create(tmp_path / "out")
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True, check=True)
    mine, theirs = (store.folder / f"{store_module.WRITING}{pid}-x" for pid in (os.getpid(), int(gone.stdout)))
    mine.touch()
    theirs.touch()
    store.begin([], Heading())
    assert mine.exists()
    assert not theirs.exists()
