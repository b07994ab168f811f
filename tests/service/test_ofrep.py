"""OpenFeature's protocol: the decisions of `Experiment` as flags, in the protocol's own shapes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from blts.live import Experiment, repeats, schema
from blts.service.roles import Role
from served import CONVERSIONS, Served, experiment_in, served

FLAGS = "/ofrep/v1/evaluate/flags"
ARMS = {"A": {"value": True}, "B": {"value": 2.0}, "C": {"value": {"color": "red", "size": [1, 2]}}}


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A service that notices at once what others do to its experiments."""
    monkeypatch.setattr(repeats, "FRESH", 0.0)
    with served() as found:
        yield found


@pytest.fixture(scope="module")
def unchanged() -> Iterator[Served]:
    """A service for tests that leave it as it is."""
    with served() as found:
        yield found


def evaluate(service: Served, unit: str, flag: str = "mail", role: Role | str = Role.app, **attributes: Any) -> Any:
    """What one user gets of one flag."""
    answer = service.call(role, "POST", f"{FLAGS}/{flag}", json={"context": {"targetingKey": unit} | attributes})
    assert answer.status_code == 200, answer.text
    return answer.json()


def another(service: Served, name: str, arms: Any = ("A", "B", "C"), **settings: Any) -> Experiment:
    """One more experiment of the service."""
    options = {"sampler": "exact", "batching": "external", "seed": len(name)} | settings
    return Experiment.create(service.service.database, name, arms, CONVERSIONS, **options)


def test_flags_are_the_decisions_of_an_experiment(service: Served) -> None:
    alone = experiment_in("sqlite://")
    for unit in ("ann", "bob", "ann", "cyd"):
        (decision,) = alone.ask(units=[unit]).decisions
        found = evaluate(service, unit, country="DE")
        expected = (decision.arm, decision.arm, decision.policy, decision.propensities[decision.arm])
        assert (found["variant"], found["value"], found["metadata"]["policy"], found["metadata"]["propensity"]) == expected
        assert (found["key"], found["reason"], found["metadata"]["experiment"]) == ("mail", "SPLIT", "mail")
        assert found["metadata"]["decisionId"].rpartition("-")[2] == decision.id.rpartition("-")[2]


def test_values_are_those_of_the_arms_whenever_they_were_added(service: Served) -> None:
    shop = another(service, "shop", ARMS)
    values = {label: metadata["value"] for label, metadata in ARMS.items()} | {"D": 7}
    for i in range(20):
        found = evaluate(service, f"early {i}", "shop")
        assert (found["value"], type(found["value"])) == (values[found["variant"]], type(values[found["variant"]]))
    shop.add_arm("D", {"value": 7})
    late = [evaluate(service, f"late {i}", "shop") for i in range(30)]
    assert {found["variant"] for found in late} >= {"D"}
    assert all(found["value"] == values[found["variant"]] for found in late)


def test_a_null_value_is_the_default_of_the_caller(service: Served) -> None:
    another(service, "nothing", {"A": {"value": None}, "B": {"value": None}})
    found = evaluate(service, "ann", "nothing")
    assert "value" not in found
    assert found["variant"] in ("A", "B")


def test_a_paused_experiment_gives_new_users_their_default_and_others_their_arm(service: Served) -> None:
    before = evaluate(service, "ann")
    Experiment.open(service.service.database, "mail").pause("a bug")
    assert evaluate(service, "ann") == before
    new = evaluate(service, "zoe")
    assert (new["reason"], new["variant"], new["metadata"]["why"]) == ("DISABLED", "", "the experiment is paused")
    assert "value" not in new
    assert "decisionId" not in new["metadata"]


