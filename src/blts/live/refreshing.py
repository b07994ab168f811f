"""A batch closed: a new policy version from the rewards that stand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy as sa

from . import entries, ledger, policy, priors, schema
from .answers import Refreshed, rewards_in_words
from .database import DbRow
from .learning import diagnostics, failings, learn
from .parts import single_model

if TYPE_CHECKING:
    from .context import Context, Policy

TRIES = 3  # refreshes computed outside the lock before one is computed inside it


class Computed(NamedTuple):
    """A refresh that is computed and not written."""

    row: DbRow
    current: Policy
    watermark: int
    """The ledger was read up to here, with what the window settles."""
    silent: ledger.Waiting
    """Decisions whose window has passed without a word."""
    rows: ledger.Rewards
    made: Policy
    """The new version; only its number is not given yet."""
    diagnostics: dict[str, Any]
    failings: list[str]
    repeat: int
    """Refreshes there were since the last decision."""
    force: bool
    now: float


def refresh(ctx: Context, force: bool) -> Refreshed:
    """The costly part is computed on a snapshot, and written if no other refresh or decision came between."""
    for _ in range(TRIES):
        with ctx.database.read() as c:
            computed = _compute(ctx, c, ctx.row(c), force)
        if isinstance(computed, Refreshed):
            return computed
        with ctx.database.write() as c:
            row = ctx.row(c, lock=True)
            # What a window settled is written right behind what was read, so then nothing may have come between.
            unchanged = (row.versions, row.t) == (computed.row.versions, computed.row.t)
            if unchanged and (row.position == computed.row.position or not computed.silent.t):
                return _commit(ctx, c, computed._replace(row=row))
    with ctx.database.write() as c:
        computed = _compute(ctx, c, ctx.row(c, lock=True), force)
        return computed if isinstance(computed, Refreshed) else _commit(ctx, c, computed)


def catch_up(ctx: Context) -> str | None:
    """Under external batching: refresh when rewards were told since the last refresh; why that is not used, if it is not."""
    policies, rewards = schema.policies, schema.rewards
    with ctx.database.read() as c:
        seen = c.execute(sa.select(sa.func.max(policies.c.watermark)).where(policies.c.experiment == ctx.id)).scalar()
        last = c.execute(sa.select(sa.func.max(rewards.c.position)).where(rewards.c.experiment == ctx.id)).scalar()
    if (last or 0) > (seen or 0):
        return refresh(ctx, force=True).why
    return None


def _compute(ctx: Context, c: sa.Connection, row: DbRow, force: bool) -> Computed | Refreshed:
    """What a refresh would write, or an answer that says why there is none."""
    spec, now = ctx.spec, ctx.now()
    silent = ledger.NOBODY if spec.window is None else ledger.waiting(c, ctx.id, asked_before=now - spec.window)
    why = None if force else _why_not(row, row.awaited - sum(t > row.began for t in silent.t))
    if why is not None:
        return Refreshed(False, row.version, True, row.batch, why, row.awaited, {})
    current = ctx.policy(c, row.version)
    ctx.fold = ctx.fold.until(c, row.position)
    rows = ctx.fold.rows
    if spec.default_reward is not None:
        rows = rows.plus(silent.t, silent.arms, spec.default_reward)
    repeat = _repeats(ctx, c, row.t)
    made, info = learned(ctx, current, rows, row.t, repeat)
    failed = failings(made.frozen, info, policy.is_fixed(current.built.agent), spec.rhat)
    return Computed(row, current, row.position + len(silent.t), silent, rows, made, info, failed, repeat, force, now)


def _why_not(row: DbRow, awaited: int) -> str | None:
    """Why a batch cannot be closed yet."""
    if not row.due:
        return f"batch {row.batch} is still open after {row.t - row.began} decisions"
    return f"batch {row.batch} awaits {rewards_in_words(awaited)}" if awaited else None


def learned(ctx: Context, current: Policy, rows: ledger.Rewards, t: int, repeat: int) -> tuple[Policy, dict[str, Any]]:
    """What the agent makes of some rewards, with its diagnostics. A prior that is learned is fitted to them first."""
    prior = current.prior
    if ctx.spec.prior is not None and ctx.spec.prior.learned:
        prior = priors.fitted(single_model(ctx.spec.model), rows.arms, rows.rewards)
    built = ctx.build(current.active, current.arms, prior)
    state, info = learn(ctx.key, built.agent, current.frozen.state, rows.data.of(current.active), t=t, repeat=repeat)
    made = current._replace(built=built, frozen=policy.freeze(built.agent, state, ctx.spec.draw), prior=prior)
    return made, diagnostics(info)


def _commit(ctx: Context, c: sa.Connection, new: Computed) -> Refreshed:
    """Write the policy version, and the entries of decisions whose window has passed, in the caller's transaction."""
    row, current, silent = new.row, new.current, new.silent.t
    default = ctx.spec.default_reward
    kind = "missing" if default is None else "default"
    digest = entries.add_rewards(ctx, c, row.position, silent, kind, [default] * len(silent), new.now)
    position, version, in_use = row.position + len(silent) + 1, row.versions + 1, not new.failings
    settings = {"repeat": new.repeat, "force": new.force}
    about = entries.about(
        ctx,
        current.arms,
        current.active,
        new.made.built,
        new.made.frozen.state,
        rows=new.rows,
        diagnostics=new.diagnostics,
        prior=new.made.prior,
        **settings,
    )
    entries.add_policy(
        ctx,
        c,
        version=version,
        kind="refresh",
        batch=row.batch,
        t=row.t,
        position=position,
        watermark=new.watermark,
        active=current.active,
        frozen=new.made.frozen,
        about=about,
        now=new.now,
        rows=new.rows,
        failings=new.failings,
    )
    detail = {"version": version, "in_use": in_use, "failings": new.failings, "force": new.force, kind: len(silent)}
    entries.add_audit(ctx, c, position, "refresh", detail | {"batch": row.batch, "digest": digest}, new.now)
    entries.update(
        ctx,
        c,
        position=position,
        versions=version,
        version=version if in_use else row.version,
        batch=row.batch + 1,
        began=row.t,
        due=False,
        awaited=0,
    )
    why = None if in_use else f"version {version} is kept out of use: {'; '.join(new.failings)}"
    return Refreshed(True, version, in_use, row.batch + 1, why, 0, new.diagnostics)


def _repeats(ctx: Context, c: sa.Connection, t: int) -> int:
    """How many refreshes there were since the last decision."""
    table = schema.policies
    query = sa.select(sa.func.count()).select_from(table)
    return c.execute(query.where(table.c.experiment == ctx.id, table.c.t == t, table.c.kind == "refresh")).scalar_one()
