"""What readers see: experiments, pages of the ledger, reports, exports, events and numbers."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from blts.live import reports, schema
from blts.live.metrics.definition import Metric
from blts.service import events as events_module
from blts.service.api import experiments
from blts.service.bodies import Listing, Specification
from blts.service.paging import paged
from blts.service.roles import Role
from served import MAIL, Served, experiment_in, served

READER = Role.reader


@pytest.fixture(scope="module")
def service() -> Iterator[Served]:
    with served() as found:
        experiment_in(found.service.database, "site")
        asked = found.done(Role.app, "POST", f"{MAIL}/decisions", json={"units": [f"unit {i}" for i in range(25)]})["decisions"]
        rows = [{"decision_id": d["id"], "reward": d["arm"] == "B"} for d in asked[:20]]
        found.done(Role.app, "POST", f"{MAIL}/rewards", json={"rewards": rows})
        yield found


def test_experiments_are_listed_in_pages(service: Served) -> None:
    first = service.done(READER, "GET", "/v1/experiments?limit=1")
    assert [row["name"] for row in first["rows"]] == ["mail"]
    assert first["rows"][0]["decisions"] == 25
    second = service.done(READER, "GET", f"/v1/experiments?limit=1&after={first['next']}")
    assert ([row["name"] for row in second["rows"]], second["next"]) == (["site"], None)
    scoped = service.key(READER, experiments=["site"])
    assert [row["name"] for row in service.done(scoped, "GET", "/v1/experiments")["rows"]] == ["site"]
    assert "next" in service.refused(scoped, "GET", "/v1/experiments?after=mail", 422)  # no more than of one that is not there


def test_pages_of_a_list_are_the_list() -> None:
    rows = list("abcdefg")
    for limit in range(1, 9):
        found, after = [], None
        for _ in rows:
            some, after = paged(rows, str, Listing(after, limit))
            found += some
            if after is None:
                break
        assert found == rows


def test_an_experiment_has_an_etag_that_only_people_change(service: Served) -> None:
    answer = service.call(READER, "GET", MAIL)
    found, tag = answer.json(), answer.headers["ETag"]
    assert [arm["label"] for arm in found["arms"]] == ["A", "B", "C"]
    assert found["specification"]["model"]["name"] == "bernoulli"
    assert (found["paused"], found["stopped"]) == (False, False)
    service.done(Role.app, "POST", f"{MAIL}/decisions", json={"units": ["unit 0"]})
    same = service.call(READER, "GET", MAIL, headers={"If-None-Match": f'W/"x", {tag}'})
    assert (same.status_code, same.content, same.headers["ETag"]) == (304, b"", tag)
    assert service.call(READER, "GET", MAIL, headers={"If-None-Match": '"other"'}).status_code == 200


def test_status_and_report(service: Served) -> None:
    experiment = experiment_in(service.service.database)
    assert service.done(READER, "GET", f"{MAIL}/status") == json.loads(json.dumps(experiment.status()))
    report = service.done(READER, "GET", f"{MAIL}/report?fresh=true")
    assert (report["decisions"], report["rewards"]) == (25, 20)
    assert "stored" in service.refused(READER, "GET", f"{MAIL}/report?version=1", 422)
    reports.keep(experiment)
    assert service.done(READER, "GET", f"{MAIL}/report?version=1")["decisions"] == 25


def test_a_stored_report_that_was_changed_is_said_to_be(service: Served) -> None:
    mail, table = experiment_in(service.service.database), schema.reports
    with service.service.database.write() as c:
        (before,) = c.execute(sa.select(table.c.report).where(table.c.experiment == mail.id)).scalars()
        c.execute(sa.update(table).values(report="{}"))
    said = service.refused(READER, "GET", f"{MAIL}/report?version=1", 500)
    assert said == (
        "The database was changed outside of blts: the stored report of version 1 is not as it was written; "
        "see: blts experiment verify mail."
    )
    with service.service.database.write() as c:
        c.execute(sa.update(table).values(report=before))


def every_page(service: Served, path: str, cursor: str, first: str, limit: int) -> list[dict[str, Any]]:
    rows, query = [], first
    for _ in range(100):
        page = service.done(READER, "GET", f"{path}?limit={limit}{query}")
        assert len(page["rows"]) <= limit
        rows += page["rows"]
        if page["next"] is None:
            return rows
        query = f"&{cursor}={page['next']}"
    raise AssertionError("pages without end")


@pytest.mark.parametrize(("what", "number"), [("decisions", "t"), ("policies", "version"), ("audit", "position")])
def test_pages_of_the_ledger_are_all_of_it(service: Served, what: str, number: str) -> None:
    up = every_page(service, f"{MAIL}/{what}", "after", "&after=0", 7)
    down = every_page(service, f"{MAIL}/{what}", "before", "", 4)
    assert up == down[::-1]
    assert up
    assert [row[number] for row in up] == sorted({row[number] for row in up})
    assert "not both" in service.refused(READER, "GET", f"{MAIL}/{what}?after=1&before=3", 422)
    for query in ("limit=0", "limit=1001", "limit=x", "after=-1", f"after={2**63}", "limit=1&limit=2", "other=1"):
        service.refused(READER, "GET", f"{MAIL}/{what}?{query}", 422)


def test_the_audit_log_names_who_did_it(service: Served) -> None:
    (line,) = [row for row in service.done(READER, "GET", f"{MAIL}/audit")["rows"] if row["what"] == "tell"]
    key = service.keys[Role.app].split("_")[1]
    assert line["actor"] == f"the app ({key})"


def test_a_decision_by_id_and_by_unit(service: Served) -> None:
    by_unit = service.done(READER, "POST", f"{MAIL}/decisions/find", json={"unit": "unit 3"})
    by_id = service.done(READER, "GET", f"{MAIL}/decisions/{by_unit['id']}")
    assert by_id == by_unit
    assert (by_id["t"], len(by_id["rewards"]), by_id["status"]) == (4, 1, "told")
    service.refused(READER, "POST", f"{MAIL}/decisions/find", 404, json={"unit": "nobody"})
    for other in ("x", by_id["id"][:-1] + "99", "%00", "find"):
        status = 405 if other == "find" else 404
        service.refused(READER, "GET", f"{MAIL}/decisions/{other}", status)


def test_a_policy_version(service: Served) -> None:
    assert service.done(READER, "GET", f"{MAIL}/policies/1")["kind"] == "start"
    for version in ("0", "2", "-1", "x", "1.0", "9" * 40, "１"):
        service.refused(READER, "GET", f"{MAIL}/policies/{version}", 404)


def test_the_export_is_the_file_that_an_experiment_writes(service: Served, tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(experiments, "CHUNK", 100)  # in many pieces
    answer = service.call(READER, "GET", f"{MAIL}/export")
    experiment_in(service.service.database).export(tmp_path / "mail.csv")
    assert answer.content == (tmp_path / "mail.csv").read_bytes()
    assert len(list(csv.DictReader(io.StringIO(answer.text)))) == 25
    assert answer.headers["content-type"].startswith("text/csv")
    assert answer.headers["content-disposition"] == "attachment; filename*=utf-8''mail.csv"


def test_head_is_get_without_a_body(service: Served) -> None:
    for path in ("/healthz", MAIL, f"{MAIL}/audit", f"{MAIL}/export", "/v1/events", f"{MAIL}/nothing", "/metrics"):
        head = service.call(READER, "HEAD", path)
        assert head.content == b"", path
        if path not in ("/v1/events", f"{MAIL}/export", "/metrics"):
            get = service.call(READER, "GET", path)
            assert head.status_code == get.status_code, path
            assert head.headers["content-length"] == get.headers["content-length"], path


def test_the_specification_of_a_body_has_the_fields_of_a_spec() -> None:
    import dataclasses

    from blts.live import Spec

    of_old_ones = {"floors_first", "shared_noise"}
    assert set(Specification.__struct_fields__) == {field.name for field in dataclasses.fields(Spec)} - of_old_ones
    assert "model" in Metric._fields  # which `create` checks to be registered


def test_metrics_are_prometheus_text(service: Served) -> None:
    service.call(READER, "GET", "/healthz")
    text = service.call(READER, "GET", "/metrics").text
    numbers = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert numbers["blts_decisions_total"] == "25"
    assert numbers["blts_reward_entries_total"] == "20"
    assert numbers['blts_jobs{state="waiting"}'] == "0"
    (alive,) = [name for name in numbers if 'route="GET /healthz",status="200"' in name]
    assert int(numbers[alive]) >= 1
    ends = [int(value) for name, value in numbers.items() if "bucket" in name and "GET /healthz" in name]
    assert ends == sorted(ends)
    (count,) = [
        value for name, value in numbers.items() if name.startswith("blts_request_seconds_count") and "GET /healthz" in name
    ]
    assert int(count) == ends[-1]
    assert "mail" not in text
    assert "all" in service.refused(service.key(READER, experiments=["mail"]), "GET", "/metrics", 403)


class Listener:
    """Reads a stream of events in the loop of the service."""

    def __init__(self, service: Served, key: str):
        self.found: list[dict[str, Any]] = []
        self.beats = 0
        stored = service.service.keys.known(key)
        assert stored is not None
        self._hub, self._key, self._keys = service.service.events, stored, service.service.keys
        assert service.client.portal is not None
        self._future = service.client.portal.start_task_soon(self._read)

    async def _read(self) -> None:
        stream = await self._hub.listen(self._key.sees, lambda: self._keys.good(self._key.id) is not None)
        async for piece in stream:
            for block in piece.decode().split("\n\n"):
                if block.startswith("event: experiment\ndata: "):
                    self.found.append(json.loads(block.partition("data: ")[2]))
                elif block:
                    self.beats += 1

    def wait(self, condition: Any) -> None:
        for _ in range(200):
            if condition(self):
                return
            time.sleep(0.05)
        raise AssertionError((self.found, self.beats))

    def ended(self) -> bool:
        return self._future.done()


def test_listeners_hear_of_their_experiments_until_their_key_ends(service: Served, monkeypatch: Any) -> None:
    monkeypatch.setattr(events_module, "SECONDS", 0.05)
    monkeypatch.setattr(events_module, "HEARTBEAT", 0.1)
    every = Listener(service, service.keys[READER])
    scoped_key = service.key(READER, experiments=["site"])
    scoped = Listener(service, scoped_key)
    every.wait(lambda it: [row["name"] for row in it.found] == ["mail", "site"])
    scoped.wait(lambda it: [row["name"] for row in it.found] == ["site"])
    service.done(Role.app, "POST", f"{MAIL}/decisions", json={"units": ["new"]})
    every.wait(lambda it: len(it.found) == 3)
    assert (every.found[2]["name"], every.found[2]["decisions"]) == ("mail", 26)
    scoped.wait(lambda it: it.beats >= 3)
    assert len(scoped.found) == 1
    service.service.keys.revoke(scoped_key.split("_")[1], by="test")
    scoped.wait(lambda it: it.ended())
    assert not every.ended()
    every._future.cancel()
    every.wait(lambda it: it._hub._poller is None)


def test_too_many_listeners_are_told_so(service: Served, monkeypatch: Any) -> None:
    monkeypatch.setattr(events_module, "LISTENERS", 0)
    answer = service.call(READER, "GET", "/v1/events")
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "60")


def test_listeners_leave_when_the_service_ends() -> None:
    async def listen() -> int:
        with served() as own:
            hub = events_module.Events(own.service.database, asyncio.to_thread)
            stream = await hub.listen(lambda name: True, lambda: True)
            await anext(stream)
            hub.close()
            return len([piece async for piece in stream])

    assert asyncio.run(asyncio.wait_for(listen(), 60)) == 0


def test_a_service_is_ready_when_programs_are_compiled(service: Served, monkeypatch: Any) -> None:
    assert service.done(None, "GET", "/readyz") == {"status": "ready"}
    monkeypatch.setattr(service.service, "is_ready", False)
    answer = service.call(None, "GET", "/readyz")
    assert (answer.status_code, answer.headers["Retry-After"], answer.json()["type"]) == (503, "1", "urn:blts:problem:not-ready")
    assert service.done(None, "GET", "/healthz") == {"status": "alive"}
