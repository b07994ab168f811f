"""Connections and transactions: every change is one transaction, and changes of one experiment wait for each other.

SQLite: write-ahead log, full synchronisation, BEGIN IMMEDIATE. PostgreSQL: a lock on the experiment's row. Either way a
transaction that has begun sees the experiment as it is, and nobody else changes it before the end.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import types
import weakref
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy import event, exc

from ..errors import StoreError, UnknownName
from . import schema

DEFAULT_URL = "sqlite:///blts.db"
VARIABLE = "BLTS_DB"
PATIENCE = 60  # seconds that SQLite waits for another writer
WRITES = "blts_writes"
CHUNK = 10_000  # decisions looked up in one statement


def url_of(given: str | os.PathLike[str] | None) -> sa.URL:
    """A database URL from a URL, a path, or nothing: then the variable BLTS_DB, or a file in the working folder."""
    try:
        text = os.fspath(given) if given is not None else os.environ.get(VARIABLE) or DEFAULT_URL
    except TypeError:
        raise StoreError(f"{given!r} is not a database URL; give sqlite:///file.db or postgresql://user@host/name.") from None
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


DbRow: TypeAlias = types.SimpleNamespace
"""A row by its column names, some of which are methods of SQLAlchemy's own rows."""


def record(row: sa.Row) -> DbRow:
    return DbRow(**row._mapping)


# Statements that every request makes are built once: SQLAlchemy takes longer to build one than SQLite to answer it.
_FIND = sa.select(schema.experiments).where(schema.experiments.c.name == sa.bindparam("wanted"))
_FIND_LOCKED = _FIND.with_for_update()


class Database:
    """One database."""

    def __init__(self, url: str | os.PathLike[str] | None = None, *, create: bool = True):
        self.url = url_of(url)
        self.sqlite = self.url.get_backend_name() == "sqlite"
        if not create:
            _check_exists(self.url)
        try:
            self.engine = _engine(self.url, self.sqlite)
        except ImportError:
            raise StoreError('PostgreSQL needs its driver; install it with: pip install "blts[postgres]".') from None
        weakref.finalize(self, self.engine.dispose)  # connections do not outlive this object
        with _sentences(self.url):
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
            with _sentences(place), engine.connect().execution_options(**{WRITES: True}) as connection, connection.begin():
                return schema.migrate(connection)
        finally:
            engine.dispose()

    def close(self) -> None:
        self.engine.dispose()

    @contextlib.contextmanager
    def _begin(self, writes: bool) -> Iterator[sa.Connection]:
        with self.engine.connect() as connection:
            if not self.sqlite and not writes:
                connection = connection.execution_options(isolation_level="REPEATABLE READ")  # a snapshot, as SQLite gives
            connection = connection.execution_options(**{WRITES: writes})
            with connection.begin():
                yield connection

    @contextlib.contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """A snapshot."""
        with _sentences(self.url), self._begin(False) as connection:
            yield connection

    @contextlib.contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """A transaction that is there as a whole or not at all."""
        with _sentences(self.url), self._begin(True) as connection:
            yield connection

    def names(self) -> list[str]:
        with self.read() as connection:
            return list(connection.execute(sa.select(schema.experiments.c.name).order_by(schema.experiments.c.id)).scalars())

    def find(self, connection: sa.Connection, name: str, *, lock: bool = False) -> DbRow:
        """The row of an experiment, and where asked nobody else's until the end of the transaction."""
        row = connection.execute(_FIND_LOCKED if lock else _FIND, {"wanted": name}).first()
        if row is None:
            known = connection.execute(sa.select(schema.experiments.c.name).limit(50)).scalars()
            raise UnknownName("experiment", name, known)
        return record(row)


def _check_exists(url: sa.URL) -> None:
    """Refuse a SQLite file that is not there, where none should be made."""
    if url.get_backend_name() == "sqlite" and url.database and not pathlib.Path(url.database).exists():
        raise StoreError(f"There is no database {url.database}; create an experiment first, or give another URL.")


def _engine(url: sa.URL, sqlite: bool) -> sa.Engine:
    if not sqlite:
        return sa.create_engine(url, pool_pre_ping=True)
    engine = sa.create_engine(url, connect_args={"timeout": PATIENCE})

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
        connection.exec_driver_sql("BEGIN IMMEDIATE" if connection.get_execution_options().get(WRITES) else "BEGIN")

    return engine


@contextlib.contextmanager
def _sentences(url: sa.URL) -> Iterator[None]:
    """What a database complains of, as one sentence."""
    try:
        yield
    except exc.SQLAlchemyError as error:
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


def chunks(numbers: Sequence[int]) -> Iterator[list[int]]:
    for start in range(0, len(numbers), CHUNK):
        yield list(numbers[start : start + CHUNK])
