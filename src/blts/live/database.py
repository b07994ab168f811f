"""Connections and transactions: every change is one transaction, and changes of one experiment wait for each other.

SQLite: write-ahead log, full synchronisation, BEGIN IMMEDIATE. PostgreSQL: a lock on the experiment's row. Either way a
transaction that has begun sees the experiment as it is, and nobody else changes it before the end.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import random
import sqlite3
import threading
import time
import types
import weakref
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy import event, exc
from sqlalchemy.pool import StaticPool

from ..errors import StoreError, UnknownName
from . import schema
from .damage import Damaged

DEFAULT_URL = "sqlite:///blts.db"
VARIABLE = "BLTS_DB"
PATIENCE = 60  # seconds that SQLite waits for another writer
LONGEST_NAP, SHORTEST_NAP = 0.004, 0.0005  # seconds between two tries to be the next writer of SQLite, at first and later
WRITES = "blts_writes"
CHUNK = 10_000  # decisions looked up in one statement
LOOKED_UP = 500  # values in one statement of SQLite
LONGEST = 4096  # characters of a URL


def url_of(given: str | os.PathLike[str] | None) -> sa.URL:
    """A database URL from a URL, a path, or nothing: then the variable BLTS_DB, or a file in the working folder."""
    try:
        text = os.fsdecode(given) if given is not None else os.environ.get(VARIABLE) or DEFAULT_URL
    except TypeError:
        raise StoreError(f"{given!r} is not a database URL; give sqlite:///file.db or postgresql://user@host/name.") from None
    if "\x00" in text or not storable(text) or len(text) > LONGEST:
        raise StoreError(f"{text[:100]!r} is not a database URL: it has NUL or lone surrogates, or more than {LONGEST} characters.")
    if "://" not in text:
        text = f"sqlite:///{pathlib.Path(text)}"
    for name in ("postgres://", "postgresql://"):
        if text.startswith(name):
            text = "postgresql+psycopg://" + text.removeprefix(name)
    try:
        url = sa.make_url(text)
    except (exc.ArgumentError, ValueError):
        raise StoreError(f"{text!r} is not a database URL; give sqlite:///file.db or postgresql://user@host/name.") from None
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise StoreError(f"Experiments are stored in SQLite or PostgreSQL, not in {url.get_backend_name()}.")
    return url


def storable(text: str) -> bool:
    """Whether text has no lone surrogates, which no database holds."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


DbRow: TypeAlias = types.SimpleNamespace
"""A row by its column names, some of which are methods of SQLAlchemy's own rows."""


def record(row: sa.Row) -> DbRow:
    return DbRow(**row._mapping)


# Statements that every request makes are built once: SQLAlchemy takes longer to build one than SQLite to answer it.
_FIND = sa.select(schema.experiments).where(schema.experiments.c.name == sa.bindparam("wanted"))
_FIND_LOCKED = _FIND.with_for_update()


