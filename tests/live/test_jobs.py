"""Jobs are run once, by whoever has the lease, also after a worker that died; and they are no part of the ledger."""

from __future__ import annotations

import json
import threading

import pytest
import sqlalchemy as sa

from blts.errors import ConfigError, StoreError, UnknownName
from blts.live import Experiment, jobs, leases, schema
from blts.live.worker import LEASE, Worker
from experiments import Hand, created, made, rewarded


@pytest.fixture
def clock():
    return Hand()


def refreshes(experiment: Experiment) -> list[str]:
    """Who made them."""
    return [line["actor"] for line in experiment.audit() if line["what"] == "refresh"]


def test_jobs_are_run_by_the_worker(url, clock):
    experiment, worker = created(url, strict=False, clock=clock), Worker(url, clock=clock)
    experiment.tell(rewarded(experiment.ask(2)))
    refresh = jobs.submit(experiment, "refresh", {"force": True}, "ann")
    clock.now += 1
    check = jobs.submit(experiment, "verify", {}, "bob")
    clock.now += 1
    assert jobs.submit(experiment, "refresh", {"force": True}, "cid") == refresh  # one that waits is enough
    assert jobs.submit(experiment, "refresh", {}, "cid") != refresh
    waiting = jobs.find(experiment.database, refresh)
    assert waiting == jobs.Job(refresh, "mail", "refresh", {"force": True}, "waiting", None, "ann", 1000.0, None, None)
    clock.now += 1
    (done,) = worker.run_jobs()
    assert done.did == (
        "ann asked for a refresh: policy version 2 is in use.",
        "bob asked for a verification: everything is as it was written.",
        "cid asked for a refresh: batch 2 is still open after 0 decisions.",
    )
    ended = jobs.find(experiment.database, refresh)
    assert (ended.state, ended.result["version"], ended.began_at, ended.ended_at) == ("done", 2, clock.now, clock.now)
    assert jobs.find(experiment.database, check).result == []
    assert experiment.report(2)["policy"] == 2  # and the report is there
    assert worker.run_jobs() == []
    assert jobs.submit(experiment, "refresh", {"force": True}, "dan") != refresh  # the other has ended
    assert refreshes(experiment) == ["ann"]
    assert experiment.verify() == []


def test_jobs_are_run_in_the_rounds_too(tmp_path, clock):
    experiment = made(tmp_path, strict=False, clock=clock)
    jobs.submit(experiment, "verify", {}, "ann")
    (done,) = Worker(tmp_path / "blts.db", clock=clock).once()
    assert done.did == ("ann asked for a verification: everything is as it was written.",)


@pytest.mark.parametrize("written", [False, True])
def test_a_job_of_a_dead_worker_is_run_again_and_no_refresh_twice(url, clock, monkeypatch, written):
    experiment = created(url, strict=False, clock=clock)
    experiment.tell(rewarded(experiment.ask(2)))
    refresh = jobs.submit(experiment, "refresh", {"force": True}, "ann")
    dead, change = Worker(url, clock=clock), jobs._change
    clock.now += 5

    class Killed(BaseException):
        pass

    def killed(*arguments, **options):
        raise Killed

    def until_the_end(database, job, **values):
        if values["state"] != "running":
            raise Killed
        change(database, job, **values)

    with monkeypatch.context() as patch:
        if written:
            patch.setattr(jobs, "_change", until_the_end)
        else:
            patch.setattr(Experiment, "refresh", killed)
        with pytest.raises(Killed):
            dead.run_jobs()
    assert jobs.find(experiment.database, refresh).state == "running"
    assert len(refreshes(experiment)) == int(written)
    other = Worker(url, clock=clock)
    assert other.run_jobs() == []  # the lease is not over
    clock.now += LEASE + 1
    (done,) = other.run_jobs()
    assert done.did == ("ann asked for a refresh: policy version 2 is in use.",)
    assert refreshes(experiment) == ["ann"]
    found = jobs.find(experiment.database, refresh)
    assert (found.state, found.result["version"], found.result["in_use"], found.result["batch"]) == ("done", 2, True, 2)
    assert experiment.verify() == []


def test_without_looking_for_what_was_written_it_is_refreshed_twice(tmp_path, clock, monkeypatch):
    """The mutant of the test above."""
    monkeypatch.setattr(jobs, "_written", lambda experiment, job: None)
    experiment = made(tmp_path, strict=False, clock=clock)
    experiment.tell(rewarded(experiment.ask(2)))
    refresh = jobs.submit(experiment, "refresh", {"force": True}, "ann")
    jobs._change(experiment.database, refresh, state="running", began_at=clock.now)
    experiment.acting("ann").refresh(force=True)
    Worker(tmp_path / "blts.db", clock=clock).run_jobs()
    assert refreshes(experiment) == ["ann", "ann"]


def test_a_job_that_fails_says_why(tmp_path, clock, monkeypatch):
    experiment, worker = made(tmp_path, strict=False, clock=clock), Worker(tmp_path / "blts.db", clock=clock)

    def failing(error):
        def refresh(self, *, force=False, progress=None):
            raise error

        return refresh

    for error, why in ((StoreError("The disk is full."), "The disk is full."), (ValueError("θ"), "ValueError: θ")):
        job = jobs.submit(experiment, "refresh", {"force": True}, "ann")
        with monkeypatch.context() as patch:
            patch.setattr(Experiment, "refresh", failing(error))
            worker.run_jobs()
        found = jobs.find(experiment.database, job)
        assert found.state == "failed"
        assert why in found.result
        assert "\n" not in found.result


