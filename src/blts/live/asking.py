"""Decisions: made, stored, then answered. Requests of many threads share a transaction, and are answered as if each had its own."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import sqlalchemy as sa

from ..errors import ConfigError, shown, whole
from . import chain, encoding, entries, ledger, policy, schema
from .answers import Answer, Decision, rewards_in_words
from .checks import check_text
from .combining import Waiting
from .database import DbRow, insert

if TYPE_CHECKING:
    from .context import Context, Policy

MOST_AT_ONCE = 1_000_000  # decisions of one request
LOOKED_UP = 500  # texts in one statement


class Request(NamedTuple):
    """What one caller asks for: n decisions, or one for each of some units."""

    n: int
    units: tuple[str, ...] | None
    """As they were given; only their hashes are stored."""
    hashes: tuple[str, ...]
    id: str | None

    @property
    def what(self) -> str:
        """What the request is for, to refuse its id for something else."""
        if self.units is None:
            return f"ask {self.n}"
        return "ask units " + hashlib.sha256("\n".join(self.hashes).encode()).hexdigest()[:24]


def ask(ctx: Context, n: int | None, units: Sequence[str] | None, request_id: str | None) -> Answer:
    """Up to n decisions, or one for each unit, perhaps in a transaction with the requests of other threads."""
    ctx.database.check_process()  # before the locks of the threads that were not forked along
    if units is None:
        n = whole("n", 1 if n is None else n, 1, MOST_AT_ONCE)
        request = Request(n, None, (), request_id)
    else:
        given = tuple(_checked_units(units))
        if n is not None and whole("n", n, 1, MOST_AT_ONCE) != len(given):
            raise ConfigError("Give n, or units, which have one decision each, not both.")
        request = Request(len(given), given, tuple(unit_hash(ctx, unit) for unit in given), request_id)
    if request_id is not None:
        check_text("request_id", request_id)
    return ctx.asks.submit(request)


def _checked_units(units: Sequence[str]) -> Sequence[str]:
    if isinstance(units, str) or not isinstance(units, Sequence):
        raise ConfigError(f"units must be a list of texts, one for each unit; got {shown(units)}.")
    if not 1 <= len(units) <= MOST_AT_ONCE:
        raise ConfigError(f"A request has between 1 and {MOST_AT_ONCE} units; got {len(units)}.")
    for unit in units:
        check_text("A unit", unit)
    return units


def unit_hash(ctx: Context, unit: str) -> str:
    """What a unit is stored as: a hash keyed with the experiment's pepper."""
    return hmac.new(ctx.pepper.encode(), unit.encode(errors="surrogatepass"), hashlib.sha256).hexdigest()[:32]


def ask_all(ctx: Context, group: Sequence[Waiting[Request, Answer]]) -> None:
    """Answer some requests in one transaction, as if each had come alone and in this order."""
    group, later = _apart(group)
    _compile(ctx, sum(waiting.request.n for waiting in group))
    with ctx.database.write() as c:
        row = ctx.row(c, lock=True)
        current = ctx.policy(c, row.version)
        plans, failed = _plans(ctx, c, group)
        wanted = sum(plan.wanted for plan in plans)
        ticks, text, made = None, row.clock, _Made([], Vectors(current, np.zeros((0, len(current.active)))), row.closing)
        if wanted and not row.paused and not (ctx.spec.strict and row.due):
            ticks, arms, laws, closing = decide(ctx, current, ctx.ticks(row, current), wanted)
            made = _Made(arms, Vectors(current, laws), row.closing or (0 if closing is None else row.t + closing))
            text = encoding.clock_text(ticks)
            _write(ctx, c, row, current, plans, made, text)
        answers = _answers(ctx, c, row, current, plans, made)
    if ticks is not None:
        ctx.stored_vectors.update(made.vectors.names)  # only now are they
        ctx.keep_ticks(text, row.t + len(made.arms), made.closing > 0, current, ticks)
    for waiting, error in failed:
        waiting.fail(error)
    for plan, answer in zip(plans, answers, strict=True):
        plan.waiting.succeed(answer)
    if later:
        ask_all(ctx, later)


class _Made(NamedTuple):
    """New decisions."""

    arms: list[int]
    vectors: Vectors
    closing: int
    """The decision that closes the batch; 0 where it stays open."""