class Database:
    """One database, for the threads of the process that opened it."""

    def __init__(self, url: str | os.PathLike[str] | None = None, *, create: bool = True):
        self.url = url_of(url)
        self.sqlite = self.url.get_backend_name() == "sqlite"
        if not create:
            _check_exists(self.url)
        try:
            self.engine = _engine(self.url, self.sqlite)
        except ImportError:
            raise StoreError('PostgreSQL needs its driver; install it with: pip install "blts[postgres]".') from None
        self._process = os.getpid()
        # A database in memory is one connection, so its transactions wait for each other.
        self._turn = threading.RLock() if _in_memory(self.url) else contextlib.nullcontext()
        weakref.finalize(self, _dispose, self.engine, self._process)  # connections do not outlive this object
        with _sentences(self.url, self.engine):
            with self.engine.connect() as connection:
                number = schema.found(connection)
            schema.check(number)
            if number == 0:
                with self._begin(True) as connection:
                    schema.migrate(connection)

    @staticmethod
    def migrate(url: str | os.PathLike[str] | None) -> tuple[int, int]:
        """Bring a database to the current schema; the versions before and after."""
        place = url_of(url)
        _check_exists(place)
        engine = _engine(place, place.get_backend_name() == "sqlite")
        try:
            with _sentences(place, engine), engine.connect().execution_options(**{WRITES: True}) as connection, connection.begin():
                return schema.migrate(connection)
        finally:
            engine.dispose()

    def close(self) -> None:
        _dispose(self.engine, self._process)

    def check_process(self) -> None:
        """Refuse to go on in a process that was forked: neither its connections nor JAX's threads are its own (`StoreError`)."""
        if os.getpid() != self._process:
            raise StoreError(
                "This database was opened before the process was forked; open the experiment again in the child process, before "
                "JAX is used, or start the process with spawn instead of fork."
            )

    @contextlib.contextmanager
    def _begin(self, writes: bool) -> Iterator[sa.Connection]:
        self.check_process()
        with self._turn, self.engine.connect() as connection:
            if not self.sqlite and not writes:
                connection = connection.execution_options(isolation_level="REPEATABLE READ")  # a snapshot, as SQLite gives
            connection = connection.execution_options(**{WRITES: writes})
            with connection.begin():
                yield connection

    @contextlib.contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """A snapshot."""
        with _sentences(self.url, self.engine), self._begin(False) as connection:
            yield connection

    @contextlib.contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """A transaction that is there as a whole or not at all."""
        with _sentences(self.url, self.engine), self._begin(True) as connection:
            yield connection

    def names(self) -> list[str]:
        with self.read() as connection:
            return list(connection.execute(sa.select(schema.experiments.c.name).order_by(schema.experiments.c.id)).scalars())

    def find(self, connection: sa.Connection, name: str, *, lock: bool = False) -> DbRow:
        """The row of an experiment, and where asked nobody else's until the end of the transaction."""
        known_text = isinstance(name, str) and storable(name) and "\x00" not in name
        row = connection.execute(_FIND_LOCKED if lock else _FIND, {"wanted": name}).first() if known_text else None
        if row is None:
            known = connection.execute(sa.select(schema.experiments.c.name).limit(50)).scalars()
            raise UnknownName("experiment", name, known)
        return checked(record(row))


def checked(row: DbRow) -> DbRow:
    """The row of an experiment (`Damaged` where it holds what blts does not write)."""
    wrong = [column for column in _NUMBERS if not isinstance(getattr(row, column), _NUMBERS[column])]
    if wrong or not 1 <= row.version <= row.versions:
        raise Damaged(f"{(wrong or ['version'])[0]} of {schema.experiments.name} is not as it was written", row.name)
    return row


_NUMBERS = {
    column.name: float if isinstance(column.type, sa.Double) else int
    for column in schema.experiments.columns
    if isinstance(column.type, sa.Double | sa.BigInteger)
}
"""Columns of the experiments that hold numbers. SQLite keeps any value in any column."""


def _check_exists(url: sa.URL) -> None:
    """Refuse a SQLite file that is not there, where none should be made."""
    if url.get_backend_name() != "sqlite" or not url.database:
        return
    try:
        there = pathlib.Path(url.database).exists()
    except OSError:  # a name that no file can have
        there = False
    if not there:
        raise StoreError(f"There is no database {url.database}; create an experiment first, or give another URL.")


def _in_memory(url: sa.URL) -> bool:
    return url.get_backend_name() == "sqlite" and url.database in (None, "", ":memory:")


def _dispose(engine: sa.Engine, process: int) -> None:
    """Close the connections of this process; those of the process that it was forked from are left alone."""
    engine.dispose(close=os.getpid() == process)


def _engine(url: sa.URL, sqlite: bool) -> sa.Engine:
    if not sqlite:
        return sa.create_engine(url, pool_pre_ping=True)
    one = {"poolclass": StaticPool} if _in_memory(url) else {}
    engine = sa.create_engine(url, connect_args={"timeout": PATIENCE, "check_same_thread": False}, **one)

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, record: Any) -> None:
        connection.isolation_level = None  # SQLAlchemy says BEGIN, below, and the driver says nothing
        cursor = connection.cursor()
        if cursor.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=FULL")  # a power cut loses nothing that was answered
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.close()

    @event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        if connection.get_execution_options().get(WRITES):
            _begin_immediate(connection.connection.cursor())
        else:
            connection.exec_driver_sql("BEGIN")

    return engine


