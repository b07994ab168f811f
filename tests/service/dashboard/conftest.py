"""Fixtures of several files."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from blts.live.database import Database
from blts.service.app import build
from blts.service.dashboard import doors
from houses import fill, service_on


@pytest.fixture(scope="session", autouse=True)
def many_logins():
    """Let tests sign in as often as they like."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(doors, "LOGINS", 1e6)
        yield


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """A service with a few experiments."""
    database = Database(str(tmp_path_factory.mktemp("pages") / "pages.db"))
    fill(database)
    return service_on(database)


@pytest.fixture(scope="module")
def app(service):
    """Its application."""
    with TestClient(build(service)) as client:
        yield client
