"""What operators and administrators do: create, change and stop experiments, jobs and keys."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from blts.live.totals import totals
from blts.service.roles import Role
from served import CONVERSIONS, MAIL, Served, experiment_in, served

OPERATOR, ADMIN, APP, READER = Role.operator, Role.admin, Role.app, Role.reader
PRIVATE = {
    "model": {"name": "gaussian", "sd": 0.5, "prior_mean": 0.3, "prior_sd": 0.3},
    "window": "1d",
    "default_reward": 0,
    "privacy": {"rho": 2.0, "low": 0, "high": 1},
}
WHY = {"reason": "the test says so"}
SPECIFICATION = {"arms": ["A", "B", "C"], "model": CONVERSIONS, "sampler": "exact", "batching": "external"}


@pytest.fixture(scope="module")
def service() -> Iterator[Served]:
    with served() as found:
        yield found


@pytest.fixture
def at(service: Served) -> str:
    """The address of an experiment of the test's own."""
    name = f"own-{next(_NUMBERS)}"
    experiment_in(service.service.database, name)
    return f"/v1/experiments/{name}"


_NUMBERS = itertools.count()


def reasons(service: Served, at: str) -> list[tuple[str, Any]]:
    rows = service.done(READER, "GET", f"{at}/audit?after=0")["rows"]
    return [(row["what"], row["detail"].get("reason")) for row in rows][1:]


def test_an_experiment_is_created_and_decides(service: Served) -> None:
    body = {"name": "first-one", "specification": SPECIFICATION}
    answer = service.call(ADMIN, "POST", "/v1/experiments", json=body)
    assert (answer.status_code, answer.headers["Location"]) == (201, "/v1/experiments/first-one")
    assert service.call(READER, "GET", "/v1/experiments/first-one").headers["ETag"] == answer.headers["ETag"]
    assert service.done(ADMIN, "POST", "/v1/experiments", 201, json=body) == answer.json()
    other = body | {"specification": SPECIFICATION | {"floor": 0.1}}
    assert "already" in service.refused(ADMIN, "POST", "/v1/experiments", 409, json=other)
    asked = service.done(APP, "POST", "/v1/experiments/first-one/decisions", json={"n": 4})
    assert len(asked["decisions"]) == 4
    (line,) = service.done(READER, "GET", "/v1/experiments/first-one/audit?after=0&limit=1")["rows"]
    assert line["actor"].startswith("the admin (")


def test_a_private_experiment_says_what_it_promises(service: Served) -> None:
    body = {"name": "private", "specification": SPECIFICATION | PRIVATE}
    service.done(ADMIN, "POST", "/v1/experiments", 201, json=body)
    service.done(APP, "POST", "/v1/experiments/private/decisions", json={"n": 4})
    found = service.done(READER, "GET", "/v1/experiments/private/status")["privacy"]
    assert (found["rho"], found["releases"]) == (2.0, 0)
    assert found["words"].startswith("Private: the reward of a row")


@pytest.mark.parametrize("name", ["", "A", "-a", "_a", "a b", "a/b", "ä", "a" * 64, "a\n", "..", "a.b"])
def test_names_are_slugs(service: Served, name: str) -> None:
    service.refused(ADMIN, "POST", "/v1/experiments", 422, json={"name": name, "specification": SPECIFICATION})


@pytest.mark.parametrize(
    "changed",
    [
        {"model": "os:system"},
        {"model": {"name": "bernoulli:x"}},
        {"sampler": "subprocess:Popen"},
        {"sampler": {"name": "thompson", "sampler": "os:system"}},
        {"sampler": {"name": "thompson", "options": {"deep": ["a", {"b": "os:system"}]}}},
        {"batching": "antigravity:fly"},
        {"metrics": [{"name": "time: p50", "model": "os:path"}]},
    ],
)
def test_only_registered_parts(service: Served, changed: dict[str, Any]) -> None:
    body = {"name": "own-code", "specification": SPECIFICATION | changed}
    assert "registered" in service.refused(ADMIN, "POST", "/v1/experiments", 422, json=body)


