"""Entries about rewards: told one by one or as totals, corrected, cancelled. The answer says what became of each row."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy as sa

from ..errors import ConfigError, UnknownName, whole
from ..models import Model
from . import aggregate, entries, ledger, refreshing
from .answers import Told
from .asking import MOST_AT_ONCE
from .checks import outside
from .database import DbRow

if TYPE_CHECKING:
    from .context import Context

_ID = re.compile(r"([0-9a-f]{8})-([1-9][0-9]{0,17})", re.ASCII)
NOT_ACCEPTED = ("duplicate", "conflict", "unknown", "invalid")


def tell(ctx: Context, rewards: Iterable[Any], request_id: str | None) -> Told:
    """DbRow (decision id, reward) pairs in one transaction."""
    rows = [parse(row, ctx.code, ctx.model) for row in rewards]
    what = "" if request_id is None else f"tell {_digest(rows)}"
    with ctx.database.write() as c:
        row = ctx.row(c, lock=True)
        known = entries.answered(ctx, c, request_id, what)
        if known is not None:
            return Told(**known)
        outcomes, accepted = _sorted(ctx, c, row, rows)
        counts = {"accepted": len(accepted)} | {outcome: len(outcomes[outcome]) for outcome in NOT_ACCEPTED}
        awaited = row.awaited - sum(x.first and x.t > row.began for x in accepted)
        ids = {outcome: some for outcome, some in outcomes.items() if some}
        answer = Told(ids=ids, awaited=awaited, feedback_due=bool(row.due), **counts)  # type: ignore[arg-type]
        new = _Entries("told", [x.t for x in accepted], [x.reward for x in accepted])
        _write(ctx, c, row, new, answer, audit=("tell", counts | {"awaited": awaited}), request=(request_id, what))
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
        audit = "aggregate", {"arm": arm, "count": count} | given
        _write(ctx, c, row, _Entries("aggregate", ts, values), answer, audit=audit, request=(request_id, what))
    return answer._replace(why=refreshing.catch_up(ctx)) if ctx.external else answer


class _Accepted(NamedTuple):
    t: int
    reward: float
    first: bool
    """Whether the decision had no entry before."""


def _sorted(ctx: Context, c: sa.Connection, row: DbRow, rows: list[ParsedRow]) -> tuple[dict[str, list[Any]], list[_Accepted]]:
    """Rejected rows by outcome, and accepted rows."""
    outcomes: dict[str, list[Any]] = {outcome: [] for outcome in NOT_ACCEPTED}
    mine = {r.t for r in rows if r.t is not None and r.t <= row.t}
    stands = ledger.standings(c, ctx.id, list(mine)) if mine else {}
    accepted: list[_Accepted] = []
    for r in rows:
        if r.malformed:
            outcomes["invalid"].append([r.id, r.invalid])
        elif r.t is None or r.t not in mine:
            outcomes["unknown"].append(r.id)
        elif r.invalid is not None:
            outcomes["invalid"].append([r.id, r.invalid])
        else:
            standing = stands.get(r.t)
            if standing is None or standing.kind in ("default", "missing"):
                accepted.append(_Accepted(r.t, r.reward, standing is None))
                stands[r.t] = ledger.Standing("told", r.reward)
            elif standing.kind in ("told", "corrected") and standing.reward == r.reward:
                outcomes["duplicate"].append(r.id)
            else:
                outcomes["conflict"].append(r.id)
    return outcomes, accepted


class _Entries(NamedTuple):
    kind: str
    ts: list[int]
    rewards: list[float]


def _write(
    ctx: Context,
    c: sa.Connection,
    row: DbRow,
    new: _Entries,
    answer: Told,
    *,
    audit: tuple[str, dict[str, Any]],
    request: tuple[str | None, str],
) -> None:
    """Write accepted rewards, the answer to the request, and a line in the audit log."""
    now, position, (what, detail), (request_id, asked) = ctx.now(), row.position + len(new.ts) + 1, audit, request
    digest = entries.add_rewards(ctx, c, row.position, new.ts, new.kind, new.rewards, now)
    entries.add_audit(ctx, c, position, what, detail | {"request": request_id, "digest": digest}, now)
    entries.add_request(ctx, c, request_id, asked, answer._asdict())
    entries.update(ctx, c, position=position, awaited=answer.awaited)


def _digest(rows: list[ParsedRow]) -> str:
    """What tells one request from another under the same id."""
    return hashlib.sha256(repr([(row.id, row.reward, row.invalid) for row in rows]).encode()).hexdigest()[:24]


def correct(ctx: Context, decision_id: str, reward: float, reason: str) -> bool:
    """Replace a reward by a new entry; False where the decision has that reward already."""
    parsed = parse((decision_id, reward), ctx.code, ctx.model)
    if parsed.invalid is not None:
        raise ConfigError(f"{decision_id}: {parsed.invalid}.")
    return _supersede(ctx, "correct", [(decision_id, parsed.t)], ledger.Standing("corrected", parsed.reward), reason) > 0


def cancel(ctx: Context, decision_ids: Sequence[str], reason: str) -> int:
    """Take decisions out, whose unit was never exposed; how many were not cancelled before."""
    ids = [decision_ids] if isinstance(decision_ids, str) else decision_ids
    pairs = [(i, index_of(i, ctx.code)) for i in ids]
    return _supersede(ctx, "cancel", pairs, ledger.Standing("cancelled", None), reason)


def _supersede(ctx: Context, what: str, ids: Sequence[tuple[str, int | None]], entry: ledger.Standing, reason: str) -> int:
    """Append an entry for each decision whose last entry says something else; return how many were appended."""
    kind, reward = entry
    with ctx.database.write() as c:
        row = ctx.row(c, lock=True)
        unknown = [i for i, t in ids if t is None or t > row.t]
        if unknown:
            raise ConfigError(f"There is no decision {unknown[0]!r} in the experiment {ctx.name!r}.")
        ts = sorted({t for _, t in ids if t is not None})
        stands = ledger.standings(c, ctx.id, ts) if ts else {}
        new = [t for t in ts if stands.get(t) not in (entry, ledger.Standing("told", reward))]
        if not new:
            return 0
        now, position = ctx.now(), row.position + len(new) + 1
        digest = entries.add_rewards(ctx, c, row.position, new, kind, [reward] * len(new), now)
        detail = {
            "decisions": [f"{ctx.code}-{t}" for t in new],
            "before": [stands.get(t) for t in new],
            "reason": reason,
            "digest": digest,
            "reward": reward,
        }
        entries.add_audit(ctx, c, position, what, detail, now)
        awaited = row.awaited - sum(t > row.began and t not in stands for t in new)
        entries.update(ctx, c, position=position, awaited=awaited)
        return len(new)


# Rows as they are given


class ParsedRow(NamedTuple):
    id: str
    t: int | None
    """The decision's number, or None where the id is not of this experiment."""
    reward: float
    invalid: str | None
    """Why the reward cannot be learned from."""
    malformed: bool = False
    """The row is not even a pair."""


