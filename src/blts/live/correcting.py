"""Entries that replace earlier ones: a reward corrected, a decision withdrawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError
from . import entries, ledger, parsing

if TYPE_CHECKING:
    from .context import Context


def correct(ctx: Context, decision_id: str, reward: float, reason: str) -> bool:
    parsed = parsing.parse((decision_id, reward), ctx.code, ctx.model)
    if parsed.invalid is not None:
        raise ConfigError(f"{decision_id}: {parsed.invalid}.")
    return _supersede(ctx, "correct", [(decision_id, parsed.t)], ledger.Standing("corrected", parsed.reward), reason) > 0


def cancel(ctx: Context, decision_ids: Sequence[str], reason: str) -> int:
    ids = [decision_ids] if isinstance(decision_ids, str) else decision_ids
    pairs = [(i, parsing.index_of(i, ctx.code)) for i in ids]
    return _supersede(ctx, "cancel", pairs, ledger.Standing("cancelled", None), reason)


def _supersede(ctx: Context, what: str, ids: Sequence[tuple[Any, int | None]], entry: ledger.Standing, reason: str) -> int:
    """One more entry for each decision that does not stand so already; how many those were."""
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
