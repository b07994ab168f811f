"""Asks and rewards over HTTP: the decisions of `Experiment`, bit for bit, and harmless retries."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from blts.service.roles import Role
from served import Served, experiment_in, served

DECISIONS, REWARDS = "/v1/experiments/mail/decisions", "/v1/experiments/mail/rewards"


@pytest.fixture(scope="module")
def service() -> Iterator[Served]:
    with served() as found:
        yield found


def test_decisions_are_those_of_an_experiment(service: Served) -> None:
    alone = experiment_in("sqlite://")
    for body in ({}, {"n": 20}, {"units": ["ann", "bob", "ann"]}, {"units": ["bob"]}):
        answer = service.call(Role.app, "POST", DECISIONS, json=body)
        assert answer.status_code == 200, answer.text
        direct = alone.ask(**body)
        assert [(d["arm"], d["propensities"], d["unit"]) for d in answer.json()["decisions"]] == [
            (d.arm, d.propensities, d.unit) for d in direct.decisions
        ]


def test_a_retry_changes_nothing(service: Served) -> None:
    once, again = (
        service.call(Role.app, "POST", DECISIONS, json={"n": 3}, headers={"Idempotency-Key": "monday"}).json() for _ in range(2)
    )
    assert once["decisions"] == again["decisions"]
    rows = {"rewards": [{"decision_id": d["id"], "reward": 1} for d in once["decisions"]]}
    first, second = (service.call(Role.app, "POST", REWARDS, json=rows).json() for _ in range(2))
    assert (first["accepted"], second["accepted"], second["duplicate"]) == (3, 0, 3)