class _Plan:
    """What one request needs, and the decisions that it gets."""

    def __init__(self, waiting: Waiting[Request, Answer], known: range | None, units: dict[str, int]):
        self.waiting, self.request = waiting, waiting.request
        self.known = known
        """The decisions that the same request was answered with before."""
        self.units = {h: units[h] for h in self.request.hashes if h in units}
        """The decisions of its units, by their hashes."""
        self.new = [h for h in dict.fromkeys(self.request.hashes) if h not in units]
        self.wanted = 0 if known is not None else self.request.n if self.request.units is None else len(self.new)
        self.made = range(0)
        """New decisions, counted from those of the group."""


def _apart(group: Sequence[Waiting[Request, Answer]]) -> tuple[list[Waiting[Request, Answer]], list[Waiting[Request, Answer]]]:
    """The first requests, as far as they have nothing to do with each other, and those that must see what these are answered."""
    now: list[Waiting[Request, Answer]] = []
    later: list[Waiting[Request, Answer]] = []
    seen: set[str] = set()
    for waiting in group:
        mine = {f"unit {h}" for h in waiting.request.hashes} | ({f"id {waiting.request.id}"} if waiting.request.id else set())
        (later if later or mine & seen else now).append(waiting)
        seen |= mine
    return now, later


def _plans(
    ctx: Context, c: sa.Connection, group: Sequence[Waiting[Request, Answer]]
) -> tuple[list[_Plan], list[tuple[Waiting[Request, Answer], ConfigError]]]:
    """What each request needs; and those that are refused."""
    known = entries.requests_of(ctx, c, [waiting.request.id for waiting in group if waiting.request.id is not None])
    units = units_of(ctx, c, [h for waiting in group for h in waiting.request.hashes])
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
        plans.append(_Plan(waiting, again, units))
    return plans, failed


def units_of(ctx: Context, c: sa.Connection, hashes: Sequence[str]) -> dict[str, int]:
    """The decisions of those of some units that have one, by the units' hashes."""
    table, found = schema.units, {}
    for start in range(0, len(hashes), LOOKED_UP):
        query = sa.select(table.c.unit, table.c.t).where(table.c.experiment == ctx.id)
        found |= dict(ledger.fetch(c, query.where(table.c.unit.in_(hashes[start : start + LOOKED_UP]))))
    return found


def _write(ctx: Context, c: sa.Connection, row: DbRow, current: Policy, plans: list[_Plan], made: _Made, clock: str) -> None:
    """Store the new decisions: for each request a line in the audit log, linked to the one before."""
    now, count, first = ctx.now(), len(made.arms), row.t + 1
    columns = {
        "t": list(range(first, first + count)),
        "arm": [current.active[a] for a in made.arms],
        "batch": [row.batch] * count,
        "policy": [current.version] * count,
        "vector": made.vectors.of_decisions,
        "position": [0] * count,
        "at": [now] * count,
    }
    lines, requests, units = _Lines(), _Lines(), _Lines()
    position, head, done = row.position, row.chain, 0
    for plan in plans:
        plan.made = range(done, min(done + plan.wanted, count))
        done = plan.made.stop
        if not plan.made:
            continue
        position += 1
        mine = slice(plan.made.start, plan.made.stop)
        columns["position"][mine] = [position] * len(plan.made)
        parts = {schema.decisions.name: chain.rows(schema.decisions, {k: v[mine] for k, v in columns.items()}, len(plan.made))}
        span = {"first": first + plan.made.start, "count": len(plan.made)}
        if plan.new:
            own = {"unit": plan.new[: len(plan.made)], "t": columns["t"][mine], "position": columns["position"][mine]}
            parts[schema.units.name] = chain.rows(schema.units, own, len(plan.made))
            units.add(own)
            plan.units |= dict(zip(own["unit"], own["t"], strict=True))
        if plan.request.id is not None:
            answer = {"request": plan.request.id, "what": plan.request.what, "answer": json.dumps(span), "position": position}
            parts[schema.requests.name] = chain.rows(schema.requests, answer, 1)
            requests.add({k: [v] for k, v in answer.items()})
        detail = {"n": plan.request.n} | span | {"request": plan.request.id}
        line = {"position": [position], "what": ["ask"], "detail": [json.dumps(detail)], "actor": [ctx.actor], "at": [now]}
        parts[schema.audit.name] = chain.rows(schema.audit, line, 1)
        head = chain.link(head, parts)
        lines.add(line | {"chain": [head]})
    _insert_vectors(ctx, c, made.vectors)
    for table, some in ((schema.decisions, columns), (schema.audit, lines), (schema.requests, requests), (schema.units, units)):
        if some:
            insert(c, table, {"experiment": ctx.id} | some, len(some["position"]))
    after = {"position": position, "chain": head, "t": row.t + count, "due": made.closing > 0, "closing": made.closing}
    entries.update(ctx, c, **after, awaited=_state(row, made, count)[1], clock=clock)


