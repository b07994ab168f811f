"""What the ledger says: the rewards that stand, as of any position, and the decisions that wait for one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sa

from .database import chunks, look_up
from .features import Encoding
from .learning import Data
from .schema import contexts, decisions, exposures, rewards

AT_ONCE = 50_000  # rows that are read at a time: Python rows take ten times the memory of arrays


class Standing(NamedTuple):
    """The last entry of a decision that has one."""

    kind: str
    reward: float | None


class Rewards(NamedTuple):
    """Rewards in the order of their decisions."""

    t: np.ndarray
    arms: np.ndarray
    rewards: np.ndarray
    x: np.ndarray | None = None
    """The numbers of their contexts; None where decisions have none."""

    def digest(self) -> str:
        found = hashlib.sha256()
        for column, kind in ((self.t, "<i8"), (self.arms, "<i8"), (self.rewards, "<f8"), (self.x, "<f8")):
            if column is not None:
                found.update(np.ascontiguousarray(column.astype(kind, copy=False)).tobytes())
        return found.hexdigest()

    @property
    def data(self) -> Data:
        return Data(self.arms, self.rewards, self.x)


NO_REWARDS = Rewards(np.zeros(0, int), np.zeros(0, int), np.zeros(0))


def digest(entries: Iterable[tuple[int, int, str, float | None]]) -> str:
    """A digest of reward entries (position, t, kind, reward)."""
    text = "\n".join(
        f"{position} {t} {kind} {None if reward is None else float(reward)!r}" for position, t, kind, reward in entries
    )
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def fetch(connection: sa.Connection, query: Any, values: dict[str, Any] | None = None) -> list[tuple]:
    """All rows of a query as plain tuples."""
    cursor = connection.execute(query, values).cursor
    assert cursor is not None
    return list(cursor.fetchall())


def pieces(
    connection: sa.Connection, columns: Sequence[sa.Column], order: Sequence[sa.Column], *where: Any
) -> Iterator[list[tuple]]:
    """Rows of a table, some at a time.

    Args:
        connection: to the database.
        columns: those that are wanted.
        order: columns of whole numbers that rows are sorted by; together they differ in every row.
        where: which rows.

    Returns:
        Lists of rows, none of them empty.
    """
    query = sa.select(*columns, *order).where(*where).order_by(*order).limit(AT_ONCE)
    rows = fetch(connection, query)
    while rows:
        yield [row[: len(columns)] for row in rows]
        if len(rows) < AT_ONCE:
            return
        last = sa.tuple_(*(sa.literal(value, sa.BigInteger) for value in rows[-1][len(columns) :]))
        rows = fetch(connection, query.where(sa.tuple_(*order) > last))


class Fold(NamedTuple):
    """All decisions and the rewards that stand, as far as the ledger was read. Nothing in it changes, so a later reading goes on
    from there. Arrays have one element for each decision 1, 2, …"""

    experiment: int
    watermark: int = 0
    arms: np.ndarray = np.zeros(0, int)
    at: np.ndarray = np.zeros(0)
    """When it was made."""
    exposed: np.ndarray = np.zeros(0)
    """When it was exposed; NaN where that was never told."""
    rewards: np.ndarray = np.zeros(0)
    """NaN where no reward stands."""
    settled: np.ndarray = np.zeros(0, bool)
    """Whether there is any entry about it."""
    encoding: Encoding | None = None
    """Of the contexts; None where decisions have none."""
    x: np.ndarray | None = None
    """The numbers of its context, `[decisions, columns]`."""
    entered: np.ndarray = np.zeros(0)
    """When the entry that stands was written; NaN where there is none."""

    def until(self, connection: sa.Connection, watermark: int, decisions: int) -> Fold:
        """Read on: of each decision the last entry stands.

        Args:
            connection: to the database.
            watermark: the position up to which entries are read.
            decisions: how many decisions there were by then.

        Returns:
            The decisions and what stands.
        """
        if watermark < self.watermark or decisions < len(self.arms):
            return Fold(self.experiment, encoding=self.encoding).until(connection, watermark, decisions)
        new_arms, new_at = _decisions_between(connection, self.experiment, len(self.arms), decisions)
        blank = np.full(len(new_arms), np.nan)
        exposed, standing, entered = (np.concatenate([old, blank]) for old in (self.exposed, self.rewards, self.entered))
        settled = np.concatenate([self.settled, np.zeros(len(new_arms), bool)])
        for table, column, into in ((rewards, rewards.c.reward, standing), (exposures, exposures.c.at, exposed)):
            new = table.c.experiment == self.experiment, table.c.position > self.watermark, table.c.position <= watermark
            for found in pieces(connection, (table.c.t, column, table.c.at), (table.c.position, table.c.t), *new):
                t, values, at = np.array(found, float).T  # None becomes NaN
                into[t.astype(int) - 1] = values  # where a decision comes twice, NumPy keeps the last
                if table is rewards:
                    settled[t.astype(int) - 1], entered[t.astype(int) - 1] = True, at
        arms, made = np.concatenate([self.arms, new_arms]), np.concatenate([self.at, new_at])
        x = None
        if self.encoding is not None:
            shown = contexts_between(connection, self.experiment, len(self.arms), decisions)
            check_count("contexts", len(shown), decisions - len(self.arms))
            new_x = self.encoding.of_texts([text for text, _ in shown])
            x = new_x if self.x is None else np.concatenate([self.x, new_x])
        return Fold(self.experiment, watermark, arms, made, exposed, standing, settled, self.encoding, x, entered)

    def starts(self, explicit: bool) -> np.ndarray:
        """When each decision's window began; NaN where it was not exposed, if exposure is told explicitly."""
        return self.exposed if explicit else self.at

    def with_reward(self, which: np.ndarray, reward: float | None) -> Fold:
        """The same with one reward for some more decisions; without a reward as it is."""
        if reward is None or not len(which):
            return self
        standing = self.rewards.copy()
        standing[which] = reward + 0.0  # as it will be stored
        return self._replace(rewards=standing)

    def rows(self, explicit: bool, cutoff: float | None, since: float | None = None) -> Rewards:
        """The rewards to learn from.

        Args:
            explicit: leave out decisions that were not exposed.
            cutoff: leave out decisions whose window began after it; None leaves out none.
            since: leave out decisions whose window began before it, which are forgotten; None leaves out none.

        Returns:
            Rewards in the order of their decisions.
        """
        ok = ~np.isnan(self.rewards)
        if explicit:
            ok &= ~np.isnan(self.exposed)
        if cutoff is not None:
            ok &= self.starts(explicit) <= cutoff
        if since is not None:
            ok &= self.starts(explicit) >= since
        here = np.flatnonzero(ok)
        return Rewards(here + 1, self.arms[here], self.rewards[here], None if self.x is None else self.x[here])


