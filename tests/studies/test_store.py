"""The store of results: formats, damage, threads and other people's folders."""

from __future__ import annotations

import errno
import gc
import hashlib
import inspect
import io
import json
import sys
import threading
import time

import numpy as np
import pytest

from blts import condition, registry, simulate
from blts.studies import Heading, Result, Store, run
from blts.studies import store as store_module
from blts.studies.store import Corrupt, StoreError, decode, encode
from small import arrays_of, same

# The store


def example() -> Result:
    return Result({"x": np.arange(6.0).reshape(2, 3)}, {"times": [1, 2, 3]}, {"host": "here"})


def test_results_come_back_as_they_were():
    back = decode(encode(example()), "x")
    assert np.array_equal(back.arrays["x"], example().arrays["x"])
    assert back.about == {"times": [1, 2, 3]}
    assert back.provenance == {"host": "here"}


def test_any_damage_is_found():
    content = encode(example())
    for place in range(0, len(content), 7):
        damaged = bytearray(content)
        damaged[place] ^= 1
        with pytest.raises(Corrupt):
            decode(bytes(damaged), "x")
        with pytest.raises(Corrupt):
            decode(content[:place], "x")
    with pytest.raises(Corrupt):
        decode(content + b"0", "x")


def in_the_first_format(result: Result) -> bytes:
    """What `encode` was in format 1."""
    body = io.BytesIO()
    header = json.dumps({"about": result.about, "provenance": result.provenance})
    np.savez(body, header=np.array(header), allow_pickle=False, **result.arrays)
    payload = body.getvalue()
    return store_module.FIRST_MAGIC + hashlib.sha256(payload).hexdigest().encode() + b"\n" + payload


def every_kind() -> Result:
    """Arrays of every kind and layout that a task can give."""
    x = np.random.default_rng(0).normal(size=(3, 4, 5))
    arrays = {
        "rows": x, "columns": x.T, "strided": x[:, ::2], "flags": x > 0, "small": x.astype(np.float32), "none": x[:0],
        "whole": np.arange(7, dtype=np.int32), "long": np.arange(7), "words": np.array(["a", "bcd"]), "one": np.array(2.5),
        "by columns": np.asfortranarray(x[0]), "complex": x + 1j, "wide": np.array([1.5], ">f8"),
    }  # fmt: skip
    return Result(arrays, {"times": [1, 2, 3], "text": "’ä€ \n"}, {"host": "here"})


@pytest.mark.parametrize("write", [encode, in_the_first_format])
def test_arrays_of_every_kind_come_back(write):
    given = every_kind()
    back = decode(write(given), "x")
    assert back[1:] == given[1:]
    assert list(back.arrays) == list(given.arrays)
    for name, array in given.arrays.items():
        assert back.arrays[name].dtype == array.dtype
        assert np.array_equal(back.arrays[name], array)
        assert back.arrays[name].flags.writeable


def test_arrays_of_objects_are_refused():
    for wrong in (np.array([{}, None]), np.zeros(2, [("a", float)])):
        with pytest.raises(StoreError, match="hold numbers or text"):
            encode(Result({"x": wrong}, {}, {}))


def test_a_folder_of_the_first_format_is_read_and_continued(whole, tmp_path):
    study, store = whole
    old = Store.create(tmp_path / "old")
    old.begin([study], Heading("Old"))
    old.write(store_module.MARK, json.dumps({"what": "results of blts studies", "format": 1}))
    cells = list(study.cells())
    for cell in cells[1:]:
        found = store.read(cell)
        assert found is not None
        old.write(f"cells/{old.path(cell).name}", in_the_first_format(found))
    assert old.sweep(cells) == ([cells[0]], [])
    assert Store.open(old.folder).format() == 1
    computed = []
    assert run([study], Store.create(old.folder), finished=computed.append)
    assert computed == cells[:1]
    assert same(arrays_of(study, old), arrays_of(study, store))
    assert old.format() == store_module.FORMAT  # an earlier version refuses the folder rather than calling its cells damaged


# Threads


def test_threads_of_a_study_parse_no_python(whole, tmp_path, parsed):
    study, store = whole
    assert run([study], Store.create(tmp_path / "out"), workers=2)
    assert all(store.read(cell) is not None for cell in study.cells())
    chosen = condition("gaussian", "ucb1", "static", horizon=12)
    for _ in range(2):  # the first compiles in this thread
        simulate(0, chosen.env, chosen.agent, chosen.batching, horizon=12, replications=64, threads=2)
    assert parsed == []
    # The mutants, which are what met in the crash: NumPy's headers, and the signature of a class without one of its own.
    np.load(io.BytesIO(in_the_first_format(example())[len(store_module.FIRST_MAGIC) + 65 :]))["x"]
    inspect.signature(object)
    assert len(parsed) == 2


