"""Entries about rewards: told one by one or as totals, corrected, cancelled. The answer says what became of each row."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import sqlalchemy as sa

from ..errors import ConfigError, UnknownName, shown, whole
from ..models import Gamma, Model
from . import aggregate, entries, ledger
from .answers import Decision, Told
from .asking import units_of
from .checks import check_reason, check_text, outside
from .database import DbRow
from .parts import Arm
from .private import refuse_totals
from .request import MOST_AT_ONCE, unit_hash
from .status import warnings

if TYPE_CHECKING:
    from .session import Session

_ID = re.compile(r"([0-9a-f]{8}|[0-9a-f]{16})-([1-9][0-9]{0,17})", re.ASCII)
NOT_ACCEPTED = ("duplicate", "conflict", "unknown", "invalid")


def tell(session: Session, rewards: Iterable[Any], request_id: str | None) -> Told:
    """Record rewards of decisions or units in one transaction."""
    rows = with_units(session, [parse(row, session.code, session.model) for row in rewards])
    what = "" if request_id is None else f"tell {digest_of(session, rows)}"
    with session.database.write() as c:
        row = session.row(c, lock=True)
        known = entries.answered(session, c, request_id, what)
        if known is not None:
            return told_before(known)._replace(ids=named(known["ids"], rows))
        outcomes, accepted = _sorted(session, c, row, rows)
        counts = {"accepted": len(accepted)} | {outcome: len(outcomes[outcome]) for outcome in NOT_ACCEPTED}
        awaited = row.awaited - sum(x.first and is_awaited(row, x.t) for x in accepted)
        places = {outcome: some for outcome, some in outcomes.items() if some}
        loud = warnings(session.spec, json.loads(entries.policy_row(c, session.id, row.version).about))
        answer = Told(ids=places, awaited=awaited, feedback_due=bool(row.due), warnings=tuple(loud), **counts)  # type: ignore[arg-type]
        new = _Entries("told", [x.t for x in accepted], [x.reward for x in accepted])
        audit = "tell", counts | {"awaited": awaited}
        _write(session, c, row, new, answer, first=sum(x.first for x in accepted), audit=audit, request=(request_id, what))
    return answer._replace(ids=named(places, rows))


def named(places: Mapping[str, Sequence[Any]], rows: list[ParsedRow]) -> dict[str, list[Any]]:
    """The ids of rejected rows. Only their places are stored: a row may be about a unit, which is never stored in clear.

    Args:
        places: by outcome, the places of rows; texts where an earlier version of this library stored them.
        rows: all rows of the request.

    Returns:
        By outcome their ids, each with a reason where the row is invalid.
    """

    def name(outcome: str, place: Any) -> Any:
        if not isinstance(place, int):
            return place
        row = rows[place]
        return [row.id, row.invalid] if outcome == "invalid" else row.id

    return {outcome: [name(outcome, place) for place in some] for outcome, some in places.items()}


def told_before(stored: dict[str, Any]) -> Told:
    """A stored answer, of this or an earlier version."""
    fields: dict[str, Any] = {name: stored[name] for name in Told._fields if name in stored}
    fields["warnings"] = tuple(stored.get("warnings", ()))
    return Told(**fields)


def tell_aggregate(session: Session, arm: str, count: int, totals: dict[str, float | None], request_id: str) -> Told:
    """Totals of `count` rewards of an arm, which settle its oldest waiting decisions, in random order."""
    if request_id is None:
        raise ConfigError("A total has no decision ids that make a retry harmless; give a request_id.")
    if session.spec.delay is not None:
        raise ConfigError("A total does not say when its rewards came, which delay='learned' learns from; tell rewards one by one.")
    refuse_totals(session.spec)
    check_text("arm", arm)
    whole("count", count, 1, MOST_AT_ONCE)
    values = aggregate.rows(session.model, count, totals)
    what = "aggregate " + json.dumps([arm, count, totals])
    with session.database.write() as c:
        row = session.row(c, lock=True)
        known = entries.answered(session, c, request_id, what)
        if known is not None:
            return told_before(known)
        arms = tuple(Arm(a.label, json.loads(a.metadata), json.loads(a.options)) for a in entries.arms_of(c, session.id))
        labels = [a.label for a in arms]
        if arm not in labels:
            raise UnknownName("arm", arm, labels)
        k = labels.index(arm)
        ts = ledger.waiting(c, session.id, k, count, session.spec.exposure == "explicit")
        if len(ts) < count:
            raise ConfigError(f"The arm {arm!r} has {len(ts)} decisions that wait for a reward, and the total is for {count}.")
        model = session.model
        if isinstance(model, Gamma):  # whose shape may be the arm's own
            model = session.spec.model_of((k,), arms)
        values = aggregate.scattered(model, values, _chance(session, k, ts))
        awaited = row.awaited - sum(is_awaited(row, t) for t in ts)
        answer = Told(count, 0, 0, 0, 0, {}, awaited, bool(row.due))
        given = {name: value for name, value in totals.items() if value is not None}
        audit = "aggregate", {"arm": arm, "count": count} | given
        _write(session, c, row, _Entries("aggregate", ts, values), answer, first=count, audit=audit, request=(request_id, what))
    return answer


def _chance(session: Session, arm: int, ts: list[int]) -> np.random.Generator:
    """What scatters a total over its decisions: the same where an experiment is repeated, and another for every other total."""
    return np.random.default_rng([session.spec.seed or 0, arm, ts[0], ts[-1], len(ts)])


def is_awaited(row: DbRow, t: int) -> bool:
    """Whether a decision without a reward is one that the batch waits for."""
    return row.began < t <= (row.closing or row.t)


class _Accepted(NamedTuple):
    t: int
    reward: float
    first: bool
    """Whether the decision had no entry before."""


def _sorted(session: Session, c: sa.Connection, row: DbRow, rows: list[ParsedRow]) -> tuple[dict[str, list[int]], list[_Accepted]]:
    """The places of rejected rows by outcome, and accepted rows."""
    mine = numbers_of(rows, row.t)
    stands = ledger.standings(c, session.id, list(mine)) if mine else {}
    accepted: list[_Accepted] = []

    def judge(t: int, reward: float) -> str | None:
        standing = stands.get(t)
        if standing is None or standing.kind in ("default", "missing"):
            accepted.append(_Accepted(t, reward, standing is None))
            stands[t] = ledger.Standing("told", reward)
            return None
        return "duplicate" if standing.kind in ("told", "corrected") and standing.reward == reward else "conflict"

    return rejected(rows, mine, judge), accepted


def numbers_of(rows: Iterable[ParsedRow], decisions: int) -> set[int]:
    """The numbers of those decisions of some rows that exist."""
    return {row.t for row in rows if row.t is not None and row.t <= decisions}


def rejected(rows: Sequence[ParsedRow], mine: set[int], judge: Callable[[int, float], str | None]) -> dict[str, list[int]]:
    """Sort rows by what becomes of them.

    Args:
        rows: as they were read.
        mine: the numbers of decisions that exist.
        judge: takes a decision and a possible reward, in the order of rows; the outcome, or None where it is accepted.

    Returns:
        The places of rejected rows, by outcome.
    """
    outcomes: dict[str, list[int]] = {outcome: [] for outcome in NOT_ACCEPTED}
    for i, row in enumerate(rows):
        if row.malformed:
            outcome = "invalid"
        elif row.t is None or row.t not in mine:
            outcome = "unknown"
        else:
            outcome = "invalid" if row.invalid is not None else judge(row.t, row.reward)
        if outcome is not None:
            outcomes[outcome].append(i)
    return outcomes


class _Entries(NamedTuple):
    kind: str
    ts: list[int]
    rewards: list[float]


def _write(
    session: Session,
    c: sa.Connection,
    row: DbRow,
    new: _Entries,
    answer: Told,
    *,
    first: int,
    audit: tuple[str, dict[str, Any]],
    request: tuple[str | None, str],
) -> None:
    """Write accepted rewards, of which `first` are the first of their decision, the answer, and a line in the audit log."""
    change, (what, detail), (request_id, asked) = entries.Change(session, c, row), audit, request
    change.add_rewards(new.ts, new.kind, new.rewards)
    counters = {"awaited": answer.awaited, "settled": row.settled + first, "entries": row.entries + len(new.ts)}
    change.finish(what, detail | {"request": request_id}, request=(request_id, asked, answer._asdict()), **counters)


def digest_of(session: Session, rows: list[ParsedRow]) -> str:
    """What tells one request from another under the same id; keyed where it could be used to guess a unit."""
    text = repr([(row.id, row.reward, row.invalid) for row in rows])
    if all(row.unit is None and not row.malformed for row in rows):
        return hashlib.sha256(text.encode()).hexdigest()[:24]
    return unit_hash(session, text)[:24]


def correct(session: Session, decision_id: str, reward: float, reason: str) -> bool:
    """Replace a reward by a new entry; False where the decision has that reward already."""
    parsed = parse((decision_id, reward), session.code, session.model)
    if parsed.invalid is not None:
        raise ConfigError(f"{parsed.id}: {parsed.invalid}.")
    return _supersede(session, "correct", [(decision_id, parsed.t)], ledger.Standing("corrected", parsed.reward), reason) > 0


def cancel(session: Session, decision_ids: Sequence[str], reason: str) -> int:
    """Take decisions out, whose unit was never exposed; how many were not cancelled before."""
    pairs = [(i, index_of(i, session.code)) for i in several("decision_ids", decision_ids)]
    return _supersede(session, "cancel", pairs, ledger.Standing("cancelled", None), reason)


def _supersede(session: Session, what: str, ids: Sequence[tuple[str, int | None]], entry: ledger.Standing, reason: str) -> int:
    """Append an entry for each decision whose last entry says something else; return how many were appended."""
    kind, reward = entry
    check_reason(reason)
    with session.database.write() as c:
        row = session.row(c, lock=True)
        unknown = [i for i, t in ids if t is None or t > row.t]
        if unknown:
            raise ConfigError(f"There is no decision {shown(unknown[0])} in the experiment {session.name!r}.")
        ts = sorted({t for _, t in ids if t is not None})
        stands = ledger.standings(c, session.id, ts) if ts else {}
        _refuse_settled(session, what, ts, stands)
        new = [t for t in ts if stands.get(t) not in (entry, ledger.Standing("told", reward))]
        if not new:
            return 0
        change = entries.Change(session, c, row)
        change.add_rewards(new, kind, [reward] * len(new))
        detail = {
            "decisions": [f"{session.code}-{t}" for t in new],
            "before": [stands.get(t) for t in new],
            "reason": reason,
            "reward": reward,
        }
        first = [t for t in new if t not in stands]
        counters = {"settled": row.settled + len(first), "entries": row.entries + len(new)}
        change.finish(what, detail, awaited=row.awaited - sum(is_awaited(row, t) for t in first), **counters)
        return len(new)


def _refuse_settled(session: Session, what: str, ts: list[int], stands: dict[int, ledger.Standing]) -> None:
    """A decision that counts for nothing has no reward to correct, and one row of a total cannot change without the total."""
    for t in ts:
        kind = stands[t].kind if t in stands else None
        if kind == "aggregate":
            raise ConfigError(f"{session.code}-{t} is part of a total; it cannot be changed alone ({what} is for single rewards).")
        if kind == "cancelled" and what == "correct":
            raise ConfigError(f"{session.code}-{t} is cancelled and counts for nothing; its reward cannot be corrected.")


# Rows as they are given


class ParsedRow(NamedTuple):
    id: str
    """Of the decision, or the unit."""
    t: int | None
    """The decision's number, or None where the id is not of this experiment."""
    reward: float
    invalid: str | None
    """Why the reward cannot be learned from."""
    malformed: bool = False
    """The row is not even a pair."""
    unit: str | None = None
    """Whose decision it is about, where no decision is named."""


