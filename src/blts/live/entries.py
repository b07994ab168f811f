"""What a change writes, inside its transaction: rewards, policy versions, answers to requests, the audit log."""

from __future__ import annotations

import importlib.metadata
import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
import sqlalchemy as sa

from .._typing import Tree
from ..agents import Agent
from ..agents.beliefs.perturb import PerturbState
from ..declared import provides
from ..errors import Conflict
from . import chain, database, encoding, ledger, schema
from .checks import check_text
from .damage import Damaged
from .database import DbRow, insert, look_up, record
from .learning import empty_dtype

if TYPE_CHECKING:
    from .parts import Arm
    from .policy import Built, Frozen
    from .session import Session


ALL_ARMS = "all arms"
"""Whose θ is where they share one."""


def requests_of(session: Session, c: sa.Connection, ids: Sequence[str]) -> dict[str, DbRow]:
    """Those of some requests that were answered before, by their ids."""
    if not ids:
        return {}
    table = schema.requests
    names = [column.name for column in table.c]
    rows = [DbRow(**dict(zip(names, row, strict=True))) for row in look_up(c, list(table.c), session.id, table.c.request, ids)]
    return {row.request: row for row in rows}


def used_otherwise(request_id: str | None, what: str) -> Conflict:
    """The error for an id that another request had."""
    return Conflict(f"The request {request_id!r} was for something else ({what.split()[0]}); take another id.")


def answered(session: Session, c: sa.Connection, request_id: str | None, what: str) -> dict[str, Any] | None:
    """The answer of a request that was answered before."""
    if request_id is None:
        return None
    check_text("request_id", request_id)
    row = requests_of(session, c, [request_id]).get(request_id)
    if row is None:
        return None
    if row.what != what:
        raise used_otherwise(request_id, row.what)
    return json.loads(row.answer)


class Change:
    """One operation of an experiment: the rows that it writes, its line in the audit log, and the experiment's row after it."""

    def __init__(self, session: Session, c: sa.Connection, row: DbRow):
        self.session, self.c, self.row, self.now = session, c, row, session.now()
        self.position = row.position
        """Of the last entry so far."""
        self._parts: dict[str, bytes] = {}

    def insert(self, table: sa.Table, columns: dict[str, Any], count: int) -> None:
        """Append rows; each table once."""
        if count:
            insert(self.c, table, {"experiment": self.session.id} | columns, count)
            self._parts[table.name] = chain.rows(table, columns, count)

    def covers(self, table: sa.Table, columns: dict[str, Any]) -> None:
        """A row that was written otherwise and belongs to this operation."""
        self._parts[table.name] = chain.rows(table, columns, 1)

    def add_rewards(self, ts: list[int], kind: str, values: Sequence[float | None]) -> None:
        """Append reward entries; each has a position of its own."""
        positions = list(range(self.position + 1, self.position + 1 + len(ts)))
        numbers = [None if x is None else x + 0.0 for x in values]  # not every database keeps the sign of -0.0
        columns = {"position": positions, "t": ts, "kind": kind, "reward": numbers, "at": self.now}
        self.insert(schema.rewards, columns, len(ts))
        self.position += len(ts)

    def add_arms(self, arms: Sequence[Arm], first: int, version: int) -> None:
        columns = {
            "arm": list(range(first, first + len(arms))),
            "label": [arm.label for arm in arms],
            "metadata": [json.dumps(arm.metadata) for arm in arms],
            "options": [json.dumps(arm.options) for arm in arms],
            "added": version,
        }
        self.insert(schema.arms, columns, len(arms))

    def add_policy(
        self,
        *,
        version: int,
        kind: str,
        batch: int,
        t: int,
        position: int,
        watermark: int,
        active: tuple[int, ...],
        frozen: Frozen,
        about: dict[str, Any],
        data: str = ledger.NO_REWARDS.digest(),
        failings: Sequence[str] = (),
    ) -> None:
        columns = {
            "version": version,
            "kind": kind,
            "batch": batch,
            "t": t,
            "position": position,
            "watermark": watermark,
            "in_use": not failings,
            "failings": json.dumps(failings),
            "arms": json.dumps(active),
            "state": encoding.encode(frozen.state),
            "law": encoding.encode([frozen.law]),
            "by_law": bool(frozen.by_law),
            "data": data,
            "about": json.dumps(about),
            "at": self.now,
        }
        self.insert(schema.policies, columns, 1)

    def finish(
        self, what: str, detail: dict[str, Any], *, request: tuple[str | None, str, dict[str, Any]] | None = None, **changed: Any
    ) -> int:
        """Write the line in the audit log and the experiment's row.

        Args:
            what: the name of the operation.
            detail: what is worth knowing of it.
            request: its id, what was asked, and the answer, so that the same request is answered the same again.
            changed: further columns of the experiment's row.

        Returns:
            The operation's position in the ledger.
        """
        position = self.position + 1
        if request is not None and request[0] is not None:
            request_id, asked, answer = request
            columns = {"request": request_id, "what": asked, "answer": json.dumps(answer), "position": position}
            self.insert(schema.requests, columns, 1)
        line = {"position": position, "what": what, "detail": json.dumps(detail), "actor": self.session.actor, "at": self.now}
        head = chain.link(self.row.chain, self._parts | {schema.audit.name: chain.rows(schema.audit, line, 1)})
        insert(self.c, schema.audit, {"experiment": self.session.id, "chain": head} | line, 1)
        self.position = position
        update(self.session, self.c, **{"position": position, "chain": head} | changed)
        return position


