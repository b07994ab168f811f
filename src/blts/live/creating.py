"""An experiment's beginning: what is stored before the first decision."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import sqlalchemy as sa

from .._typing import Tree
from ..errors import ConfigError
from . import encoding, entries, policy, schema
from .checks import check_text
from .context import Context
from .database import Database, DbRow, record
from .spec import Spec


def create(url: str | os.PathLike[str] | None, name: str, spec: Spec, clock: Callable[[], float], actor: str | None) -> Context:
    """A new experiment, or the one that the same call made before."""
    check_text("An experiment's name", name)
    database, text = Database(url), spec.to_json()
    key, active = policy.root_key(spec.seed), tuple(range(len(spec.arms)))
    built = spec.build(active, spec.arms)
    state = policy.start(key, built.agent)
    frozen = policy.freeze(built.agent, state, spec.draw)
    _check_arms_in_front(state, len(active))
    ticks = policy.start_clock(key, built.batching, len(active))
    with database.write() as c:
        if not database.sqlite:
            c.exec_driver_sql(f"SELECT pg_advisory_xact_lock({schema.LOCK})")  # two creations of one name
        row = _row(c, name)
        if row is not None:
            same = spec.stored_as(row.spec)
            if same is None:
                raise ConfigError(f"There is an experiment named {name!r} already, with another specification; take another name.")
            return Context(database, name, same, row, clock, actor)
        now = float(clock())
        _insert_row(c, name, text, encoding.clock_text(ticks), now)
        row = _row(c, name)
        assert row is not None
        ctx = Context(database, name, spec, row, clock, actor)
        entries.add_arms(ctx, c, spec.arms, 0, 1)
        entries.add_audit(ctx, c, 1, "create", {"spec": json.loads(text)}, now)
        about = entries.about(ctx, spec.arms, active, built, state)
        first: dict[str, Any] = {"version": 1, "kind": "start", "batch": 1, "t": 0, "position": 2, "watermark": 0}
        entries.add_policy(ctx, c, **first, active=active, frozen=frozen, about=about, now=now)
    return ctx


def _row(c: sa.Connection, name: str) -> DbRow | None:
    row = c.execute(sa.select(schema.experiments).where(schema.experiments.c.name == name)).first()
    return None if row is None else record(row)


def _insert_row(c: sa.Connection, name: str, spec: str, clock: str, now: float) -> None:
    table = schema.experiments
    taken = set(c.execute(sa.select(table.c.code)).scalars())
    c.execute(
        sa.insert(table).values(
            name=name,
            code=_code(name, taken),
            spec=spec,
            created_at=now,
            paused=False,
            position=2,
            t=0,
            batch=1,
            began=0,
            due=False,
            awaited=0,
            version=1,
            versions=1,
            clock=clock,
        )
    )


def _code(name: str, taken: set[str]) -> str:
    """Eight characters that decision ids of this experiment begin with."""
    for salt in range(1000):
        code = hashlib.sha256(f"{name}\n{salt}".encode()).hexdigest()[:8]
        if code not in taken:
            return code
    raise ConfigError("There are too many experiments in this database.")


def _check_arms_in_front(state: Tree, arms: int) -> None:
    """Every array of a state has its arms in front; that is what lets arms come and go."""
    for leaf in jax.tree.leaves(state):
        if jnp.ndim(leaf) == 0 or jnp.shape(leaf)[0] != arms:
            raise ConfigError("This agent keeps numbers that are not one for each arm; use one of the registered agents.")