def _begin_immediate(cursor: Any) -> None:
    """Begin a transaction that writes, once no other writer is there.

    SQLite itself waits by sleeping up to a tenth of a second between two tries, longer the longer it has waited, so that one of
    several busy processes can be passed over for seconds. Here whoever waits tries more and more often.
    """
    began = time.monotonic()
    cursor.execute("PRAGMA busy_timeout = 0")
    try:
        while True:
            try:
                cursor.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                waited = time.monotonic() - began
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or waited > PATIENCE:
                    raise
            time.sleep(random.uniform(0.5, 1.5) * max(SHORTEST_NAP, LONGEST_NAP - waited / 10))
    finally:
        cursor.execute(f"PRAGMA busy_timeout = {round(1000 * PATIENCE)}")
        cursor.close()


@contextlib.contextmanager
def _sentences(url: sa.URL, engine: sa.Engine) -> Iterator[None]:
    """What a database complains of, as one sentence."""
    try:
        yield
    except (exc.SQLAlchemyError, engine.dialect.loaded_dbapi.Error) as error:  # the driver's own, where its cursor is read
        cause = str(getattr(error, "orig", None) or error).strip().splitlines()
        raise StoreError(f"The database {url.render_as_string()} cannot be used: {cause[0] if cause else error}.") from error


def update(connection: sa.Connection, table: sa.Table, row_id: int, values: dict[str, Any]) -> None:
    """Some columns of the row with this id."""
    mark = "?" if connection.dialect.name == "sqlite" else "%s"
    columns = ", ".join(f"{name} = {mark}" for name in values)
    connection.exec_driver_sql(f"UPDATE {table.name} SET {columns} WHERE id = {mark}", (*values.values(), row_id))


def insert(connection: sa.Connection, table: sa.Table, columns: dict[str, Any], rows: int) -> None:
    """Many rows in one statement; a column is a list, or one value for all rows."""
    if rows == 0:
        return
    lists = {name: value if isinstance(value, list) else [value] * rows for name, value in columns.items()}
    names = ", ".join(lists)
    if connection.dialect.name == "sqlite":
        marks = ", ".join("?" * len(lists))
        statement = f"INSERT INTO {table.name} ({names}) VALUES ({marks})"
        connection.exec_driver_sql(statement, list(zip(*lists.values(), strict=True)))
        return
    # One array a column, which PostgreSQL unfolds itself: many times faster than a row at a time.
    arrays = ", ".join(f"%s::{table.c[name].type.compile(connection.dialect)}[]" for name in lists)
    connection.exec_driver_sql(f"INSERT INTO {table.name} ({names}) SELECT * FROM unnest({arrays})", tuple(lists.values()))


def look_up(
    connection: sa.Connection, columns: Sequence[sa.Column], experiment: int, key: sa.Column, values: Sequence[Any]
) -> list[tuple]:
    """Rows of an experiment by the values of an indexed column.

    Args:
        connection: to the database.
        columns: what is wanted of each row.
        experiment: its id.
        key: the column.
        values: its values, as many as one likes.

    Returns:
        The rows, in no order.
    """
    wanted, table, found = ", ".join(column.name for column in columns), key.table, []

    def fetch(statement: str, parameters: tuple) -> list[tuple]:
        cursor = connection.exec_driver_sql(statement, parameters).cursor
        assert cursor is not None
        return list(cursor.fetchall())

    if not values:
        return []
    if connection.dialect.name != "sqlite":
        # One by one through the index: where its statistics are old, PostgreSQL would rather read the whole experiment.
        asked = f"unnest(%s::{key.type.compile(connection.dialect)}[]) AS asked(value)"
        row = f"SELECT {wanted} FROM {table} WHERE experiment = %s AND {key.name} = asked.value OFFSET 0"
        statement = f"SELECT found.* FROM {asked} CROSS JOIN LATERAL ({row}) AS found"
        return fetch(statement, (list(values), experiment))
    for start in range(0, len(values), LOOKED_UP):
        some = values[start : start + LOOKED_UP]
        marks = ", ".join("?" * len(some))
        statement = f"SELECT {wanted} FROM {table} WHERE experiment = ? AND {key.name} IN ({marks})"
        found += fetch(statement, (experiment, *some))
    return found


def chunks(numbers: Sequence[int]) -> Iterator[list[int]]:
    for start in range(0, len(numbers), CHUNK):
        yield list(numbers[start : start + CHUNK])