def parse(row: object, code: str, model: Model) -> ParsedRow:
    """Read one row of `tell`, whatever it is.

    Args:
        row: a (decision id, reward) pair, or anything else.
        code: what the ids of this experiment's decisions begin with.
        model: what the reward must be possible under.

    Returns:
        The decision's number and the reward, or why the row is invalid.
    """
    try:
        decision, reward = row  # type: ignore[misc]
    except (TypeError, ValueError):
        return ParsedRow(_shown(row), None, math.nan, "a row is a decision id and a reward", True)
    number, invalid = _number(reward)
    if invalid is None:
        invalid = outside(model, number)
    return ParsedRow(decision if isinstance(decision, str) else _shown(decision), index_of(decision, code), number, invalid)


def index_of(decision: object, code: str) -> int | None:
    """The number of a decision of this experiment, from its id."""
    match = _ID.fullmatch(decision) if isinstance(decision, str) else None
    return int(match[2]) if match is not None and match[1] == code else None


def _number(reward: Any) -> tuple[float, str | None]:
    if isinstance(reward, str | bytes) or reward is None:
        return math.nan, "a reward must be a number"
    try:
        return float(reward), None
    except (TypeError, ValueError, OverflowError):
        return math.nan, "a reward must be a number"


def _shown(value: object) -> str:
    return repr(value)[:100]
