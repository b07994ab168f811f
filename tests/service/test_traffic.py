"""Asks, exposures and rewards over HTTP: the decisions of `Experiment`, bit for bit, harmless retries, a fate for every row."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from blts.live import Decision, Experiment
from blts.live.repeats import FRESH, Repeats
from blts.service.roles import Role
from served import MAIL, Served, experiment_in, served

DECISIONS, REWARDS = f"{MAIL}/decisions", f"{MAIL}/rewards"
SHOWN = "/v1/experiments/shown"


@pytest.fixture(scope="module")
def service() -> Iterator[Served]:
    with served() as found:
        experiment_in(found.service.database, "shown", exposure="explicit")
        yield found


def test_decisions_are_those_of_an_experiment(service: Served) -> None:
    alone = experiment_in("sqlite://")
    for body in ({}, {"n": 20}, {"units": ["ann", "bob", "ann"]}, {"units": ["bob"]}):
        answer = service.done(Role.app, "POST", DECISIONS, json=body)
        direct = alone.ask(**body)
        assert [(d["arm"], d["propensities"], d["unit"]) for d in answer["decisions"]] == [
            (d.arm, d.propensities, d.unit) for d in direct.decisions
        ]


def test_a_retry_changes_nothing(service: Served) -> None:
    key = {"Idempotency-Key": "monday"}
    once, again = (service.done(Role.app, "POST", DECISIONS, json={"n": 3}, headers=key) for _ in range(2))
    assert once["decisions"] == again["decisions"]
    rows = {"rewards": [{"decision_id": d["id"], "reward": 1} for d in once["decisions"]]}
    first, second = (service.done(Role.app, "POST", REWARDS, json=rows) for _ in range(2))
    assert (first["accepted"], second["accepted"], second["duplicate"]) == (3, 0, 3)


def test_another_request_under_the_same_key_is_a_conflict(service: Served) -> None:
    key = {"Idempotency-Key": "tuesday"}
    decisions = service.done(Role.app, "POST", DECISIONS, json={"n": 2}, headers=key)["decisions"]
    sentence = service.refused(Role.app, "POST", DECISIONS, 409, json={"n": 3}, headers=key)
    assert sentence == "The request 'tuesday' was for something else (ask); take another id."
    rows = {"rewards": [{"decision_id": decisions[0]["id"], "reward": 1}]}
    service.refused(Role.app, "POST", REWARDS, 409, json=rows, headers=key)


def test_every_row_has_a_fate(service: Served) -> None:
    first, second = service.done(Role.app, "POST", DECISIONS, json={"units": ["eve", "fay"]})["decisions"]
    rows = [
        {"unit": "eve", "reward": 1},
        {"decision_id": first["id"], "reward": True},
        {"decision_id": first["id"], "reward": 0},
        {"unit": "nobody", "reward": 1},
        {"decision_id": second["id"], "reward": 0.5},
        {"decision_id": second["id"], "unit": "fay", "reward": 1},
        {"reward": 1},
    ]
    told = service.done(Role.app, "POST", REWARDS, json={"rewards": rows})
    assert [told[fate] for fate in ("accepted", "duplicate", "conflict", "unknown", "invalid")] == [1, 1, 1, 1, 3]
    assert told["ids"]["unknown"] == ["nobody"]
    assert told["ids"]["invalid"][0] == [second["id"], "rewards of this model are 0 or 1"]


def test_fewer_decisions_than_asked_for_say_why(service: Served) -> None:
    experiment_in(service.service.database, "halted").pause()
    answer = service.done(Role.app, "POST", "/v1/experiments/halted/decisions", json={"n": 2})
    assert (answer["decisions"], answer["paused"]) == ([], True)
    assert "paused" in answer["why"]


def test_exposures_have_fates_too(service: Served) -> None:
    ids = [
        d["id"] for d in service.done(Role.app, "POST", f"{SHOWN}/decisions", json={"units": ["ann", "bob", "cat"]})["decisions"]
    ]
    body = {"decision_ids": [ids[0], ids[0], ids[0][:-1] + "99", "x"], "units": ["bob", "nobody"]}
    told = service.done(Role.app, "POST", f"{SHOWN}/exposures", json=body)
    assert [told[fate] for fate in ("accepted", "duplicate", "unknown")] == [2, 1, 3]
    assert told["ids"] == {"duplicate": [ids[0]], "unknown": [ids[0][:-1] + "99", "x", "nobody"]}
    again = service.done(Role.app, "POST", f"{SHOWN}/exposures", json={"units": ["bob", "cat"]})
    assert (again["accepted"], again["duplicate"]) == (1, 1)
    assert "explicit" in service.refused(Role.app, "POST", f"{MAIL}/exposures", 422, json={"units": ["ann"]})


def test_totals_settle_the_oldest_decisions_once(service: Served) -> None:
    experiment = experiment_in(service.service.database, "totals")
    asked = service.done(Role.app, "POST", "/v1/experiments/totals/decisions", json={"n": 20})["decisions"]
    mine = sum(d["arm"] == "A" for d in asked)
    at, body, key = "/v1/experiments/totals/rewards/aggregate", {"arm": "A", "count": mine, "total": 1}, {"Idempotency-Key": "x"}
    assert "Idempotency-Key" in service.refused(Role.app, "POST", at, 422, json=body)
    for _ in range(2):
        assert service.done(Role.app, "POST", at, json=body, headers=key)["accepted"] == mine
    assert experiment.status()["without_reward"] == 20 - mine
    service.refused(Role.app, "POST", at, 409, json=body | {"total": 0}, headers=key)
    unknown = service.refused(Role.app, "POST", at, 422, json=body | {"arm": "Z"}, headers={"Idempotency-Key": "y"})
    assert unknown.startswith("There is no arm named 'Z'.")


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
