"""Events of users: told once, by signed ids where anybody can read the key, and to the right experiments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from blts.live import Experiment
from blts.service.roles import Role
from served import Served, experiment_in, served

FLAGS = "/ofrep/v1/evaluate/flags"
PURCHASE = [{"name": "purchase", "model": "conversions"}]


@pytest.fixture(scope="module")
def service() -> Iterator[Served]:
    """A service with `mail`, which takes rewards, two experiments that measure purchases, and one that is told of exposures."""
    with served() as found:
        experiment_in(found.service.database, "shop", metrics=PURCHASE)
        experiment_in(found.service.database, "store", metrics=PURCHASE)
        experiment_in(found.service.database, "seen", exposure="explicit")
        yield found


def decision_id(service: Served, unit: str, role: Role | str = Role.client, flag: str = "mail") -> str:
    """The id in a flag's metadata."""
    answer = service.call(role, "POST", f"{FLAGS}/{flag}", json={"context": {"targetingKey": unit}})
    return answer.json()["metadata"]["decisionId"]


def track(service: Served, role: Role | str, **event: Any) -> Any:
    return service.call(role, "POST", "/v1/track", json=event)


def outcomes(answer: Any) -> dict[str, str]:
    assert answer.status_code == 200, answer.text
    return {one["experiment"]: one["outcome"] for one in answer.json()["experiments"]}


def test_a_signed_reward_counts_once(service: Served) -> None:
    signed = decision_id(service, "ann")
    found = [outcomes(track(service, Role.client, decisionId=signed, value=value)) for value in (1, 1, 0)]
    assert found == [{"mail": "accepted"}, {"mail": "duplicate"}, {"mail": "conflict"}]
    own = Experiment.open(service.service.database, "mail")
    assert own.status()["entries"] == 1


def test_forged_and_foreign_ids_are_refused(service: Served) -> None:
    signed, plain = decision_id(service, "bob"), decision_id(service, "bob", Role.app)
    assert signed.startswith(plain + ".")
    entries = Experiment.open(service.service.database, "mail").status()["entries"]
    name, number = plain.rsplit("-", 1)
    signature = signed.partition(".")[2]
    other = f"{name}-{int(number) - 1}"
    forged = [plain, f"{plain}.", f"{other}.{signature}", f"{plain}.{'0' * 32}", f"{plain}.{signature}x", f"{plain}.ü", "x", "."]
    with served() as elsewhere:  # another service, with the same experiment
        forged.append(decision_id(elsewhere, "bob"))
    for text in forged:
        answer = track(service, Role.client, decisionId=text, value=1)
        assert (answer.status_code, answer.json()["type"]) == (422, "urn:blts:problem:refused"), text
    assert track(service, Role.client, decisionId=signed, value=1, experiment="shop").status_code == 422
    _, narrow = service.service.keys.create("narrow", "client", experiments=["shop"], by="test")
    assert track(service, narrow, decisionId=signed, value=1).status_code == 404
    assert Experiment.open(service.service.database, "mail").status()["entries"] == entries
    assert outcomes(track(service, Role.client, decisionId=signed, value=1)) == {"mail": "accepted"}


def test_an_app_tells_by_user_or_by_any_id(service: Served) -> None:
    signed, plain = decision_id(service, "cyd"), decision_id(service, "dan", Role.app)
    assert outcomes(track(service, Role.app, decisionId=signed, value=1)) == {"mail": "accepted"}
    assert outcomes(track(service, Role.app, targetingKey="cyd", value=True, experiment="mail")) == {"mail": "duplicate"}
    assert outcomes(track(service, Role.app, decisionId=plain, value=0)) == {"mail": "accepted"}
    assert outcomes(track(service, Role.app, targetingKey="nobody", value=0, experiment="mail")) == {"mail": "unknown"}
    assert track(service, Role.app, decisionId=plain + ".0", value=0).status_code == 422
    assert track(service, Role.app, decisionId="0123456789abcdef-1", value=0).status_code == 404
    invalid = track(service, Role.app, decisionId=decision_id(service, "eve", Role.app), value=2).json()["experiments"]
    assert (invalid[0]["outcome"], invalid[0]["why"]) == ("invalid", "rewards of this model are 0 or 1")


