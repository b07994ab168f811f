"""The schema of live databases: steps of frozen SQL make today's tables, and databases of earlier versions go on."""

from __future__ import annotations

import pathlib
import shutil

import jax
import pytest
import sqlalchemy as sa

from blts.errors import StoreError
from blts.live import Experiment, database, schema
from blts.live.export import table_of

FIXTURES = pathlib.Path(__file__).resolve().parent / "fixtures"
VERSIONS = sorted(int(path.stem.removeprefix("live-")) for path in FIXTURES.glob("live-*.db"))
DIALECTS = ("sqlite", "postgresql")


def described(url: str) -> dict:
    """Tables, columns, keys, indexes and triggers of a database, as the database itself tells them."""
    place = database.Database(url)
    engine = place.engine
    inspector = sa.inspect(engine)
    found: dict = {}
    for table in inspector.get_table_names():
        found[table] = {
            "columns": [(c["name"], str(c["type"]), c["nullable"], str(c["default"])) for c in inspector.get_columns(table)],
            "key": inspector.get_pk_constraint(table)["constrained_columns"],
            "foreign": [(f["constrained_columns"], f["referred_table"]) for f in inspector.get_foreign_keys(table)],
            "unique": sorted(u["column_names"] for u in inspector.get_unique_constraints(table)),
            "indexes": sorted((str(i["name"]), str(i["column_names"]), bool(i["unique"])) for i in inspector.get_indexes(table)),
        }
    if engine.dialect.name == "sqlite":
        triggers = "SELECT name FROM sqlite_master WHERE type = 'trigger'"
    else:
        triggers = "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal"
    with engine.connect() as c:
        found["triggers"] = sorted(c.exec_driver_sql(triggers).scalars())
    place.close()
    return found


def change(url: str, *statements: str) -> None:
    place = database.Database(url)
    with place.write() as c:
        for statement in statements:
            c.exec_driver_sql(statement)
    place.close()


def test_the_steps_make_todays_tables(url):
    migrated = described(url)
    assert migrated.pop("triggers") == sorted(f"{t.name}_no_{action}" for t in schema.LEDGER for action in ("update", "delete"))
    place = database.Database(url)
    with place.engine.begin() as c:
        schema.metadata.drop_all(c)
        schema.metadata.create_all(c)
        c.execute(sa.insert(schema.version).values(version=schema.current()))
    place.close()
    declared = described(url)
    del declared["triggers"]
    assert migrated == declared
    change(url, "ALTER TABLE blts_arms ADD COLUMN note TEXT")  # the mutants
    assert described(url)["blts_arms"] != migrated["blts_arms"]
    change(url, "CREATE INDEX another ON blts_decisions (arm)")
    assert described(url)["blts_decisions"] != migrated["blts_decisions"]


def test_every_step_has_its_files_and_every_version_its_fixture():
    folder = pathlib.Path(schema.__file__).parent / "migrations"
    steps = range(1, schema.current() + 1)
    assert {path.name for path in folder.glob("*.sql")} == {f"{step}-{dialect}.sql" for step in steps for dialect in DIALECTS}
    assert list(steps) == VERSIONS
    assert all((FIXTURES / f"live-{version}.sql").exists() for version in VERSIONS)


def test_statements_end_at_empty_lines():
    assert schema._blocks("-- About.\n\nA\n-- within\nB;\n\nC;\n") == [["A", "B;"], ["C;"]]
    for dialect in DIALECTS:
        made = [statement for step in range(1, schema.current() + 1) for statement in schema.statements(step, dialect)]
        assert all(statement.startswith(("CREATE ", "ALTER ", "UPDATE ")) and statement.endswith(";") for statement in made)
        assert sum(statement.startswith("CREATE TABLE") for statement in made) == len(schema.metadata.tables)


def with_a_note(monkeypatch) -> None:
    """A further version: its tables have one more column, and its steps one more that makes it."""
    metadata = sa.MetaData()
    for table in schema.metadata.sorted_tables:
        table.to_metadata(metadata)
    metadata.tables["blts_experiments"].append_column(sa.Column("note", sa.Text))
    monkeypatch.setattr(schema, "metadata", metadata)
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, add_note))


def add_note(connection: sa.Connection) -> None:
    connection.exec_driver_sql("ALTER TABLE blts_experiments ADD COLUMN note TEXT")


