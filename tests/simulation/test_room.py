"""Compiled programs are let go before Linux has no memory mappings left for the process, which LLVM would end."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from blts import DoublingCounts, StaticDoubling, compilation, condition, simulate

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="mappings are counted on Linux")


def played(batching, seed=0):
    case = condition("gaussian", "exact-ts")
    return simulate(seed, case.env, case.agent, batching, horizon=30, replications=3).regret


def test_mappings_grow_with_programs():
    before = compilation.mappings()
    played(DoublingCounts(), 1)
    assert compilation.mappings() > before > 100
    assert compilation.most_mappings() > 10_000


@pytest.mark.parametrize("room", [False, True])
def test_programs_are_let_go_where_there_are_too_many(room, monkeypatch, compiled):
    """And run again afterwards, with the same numbers. With room, which is the mutant, they stay."""
    played(StaticDoubling())
    first = played(DoublingCounts())
    monkeypatch.setattr(compilation, "most_mappings", lambda: 10**9 if room else 1)
    played(StaticDoubling(), 1)  # is known: nothing is compiled, and nothing let go
    many = compilation.mappings()
    compilation.make_room()
    assert (compilation.mappings() == many) == room
    del compiled[:]
    np.testing.assert_array_equal(played(DoublingCounts()), first)
    assert ("jit(call)" in compiled or "jit(run)" in compiled) == (not room)


def test_a_new_condition_and_a_cell_make_room(monkeypatch):
    from blts.simulation import programs
    from blts.studies import engines

    asked = []
    monkeypatch.setattr(programs, "make_room", lambda: asked.append("simulate"))
    monkeypatch.setattr(engines, "make_room", lambda: asked.append("cell"))
    monkeypatch.setattr(programs, "_PROGRAMS", {})
    played(DoublingCounts())
    played(DoublingCounts(), 1)
    assert asked == ["simulate"]
    with pytest.raises(AttributeError):
        engines.compute(None)  # type: ignore[arg-type]
    assert asked == ["simulate", "cell"]