class _Lines(dict[str, list]):
    """Columns of rows that are inserted later, in one statement."""

    def add(self, columns: dict[str, list]) -> None:
        for name, values in columns.items():
            self.setdefault(name, []).extend(values)


def _state(row: DbRow, made: _Made, count: int) -> tuple[bool, int]:
    """Whether the batch is closed, and how many of its rewards are awaited, after so many of the new decisions."""
    closed = 0 < made.closing <= row.t + count
    last = made.closing if closed else row.t + count
    return closed, row.awaited + max(0, last - row.t)


def _answers(ctx: Context, c: sa.Connection, row: DbRow, current: Policy, plans: list[_Plan], made: _Made) -> list[Answer]:
    labels, code, first = [arm.label for arm in current.arms], ctx.code, row.t + 1
    laws = {name: _law(labels, text) for name, text in zip(made.vectors.names, made.vectors.texts, strict=True)}

    def new(i: int, unit: str | None) -> Decision:
        arm, vector = labels[current.active[made.arms[i]]], made.vectors.of_decisions[i]
        return Decision(f"{code}-{first + i}", arm, row.batch, current.version, laws[vector], unit)

    ranges = [plan.known for plan in plans if plan.known is not None]
    stored = _stored_decisions(ctx, c, ranges, [t for plan in plans for t in plan.units.values() if t <= row.t])
    out, done = [], 0
    for plan in plans:
        done = max(done, plan.made.stop)
        if plan.known is not None:
            decisions = [stored[t] for t in plan.known]
        elif plan.request.units is None:
            decisions = [new(i, None) for i in plan.made]
        else:
            pairs = [(unit, plan.units.get(h)) for unit, h in zip(plan.request.units, plan.request.hashes, strict=True)]
            decisions = [
                stored[t]._replace(unit=unit) if t <= row.t else new(t - first, unit) for unit, t in pairs if t is not None
            ]
        out.append(_answer(row, *_state(row, made, done), tuple(decisions), plan.request.n, ctx.spec.strict))
    return out


def decide(ctx: Context, current: Policy, ticks: policy.Clock, n: int) -> tuple[policy.Clock, list[int], np.ndarray, int | None]:
    """Decisions until n, or where the experiment is strict until the end of the batch.

    Args:
        ctx: the experiment.
        current: the policy in use.
        ticks: the clock before them.
        n: how many are wanted.

    Returns:
        The clock after them, the arms among the active ones, their propensities, and which of them, from 1, closed the batch (None
        where none did, or where it was closed before).
    """
    arms, laws, left, closing = [], [], n, None
    open_before = not bool(ticks.due)
    while left > 0:
        size = policy.chunk_size(left)
        ticks, decided = _chunk(ctx, current, ticks, min(left, size), size)
        count = int(np.asarray(decided.live).sum())
        if open_before and closing is None and bool(ticks.due):
            closing = len(arms) + 1 + int(np.argmax(np.asarray(decided.closes)[:count]))
        arms += np.asarray(decided.arms)[:count].tolist()
        laws.append(np.asarray(decided.propensities)[:count])
        left -= count
        if count == 0 or (ctx.spec.strict and bool(ticks.due)):
            break
    return ticks, arms, np.concatenate(laws), closing


def _chunk(ctx: Context, current: Policy, ticks: policy.Clock, limit: int, size: int) -> tuple[policy.Clock, policy.Decided]:
    built, strict = current.built, ctx.spec.strict
    return policy.decide_many(
        ctx.key, built.agent, built.batching, current.frozen, ticks, built.mixture, limit, size=size, strict=strict
    )


