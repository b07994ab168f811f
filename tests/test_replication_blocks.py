"""Blocks of replications whose state stays in a core's cache: how they are divided, and that results do not depend on them."""

from __future__ import annotations

import numpy as np
import pytest

from blts import Exact, Fixed, Linear, Thompson, envs, simulate
from blts.simulation import memory, programs
from blts.simulation.programs import VECTOR, Run, Sizes

MODEL = Linear(prior_mean=np.zeros(3), sd=0.5)
ENV = envs.Contextual(MODEL, envs.GaussianContexts(np.ones(3)), arms=4)
AGENT = Thompson(MODEL, Exact(), arms=4)


@pytest.mark.parametrize("replications", [1, 63, 64, 1000, 1001, 5000])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_parts_hold_every_replication_once_and_no_more_than_a_block(replications, threads):
    for block in (16, 112, replications):
        parts, size = Run(None, None, None, None, np.zeros(0), 1, block).parts(replications, threads)  # type: ignore[arg-type]
        assert (parts - 1) * size < replications <= parts * size
        assert size <= max(block, -(-replications // threads))
        assert parts <= threads or size <= block
        assert parts <= threads or size % VECTOR == 0


def test_a_block_fits_into_the_cache_and_small_states_have_none():
    sizes = Sizes(100, 1, 1000, False)
    wide = Linear(prior_mean=np.zeros(12), sd=0.5)
    env = envs.Contextual(wide, envs.GaussianContexts(np.ones(12)), arms=5)
    agent = Thompson(wide, Exact(), arms=5)
    state = 2 * 5 * (12 * 12 + 12) * 4  # bytes of mean and root, those that are drawn from and those that are updated
    found = memory.block(env, agent, Fixed(10), sizes)
    assert memory.SMALLEST_BLOCK <= found <= memory.CACHE / state
    assert found % VECTOR == 0
    assert memory.block(ENV, AGENT, Fixed(10), sizes) == 1000


def test_results_do_not_depend_on_blocks(monkeypatch):
    run = lambda: simulate(3, ENV, AGENT, Fixed(7), horizon=60, replications=70, keep_actions=True, threads=2)  # noqa: E731
    whole, sizes, made = run(), [], programs._program
    monkeypatch.setattr(memory, "CACHE", 0)
    monkeypatch.setattr(memory, "SMALLEST_BLOCK", 16)
    monkeypatch.setattr(programs, "_program", lambda *a: sizes.append(a[2].replications) or made(*a))
    blocks = run()
    assert sizes == [16]
    np.testing.assert_array_equal(whole.actions, blocks.actions)
    np.testing.assert_allclose(whole.regret, blocks.regret, rtol=1e-5, atol=1e-5)
    assert (whole.batches == blocks.batches).all()