@pytest.mark.parametrize("promote", ["B", None])
def test_a_stopped_experiment_gives_the_promoted_arm_or_the_default(service: Served, promote: str | None) -> None:
    before = {unit: evaluate(service, unit) for unit in map(str, range(12))}
    assert {found["variant"] for found in before.values()} == {"A", "B", "C"}
    Experiment.open(service.service.database, "mail").stop(promote)
    new = evaluate(service, "zoe")
    after = {unit: evaluate(service, unit) for unit in before}
    if promote is None:
        assert (new["reason"], "value" in new) == ("DISABLED", False)
        assert all(after[unit] == before[unit] | {"reason": "STATIC"} for unit in before)
        return
    assert (new["reason"], new["value"], new["metadata"]["propensity"]) == ("STATIC", "B", 1.0)
    assert {found["value"] for found in after.values()} == {"B"}
    # What a user with another arm does from now on says nothing about that arm.
    assert all(("decisionId" in after[unit]["metadata"]) == (found["variant"] == "B") for unit, found in before.items())


def test_what_is_changed_over_http_is_noticed_at_once() -> None:
    """Units are answered from memory, which must not outlive a change that this process made."""
    with served() as service:
        before = {evaluate(service, unit)["variant"] for unit in map(str, range(12))}
        assert service.call(Role.admin, "POST", "/v1/experiments/mail/stop", json={"promote": "B", "reason": "x"}).is_success
        assert (before, {evaluate(service, unit)["variant"] for unit in map(str, range(12))}) == ({"A", "B", "C"}, {"B"})


def test_users_of_a_retired_arm_get_the_default_and_are_not_drawn_again(service: Served) -> None:
    before = {unit: evaluate(service, unit)["variant"] for unit in map(str, range(12))}
    experiment = Experiment.open(service.service.database, "mail")
    experiment.retire_arm("C", "broken")
    made = experiment.status()["decisions"]
    for unit, arm in before.items():
        found = evaluate(service, unit)
        assert (found["reason"], found.get("value")) == (("DISABLED", None) if arm == "C" else ("SPLIT", arm))
    assert "C" in before.values()
    assert experiment.status()["decisions"] == made


def contextual(service: Served) -> Experiment:
    """An experiment that decides by age and country."""
    features = {"age": [18, 90], "country": ["DE", "FR"]}
    model = {"name": "linear", "sd": 1.0, "prior_mean": 0.0, "prior_sd": 1.0}
    return Experiment.create(service.service.database, "ages", ["A", "B"], model, features=features, batching="external", seed=9)


def test_declared_features_are_passed_and_checked_and_others_are_not_stored(service: Served) -> None:
    experiment = contextual(service)
    assert evaluate(service, "ann", "ages", age=30, country="FR", email="ann@example.org")["reason"] == "SPLIT"
    with experiment.database.read() as c:
        assert c.execute(sa.select(schema.contexts.c.context)).scalars().all() == ['{"age": 30.0, "country": "FR"}']
    for wrong in ({"age": 30}, {"age": 300, "country": "FR"}, {"age": "30", "country": "FR"}):
        answer = service.call(Role.app, "POST", f"{FLAGS}/ages", json={"context": {"targetingKey": "bob"} | wrong})
        assert (answer.status_code, answer.json()["errorCode"], answer.json()["key"]) == (400, "INVALID_CONTEXT", "ages")


def test_bulk_evaluates_what_the_key_sees_and_the_context_allows(service: Served) -> None:
    another(service, "shop", ARMS)
    contextual(service)
    _, narrow = service.service.keys.create("narrow", "client", experiments=["shop", "ages"], by="test")

    def keys(role: Role | str, **attributes: Any) -> dict[str, Any]:
        answer = service.call(role, "POST", FLAGS, json={"context": {"targetingKey": "ann"} | attributes})
        assert answer.status_code == 200, answer.text
        return {flag["key"]: flag for flag in answer.json()["flags"]}

    alone = keys(Role.app)
    assert alone == {name: evaluate(service, "ann", name) for name in ("mail", "shop")}
    assert set(keys(Role.app, age=20, country="DE")) == {"mail", "shop", "ages"}
    assert set(keys(narrow, age=20, country="DE")) == {"shop", "ages"}
    wrong = keys(Role.app, age=2, country="DE")
    assert (wrong["ages"]["errorCode"], wrong["mail"]) == ("INVALID_CONTEXT", alone["mail"])


