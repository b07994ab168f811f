"""The ledger replayed: every decision made again, every refresh computed again, and compared with what is stored."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import jax.numpy as jnp
import numpy as np
import sqlalchemy as sa

from . import arms as changing
from . import asking, encoding, ledger, objective, policy, refreshing, schema
from .chain import check_chain
from .database import DbRow, record

if TYPE_CHECKING:
    from .context import Context, Policy

MOST = 100  # differences that are named


class _Made(NamedTuple):
    """Stored decisions."""

    t: np.ndarray
    arms: np.ndarray
    batch: np.ndarray
    policy: np.ndarray
    vector: np.ndarray


def differences(ctx: Context) -> list[str]:
    """What the replay finds otherwise than stored; nothing where all is well."""
    with ctx.database.read() as c:
        replay = _Replay(ctx, c)
        replay.run()
    return replay.found[:MOST]


class _Replay:
    def __init__(self, ctx: Context, c: sa.Connection):
        self.ctx, self.c = ctx, c
        self.found: list[str] = []
        self.row = ctx.row(c)
        self.fold = ledger.Fold(ctx.id)
        self.made = self._decisions()

    def run(self) -> None:
        me, table = self.ctx, schema.policies
        found = self.c.execute(sa.select(table).where(table.c.experiment == me.id).order_by(table.c.version))
        entries = [record(row) for row in found]
        self._check_positions(entries)
        if [entry.version for entry in entries] != list(range(1, self.row.versions + 1)):
            self._say("policy versions are missing")
        self._check_digests()
        self.found += check_chain(self.ctx, self.c, self.row)
        self.found += objective.differences(self.ctx, self.c)
        if self.found:  # what is left of a ledger with gaps cannot be replayed
            return
        current = me.load(self.c, 1)
        state = policy.start(me.key, current.built.agent)
        current = current._replace(frozen=policy.freeze(current.built.agent, state, me.spec.draw))
        self._compare(entries[0], current.frozen)
        ticks = policy.start_clock(me.key, current.built.batching, len(current.active))
        batch, began, closing, last = 1, 0, 0, 0
        for entry, following in zip(entries, [*entries[1:], None], strict=True):
            if entry.version > 1:
                if entry.kind == "refresh":
                    made = self._refreshed(current, entry)
                    ticks = ticks._replace(due=jnp.zeros((), bool))
                    batch, began, closing = batch + 1, closing or entry.t, 0
                else:
                    stored = me.load(self.c, entry.version)
                    made, ticks = changing.carried(me, current, ticks, stored.active, stored.built, entry.version)
                    current = stored._replace(frozen=current.frozen)
                self._compare(entry, made)
                if entry.in_use:
                    current = current._replace(version=entry.version, frozen=made)
            end = self.row.t if following is None else following.t
            ticks, closes = self._decided(current, ticks, batch, last, end)
            closing = closing or closes
            last = end
        self._check_row(current, ticks, batch, began, closing)

    def _say(self, sentence: str) -> None:
        self.found.append(sentence)

    def _decisions(self) -> _Made:
        table = schema.decisions
        query = sa.select(table.c.t, table.c.arm, table.c.batch, table.c.policy, table.c.vector)
        found = ledger.fetch(self.c, query.where(table.c.experiment == self.ctx.id).order_by(table.c.t))
        columns = zip(*found, strict=True) if found else [()] * 5
        return _Made(*(np.array(list(column)) for column in columns))

    def _check_positions(self, entries: list[DbRow]) -> None:
        """No entry of the ledger is missing, and none is there twice."""
        positions = {entry.position for entry in entries}
        for table in (schema.audit, schema.rewards):
            positions |= set(self.c.execute(sa.select(table.c.position).where(table.c.experiment == self.ctx.id)).scalars())
        if positions != set(range(1, self.row.position + 1)):
            self._say(f"the ledger has {len(positions)} entries up to position {self.row.position}")
        if self.made.t.tolist() != list(range(1, self.row.t + 1)):
            self._say(f"there are {len(self.made.t)} decisions, and {self.row.t} were made")

    def _check_digests(self) -> None:
        """Every operation's reward entries are those that it wrote; for operations before there was a chain."""
        me, table, log = self.ctx, schema.rewards, schema.audit
        query = sa.select(table.c.position, table.c.t, table.c.kind, table.c.reward).where(table.c.experiment == me.id)
        entries = ledger.fetch(self.c, query.order_by(table.c.position))
        places = np.array([entry[0] for entry in entries])
        before = 0
        operations = sa.select(log.c.position, log.c.what, log.c.detail, log.c.chain).where(log.c.experiment == me.id)
        for position, what, detail, linked in ledger.fetch(self.c, operations.order_by(log.c.position)):
            own = entries[np.searchsorted(places, before, "right") : np.searchsorted(places, position)]
            if not linked and json.loads(detail).get("digest", ledger.digest([])) != ledger.digest(own):
                self._say(f"the entries of the {what} at position {position} were changed")
            before = position

    def _refreshed(self, current: Policy, entry: DbRow) -> policy.Frozen:
        about = json.loads(entry.about)
        self.fold = self.fold.until(self.c, entry.watermark, entry.t)
        rows = self.fold.rows(self.ctx.spec.exposure == "explicit", about.get("cutoff"))
        if rows.digest() != entry.data:
            self._say(f"version {entry.version} learned from other rewards than the ledger has up to {entry.watermark}")
        return refreshing.learned(self.ctx, current, rows, entry.t, about["repeat"])[0]

    def _compare(self, entry: DbRow, made: policy.Frozen) -> None:
        for what, stored, again in (
            ("state", entry.state, encoding.encode(made.state)),
            ("propensities", entry.law, encoding.encode([made.law])),
        ):
            if stored != again:
                self._say(f"version {entry.version} has another {what} than its replay")
        if bool(entry.by_law) != bool(made.by_law):
            self._say(f"version {entry.version} draws its arms otherwise than its replay")

    def _decided(self, current: Policy, ticks: policy.Clock, batch: int, first: int, last: int) -> tuple[policy.Clock, int]:
        """Decisions first + 1 … last again: the clock after them, and the decision that closed the batch, or 0."""
        if last == first:
            return ticks, 0
        after, arms, laws, closing = asking.decide(self.ctx, current, ticks, last - first)
        made = _Made(*(column[first:last] for column in self.made))
        arms = np.array([current.active[a] for a in arms])
        if len(arms) < last - first:
            self._say(f"batch {batch} ended after {first + len(arms)} decisions, and {last} were made")
            return after, 0
        wrong = np.flatnonzero(arms != made.arms)
        if wrong.size:
            self._say(f"decision {first + 1 + wrong[0]} and {wrong.size - 1} more played another arm than their replay")
        if not ((made.batch == batch).all() and (made.policy == current.version).all()):
            self._say(f"decisions {first + 1} to {last} have another batch or policy than their replay")
        if not (np.array(asking.Vectors(current, laws).of_decisions) == made.vector).all():
            self._say(f"decisions {first + 1} to {last} have other propensities than their replay")
        return after, 0 if closing is None else first + closing

    def _check_row(self, current: Policy, ticks: policy.Clock, batch: int, began: int, closing: int) -> None:
        row, c, me = self.row, self.c, self.ctx
        vectors = c.execute(sa.select(schema.vectors).where(schema.vectors.c.experiment == me.id)).all()
        if any(asking.digest(v.probabilities) != v.vector for v in vectors):
            self._say("a propensity vector was changed")
        if set(self.made.vector.tolist()) - {v.vector for v in vectors}:
            self._say("a propensity vector is missing")
        last = closing or row.t
        table = schema.rewards
        settled = {t for (t,) in ledger.fetch(c, sa.select(table.c.t).distinct().where(table.c.experiment == me.id))}
        again = {
            "version": current.version,
            "batch": batch,
            "began": began,
            "due": bool(ticks.due),
            "closing": closing,
            "awaited": last - began - sum(began < t <= last for t in settled),
            "settled": len(settled),
            "entries": c.execute(sa.select(sa.func.count()).where(table.c.experiment == me.id)).scalar_one(),
            "clock": encoding.clock_text(ticks),
            "paused": _paused(c, me.id),
            "stopped": _stopped(c, me.id),
        }
        for name, value in again.items():
            if getattr(row, name) != value:
                self._say(f"the experiment has {name} {getattr(row, name)!r}, and its replay {value!r}")


def _paused(c: sa.Connection, experiment: int) -> bool:
    table = schema.audit
    query = (
        sa.select(table.c.what)
        .where(table.c.experiment == experiment, table.c.what.in_(("pause", "resume")))
        .order_by(table.c.position.desc())
        .limit(1)
    )
    return c.execute(query).scalar() == "pause" or _stopped(c, experiment) == ""


def _stopped(c: sa.Connection, experiment: int) -> str | None:
    """The arm that was promoted when the experiment was stopped, empty if none was; None while it runs."""
    table = schema.audit
    detail = c.execute(sa.select(table.c.detail).where(table.c.experiment == experiment, table.c.what == "stop")).scalar()
    return None if detail is None else json.loads(detail)["promote"] or ""
