"""Live experiments that learn delays: what silence weighs, in simulated experiments, and replayed."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from scipy import stats

from blts.errors import ConfigError
from blts.live import Experiment, Spec, delays
from blts.live.conclusions.delayed import rate
from blts.live.delays import Delays, Silence, weighed
from blts.live.ledger import Fold
from experiments import Hand

DAY = 86400.0
RATES, MEAN, WINDOW = np.array([0.05, 0.1]), 2.0, 7.0
SETTINGS = {"window": "7d", "default_reward": 0, "delay": "learned"}


def ledger_of(rng, units: int, days: float) -> Fold:
    """Decisions spread over some days; conversions come after exponential delays, and those so far are told."""
    starts, arms = np.sort(rng.uniform(0, days, units)), rng.integers(0, 2, units)
    delay = -MEAN * np.log1p(-rng.random(units) * -np.expm1(-WINDOW / MEAN))  # exponential, given at most the window
    told = (rng.random(units) < RATES[arms]) & (starts + delay <= days)
    over = starts <= days - WINDOW
    rewards, entered = (
        np.where(told, 1.0, np.where(over, 0.0, np.nan)),
        np.where(told, starts + delay, np.where(over, days, np.nan)),
    )
    return Fold(0, 0, arms, starts, np.full(units, np.nan), rewards, told | over, entered=entered)


def learned_rates(fold: Fold, days: float) -> np.ndarray:
    rows = weighed(fold, False, days, WINDOW)
    return np.array([rows.rewards[rows.arms == k].mean() for k in (0, 1)])


def silence_as_zero(fold: Fold, days: float) -> np.ndarray:
    return np.array([np.nan_to_num(fold.rewards[fold.arms == k]).mean() for k in (0, 1)])


def is_unbiased(estimate, *, runs: int, allowed: float) -> bool:
    """Whether the relative bias of both arms' rates is below `allowed`, four standard errors away."""
    found = np.array([estimate(ledger_of(np.random.default_rng(seed), 1500, 10.0), 10.0) for seed in range(runs)]) / RATES - 1
    return bool((np.abs(found.mean(0)) + 4 * found.std(0) / np.sqrt(runs) < allowed).all())


def covered(runs: int, spread: float = 1.0) -> float:
    """How often 95 % intervals hold the rates; `spread` shrinks them."""
    hits = []
    for seed in range(runs):
        fold = ledger_of(np.random.default_rng(seed), 1500, 10.0)
        known = Silence.at(fold, False, 10.0, WINDOW)
        for k in (0, 1):
            one = rate(known, fold.arms == k)
            middle = np.log(one["value"])
            hits.append(
                spread * np.log(one["low"] / one["value"])
                <= np.log(RATES[k]) - middle
                <= spread * np.log(one["high"] / one["value"])
            )
    return float(np.mean(hits))


def test_rates_are_nearly_unbiased(monkeypatch):
    assert is_unbiased(learned_rates, runs=300, allowed=0.08)
    assert not is_unbiased(silence_as_zero, runs=300, allowed=0.08)
    monkeypatch.setattr(Delays, "by", lambda self, ages: np.ones(len(ages)))  # the mutant: weights are not applied
    assert not is_unbiased(learned_rates, runs=300, allowed=0.08)


def test_rates_are_better_than_silence_as_zero():
    folds = [ledger_of(np.random.default_rng(seed), 1500, 10.0) for seed in range(200)]
    errors = {f: np.sqrt(np.mean([(f(fold, 10.0) / RATES - 1) ** 2 for fold in folds])) for f in (learned_rates, silence_as_zero)}
    assert errors[learned_rates] < 0.9 * errors[silence_as_zero]


def test_intervals_cover():
    assert 0.925 < covered(300) < 0.98
    assert covered(300, spread=0.7) < 0.925


@pytest.mark.slow
def test_intervals_cover_and_rates_are_unbiased_in_many_runs():
    assert 0.94 < covered(4000) < 0.96
    assert covered(4000, spread=0.9) < 0.94
    assert is_unbiased(learned_rates, runs=4000, allowed=0.02)
    assert not is_unbiased(silence_as_zero, runs=4000, allowed=0.02)


