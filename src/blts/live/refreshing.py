"""A batch closed: a new policy version from the rewards that stand."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy as sa

from . import entries, ledger, policy, schema
from .answers import Refreshed, rewards_in_words
from .closing import Closed, by_cadence, next_began
from .conclusions import misfit
from .database import DbRow
from .learning import diagnostics, failings, learn, too_fine

if TYPE_CHECKING:
    from .context import Context, Policy

TRIES = 3  # refreshes computed outside the lock before one is computed inside it


class Computed(NamedTuple):
    """A refresh that is computed and not written."""

    row: DbRow
    current: Policy
    watermark: int
    """The ledger was read up to here, with what the window settles."""
    silent: list[int]
    """Decisions whose window has passed without a word."""
    rows: ledger.Rewards
    cutoff: float | None
    """Decisions whose window began later are not learned from yet."""
    made: Policy
    """The new version; only its number is not given yet."""
    diagnostics: dict[str, Any]
    failings: list[str]
    misfit: list[str]
    """How the model does not fit the rewards: the policy is used, and nothing is recommended."""
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
            if unchanged and (row.position == computed.row.position or not computed.silent):
                return _commit(ctx, c, computed._replace(row=row))
    with ctx.database.write() as c:
        computed = _compute(ctx, c, ctx.row(c, lock=True), force)
        return computed if isinstance(computed, Refreshed) else _commit(ctx, c, computed)


def _compute(ctx: Context, c: sa.Connection, row: DbRow, force: bool) -> Computed | Refreshed:
    """What a refresh would write, or an answer that says why there is none."""
    spec, now = ctx.spec, ctx.now()
    if not force and not row.due and not _cadence(ctx, c, row, now):
        return _not_yet(row, f"batch {row.batch} is still open after {row.t - row.began} decisions")
    ctx.fold = ctx.fold.until(c, row.position, row.t)
    closed = Closed.at(spec, ctx.fold, now, _last_cutoff(ctx, c))
    if not force and row.due:
        why = _why_not(row, closed.awaited(row.began, row.closing), closed.cutoff is not None)
        if why is not None:
            return _not_yet(row, why)
    silent, rows = closed.silent(), closed.rows(spec.exposure == "explicit")
    if not force and not row.due and rows.digest() == _last_data(ctx, c, row):
        return _not_yet(row, "there is nothing new to learn from")
    current = ctx.policy(c, row.version)
    repeat = _repeats(ctx, c, row.t)
    made, info = learned(ctx, current, rows, row.t, repeat)
    failed = failings(made.frozen, info, policy.is_fixed(current.built.agent), spec.rhat)
    data = rows.data.of(current.active)
    failed += too_fine(data.arms, data.rewards)
    wrong = [one.sentence for one in misfit.misfits(made.built.model, data.arms, data.rewards, current.labels) if one.serious]
    ts = (silent + 1).tolist()
    return Computed(row, current, row.position + len(ts), ts, rows, closed.cutoff, made, info, failed, wrong, repeat, force, now)


def _last_cutoff(ctx: Context, c: sa.Connection) -> float | None:
    """The cutoff of the last refresh."""
    table = schema.policies
    own = sa.select(table.c.about).where(table.c.experiment == ctx.id, table.c.kind == "refresh")
    last = c.execute(own.order_by(table.c.version.desc()).limit(1)).scalar()
    return None if last is None else json.loads(last).get("cutoff")


def _not_yet(row: DbRow, why: str) -> Refreshed:
    return Refreshed(False, row.version, True, row.batch, why, row.awaited, {})


def _why_not(row: DbRow, awaited: int, windows: bool) -> str | None:
    """Why a batch cannot be closed yet."""
    if not awaited:
        return None
    if windows:
        return f"batch {row.batch} awaits the end of {awaited} window{'' if awaited == 1 else 's'}"
    return f"batch {row.batch} awaits {rewards_in_words(awaited)}"


def _cadence(ctx: Context, c: sa.Connection, row: DbRow, now: float) -> bool:
    """Whether a refresh is due although the batch is open."""
    last, new = entries.policy_row(c, ctx.id, row.versions), 0
    if ctx.spec.refresh_rewards is not None:
        table = schema.rewards
        query = sa.select(sa.func.count()).where(table.c.experiment == ctx.id, table.c.position > last.watermark)
        new = c.execute(query).scalar_one()
    return by_cadence(ctx.spec, now - last.at, new)


def _last_data(ctx: Context, c: sa.Connection, row: DbRow) -> str:
    """The digest of the rewards that the last version learned from."""
    return entries.policy_row(c, ctx.id, row.versions).data


def learned(ctx: Context, current: Policy, rows: ledger.Rewards, t: int, repeat: int) -> tuple[Policy, dict[str, Any]]:
    """What the agent makes of some rewards, with its diagnostics. A prior that is learned is fitted to them first."""
    prior = ctx.prior(current.prior, rows.arms, rows.rewards)
    built = ctx.build(current.active, current.arms, prior)
    state, info = learn(ctx.key, built.agent, current.frozen.state, rows.data.of(current.active), t=t, repeat=repeat)
    made = current._replace(built=built, frozen=policy.freeze(built.agent, state, ctx.spec.draw), prior=prior)
    return made, diagnostics(info)


def _commit(ctx: Context, c: sa.Connection, new: Computed) -> Refreshed:
    """Write the policy version, and the entries of decisions whose window has passed, in the caller's transaction."""
    row, current, silent, default = new.row, new.current, new.silent, ctx.spec.default_reward
    kind = "missing" if default is None else "default"
    change = entries.Change(ctx, c, row)
    change.now = new.now
    change.add_rewards(silent, kind, [default] * len(silent))
    version, in_use = row.versions + 1, not new.failings
    settings = {"repeat": new.repeat, "force": new.force, "cutoff": new.cutoff}
    about = entries.about(
        ctx,
        current.arms,
        current.active,
        new.made.built,
        new.made.frozen.state,
        rows=new.rows,
        diagnostics=new.diagnostics,
        prior=new.made.prior,
        misfit=new.misfit,
        **settings,
    )
    change.add_policy(
        version=version,
        kind="refresh",
        batch=row.batch,
        t=row.t,
        position=change.position + 1,
        watermark=new.watermark,
        active=current.active,
        frozen=new.made.frozen,
        about=about,
        data=new.rows.digest(),
        failings=new.failings,
    )
    detail = {"version": version, "in_use": in_use, "failings": new.failings, "force": new.force, kind: len(silent)}
    began = next_began(bool(row.due), row.closing, row.t)
    after = {
        "versions": version,
        "version": version if in_use else row.version,
        "batch": row.batch + 1,
        "began": began,
        "due": False,
        "closing": 0,
        "awaited": row.t - began - settled_after(c, ctx.id, began),
        "settled": row.settled + len(silent),
        "entries": row.entries + len(silent),
    }
    change.finish("refresh", detail | {"batch": row.batch}, **after)
    why = None if in_use else f"version {version} is kept out of use: {'; '.join(new.failings)}"
    return Refreshed(True, version, in_use, row.batch + 1, why, after["awaited"], new.diagnostics)


def settled_after(c: sa.Connection, experiment: int, t: int) -> int:
    """How many decisions after decision t have an entry about their reward."""
    table = schema.rewards
    query = sa.select(sa.func.count(sa.distinct(table.c.t))).where(table.c.experiment == experiment, table.c.t > t)
    return c.execute(query).scalar_one()


def _repeats(ctx: Context, c: sa.Connection, t: int) -> int:
    """How many refreshes there were since the last decision."""
    table = schema.policies
    query = sa.select(sa.func.count()).select_from(table)
    return c.execute(query.where(table.c.experiment == ctx.id, table.c.t == t, table.c.kind == "refresh")).scalar_one()
