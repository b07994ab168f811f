"""Requests of many connections share transactions, and are answered as if each had come alone."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from blts.errors import ConfigError
from blts.live.database import Database
from blts.service.app import build
from blts.service.groups import Groups
from blts.service.roles import Role
from blts.service.settings import Settings
from blts.service.state import Service
from served import experiment_in, served

DECISIONS = "/v1/experiments/mail/decisions"


async def asked_at_once(service: Service, key: str, requests: int) -> list[dict[str, Any]]:
    """Single asks, all sent before any is answered."""
    transport = httpx2.ASGITransport(build(service))
    async with httpx2.AsyncClient(
        transport=transport, base_url="http://test", headers={"Authorization": f"Bearer {key}"}
    ) as client:
        bodies = [{"units": [f"unit {i}"]} if i % 2 else {} for i in range(requests)]
        answers = await asyncio.gather(*(client.post(DECISIONS, json=body) for body in bodies))
    return [answer.json()["decisions"][0] for answer in answers]


def test_decisions_of_a_group_are_those_of_single_asks(url: str) -> None:
    database = Database(url)
    mail, alone = experiment_in(database), experiment_in("sqlite://")
    service = Service(Settings(db=url), database)
    decided = asyncio.run(asked_at_once(service, service.keys.create("all", "app", by="test")[1], 120))
    decided.sort(key=lambda decision: int(decision["id"].rpartition("-")[2]))
    one_by_one = [alone.ask().decisions[0] for _ in decided]
    assert [(d["arm"], d["propensities"]) for d in decided] == [(d.arm, d.propensities) for d in one_by_one]
    with mail.database.read() as c:
        at = {r.at for r in c.exec_driver_sql("SELECT at FROM blts_decisions")}
    assert len(at) < 60, "asks that wait at the same time share transactions"
    assert mail.verify() == []


def test_nobody_waits_for_ever() -> None:
    def run(group: Sequence[int]) -> list[int | BaseException]:
        if 13 in group:
            raise OSError("the database is gone")
        return [ConfigError("odd") if number % 2 else number for number in group]

    async def all_of(numbers: Sequence[int]) -> list[Any]:
        groups: Groups[int, int] = Groups(run, ThreadPoolExecutor(1))
        return await asyncio.gather(*(groups.submit(number) for number in numbers), return_exceptions=True)

    assert [str(answer) for answer in asyncio.run(all_of([2, 3, 4]))] == ["2", "odd", "4"]
    assert {type(answer) for answer in asyncio.run(all_of([12, 13]))} == {OSError}


def test_a_database_that_is_gone_is_said_and_waited_for(postgres: Any) -> None:
    postgres.psql("DROP DATABASE IF EXISTS gone;")
    postgres.psql("CREATE DATABASE gone;")
    with served(postgres.get_uri("gone")) as service:
        before = service.call(Role.app, "POST", DECISIONS, json={"units": ["ann"]}).json()
        process = postgres.get_postmaster_info().process
        os.kill(process.pid, signal.SIGQUIT)
        process.wait(60)
        time.sleep(1.1)  # keys and units that were read a moment ago are still known
        refused = service.call(Role.app, "POST", DECISIONS, json={"units": ["bob"]})
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert "postgres" not in refused.text, "nobody outside needs to know where the database is"
        give_up = time.monotonic() + 300
        while time.monotonic() < give_up:
            try:
                postgres.ensure_postgres_running()
                break
            except (subprocess.SubprocessError, AssertionError):
                time.sleep(1.0)
        after = service.call(Role.app, "POST", DECISIONS, json={"units": ["ann", "bob"]})
        assert after.status_code == 200
        assert after.json()["decisions"][0] == before["decisions"][0]


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_health_needs_no_key(path: str) -> None:
    with served() as service:
        for _ in range(600):
            if service.call(None, "GET", path).status_code == 200:
                return
            time.sleep(0.1)
        raise AssertionError(path)
