"""What an attacker found: each case ended in a wrong number, a lost reward or a traceback."""

from __future__ import annotations

import random

import numpy as np
import pytest

from blts.errors import ConfigError
from blts.live import Experiment, Spec
from blts.live.worker import Worker
from experiments import Hand, made

METRICS = [{"name": name, "model": "numbers", "role": "secondary", "window": window, "default": 0.0} for name, window in
           (("rev", 100.0), ("cost", 50.0))]  # fmt: skip


def test_a_worker_stops_on_what_is_known_now(tmp_path):
    """Not on the report of the last version, which may lack a third of the rewards."""
    chance, clock, url = np.random.default_rng(0), Hand(), tmp_path / "x.db"
    rule = {"units": 1350, "action": "promote", "otherwise": "control"}
    experiment = Experiment.create(url, "b", ["A", "B"], "conversions", seed=1, control="A", floor=0.2, clock=clock, stop=rule)
    worker = Worker(url, clock=clock)
    for _ in range(27):
        decisions = experiment.ask(50).decisions
        experiment.tell([(d.id, float(chance.random() < (0.34 if d.arm == "B" else 0.2))) for d in decisions])
        clock.now += 100
        winner = experiment.report()["winner"] if experiment.status()["decisions"] == 1350 else None
        worker.once()
    assert winner == "B"
    assert experiment.status()["promoted"] == "B"


def test_rewards_too_far_from_zero_are_said_and_not_used(tmp_path):
    """In single precision their draws tie, and the first arm is played whatever the stored propensities say."""
    chance = random.Random(1)
    far, near = (made(tmp_path, name, arms=["A", "B"], model="numbers", batching="external") for name in ("far", "near"))
    for experiment, centre in ((far, 1e6), (near, 0.0)):
        experiment.tell([(d.id, chance.gauss(centre, 1.0)) for d in experiment.ask(400).decisions])
    assert near.refresh().in_use
    done = far.refresh()
    assert not done.in_use
    assert "subtract a constant" in (done.why or "")


def test_totals_settle_exposed_decisions(tmp_path):
    experiment = made(tmp_path, arms=["A", "B"], model="conversions", exposure="explicit", batching="external")
    mine = [d for d in experiment.ask(100).decisions if d.arm == "A"]
    experiment.expose([d.id for d in mine[-20:]])
    experiment.tell_aggregate("A", 20, total=10, request_id="r")
    experiment.refresh()
    assert experiment.policy()["n"] == {"A": 20, "B": 0}
    with pytest.raises(ConfigError, match="0 decisions that wait"):
        experiment.tell_aggregate("A", 1, total=1, request_id="s")


def test_a_late_value_is_combined_although_the_clock_was_set_back(tmp_path):
    clock = Hand()
    settings = {"metrics": METRICS, "objective": {"rev": 1.0, "cost": -2.0}, "batching": "external", "clock": clock}
    experiment = made(tmp_path, arms=["A", "B"], model="numbers", **settings)
    first = experiment.ask(3).decisions
    clock.now += 50
    second = experiment.ask(3).decisions
    experiment.tell([(d.id, 10.0) for d in first + second], metric="rev")
    clock.now += 120
    experiment.refresh()
    experiment.tell([(first[0].id, 4.0), (second[0].id, 4.0)], metric="cost")
    clock.now -= 60
    experiment.refresh(force=True)
    clock.now += 1000
    experiment.refresh(force=True)
    experiment.export(tmp_path / "all.csv")
    rewards = [line.split(",")[7] for line in (tmp_path / "all.csv").read_text().splitlines()[1:]]
    assert list(map(float, rewards)) == [2, 10, 10, 2, 10, 10]
    assert experiment.verify() == []


def test_a_cap_holds_for_the_posterior_too(tmp_path):
    chance = random.Random(1)
    experiment = made(tmp_path, arms=["A", "B"], model="numbers", cap=10.0, batching="external")
    experiment.tell([(d.id, 500.0 if d.arm == "B" and chance.random() < 0.05 else 5.0) for d in experiment.ask(400).decisions])
    b = experiment.report()["arms"][1]
    assert b["posterior_mean"] == pytest.approx(b["naive"]["value"], rel=0.02)


def test_mistakes_are_one_sentence(tmp_path):
    experiment = made(tmp_path, metrics=METRICS, strict=False)
    decision = experiment.ask(1).decisions[0].id
    with pytest.raises(ConfigError, match="reason must be text"):
        experiment.correct(decision, 1.0, object(), metric="rev")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="surrogates"):
        experiment.correct(decision, 1.0, "a\ud800")
    assert experiment.tell([{"decision_id": decision, "reward": 1.0, "value": 350.0}], metric="rev").invalid == 1
    for until in (-1e300, "0001-01-01T00:00:00+14:00", 1767139200000):
        with pytest.raises(ConfigError, match="until must be a date"):
            Spec.of(["A", "B"], "conversions", stop={"until": until})
    spec = Spec.of(["A", "B"], "conversions")
    with pytest.raises(ConfigError, match="not both"):
        Experiment.create("sqlite://", "x", spec=spec, batching="fixed")
