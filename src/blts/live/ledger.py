"""What the ledger says: the rewards that stand, as of any position, and the decisions that wait for one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sa

from .learning import Data
from .schema import decisions, rewards
from .store import chunks

SETTLED_WITHOUT_REWARD = ("missing", "cancelled")


class Standing(NamedTuple):
    """The last entry of a decision that has one."""

    kind: str
    reward: float | None


class Rows(NamedTuple):
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

    def plus(self, t: list[int], arms: list[int], reward: float) -> Rows:
        """These with the same reward for some more decisions."""
        if not t:
            return self
        every = np.concatenate([self.t, t])
        order = np.argsort(every, kind="stable")
        return Rows(
            every[order],
            np.concatenate([self.arms, arms])[order],
            np.concatenate([self.rewards, np.full(len(t), float(reward))])[order],
        )


NO_ROWS = Rows(np.zeros(0, int), np.zeros(0, int), np.zeros(0))


def digest(entries: Iterable[tuple[int, int, str, float | None]]) -> str:
    """A digest of reward entries (position, t, kind, reward)."""
    text = "\n".join(
        f"{position} {t} {kind} {None if reward is None else float(reward)!r}" for position, t, kind, reward in entries
    )
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def fetch(connection: sa.Connection, query: Any) -> list[tuple]:
    """All rows of a query as plain tuples."""
    cursor = connection.execute(query).cursor
    assert cursor is not None
    return list(cursor.fetchall())


def rows_until(connection: sa.Connection, experiment: int, watermark: int) -> Rows:
    """The rewards that stood at a position of the ledger: for each decision its last entry, where that is a reward."""
    query = (
        sa.select(rewards.c.t, decisions.c.arm, rewards.c.reward)
        .join(decisions, (decisions.c.experiment == rewards.c.experiment) & (decisions.c.t == rewards.c.t))
        .where(rewards.c.experiment == experiment, rewards.c.position <= watermark)
        .order_by(rewards.c.t, rewards.c.position)
    )
    found = fetch(connection, query)
    if not found:
        return NO_ROWS
    t, arms, values = (np.array(column) for column in zip(*found, strict=True))
    values = values.astype(float)  # None becomes NaN
    last = np.append(t[1:] != t[:-1], True) & ~np.isnan(values)
    return Rows(t[last].astype(int), arms[last].astype(int), values[last])


def standings(connection: sa.Connection, experiment: int, ts: Sequence[int]) -> dict[int, Standing]:
    """The last entries of some decisions."""
    out: dict[int, Standing] = {}
    for some in chunks(sorted(ts)):
        dense = some[-1] - some[0] < 2 * len(some)
        chosen = rewards.c.t.between(some[0], some[-1]) if dense else rewards.c.t.in_(_literal(some))
        query = (
            sa.select(rewards.c.t, rewards.c.kind, rewards.c.reward)
            .where(rewards.c.experiment == experiment, chosen)
            .order_by(rewards.c.t, rewards.c.position)
        )
        for t, kind, reward in fetch(connection, query):
            out[t] = Standing(kind, reward)
    return out


def _literal(numbers: list[int]) -> Any:
    """Numbers written into the statement, of which there may be more than a statement has parameters."""
    return sa.bindparam("some", numbers, expanding=True, literal_execute=True, type_=sa.BigInteger)


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
