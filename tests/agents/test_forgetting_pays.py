"""What forgetting saves where means drift, and what it costs where they do not.

Runs share their seeds, so they are compared in pairs. The study `drift` has the factors; less is asked for here, by what the
standard errors of few runs leave open.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest

from blts import condition, simulate

RUNS, HORIZON = 40, 4000
SAVED = {"drifting-walk": 1.1, "drifting-abrupt": 1.3, "drifting-seasonal": 1.6}
"""The factor in regret that is asked for at least."""
COST = 0.03  # of a reward a round, without drift: uniform play loses 0.5 a round


@functools.cache
def regret(env: str, forget: str, agent: str = "exact-ts") -> np.ndarray:
    chosen = condition(env, agent, "fixed", horizon=HORIZON, batch_size=20, options={"forget": forget})
    return simulate(1, chosen.env, chosen.agent, chosen.batching, horizon=HORIZON, replications=RUNS, times=2).final_regret


def saves(env: str, forget: str, factor: float, agent: str = "exact-ts") -> bool:
    """Whether the regret without forgetting is more than `factor` times that with it, by three standard errors."""
    gap = regret(env, "nothing", agent) - factor * regret(env, forget, agent)
    return bool(gap.mean() > 3 * gap.std(ddof=1) / np.sqrt(RUNS))


def costs_little(forget: str, agent: str = "exact-ts") -> bool:
    more = (regret("drifting-none", forget, agent) - regret("drifting-none", "nothing", agent)) / HORIZON
    return bool(more.mean() + 3 * more.std(ddof=1) / np.sqrt(RUNS) < COST)


@pytest.mark.parametrize("env", SAVED)
@pytest.mark.parametrize("forget", ["discount 0.998", "window 600"])
def test_forgetting_pays_where_means_drift(env, forget):
    assert saves(env, forget, SAVED[env])


@pytest.mark.parametrize("forget", ["discount 0.998", "window 600"])
def test_forgetting_costs_little_where_they_do_not(forget):
    assert costs_little(forget)
    assert not saves("drifting-none", forget, 1.0)  # the mutants of both tests: the other world, and too short a memory


def test_too_short_a_memory_is_no_help():
    assert not costs_little("discount 0.9")
    assert not saves("drifting-walk", "discount 0.9", SAVED["drifting-walk"])
