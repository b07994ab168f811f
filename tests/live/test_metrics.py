"""Metrics: their definitions, values with a fate, closed windows, and what reports and the worker make of them."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import sqlalchemy as sa

from blts.errors import ConfigError, UnknownName
from blts.live import Experiment, Spec, schema
from blts.live.export import table_of
from blts.live.metrics import summary as metrics
from blts.live.metrics.definition import Metric
from blts.live.metrics.guardrails import Question
from blts.live.worker import Worker
from experiments import REFUNDS, Hand, created, made

SPEND = {"name": "spend", "model": "revenue", "role": "secondary"}


# Definitions


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        ({"name": "x"}, "at least"),
        ({"name": "", "model": "counts"}, "not empty"),
        ({"name": "reward", "model": "counts"}, "learns from"),
        ({"name": "x", "model": "counts", "colour": 1}, "no setting 'colour'"),
        ({"name": "x", "model": "count"}, "counts"),
        ({"name": "x", "model": "counts", "role": "main"}, "role"),
        ({"name": "x", "model": "counts", "better": "up"}, "better"),
        ({"name": "x", "model": "counts", "margin": -1.0}, "margin"),
        ({"name": "x", "model": "counts", "margin": "five"}, "margin"),
        ({"name": "x", "model": "counts", "margin": "150%"}, "below 100%"),
        ({"name": "x", "model": "numbers", "margin": "5%"}, "may be negative"),
        ({"name": "x", "model": "counts", "window": -1.0}, "window"),
        ({"name": "x", "model": "counts", "default": 0.0}, "window"),
        ({"name": "x", "model": "counts", "default": 0.5, "window": 1.0}, "0, 1, 2"),
        ({"name": "x", "model": "counts", "role": "secondary", "pause": True}, "guardrail"),
    ],
)
def test_a_metric_that_cannot_be_measured_is_refused(metric, words):
    with pytest.raises((ConfigError, UnknownName), match=words):
        Spec.of(["A", "B"], "bernoulli", metrics=[metric])


def test_metrics_have_names_of_their_own():
    with pytest.raises(ConfigError, match="twice"):
        Spec.of(["A", "B"], "bernoulli", metrics=[SPEND, SPEND])
    with pytest.raises(ConfigError, match="list"):
        Spec.of(["A", "B"], "bernoulli", metrics=SPEND)


def test_margins_are_in_the_unit_or_a_share():
    higher, lower = Metric("x", "revenue", margin="5%"), Metric("x", "revenue", better="lower", margin="5%")
    for metric, tolerated, too_bad in ((higher, 9.6, 9.4), (lower, 10.4, 10.6)):
        assert metric.question.loss(np.array([tolerated, too_bad]), np.array(10.0)).round(6).tolist() == [-0.1, 0.1]
    assert Metric("x", "revenue", better="lower", margin=1).question == Question(-1.0, 1.0, 1.0)


def test_specifications_keep_their_metrics(tmp_path):
    place = tmp_path / "shop.toml"
    place.write_text(
        'arms = ["A", "B"]\nmodel = "bernoulli"\n[[metrics]]\nname = "refunds"\nmodel = "conversions"\nbetter = "lower"\n'
        'margin = "5%"\n[stop]\np_best = 0.99\nuntil = 2026-12-31\n'
    )
    spec = Spec.read(place)
    assert spec.metrics == (Metric("refunds", "conversions", better="lower", margin="5%"),)
    assert spec.stop is not None
    assert spec.stop.until == "2026-12-31"
    again = Spec.from_json(spec.seeded().to_json())
    assert (again.metrics, again.stop) == (spec.metrics, spec.stop)
    assert not spec.differs_from(spec.seeded().to_json())
    assert Spec.of(["A", "B"], "bernoulli").differs_from(spec.seeded().to_json())
    old = json.loads(Spec.of(["A", "B"], "bernoulli", seed=1).to_json())
    del old["metrics"], old["stop"]  # as it was stored before there were any
    assert Spec.from_json(json.dumps(old)).metrics == ()


# Telling


def test_every_value_has_a_fate_and_is_in_the_chain(url):
    experiment = created(url, metrics=[REFUNDS, SPEND])
    a, b, c = (d.id for d in experiment.ask(3).decisions)
    rows = [(a, 1.0), (a, 1.0), (a, 0.0), (b, 0.5), ("x", 1.0), {"decision_id": c, "value": 0}, 17]
    told = experiment.tell(rows, "r1", metric="refunds")
    assert told[:5] == (2, 1, 1, 1, 2)
    assert experiment.tell(rows, "r1", metric="refunds") == told
    with pytest.raises(ConfigError, match="something else"):
        experiment.tell(rows, "r1", metric="spend")
    assert experiment.tell([(a, 12.5)], metric="spend").accepted == 1
    assert experiment.status()["entries"] == 0  # no rewards
    with pytest.raises(UnknownName, match="refunds"):
        experiment.tell([(a, 1.0)], metric="refund")
    assert experiment.correct(a, 0.0, "a mistake", metric="refunds")
    assert not experiment.correct(a, 0.0, metric="refunds")
    with pytest.raises(ConfigError, match="no decision"):
        experiment.correct("x", 0.0, metric="refunds")
    with pytest.raises(ConfigError, match="0 or 1"):
        experiment.correct(a, 2.0, metric="refunds")
    line = experiment.audit()[-1]
    assert line["what"] == "correct"
    assert line["detail"]["before"] == [1.0]
    assert experiment.verify() == []


@pytest.mark.parametrize("change", ["UPDATE blts_measures SET value = 0 WHERE value = 1", "DELETE FROM blts_measures WHERE t = 2"])
def test_a_changed_value_is_noticed(tmp_path, change):
    experiment = made(tmp_path, metrics=[REFUNDS])
    experiment.tell([(d.id, 1.0) for d in experiment.ask(3).decisions], metric="refunds")
    assert experiment.verify() == []
    with experiment.database.write() as c:
        for action in ("update", "delete"):
            c.exec_driver_sql(f"DROP TRIGGER {schema.measures.name}_no_{action}")
        c.exec_driver_sql(change)
    assert len(experiment.verify()) == 1


def test_units_have_values(tmp_path):
    experiment = made(tmp_path, metrics=[SPEND])
    experiment.ask(units=["ann", "bob"])
    rows = [{"unit": "ann", "value": 3.0}, {"unit": "cid", "value": 1.0}]
    assert experiment.tell(rows, metric="spend")[:5] == (1, 0, 0, 1, 0)
    assert experiment.tell(unit="bob", reward=2.0, metric="spend").accepted == 1


# Reading


def values(experiment, clock) -> dict[str, list[float | None]]:
    assert clock() == experiment.session.now()
    found = metrics.current_values(experiment, table_of(experiment))
    return {name: [None if math.isnan(x) else float(x) for x in some] for name, some in found.items()}


def test_values_count_when_their_window_is_over(url):
    clock = Hand()
    experiment = created(url, metrics=[REFUNDS, SPEND], clock=clock)
    ids = [d.id for d in experiment.ask(3).decisions]
    experiment.tell([(ids[0], 1.0)], metric="refunds")
    experiment.tell([(ids[1], 5.0)], metric="spend")
    assert values(experiment, clock) == {"refunds": [None] * 3, "spend": [None, 5.0, None]}
    clock.now += 10.0
    experiment.ask(1)
    assert values(experiment, clock)["refunds"] == [1.0, 0.0, 0.0, None]
    experiment.correct(ids[0], 0.0, metric="refunds")
    experiment.tell([(ids[1], 1.0)], metric="refunds")  # late, and still accepted
    experiment.cancel([ids[2]])
    assert values(experiment, clock)["refunds"] == [0.0, 1.0, None, None]


def test_decisions_that_were_not_exposed_have_no_values(tmp_path):
    clock = Hand()
    experiment = made(tmp_path, metrics=[REFUNDS], clock=clock, exposure="explicit")
    ids = [d.id for d in experiment.ask(2).decisions]
    experiment.tell([(i, 1.0) for i in ids], metric="refunds")
    clock.now += 100.0
    experiment.expose(ids[:1])
    assert values(experiment, clock)["refunds"] == [None, None]
    clock.now += 10.0
    assert values(experiment, clock)["refunds"] == [1.0, None]


# Reports and the worker


def played(experiment, clock, rates, rng, n=400) -> None:
    decisions = experiment.ask(n).decisions
    experiment.tell([(d.id, float(rng.random() < 0.3)) for d in decisions])
    experiment.tell([(d.id, 1.0) for d in decisions if rng.random() < rates[d.arm]], metric="refunds")
    clock.now += 20.0


def shop(tmp_path, clock, **options) -> Experiment:
    options = {"metrics": [REFUNDS | {"pause": True}, SPEND], "floor": 0.2, "strict": False} | options
    return made(tmp_path, batching={"name": "fixed", "size": 400}, clock=clock, **options)


def test_an_alarm_is_reported_and_pauses_its_arm(tmp_path):
    clock, rng = Hand(), np.random.default_rng(0)
    experiment, worker = shop(tmp_path, clock), Worker(tmp_path / "blts.db", clock=clock)
    assert experiment.report()["metrics"][0]["arms"][1]["n"] == 0
    played(experiment, clock, {"A": 0.1, "B": 0.4, "C": 0.1}, rng)
    done = worker.once()
    assert done[0].did[0].startswith("ALARM: ")
    assert "'B' is played no more (policy version 3): 'B' is likely worse" in done[0].did[1]
    assert experiment.status()["active"] == ["A", "C"]
    assert experiment.status()["alarms"][0].startswith("'B' is likely worse on refunds than 'A' by more than 0.01")
    reason = next(line["detail"]["reason"] for line in experiment.audit() if line["what"] == "retire arm")
    assert reason.startswith("guardrail: 'B' is likely worse on refunds than 'A' by more than 0.01 (probability")
    found = {arm["arm"]: arm for arm in experiment.report()["metrics"][0]["arms"]}
    data = table_of(experiment)
    assert found["B"]["n"] == (data.arms == 1).sum()
    gap = found["B"]["difference"]
    assert gap["low"] < 0.3 < gap["high"]
    assert gap["low"] > 0.1
    assert found["B"]["p_worse"] > 0.99
    assert found["C"]["alarm"] is None
    assert found["A"]["difference"] is None
    played(experiment, clock, {"A": 0.1, "C": 0.1}, rng)
    assert all(not one.did for one in worker.once())
    worker.close()
    assert experiment.verify() == []


def test_neither_the_control_nor_without_pause(tmp_path):
    """An arm is compared with the control, so a bad control shows as others that are better."""
    clock, rng = Hand(), np.random.default_rng(0)
    experiment, worker = shop(tmp_path, clock), Worker(tmp_path / "blts.db", clock=clock)
    played(experiment, clock, {"A": 0.5, "B": 0.1, "C": 0.1}, rng)
    other = shop(tmp_path, clock, name="other", metrics=[REFUNDS], stop={"units": 10})
    played(other, clock, {"A": 0.1, "B": 0.5, "C": 0.1}, rng)
    worker.once()
    worker.close()
    assert experiment.status()["active"] == ["A", "B", "C"]
    assert experiment.status()["alarms"] == []
    assert other.status()["active"] == ["A", "B", "C"]
    assert "'B' is likely worse" in other.status()["alarms"][0]
    said = other.report()["recommendation"]
    assert said.startswith("Look at the guardrails first: 'B' is likely worse")
    assert "Stop: the budget of 10 units is spent" in said


def test_alarms_share_their_error_between_guardrails_and_arms(tmp_path, monkeypatch):
    counted = []
    monkeypatch.setattr(metrics, "_arm", lambda data, k: counted.append(data.comparisons) or {"arm": k, "alarm": None})
    shop(tmp_path, Hand(), metrics=[REFUNDS, REFUNDS | {"name": "returns"}, SPEND]).report()
    assert set(counted) == {2 * 2}  # guardrails times the arms besides the control


def test_a_secondary_metric_has_no_alarm(tmp_path):
    clock, rng = Hand(), np.random.default_rng(0)
    experiment = shop(tmp_path, clock, metrics=[REFUNDS | {"role": "secondary"}])
    played(experiment, clock, {"A": 0.1, "B": 0.5, "C": 0.1}, rng)
    (metric,) = experiment.report()["metrics"]
    assert metric["alarms"] == []
    assert metric["arms"][1]["p_worse"] > 0.99


def test_experiments_without_metrics_say_nothing_of_them(tmp_path):
    experiment = made(tmp_path)
    with pytest.raises(ConfigError, match="no metrics"):
        experiment.tell([], metric="refunds")
    assert experiment.report()["metrics"] == []
    assert "alarms" not in experiment.status()
    with experiment.database.read() as c:
        assert c.execute(sa.select(sa.func.count()).select_from(schema.measures)).scalar() == 0