def arms_of(c: sa.Connection, experiment: int) -> list[DbRow]:
    """The rows of all arms there have been, in the order of their numbers."""
    table = schema.arms
    found = [record(row) for row in c.execute(sa.select(table).where(table.c.experiment == experiment).order_by(table.c.arm))]
    ledger.check_count("arms", sum(row.arm == i for i, row in enumerate(found)), len(found))
    return found


def labels(session: Session, c: sa.Connection) -> list[str]:
    """Those of all arms there have been."""
    return [row.label for row in arms_of(c, session.id)]


def update(session: Session, c: sa.Connection, **values: Any) -> None:
    """The experiment's row: the fold over the ledger, one step further."""
    database.update(c, schema.experiments, session.id, values)


def policy_row(c: sa.Connection, experiment: int, version: int) -> DbRow:
    table = schema.policies
    row = c.execute(sa.select(table).where(table.c.experiment == experiment, table.c.version == version)).first()
    if row is None:
        raise Damaged(f"policy version {version} is missing")
    return record(row)


def about(
    session: Session,
    arms: Sequence[Arm],
    active: tuple[int, ...],
    built: Built,
    state: Tree,
    *,
    counts: np.ndarray | None = None,
    diagnostics: dict[str, Any] | None = None,
    prior: dict[str, float] | None = None,
    repeat: int = 0,
    force: bool = False,
    cutoff: float | None = None,
    since: float | None = None,
    weighed_at: float | None = None,
    known: int | None = None,
    misfit: Sequence[str] = (),
    privacy: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """What a person may want to know of a policy version later.

    Args:
        session: the experiment.
        arms: all arms there have been.
        active: places of the active ones among them.
        built: the agent and its parts.
        state: the agent's state in this version.
        counts: of each arm, how many rewards it learned from; None where it learned from none.
        diagnostics: of the refresh; None where there was none.
        prior: numbers of the model's prior that were learned.
        repeat: refreshes there were since the last decision.
        force: whether the batch was closed before its rewards were in.
        cutoff: when the last window began that was over; None where windows do not matter.
        since: when the first decision was made, or exposed, that was not forgotten; None where none is.
        weighed_at: the moment for which silence was weighed by its age; None where it was not.
        known: how many decisions there were when the refresh began; None where there was none.
        misfit: how the model does not fit the rewards.
        privacy: what it releases, where refreshes are private.

    Returns:
        A table that JSON can hold, for the column `about` of the policies.
    """
    counts = np.zeros(len(arms), int) if counts is None else counts
    labels = [arms[i].label for i in active]
    theta = _theta(built.agent, state)
    names = [ALL_ARMS] if session.spec.shared else labels
    return {
        "n": {arms[i].label: int(counts[i]) for i in active},
        "theta": None if theta is None else {label: _finite(x) for label, x in zip(names, theta, strict=True)},
        "sampler": str(built.agent),
        "model": session.spec.model.words,
        "prior": prior or {},
        "seed": session.spec.seed,
        "repeat": repeat,
        "force": force,
        "cutoff": cutoff,
        "since": since,
        "weighed_at": weighed_at,
        "known": known,
        "misfit": list(misfit),
        **({} if privacy is None else {"privacy": privacy}),
        "diagnostics": {"finite": True} if diagnostics is None else diagnostics,
        "versions": {"blts": importlib.metadata.version("blts"), "jax": jax.__version__, "numpy": np.__version__},
        "precision": str(empty_dtype()),
        "platform": jax.default_backend(),
    }


def _theta(agent: Agent, state: Tree) -> np.ndarray | None:
    """Each arm's parameters where the agent keeps any: the chain's end, or the mean of a pool's."""
    if not agent.holds_posterior:
        return None
    if provides(agent.belief, "members"):
        return np.asarray(agent.belief.members(state), float).mean(1)
    return np.asarray(state.theta, float) if isinstance(state, PerturbState) else None


def _finite(x: np.ndarray) -> list[float | None]:
    return [float(v) if math.isfinite(v) else None for v in x]
