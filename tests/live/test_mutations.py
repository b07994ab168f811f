"""Every change of a stored database behind the library's back is noticed by `verify`, in a sentence."""

from __future__ import annotations

import pathlib
import random
import shutil
import sqlite3

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from blts import cli
from blts.errors import BltsError
from blts.live import Experiment, database, schema
from blts.live.worker import Worker
from experiments import Hand, created, rewarded

OUTSIDE = (schema.jobs, schema.keys, schema.secrets)
"""Tables that say nothing of what was decided or learned; `test_jobs.py` shows what `verify` makes of them."""
LEFT_OUT = (schema.measures, schema.contexts, *OUTSIDE)  # test_contexts.py has the contexts
TABLES = [t for t in schema.metadata.sorted_tables if t not in LEFT_OUT]
HARMLESS = {
    (schema.leases.name, None): "a lease only says which worker looks; without it another one does",
    (schema.reports.name, "delete"): "a report that is gone is asked for afresh; one that is there carries its digest",
    (schema.reports.name, "experiment"): "the same as deleting it, and noticed by the experiment that it is given to",
}
"""What `verify` need not notice, and why. A row of another experiment's number is nobody's and is left out of the mutations."""


def lived(url) -> None:
    """An experiment with every kind of row, and another one beside it."""
    clock = Hand()
    settings = {"exposure": "explicit", "window": 100.0, "default_reward": 0.0, "strict": False, "clock": clock}
    with created(url, **settings) as mail, created(url, "even", seed=1) as even:
        even.tell(rewarded(even.ask(2)))
        first = [*mail.ask(3, request_id="r1").decisions, *mail.ask(units=["ann", "bob"], request_id="r2").decisions]
        mail.expose([d.id for d in first[:3]], units=["ann"])
        mail.tell([(d.id, 1.0 + i) for i, d in enumerate(first[:2])], request_id="t1")
        mail.tell([{"unit": "ann", "reward": 2.0}, ("nobody", 1.0)])
        mail.correct(first[0].id, 3.0, "typing error")
        mail.cancel([first[1].id], "never sent")
        clock.now += 200
        more = mail.ask(7).decisions
        mail.expose([d.id for d in more])
        assert mail.refresh().in_use
        arm = more[0].arm
        mail.tell_aggregate(arm, 1, total=0.5, total_of_squares=0.25, request_id="a1")
        mail.add_arm("D", {"colour": "red"}, prior_mean=1.0)
        mail.ask(units=["cid"], request_id="r3")
        mail.pause("lunch")
        mail.resume()
        clock.now += 200
        mail.retire_arm("B", "broken")
        mail.ask(4)
        assert mail.refresh(force=True).in_use
        worker = Worker(url, clock=clock)
        worker.once()
        worker.database.close()  # as if it were killed: its lease stays
        mail.tell([(d.id, 1.0) for d in mail.ask(2).decisions])
        mail.stop("A", "done")
        mail.ask(2)
        assert mail.verify() == even.verify() == []


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The file of such a database."""
    path = tmp_path_factory.mktemp("whole") / "blts.db"
    lived(path)
    with sqlite3.connect(path) as c:
        assert c.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
        for table in TABLES:
            assert c.execute(f"SELECT count(*) FROM {table.name}").fetchone()[0] > 0, table.name
    c.close()
    return path


def values_for(column: sa.Column) -> dict[str, str]:
    """What a column is set to, as SQL."""
    name = column.name
    if isinstance(column.type, sa.Text):
        own = {"change": f"{name} || 'x'", "empty": "''", "number": "123456789"}
    elif isinstance(column.type, sa.Boolean):
        own = {"change": f"1 - {name}", "huge": "5", "text": "'x'"}
    elif isinstance(column.type, sa.Double):
        own = {"change": f"{name} + 1", "huge": "1e308 * 10", "tiny": f"{name} + 1e-6", "text": "'x'"}
    else:
        own = {"change": f"{name} + 1", "huge": "9223372036854775807", "float": "1e30", "negative": "-1", "text": "'x'"}
    bytes_ = {"blob": "x'ff00'", "not UTF-8": "CAST(x'ff' AS TEXT)"}
    return own | bytes_ | ({"null": "NULL"} if column.nullable else {})


def mutations() -> list[tuple[str, str | None, str]]:
    """(table, column, what is done to it)."""
    out: list[tuple[str, str | None, str]] = []
    for table in TABLES:
        out += [(table.name, None, what) for what in ("delete first", "delete last", "delete all", "copy")]
        for column in table.columns:
            out += [(table.name, column.name, f"{what} {row}") for what in values_for(column) for row in ("first", "last")]
            out.append((table.name, column.name, "swap"))
    return out


def mutate(path, table: sa.Table, column: str | None, what: str) -> str | None:
    """Do it; the name of the experiment to verify, or None where the table's own constraints or its values rule it out."""
    kind, _, row = what.rpartition(" ")
    c = sqlite3.connect(path)
    try:
        triggers = [name for (name,) in c.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")]
        for name in triggers:
            c.execute(f"DROP TRIGGER {name}")
        own = "" if table is schema.version else f"WHERE {'id' if table is schema.experiments else 'experiment'} = 1"
        rows = [i for (i,) in c.execute(f"SELECT rowid FROM {table.name} {own} ORDER BY rowid")]
        before = list(c.execute(f"SELECT * FROM {table.name} ORDER BY rowid"))
        name = "mail"
        if kind == "delete":
            which = {"first": rows[:1], "last": rows[-1:], "all": rows}[row]
            c.execute(f"DELETE FROM {table.name} WHERE rowid IN ({', '.join(map(str, which))})")
        elif what == "copy":
            name = copy_row(c, table, rows[0])
        elif what == "swap":
            values = list(c.execute(f"SELECT rowid, {column} FROM {table.name} {own}"))
            other = [i for i, value in values if value != values[0][1]]
            if not other:
                return None
            pair = f"WHERE rowid IN ({values[0][0]}, {other[-1]})"
            a, b = values[0][1], dict(values)[other[-1]]
            unused = "-99" if isinstance(a, int) else "'-99'"
            c.execute(f"UPDATE {table.name} SET {column} = {unused} WHERE rowid = {other[-1]}")
            c.execute(f"UPDATE {table.name} SET {column} = ? {pair} AND rowid = {values[0][0]}", (b,))
            c.execute(f"UPDATE {table.name} SET {column} = ? {pair} AND rowid = {other[-1]}", (a,))
        else:
            value = values_for(table.c[column])[kind]
            c.execute(f"UPDATE {table.name} SET {column} = {value} WHERE rowid = {rows[0 if row == 'first' else -1]}")
        c.commit()
        if table is schema.reports and column == "experiment" and kind == "change":
            name = "even"  # a report that was moved is missed by nobody, and noticed where it is now
        return name if list(c.execute(f"SELECT * FROM {table.name} ORDER BY rowid")) != before else None
    except sqlite3.IntegrityError:
        return None
    except sqlite3.OperationalError as error:  # what was written cannot be read, which is the mutation
        if "decode" not in str(error):
            raise
        return "mail"
    finally:
        c.close()


def copy_row(c: sqlite3.Connection, table: sa.Table, rowid: int) -> str:
    """A row once more, under another key; the experiment that it is about."""
    names = table.columns.keys()
    values = dict(
        zip(names, c.execute(f"SELECT {', '.join(names)} FROM {table.name} WHERE rowid = {rowid}").fetchone(), strict=True)
    )
    keys = [k.name for k in table.primary_key if k.name != "experiment"]
    for name in [*keys, *(["name", "code"] if table is schema.experiments else ["label"] if table is schema.arms else [])]:
        values[name] = values[name] + 1000 if isinstance(values[name], int) else values[name] + "x"
    marks = ", ".join("?" * len(names))
    c.execute(f"INSERT INTO {table.name} ({', '.join(names)}) VALUES ({marks})", [values[name] for name in names])
    return values["name"] if table is schema.experiments else "mail"


def harmless(table: str, column: str | None, what: str) -> bool:
    return any((table, key) in HARMLESS for key in (None, column, what.split()[0]))


def found_in(path, name: str) -> list[str]:
    """What Python says: the differences, or why the experiment cannot be opened."""
    try:
        with Experiment.open(path, name) as experiment:
            found = experiment.verify()
    except BltsError as error:
        found = [str(error)]
    for sentence in found:
        assert "\n" not in sentence
        assert len(sentence) < 3000
        assert not sentence.startswith("what is stored cannot be replayed"), sentence  # it has a name
    return found


ALL = mutations()
SOME = random.Random(4).sample(ALL, 70)


def check_mutations(whole, tmp_path, some) -> tuple[int, int]:
    """Every one on a fresh copy: how many were applied, and how many were noticed. Some also at the command line."""
    applied, noticed, path = 0, 0, tmp_path / "copy.db"
    for i, (table, column, what) in enumerate(some):
        for old in tmp_path.glob("copy.db*"):
            old.unlink()
        shutil.copy(whole, path)
        name = mutate(path, schema.metadata.tables[table], column, what)
        if name is None:
            continue
        applied += 1
        found = found_in(path, name)
        noticed += bool(found)
        assert found or harmless(table, column, what), (table, column, what)
        if i % 10 == 0 and found:
            result = CliRunner().invoke(cli.app, ["experiment", "verify", name, "--db", str(path)])
            refused = isinstance(result.exception, BltsError)
            assert refused or result.exit_code == 4, (table, column, what, result.output, result.exception)
    return applied, noticed


def test_an_untouched_database_verifies(whole, tmp_path):
    """Otherwise the tests below would find anything."""
    shutil.copy(whole, tmp_path / "copy.db")
    assert found_in(tmp_path / "copy.db", "mail") == found_in(tmp_path / "copy.db", "even") == []


def test_some_mutations_are_noticed(whole, tmp_path):
    applied, noticed = check_mutations(whole, tmp_path, SOME)
    assert applied >= 50
    assert noticed >= 0.9 * applied


@pytest.mark.slow
def test_every_mutation_is_noticed(whole, tmp_path):
    applied, noticed = check_mutations(whole, tmp_path, ALL)
    print(f"\n{applied} mutations, {noticed} noticed")
    assert applied >= 500


def test_without_the_chain_a_changed_time_is_not_noticed(whole, tmp_path, monkeypatch):
    """The mutant of `verify`: the replay alone does not look at when, who and why."""
    from blts.live import verify

    shutil.copy(whole, tmp_path / "copy.db")
    assert mutate(tmp_path / "copy.db", schema.audit, "at", "tiny last") == "mail"
    assert found_in(tmp_path / "copy.db", "mail")
    monkeypatch.setattr(verify, "check_chain", lambda *arguments: [])
    assert found_in(tmp_path / "copy.db", "mail") == []


POSTGRES = {
    "blts_rewards": "UPDATE blts_rewards SET reward = 'NaN' WHERE reward IS NULL",
    "blts_audit": "UPDATE blts_audit SET actor = actor || 'x' WHERE position = 1",
    "blts_units": "DELETE FROM blts_units",
    "blts_exposures": "UPDATE blts_exposures SET at = at + 1",
    "blts_requests": "UPDATE blts_requests SET answer = '{'",
    "blts_arms": "UPDATE blts_arms SET retired = NULL",
    "blts_experiments": "UPDATE blts_experiments SET awaited = awaited + 1",
    "blts_reports": "UPDATE blts_reports SET report = '{}'",
    "blts_schema": "INSERT INTO blts_schema VALUES (1)",
}


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_mutations_on_postgresql(url):
    lived(url)
    for table, statement in POSTGRES.items():
        place = database.Database(url)
        with place.engine.connect() as c:
            before = c.exec_driver_sql(f"SELECT * FROM {table}").all()
            for action in ("update", "delete"):
                c.exec_driver_sql(f"DROP TRIGGER IF EXISTS {table}_no_{action} ON {table}")
            assert c.exec_driver_sql(statement).rowcount > 0
            c.commit()
        assert found_in(url, "mail"), statement
        with place.engine.connect() as c:
            c.exec_driver_sql("SET session_replication_role = replica")  # no foreign keys while rows are put back
            c.exec_driver_sql(f"DELETE FROM {table}")
            marks = ", ".join(["%s"] * len(before[0]))
            c.exec_driver_sql(f"INSERT INTO {table} VALUES ({marks})", [tuple(row) for row in before])
            c.commit()
        place.close()
        assert found_in(url, "mail") == [], table


OLD = {
    "a reward": "UPDATE blts_rewards SET reward = 2 WHERE position = (SELECT min(position) FROM blts_rewards WHERE experiment = 1)",
    "a detail": "UPDATE blts_audit SET detail = '{' WHERE position = 3",
    "a vector": "UPDATE blts_vectors SET probabilities = '['",
    "a policy": "UPDATE blts_policies SET arms = '{' WHERE version = 2",
    "a state": "UPDATE blts_policies SET state = 'x' WHERE version = 1",
    "a count": "UPDATE blts_experiments SET entries = entries + 1",
}


@pytest.mark.parametrize("what", OLD)
def test_mutations_from_before_there_was_a_chain(tmp_path, what):
    """What is not covered by the chain is found by the replay, and what cannot be read is a sentence too."""
    path = tmp_path / "old.db"
    shutil.copy(pathlib.Path(__file__).parent / "fixtures" / "live-1.db", path)
    database.Database.migrate(path)
    with Experiment.open(path, "mail") as untouched:  # compiled otherwise than the fixture, so some last bits may differ
        before = set(untouched.verify())
    c = sqlite3.connect(path)
    for (name,) in c.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        c.execute(f"DROP TRIGGER {name}")
    assert c.execute(OLD[what]).rowcount > 0
    c.commit()
    c.close()
    assert set(Experiment.open(path, "mail").verify()) - before


def test_files_that_are_broken_are_one_sentence(whole, tmp_path):
    """Bytes overwritten anywhere, and tables that are gone."""
    path, chance = tmp_path / "copy.db", random.Random(5)
    data = whole.read_bytes()
    for _ in range(12):
        start = chance.randrange(100, len(data) - 500)
        path.write_bytes(data[:start] + chance.randbytes(400) + data[start + 400 :])
        found_in(path, "mail")  # nothing but sentences; what was hit may be an unused page
    for table in TABLES:
        shutil.copy(whole, path)
        with sqlite3.connect(path) as c:
            c.execute("PRAGMA foreign_keys = OFF")
            c.execute(f"DROP TABLE {table.name}")
        c.close()
        assert found_in(path, "mail") or table is schema.leases
