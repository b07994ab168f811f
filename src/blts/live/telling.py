"""Rewards as they are told, one by one or as totals; every row has a fate."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy as sa

from ..errors import ConfigError, UnknownName, whole
from . import aggregate, entries, ledger, parsing, refreshing
from .answers import Told
from .asking import MOST_AT_ONCE
from .database import DbRow

if TYPE_CHECKING:
    from .context import Context

NOT_ACCEPTED = ("duplicate", "conflict", "unknown", "invalid")


def tell(ctx: Context, rewards: Iterable[Any], request_id: str | None) -> Told:
    """DbRow (decision id, reward) pairs in one transaction."""
    rows = [parsing.parse(row, ctx.code, ctx.model) for row in rewards]
    what = "" if request_id is None else f"tell {_digest(rows)}"
    with ctx.database.write() as c:
        row = ctx.row(c, lock=True)
        known = entries.answered(ctx, c, request_id, what)
        if known is not None:
            return Told(**known)
        fates, accepted = _sorted(ctx, c, row, rows)
        counts = {"accepted": len(accepted)} | {fate: len(fates[fate]) for fate in NOT_ACCEPTED}
        awaited = row.awaited - sum(x.first and x.t > row.began for x in accepted)
        ids = {fate: some for fate, some in fates.items() if some}
        answer = Told(ids=ids, awaited=awaited, feedback_due=bool(row.due), **counts)  # type: ignore[arg-type]
        ts, values = [x.t for x in accepted], [x.reward for x in accepted]
        _write(ctx, c, row, "told", ts, values, answer, "tell", counts | {"awaited": awaited}, request_id, what)
    return answer._replace(why=refreshing.catch_up(ctx)) if ctx.external else answer


def tell_aggregate(ctx: Context, arm: str, count: int, totals: dict[str, float | None], request_id: str) -> Told:
    """Totals of `count` rewards of an arm, which settle its oldest waiting decisions."""
    if request_id is None:
        raise ConfigError("A total has no decision ids that make a retry harmless; give a request_id.")
    whole("count", count, 1, MOST_AT_ONCE)
    values = aggregate.rows(ctx.model, count, totals)
    what = "aggregate " + json.dumps([arm, count, totals])
    with ctx.database.write() as c:
        row = ctx.row(c, lock=True)
        known = entries.answered(ctx, c, request_id, what)
        if known is not None:
            return Told(**known)
        labels = entries.labels(ctx, c)
        if arm not in labels:
            raise UnknownName("arm", arm, labels)
        ts = ledger.waiting(c, ctx.id, arm=labels.index(arm), limit=count).t
        if len(ts) < count:
            raise ConfigError(f"The arm {arm!r} has {len(ts)} decisions that wait for a reward, and the total is for {count}.")
        awaited = row.awaited - sum(t > row.began for t in ts)
        answer = Told(count, 0, 0, 0, 0, {}, awaited, bool(row.due))
        given = {name: value for name, value in totals.items() if value is not None}
        _write(ctx, c, row, "aggregate", ts, values, answer, "aggregate", {"arm": arm, "count": count} | given, request_id, what)
    return answer._replace(why=refreshing.catch_up(ctx)) if ctx.external else answer


class _Accepted(NamedTuple):
    t: int
    reward: float
    first: bool
    """Whether the decision had no entry before."""


def _sorted(ctx: Context, c: sa.Connection, row: DbRow, rows: list[parsing.Row]) -> tuple[dict[str, list[Any]], list[_Accepted]]:
    """The rows that are not accepted by their fate, and those that are."""
    fates: dict[str, list[Any]] = {fate: [] for fate in NOT_ACCEPTED}
    mine = {r.t for r in rows if r.t is not None and r.t <= row.t}
    stands = ledger.standings(c, ctx.id, list(mine)) if mine else {}
    accepted: list[_Accepted] = []
    for r in rows:
        if r.malformed:
            fates["invalid"].append([r.id, r.invalid])
        elif r.t is None or r.t not in mine:
            fates["unknown"].append(r.id)
        elif r.invalid is not None:
            fates["invalid"].append([r.id, r.invalid])
        else:
            standing = stands.get(r.t)
            if standing is None or standing.kind in ("default", "missing"):
                accepted.append(_Accepted(r.t, r.reward, standing is None))
                stands[r.t] = ledger.Standing("told", r.reward)
            elif standing.kind in ("told", "corrected") and standing.reward == r.reward:
                fates["duplicate"].append(r.id)
            else:
                fates["conflict"].append(r.id)
    return fates, accepted


def _write(
    ctx: Context,
    c: sa.Connection,
    row: DbRow,
    kind: str,
    ts: list[int],
    values: list[float],
    answer: Told,
    what: str,
    detail: dict[str, Any],
    request_id: str | None,
    request: str,
) -> None:
    """Accepted rewards, the answer to the request, and a line in the audit log."""
    now, position = ctx.now(), row.position + len(ts) + 1
    digest = entries.add_rewards(ctx, c, row.position, ts, kind, values, now)
    entries.add_audit(ctx, c, position, what, detail | {"request": request_id, "digest": digest}, now)
    entries.add_request(ctx, c, request_id, request, answer._asdict())
    entries.update(ctx, c, position=position, awaited=answer.awaited)


def _digest(rows: list[parsing.Row]) -> str:
    """What tells one request from another under the same id."""
    return hashlib.sha256(repr([(row.id, row.reward, row.invalid) for row in rows]).encode()).hexdigest()[:24]