@pytest.mark.parametrize(
    "changed",
    [
        {"model": "nothing"},
        {"model": {}},
        {"model": {"name": "bernoulli", "options": 3}},
        {"model": {"name": "bernoulli", "a": "x"}},
        {"model": {"object": {"class": "blts.models.Bernoulli"}}},
        {"sampler": {"name": "exact", "nothing": 1}},
        {"arms": []},
        {"arms": ["A", "A"]},
        {"arms": [{"label": 3}]},
        {"arms": {"A": {}, "B\x00": {}}},
        {"floor": 2},
        {"seed": -1},
        {"seed": 10**30},
        {"prior": [[]]},
        {"stop": 3},
        {"features": {"a": 3}},
        {"metrics": [{}]},
        {"metrics": [{"name": "m", "model": 3}]},
        {"objective": {"x": 1}},
        {"window": "soon"},
        {"horizon": 10**400},
        {"privacy": {"rho": 1}},
        PRIVATE | {"model": CONVERSIONS},
        {"unheard_of": 1},
    ],
)
def test_what_no_experiment_can_be_is_refused_in_a_sentence(service: Served, changed: dict[str, Any]) -> None:
    body = {"name": "refused", "specification": SPECIFICATION | changed}
    sentence = service.refused(ADMIN, "POST", "/v1/experiments", 422, json=body)
    assert sentence.endswith(".")
    assert len(sentence) < 1000
    assert "refused" not in [row["name"] for row in service.done(READER, "GET", "/v1/experiments")["rows"]]


def test_a_key_for_some_experiments_creates_those_alone(service: Served) -> None:
    key = service.key(ADMIN, experiments=["mine"])
    body = {"name": "yours", "specification": SPECIFICATION}
    service.refused(key, "POST", "/v1/experiments", 403, json=body)
    service.done(key, "POST", "/v1/experiments", 201, json=body | {"name": "mine"})


def test_pause_and_resume(service: Served, at: str) -> None:
    for _ in range(2):
        service.done(OPERATOR, "POST", f"{at}/pause", 204, json=WHY)
    assert service.done(READER, "GET", at)["paused"]
    service.done(OPERATOR, "POST", f"{at}/resume", 204, json={"reason": "go on"})
    assert reasons(service, at) == [("pause", WHY["reason"]), ("resume", "go on")]
    for body in ({}, {"reason": ""}, {"reason": "x" * 10_001}, {"reason": "\x00"}, {"reason": None}):
        service.refused(OPERATOR, "POST", f"{at}/pause", 422, json=body)


def test_arms_come_and_go(service: Served, at: str) -> None:
    body = {"label": "D/E f?", "metadata": {"colour": "red"}} | WHY
    service.warmed.clear()
    assert service.done(OPERATOR, "POST", f"{at}/arms", json=body) == {"version": 2}
    assert [at.endswith(opened.experiment.name) for opened in service.warmed] == [True]
    assert "already" in service.refused(OPERATOR, "POST", f"{at}/arms", 409, json=body)
    assert service.done(OPERATOR, "POST", f"{at}/arms/D%2FE%20f%3F/retire", json=WHY) == {"version": 3}
    again = service.refused(OPERATOR, "POST", f"{at}/arms/D%2FE%20f%3F/retire", 404, json=WHY)
    assert again.startswith("There is no active arm named 'D/E f?'.")
    arms = service.done(READER, "GET", at)["arms"]
    assert arms[3] == {"label": "D/E f?", "metadata": {"colour": "red"}, "active": False}
    assert reasons(service, at) == [("add arm", WHY["reason"]), ("retire arm", WHY["reason"])]
    for options in ({"label": 1}, {"reason": 2}, {"metadata": 0}, {"nothing": 1}, {"a": 1e40}):
        service.refused(OPERATOR, "POST", f"{at}/arms", 422, json={"label": "F", "options": options} | WHY)


def test_a_promoted_arm_is_the_arm_of_all(service: Served, at: str) -> None:
    unknown = service.refused(ADMIN, "POST", f"{at}/stop", 422, json={"promote": "Z"} | WHY)
    assert unknown.startswith("There is no active arm named 'Z'.")
    service.done(ADMIN, "POST", f"{at}/stop", json={"promote": "B"} | WHY)
    asked = service.done(APP, "POST", f"{at}/decisions", json={"n": 5})
    assert ({d["arm"] for d in asked["decisions"]}, asked["stopped"]) == ({"B"}, True)
    for change in ("pause", "stop", "arms/A/retire"):
        assert "stopped" in service.refused(ADMIN, "POST", f"{at}/{change}", 409, json=WHY)


def test_without_a_promoted_arm_there_are_no_more_decisions(service: Served, at: str) -> None:
    service.done(ADMIN, "POST", f"{at}/stop", json=WHY)
    asked = service.done(APP, "POST", f"{at}/decisions", json={"n": 5})
    assert (asked["decisions"], asked["why"]) == ([], "the experiment is stopped")


