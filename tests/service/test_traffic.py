"""Asks and rewards over HTTP: the decisions of `Experiment`, bit for bit, and harmless retries."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from blts.live import Decision, Experiment
from blts.live.repeats import FRESH, Repeats
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


def test_units_in_memory_get_what_the_database_has(service: Served) -> None:
    mail = Experiment.open(service.service.database, "mail")
    wanted = ["carl", "dora", "emil"]
    for _ in range(3):
        answer = service.call(Role.app, "POST", DECISIONS, json={"units": wanted}).json()
        direct = mail.ask(units=wanted)
        assert [Decision(**d) for d in answer["decisions"]] == list(direct.decisions)
        assert (answer["paused"], answer["stopped"], answer["why"]) == (direct.paused, direct.stopped, direct.why)


def test_units_in_memory_notice_that_arms_are_retired_and_experiments_paused() -> None:
    with served() as service:
        answer = service.call(Role.app, "POST", DECISIONS, json={"units": ["ann"]}).json()
        mail = Experiment.open(service.service.database, "mail")
        assert answer["decisions"][0]["available"]
        mail.retire_arm(answer["decisions"][0]["arm"])
        mail.pause()
        time.sleep(FRESH)
        later = service.call(Role.app, "POST", DECISIONS, json={"units": ["ann"]}).json()
        assert later["decisions"] == [answer["decisions"][0] | {"available": False}]
        assert later["paused"]


def test_what_is_read_before_an_arm_is_retired_is_not_kept_after_it() -> None:
    """The order of a race: an answer is read, the arm retired, the experiment looked at, and only then the answer kept."""
    mail = experiment_in("sqlite://")
    repeats, request = Repeats(mail.session), mail.request(units=["ann"])
    repeats.look()
    versions, answer = repeats.versions, mail.ask(units=["ann"])
    mail.retire_arm(answer.decisions[0].arm)
    repeats.look()
    repeats.keep(answer, versions)
    assert repeats.answer(request) is None
    repeats.keep(answer, repeats.versions)  # what the check prevents
    wrong = repeats.answer(request)
    assert wrong is not None
    assert wrong.decisions[0].available
