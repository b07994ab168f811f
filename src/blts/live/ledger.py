"""What the ledger says: the rewards that stand, as of any position, and the decisions that wait for one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sa

from .database import chunks
from .learning import Data
from .schema import decisions, rewards

AT_ONCE = 1_000_000  # decisions read as one text


class Standing(NamedTuple):
    """The last entry of a decision that has one."""

    kind: str
    reward: float | None


class Rewards(NamedTuple):
    """Rewards in the order of their decisions."""

    t: np.ndarray
    arms: np.ndarray
    rewards: np.ndarray

    def digest(self) -> str:
        parts = (self.t.astype("<i8"), self.arms.astype("<i8"), self.rewards.astype("<f8"))
        return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()

    @property
    def data(self) -> Data:
        return Data(self.arms, self.rewards)

    def plus(self, t: list[int], arms: list[int], reward: float) -> Rewards:
        """These with the same reward for some more decisions."""
        if not t:
            return self
        every = np.concatenate([self.t, t])
        order = np.argsort(every, kind="stable")
        return Rewards(
            every[order],
            np.concatenate([self.arms, arms])[order],
            np.concatenate([self.rewards, np.full(len(t), float(reward))])[order],
        )


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


class Fold(NamedTuple):
    """The rewards that stand, as far as the ledger was read. Nothing in it changes, so a later reading goes on from there."""

    experiment: int
    watermark: int = 0
    arms: np.ndarray = np.zeros(0, int)
    """Of decision 1, 2, …"""
    rewards: np.ndarray = np.zeros(0)
    """NaN where no reward stands."""

    def until(self, connection: sa.Connection, watermark: int) -> Fold:
        """With the entries up to a position: of each decision the last one stands."""
        if watermark < self.watermark:
            return Fold(self.experiment).until(connection, watermark)
        new = rewards.c.experiment == self.experiment, rewards.c.position > self.watermark, rewards.c.position <= watermark
        entries = fetch(connection, sa.select(rewards.c.t, rewards.c.reward).where(*new).order_by(rewards.c.position))
        t, values = np.array(entries, float).reshape(-1, 2).T  # None becomes NaN
        arms = self.arms
        if t.max(initial=0) > len(arms):
            arms = np.concatenate([arms, _arms_after(connection, self.experiment, len(arms))])
        standing = np.concatenate([self.rewards, np.full(len(arms) - len(self.arms), np.nan)])
        standing[t.astype(int) - 1] = values  # where a decision comes twice, NumPy keeps the last
        return Fold(self.experiment, watermark, arms, standing)

    @property
    def rows(self) -> Rewards:
        here = np.flatnonzero(~np.isnan(self.rewards))
        return Rewards(here + 1, self.arms[here], self.rewards[here])


def _arms_after(connection: sa.Connection, experiment: int, t: int) -> np.ndarray:
    """The arms of decisions t + 1, t + 2, …, as one text from the database: a million Python rows take ten times longer."""
    pieces = []
    while True:
        own = decisions.c.experiment == experiment, decisions.c.t > t, decisions.c.t <= t + AT_ONCE
        pair = sa.cast(decisions.c.t, sa.Text) + "," + sa.cast(decisions.c.arm, sa.Text)
        text = connection.execute(sa.select(sa.func.aggregate_strings(pair, ",")).where(*own)).scalar()
        if text is None:
            return np.concatenate(pieces)
        found = np.fromstring(text, int, sep=",").reshape(-1, 2)
        piece = np.empty(len(found), int)
        piece[found[:, 0] - t - 1] = found[:, 1]
        pieces.append(piece)
        t += len(piece)


def standings(connection: sa.Connection, experiment: int, ts: Sequence[int]) -> dict[int, Standing]:
    """The last entries of some decisions."""
    out: dict[int, Standing] = {}
    for some in chunks(sorted(ts)):
        dense = some[-1] - some[0] < 2 * len(some)
        chosen = {"first": some[0], "last": some[-1]} if dense else {"some": some}
        found = fetch(connection, _ENTRIES_BETWEEN if dense else _ENTRIES_OF, {"experiment": experiment} | chosen)
        for t, kind, reward in found:
            out[t] = Standing(kind, reward)
    return out


# Built once, for the sake of small requests.
_ENTRIES = (
    sa.select(rewards.c.t, rewards.c.kind, rewards.c.reward)
    .where(rewards.c.experiment == sa.bindparam("experiment"))
    .order_by(rewards.c.t, rewards.c.position)
)
_ENTRIES_BETWEEN = _ENTRIES.where(rewards.c.t.between(sa.bindparam("first"), sa.bindparam("last")))
# Numbers written into the statement, of which there may be more than a statement has parameters.
_ENTRIES_OF = _ENTRIES.where(rewards.c.t.in_(sa.bindparam("some", expanding=True, literal_execute=True, type_=sa.BigInteger)))


class Waiting(NamedTuple):
    t: list[int]
    arms: list[int]


NOBODY = Waiting([], [])


def waiting(
    connection: sa.Connection,
    experiment: int,
    *,
    asked_before: float | None = None,
    arm: int | None = None,
    limit: int | None = None,
) -> Waiting:
    """Decisions without any entry, the oldest first."""
    own = sa.exists().where(rewards.c.experiment == decisions.c.experiment, rewards.c.t == decisions.c.t)
    query = sa.select(decisions.c.t, decisions.c.arm).where(decisions.c.experiment == experiment, ~own)
    if asked_before is not None:
        query = query.where(decisions.c.at <= asked_before)
    if arm is not None:
        query = query.where(decisions.c.arm == arm)
    found = fetch(connection, query.order_by(decisions.c.t).limit(limit))
    return Waiting([t for t, _ in found], [a for _, a in found])
