"""A database that is killed, a disk that is full, a clock that is set back: what was answered is stored, and the rest is not."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import threading
import time

import pytest
import sqlalchemy as sa

from blts.errors import StoreError
from blts.live import Experiment
from blts.live.export import table_of
from blts.live.worker import EXTERNAL_SECONDS, Worker
from experiments import Hand, created, made, rewarded


def work(experiment: Experiment, log: dict[str, float]) -> None:
    """Ask and tell until the database fails; write down what was answered."""
    while True:
        answer = experiment.ask(3)
        log |= {d.id: float("nan") for d in answer.decisions}
        rows = [(d.id, float(len(log) + i)) for i, d in enumerate(answer.decisions)]
        experiment.tell(rows)
        log |= dict(rows)


def work_until(experiment: Experiment, log: dict[str, float], said: list[BaseException]) -> None:
    """Work until there is an error, and write that down too."""
    try:
        work(experiment, log)
    except BaseException as error:
        said.append(error)


def check(experiment: Experiment, log: dict[str, float], *, at_once: int = 3) -> None:
    """All that was answered is stored once, and of the operation that failed all or nothing."""
    table = table_of(experiment)
    stored = dict(zip(table.ids, table.rewards.tolist(), strict=True))
    assert set(log) <= set(stored)
    assert len(stored) - len(log) in (0, at_once)
    assert all(stored[i] == reward for i, reward in log.items() if reward == reward)
    told = [i for i in log if log[i] != log[i] and stored[i] == stored[i]]
    assert len(told) in (0, at_once)
    assert experiment.verify() == []
    log |= stored


def killed(server) -> None:
    """End a PostgreSQL server without giving it time to finish anything, and start it again."""
    process = server.get_postmaster_info().process
    os.kill(process.pid, signal.SIGQUIT)
    process.wait(60)
    give_up = time.monotonic() + 300.0
    while time.monotonic() < give_up:  # on a busy disk it may take much longer than pgserver waits
        try:
            server.ensure_postgres_running()
        except (subprocess.SubprocessError, AssertionError):
            time.sleep(1.0)
        else:
            return
    raise AssertionError("PostgreSQL does not start again")


def test_a_database_server_that_is_killed_loses_nothing_that_was_answered(postgres):
    postgres.psql("DROP DATABASE IF EXISTS killed;")
    postgres.psql("CREATE DATABASE killed;")
    url, chance, log = postgres.get_uri("killed"), random.Random(0), {}
    experiment = created(url, batching="external", strict=False)
    experiment.ask(3)
    check(experiment, log)
    for _ in range(4):
        said, before = [], len(log)
        thread = threading.Thread(target=work_until, args=(experiment, log, said), daemon=True)
        thread.start()
        while len(log) == before:
            time.sleep(0.001)
        time.sleep(chance.uniform(0.0, 0.1))
        killed(postgres)
        thread.join(30)
        assert [type(error) for error in said] == [StoreError], said
        assert "\n" not in str(said[0])
        check(experiment, log)  # the same object goes on, with new connections
    assert len(log) > 12


@pytest.mark.parametrize("what", ["pages", "file"])
def test_a_full_disk_leaves_nothing_half_recorded(tmp_path, what):
    experiment, log = made(tmp_path, batching="external", strict=False), {}
    for _ in range(3):
        answer = experiment.ask(200)  # enough for several pages, and everything is compiled
        rows = [(d.id, 1.5) for d in answer.decisions]
        experiment.tell(rows)
        log |= dict(rows)
    experiment.refresh()
    with full(experiment, what):
        for attempt in (lambda: experiment.ask(2000), lambda: experiment.refresh(force=True)):
            with pytest.raises(StoreError, match=r"full|I/O error") as error:
                attempt()
            assert "\n" not in str(error.value)
    check(experiment, log, at_once=0)
    assert experiment.status()["policies"] == 2
    assert len(experiment.ask(2000).decisions) == 2000
    assert experiment.verify() == []


class full:
    """A disk without room for more, for as long as this lasts."""

    def __init__(self, experiment: Experiment, what: str):
        self.engine, self.what = experiment.database.engine, what
        self.limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def __enter__(self) -> None:
        if self.what == "pages":
            with self.engine.connect() as c:
                self.pages = c.exec_driver_sql("PRAGMA page_count").scalar_one()
            sa.event.listen(self.engine, "checkout", self._limit)
        else:
            self.engine.dispose()  # which empties the write-ahead log
            resource.setrlimit(resource.RLIMIT_FSIZE, (8192, self.limits[1]))

    def _limit(self, connection, *_) -> None:
        connection.execute(f"PRAGMA max_page_count = {self.pages}")

    def __exit__(self, *error: object) -> None:
        if self.what == "pages":
            sa.event.remove(self.engine, "checkout", self._limit)
            self.engine.dispose()
        else:
            resource.setrlimit(resource.RLIMIT_FSIZE, self.limits)


def test_a_clock_that_is_set_back_does_not_stop_the_worker(tmp_path):
    """It refreshes as if it were time, once, and keeps its cadence from then on."""
    clock = Hand()
    clock.now = 1e9
    outer = made(tmp_path, "outer", strict=False, batching="external", clock=clock)
    hourly = made(tmp_path, "hourly", strict=False, batching="external", refresh_seconds=3600.0, clock=clock)
    worker = Worker(tmp_path / "blts.db", clock=clock)
    for experiment in (outer, hourly):
        experiment.tell(rewarded(experiment.ask(3)))
    assert worker.once() == []  # they were created just now
    clock.now -= 86400.0
    assert [done.experiment for done in worker.once()] == ["outer", "hourly"]
    for experiment in (outer, hourly):
        experiment.tell(rewarded(experiment.ask(3)))
    assert worker.once() == []
    clock.now += EXTERNAL_SECONDS
    assert [done.experiment for done in worker.once()] == ["outer"]
    clock.now += 3600.0
    assert [done.experiment for done in worker.once()] == ["hourly"]
    for experiment in (outer, hourly):
        assert experiment.verify() == []
