"""Decisions: made, stored, and then answered."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
import sqlalchemy as sa

from . import encoding, entries, ledger, policy, refreshing, schema
from .answers import Answer, Decision, rewards_in_words
from .checks import check_whole
from .store import Record, insert

if TYPE_CHECKING:
    from .context import Context, Policy

MOST_AT_ONCE = 1_000_000  # decisions of one request


def ask(ctx: Context, n: int, request_id: str | None) -> Answer:
    """Up to n decisions in one transaction."""
    check_whole("n", n, 1, MOST_AT_ONCE)
    if ctx.external:
        refreshing.catch_up(ctx)
    _compile(ctx, n)
    with ctx.store.write() as c:
        row = ctx.row(c, lock=True)
        known = entries.answered(ctx, c, request_id, f"ask {n}")
        if known is not None:
            return _answer(ctx, c, row, range(known["first"], known["first"] + known["count"]), n)
        if row.paused or row.due:
            return _answer(ctx, c, row, range(0), n)
        current = ctx.policy(c, row.version)
        ticks, arms, laws = decide(ctx, current, ctx.ticks(row, current), n)
        count, now = len(arms), ctx.now()
        position, first = row.position + 1, row.t + 1
        columns = {
            "experiment": ctx.id,
            "t": list(range(first, first + count)),
            "arm": [current.active[a] for a in arms],
            "batch": row.batch,
            "policy": current.version,
            "vector": _insert_vectors(ctx, c, current, laws),
            "position": position,
            "at": now,
        }
        insert(c, schema.decisions, columns, count)
        entries.add_request(ctx, c, request_id, f"ask {n}", {"first": first, "count": count})
        entries.add_audit(ctx, c, position, "ask", {"n": n, "first": first, "count": count, "request": request_id}, now)
        entries.update(
            ctx,
            c,
            position=position,
            t=row.t + count,
            awaited=row.awaited + count,
            due=bool(ticks.due),
            clock=encoding.clock_text(ticks),
        )
        return _answer(ctx, c, ctx.row(c), range(first, first + count), n)


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
    return policy.decide(ctx.key, built.agent, built.batching, current.frozen, ticks, built.mixture, jnp.asarray(limit), size=size)


def _compile(ctx: Context, n: int) -> None:
    """Compile what the next `ask` runs before others have to wait for it."""
    size = policy.chunk_size(n)
    if ctx.cached is not None and (len(ctx.cached.active), size) in ctx.compiled:
        return
    with ctx.store.read() as c:
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


def _insert_vectors(ctx: Context, c: sa.Connection, current: Policy, laws: np.ndarray) -> list[str]:
    """The names of the vectors of some decisions; those not seen before are stored."""
    vectors = Vectors(current, laws)
    known = _stored(ctx, c, vectors.names)
    new = {name: text for name, text in zip(vectors.names, vectors.texts, strict=True) if name not in known}
    insert(c, schema.vectors, {"experiment": ctx.id, "vector": list(new), "probabilities": list(new.values())}, len(new))
    return vectors.of_decisions


def _stored(ctx: Context, c: sa.Connection, names: list[str]) -> dict[str, str]:
    """Those of some vectors that are stored, by name."""
    table, found = schema.vectors, {}
    for start in range(0, len(names), 500):
        query = sa.select(table.c.vector, table.c.probabilities)
        some = query.where(table.c.experiment == ctx.id, table.c.vector.in_(names[start : start + 500]))
        found |= dict(ledger.fetch(c, some))
    return found


def _answer(ctx: Context, c: sa.Connection, row: Record, ts: range, asked: int) -> Answer:
    found = _decisions(ctx, c, ts) if len(ts) else ()
    why = None
    if len(found) < asked:
        if row.due:
            waits = f"awaits {rewards_in_words(row.awaited)}" if row.awaited else "can be refreshed"
            why = f"batch {row.batch} is closed and {waits}"
        if row.paused:
            why = "the experiment is paused"
    return Answer(found, bool(row.due), row.awaited, bool(row.paused), why)


def _decisions(ctx: Context, c: sa.Connection, ts: range) -> tuple[Decision, ...]:
    """Stored decisions, as they were answered."""
    table = schema.decisions
    query = (
        sa.select(table.c.t, table.c.arm, table.c.batch, table.c.policy, table.c.vector)
        .where(table.c.experiment == ctx.id, table.c.t.between(ts[0], ts[-1]))
        .order_by(table.c.t)
    )
    found = ledger.fetch(c, query)
    labels = entries.labels(ctx, c)
    texts = _stored(ctx, c, sorted({vector for *_, vector in found}))
    laws = {name: dict(zip(labels, json.loads(text), strict=False)) for name, text in texts.items()}
    return tuple(Decision(f"{ctx.code}-{t}", labels[arm], batch, version, laws[v]) for t, arm, batch, version, v in found)