def test_corrections_and_cancellations(service: Served, at: str) -> None:
    first, second = (d["id"] for d in service.done(APP, "POST", f"{at}/decisions", json={"n": 2})["decisions"])
    service.done(APP, "POST", f"{at}/rewards", json={"rewards": [{"decision_id": first, "reward": 0}]})
    right = {"decision_id": first, "reward": 1} | WHY
    assert [service.done(OPERATOR, "POST", f"{at}/corrections", json=right)["changed"] for _ in range(2)] == [1, 0]
    away = {"decision_ids": [second, second]} | WHY
    assert [service.done(OPERATOR, "POST", f"{at}/cancellations", json=away)["changed"] for _ in range(2)] == [1, 0]
    found = service.done(READER, "GET", f"{at}/decisions?after=0")["rows"]
    assert [(row["status"], row["reward"]) for row in found] == [("corrected", 1.0), ("cancelled", None)]
    for decision in ("x", first[:-1] + "9", "0" * 16 + "-1"):
        assert "no decision" in service.refused(
            OPERATOR, "POST", f"{at}/cancellations", 422, json=away | {"decision_ids": [decision]}
        )
        service.refused(OPERATOR, "POST", f"{at}/corrections", 422, json=right | {"decision_id": decision})
    assert "0 or 1" in service.refused(OPERATOR, "POST", f"{at}/corrections", 422, json=right | {"reward": 0.5})


def test_a_stale_page_changes_nothing(service: Served, at: str) -> None:
    asked = service.done(APP, "POST", f"{at}/decisions", json={"n": 1})["decisions"]
    seen = service.call(READER, "GET", at).headers["ETag"]
    service.done(APP, "POST", f"{at}/decisions", json={"n": 1})
    service.done(OPERATOR, "POST", f"{at}/pause", 204, json=WHY, headers={"If-Match": seen})
    bodies = {
        "resume": WHY,
        "pause": WHY,
        "arms": {"label": "D"} | WHY,
        "arms/A/retire": WHY,
        "corrections": {"decision_id": asked[0]["id"], "reward": 1} | WHY,
        "cancellations": {"decision_ids": [asked[0]["id"]]} | WHY,
        "stop": WHY,
    }
    before = service.done(READER, "GET", f"{at}/audit")
    for change, body in bodies.items():
        for tag in (seen, '"x"', "nonsense", ""):
            service.refused(ADMIN, "POST", f"{at}/{change}", 412, json=body, headers={"If-Match": tag})
    assert service.done(READER, "GET", f"{at}/audit") == before
    now = service.call(READER, "GET", at).headers["ETag"]
    service.refused(OPERATOR, "POST", f"{at}/resume", 412, json=WHY, headers={"If-Match": f"W/{now}"})
    service.done(OPERATOR, "POST", f"{at}/resume", 204, json=WHY, headers={"If-Match": f"{seen}, {now}"})
    service.done(OPERATOR, "POST", f"{at}/pause", 204, json=WHY, headers={"If-Match": "*"})


def test_of_two_changes_of_one_page_only_one_is_made(url: str) -> None:
    """Each in its own transaction, at the same time; the arm that is left would otherwise be the last."""
    experiment = experiment_in(url)
    seen, ended = experiment.definition()["mark"], []
    gate = threading.Barrier(2)

    def retire(arm: str) -> None:
        gate.wait()
        try:
            experiment.expecting(seen).retire_arm(arm)
            ended.append("done")
        except Exception as error:
            ended.append(type(error).__name__)

    threads = [threading.Thread(target=retire, args=(arm,)) for arm in "AB"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ended) == ["Stale", "done"]
    assert totals(experiment.database)[:4] == (1, 0, 0, 0)


def test_a_refresh_is_a_job(service: Served, at: str) -> None:
    asked = service.done(APP, "POST", f"{at}/decisions", json={"n": 10})["decisions"]
    service.done(APP, "POST", f"{at}/rewards", json={"rewards": [{"decision_id": d["id"], "reward": 1} for d in asked]})
    answer = service.call(OPERATOR, "POST", f"{at}/refresh")
    job = answer.json()
    assert (answer.status_code, answer.headers["Location"], job["state"]) == (202, f"/v1/jobs/{job['id']}", "waiting")
    assert service.done(OPERATOR, "POST", f"{at}/refresh", 202, json={})["id"] == job["id"]  # a retry is the same job
    assert service.done(OPERATOR, "POST", f"{at}/refresh", 202, json={"force": True})["id"] != job["id"]
    service.work(job["experiment"])
    done = service.done(READER, "GET", answer.headers["Location"])
    assert (done["state"], done["result"]["version"]) == ("done", 2)
    assert done["actor"].startswith("the operator (")
    assert service.done(READER, "GET", f"{at}/policies")["rows"][-2]["version"] == 2


def test_a_verification_is_a_job(service: Served, at: str) -> None:
    job = service.done(OPERATOR, "POST", f"{at}/verify", 202)
    service.work(job["experiment"])
    assert service.done(READER, "GET", f"/v1/jobs/{job['id']}")["result"] == []


