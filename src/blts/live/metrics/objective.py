"""Rewards that are a stated combination of metrics: their weighted sum, written into the ledger once the windows of all are over.

Combined rewards are ordinary entries of the ledger, so learning, reports and exports need not know where they come from; `verify`
computes each again from the metrics as they were then.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from ...errors import ConfigError, UnknownName
from ...models import Model
from ...models.support import WITHIN
from .. import entries, ledger, schema
from ..database import DbRow, chunks
from ..telling import is_awaited
from . import measuring

if TYPE_CHECKING:
    from ..session import Session
    from ..spec import Spec
    from .definition import Metric

COMBINE = "combine"
"""The operation that writes combined rewards."""


def refuse_rewards(spec: Spec) -> None:
    """Refuse rewards that are told where they are combined of metrics (`ConfigError`)."""
    if spec.objective is not None:
        raise ConfigError(
            f"The reward of this experiment is combined of {' and '.join(spec.objective)}; tell these, with metric=…."
        )


def settle(session: Session) -> int:
    """Write the rewards of decisions whose metrics are all closed, and correct those whose metrics have changed.

    Args:
        session: the experiment; nothing is done where its rewards are told.

    Returns:
        How many entries were written.
    """
    if session.spec.objective is None:
        return 0
    with session.database.read() as c:
        if not _changes(session, c, session.row(c), session.now()):
            return 0
    with session.database.write() as c:
        row = session.row(c, lock=True)
        change = entries.Change(session, c, row)
        new = _changes(session, c, row, change.now)
        if not new:
            return 0
        ts = sorted(new)
        first = [t for t in ts if new[t].kind != "corrected"]
        columns = {
            "position": list(range(change.position + 1, change.position + 1 + len(ts))),
            "t": ts,
            "kind": [new[t].kind for t in ts],
            "reward": [new[t].reward for t in ts],
            "at": change.now,
        }
        change.insert(schema.rewards, columns, len(ts))
        change.position += len(ts)
        counters = {"settled": row.settled + len(first), "entries": row.entries + len(ts)}
        awaited = row.awaited - sum(is_awaited(row, t) for t in first)
        detail = {"first": len(first), "corrected": len(ts) - len(first), "cutoff": _cutoff(session, c, change.now)}
        change.finish(COMBINE, detail, awaited=awaited, **counters)
        return len(ts)


def _parts(spec: Spec) -> list[tuple[Metric, float]]:
    """The metrics of the objective, with their weights."""
    objective = spec.objective or {}
    return [(metric, objective[metric.name]) for metric in spec.metrics if metric.name in objective]


def _window(spec: Spec) -> float:
    """Seconds after which all metrics of the objective are closed."""
    return max(metric.window or 0.0 for metric, _ in _parts(spec))


def combined(parts: Sequence[tuple[Metric, float]], values: Mapping[str, Mapping[int, float]], t: int) -> float | None:
    """The reward of a decision.

    Args:
        parts: metrics and their weights.
        values: by metric and decision, those that were told.
        t: the decision.

    Returns:
        The weighted sum, with the defaults of silent metrics; None where a metric is silent and has no default.
    """
    found = [values[metric.name].get(t, metric.default) for metric, _ in parts]
    if any(value is None for value in found):
        return None
    return math.fsum(weight * value for (_, weight), value in zip(parts, found, strict=True) if value is not None) + 0.0


def _changes(session: Session, c: sa.Connection, row: DbRow, now: float) -> dict[int, ledger.Standing]:
    """The entries that are lacking, by decision."""
    spec = session.spec
    ts = _closed(session, c, _candidates(session, c, row), _cutoff(session, c, now))
    if not ts:
        return {}
    parts = _parts(spec)
    values = {metric.name: measuring.standing(c, session.id, metric.name, ts) for metric, _ in parts}
    stands, new = ledger.standings(c, session.id, ts), {}
    for t in ts:
        before, reward = stands.get(t), combined(parts, values, t)
        if before is None:
            new[t] = ledger.Standing("missing" if reward is None else "told", reward)
        elif before.kind != "cancelled" and reward is not None and before.reward != reward:
            new[t] = ledger.Standing("corrected", reward)
    return new


def _cutoff(session: Session, c: sa.Connection, now: float) -> float:
    """When the last windows began that are over. What was closed stays so where a clock is set back."""
    log = schema.audit
    own = sa.select(log.c.detail).where(log.c.experiment == session.id, log.c.what == COMBINE)
    last = c.execute(own.order_by(log.c.position.desc()).limit(1)).scalar()
    before = None if last is None else json.loads(last).get("cutoff")
    return max(now - _window(session.spec), -math.inf if before is None else before)


def _candidates(session: Session, c: sa.Connection, row: DbRow) -> list[int]:
    """Decisions without a reward, and those with values of metrics that came after rewards were last combined."""
    decisions, rewards, measures, log = schema.decisions, schema.rewards, schema.measures, schema.audit
    settled = sa.exists().where(rewards.c.experiment == decisions.c.experiment, rewards.c.t == decisions.c.t)
    open_ = ledger.fetch(c, sa.select(decisions.c.t).where(decisions.c.experiment == session.id, decisions.c.t <= row.t, ~settled))
    last = sa.select(sa.func.max(log.c.position)).where(log.c.experiment == session.id, log.c.what == COMBINE)
    since = c.execute(last).scalar() or 0
    new = ledger.fetch(
        c, sa.select(measures.c.t).where(measures.c.experiment == session.id, measures.c.position > since).distinct()
    )
    return sorted({t for (t,) in open_} | {t for (t,) in new})


def _closed(session: Session, c: sa.Connection, ts: Sequence[int], cutoff: float) -> list[int]:
    """Those of some decisions whose window began before the cutoff."""
    table = schema.exposures if session.spec.exposure == "explicit" else schema.decisions
    out: list[int] = []
    for some in chunks(ts):
        numbers = sa.bindparam("some", some, expanding=True, literal_execute=True, type_=sa.BigInteger)
        own = table.c.experiment == session.id, table.c.t.in_(numbers), table.c.at <= cutoff
        out += [t for (t,) in ledger.fetch(c, sa.select(table.c.t).where(*own).order_by(table.c.t))]
    return out


def differences(session: Session, c: sa.Connection) -> list[str]:
    """Compute every combined reward again from the metrics as they were then.

    Args:
        session: the experiment.
        c: a connection to its database.

    Returns:
        A sentence for each combination that is not what its metrics say.
    """
    if session.spec.objective is None:
        return []
    log, measures, rewards, parts = schema.audit, schema.measures, schema.rewards, _parts(session.spec)
    operations = ledger.fetch(
        c, sa.select(log.c.position, log.c.what).where(log.c.experiment == session.id).order_by(log.c.position)
    )
    written = ledger.fetch(
        c,
        sa.select(rewards.c.position, rewards.c.t, rewards.c.reward)
        .where(rewards.c.experiment == session.id)
        .order_by(rewards.c.position),
    )
    told = ledger.fetch(
        c,
        sa.select(measures.c.position, measures.c.metric, measures.c.t, measures.c.value)
        .where(measures.c.experiment == session.id)
        .order_by(measures.c.position),
    )
    values: dict[str, dict[int, float]] = {metric.name: {} for metric in session.spec.metrics}
    found, i, j = [], 0, 0
    for position, what in operations:
        while j < len(told) and told[j][0] <= position:
            values[told[j][1]][told[j][2]] = told[j][3]
            j += 1
        wrong = 0
        while i < len(written) and written[i][0] < position:
            wrong += what == COMBINE and combined(parts, values, written[i][1]) != written[i][2]
            i += 1
        if wrong:
            found.append(f"{wrong} rewards combined at position {position} are not what their metrics said")
    return found


def check(spec: Spec, model: Model) -> None:
    """Refuse an objective that cannot be combined.

    Args:
        spec: has the objective and the metrics.
        model: of the rewards.

    Raises:
        ConfigError: a metric is unknown or never closes, a weight is no number, or the model cannot have the sum.
    """
    objective: Any = spec.objective
    if objective is None:
        return
    if not isinstance(objective, Mapping) or not objective:
        raise ConfigError(f"objective must be a table of metrics and their weights; got {objective!r}.")
    known = {metric.name: metric for metric in spec.metrics}
    supports = []
    for name, weight in objective.items():
        if name not in known:
            raise UnknownName("metric", name, known)
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not math.isfinite(weight) or weight == 0:
            raise ConfigError(f"The weight of {name!r} in the objective must be a number other than 0; got {weight!r}.")
        if known[name].window is None:
            raise ConfigError(f"{name!r} is part of the objective and needs a window, after which its value is final.")
        supports.append(WITHIN[known[name].built.support] if weight > 0 else ("real",))
    if spec.window is not None or spec.default_reward is not None:
        raise ConfigError("An experiment with an objective has the windows and defaults of its metrics; leave its own out.")
    if model.support != "real" and not (model.support == "nonnegative" and all("nonnegative" in some for some in supports)):
        raise ConfigError(
            f"A weighted sum of metrics need not be what {spec.model.words} can have; take a model of any number, such as numbers."
        )
