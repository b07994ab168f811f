"""Traced programs that are kept: the same numbers as without them, and never a program of other code, parts or settings."""

from __future__ import annotations

import functools
import pathlib
from importlib import metadata
from typing import Any

import jax
import numpy as np
import pytest

import blts
from blts import (
    UCB1,
    Bandit,
    DoublingCounts,
    Exact,
    Fixed,
    Gaussian,
    Perturb,
    Thompson,
    Trace,
    _module,
    loop,
    sgld,
    simulate,
)
from blts.compilation import keep_programs
from blts.simulation import stored
from keeping import forget, kept

pytest.importorskip("flatbuffers")
MODEL = Gaussian(prior_mean=[0.0, 0.0, 0.0], prior_sd=2.0, sd=0.5)
ENV = Bandit.with_means(Gaussian(sd=0.5), [0.0, 0.5, 1.0])


AGENTS = {"exact": Thompson(MODEL, Exact()), "sgld": Thompson(MODEL, Perturb(sgld(steps=3, minibatch=4))), "ucb1": UCB1(3)}


def run(agent="exact", batching=None, **settings: Any) -> Trace:
    settings = {"horizon": 20, "replications": 10} | settings
    return simulate(3, ENV, AGENTS[agent], batching or DoublingCounts(), **settings)


def address(agent=AGENTS["sgld"], env=ENV, batching=None, size: int = 10) -> str | None:
    return stored.address("program", (loop.run, {"replications": size}), (env, agent, batching or Fixed(5)))


@pytest.mark.parametrize(("agent", "engine"), [("exact", "step"), ("exact", "leap"), ("sgld", "step"), ("ucb1", "step")])
def test_a_kept_program_has_the_numbers_of_a_traced_one(agent, engine, request):
    traced = run(agent, engine=engine)
    forget()
    folder = request.getfixturevalue("folder")
    first = run(agent, engine=engine)
    files = kept(folder)
    assert len(files) == 2, "a program, and how much memory it takes"
    forget()
    again = run(agent, engine=engine)
    assert first == traced
    assert again == traced
    assert kept(folder) == files, "the second run found both"
    assert run(agent, engine=engine, first=1) != traced  # the comparison can fail


def test_what_is_kept_is_what_runs(folder):
    """With a file that is not its own, a program has other numbers: so none of the tests here compare what was traced again."""
    wrong = run(batching=Fixed(10))
    (program,) = (content for content in kept(folder).values() if len(content) > 200)
    for path in folder.glob("*.traced"):
        path.unlink()
    right = run(batching=Fixed(5))
    (path,) = (path for path in folder.glob("*.traced") if path.stat().st_size > 200)
    path.write_bytes(program)
    forget()
    mistaken = run(batching=Fixed(5))
    assert mistaken.batches.tolist() != right.batches.tolist()
    np.testing.assert_array_equal(mistaken.final_regret, wrong.final_regret)


def test_the_address_has_what_tracing_depends_on_and_no_traced_number(folder, monkeypatch):
    here = address()
    assert here is not None
    assert here == address(Thompson(MODEL, Perturb(sgld(steps=9, minibatch=4)))), "steps are traced"
    assert here == address(env=Bandit.with_means(Gaussian(sd=0.5), [1.0, 2.0, 3.0]))
    others = {
        "a static field": address(Thompson(MODEL, Perturb(sgld(steps=3, minibatch=5)))),
        "a class": address(AGENTS["exact"]),
        "a static number of the batching": address(batching=Fixed(6)),
        "a shape": address(env=Bandit.with_means(Gaussian(sd=0.5), [0.0, 1.0])),
        "a setting": address(size=20),
    }
    with jax.default_matmul_precision("float32"):
        others["the configuration of JAX"] = address()
    with jax.enable_x64(True):
        others["double precision"] = address()
    with monkeypatch.context() as patch:
        patch.setattr(loop, "BLOCK", loop.BLOCK + 1)
        others["a constant of a module"] = address()
    for name, changed in CHANGED.items():
        with monkeypatch.context() as patch:
            changed(patch)
            stored._code.cache_clear()
            others[name] = address()
        stored._code.cache_clear()
    assert None not in others.values()
    assert len({here, *others.values()}) == 1 + len(others), others
    assert here == address()


def another_version(library):
    def change(patch):
        version = metadata.version
        patch.setattr(metadata, "version", lambda name: "0.0" if name == library else version(name))

    return change


def another_source(place):
    def change(patch):
        read = pathlib.Path.read_bytes
        patch.setattr(pathlib.Path, "read_bytes", lambda path: read(path) + b"#" * path.as_posix().endswith(place))

    return change


CHANGED = {
    "JAX": another_version("jax"),
    "jaxlib": another_version("jaxlib"),
    "NumPy": another_version("numpy"),
    "the loop": another_source("blts/loop.py"),
    "a model": another_source("blts/models/gaussian.py"),
    "the command line": another_source("blts/cli/simulate.py"),
}


class Own(UCB1):
    """A subclass as a user writes one."""


class OwnScheme(Fixed):
    """A batching scheme with a method of its own."""

    def step(self, state, obs, action):
        return super().step(state, obs, action)


def test_nothing_of_a_users_is_kept(folder, monkeypatch):
    monkeypatch.setitem(_module._CLASSES, "UCB1", UCB1)  # the pretender takes this place, until the test ends
    pretender = type("UCB1", (UCB1,), {"__module__": UCB1.__module__, "__qualname__": "UCB1"})
    assert address(AGENTS["ucb1"]) is not None
    assert address(Own(3)) is None
    assert address(pretender(3)) is None
    assert address(batching=OwnScheme(5)) is None
    run("exact", OwnScheme(5))
    simulate(3, ENV, Own(3), Fixed(5), horizon=20, replications=10)
    assert not kept(folder)


def test_nothing_is_kept_of_a_package_that_was_changed_in_memory_or_on_disk(folder, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(loop, "order", lambda *arguments: None)
        assert address() is None, "a function of a module"
    with monkeypatch.context() as patch:
        patch.setattr(loop, "order", functools.wraps(loop.order)(lambda *arguments: None))
        assert address() is None, "a function that says that it is the old one"
    with monkeypatch.context() as patch:
        patch.setattr(Exact, "draw", lambda *arguments: None)
        assert address() is None, "a method"
    with monkeypatch.context() as patch:
        patch.setattr(loop, "Written", Own)
        assert address() is None, "a class"
    with monkeypatch.context() as patch:
        patch.setattr(blts, "_IMPORTED", 10**18)
        assert address() is None, "files that are newer than the process"
    assert address() is not None


def test_nothing_is_kept_where_jax_was_told_a_folder():
    assert keep_programs() is None
    assert address() is None


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b"", lambda b: b[: len(b) // 2], lambda b: b[:-9] + b"x" + b[-8:]])
def test_damaged_files_are_ignored_and_written_again(folder, damage):
    right, files = run(), kept(folder)
    for name, content in files.items():
        (folder / name).write_bytes(damage(content))
    forget()
    assert run() == right
    assert kept(folder).keys() == files.keys()
    forget()
    before = kept(folder)
    assert run() == right
    assert kept(folder) == before, "mended"
    assert all(stored.read(name.removesuffix(".traced")) for name in files)


def test_only_the_newest_files_stay(folder, monkeypatch):
    monkeypatch.setattr(stored, "KEPT", 3)
    for i in range(5):
        stored.write(f"{i:064}", b"content")
    assert len(kept(folder)) == 3
    assert stored.read(f"{4:064}") == b"content"
    assert stored.read(f"{0:064}") is None
