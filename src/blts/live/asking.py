"""Decisions: made, stored, then answered. Requests of many threads share a transaction, and are answered as if each had its own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import sqlalchemy as sa

from ..errors import BltsError, ConfigError
from . import chain, encoding, entries, ledger, schema
from .answers import Answer, Decision, rewards_in_words
from .combining import Waiting
from .database import DbRow, insert, look_up
from .deciding import compile_ahead, decide
from .request import Request
from .showing import Stored, observed
from .standing import is_paused, rewards_awaited, why_no_decisions
from .vectors import Vectors, by_label, insert_vectors, stored_vectors

if TYPE_CHECKING:
    from .session import Policy, Session


def ask(session: Session, request: Request) -> Answer:
    """Answer a request, perhaps in a transaction with those of other threads."""
    (answer,) = ask_together(session, [request])
    if isinstance(answer, BltsError):
        raise answer
    return answer


def ask_together(session: Session, requests: Sequence[Request]) -> list[Answer | BltsError]:
    """Answer requests as if each had come alone and in this order, perhaps in a transaction with those of other threads.

    Requests for units that all have their decisions are answered first, so that they are answered even while nothing can be
    written: how many rewards they say are awaited does not count the decisions of the others.

    Args:
        session: the experiment.
        requests: that were checked by `request_of`.

    Returns:
        For each its answer, or why there is none.
    """
    session.database.check_process()  # before the locks of the threads that were not forked along
    group = [Waiting[Request, Answer](request) for request in requests]
    try:
        session.asks.submit(group)
    except BltsError as error:
        for waiting in group:
            if not waiting.done:
                waiting.fail(error)
    return [waiting.outcome() for waiting in group]


def ask_groups(session: Session, groups: Sequence[Waiting[list[Waiting[Request, Answer]], None]]) -> None:
    """Answer the requests of several callers."""
    ask_all(session, [waiting for group in groups for waiting in group.request])
    for group in groups:
        group.succeed(None)


def ask_all(session: Session, group: Sequence[Waiting[Request, Answer]]) -> None:
    """Answer some requests as if each had come alone and in this order, and as many as possible in one transaction."""
    rest = list(group)
    while rest := _answer_known(session, rest):
        now, rest = _apart(rest)
        _ask_together(session, now)


def _answer_known(session: Session, group: list[Waiting[Request, Answer]]) -> list[Waiting[Request, Answer]]:
    """Answer requests for units that all have their decisions, which never change; return the others.

    Most visitors are returning ones, and reading waits for nobody.
    """
    asked = [waiting for waiting in group if waiting.request.units is not None and waiting.request.id is None]
    if not asked:
        return group
    with session.database.read() as c:
        row = session.row(c)
        units = units_of(session, c, list({h for waiting in asked for h in waiting.request.hashes}))
        known = [waiting for waiting in asked if all(h in units for h in waiting.request.hashes)]
        masked = any(waiting.request.masks for waiting in known)
        labels = set(entries.labels(session, c)) if masked else set()
        known = [waiting for waiting in known if waiting.request.masks <= labels]  # others are refused with the new ones
        stored = _stored_decisions(session, c, [], sorted({units[h] for waiting in known for h in waiting.request.hashes}))
    for waiting in known:
        decisions = tuple(waiting.request.kept(i, stored[units[h]]) for i, h in enumerate(waiting.request.hashes))
        waiting.succeed(_answer(session, row, *_told(session, row, row.closing, 0), decisions, waiting.request.n))
    return [waiting for waiting in group if not waiting.done]


def _ask_together(session: Session, group: Sequence[Waiting[Request, Answer]]) -> None:
    """Answer requests that have nothing to do with each other in one transaction."""
    compile_ahead(session, sum(waiting.request.n for waiting in group))
    with session.database.write() as c:
        row = session.row(c, lock=True)
        current = session.policy(c, row.version)
        if session.spec.strict and row.due:
            row.awaited = rewards_awaited(session, c, row)
        plans, failed = _plans(session, c, group, current)
        wanted = sum(plan.wanted for plan in plans)
        ticks, text, made = None, row.clock, _Made([], Vectors(current, np.zeros((0, len(current.active)))), row.closing)
        if wanted and why_no_decisions(row) is None and not (session.spec.strict and row.due):
            obs = observed(session.spec, current, [one for plan in plans for one in plan.shown])
            ticks, arms, laws, closing = decide(session, current, session.ticks(row, current), wanted, obs)
            made = _Made(arms, Vectors(current, laws), row.closing or (0 if closing is None else row.t + closing))
            text = encoding.clock_text(ticks)
            _write(session, c, row, current, plans, made, text)
        answers = _answers(session, c, row, current, plans, made)
    if ticks is not None:
        if session.spec.encoding is None:  # with contexts every decision has its own
            session.stored_vectors.update(made.vectors.names)  # only now are they
        session.keep_ticks(text, row.t + len(made.arms), made.closing > 0, current, ticks)
    for waiting, error in failed:
        waiting.fail(error)
    for plan, answer in zip(plans, answers, strict=True):
        plan.waiting.succeed(answer)


class _Made(NamedTuple):
    """New decisions."""

    arms: list[int]
    vectors: Vectors
    closing: int
    """The decision that closes the batch; 0 where it stays open."""


class _Plan:
    """What one request needs, and the decisions that it gets."""

    def __init__(self, waiting: Waiting[Request, Answer], known: range | None, units: dict[str, int], shown: list[Stored]):
        self.waiting, self.request = waiting, waiting.request
        self.known = known
        """The decisions that the same request was answered with before."""
        self.units = {h: units[h] for h in self.request.hashes if h in units}
        """The decisions of its units, by their hashes."""
        self.new = [h for h in dict.fromkeys(self.request.hashes) if h not in units]
        self.wanted = 0 if known is not None else self.request.n if self.request.units is None else len(self.new)
        first = {h: i for i, h in reversed(list(enumerate(self.request.hashes)))} if shown else {}
        places = range(len(shown)) if self.request.units is None else [first[h] for h in self.new if shown]
        self.shown = [shown[i] for i in places] if self.wanted else []
        """What its new decisions are shown; nothing without contexts."""
        self.made = range(0)
        """New decisions, counted from those of the group."""


def _apart(group: Sequence[Waiting[Request, Answer]]) -> tuple[list[Waiting[Request, Answer]], list[Waiting[Request, Answer]]]:
    """The first requests, as far as they have nothing to do with each other, and those that must see what these are answered."""
    now: list[Waiting[Request, Answer]] = []
    later: list[Waiting[Request, Answer]] = []
    seen: set[str] = set()
    for waiting in group:
        mine = {f"unit {h}" for h in waiting.request.hashes}
        if waiting.request.id:
            mine.add(f"id {waiting.request.id}")
        (later if later or mine & seen else now).append(waiting)
        seen |= mine
    return now, later


def _plans(
    session: Session, c: sa.Connection, group: Sequence[Waiting[Request, Answer]], current: Policy
) -> tuple[list[_Plan], list[tuple[Waiting[Request, Answer], ConfigError]]]:
    """What each request needs; and those that are refused."""
    known = entries.requests_of(session, c, [waiting.request.id for waiting in group if waiting.request.id is not None])
    units = units_of(session, c, [h for waiting in group for h in waiting.request.hashes])
    plans: list[_Plan] = []
    failed: list[tuple[Waiting[Request, Answer], ConfigError]] = []
    for waiting in group:
        before = known.get(waiting.request.id or "")
        if before is not None and before.what != waiting.request.what:
            failed.append((waiting, entries.used_otherwise(waiting.request.id, before.what)))
            continue
        again = None
        if before is not None and waiting.request.units is None:
            answer = json.loads(before.answer)
            again = range(answer["first"], answer["first"] + answer["count"])
        try:
            shown = [] if waiting.request.shown is None else waiting.request.shown.stored(current)
        except ConfigError as error:
            failed.append((waiting, error))
            continue
        plans.append(_Plan(waiting, again, units, shown))
    return plans, failed


def units_of(session: Session, c: sa.Connection, hashes: Sequence[str]) -> dict[str, int]:
    """The decisions of those of some units that have one, by the units' hashes."""
    table = schema.units.c
    return dict(look_up(c, (table.unit, table.t), session.id, table.unit, hashes))