def test_jobs_of_foreign_experiments_are_not_there(service: Served, at: str) -> None:
    job = service.done(OPERATOR, "POST", f"{at}/verify", 202)["id"]
    foreign = service.key(READER, experiments=["mail"])
    unknown = service.refused(foreign, "GET", "/v1/jobs/0123456789abcdef01234567", 404)
    assert service.refused(foreign, "GET", f"/v1/jobs/{job}", 404) == unknown
    for other in ("x", "%00", "ä"):
        assert service.refused(foreign, "GET", f"/v1/jobs/{other}", 404) == unknown


def test_keys_are_made_used_and_revoked(service: Served) -> None:
    body = {"name": "shop", "role": "app", "experiments": ["mail"], "rate": 50}
    made = service.done(ADMIN, "POST", "/v1/keys", 201, json=body)
    assert (made["key"]["role"], made["key"]["experiments"], made["key"]["revoked_at"]) == ("app", ["mail"], None)
    assert made["key"]["created_by"].startswith("the admin (")
    service.done(made["secret"], "POST", f"{MAIL}/decisions", json={"n": 1})
    rows = service.done(ADMIN, "GET", "/v1/keys?limit=1000")
    assert made["key"] in rows["rows"]
    assert made["secret"][14:] not in str(rows)
    ended = service.done(ADMIN, "POST", f"/v1/keys/{made['key']['id']}/revoke")
    assert ended["revoked_by"].startswith("the admin (")
    assert service.done(ADMIN, "POST", f"/v1/keys/{made['key']['id']}/revoke") == ended
    service.refused(made["secret"], "POST", f"{MAIL}/decisions", 401, json={"n": 1})


@pytest.mark.parametrize(
    "changed",
    [
        {"name": ""},
        {"role": "king"},
        {"experiments": []},
        {"origins": ["example.org"]},
        {"origins": ["https://a.b/c"]},
        {"origins": ["https://A.b"]},
        {"origins": ["https://a\x00b"]},
        {"origins": ["https://a b"]},
        {"rate": 0},
        {"expires_at": 5},
        {"expires_at": 1e300},
        {"name": "\x00"},
    ],
)
def test_keys_that_cannot_be(service: Served, changed: dict[str, Any]) -> None:
    service.refused(ADMIN, "POST", "/v1/keys", 422, json={"name": "x", "role": "app"} | changed)


def test_a_key_that_is_asked_for_again_is_the_same_key(service: Served) -> None:
    body, again = {"name": "twice", "role": "app", "rate": 5.0}, {"Idempotency-Key": "made once"}
    first, second = (service.done(ADMIN, "POST", "/v1/keys", 201, json=body, headers=again) for _ in range(2))
    assert first == second
    assert [row["name"] for row in service.done(ADMIN, "GET", "/v1/keys?limit=1000")["rows"]].count("twice") == 1
    service.done(first["secret"], "POST", f"{MAIL}/decisions", json={})
    said = service.refused(ADMIN, "POST", "/v1/keys", 409, json=body | {"role": "admin"}, headers=again)
    assert said == "The request 'made once' was for another key; take another id."
    own = service.key(ADMIN, experiments=["mail"])
    other = service.done(own, "POST", "/v1/keys", 201, json=body | {"experiments": ["mail"]}, headers=again)
    assert other["secret"] != first["secret"]  # request ids of somebody else find nothing
    assert service.done(ADMIN, "POST", "/v1/keys", 201, json=body)["secret"] != first["secret"]
    service.refused(ADMIN, "POST", "/v1/keys", 422, json=body, headers={"Idempotency-Key": "x" * 300})


def test_a_key_for_some_experiments_has_power_over_keys_for_those_alone(service: Served) -> None:
    key = service.key(ADMIN, experiments=["mail", "site"])
    for wider in (None, ["other"], ["mail", "other"]):
        service.refused(key, "POST", "/v1/keys", 403, json={"name": "x", "role": "admin", "experiments": wider})
    own = service.done(key, "POST", "/v1/keys", 201, json={"name": "x", "role": "admin", "experiments": ["mail"]})["key"]
    rows = service.done(key, "GET", "/v1/keys")["rows"]
    assert own in rows
    assert all(set(row["experiments"]) <= {"mail", "site"} for row in rows)
    whole = service.keys[ADMIN].split("_")[1]
    unknown = service.refused(key, "POST", "/v1/keys/00000000/revoke", 404)
    assert service.refused(key, "POST", f"/v1/keys/{whole}/revoke", 404) == unknown
    service.done(key, "POST", f"/v1/keys/{own['id']}/revoke")


def test_the_last_admin_key_is_kept(service: Served) -> None:
    own = service.keys[ADMIN].split("_")[1]
    assert "last admin key" in service.refused(ADMIN, "POST", f"/v1/keys/{own}/revoke", 409)