def test_a_new_database_takes_all_steps(url, monkeypatch):
    """Where the first step made today's tables, the second found its column there already."""
    with_a_note(monkeypatch)
    assert ("note", "TEXT", True, "None") in described(url)["blts_experiments"]["columns"]
    assert len(Experiment.create(url, "new", ["A", "B"], "numbers", "exact").ask(1).decisions) == 1


def restored(version: int, url: str) -> str:
    """The database of a version, where an empty one was."""
    if url.startswith("sqlite"):
        shutil.copy(FIXTURES / f"live-{version}.db", url.removeprefix("sqlite:///"))
        return url
    engine = sa.create_engine(database.url_of(url))
    with engine.connect() as c:
        c.connection.driver_connection.execute((FIXTURES / f"live-{version}.sql").read_text())  # type: ignore[union-attr]
        c.connection.commit()
    engine.dispose()
    return url


def goes_on(url: str) -> None:
    """The fixture's experiments are as they were, prove themselves, and take decisions, rewards and refreshes."""
    for name, decisions in (("mail", 24), ("even", 6)):
        experiment = Experiment.open(url, name)
        assert len(table_of(experiment).ids) == decisions
        assert replayed(experiment) == []
        if experiment.status()["paused"]:
            experiment.resume()
        assert experiment.ask(1).decisions
        table = table_of(experiment)
        experiment.tell([(i, 1.0) for i in table.ids if int(i.split("-")[1]) > decisions - 6])
        experiment.refresh(force=True)
        assert replayed(experiment) == []
        assert sum(arm["units"] for arm in experiment.report()["arms"]) == decisions + 1
    mail = Experiment.open(url, "mail")
    labels = [arm["arm"] for arm in mail.report()["arms"]]
    assert labels == ["A", "B", "C", "D ünïcode"]
    assert mail.ask(10, request_id="the first batch").decisions[0].id == table_of(mail).ids[0]  # answered before the upgrade
    with pytest.raises(StoreError, match="append-only"), mail.database.write() as c:
        c.exec_driver_sql("DELETE FROM blts_rewards")
    if "people" in mail.database.names():  # from version 3 on
        shown_go_on(Experiment.open(url, "people"))


def shown_go_on(people: Experiment) -> None:
    """An experiment with contexts."""
    assert replayed(people) == []
    context = {"age": 18, "country": "ÜS", "returning": True}
    assert people.ask(units=["ann"], contexts=[context]).decisions[0].id == table_of(people).ids[5]
    assert people.ask(contexts=[context], available=["A"]).decisions[0].arm == "A"
    assert replayed(people) == []
    with pytest.raises(StoreError, match="append-only"), people.database.write() as c:
        c.exec_driver_sql("UPDATE blts_contexts SET context = '{}'")


def replayed(experiment: Experiment) -> list[str]:
    """What `verify` finds; the last bits of numbers are compared only on the libraries that wrote them."""
    found = experiment.verify()
    if experiment.policy(1)["versions"]["jax"] == jax.__version__:
        return found
    return [sentence for sentence in found if "another state" not in sentence and "propensities" not in sentence]


@pytest.mark.usefixtures("well_compiled")
@pytest.mark.parametrize("version", VERSIONS)
def test_databases_of_earlier_versions_go_on(version, url):
    restored(version, url)
    if version < schema.current():
        with pytest.raises(StoreError, match="blts experiment migrate"):
            Experiment.open(url, "mail")
    assert database.Database.migrate(url) == (version, schema.current())
    goes_on(url)


@pytest.mark.usefixtures("well_compiled")
@pytest.mark.parametrize("version", VERSIONS)
def test_databases_of_earlier_versions_take_a_further_step(version, url, monkeypatch):
    restored(version, url)
    with_a_note(monkeypatch)
    with pytest.raises(StoreError, match=f"schema version {version} and this blts needs {schema.current()}; back it up, then run"):
        Experiment.open(url, "mail")
    assert database.Database.migrate(url) == (version, schema.current())
    assert ("note", "TEXT", True, "None") in described(url)["blts_experiments"]["columns"]
    goes_on(url)


def test_a_fixture_is_what_the_steps_make(url):
    """Restored and migrated, a database of an earlier version has the tables of a new one."""
    new = described(url)
    place = database.Database(url)
    with place.engine.begin() as c:
        schema.metadata.drop_all(c)
        if not place.sqlite:
            c.exec_driver_sql("DROP FUNCTION blts_refuse()")
    place.close()
    restored(VERSIONS[0], url)
    database.Database.migrate(url)
    assert described(url) == new