def _write(session: Session, c: sa.Connection, row: DbRow, current: Policy, plans: list[_Plan], made: _Made, clock: str) -> None:
    """Store the new decisions: for each request a line in the audit log, linked to the one before."""
    now, count, first, done = session.now(), len(made.arms), row.t + 1, 0
    for plan in plans:
        plan.made = range(done, min(done + plan.wanted, count))
        done = plan.made.stop
    plans = [plan for plan in plans if plan.made]
    positions = list(range(row.position + 1, row.position + 1 + len(plans)))
    counts = [len(plan.made) for plan in plans]
    decisions = {
        "t": list(range(first, first + count)),
        "arm": [current.active[a] for a in made.arms],
        "batch": row.batch,
        "policy": current.version,
        "vector": made.vectors.of_decisions,
        "position": [position for position, n in zip(positions, counts, strict=True) for _ in range(n)],
        "at": now,
    }
    contexts = {"t": [], "context": [], "available": [], "position": []}
    units = {"unit": [], "t": [], "position": []}
    requests = {"request": [], "what": [], "answer": [], "position": []}
    details = []
    for position, plan in zip(positions, plans, strict=True):
        span = f'"first": {first + plan.made.start}, "count": {len(plan.made)}'
        if plan.shown:
            own, shown = range(first + plan.made.start, first + plan.made.stop), plan.shown[: len(plan.made)]
            texts, masks = ([one[i] for one in shown] for i in (0, 1))
            _extend(contexts, t=own, context=texts, available=masks, position=[position] * len(own))
        if plan.new:
            own = dict(zip(plan.new, range(first + plan.made.start, first + plan.made.stop), strict=False))
            _extend(units, unit=own, t=own.values(), position=[position] * len(own))
            plan.units |= own
        if plan.request.id is not None:
            _extend(requests, request=[plan.request.id], what=[plan.request.what], answer=[f"{{{span}}}"], position=[position])
        own_id = "null" if plan.request.id is None else json.dumps(plan.request.id)
        details.append(f'{{"n": {plan.request.n}, {span}, "request": {own_id}}}')
    lines = {
        "position": positions,
        "what": "ask",
        "detail": details,
        "actor": [plan.request.actor or session.actor for plan in plans],
        "at": now,
    }
    written = (
        (schema.decisions, decisions, counts),
        (schema.contexts, contexts, counts if contexts["t"] else [0] * len(plans)),
        (schema.units, units, [n if plan.new else 0 for plan, n in zip(plans, counts, strict=True)]),
        (schema.requests, requests, [int(plan.request.id is not None) for plan in plans]),
        (schema.audit, lines, [1] * len(plans)),
    )
    parts = {table.name: chain.rows_of_each(table, columns, own) for table, columns, own in written if any(own)}
    heads = [row.chain]
    for i in range(len(plans)):
        heads.append(chain.link(heads[-1], {name: of_each[i] for name, of_each in parts.items()}))
    lines["chain"] = heads[1:]
    insert_vectors(session, c, made.vectors)
    for table, columns, own in written:
        insert(c, table, {"experiment": session.id} | columns, sum(own))
    after = {"position": row.position + len(plans), "chain": heads[-1], "t": row.t + count}
    after |= {"due": made.closing > 0, "closing": made.closing, "awaited": _state(row, made.closing, count)[1], "clock": clock}
    entries.update(session, c, **after)


