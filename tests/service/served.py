"""A service within the test's process: its application, a client for each role, and an experiment."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

from starlette.testclient import TestClient

from blts.live import Experiment, SharedSeed, jobs
from blts.live.database import Database
from blts.service.app import build
from blts.service.roles import Role
from blts.service.settings import Settings
from blts.service.state import Service

CONVERSIONS = {"name": "bernoulli", "a": 1.0, "b": 9.0}
MAIL = "/v1/experiments/mail"


def experiment_in(database: Database | str, name: str = "mail", **settings: Any) -> Experiment:
    """An experiment with three arms whose batches nobody ends; the shapes are those of all tests, so that they share programs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SharedSeed)
        options = {"sampler": "exact", "batching": "external", "seed": 3} | settings
        return Experiment.create(database, name, ["A", "B", "C"], CONVERSIONS, **options)


class Served:
    """A running application, and keys for it."""

    def __init__(self, service: Service, client: TestClient):
        self.service, self.client = service, client
        self.warmed: list[Any] = []
        """Experiments whose programs would be compiled."""
        service.warm_soon = self.warmed.append
        self.keys = {role: self.key(role) for role in Role}

    def key(self, role: Role, **options: Any) -> str:
        """A new key's text."""
        return self.service.keys.create(f"the {role}", role, **options, by="test")[1]

    def call(self, role: Role | str | None, method: str, path: str, **options: Any) -> Any:
        """A request with the key of a role, or with a key, or without any."""
        key = self.keys[role] if isinstance(role, Role) else role
        headers = options.pop("headers", {}) | ({} if key is None else {"Authorization": f"Bearer {key}"})
        return self.client.request(method, path, headers=headers, **options)

    def done(self, role: Role | str | None, method: str, path: str, status: int = 200, **options: Any) -> Any:
        """The same, for a request that must have a status; its answer."""
        answer = self.call(role, method, path, **options)
        assert answer.status_code == status, (method, path, answer.status_code, answer.text)
        return answer.json() if answer.content else None

    def refused(self, role: Role | str | None, method: str, path: str, status: int, **options: Any) -> str:
        """The same, for a request that must be refused; the sentence."""
        problem = self.done(role, method, path, status, **options)
        assert problem["status"] == status
        assert problem["type"].startswith("urn:blts:problem:")
        return problem["detail"]

    def work(self, name: str = "mail") -> None:
        """Run the jobs of an experiment, as a worker would."""
        experiment = Experiment.open(self.service.database, name)
        for job in jobs.unfinished(experiment):
            jobs.run(experiment, job)


@contextlib.contextmanager
def served(url: str = "sqlite://", settings: Settings | None = None) -> Iterator[Served]:
    """A service on a database, with one experiment, `mail`."""
    database = Database(url)
    experiment_in(database)
    service = Service(settings or Settings(db=url), database)

    async def ready() -> None:
        service.is_ready = True

    service.warm = ready  # compiling ahead, for all sizes of requests, takes longer than the tests
    with TestClient(build(service)) as client:
        yield Served(service, client)
