"""Studies: specs and their normal form, the store, engines that give the same bits, and runs that are killed and resumed."""

from __future__ import annotations

import dataclasses
import errno
import gc
import hashlib
import inspect
import io
import json
import os
import pathlib
import random as python_random
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from blts import condition, paper, registry, simulate
from blts.errors import BltsError, ConfigError
from blts.studies import Heading, Result, Shard, Store, Study, plan_file, read, run
from blts.studies import store as store_module
from blts.studies.engines import compute
from blts.studies.planning import plan
from blts.studies.provenance import code_version
from blts.studies.store import Corrupt, StoreError, decode, encode

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


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> tuple[Study, Store]:
    """The small study, run in this process."""
    store = Store.create(tmp_path_factory.mktemp("whole"))
    assert run([plan(small())], store)
    return store.studies()[0], store


# Specs


def test_lists_are_grids():
    study = Study("s", conditions=({"agent": ["a", "b"], "x": [1, 2]}, {"agent": "c"}))
    assert study.expanded() == [{"agent": a, "x": x} for a in "ab" for x in (1, 2)] + [{"agent": "c"}]


def test_the_normal_form_fills_in_defaults_and_is_its_own():
    study = plan(small())
    assert study.conditions[0] == {
        "env": "gaussian", "agent": "ucb1", "batching": "static", "prior": "informative", "horizon": 12, "times": 4, "drawn": False,
        "scale": 1.0,
    }  # fmt: skip
    assert plan(study) == study
    assert Study.from_json(json.loads(json.dumps(study.to_json()))).conditions == study.conditions


def test_conditions_that_compute_the_same_are_run_once():
    """UCB1 has no prior; an option left at what it is by default is another condition only in name."""
    table = {**SMALL, "agent": ["ucb1", "exact-ts"], "prior": ["informative", "uninformative"]}
    assert [(c["agent"], c["prior"]) for c in plan(small(conditions=(table,))).conditions] == [
        ("ucb1", "informative"), ("exact-ts", "informative"), ("exact-ts", "uninformative"),
    ]  # fmt: skip


def test_a_method_names_its_parts():
    (condition,) = plan(small(conditions=({**SMALL, "method": "karbasi-2021"},))).conditions
    assert (condition["agent"], condition["batching"], condition["method"]) == ("exact-ts", "dynamic", "karbasi-2021")


def test_a_longer_study_begins_with_the_same_cells():
    cells = [list(plan(small(replications=n, block=4)).cells()) for n in (8, 12)]
    assert {c.address() for c in cells[0]} < {c.address() for c in cells[1]}
    assert [c.replications for c in plan(small(replications=9)).cells()] == [4, 4, 1] * 2


def test_the_address_is_of_all_that_decides_the_numbers_and_of_nothing_else():
    cell = next(plan(small()).cells())
    assert cell.address() == cell._replace(source="elsewhere.py").address()
    changed = [
        cell._replace(seed=1), cell._replace(first=4), cell._replace(replications=5), cell._replace(task="counts"),
        cell._replace(code="abc"), cell._replace(version="abc"), cell._replace(condition={**cell.condition, "horizon": 13}),
    ]  # fmt: skip
    assert len({cell.address(), *(c.address() for c in changed)}) == 1 + len(changed)
    assert len(code_version()) == 16
    assert plan(small(title="Other words", figures=("dots",))).conditions == plan(small()).conditions


def test_the_papers_studies_are_planned():
    chapters = []
    for name in paper.NAMES:
        study = plan(paper.study(name))
        assert study.title
        assert plan(study) == study
        chapters += [study.chapter] if study.chapter not in chapters[-1:] else []
    assert len(chapters) == len(set(chapters)) == 4  # studies of one chapter stand together
    assert set(paper.NAMES) == {p.stem for p in (pathlib.Path(paper.__file__).parent / "studies").glob("*.toml")}


def test_every_printed_number_has_a_condition():
    """All cells of the paper's two tables of results: four methods and the batches under three schemes; nine of RiverSwim."""
    for name, count in (("gaussian", 15), ("riverswim", 9)):
        study = plan(paper.study(name))
        own = [row for row in study.printed if "study" not in row]
        assert len(own) == count
        assert len(study.printed) == 24
        for row in own:
            names = {key: x for key, x in row.items() if key not in ("metric", "mean", "sd", "n", "where")}
            assert any(names.items() <= condition.items() for condition in study.conditions), row


# Bad input

