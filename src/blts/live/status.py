"""Where an experiment stands: its row, its policy versions, its audit log."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import sqlalchemy as sa

from ..errors import ConfigError, whole
from . import entries, policy, priors, schema
from .checks import check_reason
from .learning import chains_in_words
from .metrics.definition import control_of

if TYPE_CHECKING:
    from .context import Context, Policy
    from .spec import Spec


def status(ctx: Context) -> dict[str, Any]:
    with ctx.database.read() as c:
        row = ctx.row(c)
        current = ctx.policy(c, row.version)
        entry = entries.policy_row(c, ctx.id, row.version)
        failings = last_failings(ctx, c)
    return {
        "name": ctx.name,
        "paused": bool(row.paused),
        "stopped": row.stopped is not None,
        "promoted": row.stopped or None,
        "arms": [a.label for a in current.arms],
        "active": current.labels,
        "decisions": row.t,
        "entries": row.entries,
        "pending": row.t - row.settled,
        "batch": row.batch,
        "batch_size": row.t - row.began,
        "feedback_due": bool(row.due),
        "awaited": row.awaited,
        "policy": row.version,
        "policies": row.versions,
        "allocation": dict(zip(current.labels, allocation(current).tolist(), strict=True))
        if policy.is_fixed(current.built.agent)
        else None,
        "last_refresh_failed": failings or None,
        "chains": chains_in_words(json.loads(entry.about)["diagnostics"]) or None,
        "warnings": warnings(ctx.spec, json.loads(entry.about)),
        "model": ctx.spec.model.words,
        "prior": prior_in_words(ctx, current),
        "sampler": ctx.spec.sampler.words,
        "batching": ctx.spec.batching.words,
        "seed": ctx.spec.seed,
        "floor": ctx.spec.floor,
        "control": control_of(ctx.spec),
        "control_share": ctx.spec.control_share,
        "burn_in": ctx.spec.burn_in,
        "window": ctx.spec.window,
        "default_reward": ctx.spec.default_reward,
        "learn": ctx.spec.learn,
        "exposure": ctx.spec.exposure,
        "strict": ctx.spec.strict,
        "metrics": [metric.name for metric in ctx.spec.metrics],
        "stopping_rule": None if ctx.spec.stop is None else {k: v for k, v in ctx.spec.stop._asdict().items() if v is not None},
        "created_at": row.created_at,
        "refreshed_at": entry.at,
    }


def prior_in_words(ctx: Context, current: Policy) -> str:
    """What is believed of an arm without rewards."""
    said = ctx.spec.prior
    if said is not None and said.learned and not current.prior:
        return "learned from the rewards of all arms, once there are some; until then all arms are equal"
    numbers = current.prior if said is None else said.numbers | current.prior
    words = priors.in_words(priors.with_numbers(ctx.single_model, numbers))
    return (f"learned from all arms: {words}" if said is not None and said.learned else words) or "that of its class"


def warnings(spec: Spec, about: dict[str, Any]) -> list[str]:
    """What a person should know before trusting an experiment.

    Args:
        spec: the experiment's.
        about: of the policy in use.

    Returns:
        Sentences.
    """
    found = [f"The model does not fit the rewards, so nothing is recommended. {sentence}" for sentence in about.get("misfit", [])]
    if spec.window is not None and spec.learn == "open":
        found.append(
            "Rewards are learned from while windows are open: arms whose successes come fast look better than they are. "
            'Leave out learn="open" unless silence says nothing.'
        )
    return found


def allocation(current: Policy) -> np.ndarray:
    """The propensities of the active arms after burn-in; NaN where they are not the same for the whole batch."""
    added = np.asarray(current.built.mixture.added, float)
    return added + (1 - added.sum()) * np.asarray(current.frozen.law, float)


def policy_entry(ctx: Context, version: int | None) -> dict[str, Any]:
    """A policy version as it was written; by default the one in use."""
    chosen = None if version is None else whole("version", version, 1, 2**62)
    with ctx.database.read() as c:
        entry = entries.policy_row(c, ctx.id, ctx.row(c).version if chosen is None else chosen)
    return {
        "version": entry.version,
        "kind": entry.kind,
        "batch": entry.batch,
        "t": entry.t,
        "watermark": entry.watermark,
        "in_use": bool(entry.in_use),
        "failings": json.loads(entry.failings),
        "at": entry.at,
        "data": entry.data,
        **json.loads(entry.about),
    }


def last_failings(ctx: Context, c: sa.Connection) -> list[str]:
    """Why the last refresh is not in use; empty where it is, or there was none. Arms may have come and gone since."""
    table = schema.policies
    mine = table.c.experiment == ctx.id, table.c.kind == "refresh"
    last = c.execute(sa.select(table.c.in_use, table.c.failings).where(*mine).order_by(table.c.version.desc()).limit(1)).first()
    return [] if last is None or last.in_use else json.loads(last.failings)


def audit(ctx: Context) -> list[dict[str, Any]]:
    table = schema.audit
    with ctx.database.read() as c:
        found = c.execute(sa.select(table).where(table.c.experiment == ctx.id).order_by(table.c.position)).all()
    return [{"position": r.position, "at": r.at, "actor": r.actor, "what": r.what, "detail": json.loads(r.detail)} for r in found]


def set_paused(ctx: Context, paused: bool, reason: str) -> None:
    check_reason(reason)
    with ctx.database.write() as c:
        row = ctx.row(c, lock=True)
        if row.stopped is not None:
            raise ConfigError(f"The experiment {ctx.name!r} is stopped; create another one.")
        if bool(row.paused) == paused:
            return
        entries.Change(ctx, c, row).finish("pause" if paused else "resume", {"reason": reason}, paused=paused)
