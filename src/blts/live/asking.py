"""Decisions: made, stored, and then answered."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import sqlalchemy as sa

from ..errors import whole
from . import encoding, entries, ledger, policy, refreshing, schema
from .answers import Answer, Decision, rewards_in_words
from .database import DbRow, insert

if TYPE_CHECKING:
    from .context import Context, Policy

MOST_AT_ONCE = 1_000_000  # decisions of one request


def ask(ctx: Context, n: int, request_id: str | None) -> Answer:
    """Up to n decisions in one transaction."""
    whole("n", n, 1, MOST_AT_ONCE)
    if ctx.external:
        refreshing.catch_up(ctx)
    _compile(ctx, n)
    with ctx.database.write() as c:
        row = ctx.row(c, lock=True)
        known = entries.answered(ctx, c, request_id, f"ask {n}")
        if known is not None:
            return _answer(row, _stored_decisions(ctx, c, known["first"], known["count"]), n)
        if row.paused or row.due:
            return _answer(row, (), n)
        current = ctx.policy(c, row.version)
        ticks, arms, laws = decide(ctx, current, ctx.ticks(row, current), n)
        vectors = Vectors(current, laws)
        count, now = len(arms), ctx.now()
        position, first = row.position + 1, row.t + 1
        made = {
            "t": list(range(first, first + count)),
            "arm": [current.active[a] for a in arms],
            "batch": [row.batch] * count,
            "policy": [current.version] * count,
            "vector": vectors.of_decisions,
        }
        _insert_vectors(ctx, c, vectors)
        insert(c, schema.decisions, {"experiment": ctx.id} | made | {"position": position, "at": now}, count)
        entries.add_request(ctx, c, request_id, f"ask {n}", {"first": first, "count": count})
        entries.add_audit(ctx, c, position, "ask", {"n": n, "first": first, "count": count, "request": request_id}, now)
        text, due = encoding.clock_text(ticks), bool(ticks.due)
        changed = {"position": position, "t": row.t + count, "awaited": row.awaited + count, "due": due, "clock": text}
        entries.update(ctx, c, **changed)
        labels = [arm.label for arm in current.arms]
        decisions = _as_answered(
            ctx, zip(*made.values(), strict=True), labels, dict(zip(vectors.names, vectors.texts, strict=True))
        )
    ctx.stored_vectors.update(vectors.names)  # only now are they
    ctx.keep_ticks(text, row.t + count, due, current, ticks)
    return _answer(DbRow(**vars(row) | changed), decisions, n)


def decide(ctx: Context, current: Policy, ticks: policy.Clock, n: int) -> tuple[policy.Clock, list[int], np.ndarray]:
    """Decisions until n or the end of the batch: the clock after them, arms, and propensities."""
    arms, laws, left = [], [], n
    while left > 0:
        size = policy.chunk_size(left)
        ticks, decided = _chunk(ctx, current, ticks, min(left, size), size)
        count = int(np.asarray(decided.live).sum())
        arms += np.asarray(decided.arms)[:count].tolist()
        laws.append(np.asarray(decided.propensities)[:count])
        left -= count
        if bool(ticks.due) or count == 0:
            break
    return ticks, arms, np.concatenate(laws)


def _chunk(ctx: Context, current: Policy, ticks: policy.Clock, limit: int, size: int) -> tuple[policy.Clock, policy.Decided]:
    built = current.built
    return policy.decide_many(ctx.key, built.agent, built.batching, current.frozen, ticks, built.mixture, limit, size=size)


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
    """Database those that are not."""
    new = {name: text for name, text in zip(vectors.names, vectors.texts, strict=True) if name not in ctx.stored_vectors}
    known = _stored_vectors(ctx, c, list(new))
    new = {name: text for name, text in new.items() if name not in known}
    insert(c, schema.vectors, {"experiment": ctx.id, "vector": list(new), "probabilities": list(new.values())}, len(new))


def _stored_vectors(ctx: Context, c: sa.Connection, names: list[str]) -> dict[str, str]:
    """Those of some vectors that are stored, by name."""
    table, found = schema.vectors, {}
    for start in range(0, len(names), 500):
        query = sa.select(table.c.vector, table.c.probabilities)
        some = query.where(table.c.experiment == ctx.id, table.c.vector.in_(names[start : start + 500]))
        found |= dict(ledger.fetch(c, some))
    return found


def _answer(row: DbRow, decisions: tuple[Decision, ...], asked: int) -> Answer:
    why = None
    if len(decisions) < asked:
        if row.due:
            waits = f"awaits {rewards_in_words(row.awaited)}" if row.awaited else "can be refreshed"
            why = f"batch {row.batch} is closed and {waits}"
        if row.paused:
            why = "the experiment is paused"
    return Answer(decisions, bool(row.due), row.awaited, bool(row.paused), why)


def _stored_decisions(ctx: Context, c: sa.Connection, first: int, count: int) -> tuple[Decision, ...]:
    """Decisions of a request that comes again."""
    table = schema.decisions
    query = (
        sa.select(table.c.t, table.c.arm, table.c.batch, table.c.policy, table.c.vector)
        .where(table.c.experiment == ctx.id, table.c.t >= first, table.c.t < first + count)
        .order_by(table.c.t)
    )
    found = ledger.fetch(c, query)
    vectors = _stored_vectors(ctx, c, sorted({vector for *_, vector in found}))
    return _as_answered(ctx, found, entries.labels(ctx, c), vectors)


def _as_answered(
    ctx: Context, rows: Iterable[tuple[int, int, int, int, str]], labels: list[str], vectors: dict[str, str]
) -> tuple[Decision, ...]:
    """Decisions from (t, arm, batch, policy, vector). A vector has no entry for arms that came after it."""
    laws = {name: dict(zip(labels, json.loads(text), strict=False)) for name, text in vectors.items()}
    return tuple(Decision(f"{ctx.code}-{t}", labels[arm], batch, version, laws[v]) for t, arm, batch, version, v in rows)