def parse(row: object, code: str, model: Model) -> ParsedRow:
    """Read one row of `tell`, whatever it is.

    Args:
        row: a (decision id, reward) pair, also with the decision itself, a mapping with "reward" and "decision_id" or "unit", or
            anything else.
        code: what the ids of this experiment's decisions begin with.
        model: what the reward must be possible under.

    Returns:
        The decision's number and the reward, or why the row is invalid.
    """
    unit = None
    if isinstance(row, Mapping):
        decision, unit, reward = row.get("decision_id"), row.get("unit"), row.get("reward")
        if (decision is None) == (unit is None) or not isinstance(unit, str | None):
            return ParsedRow(_shown(row), None, math.nan, "a row has a reward and either a decision_id or a unit", True)
    else:
        try:
            decision, reward = row  # type: ignore[misc]
        except (TypeError, ValueError):
            return ParsedRow(_shown(row), None, math.nan, "a row is a decision id and a reward", True)
        if isinstance(decision, Decision):
            decision = decision.id
    number, invalid = _number(reward)
    if invalid is None:
        invalid = outside(model, number)
    name = unit if unit is not None else decision if isinstance(decision, str) else _shown(decision)
    return ParsedRow(name, index_of(decision, code), number, invalid, unit=unit)


def with_units(session: Session, rows: list[ParsedRow]) -> list[ParsedRow]:
    """The rows about units with the numbers of their decisions, which never change."""
    wanted = {row.unit for row in rows if row.unit is not None}
    if not wanted:
        return rows
    hashes = {unit: unit_hash(session, unit) for unit in wanted}
    with session.database.read() as c:
        found = units_of(session, c, list(hashes.values()))
    return [row if row.unit is None else row._replace(t=found.get(hashes[row.unit])) for row in rows]


def index_of(decision: object, code: str) -> int | None:
    """The number of a decision of this experiment, from its id."""
    match = _ID.fullmatch(decision) if isinstance(decision, str) else None
    return int(match[2]) if match is not None and match[1] == code else None


def code_of(decision: str) -> str | None:
    """The code of the experiment that a decision's id is of; None where it is no id."""
    match = _ID.fullmatch(decision)
    return None if match is None else match[1]


def _number(reward: Any) -> tuple[float, str | None]:
    if isinstance(reward, str | bytes) or reward is None:
        return math.nan, "a reward must be a number"
    try:
        return float(reward) + 0.0, None  # -0.0 becomes 0.0: databases differ in whether they keep its sign
    except (TypeError, ValueError, OverflowError, Warning):  # NumPy warns of arrays, and warnings may be errors
        return math.nan, "a reward must be a number"


def _shown(value: object) -> str:
    return shown(value, 100)


def several(what: str, given: object) -> list[Any]:
    """What was given as a list; one text is a list of one (`ConfigError` where it is no list)."""
    if isinstance(given, str):
        return [given]
    if not isinstance(given, Iterable):
        raise ConfigError(f"{what} must be a list of texts; got {shown(given)}.")
    return list(given)
