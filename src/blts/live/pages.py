"""Decisions, policy versions and the audit log, some at a time: a page costs the same in an experiment of a million decisions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import sqlalchemy as sa

from ..errors import ConfigError, UnknownName, whole
from . import encoding, entries, ledger, schema, status
from .answers import Page
from .asking import units_of
from .checks import check_text
from .damage import notices
from .database import DbRow, record
from .export import WAITING
from .request import unit_hash
from .telling import index_of
from .vectors import by_label, stored_vectors

if TYPE_CHECKING:
    from .session import Session

LONGEST = 1000  # rows of a page


class Pages:
    """The methods of an experiment that show its ledger, some rows at a time."""

    session: Session

    @notices
    def audit(self) -> list[dict[str, Any]]:
        """Everything that was done, in order."""
        return status.audit(self.session)

    @notices
    def audit_page(self, *, after: int | None = None, before: int | None = None, limit: int = 100) -> Page:
        """A page of the audit log, by the lines' positions; the arguments are those of `decisions`."""
        return _audit(self.session, Cursor.checked(after, before, limit))

    @notices
    def decisions(self, *, after: int | None = None, before: int | None = None, limit: int = 100) -> Page:
        """A page of decisions, by their numbers 1, 2, …

        >>> from blts.live import Experiment
        >>> mail = Experiment.create("sqlite://", "mail", ["A", "B"], "conversions")
        >>> asked = mail.ask(5).decisions
        >>> page = mail.decisions(limit=2)
        >>> [row["t"] for row in page.rows], page.next
        ([5, 4], 4)
        >>> [row["t"] for row in mail.decisions(before=page.next, limit=2).rows]
        [3, 2]
        >>> [row["t"] for row in mail.decisions(after=0, limit=2).rows]
        [1, 2]

        Args:
            after: those with a larger number, ascending.
            before: those with a smaller number, the newest first; with neither, the newest of all.
            limit: rows, at most 1,000.

        Returns:
            The rows, and where the next page begins. Each row has the decision's id, arm, batch, policy version, propensities,
            time, and what became of it: "status", "reward", "told_at" and "exposed_at".
        """
        return _decisions(self.session, Cursor.checked(after, before, limit))

    @notices
    def decision(self, decision_id: str | None = None, *, unit: str | None = None) -> dict[str, Any]:
        """One decision as `decisions` has it, with every entry about it: "rewards" and "metrics" in the order in which they were
        written, and where features are declared its "context" and the arms that were "available" (None for all).

        Args:
            decision_id: its id.
            unit: or whom it is for.

        Raises:
            UnknownName: there is none.
        """
        return _decision(self.session, decision_id, unit)

    @notices
    def policies(self, *, after: int | None = None, before: int | None = None, limit: int = 100) -> Page:
        """A page of policy versions, by their numbers; the arguments are those of `decisions`.

        Returns:
            For each version when and why it was written, whether it is in use and if not why, its arms, their allocation (None
            where it depends on the decision), and from how many rewards of each it learned.
        """
        return _policies(self.session, Cursor.checked(after, before, limit))

    @notices
    def policy(self, version: int | None = None) -> dict[str, Any]:
        """A policy version as it was written; by default the one in use."""
        return status.policy_entry(self.session, version)


class Cursor(NamedTuple):
    """Which rows of a table a page has: those after a number, ascending; or those before it, or the last ones, newest first."""

    after: int | None
    before: int | None
    limit: int

    @classmethod
    def checked(cls, after: int | None, before: int | None, limit: int) -> Cursor:
        """From what a caller gave (`ConfigError` where that makes no page)."""
        if after is not None and before is not None:
            raise ConfigError("Give after, for rows in their order, or before, for the newest first, not both.")
        first = None if after is None else whole("after", after, 0, 2**62)
        last = None if before is None else whole("before", before, 0, 2**62)
        return cls(first, last, whole("limit", limit, 1, LONGEST))

    def read(self, c: sa.Connection, query: sa.Select, column: sa.Column) -> tuple[list[DbRow], int | None]:
        """The rows of a page, and its `next`; `column` numbers the rows."""
        if self.after is not None:
            query = query.where(column > self.after).order_by(column)
        elif self.before is not None:
            query = query.where(column < self.before).order_by(column.desc())
        else:
            query = query.order_by(column.desc())
        found = [record(row) for row in c.execute(query.limit(self.limit + 1))]
        rows = found[: self.limit]
        return rows, getattr(rows[-1], column.name) if len(found) > len(rows) else None


def _decisions(session: Session, cursor: Cursor) -> Page:
    """A page of decisions, each with its propensities and its reward as it stands."""
    table = schema.decisions
    with session.database.read() as c:
        found, following = cursor.read(c, sa.select(table).where(table.c.experiment == session.id), table.c.t)
        ts = [row.t for row in found]
        stands = _last_entries(session, c, ts)
        exposed = _exposed_at(session, c, ts)
        rows = _decided(session, c, found)
    for row in rows:
        kind, reward, at = stands.get(row["t"], (WAITING, None, None))
        row |= {"status": kind, "reward": reward, "told_at": at, "exposed_at": exposed.get(row["t"])}
    return Page(rows, following)


