"""What the tests of the pages share: experiments in a database, a service on it, and somebody who is signed in."""

from __future__ import annotations

import contextlib
import json
import pathlib
import random
import re
import threading
import time
import warnings
from collections.abc import Iterator
from typing import Any

import uvicorn
from starlette.testclient import TestClient

from blts.live import Experiment, SharedSeed, reports
from blts.live.database import Database
from blts.service.app import build
from blts.service.dashboard.facts import Facts
from blts.service.roles import Role
from blts.service.settings import Settings
from blts.service.state import Service

FIXTURES = pathlib.Path(__file__).parent / "fixtures"
CONVERSIONS = {"name": "bernoulli", "a": 1.0, "b": 9.0}
RATES = (0.1, 0.6, 0.15)
SCRIPT = "<script>window.hurt=1</script><img src=x onerror=window.hurt=2>"
TURNED = "cheap\u202e\u2066 txet"
LONG = "ä" * 200
HOSTILE = (f"{SCRIPT}'\"", TURNED, LONG)
REASON = f"{SCRIPT}{TURNED}" + "x" * 9_800
STORED = {"recommendations": ["books", "music", "games"], "pricing": ["9.99", "11.99", "13.99"]}
"""An experiment with contexts and one with revenue, whose numbers are in files."""
TABS = ("", "allocation", "estimates", "health", "feedback", "policies", "decisions", "audit", "connect")


def experiment_in(database: Database, name: str, arms: tuple[str, ...] = ("A", "B", "C"), **settings: Any) -> Experiment:
    """An experiment with three arms whose batches nobody ends; the shapes are those of all tests, so that they share programs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SharedSeed)
        options = {"sampler": "exact", "batching": "external", "seed": 3, "floor": 0.1} | settings
        return Experiment.create(database, name, arms, CONVERSIONS, actor="anna", **options)


def play(experiment: Experiment, batches: int = 3, each: int = 100) -> None:
    """Visitors who come and convert, and a report of every version."""
    chance = random.Random(1)
    rates = dict(zip(experiment.status()["arms"], RATES, strict=True))
    for batch in range(batches):
        asked = experiment.ask(units=[f"visitor-{batch}-{i}" for i in range(each)]).decisions
        experiment.tell([(d.id, float(chance.random() < rates[d.arm])) for d in asked[: each - 10]])
        experiment.refresh(force=True)
        reports.keep(experiment)


def fill(database: Database) -> None:
    """Four experiments: one with a winner, one that nobody asked yet, one that is over, and one whose texts are hostile."""
    play(experiment_in(database, "mail"))
    experiment_in(database, "fresh")
    over = experiment_in(database, "over")
    play(over, 1)
    over.stop(promote="B", reason="B is better")
    reports.keep(over)
    hostile = experiment_in(database, "hostile", HOSTILE)
    play(hostile, 1)
    hostile.acting(SCRIPT[:60]).pause(REASON)
    hostile.resume("again")


def service_on(database: Database, settings: Settings | None = None) -> Service:
    """A service that compiles nothing ahead."""
    service = Service(settings or Settings(), database)

    async def ready() -> None:
        service.is_ready = True

    service.warm = ready
    service.warm_soon = lambda opened: None
    return service


def facts_of(name: str) -> Facts:
    """What the pages of a stored experiment are made of."""
    given = json.loads((FIXTURES / f"{name}.json").read_text())
    return Facts(given["status"], given["report"], given["unit"], given["now"])


def add_stored(database: Database) -> None:
    """The stored experiments, as far as their pages need more than `facts_of` them."""
    features = {"age": [18, 80], "country": ["DE", "FR", "US"], "returning": "boolean"}
    Experiment.create(database, "recommendations", STORED["recommendations"], "logistic", batching="external", features=features)
    Experiment.create(database, "pricing", STORED["pricing"], "revenue", batching="external")


class Somebody:
    """A person who is signed in with a key of a role."""

    def __init__(self, app: TestClient, service: Service, role: Role, **options: Any):
        self.http, self.service = TestClient(app.app, follow_redirects=False), service
        self.key, text = service.keys.create(f"the {role}", role, by="test", **options)
        self.signed_in = self.http.post("/login", data={"key": text})

    def get(self, path: str) -> Any:
        return self.http.get(path)

    def token(self, path: str = "/") -> str:
        """What forms of a page carry."""
        found = re.search(r'name="token" value="([0-9a-f]+)"', self.get(path).text)
        assert found is not None, path
        return found[1]

    def post(self, path: str, **fields: Any) -> Any:
        """Send a form, with the token of this person unless another is given."""
        return self.http.post(path, data={"token": self.token()} | fields)

    def act(self, name: str, action: str, **fields: Any) -> Any:
        """Send the form of an action as its page has it now."""
        path = f"/experiments/{name}/actions/{action}"
        mark = re.search(r'name="mark" value="([^"]*)"', self.get(path).text)
        assert mark is not None
        return self.post(path, **({"mark": mark[1]} | fields))


@contextlib.contextmanager
def listening(service: Service) -> Iterator[str]:
    """A service on a free port of this machine; its address."""
    server = uvicorn.Server(uvicorn.Config(build(service), port=0, log_level="warning", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(20)
