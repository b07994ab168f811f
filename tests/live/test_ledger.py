"""A ledger that proves itself, the databases that hold it, and any sequence of calls."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blts.errors import ConfigError, StoreError, UnknownName
from blts.live import Experiment, database, ledger, schema
from blts.live.export import table_of
from experiments import LABELS, Hand, created, made, rewarded

# The ledger proves itself


def tamper(experiment, statement: str) -> None:
    """A change behind the library's back, with the database's own guard taken away first."""
    with experiment.database.engine.connect() as c:
        for table in schema.LEDGER:
            for action in ("update", "delete"):
                c.exec_driver_sql(f"DROP TRIGGER IF EXISTS {table.name}_no_{action}")
        c.exec_driver_sql(statement)
        c.commit()


TAMPERING = {
    "a reward": "UPDATE blts_rewards SET reward = 2 WHERE t = 3",
    "a reward that nothing was learned from yet": "UPDATE blts_rewards SET reward = 2 WHERE t = 8",
    "a reward gone": "DELETE FROM blts_rewards WHERE t = 3",
    "an arm": "UPDATE blts_decisions SET arm = (arm + 1) % 3 WHERE t = 2",
    "a decision gone": "DELETE FROM blts_decisions WHERE t = 8",
    "a vector": "UPDATE blts_vectors SET probabilities = '[0.5, 0.25, 0.25]'",
    "a policy": "UPDATE blts_policies SET law = (SELECT law FROM blts_policies WHERE version = 1) WHERE version = 2",
    "a count": "UPDATE blts_experiments SET awaited = awaited + 1",
    "a batch": "UPDATE blts_experiments SET batch = batch + 1",
    "a clock": "UPDATE blts_experiments SET clock = (SELECT replace(clock, '[[', '[[1') FROM blts_experiments)",
    "a pause": "UPDATE blts_experiments SET paused = 1",
    "an audit entry gone": "DELETE FROM blts_audit WHERE position = 3",
}


@pytest.mark.parametrize("what", TAMPERING)
def test_verify_finds_tampering(tmp_path, what):
    experiment = made(tmp_path)
    experiment.tell(rewarded(experiment.ask(6)))
    experiment.refresh()
    experiment.tell(rewarded(experiment.ask(4))[:3])
    assert experiment.verify() == []
    tamper(experiment, TAMPERING[what])
    assert Experiment.open(tmp_path / "blts.db", "mail").verify() != []


@pytest.mark.parametrize("table", [table.name for table in schema.LEDGER])
def test_the_database_refuses_to_change_the_ledger(tmp_path, table):
    experiment = made(tmp_path, exposure="explicit")
    experiment.tell(rewarded(experiment.ask(2, request_id="r")))
    experiment.ask(units=["u"])
    experiment.expose(units=["u"])
    with experiment.database.write() as c:
        row = {"experiment": experiment.id, "metric": "m", "t": 1, "position": 1, "kind": "told", "value": 1.0, "at": 0.0}
        database.insert(c, schema.measures, row, 1)
        row = {"experiment": experiment.id, "t": 1, "context": "{}", "available": None, "position": 1}
        database.insert(c, schema.contexts, row, 1)
    for statement in (f"UPDATE {table} SET experiment = 5", f"DELETE FROM {table}"):
        with experiment.database.engine.connect() as c, pytest.raises(sa.exc.DatabaseError, match="append-only"):
            c.exec_driver_sql(statement)


# Databases


def test_other_schema_versions_are_refused_and_migrated(url, monkeypatch):
    created(url)

    def add_column(connection):
        connection.exec_driver_sql("ALTER TABLE blts_experiments ADD COLUMN note TEXT")

    before = schema.current()
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, add_column))
    with pytest.raises(StoreError, match=f"schema version {before} and this blts needs {before + 1}"):
        Experiment.open(url, "mail")
    assert database.Database.migrate(url) == (before, before + 1)
    assert database.Database.migrate(url) == (before + 1, before + 1)
    experiment = Experiment.open(url, "mail")
    assert len(experiment.ask(2).decisions) == 2
    assert experiment.verify() == []
    monkeypatch.undo()
    with pytest.raises(StoreError, match=f"schema version {before + 1} and this blts knows {before}"):
        Experiment.open(url, "mail")
    with pytest.raises(StoreError, match="newer"):
        database.Database.migrate(url)


def test_a_migration_that_fails_changes_nothing(url, monkeypatch):
    created(url)

    def fail(connection):
        connection.exec_driver_sql("ALTER TABLE blts_experiments ADD COLUMN note TEXT")
        raise StoreError("This step fails.")

    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, fail))
    with pytest.raises(StoreError, match="This step fails"):
        database.Database.migrate(url)
    monkeypatch.undo()
    assert len(Experiment.open(url, "mail").ask(2).decisions) == 2


def test_places_that_cannot_be_used_are_refused(tmp_path, monkeypatch):
    with pytest.raises(StoreError, match="no database"):
        Experiment.open(tmp_path / "nothing.db", "mail")
    with pytest.raises(StoreError, match="no database"):
        database.Database.migrate(tmp_path / "nothing.db")
    assert not (tmp_path / "nothing.db").exists()
    with pytest.raises(StoreError, match="3 is not a database URL"):
        database.Database(3)  # type: ignore[arg-type]
    with pytest.raises(StoreError, match="SQLite or PostgreSQL"):
        database.Database("mysql://host/name")
    with pytest.raises(StoreError, match="not a database URL"):
        database.Database("sqlite://:x:/:")
    with pytest.raises(StoreError, match="cannot be used"):
        database.Database(tmp_path / "no" / "folder" / "x.db")
    (tmp_path / "text.db").write_text("This is no database, and long enough to be seen as such. " * 20)
    with pytest.raises(StoreError, match="cannot be used"):
        database.Database(tmp_path / "text.db")
    made(tmp_path)
    with pytest.raises(UnknownName, match="Did you mean 'mail'"):
        Experiment.open(tmp_path / "blts.db", "mial")
    monkeypatch.setenv("BLTS_DB", str(tmp_path / "blts.db"))
    assert Experiment.open(None, "mail").name == "mail"


def test_creating_twice_is_creating_once(tmp_path):
    first = made(tmp_path)
    first.ask(3)
    assert made(tmp_path).status()["decisions"] == 3
    with pytest.raises(ConfigError, match=r"another specification \(seed and floor\)|another specification \(floor and seed\)"):
        made(tmp_path, seed=1, floor=0.01)


# Anything at all


ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.binary(max_size=3),
    st.lists(st.integers(), max_size=2),
    st.complex_numbers(),
)


def is_reward(x) -> bool:
    return isinstance(x, int | float) and -1e30 <= x <= 1e30


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_sequence_of_calls_is_answered_and_verifies(tmp_path_factory, data):
    check_any_calls(tmp_path_factory.mktemp("any") / "x.db", data)


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_any_sequence_of_calls_on_postgresql(url, data):
    check_any_calls(url, data)


NUMBERS = itertools.count()


def check_any_calls(url, data) -> None:
    """Random calls with random arguments against a plain dict; nothing but sentences is raised."""
    clock = Hand()
    text = st.text(min_size=1, max_size=20).filter(lambda s: s.strip() and "\x00" not in s and s.isprintable())
    experiment = Experiment.create(
        url,
        f"{data.draw(text)} {next(NUMBERS)}",
        LABELS,
        {"name": "gaussian", "sd": 1.0},
        "exact",
        {"name": "fixed", "size": 5},
        strict=data.draw(st.booleans()),
        learn=data.draw(st.sampled_from(["closed", "open"])),
        window=10.0,
        default_reward=0.0,
        clock=clock,
    )
    ids: list[str] = []
    stands: dict[str, float] = {}
    final: set[str] = set()
    for _ in range(data.draw(st.integers(1, 8))):
        clock.now += data.draw(st.floats(-20, 20))
        match data.draw(st.sampled_from(["ask", "tell", "refresh", "correct", "cancel", "pause"])):
            case "ask":
                ids += [d.id for d in experiment.ask(data.draw(st.integers(1, 12))).decisions]
            case "tell":
                some = st.one_of(st.sampled_from(ids or ["x"]), ANYTHING)
                reward = st.one_of(st.floats(-10, 10), ANYTHING)
                rows = data.draw(st.lists(st.one_of(st.tuples(some, reward), ANYTHING), max_size=8))
                told = experiment.tell(rows)
                assert sum(told[:5]) == len(rows)
                assert sum(len(x) for x in told.ids.values()) == len(rows) - told.accepted
                for row in rows:
                    if isinstance(row, tuple) and row[0] in ids and row[0] not in final and is_reward(row[1]):
                        stands.setdefault(row[0], float(row[1]))
            case "refresh":
                experiment.refresh(force=data.draw(st.booleans()))
            case "correct" if ids:
                i = data.draw(st.sampled_from(ids))
                if i in final:
                    with pytest.raises(ConfigError, match="is cancelled"):
                        experiment.correct(i, 7.0)
                    continue
                experiment.correct(i, 7.0)
                stands[i] = 7.0
            case "cancel" if ids:
                i = data.draw(st.sampled_from(ids))
                experiment.cancel([i])
                stands.pop(i, None)
                final.add(i)
            case "pause":
                experiment.pause() if data.draw(st.booleans()) else experiment.resume()
    assert len(set(ids)) == len(ids) == experiment.status()["decisions"]
    table = table_of(experiment)
    for i, status, reward in zip(table.ids, table.status, table.rewards, strict=True):
        if i in stands:
            assert reward == stands[i]
        else:
            assert status in ("pending", "default", "cancelled")
    with experiment.database.read() as c:  # what was read on from refresh to refresh is what a fresh reading finds
        row = experiment.session.row(c)
        fresh = ledger.Fold(experiment.id).until(c, row.position, row.t)
        np.testing.assert_equal(experiment.session.fold.until(c, row.position, row.t), fresh)
    assert fresh.rows(False, None).rewards.tolist() == table.rewards[~np.isnan(table.rewards)].tolist()
    assert experiment.verify() == []