def test_jobs_of_an_experiment_that_cannot_be_opened_fail(tmp_path, clock):
    bad = made(tmp_path, "bad", clock=clock)
    job = jobs.submit(bad, "verify", {}, "ann")
    with bad.database.write() as c:
        c.exec_driver_sql("UPDATE blts_experiments SET spec = '{'")
    (done,) = Worker(tmp_path / "blts.db", clock=clock).run_jobs()
    found = jobs.find(bad.database, job)
    assert (found.state, found.result) == ("failed", done.problem)
    assert "stored specification" in found.result


def test_differences_are_the_result_of_a_verification(tmp_path, clock):
    experiment, worker = made(tmp_path, strict=False, clock=clock), Worker(tmp_path / "blts.db", clock=clock)
    experiment.ask(2)
    with experiment.database.write() as c:
        c.exec_driver_sql("DROP TRIGGER blts_audit_no_update")
        c.exec_driver_sql("UPDATE blts_audit SET actor = 'nobody'")
    job = jobs.submit(experiment, "verify", {}, "ann")
    worker.run_jobs()
    found = jobs.find(experiment.database, job)
    assert found.state == "done"
    assert found.result == experiment.verify() != []


def test_what_is_no_job_is_refused(tmp_path):
    experiment = made(tmp_path)
    with pytest.raises(UnknownName, match="kind of job"):
        jobs.submit(experiment, "stop", {}, "ann")
    for kind, detail in (
        ("refresh", {"hard": True}),
        ("refresh", {"force": "yes"}),
        ("verify", {"force": True}),
        ("refresh", None),
    ):
        with pytest.raises(ConfigError, match="can be told"):
            jobs.submit(experiment, kind, detail, "ann")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="actor"):
        jobs.submit(experiment, "verify", {}, "")
    for job in ("nobody", "", "\x00", "ü", None):
        assert jobs.find(experiment.database, job) is None  # type: ignore[arg-type]


def test_two_who_ask_at_once_get_one_job(url):
    experiments, found = [created(url) for _ in range(4)], []
    threads = [threading.Thread(target=lambda one=one: found.append(jobs.submit(one, "verify", {}, "ann"))) for one in experiments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == 4
    assert len(set(found)) == 1


def test_jobs_keys_and_secrets_are_no_part_of_the_ledger(tmp_path, clock):
    """`verify` has nothing to say of them, and they may be changed; a job that cannot be read is a sentence."""
    experiment = made(tmp_path, clock=clock)
    experiment.ask(2)
    job = jobs.submit(experiment, "verify", {}, "ann")
    key = {"id": "0" * 8, "hash": "", "role": "app", "name": "shop", "created_at": 0.0, "created_by": "ann"}
    with experiment.database.write() as c:
        c.execute(sa.insert(schema.keys).values(**key))
        c.execute(sa.insert(schema.secrets).values(name="pepper", value="x", at=0.0))
    assert experiment.verify() == []
    with experiment.database.write() as c:
        c.execute(sa.update(schema.jobs).values(detail="{", actor="nobody"))
        c.execute(sa.update(schema.keys).values(role="admin"))
        c.execute(sa.update(schema.secrets).values(value="y"))
    assert experiment.verify() == []
    with pytest.raises(StoreError, match="cannot be read"):
        jobs.find(experiment.database, job)
    with experiment.database.write() as c:
        for table in (schema.jobs, schema.keys, schema.secrets):
            c.execute(sa.delete(table))
    assert experiment.verify() == []


def test_a_lease_is_renewed_while_a_job_takes_long(tmp_path, clock):
    experiment, worker, other = made(tmp_path, clock=clock), *(Worker(tmp_path / "blts.db", clock=clock) for _ in range(2))
    assert worker._lease(experiment.id)
    renewed = threading.Event()

    def renew() -> None:
        clock.now += LEASE - 1
        assert worker._lease(experiment.id)
        if clock.now > 1000 + 3 * LEASE:
            renewed.set()

    with leases.renewed(renew, every=0.001):
        assert renewed.wait(60)
    assert not other._lease(experiment.id)
    clock.now += LEASE + 1
    assert other._lease(experiment.id)


def test_a_worker_looks_for_jobs_every_second(tmp_path, monkeypatch):
    made(tmp_path)
    worker, did = Worker(tmp_path / "blts.db"), []
    monkeypatch.setattr(worker, "once", lambda: did.append("round") or [])
    monkeypatch.setattr(worker, "run_jobs", lambda: did.append("jobs") or [])

    def wait(seconds: float) -> None:
        did.append(seconds)
        if len(did) > 12:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        worker.run(2.5, print, wait=wait)
    assert did == ["round", *([2.5 / 3, "jobs"] * 3), "round", *([2.5 / 3, "jobs"] * 2), 2.5 / 3]


def test_results_are_json(tmp_path, clock):
    experiment, worker = made(tmp_path, strict=False, clock=clock), Worker(tmp_path / "blts.db", clock=clock)
    experiment.tell(rewarded(experiment.ask(6)))
    job = jobs.submit(experiment, "refresh", {"force": False}, "ann")
    worker.run_jobs()
    json.dumps(jobs.find(experiment.database, job).result, allow_nan=False)