def test_an_event_goes_to_the_experiments_that_measure_it_and_know_the_user(service: Served) -> None:
    _, narrow = service.service.keys.create("one shop", "app", experiments=["store", "mail"], by="test")
    for unit, flags in (("fay", ("shop", "store", "mail")), ("gus", ("shop",))):
        for flag in flags:
            decision_id(service, unit, flag=flag)
    lines = len(Experiment.open(service.service.database, "mail").audit())
    assert outcomes(track(service, narrow, targetingKey="fay", event="purchase", value=1)) == {"store": "accepted"}
    both = outcomes(track(service, Role.app, targetingKey="fay", event="purchase", value=1))
    assert both == {"shop": "accepted", "store": "duplicate"}
    assert outcomes(track(service, Role.app, targetingKey="gus", event="purchase", value=0)) == {"shop": "accepted"}
    assert outcomes(track(service, Role.app, targetingKey="nobody", event="purchase", value=1)) == {}
    assert outcomes(track(service, Role.app, targetingKey="gus", event="unheard of", value=1)) == {}
    assert track(service, Role.app, targetingKey="gus", event="unheard of", value=1, experiment="shop").status_code in (404, 422)
    assert len(Experiment.open(service.service.database, "mail").audit()) == lines


def test_exposures_are_told_once_where_they_count(service: Served) -> None:
    signed, plain = decision_id(service, "hal", flag="seen"), decision_id(service, "ida", Role.app, "seen")
    seen = [outcomes(track(service, Role.client, decisionId=signed, event="exposure")) for _ in range(2)]
    assert seen == [{"seen": "accepted"}, {"seen": "duplicate"}]
    assert outcomes(track(service, Role.app, targetingKey="ida", event="exposure", experiment="seen")) == {"seen": "accepted"}
    assert outcomes(track(service, Role.app, decisionId=plain, event="exposure")) == {"seen": "duplicate"}
    assert outcomes(track(service, Role.app, targetingKey="nobody", event="exposure", experiment="seen")) == {"seen": "unknown"}
    assert track(service, Role.client, decisionId=decision_id(service, "hal"), event="exposure").status_code == 422


@pytest.mark.parametrize(
    ("role", "event", "status"),
    [
        (Role.client, {"targetingKey": "ann", "value": 1, "experiment": "mail"}, 403),
        (Role.app, {"targetingKey": "ann", "value": 1}, 422),
        (Role.app, {"targetingKey": "ann", "event": "exposure"}, 422),
        (Role.app, {"targetingKey": "ann", "event": "exposure", "value": 3, "experiment": "seen"}, 422),
        (Role.app, {"targetingKey": "ann", "experiment": "mail"}, 422),
        (Role.app, {"value": 1}, 422),
        (Role.app, {"targetingKey": "ann", "decisionId": "0123456789abcdef-1", "value": 1}, 422),
        (Role.app, {"targetingKey": "ann", "value": 1, "experiment": "nowhere"}, 404),
        (Role.app, {"targetingKey": "ann", "value": "1", "experiment": "mail"}, 422),
        (Role.app, {"targetingKey": "ann", "value": 1, "experiment": "mail", "units": []}, 422),
        (Role.reader, {"targetingKey": "ann", "value": 1, "experiment": "mail"}, 403),
    ],
)
def test_what_cannot_be_told_is_refused_in_a_sentence(service: Served, role: Role, event: dict[str, Any], status: int) -> None:
    answer = track(service, role, **event)
    assert (answer.status_code, answer.json()["detail"][-1]) == (status, ".")
