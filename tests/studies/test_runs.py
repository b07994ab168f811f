"""Runs of studies: engines, blocks, orders and shards give the same bits."""

from __future__ import annotations

import dataclasses
import pathlib

import numpy as np
import pytest

from blts import condition, registry, simulate
from blts.errors import BltsError, ConfigError
from blts.studies import Shard, Store, plan_file, run
from blts.studies.engines import compute
from blts.studies.running import TOGETHER, in_order
from blts.studies.spec import Cell
from blts.studies.store import decode
from small import arrays_of, blts, same

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


def test_blocks_of_some_conditions_come_before_the_next_conditions():
    """All first blocks first, the mutant, would load every program again for every block, where a process cannot hold them all."""
    cells = [Cell("simulate", {"x": i}, 0, first, 5) for i in range(2 * TOGETHER + 1) for first in (0, 5, 10)]
    ordered = [(cell.condition["x"], cell.first) for cell in in_order(cells[::-1])]
    assert sorted(ordered) == [(cell.condition["x"], cell.first) for cell in cells]
    groups = [ordered[: 3 * TOGETHER], ordered[3 * TOGETHER : 6 * TOGETHER], ordered[6 * TOGETHER :]]
    assert [len({x for x, _ in group}) for group in groups] == [TOGETHER, TOGETHER, 1]
    assert all([first for _, first in group] == sorted(first for _, first in group) for group in groups)


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
