"""The tables, and how a database of one version becomes one of the next.

The tables in `LEDGER` are only ever added to; the database itself refuses to change or delete their rows. What `experiments` and
`arms` hold besides can be computed from them again, and `verify` does. Every operation writes one row of `audit`, whose `chain` is
a digest of all rows that it wrote and of the operation before it (`chain`), so that a change anywhere is noticed. `reports`,
`leases` and `jobs` are conveniences: nothing is lost with them. `keys` and `secrets` are those of the service.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import resources

import sqlalchemy as sa

from ..errors import StoreError

metadata = sa.MetaData()
BigInteger = sa.BigInteger().with_variant(sa.Integer(), "sqlite")  # only INTEGER is a row id in SQLite

version = sa.Table("blts_schema", metadata, sa.Column("version", sa.Integer, nullable=False))

experiments = sa.Table(
    "blts_experiments",
    metadata,
    sa.Column("id", BigInteger, primary_key=True),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    sa.Column("code", sa.Text, nullable=False, unique=True),  # what decision ids begin with
    sa.Column("spec", sa.Text, nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
    # What runs on; a fold over the ledger.
    sa.Column("paused", sa.Boolean, nullable=False),
    sa.Column("position", sa.BigInteger, nullable=False),  # of the last entry of the ledger
    sa.Column("t", sa.BigInteger, nullable=False),  # decisions made
    sa.Column("batch", sa.BigInteger, nullable=False),
    sa.Column("began", sa.BigInteger, nullable=False),  # decisions made before this batch
    sa.Column("due", sa.Boolean, nullable=False),  # the batch is closed and its rewards are awaited
    sa.Column("awaited", sa.BigInteger, nullable=False),  # decisions of this batch without a reward
    sa.Column("version", sa.BigInteger, nullable=False),  # of the policy in use
    sa.Column("versions", sa.BigInteger, nullable=False),  # policies written, those kept out of use too
    sa.Column("clock", sa.Text, nullable=False),  # plays of the active arms, and the batching's state
    sa.Column("closing", sa.BigInteger, nullable=False, server_default="0"),  # the decision that closed the batch; 0 while open
    sa.Column("settled", sa.BigInteger, nullable=False, server_default="0"),  # decisions with an entry among the rewards
    sa.Column("entries", sa.BigInteger, nullable=False, server_default="0"),  # of the rewards
    sa.Column("chain", sa.Text, nullable=False, server_default=""),  # of the last operation
    sa.Column("stopped", sa.Text),  # the arm that was promoted when it was stopped, empty if none; NULL while it runs
    # What units are hashed with. Without it nobody can tell which unit a row is about.
    sa.Column("pepper", sa.Text, nullable=False, server_default=""),
)

arms = sa.Table(
    "blts_arms",
    metadata,
    sa.Column("experiment", BigInteger, sa.ForeignKey("blts_experiments.id"), primary_key=True),
    sa.Column("arm", sa.Integer, primary_key=True),
    sa.Column("label", sa.Text, nullable=False),
    sa.Column("metadata", sa.Text, nullable=False),
    sa.Column("options", sa.Text, nullable=False),
    sa.Column("added", sa.BigInteger, nullable=False),  # the policy version that it came with
    sa.Column("retired", sa.BigInteger),  # and the one that it went with
    sa.UniqueConstraint("experiment", "label"),
)

vectors = sa.Table(
    "blts_vectors",
    metadata,
    sa.Column("experiment", BigInteger, sa.ForeignKey("blts_experiments.id"), primary_key=True),
    sa.Column("vector", sa.Text, primary_key=True),  # a digest of the probabilities
    sa.Column("probabilities", sa.Text, nullable=False),  # one for each arm there had been
)

decisions = sa.Table(
    "blts_decisions",
    metadata,
    sa.Column("experiment", BigInteger, sa.ForeignKey("blts_experiments.id"), primary_key=True),
    sa.Column("t", sa.BigInteger, primary_key=True),
    sa.Column("arm", sa.Integer, nullable=False),
    sa.Column("batch", sa.BigInteger, nullable=False),
    sa.Column("policy", sa.BigInteger, nullable=False),
    sa.Column("vector", sa.Text, nullable=False),
    sa.Column("position", sa.BigInteger, nullable=False),  # of the ask in the ledger
    sa.Column("at", sa.Double, nullable=False),
)

rewards = sa.Table(
    "blts_rewards",
    metadata,
    sa.Column("experiment", BigInteger, sa.ForeignKey("blts_experiments.id"), primary_key=True),
    sa.Column("position", sa.BigInteger, primary_key=True),
    sa.Column("t", sa.BigInteger, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),  # told, corrected, aggregate, default, missing, cancelled
    sa.Column("reward", sa.Double),
    sa.Column("at", sa.Double, nullable=False),
    sa.Index("blts_rewards_of", "experiment", "t", "position"),
)

requests = sa.Table(
    "blts_requests",
    metadata,
    sa.Column("experiment", BigInteger, sa.ForeignKey("blts_experiments.id"), primary_key=True),
    sa.Column("request", sa.Text, primary_key=True),
    sa.Column("what", sa.Text, nullable=False),  # what was asked, to refuse the same id for something else
    sa.Column("answer", sa.Text, nullable=False),
    sa.Column("position", sa.BigInteger, nullable=False, server_default="0"),  # of the operation; 0 before schema 2
)

policies = sa.Table(
    "blts_policies",
    metadata,
    sa.Column("experiment", BigInteger, sa.ForeignKey("blts_experiments.id"), primary_key=True),
    sa.Column("version", sa.BigInteger, primary_key=True),
    sa.Column("kind", sa.Text, nullable=False),  # start, refresh, arms
    sa.Column("batch", sa.BigInteger, nullable=False),  # the batch it closed
    sa.Column("t", sa.BigInteger, nullable=False),  # decisions made before it
    sa.Column("position", sa.BigInteger, nullable=False),  # in the ledger
    sa.Column("watermark", sa.BigInteger, nullable=False),  # it has seen the ledger up to here
    sa.Column("in_use", sa.Boolean, nullable=False),
    sa.Column("failings", sa.Text, nullable=False),
    sa.Column("arms", sa.Text, nullable=False),  # the active ones
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("law", sa.Text, nullable=False),
    sa.Column("by_law", sa.Boolean, nullable=False),
    sa.Column("data", sa.Text, nullable=False),  # a digest of the rewards it learned from
    sa.Column("about", sa.Text, nullable=False),  # θ and n of each arm, settings, seed, diagnostics, versions of libraries
    sa.Column("at", sa.Double, nullable=False),
)

audit = sa.Table(
    "blts_audit",
    metadata,
    sa.Column("experiment", BigInteger, sa.ForeignKey("blts_experiments.id"), primary_key=True),
    sa.Column("position", sa.BigInteger, primary_key=True),
    sa.Column("what", sa.Text, nullable=False),
    sa.Column("detail", sa.Text, nullable=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("chain", sa.Text, nullable=False, server_default=""),  # empty before schema 2
)

units = sa.Table(
    "blts_units",
    metadata,
    sa.Column("experiment", BigInteger, sa.ForeignKey("blts_experiments.id"), primary_key=True),
    sa.Column("unit", sa.Text, primary_key=True),  # a keyed hash, never the unit itself
    sa.Column("t", sa.BigInteger, nullable=False),  # its one decision
    sa.Column("position", sa.BigInteger, nullable=False),
)

contexts = sa.Table(  # what a decision was shown, in experiments that declare features
    "blts_contexts",
    metadata,
    sa.Column("experiment", BigInteger, sa.ForeignKey("blts_experiments.id"), primary_key=True),
    sa.Column("t", sa.BigInteger, primary_key=True),
    sa.Column("context", sa.Text, nullable=False),  # the values of the declared features
    sa.Column("available", sa.Text),  # numbers of the arms that it could be; NULL where all active ones
    sa.Column("position", sa.BigInteger, nullable=False),  # of the ask in the ledger
)

exposures = sa.Table(
    "blts_exposures",
    metadata,
    sa.Column("experiment", BigInteger, sa.ForeignKey("blts_experiments.id"), primary_key=True),
    sa.Column("t", sa.BigInteger, primary_key=True),
    sa.Column("position", sa.BigInteger, nullable=False),
    sa.Column("at", sa.Double, nullable=False),
    sa.Index("blts_exposures_at", "experiment", "position"),
)

measures = sa.Table(  # of metrics other than the objective
    "blts_measures",
    metadata,
    sa.Column("experiment", BigInteger, sa.ForeignKey("blts_experiments.id"), primary_key=True),
    sa.Column("metric", sa.Text, primary_key=True),
    sa.Column("t", sa.BigInteger, primary_key=True),
    sa.Column("position", sa.BigInteger, primary_key=True),
    sa.Column("kind", sa.Text, nullable=False),  # told, corrected
    sa.Column("value", sa.Double, nullable=False),
    sa.Column("at", sa.Double, nullable=False),
)

reports = sa.Table(
    "blts_reports",
    metadata,
    sa.Column("experiment", BigInteger, sa.ForeignKey("blts_experiments.id"), primary_key=True),
    sa.Column("version", sa.BigInteger, primary_key=True),
    sa.Column("report", sa.Text, nullable=False),
    sa.Column("digest", sa.Text, nullable=False),
    sa.Column("at", sa.Double, nullable=False),
)

leases = sa.Table(
    "blts_leases",
    metadata,
    sa.Column("experiment", BigInteger, sa.ForeignKey("blts_experiments.id"), primary_key=True),
    sa.Column("holder", sa.Text, nullable=False),
    sa.Column("until", sa.Double, nullable=False),
)

jobs = sa.Table(  # what a worker is asked to do
    "blts_jobs",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("experiment", BigInteger, sa.ForeignKey("blts_experiments.id"), nullable=False),
    sa.Column("kind", sa.Text, nullable=False),  # refresh, verify
    sa.Column("detail", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),  # waiting, running, done, failed
    sa.Column("result", sa.Text),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("asked_at", sa.Double, nullable=False),
    sa.Column("began_at", sa.Double),
    sa.Column("ended_at", sa.Double),
    sa.Index("blts_jobs_in", "state"),
)

keys = sa.Table(  # who may use the service
    "blts_keys",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("hash", sa.Text, nullable=False),  # of the secret, which is shown once and never stored
    sa.Column("role", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("experiments", sa.Text),  # names; NULL for all
    sa.Column("origins", sa.Text),  # of browsers that may use it
    sa.Column("rate", sa.Double),  # requests a second
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("created_by", sa.Text, nullable=False),
    sa.Column("expires_at", sa.Double),
    sa.Column("revoked_at", sa.Double),
    sa.Column("revoked_by", sa.Text),
)

secrets = sa.Table(  # what the processes of one service share
    "blts_secrets",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
    sa.Column("at", sa.Double, nullable=False),
)

LEDGER = (decisions, rewards, policies, audit, requests, vectors, units, exposures, measures, contexts)


def statements(step: int, dialect: str) -> list[str]:
    """The SQL of a step, from its file: statements end at empty lines, and a line that begins with -- is a comment."""
    text = resources.files("blts.live").joinpath("migrations", f"{step}-{dialect}.sql").read_text(encoding="utf-8")
    return ["\n".join(block) for block in _blocks(text)]


def _blocks(text: str) -> list[list[str]]:
    lines = [[line for line in block.splitlines() if not line.startswith("--")] for block in text.split("\n\n")]
    return [block for block in lines if any(line.strip() for line in block)]


def _from_file(step: int) -> Callable[[sa.Connection], None]:
    def run(connection: sa.Connection) -> None:
        for statement in statements(step, connection.dialect.name):
            connection.exec_driver_sql(statement)

    return run


MIGRATIONS: tuple[Callable[[sa.Connection], None], ...] = (_from_file(1), _from_file(2), _from_file(3), _from_file(4))
"""Step i brings a database from version i to i + 1. Steps are frozen text and know nothing of the tables above, which are today's:
a released step is never changed, and a new one is added below it (CONTRIBUTING.md says how)."""

LOCK = 5_273_811  # any number that nobody else takes: what PostgreSQL serialises migrations by


def current() -> int:
    return len(MIGRATIONS)


def found(connection: sa.Connection) -> int:
    """The version of a database; 0 where there are no tables of ours."""
    if not sa.inspect(connection).has_table(version.name):
        return 0
    numbers = list(connection.execute(sa.select(version.c.version)).scalars())
    if not all(isinstance(number, int) and number >= 1 for number in numbers) or len(numbers) > 1:
        raise StoreError(f"The table {version.name} must have one row with a version of the schema; restore a backup.")
    return numbers[0] if numbers else 0


def check(number: int) -> None:
    """Refuse a database that another version of blts wrote."""
    if number > current():
        raise StoreError(f"This database has schema version {number} and this blts knows {current()}; install a newer blts.")
    if 0 < number < current():
        raise StoreError(
            f"This database has schema version {number} and this blts needs {current()}; "
            "back it up, then run: blts experiment migrate."
        )


def migrate(connection: sa.Connection) -> tuple[int, int]:
    """Bring a database to the current version, inside the caller's transaction; the versions before and after."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({LOCK})")
    before = found(connection)
    if before > current():
        check(before)
    for step in MIGRATIONS[before:]:
        step(connection)
    if before < current():
        connection.execute(sa.delete(version))
        connection.execute(sa.insert(version).values(version=current()))
    return before, current()
