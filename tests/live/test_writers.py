"""Writers of one SQLite file: they wait for each other, and nothing of anybody is lost."""

from __future__ import annotations

import threading
import time

import pytest

from blts.errors import StoreError
from blts.live import database, schema
from blts.live.database import Database


def version(c) -> int:
    return c.execute(schema.version.select()).scalar_one()


def test_writers_of_several_connections_lose_nothing(tmp_path):
    """Each reads a number and writes the next one; with a transaction that did not exclude others, some would write the same."""
    path = tmp_path / "blts.db"
    first, opened = Database(path), threading.Barrier(7)

    def work() -> None:
        own = Database(path, create=False)
        opened.wait(60)  # the number that is counted here is looked at when a database is opened
        for _ in range(15):
            with own.write() as c:
                number = version(c)
                time.sleep(0.0002)
                c.execute(schema.version.update().values(version=number + 1))
        own.close()

    running = [threading.Thread(target=work) for _ in range(6)]
    with first.write() as c:  # so that all of them wait at first
        for thread in running:
            thread.start()
        opened.wait(60)
        before = version(c)
    for thread in running:
        thread.join(120)
    with first.read() as c:
        assert version(c) == before + 6 * 15


def test_a_writer_that_waits_too_long_says_so_and_goes_on_later(tmp_path, monkeypatch):
    one, other = Database(tmp_path / "blts.db"), Database(tmp_path / "blts.db")
    monkeypatch.setattr(database, "PATIENCE", 0.02)
    with one.write(), pytest.raises(StoreError, match="database is locked"), other.write():
        pass
    monkeypatch.undo()
    with other.write() as c:
        assert c.exec_driver_sql("PRAGMA busy_timeout").scalar_one() == 1000 * database.PATIENCE
        c.execute(schema.version.update().values(version=7))
    with one.read() as c:
        assert version(c) == 7


def test_what_is_no_other_writer_is_not_waited_for(tmp_path):
    """A transaction inside a transaction would never get its turn."""
    one = Database(tmp_path / "blts.db")
    with one.engine.connect() as c:
        cursor = c.connection.cursor()
        cursor.execute("BEGIN")
        with pytest.raises(database.sqlite3.OperationalError, match="within a transaction"):
            database._begin_immediate(cursor)