BAD = {
    "not TOML": ("x = = 1", "is not valid TOML: Invalid value (at line 1"),
    "unknown field": (TOML.replace("replications", "replicatons"), "line 3: A study has no field 'replicatons'. Did you"),
    "too few": (TOML.replace("replications = 8", "replications = 1"), "line 3: replications must be a whole number ≥ 2; got 1."),
    "no conditions": ("replications = 4", "line 1: A study needs conditions"),
    "conditions not tables": ('conditions = "all"', "line 1: conditions must be a list of tables"),
    "unknown agent": (TOML.replace('"ucb1"', '"ucb11"'), "line 9: There is no agent named 'ucb11'. Did you mean 'ucb1'?"),
    "unknown option": (TOML.replace("scale =", "scal ="), "line 10: There is no option 'scal'. Did you mean 'scale'?"),
    "bad horizon": (TOML.replace("horizon = 12", "horizon = 0"), "line 12: horizon must be a whole number ≥ 1; got 0."),
    "a number for a name": (TOML.replace('batching = "static"', "batching = 3"), "line 11: batching must be a name; got 3."),
    "unknown task": ('task = "simulat"\n' + TOML, "There is no task named 'simulat'. Did you mean 'simulate'?"),
    "unknown metric": ('metrics = ["batchs"]\n' + TOML, "line 1: There is no metric named 'batchs'. Did you mean 'batches'?"),
    "no such reference": ('reference = { agent = "blts" }\n' + TOML, "No condition matches the reference"),
    "metrics not a list": ("metrics = 3\n" + TOML, "line 1: metrics must be a list of names; got 3."),
    "conditions a number": ("conditions = 3", "line 1: conditions must be a list of tables"),
    "text for a flag": (TOML + 'drawn = "no"\n', "line 14: drawn must be true or false; got 'no'."),
    "a horizon beyond 32 bits": (TOML.replace("horizon = 12", "horizon = 3000000000"), "line 12: horizon must be a whole"),
    "no agent": (TOML.replace('agent = "ucb1"', ""), "A condition to simulate needs 'agent'"),
    "a bad name": ('name = "a/b"\n' + TOML, "A study's name has letters, digits, '-' and '_' only"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_one_sentence_with_its_line(name, tmp_path):
    text, words = BAD[name]
    with pytest.raises(BltsError) as caught:
        plan_file(written(tmp_path, text))
    message = str(caught.value)
    assert words in message
    assert "\n" not in message
    assert str(tmp_path / "small.toml") in message


def test_a_missing_file_is_one_sentence(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        read(tmp_path / "none.toml")


@pytest.mark.parametrize("text", ["0/2", "3/2", "a/b", "1", "1/0", "-1/2"])
def test_bad_shards_are_refused(text):
    with pytest.raises(ConfigError, match="--shard takes i/n"):
        Shard.of(text)


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
    assert Store.open(old.folder).check() == 1
    computed = []
    assert run([study], Store.create(old.folder), finished=computed.append)
    assert computed == cells[:1]
    assert same(arrays_of(study, old), arrays_of(study, store))
    assert old.check() == store_module.FORMAT  # an earlier version refuses the folder rather than calling its cells damaged


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


# Runs


def test_what_is_stored_is_not_computed_again(whole):
    study, store = whole
    computed = []
    assert run([study], store, finished=computed.append)
    assert computed == []


def test_blocks_change_no_number(whole, tmp_path):
    study, store = whole
    other = dataclasses.replace(study, block=5)  # blocks of 5 and 3
    elsewhere = Store.create(tmp_path / "out")
    run([other], elsewhere)
    assert same(arrays_of(other, elsewhere), arrays_of(study, store))
    shifted = dataclasses.replace(study, seed=1)
    elsewhere = Store.create(tmp_path / "mutant")
    run([shifted], elsewhere)
    assert not same(arrays_of(shifted, elsewhere), arrays_of(study, store))


@pytest.mark.slow
@pytest.mark.parametrize(("env", "agents"), [("gaussian", ["exact-ts"]), ("strens-chain", ["ds-psrl", "db-psrl", "tsde"])])
def test_schemes_that_share_a_program_have_the_numbers_of_their_own(env, agents):
    task = registry.build("task", "simulate")
    for agent in agents:
        for batching in ["sequential", "static", "dynamic"] if env == "gaussian" else [None]:
            normal = task.normal(
                {"env": env, "agent": agent, "horizon": 200, "times": 20} | ({"batching": batching} if batching else {})
            )
            arrays, _ = task.run(normal, seed=0, first=0, replications=20)
            alone = condition(env, agent, batching, horizon=200)
            trace = simulate(0, alone.env, alone.agent, alone.batching, horizon=200, replications=20, times=20)
            assert arrays["curve"].tobytes() == trace.regret.tobytes()
            assert np.array_equal(arrays["batches"], trace.batches)
            assert np.array_equal(arrays["batches_by"], trace.batches_by())
            assert np.array_equal(arrays["switches"], trace.switches)


def test_the_order_changes_no_number(whole):
    study, store = whole
    for cell in reversed(list(study.cells())):
        stored = store.read(cell)
        again = decode(compute(cell), "x")
        assert stored is not None
        assert all(again.arrays[name].tobytes() == array.tobytes() for name, array in stored.arrays.items())


@pytest.mark.parametrize("engine", ["processes", "dask"])
def test_engines_give_the_same_bits(whole, tmp_path, engine):
    if engine == "dask":
        pytest.importorskip("distributed", reason="Dask is not installed")
    study, store = whole
    elsewhere = Store.create(tmp_path / "out")
    assert run([study], elsewhere, engine=engine, workers=2)
    assert same(arrays_of(study, elsewhere), arrays_of(study, store))


def test_shards_share_the_work(whole, tmp_path):
    study, store = whole
    elsewhere = Store.create(tmp_path / "out")
    computed = []
    assert not run([study], elsewhere, shard=Shard(1, 2), finished=computed.append)
    assert len(computed) == 2
    assert run([study], elsewhere, shard=Shard(2, 2), finished=computed.append)
    assert len(computed) == 4
    assert same(arrays_of(study, elsewhere), arrays_of(study, store))


def test_engines_refuse_what_they_cannot_do(whole, tmp_path):
    study, _ = whole
    store = Store.create(tmp_path / "out")
    with pytest.raises(BltsError, match=r"no engine named 'proceses'. Did you mean 'processes'"):
        run([study], store, engine="proceses")
    with pytest.raises(ConfigError, match="--address goes with --engine dask"):
        run([study], store, address="tcp://127.0.0.1:1")
    with pytest.raises(ConfigError, match="--workers must be a whole number ≥ 1"):
        run([study], store, workers=0)


def test_an_address_without_a_scheduler_is_one_sentence(whole, tmp_path):
    pytest.importorskip("distributed", reason="Dask is not installed")
    study, _ = whole
    for address in ("tcp://127.0.0.1:9", "nonsense"):
        with pytest.raises(ConfigError, match=f"No Dask scheduler answers at {address}"):
            run([study], Store.create(tmp_path / "out"), engine="dask", address=address)


def cut(store: Store, folder: pathlib.Path) -> Store:
    """A folder in which everything was begun and nothing computed."""
    begun = Store.create(folder)
    begun.begin(store.studies(), store.heading())
    return begun


def test_a_study_in_python_brings_its_own_agents(tmp_path):
    """In this process and in others: they run the file too. Another file is another result."""
    path = tmp_path / "mine.py"
    text = '''
from blts import UCB1
from blts.registry import register
from blts.studies import Study

@register("agent", "bold")
def bold(on, scale=3.0):
    """UCB1 with a wide bonus."""
    return UCB1(on.actions, scale)

condition = {"env": "gaussian", "agent": "bold", "horizon": 12, "times": 4, "batching": "static"}
study = Study("mine", conditions=(condition,), replications=4)
'''
    path.write_text(text)
    (study,) = plan_file(path)
    assert study.code
    here, there = Store.create(tmp_path / "here"), Store.create(tmp_path / "there")
    run([study], here)
    run([study], there, engine="processes", workers=1)
    assert same(arrays_of(here.studies()[0], here), arrays_of(here.studies()[0], there))
    path.write_text(text.replace("scale=3.0", "scale=300.0"))
    for engine in ("in-process", "processes"):  # a run that goes on must not mix the two files
        resumed = blts("study", "resume", str(cut(here, tmp_path / engine).folder), "--engine", engine)
        _, err = resumed.communicate(timeout=300)
        assert resumed.returncode == 2
        assert "mine.py was changed since its study was planned; run it again with `blts study run" in err
    (changed,) = plan_file(path)  # and in one process the new file is run, not the one that is remembered
    assert changed.code != study.code
    with pytest.raises(ConfigError, match=r"mine.py was changed since its study was planned"):
        run([study], Store.create(tmp_path / "mixed"))
    broken = tmp_path / "broken.py"
    broken.write_text("1 / 0")
    with pytest.raises(ConfigError, match=r"cannot be run \(ZeroDivisionError"):
        plan_file(broken)
    empty = tmp_path / "empty.py"
    empty.write_text("x = 1")
    with pytest.raises(ConfigError, match="must call a Study"):
        plan_file(empty)


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


def blts(*arguments: str, **options) -> subprocess.Popen:
    command = [sys.executable, "-c", "from blts.cli import main; main()", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, **options)


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
        assert f"{CELLS - before} cells computed" in finished(blts("study", "resume", str(out), "--engine", engine))
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
