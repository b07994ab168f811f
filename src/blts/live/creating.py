"""An experiment's beginning: what is stored before the first decision."""

from __future__ import annotations

import json
import os
import secrets
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import sqlalchemy as sa

from .._typing import Tree
from ..errors import ConfigError, Conflict
from . import encoding, entries, policy, schema
from .checks import check_text
from .database import Database, DbRow, record
from .session import Session, time_of
from .spec import Spec


def create(
    url: str | os.PathLike[str] | Database | None, name: str, spec: Spec, clock: Callable[[], float], actor: str | None
) -> Session:
    """A new experiment, or the one that the same call made before."""
    check_text("An experiment's name", name)
    if "://" in name:
        raise ConfigError(f"An experiment's name cannot be a database URL, which comes first; got {name!r}.")
    database, stated = url if isinstance(url, Database) else Database(url), spec.seed is not None
    with database.read() as c:
        row = _row(c, name)
    if row is None:
        seeded = spec.seeded()
        row, others = _insert(database, name, seeded, clock, actor)
        if row is None:
            if stated and others:
                _warn_of_seed(name, spec.seed, others)
            with database.read() as c:
                return Session(database, name, seeded, database.find(c, name), clock, actor)
    if different := spec.differs_from(row.spec):
        other = f"with another specification ({' and '.join(different).replace('_', ' ')})"
        raise Conflict(f"There is an experiment named {name!r} already, {other}; take another name.")
    given = {kind: getattr(spec, kind).value for kind in ("model", "sampler", "batching")}
    return Session(database, name, Spec.from_json(row.spec, **given), row, clock, actor)


def _insert(
    database: Database, name: str, spec: Spec, clock: Callable[[], float], actor: str | None
) -> tuple[DbRow | None, list[str]]:
    """Store a new experiment.

    Args:
        database: where.
        name: its name.
        spec: its specification, with a seed.
        clock: tells the time.
        actor: who creates it.

    Returns:
        None, or the row of an experiment of this name that was created meanwhile; and the experiments with the same seed.
    """
    assert spec.seed is not None
    text, key, active = spec.to_json(), policy.root_key(spec.seed), tuple(range(len(spec.arms)))
    built = spec.build(active, spec.arms)
    state = policy.start(key, built.agent)
    frozen = policy.freeze(built.agent, state, spec.draw, built.obs)
    _check_arms_in_front(state, 1 if spec.shared else len(active))
    ticks = policy.start_clock(key, built.batching, len(active))
    with database.write() as c:
        if not database.sqlite:
            c.exec_driver_sql(f"SELECT pg_advisory_xact_lock({schema.LOCK})")  # two creations of one name
        row = _row(c, name)
        if row is not None:
            return row, []
        others = [r.name for r in c.execute(sa.select(schema.experiments)) if json.loads(r.spec).get("seed") == spec.seed]
        row = _insert_row(c, name, text, encoding.clock_text(ticks), time_of(clock))
        session = Session(database, name, spec, row, clock, actor)
        change = entries.Change(session, c, row)
        change.now = row.created_at
        change.covers(schema.experiments, vars(row))
        change.add_arms(spec.arms, 0, 1)
        about = entries.about(session, spec.arms, active, built, state)
        first: dict[str, Any] = {"version": 1, "kind": "start", "batch": 1, "t": 0, "position": 2, "watermark": 0}
        change.add_policy(**first, active=active, frozen=frozen, about=about)
        change.finish("create", {"spec": json.loads(text)})
        entries.update(session, c, position=2)
    return None, others


class SharedSeed(UserWarning):
    """Two experiments of a database have the same seed.

    >>> import warnings
    >>> from blts.live import Experiment, SharedSeed
    >>> first = Experiment.create("sqlite://", "one", ["A", "B"], "conversions", seed=3)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     second = Experiment.create(first.database, "two", ["A", "B"], "conversions", seed=3)
    >>> [warning.category is SharedSeed for warning in caught]
    [True]
    """


def _warn_of_seed(name: str, seed: int | None, others: list[str]) -> None:
    warnings.warn(
        f"The experiment {name!r} has the seed {seed}, as has {others[0]!r} in this database. Asked in the same order, both "
        "give the same arms, so that their effects cannot be told apart. Leave the seed out unless you repeat a simulation.",
        SharedSeed,
        stacklevel=4,
    )


def _row(c: sa.Connection, name: str) -> DbRow | None:
    row = c.execute(sa.select(schema.experiments).where(schema.experiments.c.name == name)).first()
    return None if row is None else record(row)


def _insert_row(c: sa.Connection, name: str, spec: str, clock: str, now: float) -> DbRow:
    """A new experiment's row. Its code, which decision ids begin with, is random: ids of another database are unknown here."""
    counters = {"t": 0, "batch": 1, "began": 0, "awaited": 0, "version": 1, "versions": 1, "position": 0}
    secret = {"code": secrets.token_hex(8), "pepper": secrets.token_hex(16)}
    row = {"name": name, "spec": spec, "created_at": now, "paused": False, "due": False, "clock": clock} | counters | secret
    c.execute(sa.insert(schema.experiments).values(**row))
    found = _row(c, name)
    assert found is not None
    return found


def _check_arms_in_front(state: Tree, arms: int) -> None:
    """Every array of a state has its arms in front; that is what lets arms come and go."""
    for leaf in jax.tree.leaves(state):
        if jnp.ndim(leaf) == 0 or jnp.shape(leaf)[0] != arms:
            raise ConfigError("This agent keeps numbers that are not one for each arm; use one of the registered agents.")
