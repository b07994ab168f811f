"""Values of metrics as entries of the ledger: told and corrected like rewards, with the same fates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from ...errors import ConfigError
from .. import entries, ledger, schema
from ..answers import Told
from ..checks import check_reason
from ..database import chunks
from ..telling import NOT_ACCEPTED, ParsedRow, digest_of, named, numbers_of, parse, rejected, told_before, with_units
from .definition import metric_named

if TYPE_CHECKING:
    from ..session import Session


def tell(session: Session, rows: Iterable[Any], metric: str, request_id: str | None) -> Told:
    """Record values of a metric in one transaction.

    Args:
        session: the experiment.
        rows: as those of rewards; a mapping may have "value" for "reward".
        metric: its name.
        request_id: the same request again changes nothing.

    Returns:
        How many rows were accepted, and what became of the others.
    """
    model = metric_named(session.spec, metric).built
    parsed = with_units(session, [parse(_as_reward(row), session.code, model) for row in rows])
    what = f"measure {metric} {digest_of(session, parsed)}"
    with session.database.write() as c:
        row = session.row(c, lock=True)
        known = entries.answered(session, c, request_id, what)
        if known is not None:
            return told_before(known)._replace(ids=named(known["ids"], parsed))
        outcomes, accepted = _sorted(session, c, row.t, metric, parsed)
        counts = {"accepted": len(accepted)} | {outcome: len(outcomes[outcome]) for outcome in NOT_ACCEPTED}
        places = {outcome: some for outcome, some in outcomes.items() if some}
        answer = Told(ids=places, awaited=row.awaited, feedback_due=bool(row.due), **counts)  # type: ignore[arg-type]
        change = entries.Change(session, c, row)
        add_measures(change, metric, "told", accepted)
        detail = {"metric": metric} | counts | {"request": request_id}
        change.finish("measure", detail, request=(request_id, what, answer._asdict()))
    return answer._replace(ids=named(places, parsed))


def correct(session: Session, decision_id: str, value: float, metric: str, reason: str) -> bool:
    """Replace a value by a new entry.

    Args:
        session: the experiment.
        decision_id: whose value it is.
        value: the right one.
        metric: its name.
        reason: for the audit log.

    Returns:
        False where the decision has that value already.

    Raises:
        ConfigError: there is no such decision, or the metric cannot have such a value.
    """
    check_reason(reason)
    parsed = parse((decision_id, value), session.code, metric_named(session.spec, metric).built)
    if parsed.invalid is not None:
        raise ConfigError(f"{decision_id}: {parsed.invalid}.")
    with session.database.write() as c:
        row = session.row(c, lock=True)
        if parsed.t is None or parsed.t > row.t:
            raise ConfigError(f"There is no decision {decision_id!r} in the experiment {session.name!r}.")
        before = standing(c, session.id, metric, [parsed.t]).get(parsed.t)
        if before == parsed.reward:
            return False
        change = entries.Change(session, c, row)
        add_measures(change, metric, "corrected", {parsed.t: parsed.reward})
        detail = {"metric": metric, "decisions": [decision_id], "before": [before], "reason": reason, "value": parsed.reward}
        change.finish("correct", detail)
    return True


def add_measures(change: entries.Change, metric: str, kind: str, values: Mapping[int, float]) -> None:
    """Append values of a metric, by decision. They have the position of their operation, which has one metric only: so each
    decision comes once, in the order in which the hash chain reads them."""
    ts = sorted(values)
    columns = {
        "metric": metric,
        "t": ts,
        "position": change.position + 1,
        "kind": kind,
        "value": [values[t] for t in ts],
        "at": change.now,
    }
    change.insert(schema.measures, columns, len(ts))


def standing(c: sa.Connection, experiment: int, metric: str, ts: Iterable[int]) -> dict[int, float]:
    """The last values of some decisions that have one."""
    table, out = schema.measures, {}
    for some in chunks(sorted(ts)):
        numbers = sa.bindparam("some", some, expanding=True, literal_execute=True, type_=sa.BigInteger)
        own = table.c.experiment == experiment, table.c.metric == metric, table.c.t.in_(numbers)
        out |= dict(ledger.fetch(c, sa.select(table.c.t, table.c.value).where(*own).order_by(table.c.t, table.c.position)))
    return out


def _sorted(
    session: Session, c: sa.Connection, decisions: int, metric: str, rows: list[ParsedRow]
) -> tuple[dict[str, list[int]], dict[int, float]]:
    """The places of rejected rows by outcome, and accepted values by decision."""
    mine = numbers_of(rows, decisions)
    stands, accepted = standing(c, session.id, metric, mine), {}
    cancelled = {t for t, last in (ledger.standings(c, session.id, list(mine)) if mine else {}).items() if last.kind == "cancelled"}

    def judge(t: int, value: float) -> str | None:
        if t in stands:
            return "duplicate" if stands[t] == value else "conflict"
        if t in cancelled:
            return "conflict"
        accepted[t] = stands[t] = value
        return None

    return rejected(rows, mine, judge), accepted


def _as_reward(row: Any) -> Any:
    """A row with "value" as one with "reward", which is what rows are read by."""
    if isinstance(row, Mapping) and "value" in row:
        if "reward" in row:
            return None  # which of the two is meant is not known: no row
        return {("reward" if name == "value" else name): value for name, value in row.items()}
    return row