def _compile(ctx: Context, n: int) -> None:
    """Compile what the next `ask` runs before others have to wait for it."""
    size = policy.chunk_size(n)
    if ctx.cached is not None and (len(ctx.cached.active), size) in ctx.compiled:
        return
    with ctx.database.read() as c:
        row = ctx.row(c)
        current = ctx.policy(c, row.version)
    if (len(current.active), size) not in ctx.compiled:
        _chunk(ctx, current, ctx.ticks(row, current), 0, size)
        ctx.compiled.add((len(current.active), size))


class Vectors:
    """The propensity vectors of some decisions, each once, by their digests."""

    def __init__(self, current: Policy, laws: np.ndarray):
        same = bool((laws == laws[:1]).all())
        distinct, which = (laws[:1], np.zeros(len(laws), int)) if same else np.unique(laws, axis=0, return_inverse=True)
        self.texts = [json.dumps(_of_all_arms(law, current)) for law in distinct]
        self.names = [digest(text) for text in self.texts]
        self.of_decisions = [self.names[i] for i in which.reshape(-1)]


def digest(vector: str) -> str:
    """What a stored vector is named by."""
    return hashlib.sha256(vector.encode()).hexdigest()[:24]


def _of_all_arms(law: np.ndarray, current: Policy) -> list[float]:
    """Probabilities of all arms there have been, from those of the active ones."""
    out = [0.0] * len(current.arms)
    for i, p in zip(current.active, law, strict=True):
        out[i] = float(p)
    return out


def _insert_vectors(ctx: Context, c: sa.Connection, vectors: Vectors) -> None:
    """Store those that are not."""
    new = {name: text for name, text in zip(vectors.names, vectors.texts, strict=True) if name not in ctx.stored_vectors}
    known = _stored_vectors(ctx, c, list(new))
    new = {name: text for name, text in new.items() if name not in known}
    insert(c, schema.vectors, {"experiment": ctx.id, "vector": list(new), "probabilities": list(new.values())}, len(new))


def _stored_vectors(ctx: Context, c: sa.Connection, names: list[str]) -> dict[str, str]:
    """Those of some vectors that are stored, by name."""
    table, found = schema.vectors, {}
    for start in range(0, len(names), LOOKED_UP):
        query = sa.select(table.c.vector, table.c.probabilities)
        some = query.where(table.c.experiment == ctx.id, table.c.vector.in_(names[start : start + LOOKED_UP]))
        found |= dict(ledger.fetch(c, some))
    return found


def _answer(row: DbRow, closed: bool, awaited: int, decisions: tuple[Decision, ...], asked: int, strict: bool) -> Answer:
    why = None
    if len(decisions) < asked:
        if closed and strict:
            waits = f"awaits {rewards_in_words(awaited)}" if awaited else "can be refreshed"
            why = f"batch {row.batch} is closed and {waits}"
        if row.paused:
            why = "the experiment is paused" if row.stopped is None else "the experiment is stopped"
    return Answer(decisions, closed, awaited, bool(row.paused), why)


def _law(labels: list[str], text: str) -> dict[str, float]:
    """A stored vector by label. It has no entry for arms that came after it."""
    return dict(zip(labels, json.loads(text), strict=False))


def _stored_decisions(ctx: Context, c: sa.Connection, ranges: Sequence[range], some: Sequence[int]) -> dict[int, Decision]:
    """Decisions that were made before, by their numbers."""
    if not ranges and not some:
        return {}  # building a statement takes longer than all else that is done for a single decision
    table, found = schema.decisions, []
    own = sa.select(table.c.t, table.c.arm, table.c.batch, table.c.policy, table.c.vector).where(table.c.experiment == ctx.id)
    for wanted in ranges:
        found += ledger.fetch(c, own.where(table.c.t >= wanted.start, table.c.t < wanted.stop))
    for start in range(0, len(some), LOOKED_UP):
        found += ledger.fetch(c, own.where(table.c.t.in_(some[start : start + LOOKED_UP])))
    labels = entries.labels(ctx, c)
    laws = {v: _law(labels, p) for v, p in _stored_vectors(ctx, c, sorted({row[-1] for row in found})).items()}
    return {t: Decision(f"{ctx.code}-{t}", labels[arm], batch, version, laws[v]) for t, arm, batch, version, v in found}
