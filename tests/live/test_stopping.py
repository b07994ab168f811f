"""Stopping rules: what holds when, what a worker does then, and how often a rule stops at an arm that is no better."""

from __future__ import annotations

import json
import math
import random
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from blts.errors import ConfigError
from blts.live import Experiment, Spec, reports
from blts.live.metrics import guardrails, stopping
from blts.live.metrics.stopping import Stop, StopRule
from blts.live.worker import Worker
from experiments import Hand, created


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({}, "needs"),
        ({"action": "promote"}, "needs"),
        ({"p_best": 1.0}, "below 1"),
        ({"p_best": 0.3}, "0.5"),
        ({"p_best": "0.9"}, "probability"),
        ({"loss": -0.1}, "loss"),
        ({"units": 0}, "units"),
        ({"units": 1.5}, "whole"),
        ({"until": "soon"}, "date"),
        ({"until": True}, "date"),
        ({"until": math.inf}, "date"),
        ({"units": 5, "action": "end"}, "action"),
        ({"units": 5, "otherwise": "end"}, "otherwise"),
        ({"unit": 5}, "no setting 'unit'"),
        (7, "table"),
    ],
)
def test_a_rule_that_says_nothing_is_refused(rule, words):
    with pytest.raises(ConfigError, match=words):
        Spec.of(["A", "B"], "bernoulli", stop=rule)


def test_moments():
    assert stopping.moment_of("until", "1970-01-02") == stopping.moment_of("until", "1970-01-02T02:00+02:00") == 86400.0
    assert stopping.moment_of("until", 12) == 12.0
    assert stopping.moment_of("until", None) == math.inf


def report(p=(0.2, 0.8), loss=(0.1, 0.01), **more):
    arms = [{"arm": a, "active": True, "p_best": x, "expected_loss": y} for a, x, y in zip("AB", p, loss, strict=True)]
    return {"arms": arms, "metrics": []} | more


def due(found, *, decisions=100, now=0.0, stopped=False, **rule) -> Stop | None:
    spec = SimpleNamespace(stop=StopRule(**rule))
    return stopping.due(found, {"decisions": decisions, "stopped": stopped}, now, spec)  # type: ignore[arg-type]


def test_a_rule_holds_at_a_winner():
    found = report((0.005, 0.995))
    assert due(found, p_best=0.99)[:2] == ("winner", "B")  # type: ignore[index]
    assert due(found, p_best=0.999) is None
    assert due(found, p_best=0.99, loss=0.001) is None
    assert due(found, p_best=0.99, loss=0.02) is not None
    assert due(found, loss=0.02) is not None
    assert due(report((0.1, 0.9)), loss=0.02) is None  # P(best) must be high enough for a winner
    assert due(report((0.005, 0.995), (None, None)), loss=0.02) is None
    assert due(report((None, None)), p_best=0.9) is None
    assert due(found, p_best=0.99, stopped=True) is None
    one_left = report((0.0, 1.0))
    one_left["arms"][0]["active"] = False
    assert due(one_left, p_best=0.99) is None


def test_a_report_that_names_winners_must_name_this_one():
    found = report((0.005, 0.995))
    assert due(found | {"winner": None}, p_best=0.99) is None
    assert due(found | {"winner": "A"}, p_best=0.99) is None
    assert due(found | {"winner": "B"}, p_best=0.99) is not None


def test_an_arm_with_an_alarm_does_not_win():
    alarm = {"arms": [{"arm": "B", "alarm": "'B' is worse"}]}
    assert due(report((0.005, 0.995), metrics=[alarm]), p_best=0.99) is None
    alarm["arms"][0]["alarm"] = None  # type: ignore[call-overload]
    assert due(report((0.005, 0.995), metrics=[alarm]), p_best=0.99) is not None