def _extend(columns: dict[str, list[Any]], **values: Iterable[Any]) -> None:
    for name, more in values.items():
        columns[name].extend(more)


def _state(row: DbRow, closing: int, count: int) -> tuple[bool, int]:
    """Whether the batch is closed, and how many of its rewards are awaited, after so many of the new decisions."""
    closed = 0 < closing <= row.t + count
    last = closing if closed else row.t + count
    return closed, row.awaited + max(0, last - row.t)


def _told(session: Session, row: DbRow, closing: int, count: int) -> tuple[bool, int]:
    """The same as whoever asks is told it. Where refreshes are private, they must not learn how many rewards have come: all
    decisions of the batch count, whose windows are awaited."""
    closed, awaited = _state(row, closing, count)
    if session.spec.privacy is None:
        return closed, awaited
    return closed, (closing if closed else row.t + count) - row.began


def _answers(session: Session, c: sa.Connection, row: DbRow, current: Policy, plans: list[_Plan], made: _Made) -> list[Answer]:
    labels, code, first = [arm.label for arm in current.arms], session.code, row.t + 1
    laws = {name: by_label(labels, text) for name, text in zip(made.vectors.names, made.vectors.texts, strict=True)}

    def new(i: int) -> Decision:
        arm, vector = labels[current.active[made.arms[i]]], made.vectors.of_decisions[i]
        return Decision(f"{code}-{first + i}", arm, row.batch, current.version, laws[vector])

    ranges = [plan.known for plan in plans if plan.known is not None]
    stored = _stored_decisions(session, c, ranges, [t for plan in plans for t in plan.units.values() if t <= row.t])
    out, done = [], 0
    for plan in plans:
        done = max(done, plan.made.stop)
        if plan.known is not None:
            decisions = [stored[t] for t in plan.known]
        elif plan.request.units is None:
            decisions = [new(i) for i in plan.made]
        else:
            places = [(i, plan.units[h]) for i, h in enumerate(plan.request.hashes) if h in plan.units]
            decisions = [plan.request.kept(i, stored[t] if t <= row.t else new(t - first)) for i, t in places]
        out.append(_answer(session, row, *_told(session, row, made.closing, done), tuple(decisions), plan.request.n))
    return out


