"""Who may do what: every route × every role, with a key for all experiments, for this one, for another one, revoked, over, or none.

The table below says it once more, in words of its own: a route that is not in it fails.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import pytest
import sqlalchemy as sa

from blts.errors import UnknownName
from blts.live import schema
from blts.live.database import Database
from blts.service.keys import Keys
from blts.service.roles import Role
from blts.service.routes import ROUTES
from served import CONVERSIONS, Served, experiment_in, served

ANYBODY = "anybody"
EVALUATING = {"client", "app", "admin"}
TRAFFIC = {"app", "admin"}
LOOKING = {"reader", "operator", "admin"}
OPERATING = {"operator", "admin"}
ADMINISTERING = {"admin"}
X = "/v1/experiments/{experiment}"
WHY = {"reason": "a test"}


class Line(NamedTuple):
    who: Any
    body: Any = None
    status: int = 200
    headers: dict[str, str] = {}  # noqa: RUF012


TABLE: dict[str, Line] = {
    f"POST {X}/decisions": Line(TRAFFIC, {"n": 1}),
    f"POST {X}/rewards": Line(TRAFFIC, {"rewards": [{"unit": "nobody", "reward": 1}]}),
    f"POST {X}/rewards/aggregate": Line(TRAFFIC, {"arm": "C", "count": 1, "total": 1}, headers={"Idempotency-Key": "same"}),
    f"POST {X}/exposures": Line(TRAFFIC, {"units": ["nobody"]}),
    "POST /ofrep/v1/evaluate/flags": Line(EVALUATING, {"context": {"targetingKey": "ann"}}),
    "POST /ofrep/v1/evaluate/flags/{experiment}": Line(EVALUATING, {"context": {"targetingKey": "ann"}}),
    "POST /v1/track": Line(TRAFFIC, {"targetingKey": "ann", "value": 1, "experiment": "{experiment}"}),  # client: by signed ids
    "GET /v1/experiments": Line(LOOKING),
    "POST /v1/experiments": Line(
        ADMINISTERING,
        {"name": "{experiment}", "specification": {"arms": ["A", "B", "C"], "model": CONVERSIONS, "seed": 9}},
        201,
    ),
    f"GET {X}": Line(LOOKING),
    f"GET {X}/status": Line(LOOKING),
    f"GET {X}/report": Line(LOOKING),
    f"GET {X}/export": Line(LOOKING),
    f"GET {X}/decisions": Line(LOOKING),
    f"GET {X}/decisions/{{decision}}": Line(LOOKING),
    f"POST {X}/decisions/find": Line(LOOKING, {"unit": "ann"}),
    f"GET {X}/policies": Line(LOOKING),
    f"GET {X}/policies/{{version}}": Line(LOOKING),
    f"GET {X}/audit": Line(LOOKING),
    f"POST {X}/refresh": Line(OPERATING, {}, 202),
    f"POST {X}/verify": Line(OPERATING, {}, 202),
    "GET /v1/jobs/{job}": Line(LOOKING),
    f"POST {X}/pause": Line(OPERATING, WHY, 204),
    f"POST {X}/resume": Line(OPERATING, WHY, 204),
    f"POST {X}/corrections": Line(OPERATING, {"decision_id": "{decision}", "reward": 1} | WHY),
    f"POST {X}/cancellations": Line(OPERATING, {"decision_ids": ["{other}"]} | WHY),
    f"POST {X}/arms": Line(OPERATING, {"label": "{new}"} | WHY),
    f"POST {X}/arms/{{arm}}/retire": Line(OPERATING, WHY),  # those that the line above has added
    f"POST {X}/stop": Line(ADMINISTERING, WHY),
    "GET /v1/keys": Line(ADMINISTERING),
    "POST /v1/keys": Line(ADMINISTERING, {"name": "x", "role": "client", "experiments": ["{experiment}"]}, 201),
    "POST /v1/keys/{key}/revoke": Line(ADMINISTERING),
    "GET /v1/events": Line(LOOKING),
    "GET /metrics": Line(LOOKING),
    "GET /healthz": Line(ANYBODY),
    "GET /readyz": Line(ANYBODY),
    "GET /openapi.json": Line(ANYBODY),
}
"""From least to most harm: what stops an experiment comes after what needs it running."""


class World:
    """Two experiments with everything that a path can name, and keys of every kind."""

    def __init__(self, service: Served):
        self.service = service
        self.names: dict[str, dict[str, str]] = {}
        for name in ("mine", "yours"):
            experiment = experiment_in(service.service.database, name, exposure="explicit")
            ids = [d.id for d in experiment.ask(units=["ann", "bob"]).decisions]
            experiment.ask(40)
            experiment.expose([f"{ids[0].partition('-')[0]}-{i}" for i in range(1, 43)])
            job = service.done(Role.operator, "POST", f"/v1/experiments/{name}/verify", 202)["id"]
            self.names[name] = {"experiment": name, "decision": ids[0], "other": ids[1], "version": "1", "job": job}
        self.names["nothing"] = self.names["yours"] | {"experiment": "nothing", "job": "0" * 24}
        self.whole = {role: service.key(role) for role in Role}
        self.own = {role: service.key(role, experiments=["mine"]) for role in Role}
        self.revoked = {role: service.key(role) for role in Role}
        self.over = {role: service.key(role) for role in Role}
        for key in self.revoked.values():
            service.service.keys.revoke(key.split("_")[1], by="test")
        with service.service.database.write() as c:
            over = [key.split("_")[1] for key in self.over.values()]
            c.execute(sa.update(schema.keys).where(schema.keys.c.id.in_(over)).values(expires_at=1.0))

    def status(self, route: str, line: Line, key: str | None, experiment: str, arm: str = "A") -> int:
        """What a caller is answered who asks for an experiment; `arm` is one to add, and then to retire."""
        method, path = route.split(" ")
        victim = "00000000"
        if "{key}" in path and experiment != "nothing":
            victim = self.service.key(Role.client, experiments=[experiment]).split("_")[1]
        values = self.names[experiment] | {"arm": arm, "new": arm, "key": victim}
        for name, value in values.items():
            path = path.replace(f"{{{name}}}", value)
        method = "HEAD" if path == "/v1/events" else method  # which has no end
        return self.service.call(key, method, path, json=filled(line.body, values), headers=dict(line.headers)).status_code


def filled(body: Any, values: dict[str, str]) -> Any:
    if isinstance(body, dict):
        return {name: filled(value, values) for name, value in body.items()}
    if isinstance(body, list):
        return [filled(value, values) for value in body]
    return values.get(body[1:-1], body) if isinstance(body, str) and body.startswith("{") else body


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with served() as service:
        yield World(service)


def test_the_table_has_every_route() -> None:
    assert set(TABLE) == {f"{route.method} {route.path.replace(':path}', '}')}" for route in ROUTES}


def scoped(route: str) -> bool:
    """Whether a route is about one experiment, by its path or by its body."""
    return "{experiment}" in route or any(
        part in route for part in ("{job}", "{key}", "track", "POST /v1/keys", "POST /v1/experiments")
    )


def expected(route: str, line: Line, role: Role, whose: str) -> int:
    """What the table says of a good key."""
    if line.who == ANYBODY:
        return line.status
    if role not in line.who:
        return 403
    if whose == "whole" or (whose == "mine" and route != "GET /metrics"):
        return line.status
    if route == "GET /metrics" or route in ("POST /v1/keys", "POST /v1/experiments"):
        return 403  # what a key is for cannot be widened, and is known to whoever has it
    return 404 if scoped(route) else line.status


@pytest.mark.parametrize("route", TABLE)
def test_every_role(world: World, route: str) -> None:
    line = TABLE[route]
    for key in (None, "nonsense", "blts_00000000_" + "A" * 43, *world.revoked.values(), *world.over.values()):
        assert world.status(route, line, key, "mine") == (line.status if line.who == ANYBODY else 401)
    for role in Role:
        for whose, keys, experiment in (
            ("foreign", world.own, "yours"),
            ("foreign", world.own, "nothing"),
            ("mine", world.own, "mine"),
            ("whole", world.whole, "yours"),
        ):
            found = world.status(route, line, keys[role], experiment, arm=f"for {role}")
            wanted = expected(route, line, role, whose)
            if wanted == line.status and line.who != ANYBODY and found == 409:
                assert route in ("POST /v1/experiments", f"POST {X}/stop"), (role, whose)  # let in, and done before
                continue
            assert found == wanted, (route, role, whose, experiment)


def test_foreign_and_missing_experiments_read_the_same(world: World) -> None:
    sentences = []
    for name in ("yours", "nothing"):
        problem = world.service.call(world.own[Role.reader], "GET", f"/v1/experiments/{name}").json()
        sentences.append(problem["detail"].replace(name, "…"))
        assert "mine" not in problem["detail"]
    assert sentences[0] == sentences[1]


def test_texts_that_are_no_ids_of_keys_are_unknown(url: str) -> None:
    with contextlib.closing(Database(url)) as database:
        keys = Keys(database)
        for text in ("\x00", "0" * 8, "0" * 8 + "\n", "é", ""):
            assert keys.good(text) is None
            with pytest.raises(UnknownName):
                keys.revoke(text, by="test")


def test_others_are_answered_while_a_key_is_read(monkeypatch: Any) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow(keys: Keys, key_id: str) -> None:
        begun.set()
        assert go_on.wait(60)

    with served() as service, ThreadPoolExecutor(2) as pool:
        try:
            with monkeypatch.context() as patch:
                patch.setattr(Keys, "_look", slow)
                reading = pool.submit(service.call, f"blts_{'0' * 8}_{'0' * 43}", "GET", "/v1/experiments")
                assert begun.wait(60)
                assert pool.submit(service.call, None, "GET", "/healthz").result(20).status_code == 200
                go_on.set()
                assert reading.result(60).status_code == 401
        finally:
            go_on.set()
