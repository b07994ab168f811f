"""Rehearsals play stopping rules and guardrails as the worker of an experiment does."""

from __future__ import annotations

import numpy as np
import pytest

from blts.live.rehearsal.planning import Plan
from blts.live.rehearsal.simulating import run
from laws import LEVEL
from rehearsals import DAY, HOUR, REPLICATIONS, Driven, far_apart, planned, smallest_p, spec_of

REFUNDS = {"name": "refunds", "model": "conversions", "better": "lower", "window": 3 * HOUR, "default": 0.0}
PROMOTES = {"p_best": 0.95, "action": "promote"}
RULES = {
    "a winner": {"stop": PROMOTES},
    "recommended": {"stop": {"p_best": 0.95, "units": 100}},
    "expected loss": {"stop": {"loss": 0.01, "action": "promote"}, "refresh_seconds": 4 * HOUR},
    "budget": {"stop": {"units": 70, "action": "promote"}, "strict": True},
    "budget, then the control": {"stop": {"units": 70, "action": "promote", "otherwise": "control"}, "control": "B"},
    "a date": {"stop": {"until": 10 * HOUR, "action": "promote", "otherwise": "control"}},
    "guardrail": {"metrics": [REFUNDS | {"pause": True}], "window": 4 * HOUR, "default_reward": 0.0, "floor": 0.3},
    "both": {"metrics": [REFUNDS | {"pause": True}], "stop": PROMOTES | {"units": 150}, "floor": 0.3, "exposure": "explicit"},
}
LIGHT = ("a winner", "budget", "both")
FAR = {"A": "0.1", "B": "0.9"}
WORSE = {"refunds": {"A": 0.05, "B": 0.9}}


def ruled(name: str) -> Plan:
    """A plan that has to do with a rule: an arm that wins by far, or that has refunds nearly always."""
    settings, exposed = RULES[name], 0.9 if name == "both" else 1.0
    metrics = {"metrics": WORSE} if "metrics" in settings else {}
    start = {"start": 0.0} if name == "a date" else {}
    return planned(spec_of(**settings), FAR, units=200, per_day=200.0, delay="exponential 1h", exposed=exposed, **metrics, **start)


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in LIGHT else pytest.mark.slow) for name in RULES])
def test_a_rehearsal_plays_the_rules_of_the_experiment(name):
    """A full experiment whose worker acts makes the decisions of a replication, and stops and retires when it does."""
    plan = ruled(name)
    block = run(plan, REPLICATIONS, far_apart)
    acts, happened = block.worker.acts, False
    for r in (1, 2):
        real = Driven(plan, r)
        assert real.arms == block.arms[r, : block.t[r]].tolist()
        assert (real.refreshes, real.versions) == (block.refreshes[r], block.version[r])
        assert real.stopped_after == (None if acts.rule[r] < 0 else acts.stopped_after[r])
        assert (real.status["stopped"], real.status["paused"]) == (block.stopped[r], block.paused[r])
        assert real.status["active"] == [block.labels[k] for k in block.active[r]]
        assert sum("is played no more" in one for one in real.did) == (~np.isnan(acts.retired_at[r])).sum()
        assert bool(real.alarms) == (~np.isnan(acts.alarm_at[r])).any()
        happened |= real.stopped_after is not None or bool(real.alarms)
    assert happened


def acted(plan: Plan, replications) -> np.ndarray:
    """One column each: stopped by the rule, when (the end where never), decisions of the best arm, whether there was an alarm."""
    block = run(plan, replications, far_apart)
    acts = block.worker.acts
    best = [(arms[:t] == 1).sum() for arms, t in zip(block.arms, block.t, strict=True)]
    when, alarm = np.where(np.isnan(acts.stopped_after), 2 * DAY, acts.stopped_after), ~np.isnan(acts.alarm_at).all((1, 2))
    return np.stack([acts.rule >= 0, when, best, alarm], axis=1).astype(float)


RETIRES = {"metrics": [REFUNDS | {"pause": True}], "floor": 0.3}


@pytest.mark.parametrize("count", [8, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("settings", "changed"),
    [
        ({"stop": PROMOTES, "floor": 0.2}, {"stop": {"units": 150, "action": "promote"}}),
        (RETIRES, {"metrics": [REFUNDS | {"margin": 0.9}]}),
    ],
)
def test_a_rehearsal_predicts_when_experiments_stop_and_alarm(settings, changed, count):
    """Experiments with other seeds and rewards than those rehearsed. The mutants rehearse another rule, or another margin."""

    def plan(given):
        spec, metrics = spec_of(batching={"name": "fixed", "size": 50}, **given), {"metrics": WORSE} if "metrics" in given else {}
        return planned(spec, FAR, units=200, per_day=200.0, delay="exponential 1h", **metrics)

    real = [Driven(plan(settings), 1000 + r) for r in range(count)]
    rows = [(r.stopped_after is not None, r.stopped_after or 2 * DAY, r.arms.count(1), bool(r.alarms)) for r in real]
    given = np.array(rows, float)
    assert smallest_p(given, acted(plan(settings), REPLICATIONS)) > LEVEL
    assert smallest_p(given, acted(plan(settings | changed), REPLICATIONS)) < LEVEL