def standing_answer(session: Session, row: DbRow) -> Answer:
    """An answer without decisions: where the experiment stands."""
    return _answer(session, row, *_told(session, row, row.closing, 0), (), 0)


def _answer(session: Session, row: DbRow, closed: bool, awaited: int, decisions: tuple[Decision, ...], asked: int) -> Answer:
    why = None
    if len(decisions) < asked:
        if closed and session.spec.strict:
            waits = f"awaits {rewards_in_words(awaited)}" if awaited else "waits for its refresh"
            waits = waits if session.spec.privacy is None else "awaits the ends of windows and its refresh"
            why = f"batch {row.batch} is closed and {waits}"
        why = why_no_decisions(row) or why
    return Answer(decisions, closed, awaited, is_paused(row), why, row.stopped is not None)


def _stored_decisions(session: Session, c: sa.Connection, ranges: Sequence[range], some: Sequence[int]) -> dict[int, Decision]:
    """Decisions that were made before, by their numbers."""
    if not ranges and not some:
        return {}  # building a statement takes longer than all else that is done for a single decision
    table, found = schema.decisions, []
    columns = table.c.t, table.c.arm, table.c.batch, table.c.policy, table.c.vector
    for wanted in ranges:
        own = table.c.experiment == session.id, table.c.t >= wanted.start, table.c.t < wanted.stop
        found += ledger.fetch(c, sa.select(*columns).where(*own))
    found += look_up(c, columns, session.id, table.c.t, some)
    arms = entries.arms_of(c, session.id)
    labels = [arm.label for arm in arms]
    laws = {v: by_label(labels, p) for v, p in stored_vectors(session, c, sorted({row[-1] for row in found})).items()}
    ledger.check_count("decisions of an arm", sum(0 <= row[1] < len(labels) for row in found), len(found))

    def decision(t: int, arm: int, batch: int, version: int, vector: str) -> Decision:
        return Decision(f"{session.code}-{t}", labels[arm], batch, version, laws[vector], available=arms[arm].retired is None)

    return {row[0]: decision(*row) for row in found}