def test_bulk_says_when_nothing_changed(service: Served) -> None:
    body = {"context": {"targetingKey": "ann"}}
    first = service.call(Role.client, "POST", FLAGS, json=body)
    tag = first.headers["ETag"]
    for given, status in ((tag, 304), (f'"x", W/{tag}', 304), ('"x"', 200)):
        again = service.call(Role.client, "POST", FLAGS, json=body, headers={"If-None-Match": given})
        assert (again.status_code, again.headers["ETag"], again.content) == (status, tag, b"" if status == 304 else first.content)
    other = service.call(Role.client, "POST", FLAGS, json={"context": {"targetingKey": "bob"}}, headers={"If-None-Match": tag})
    assert other.status_code == 200
    another(service, "shop", ARMS)
    assert service.call(Role.client, "POST", FLAGS, json=body, headers={"If-None-Match": tag}).status_code == 200


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"json": {}}, "TARGETING_KEY_MISSING"),
        ({"json": {"context": {"targetingKey": ""}}}, "TARGETING_KEY_MISSING"),
        ({"json": {"context": {"targetingKey": 17}}}, "INVALID_CONTEXT"),
        ({"json": {"context": {"targetingKey": "x" * 201}}}, "INVALID_CONTEXT"),
        ({"json": {"context": {"targetingKey": "a\x00b"}}}, "INVALID_CONTEXT"),
        ({"json": {"context": []}}, "INVALID_CONTEXT"),
        ({"content": b"{"}, "PARSE_ERROR"),
        ({"content": b'"' + b"x" * 1_000_001 + b'"'}, "PARSE_ERROR"),
        ({"content": b"{}", "headers": {"Content-Type": "text/plain"}}, "PARSE_ERROR"),
    ],
)
@pytest.mark.parametrize("path", [FLAGS, f"{FLAGS}/mail"])
def test_errors_have_the_shape_of_the_protocol(unchanged: Served, path: str, body: dict[str, Any], code: str) -> None:
    answer = unchanged.call(Role.client, "POST", path, **body)
    found = answer.json()
    assert (answer.status_code, found["errorCode"], found.get("key")) == (400, code, None if path == FLAGS else "mail")
    assert found["errorDetails"].endswith(".")
    assert answer.headers["content-type"] == "application/json"


def test_other_problems_have_it_too(service: Served) -> None:
    body = {"context": {"targetingKey": "ann"}}
    _, slow = service.service.keys.create("slow", "client", rate=0.2, by="test")
    _, narrow = service.service.keys.create("narrow", "app", experiments=["shop"], by="test")
    unknown = service.call(Role.app, "POST", f"{FLAGS}/nowhere", json=body)
    foreign = service.call(narrow, "POST", f"{FLAGS}/mail", json=body)
    assert (unknown.status_code, unknown.json()["errorCode"]) == (404, "FLAG_NOT_FOUND")
    assert foreign.json() == {"key": "mail"} | unknown.json() | {
        "key": "mail",
        "errorDetails": unknown.json()["errorDetails"].replace("nowhere", "mail"),
    }
    assert service.call(None, "POST", f"{FLAGS}/mail", json=body).status_code == 401
    assert service.call(Role.reader, "POST", f"{FLAGS}/mail", json=body).status_code == 403
    assert service.call(slow, "POST", f"{FLAGS}/mail", json=body).status_code == 200
    for _ in range(5):
        late = service.call(slow, "POST", f"{FLAGS}/mail", json=body)
    assert late.status_code == 429
    assert late.headers["Retry-After"].isdigit()
    assert late.json()["errorCode"] == "GENERAL"