def _decision(session: Session, decision_id: str | None, unit: str | None) -> dict[str, Any]:
    """One decision, with every entry about it in the order in which they were written."""
    if (decision_id is None) == (unit is None):
        raise ConfigError("Give the id of a decision or a unit, one of them.")
    if unit is not None:
        check_text("unit", unit)
    table, told, measured = schema.decisions, schema.rewards, schema.measures
    with session.database.read() as c:
        if unit is None:
            t = index_of(decision_id, session.code)
        else:
            t = units_of(session, c, [unit_hash(session, unit)]).get(unit_hash(session, unit))
        own = sa.select(table).where(table.c.experiment == session.id, table.c.t == t)
        found = None if t is None or t > 2**62 else c.execute(own).first()
        if found is None or t is None:
            raise UnknownName("decision", str(decision_id), ()) if unit is None else UnknownName("unit with a decision", unit, ())
        (row,) = _decided(session, c, [record(found)])
        mine = told.c.experiment == session.id, told.c.t == t
        entered = [record(one) for one in c.execute(sa.select(told).where(*mine).order_by(told.c.position))]
        names = [metric.name for metric in session.spec.metrics]
        mine = measured.c.experiment == session.id, measured.c.metric.in_(names), measured.c.t == t
        values = [record(one) for one in c.execute(sa.select(measured).where(*mine).order_by(measured.c.position))] if names else []
        shown_to = ledger.contexts_between(c, session.id, t - 1, t)
        labels = entries.labels(session, c)
        exposed = _exposed_at(session, c, [t]).get(t)
    last = entered[-1] if entered else None
    row |= {
        "status": last.kind if last else WAITING,
        "reward": last.reward if last else None,
        "told_at": last.at if last else None,
        "exposed_at": exposed,
        "rewards": [{"position": e.position, "kind": e.kind, "reward": e.reward, "at": e.at} for e in entered],
        "metrics": [{"position": e.position, "metric": e.metric, "kind": e.kind, "value": e.value, "at": e.at} for e in values],
    }
    for context, mask in shown_to:
        available = None if mask is None else [labels[k] for k in json.loads(mask)]
        row |= {"context": json.loads(context), "available": available}
    return row


def _decided(session: Session, c: sa.Connection, found: Sequence[DbRow]) -> list[dict[str, Any]]:
    """What was decided, without what became of it."""
    labels = entries.labels(session, c)
    ledger.check_count("decisions of an arm", sum(0 <= row.arm < len(labels) for row in found), len(found))
    names = sorted({row.vector for row in found})
    laws = {name: by_label(labels, text) for name, text in stored_vectors(session, c, names).items()}
    ledger.check_count("propensity vectors", len(laws), len(names))
    return [
        {
            "id": f"{session.code}-{row.t}",
            "t": row.t,
            "arm": labels[row.arm],
            "batch": row.batch,
            "policy": row.policy,
            "at": row.at,
            "propensity": laws[row.vector][labels[row.arm]],
            "propensities": laws[row.vector],
        }
        for row in found
    ]


def _last_entries(session: Session, c: sa.Connection, ts: Sequence[int]) -> dict[int, tuple[str, float | None, float]]:
    """What the last entry about each of some neighbouring decisions says: its kind, reward and time."""
    if not ts:
        return {}
    table = schema.rewards
    query = sa.select(table.c.t, table.c.kind, table.c.reward, table.c.at).where(table.c.experiment == session.id)
    between = query.where(table.c.t.between(min(ts), max(ts))).order_by(table.c.t, table.c.position)
    return {t: (kind, reward, at) for t, kind, reward, at in ledger.fetch(c, between)}


def _exposed_at(session: Session, c: sa.Connection, ts: Sequence[int]) -> dict[int, float]:
    if not ts:
        return {}
    table = schema.exposures
    own = table.c.experiment == session.id, table.c.t.between(min(ts), max(ts))
    return dict(ledger.fetch(c, sa.select(table.c.t, table.c.at).where(*own)))


def _policies(session: Session, cursor: Cursor) -> Page:
    """A page of policy versions."""
    table = schema.policies
    columns = [table.c[name] for name in ("version", "kind", "batch", "t", "at", "in_use", "failings", "arms", "law", "about")]
    with session.database.read() as c:
        found, following = cursor.read(c, sa.select(*columns).where(table.c.experiment == session.id), table.c.version)
        labels = entries.labels(session, c)
    laws = allocations(session, labels, found)
    return Page([_version(row, law) for row, law in zip(found, laws, strict=True)], following)


def _version(row: DbRow, allocation: dict[str, float | None]) -> dict[str, Any]:
    about = json.loads(row.about)
    return {
        "version": row.version,
        "kind": row.kind,
        "batch": row.batch,
        "t": row.t,
        "at": row.at,
        "in_use": bool(row.in_use),
        "failings": json.loads(row.failings),
        "active": list(allocation),
        "allocation": None if None in allocation.values() else allocation,
        "n": about["n"],
        "misfit": about.get("misfit", []),
        "force": about.get("force", False),
    }


def allocations(session: Session, labels: list[str], found: Sequence[DbRow]) -> list[dict[str, float | None]]:
    """The propensities of the arms of some policy versions after burn-in, from what is stored of them.

    Args:
        session: the experiment.
        labels: of all arms there have been.
        found: rows of the policies, with their columns "arms" and "law".

    Returns:
        For each version the propensities of its active arms; None for all of them where they depend on the decision.
    """
    mixtures = {text: session.spec.mixture([labels[i] for i in json.loads(text)]) for text in {row.arms for row in found}}
    out = []
    for row in found:
        (law,) = encoding.decode(row.law, [0])
        own = status.mixed(mixtures[row.arms], law)
        shares = [None] * own.size if np.isnan(own).any() else own.tolist()
        out.append(dict(zip([labels[i] for i in json.loads(row.arms)], shares, strict=True)))
    return out


def _audit(session: Session, cursor: Cursor) -> Page:
    """A page of the audit log."""
    table = schema.audit
    with session.database.read() as c:
        found, following = cursor.read(c, sa.select(table).where(table.c.experiment == session.id), table.c.position)
    return Page([status.line(row) for row in found], following)