def test_budgets_and_dates_end_an_experiment():
    assert due(report(), units=101) is None
    assert due(report(), units=100) == Stop("units", None, "Stop: the budget of 100 units is spent, and there is no winner.")
    assert due(report((0.01, 0.99)), units=100) == Stop(
        "units", "B", "Stop: the budget of 100 units is spent, and 'B' wins: it is best with probability 0.99."
    )
    assert due(report(), until="1970-01-02", now=86399.0) is None
    stop = due(report(), until="1970-01-02", now=86400.0)
    assert stop == Stop("until", None, "Stop: it is past 1970-01-02 00:00 UTC, and there is no winner.")


# The worker


def running(url, clock, gap=0.0, **rule) -> tuple[Experiment, Worker]:
    """Experiments of two arms that have 150 rewards, with a gap between the arms."""
    chance = random.Random(1)
    experiment = created(
        url, arms=["A", "B"], batching={"name": "fixed", "size": 150}, clock=clock, stop=rule, floor=0.2, strict=False
    )
    decisions = experiment.ask(150).decisions
    experiment.tell([(d.id, chance.gauss(gap * (d.arm == "B"), 1.0)) for d in decisions])
    return experiment, Worker(url, clock=clock)


def did(worker: Worker) -> list[str]:
    return [sentence for done in worker.once() for sentence in done.did]


def test_a_recommendation_changes_nothing(tmp_path):
    experiment, worker = running(tmp_path / "blts.db", Hand(), 3.0, p_best=0.99)
    assert experiment.status()["stop"] is None
    assert did(worker) == []
    assert experiment.status()["stop"].startswith("Stop: 'B' wins")
    assert experiment.report()["stop"] == experiment.report(2)["stop"] == experiment.status()["stop"]
    assert not experiment.status()["stopped"]
    worker.close()


def test_a_winner_is_promoted_once(tmp_path):
    experiment, worker = running(tmp_path / "blts.db", Hand(), 3.0, p_best=0.99, action="promote")
    (sentence,) = did(worker)
    assert sentence.endswith("Every new decision is 'B' (policy version 3); units that have one keep it.")
    status = experiment.status()
    assert (status["stopped"], status["promoted"], status["active"], status["stop"]) == (True, "B", ["B"], None)
    assert experiment.audit()[-1]["detail"]["reason"].startswith("Stop: 'B' wins")
    assert did(worker) == []
    assert experiment.report()["stop"] is None
    assert experiment.verify() == []
    worker.close()


def test_a_report_of_an_earlier_version_stops_nothing(tmp_path):
    experiment, worker = running(tmp_path / "blts.db", Hand(), 3.0, p_best=0.99, action="promote")
    worker.close()
    experiment.refresh()
    assert stopping.act(experiment) == []  # there is none
    assert reports.keep(experiment)
    experiment.refresh(force=True)
    assert stopping.act(experiment) == []
    assert reports.keep(experiment)
    assert len(stopping.act(experiment)) == 1


def test_no_winner_no_promotion(tmp_path):
    experiment, worker = running(tmp_path / "blts.db", Hand(), 0.0, p_best=0.99, action="promote")
    assert did(worker) == []
    assert not experiment.status()["stopped"]
    worker.close()


def test_a_spent_budget_promotes_the_control(tmp_path):
    experiment, worker = running(tmp_path / "blts.db", Hand(), units=60, action="promote", otherwise="control")
    assert "no winner" in did(worker)[0]
    assert experiment.status()["promoted"] == "A"
    worker.close()


def test_a_spent_budget_pauses_once(url):
    experiment, worker = running(url, Hand(), units=60, action="promote")
    assert did(worker)[0].endswith("The experiment is paused.")
    assert did(worker) == []
    experiment.resume()
    assert did(worker) == []  # somebody knows, and goes on
    assert not experiment.status()["paused"]
    worker.close()


def test_the_time_is_over_also_without_a_refresh(tmp_path):
    clock = Hand()
    experiment, worker = running(tmp_path / "blts.db", clock, until=2000.0, action="promote", otherwise="control")
    assert did(worker) == []
    clock.now = 2000.0
    assert len(did(worker)) == 1
    assert experiment.status()["promoted"] == "A"
    worker.close()


