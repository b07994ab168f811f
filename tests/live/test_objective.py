"""Rewards combined of metrics: written once all windows are over, corrected with their metrics, and computed again by `verify`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from blts.errors import ConfigError, UnknownName
from blts.live import Experiment, Spec, schema
from blts.live.export import table_of
from blts.live.metrics import objective
from experiments import Hand, created, made

REVENUE = {"name": "revenue", "model": "revenue", "role": "secondary", "window": 10.0, "default": 0.0}
REFUND = {"name": "refund", "model": "revenue", "better": "lower", "window": 30.0, "default": 0.0}
BOTH: dict[str, Any] = {"metrics": [REVENUE, REFUND], "objective": {"revenue": 1.0, "refund": -2.0}}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"objective": {"x": 1.0}, "metrics": [REVENUE]}, "metric"),
        ({"objective": {}, "metrics": [REVENUE]}, "table"),
        ({"objective": ["revenue"], "metrics": [REVENUE]}, "table"),
        ({"objective": {"revenue": 0.0}, "metrics": [REVENUE]}, "other than 0"),
        ({"objective": {"revenue": "1"}, "metrics": [REVENUE]}, "other than 0"),
        ({"objective": {"revenue": 1.0}, "metrics": [REVENUE | {"window": None, "default": None}]}, "window"),
        (BOTH | {"window": 5.0}, "leave its own out"),
        (BOTH | {"model": "bernoulli"}, "any number"),
        (BOTH | {"model": "zero-inflated-log-normal"}, "any number"),
    ],
)
def test_an_objective_that_cannot_be_combined_is_refused(options, words):
    with pytest.raises((ConfigError, UnknownName), match=words):
        Spec.of(["A", "B"], **{"model": "gaussian"} | options)


def test_a_sum_that_is_never_negative_may_have_a_model_of_such():
    spec = Spec.of(["A", "B"], "zero-inflated-log-normal", metrics=[REVENUE], objective={"revenue": 2.0}, seed=1)
    assert Spec.from_json(spec.to_json()).objective == {"revenue": 2.0}


def rewards(experiment: Experiment) -> list[tuple[str, float | None]]:
    table = table_of(experiment)
    return [(s, None if r != r else float(r)) for s, r in zip(table.status, table.rewards, strict=True)]


def test_rewards_are_combined_when_all_windows_are_over(url):
    clock = Hand()
    experiment = created(url, clock=clock, **BOTH)
    ids = [d.id for d in experiment.ask(6).decisions]
    experiment.tell([(ids[0], 5.0), (ids[1], 3.0)], metric="revenue")
    experiment.tell([(ids[1], 1.0)], metric="refund")
    clock.now += 29.0  # revenue is closed, refunds are not
    answer = experiment.refresh()
    assert not answer.refreshed
    assert "6 rewards" in str(answer.why)
    clock.now += 1.0
    assert experiment.refresh().refreshed
    assert rewards(experiment) == [("told", 5.0), ("told", 1.0)] + [("told", 0.0)] * 4
    assert sum(experiment.policy()["n"].values()) == 6
    assert objective.settle(experiment.session) == 0
    experiment.cancel([ids[5]])
    experiment.tell([(ids[0], 2.0), (ids[5], 9.0)], metric="refund")  # late
    experiment.correct(ids[1], 0.0, metric="refund")
    assert objective.settle(experiment.session) == 2
    assert rewards(experiment)[:2] == [("corrected", 1.0), ("corrected", 3.0)]
    assert rewards(experiment)[5] == ("cancelled", None)
    assert experiment.status()["without_reward"] == 0
    assert experiment.refresh(force=True).refreshed
    assert experiment.verify() == []


def test_silence_without_a_default_is_missing(tmp_path):
    clock = Hand()
    metrics: Any = [REVENUE | {"default": None}, REFUND]
    experiment = made(tmp_path, clock=clock, metrics=metrics, objective=BOTH["objective"])
    ids = [d.id for d in experiment.ask(6).decisions]
    experiment.tell([(i, 1.0) for i in ids[1:]], metric="revenue")
    clock.now += 30.0
    assert experiment.refresh().refreshed
    assert rewards(experiment)[0] == ("missing", None)
    experiment.tell([(ids[0], 4.0)], metric="revenue")
    assert objective.settle(experiment.session) == 1
    assert rewards(experiment)[0] == ("corrected", 4.0)
    assert experiment.verify() == []


def test_windows_begin_with_the_exposure(tmp_path):
    clock = Hand()
    experiment = made(tmp_path, clock=clock, exposure="explicit", **BOTH)
    ids = [d.id for d in experiment.ask(2).decisions]
    clock.now += 100.0
    experiment.expose(ids[:1])
    clock.now += 29.0
    assert objective.settle(experiment.session) == 0
    clock.now += 1.0
    assert objective.settle(experiment.session) == 1
    assert [s for s, _ in rewards(experiment)] == ["told", "pending"]


def test_rewards_cannot_be_told_besides(tmp_path):
    experiment = made(tmp_path, **BOTH)
    (decision,) = experiment.ask(1).decisions
    for call in (
        lambda: experiment.tell([(decision.id, 1.0)]),
        lambda: experiment.correct(decision.id, 1.0),
        lambda: experiment.tell_aggregate("A", 1, request_id="x", total=1.0, total_of_squares=1.0),
    ):
        with pytest.raises(ConfigError, match="combined of revenue and refund"):
            call()


def test_a_reward_that_its_metrics_do_not_say_is_found(tmp_path, monkeypatch):
    """The mutant: a combination that forgets the weights. Its chain is whole, as it was written so."""
    clock = Hand()
    experiment = made(tmp_path, clock=clock, **BOTH)
    ids = [d.id for d in experiment.ask(6).decisions]
    experiment.tell([(i, 1.0) for i in ids[:2]], metric="refund")
    clock.now += 30.0
    right = objective.combined
    with monkeypatch.context() as wrong:
        wrong.setattr(objective, "combined", lambda parts, values, t: right([(m, 1.0) for m, _ in parts], values, t))
        experiment.refresh()
    assert experiment.verify() == [f"2 rewards combined at position {position(experiment)} are not what their metrics said"]


def position(experiment: Experiment) -> int:
    return next(line["position"] for line in experiment.audit() if line["what"] == objective.COMBINE)


def test_the_audit_says_how_many(tmp_path):
    clock = Hand()
    experiment = made(tmp_path, clock=clock, **BOTH)
    experiment.ask(6)
    clock.now += 30.0
    objective.settle(experiment.session)
    with experiment.database.read() as c:
        (detail,) = c.execute(schema.audit.select().where(schema.audit.c.what == "combine")).mappings()
    assert json.loads(detail["detail"]) == {"first": 6, "corrected": 0, "cutoff": 1000.0}
