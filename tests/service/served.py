"""A service within the test's process: its application, a client for each role, and an experiment."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

from starlette.testclient import TestClient

from blts.live import Experiment, SharedSeed
from blts.live.database import Database
from blts.service.app import build
from blts.service.roles import Role
from blts.service.settings import Settings
from blts.service.state import Service

CONVERSIONS = {"name": "bernoulli", "a": 1.0, "b": 9.0}


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
        self.keys = {role: service.keys.create(f"the {role}", role, by="test")[1] for role in Role}

    def call(self, role: Role | str | None, method: str, path: str, **options: Any) -> Any:
        """A request with the key of a role, or with a key, or without any."""
        key = self.keys[role] if isinstance(role, Role) else role
        headers = options.pop("headers", {}) | ({} if key is None else {"Authorization": f"Bearer {key}"})
        return self.client.request(method, path, headers=headers, **options)


@contextlib.contextmanager
def served(url: str = "sqlite://", settings: Settings | None = None) -> Iterator[Served]:
    """A service on a database, with one experiment, `mail`."""
    database = Database(url)
    experiment_in(database)
    service = Service(settings or Settings(db=url), database)
    with TestClient(build(service)) as client:
        yield Served(service, client)