def test_the_rule_is_kept(tmp_path):
    _experiment, worker = running(tmp_path / "blts.db", Hand(), p_best=0.99, until="2026-12-31")
    again = Experiment.open(tmp_path / "blts.db", "mail")
    assert again.spec.stop == StopRule(0.99, until="2026-12-31")
    assert json.loads(again.spec.to_json())["stop"]["until"] == "2026-12-31"
    worker.close()


# Errors


RUNS, LOOKS, SIZE = 500, 40, 50


def stops(gap: float, p_best: float, *, evidence: bool) -> tuple[float, float, float]:
    """Experiments of two arms with normal rewards, whose rule is looked at after each of 40 batches of 50 decisions.

    Args:
        gap: how much better the second arm is, in standard deviations.
        p_best: of the rule.
        evidence: whether a winner also needs evidence of 1/0.05 that stays valid at every look, against either arm.

    Returns:
        The shares of experiments that stop at the first arm and at the second, and the mean number of looks of those.
    """
    rng, shape = np.random.default_rng(7), (RUNS, LOOKS * SIZE)
    arms = (rng.random(shape) < 0.5).astype(int)
    x = rng.normal(size=shape) + gap * arms
    looks = np.arange(SIZE - 1, shape[1], SIZE)
    n1, s1 = np.cumsum(arms, 1)[:, looks], np.cumsum(arms * x, 1)[:, looks]
    n0, s0 = looks + 1 - n1, np.cumsum(x, 1)[:, looks] - s1
    best = stats.norm.cdf((s1 / n1 - s0 / n0) / np.sqrt(1 / n0 + 1 / n1))
    p, needed = np.full((shape[1], 2), 0.5), math.log(2 / 0.05)
    rule, chosen, when = StopRule(p_best=p_best), [], []
    for run in range(RUNS):
        pairs = ((1, 0), (0, 1)) if evidence else ()
        against = [guardrails.terms(arms[run], x[run], p, pair, guardrails.Question(1.0)).sums().log_evidence() for pair in pairs]
        first = None
        for look in range(LOOKS):
            found = report((1 - best[run, look], best[run, look]), (0.0, 0.0))
            logs = [log[looks[look]] for log in against]
            sure = lambda _, arm, logs=logs: not logs or logs["BA".index(arm) ^ 1] >= needed  # noqa: E731
            stop = stopping.winner(found, rule, sure)
            if stop is not None:
                first = stop["arm"], look
                break
        chosen.append(None if first is None else first[0])
        when += [] if first is None else [first[1] + 1]
    return chosen.count("A") / RUNS, chosen.count("B") / RUNS, float(np.mean(when)) if when else math.nan


@pytest.mark.parametrize(("p_best", "plain"), [(0.95, 0.4), (0.99, 0.12)])
def test_equal_arms_rarely_stop_with_evidence(p_best, plain):
    """Of 500 A/A experiments with 40 looks, P(best) alone stops 52 % at 0.95 and 17 % at 0.99; with evidence 0.8 %."""
    assert sum(stops(0.0, p_best, evidence=False)[:2]) > plain
    assert sum(stops(0.0, p_best, evidence=True)[:2]) <= 0.05


def test_a_real_difference_stops():
    """At a gap of 0.2 standard deviations 94 % stop with evidence, after 17 looks on average; P(best) ≥ 0.95 alone stops after 6.
    At a gap of 0.1, P(best) alone stops 3 % at the wrong arm; with evidence none do."""
    wrong, right, looks = stops(0.2, 0.95, evidence=True)
    assert wrong == 0.0
    assert right > 0.9
    assert stops(0.2, 0.95, evidence=False)[2] < looks
    assert stops(0.1, 0.95, evidence=True)[0] == 0.0
    assert stops(0.1, 0.95, evidence=False)[0] > 0.01