def first_error(*functions, seconds: float) -> BaseException | None:
    """What functions raise that are called again and again, each in its own thread, with collections at every moment."""
    errors: list[BaseException] = []
    end = time.monotonic() + seconds

    def repeat(function) -> None:
        try:
            while time.monotonic() < end and not errors:
                function()
        except BaseException as error:
            errors.append(error)

    def switch(phase, info) -> None:
        time.sleep(0)

    threads = [threading.Thread(target=repeat, args=(function,)) for function in functions]
    threshold, interval = gc.get_threshold(), sys.getswitchinterval()
    gc.callbacks.append(switch)  # JAX has a callback too: a collection in the middle of a parse lets other threads run
    gc.set_threshold(20)
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        gc.callbacks.remove(switch)
        gc.set_threshold(*threshold)
        sys.setswitchinterval(interval)
    return errors[0] if errors else None


def test_threads_read_and_write_results_under_stress(whole):
    """What `blts study resume` did when it crashed: results are read in one thread while another begins a cell."""
    study, _ = whole
    normal = next(study.cells()).condition
    content = encode(example())

    def begin() -> None:
        registry.build("task", "simulate").normal(normal)

    assert first_error(lambda: decode(encode(example()), "x"), lambda: decode(content, "x"), begin, seconds=3) is None
    if sys.implementation.name == "cpython" and sys.version_info < (3, 11, 8):  # the mutant, where CPython has the bug
        old = in_the_first_format(example())[len(store_module.FIRST_MAGIC) + 65 :]
        error = first_error(lambda: dict(np.load(io.BytesIO(old))), lambda: inspect.signature(object), seconds=60)
        assert "AST constructor recursion depth mismatch" in str(error)


def test_damaged_files_are_named_and_computed_again(whole, tmp_path):
    study, store = whole
    other = Store.create(tmp_path / "out")
    for cell in study.cells():
        other.put(cell, store.path(cell).read_bytes())
    cells = list(study.cells())
    other.path(cells[0]).write_bytes(store.path(cells[0]).read_bytes()[:-20])
    other.path(cells[1]).unlink()
    seen, computed = [], []
    assert run([study], other, began=seen.append, finished=computed.append)
    assert (seen[0].total, seen[0].stored) == (4, 2)
    assert str(other.path(cells[0])) in seen[0].damaged[0]
    assert {c.first for c in computed} == {0, 4}
    assert same(arrays_of(study, other), arrays_of(study, store))


def test_the_results_of_another_cell_are_not_taken(whole, tmp_path):
    study, store = whole
    other, cells = Store.create(tmp_path / "out"), list(study.cells())
    for cell in cells:
        other.put(cell, store.path(cell).read_bytes())
    other.put(cells[1], store.path(cells[0]).read_bytes())
    missing, damaged = other.sweep(cells)
    assert missing == [cells[1]]
    assert "has the results of another cell" in damaged[0]
    assert run([study], other)
    assert same(arrays_of(study, other), arrays_of(study, store))


@pytest.mark.parametrize("content", ["[]", "null", "3", '{"studies": "mine"}', '{"studies": [1]}', '{"title": 3}', "{", "\xff"])
def test_a_heading_that_was_changed_is_one_sentence(tmp_path, content):
    store = Store.create(tmp_path / "out")
    store.write(store_module.HEADING, content)
    for read in (store.studies, store.heading):
        with pytest.raises(StoreError, match=r"run.json cannot be read \(.*\); run the study again"):
            read()


def test_a_result_that_arrives_damaged_is_not_stored(whole, tmp_path):
    study, _ = whole
    store = Store.create(tmp_path / "out")
    with pytest.raises(Corrupt):
        store.put(next(study.cells()), encode(example())[:-1])
    assert not (store.folder / "cells").exists()


def test_other_peoples_folders_are_refused(tmp_path):
    (tmp_path / "mine.txt").write_text("precious")
    with pytest.raises(StoreError, match=r"holds other files \(such as mine.txt\)"):
        Store.create(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]
    with pytest.raises(StoreError, match="is not a folder of results"):
        Store.open(tmp_path)
    with pytest.raises(StoreError, match="cannot be made or read"):
        Store.create(tmp_path / "mine.txt" / "below")
    store = Store.create(tmp_path / "new")
    assert Store.create(tmp_path / "new").folder == store.folder
    store.write(store_module.MARK, json.dumps({"format": 99}))
    with pytest.raises(StoreError, match="format 99"):
        Store.create(tmp_path / "new")


def test_a_full_disk_is_one_sentence_and_leaves_nothing_half_written(tmp_path, monkeypatch):
    store = Store.create(tmp_path / "out")
    store.write("a.txt", "before")

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(store_module.os, "fsync", full)
    with pytest.raises(StoreError, match=r"a.txt cannot be written \(No space left on device\); free some space and run the same"):
        store.write("a.txt", "after")
    assert sorted(p.name for p in store.folder.iterdir()) == ["a.txt", "blts.json"]
    assert (store.folder / "a.txt").read_text() == "before"
