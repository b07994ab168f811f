"""Live experiments that forget: a refresh learns from the decisions of the last days alone, says so, and can be repeated."""

from __future__ import annotations

import dataclasses
import json

import pytest

from blts.errors import ConfigError
from blts.live import Experiment, Spec
from experiments import Hand, rewarded

DAY = 86400.0


def made(path, clock, **settings):
    settings = {"seed": 3, "clock": clock, "forget": "90 days"} | settings
    return Experiment.create(path / "x.db", "mail", ["A", "B"], "bernoulli", "exact", "external", **settings)


def learned(experiment) -> int:
    return sum(experiment.policy()["n"].values())


def test_only_recent_decisions_are_learned_from(tmp_path):
    clock = Hand()
    experiment = made(tmp_path, clock)
    start = clock.now
    experiment.tell(rewarded(experiment.ask(20)))
    clock.now = start + 40 * DAY
    experiment.tell(rewarded(experiment.ask(7)))
    for days, count in ((40, 27), (90, 27), (90.001, 7), (130, 7), (131, 0)):  # an age of 90 days itself is not forgotten
        clock.now = start + days * DAY
        experiment.refresh(force=True)
        assert learned(experiment) == count, days
    experiment.tell(rewarded(experiment.ask(5)))
    assert experiment.refresh().refreshed
    assert learned(experiment) == 5
    assert experiment.verify() == []
    again = Experiment.open(tmp_path / "x.db", "mail", clock=clock)
    assert again.spec.forget == 90 * DAY
    assert again.verify() == []


def test_the_window_is_verified(tmp_path, monkeypatch):
    """The mutant: a replay that forgets nothing finds other rewards."""
    clock = Hand()
    experiment = made(tmp_path, clock)
    experiment.tell(rewarded(experiment.ask(20)))
    clock.now += 91 * DAY
    experiment.tell(rewarded(experiment.ask(5)))
    experiment.refresh(force=True)
    assert experiment.verify() == []
    from blts.live.ledger import Fold

    real = Fold.rows
    monkeypatch.setattr(Fold, "rows", lambda self, explicit, cutoff, since=None: real(self, explicit, cutoff))
    assert any("learned from other rewards" in sentence for sentence in experiment.verify())


def test_time_alone_makes_something_new_to_learn(tmp_path):
    clock = Hand()
    experiment = made(tmp_path, clock, refresh_seconds="1d")
    experiment.tell(rewarded(experiment.ask(20)))
    clock.now += 2 * DAY
    assert experiment.refresh().refreshed
    clock.now += 2 * DAY
    assert experiment.refresh().why == "there is nothing new to learn from"
    clock.now += 90 * DAY
    assert experiment.refresh().refreshed
    assert learned(experiment) == 0


def test_the_report_says_what_is_forgotten(tmp_path):
    clock = Hand()
    experiment = made(tmp_path, clock)
    experiment.tell(rewarded(experiment.ask(20)))
    clock.now += 91 * DAY
    experiment.tell(rewarded(experiment.ask(6)))
    experiment.refresh(force=True)
    report = experiment.report()
    assert "has learned from 6 rewards of active arms, this report from 26: it forgets decisions older than 90 days" in str(
        report["policy_in_use"]
    )
    assert experiment.status()["forget"] == 90 * DAY


def test_a_specification_without_it_forgets_nothing():
    spec = Spec.of(["A", "B"], "bernoulli", seed=1)
    assert spec.forget is None
    data = json.loads(spec.to_json())
    del data["forget"]  # stored before there was such a setting
    assert Spec.from_json(json.dumps(data)) == spec
    assert dataclasses.replace(spec, forget=1.0).differs_from(json.dumps(data)) == []


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"forget": 0}, "forget must be a number of seconds > 0; got 0"),
        ({"forget": "soon"}, "forget must be a duration such as 30min"),
        ({"forget": "1d", "window": "2d"}, "forget must be longer than the window"),
    ],
)
def test_bad_settings_are_refused(settings, words):
    with pytest.raises(ConfigError, match=words):
        Spec.of(["A", "B"], "bernoulli", **settings)


def test_an_agent_that_forgets_runs_an_experiment(tmp_path):
    """The option of simulated agents, by name: ages count in rewards."""
    clock = Hand()
    sampler = {"name": "exact-ts", "forget": "window 8"}
    experiment = Experiment.create(tmp_path / "x.db", "mail", ["A", "B"], "bernoulli", sampler, "external", seed=3, clock=clock)
    for t in range(4):
        experiment.tell(rewarded(experiment.ask(6), 1.0 if t < 2 else 0.0))
        experiment.refresh(force=True)
    assert experiment.verify() == []
    assert "of the last 8 rounds" in experiment.policy()["sampler"]