def told_at_once(ones: int, units: int, now: float = 20.0) -> dict[str, Any]:
    """The rate of decisions of which some converted at once, when all windows are over."""
    rewards = (np.arange(units) < ones) * 1.0
    fold = Fold(0, 0, np.zeros(units, int), np.zeros(units), np.full(units, np.nan), rewards, rewards >= 0, entered=np.zeros(units))
    return rate(Silence.at(fold, False, now, WINDOW), np.ones(units, bool))


@pytest.mark.parametrize("rate_", [0.8, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("units", [10, 40, 200])
def test_rates_near_one_are_not_certain(rate_, units):
    """Of 9 conversions in 9 decisions the interval was [1, 1]. Its coverage is computed from the binomial distribution."""
    assert told_at_once(9, 9)["low"] < 0.75
    ones = np.arange(1, units + 1)
    found = [told_at_once(int(n), units) for n in ones]
    hit = np.array([one["low"] <= rate_ <= one["high"] for one in found])
    assert stats.binom.pmf(ones, units, rate_)[hit].sum() > 0.9


def test_few_conversions_say_nothing_of_delays(tmp_path):
    clock = Hand()
    experiment = Experiment.create(tmp_path / "b.db", "shop", ["A", "B"], "conversions", "exact", clock=clock, **SETTINGS)
    first = experiment.ask(30).decisions
    clock.now += 20 * 3600
    experiment.tell([(first[0].id, 1)])
    words = experiment.report()["delay"]["words"]
    assert words.startswith("Delays are not known yet: 1 conversion came within the window, of 5 that are needed")
    experiment.tell([(each.id, 1) for each in first[1:5]])
    assert experiment.report()["delay"]["words"].startswith("By 5 conversions so far, 100 % come within")


def test_delays_are_the_product_limit_estimate():
    fold = ledger_of(np.random.default_rng(5), 3000, 9.0)
    known = Silence.at(fold, False, 9.0, WINDOW)
    delay, age = (fold.entered - fold.at)[known.converted], (9.0 - fold.at)[known.converted]
    for s in (0.3, 1.0, 2.5, 6.0):
        share = 1.0
        for d in delay[delay > s]:
            at_risk = ((delay <= d) & (d <= age)).sum()
            share *= 1 - 1 / at_risk if at_risk >= delays.LEAST_AT_RISK else 1.0
        np.testing.assert_allclose(known.delays.by(np.array([s])), share, rtol=1e-9)
        naive = (delay <= s).mean()  # the mutant: without risk sets
        assert abs(naive - share) > 0.01 or s > 5


def test_one_early_conversion_does_not_make_rates_one():
    """The oldest decision converts when no other is as old: that alone must not say that nothing comes sooner."""
    starts = np.linspace(0, 5, 101)
    rewards, entered = np.full(101, np.nan), np.full(101, np.nan)
    rewards[[0, 60]], entered[[0, 60]] = 1.0, [4.99, 3.2]
    fold = Fold(0, 0, np.zeros(101, int), starts, np.full(101, np.nan), rewards, ~np.isnan(rewards), entered=entered)
    assert weighed(fold, False, 5.0, WINDOW).rewards.mean() < 0.05


# In the database


def run(path, clock: Hand, days: int = 10, **settings) -> Experiment:
    """An experiment whose worker refreshes once a day; conversions of both arms come late."""
    options = SETTINGS | {"seed": 1, "clock": clock, "refresh_seconds": "1d"} | settings
    experiment = Experiment.create(path / "x.db", "mail", ["A", "B"], "conversions", "exact", "external", **options)
    rng, start, coming = np.random.default_rng(0), clock.now, []
    for day in range(days):
        for decision in experiment.ask(60).decisions:
            if rng.random() < 0.4:
                coming.append((day + rng.exponential(2.0), decision.id))
        for hour in range(4):
            clock.now = start + (day + hour / 4) * DAY
            told = [(due, i) for due, i in coming if due <= day + hour / 4]
            coming = [one for one in coming if one not in told]
            experiment.tell([(i, 1) for _, i in told])
        clock.now = start + (day + 0.99) * DAY
        experiment.refresh()
    return experiment


def test_a_replay_is_the_same(tmp_path, monkeypatch):
    clock = Hand()
    experiment = run(tmp_path, clock)
    assert experiment.verify() == []
    assert sum(experiment.policy()["n"].values()) < 600  # some of the pending ones
    again = Experiment.open(tmp_path / "x.db", "mail", clock=clock)
    assert again.spec.delay == "learned"
    assert again.verify() == []
    real = Silence.at
    later = lambda fold, explicit, now, window, since=None: real(fold, explicit, now + DAY, window, since)  # noqa: E731
    monkeypatch.setattr(Silence, "at", staticmethod(later))  # the mutant: weighed for another moment than the refresh's own
    assert any("learned from other rewards" in sentence for sentence in experiment.verify())


def test_rewards_after_the_watermark_are_not_used(tmp_path, monkeypatch):
    clock = Hand()
    experiment = run(tmp_path, clock)
    waiting = np.flatnonzero(np.isnan(experiment.session.fold.rewards))
    clock.now += DAY / 4
    experiment.tell([(f"{experiment.code}-{i + 1}", 1) for i in waiting[:20]])  # after the last refresh
    assert experiment.verify() == []
    real = Fold.until
    until = lambda self, c, mark, made: real(self, c, 10**9 if made == 600 else mark, made)  # noqa: E731
    monkeypatch.setattr(Fold, "until", until)  # the mutant: a replay that has seen what came later
    assert any("learned from other rewards" in sentence for sentence in experiment.verify())


def test_nothing_is_awaited_and_silence_counts_before_the_window_is_over(tmp_path):
    clock = Hand()
    options = SETTINGS | {"seed": 1, "clock": clock, "batching": {"name": "fixed", "size": 40}}
    experiment = Experiment.create(tmp_path / "x.db", "mail", ["A", "B"], "conversions", "exact", **options)
    decisions = experiment.ask(40).decisions
    clock.now += DAY
    experiment.tell([(decision.id, 1) for decision in decisions[:4]])
    assert experiment.refresh().refreshed
    assert sum(experiment.policy()["n"].values()) == 40
    assert experiment.policy()["weighed_at"] == clock.now
    clock.now -= DAY / 2  # a clock that is set back
    experiment.ask(1)
    experiment.refresh(force=True)
    assert experiment.policy()["weighed_at"] == clock.now + DAY / 2
    assert experiment.verify() == []


def test_a_correction_and_a_cancellation_are_heeded(tmp_path):
    clock = Hand()
    experiment = run(tmp_path, clock, days=4)
    ids = [decision.id for decision in experiment.ask(3).decisions]
    experiment.tell([(ids[0], 1), (ids[1], 0)])
    experiment.correct(ids[0], 0, "a refund")
    experiment.cancel([ids[2]], "never shown")
    experiment.refresh(force=True)
    assert experiment.verify() == []


def test_the_report_shows_the_curve(tmp_path):
    clock = Hand()
    experiment = run(tmp_path, clock)
    found = json.loads(json.dumps(experiment.report()))["delay"]
    shares = [one["share"] for one in found["by_age"]]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert found["conversions"] > 100
    assert 0 < found["share_to_come"] < 0.5
    assert all(0.2 < arm["low"] < 0.4 < arm["high"] < 0.7 for arm in found["arms"] if arm["trials"] > 100)
    from blts.live.page import page

    text = page(experiment, experiment.report())
    assert found["words"].split(";")[0] in text
    assert "Which share of conversions" in text
    assert experiment.status()["delay"] == "learned"


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"delay": "geometric 3"}, "must be 'learned'"),
        ({"window": None, "default_reward": None}, "window"),
        ({"default_reward": None}, "default_reward=0"),
        ({"learn": "open"}, "leave out one"),
        ({"model": "counts"}, "conversions"),
        ({"forget": "5d"}, "longer than the window"),
        ({"sampler": {"name": "exact-ts", "forget": "discount 0.99"}}, "counts a round"),
    ],
)
def test_what_is_not_right_is_one_sentence(changed, word):
    settings = {"model": "conversions"} | SETTINGS | changed
    with pytest.raises(ConfigError, match=word):
        Spec.of(["A", "B"], **{name: value for name, value in settings.items() if value is not None})


def test_totals_are_refused(tmp_path):
    experiment = Experiment.create(tmp_path / "x.db", "mail", ["A", "B"], "conversions", "exact", **SETTINGS)
    experiment.ask(10)
    with pytest.raises(ConfigError, match="one by one"):
        experiment.tell_aggregate("A", count=1, total=1, request_id="x")