def check_count(what: str, found: int, written: int) -> None:
    """Fail where rows are missing, which arrays cannot show; `damage` says what is wrong (`LookupError`)."""
    if found != written:
        raise LookupError(f"{found} {what} of {written}")


def contexts_between(connection: sa.Connection, experiment: int, first: int, last: int) -> list[tuple[str, str | None]]:
    """What decisions first + 1 … last were shown, as it is stored: contexts, and which arms they could be."""
    own = contexts.c.experiment == experiment, contexts.c.t > first, contexts.c.t <= last
    return [row for some in pieces(connection, (contexts.c.context, contexts.c.available), (contexts.c.t,), *own) for row in some]


def _decisions_between(connection: sa.Connection, experiment: int, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
    """Arms and times of decisions first + 1 … last, as one text from the database: a million Python rows take ten times longer."""
    arms, at, done = np.empty(last - first, int), np.empty(last - first), first
    exact = sa.func.printf("%!.17g", decisions.c.at) if connection.dialect.name == "sqlite" else sa.cast(decisions.c.at, sa.Text)
    entry = sa.cast(decisions.c.t, sa.Text) + "," + sa.cast(decisions.c.arm, sa.Text) + "," + exact
    while done < last:
        end = min(done + AT_ONCE, last)
        own = decisions.c.experiment == experiment, decisions.c.t > done, decisions.c.t <= end
        text = connection.execute(sa.select(sa.func.aggregate_strings(entry, ",")).where(*own)).scalar()
        found = np.fromstring(text or "", float, sep=",").reshape(-1, 3)
        check_count("decisions", len(found), end - done)
        with np.errstate(invalid="raise"):  # a number that is not whole
            place = found[:, 0].astype(int) - first - 1
            arms[place], at[place] = found[:, 1].astype(int), found[:, 2]
        done = end
    return arms, at


def standings(connection: sa.Connection, experiment: int, ts: Sequence[int]) -> dict[int, Standing]:
    """The last entries of some decisions."""
    out: dict[int, Standing] = {}
    for some in chunks(sorted(ts)):
        if some[-1] - some[0] < 2 * len(some):
            found = fetch(connection, _ENTRIES_BETWEEN, {"experiment": experiment, "first": some[0], "last": some[-1]})
        else:
            found = sorted(look_up(connection, _ENTRY, experiment, rewards.c.t, some), key=lambda row: row[:2])
        for t, _, kind, reward in found:
            out[t] = Standing(kind, reward)
    return out


_ENTRY = rewards.c.t, rewards.c.position, rewards.c.kind, rewards.c.reward
_ENTRIES_BETWEEN = (  # built once, for the sake of small requests
    sa.select(*_ENTRY)
    .where(rewards.c.experiment == sa.bindparam("experiment"), rewards.c.t.between(sa.bindparam("first"), sa.bindparam("last")))
    .order_by(rewards.c.t, rewards.c.position)
)


def waiting(connection: sa.Connection, experiment: int, arm: int, limit: int, exposed: bool) -> list[int]:
    """The oldest decisions for an arm without any entry.

    Args:
        connection: to the database.
        experiment: its id.
        arm: the arm's number.
        limit: how many are wanted.
        exposed: leave out those that were not exposed.

    Returns:
        Their numbers, ascending.
    """
    own = sa.exists().where(rewards.c.experiment == decisions.c.experiment, rewards.c.t == decisions.c.t)
    query = sa.select(decisions.c.t).where(decisions.c.experiment == experiment, decisions.c.arm == arm, ~own)
    if exposed:
        query = query.where(sa.exists().where(exposures.c.experiment == decisions.c.experiment, exposures.c.t == decisions.c.t))
    return [t for (t,) in fetch(connection, query.order_by(decisions.c.t).limit(limit))]
