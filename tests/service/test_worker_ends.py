"""A worker that is ended gives its leases back, so that the jobs of the next one need not wait until they are over."""

from __future__ import annotations

import contextlib
import pathlib
import subprocess
import sys
import time

import pytest
import sqlalchemy as sa

from blts.live import schema
from blts.live.database import Database
from served import experiment_in


@pytest.mark.parametrize("way", ["its service is gone", "SIGTERM"])
def test_a_worker_that_ends_leaves_no_lease(tmp_path: pathlib.Path, way: str) -> None:
    path = str(tmp_path / "blts.db")
    with contextlib.closing(Database(path)) as database:
        experiment_in(database)

        def leases() -> int:
            with database.read() as c:
                return c.execute(sa.select(sa.func.count()).select_from(schema.leases)).scalar_one()

        command = [sys.executable, "-m", "blts", "worker", "--every", "0.1", "--while-stdin-is-open", "--db", path]
        worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        assert worker.stdin is not None
        try:
            until = time.monotonic() + 120
            while not leases() and time.monotonic() < until:
                time.sleep(0.05)
            assert leases() == 1
            if way == "SIGTERM":
                worker.terminate()
            else:
                worker.stdin.close()
            assert worker.wait(60) == 0
            assert leases() == 0
        finally:
            worker.stdin.close()
            worker.kill()
            worker.wait()
