"""Whether decisions of all arms are equally often answered: no false alarms where answers come late, alarms where arms differ."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from scipy import stats

from blts.live import Experiment, reports
from blts.live.conclusions.feedback_share import ALARM, share_test
from blts.live.overview import experiments
from blts.live.page import page
from laws import LEVEL, ks_p

RUNS, BATCHES, SIZE = 400, 12, 150


@functools.cache
def late_runs(seed: int = 0):
    """Runs of two and three arms whose answers come late, all with one law, while the allocation moves: arms, p, counts."""
    rng, out = np.random.default_rng(seed), []
    for run in range(RUNS):
        K = 2 + run % 2
        law, arms, p = np.full(K, 1 / K), [], []
        for _ in range(BATCHES):
            drawn = rng.choice(K, SIZE, p=law)
            arms.append(drawn)
            p.append(np.tile(law, (SIZE, 1)))
            seen = np.bincount(drawn, rng.random(SIZE) < 0.3 + 0.1 * drawn, K) / np.maximum(np.bincount(drawn, minlength=K), 1)
            law = 0.05 + (1 - 0.05 * K) * (law * np.exp(8 * seen)) / (law * np.exp(8 * seen)).sum()
        age = np.repeat(np.arange(BATCHES, 0, -1), SIZE)
        counts = rng.exponential(4.0, len(age)) < age
        out.append((np.concatenate(arms), np.concatenate(p), counts & (rng.random(len(age)) < 0.7)))
    return out


def unstratified(arms, p, counts) -> float:
    """The mutant: it compares shares of decisions of all ages."""
    table = np.array([np.bincount(arms[counts == one], minlength=p.shape[1]) for one in (True, False)])
    return float(stats.chi2_contingency(table, correction=False)[1])  # type: ignore[arg-type]


def test_late_answers_are_no_alarm_and_p_values_are_uniform():
    values = np.array([share_test(*run).p_value for run in late_runs()])
    assert ks_p(values, stats.uniform.cdf) > LEVEL
    assert np.mean(values < ALARM) <= 0.005
    assert np.mean([unstratified(*run) < ALARM for run in late_runs()]) > 0.1


def test_arms_that_differ_are_found_whatever_the_allocation():
    rng = np.random.default_rng(1)
    found = []
    for arms, p, counts in late_runs()[:100]:
        lost = (arms == 0) & (rng.random(len(arms)) < 0.5)
        found.append(share_test(arms, p, counts & ~lost).alarm)
    assert np.mean(found) > 0.8


def test_arms_that_depend_on_a_context_that_answers_more_often():
    rng = np.random.default_rng(2)
    values, wrong = [], []
    for _ in range(RUNS):
        mobile = rng.random(1500) < 0.5
        p = np.where(mobile[:, None], [0.9, 0.1], [0.2, 0.8])
        arms, counts = (rng.random(1500) < p[:, 1]).astype(int), rng.random(1500) < np.where(mobile, 0.2, 0.6)
        values.append(share_test(arms, p, counts).p_value)
        wrong.append(unstratified(arms, p, counts) < ALARM)
    assert ks_p(np.array(values), stats.uniform.cdf) > LEVEL
    assert np.mean(wrong) == 1


def test_nothing_to_compare():
    p, arms = np.full((400, 2), 0.5), np.arange(400) % 2
    for counts in (np.ones(400, bool), np.zeros(400, bool)):
        assert np.isnan(share_test(arms, p, counts).p_value)
    assert np.isnan(share_test(arms[:0], p[:0], np.zeros(0, bool)).p_value)
    few = share_test(arms[:8], p[:8], arms[:8] == 0)  # all answers are of one arm, but there are hardly any
    assert not few.alarm
    assert share_test(arms, p, arms == 0).alarm


class Told:
    """An experiment whose decisions are answered with a probability of their arm, by hand."""

    def __init__(self, place: str = "sqlite://", rewards: str = "numbers", **settings):
        self.now, self.rng = 0.0, np.random.default_rng(0)
        settings = {"floor": 0.1, "seed": 1, "clock": lambda: self.now} | settings
        self.experiment = Experiment.create(place, "m", ["A", "B"], rewards, "exact", "external", **settings)

    def day(self, n: int, share, mean) -> None:
        some = [d for d in self.experiment.ask(n).decisions if self.rng.random() < share[d.arm]]
        if self.experiment.spec.exposure == "explicit":
            self.experiment.expose([d.id for d in some])
        told = [(d.id, mean(d.arm)) for d in some]
        self.experiment.tell([one for one in told if one[1] is not None])
        self.now += 86401.0
        self.experiment.refresh(force=True)


def ratings(settings):
    one = Told(**settings)
    for _ in range(3):
        one.day(500, {"A": 0.3, "B": 0.6}, lambda _: float(one.rng.normal(4, 1)))
    return one.experiment


def payments(settings):
    one = Told(**settings)
    for _ in range(3):
        one.day(1000, {"A": 0.11, "B": 0.22}, lambda arm: float(one.rng.normal({"A": 50, "B": 40}[arm], 10)))
    return one.experiment


def exposures(settings):
    one = Told(rewards="conversions", window="1d", default_reward=0, exposure="explicit", **settings)
    for _ in range(4):
        one.day(500, {"A": 1.0, "B": 0.5}, lambda _: 1 if one.rng.random() < 0.15 else None)
    return one.experiment


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: ratings({}), "with a reward differs by arm (A "),
        (lambda: ratings({"window": "1d"}), "Give a window and a default reward if silence means 0"),
        (lambda: payments({}), "otherwise find out why answers are lost."),
        (lambda: exposures({}), "that were exposed differs by arm (A 100 %, B "),
    ],
)
def test_reports_of_arms_that_are_not_answered_alike_name_no_winner(made, words):
    experiment = made()
    report = experiment.report()
    share = report["feedback_share"]
    assert share["alarm"]
    assert share["p_value"] < 1e-6
    assert words in share["words"]
    assert "p < 1e-6" in share["words"]
    assert not report["sample_ratio"]["alarm"]  # which compares decisions, not answers
    assert report["winner"] is None
    assert report["recommendation"] == f"Look into the feedback first. {share['words']}"
    assert report["notes"][0] == share["words"]


def test_an_alarm_is_on_the_page_in_the_status_and_in_the_overview():
    experiment = ratings({})
    assert reports.keep(experiment)
    words = experiment.report()["feedback_share"]["words"]
    assert f"Answers differ by arm, so nothing is recommended. {words}" in experiment.status()["warnings"]
    assert experiments(experiment.database)[0]["report"]["feedback_share"] == words
    assert "differs by arm" in page(experiment, experiment.report())


def test_silence_that_counts_is_nothing_to_compare():
    """With a window and a default reward every decision counts; totals do not say which decisions they are of."""
    one = Told(rewards="conversions", window="1d", default_reward=0)
    for _ in range(3):
        one.day(300, {"A": 0.1, "B": 0.4}, lambda _: 1)
    assert one.experiment.report()["feedback_share"] is None
    both = Told(rewards="conversions")
    for _ in range(3):
        both.day(300, {"A": 0.4, "B": 0.4}, lambda _: int(both.rng.random() < 0.3))
    report = both.experiment.report()
    assert not report["feedback_share"]["alarm"]
    assert report["feedback_share"]["words"] is None
    assert report["notes"] == []
