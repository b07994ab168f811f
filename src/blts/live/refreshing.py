"""A batch closed: a new policy version from the rewards that stand."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import sqlalchemy as sa

from ..compilation import give_back_memory, make_room
from ..errors import counted
from . import entries, ledger, policy, releases, schema
from .answers import Refreshed, rewards_in_words
from .closing import Closed, by_cadence, next_began
from .conclusions import misfit
from .conclusions.residuals import wrong_spread
from .database import DbRow
from .learning import Data, diagnostics, failings, learn, learn_from, seen_rows, too_fine
from .telling import is_awaited

if TYPE_CHECKING:
    from .session import Policy, Session

TRIES = 5  # refreshes computed outside the lock before one is computed inside it


class Computed(NamedTuple):
    """A refresh that is computed and not written."""

    row: DbRow
    current: Policy
    watermark: int
    """The ledger was read up to here, with what the window settles."""
    silent: list[int]
    """Decisions whose window has passed without a word."""
    digest: str
    """Of the rewards that it learned from."""
    counts: np.ndarray
    """Of each arm, how many these are."""
    cutoff: float | None
    """Decisions whose window began later are not learned from yet."""
    since: float | None
    """Decisions whose window began earlier are forgotten."""
    weighed_at: float | None
    """The moment for which silence was weighed; None where it is not."""
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
    released: releases.Step | None = None
    """What is released, where that is private."""
    not_learned: int = 0
    """Entries about rewards that were released before."""


def refresh(session: Session, force: bool) -> Refreshed:
    """The costly part is computed on a snapshot, so that nobody has to wait for it.

    Decisions and rewards that come meanwhile do not spoil it: it is written after them, with how many decisions it knew of. Only
    another version, or a batch that was closed meanwhile, has it computed again.
    """
    now = session.now()  # of all tries, so that no further windows end between them
    for _ in range(TRIES):
        with session.database.read() as c:
            computed = _compute(session, c, session.row(c), force, now)
        if isinstance(computed, Refreshed):
            return computed
        with session.database.write() as c:
            row = session.row(c, lock=True)
            if _batch(row) != _batch(computed.row):
                continue
            if row.position == computed.row.position or not computed.silent:
                return _commit(session, c, computed, row)
            _close(session, c, row, computed)  # and compute again, without anything to settle
    with session.database.write() as c:
        row = session.row(c, lock=True)
        computed = _compute(session, c, row, force, now)
        return computed if isinstance(computed, Refreshed) else _commit(session, c, computed, row)


def _batch(row: DbRow) -> tuple[int, bool, int]:
    """What a refresh rests on besides rewards: the policy, and where its batch ends."""
    return row.versions, bool(row.due), row.closing


def _compute(session: Session, c: sa.Connection, row: DbRow, force: bool, now: float) -> Computed | Refreshed:
    """What a refresh would write, or an answer that says why there is none."""
    spec = session.spec
    if not force and not row.due and not _cadence(session, c, row, now):
        none = "" if row.stopped != "" else ", and the experiment is stopped: only a forced refresh learns from it"
        return _not_yet(row, f"batch {row.batch} is still open after {counted(row.t - row.began, 'decision')}{none}")
    if spec.privacy is not None:
        return _compute_private(session, c, row, force, now)
    current = session.policy(c, row.version)
    _compile(session, current)
    session.fold = session.fold.until(c, row.position, row.t)
    ledger.check_count("decisions with a reward", int(session.fold.settled.sum()), row.settled)
    give_back_memory()  # what reading them took
    closed = Closed.at(spec, session.fold, now, last_moment(session, c))
    if not force and row.due:
        awaited = closed.awaited(row.began, row.closing)
        if awaited:
            return _not_yet(row, _why_not(row, awaited, closed.cutoff is not None), awaited)
    silent, rows = closed.silent(), closed.rows(spec.exposure == "explicit")
    if not force and not row.due and rows.digest() == _last_data(session, c, row):
        return _not_yet(row, "there is nothing new to learn from")
    repeat = _repeats(session, c, row.t)
    made, info = learned(session, current, rows, row.t, repeat)
    failed = failings(made.frozen, info, policy.is_fixed(current.built.agent), spec.rhat)
    data = rows.data.of(current.active)
    failed += too_fine(data.arms, data.rewards)
    wrong = _misfits(made, data)
    ts = (silent + 1).tolist()
    limits = closed.cutoff, closed.since, closed.weighed_at
    counts = np.bincount(rows.arms, minlength=len(current.arms))
    learned_from = rows.digest(), counts
    return Computed(row, current, row.position + len(ts), ts, *learned_from, *limits, made, info, failed, wrong, repeat, force, now)


def _compute_private(session: Session, c: sa.Connection, row: DbRow, force: bool, now: float) -> Computed | Refreshed:
    """The same where refreshes are private: from the rows that no version covered before, and the sums that earlier ones released.

    What fits rewards or judges them reads no reward here, for it would decide which version is used.
    """
    spec, explicit, last = session.spec, session.spec.exposure == "explicit", releases.last(c, session.id)
    current = session.policy(c, row.version)
    _compile(session, current)
    seen = session.fold
    if last.limits is not None:  # and no further, for the next refresh needs it as it was then
        seen = session.fold = seen.until(c, last.limits.watermark, last.limits.known)
    fold = seen.until(c, row.position, row.t)
    ledger.check_count("decisions with a reward", int(fold.settled.sum()), row.settled)
    give_back_memory()
    closed = Closed.at(spec, fold, now)
    cutoff = now - (spec.window or 0.0)
    if last.limits is not None and cutoff < last.limits.cutoff:
        late = f"the clock is {last.limits.cutoff - cutoff:.3g} seconds behind the last refresh"
        return _not_yet(row, f"{late}, and what that covered must not be released again; it goes on when the clock has caught up")
    if not force and row.due and (awaited := closed.awaited(row.began, row.closing)):
        return _not_yet(row, _why_not(row, awaited, True), awaited)
    silent, rows = closed.silent(), closed.rows(explicit)
    before = np.zeros(0, bool) if last.limits is None else releases.covered(seen, explicit, last.limits.cutoff)
    new = releases.new_rows(rows, before)
    if not row.due and not len(new.t):
        return _not_yet(
            row, "there is nothing new to learn from: every reward whose window is over is released, and its budget spent"
        )
    repeat, ts = _repeats(session, c, row.t), (silent + 1).tolist()
    limits = releases.Limits(row.position + len(ts), row.t, cutoff)
    said, arms = spec.privacy, releases.Arms(current.active, current.labels, current.built.agent)
    assert said is not None
    released = releases.step(session.pepper, said, arms, last.totals, new, limits, row.versions + 1)
    made, info = privately_learned(session, current, released.totals, row.t, repeat)
    failed = failings(made.frozen, info, policy.is_fixed(current.built.agent), spec.rhat)
    counts = np.array([released.totals.rows.get(arm.label, 0) for arm in current.arms])
    late = releases.not_learned(c, session.id, explicit, last, row.position)
    learned_from = released.digest, counts, cutoff, None, None, made, info, failed, []
    return Computed(row, current, limits.watermark, ts, *learned_from, repeat, force, now, released, late)


def privately_learned(
    session: Session, current: Policy, totals: releases.Totals, t: int, repeat: int
) -> tuple[Policy, dict[str, Any]]:
    """What the agent makes of all that was released, with its diagnostics."""
    said, agent = session.spec.privacy, current.built.agent
    assert said is not None
    memory = releases.memory(said, releases.Arms(current.active, current.labels, agent), totals)
    state, info = learn_from(session.key, agent, current.frozen.state, memory, t=t, repeat=repeat)
    return current._replace(frozen=policy.freeze(agent, state, session.spec.draw, current.built.obs)), diagnostics(info)


def _close(session: Session, c: sa.Connection, row: DbRow, computed: Computed) -> None:
    """Settle the decisions whose window has passed, apart from the refresh; those with an entry by now have no need of it."""
    told = ledger.standings(c, session.id, computed.silent)
    silent = [t for t in computed.silent if t not in told]
    if not silent:
        return
    change = entries.Change(session, c, row)
    kind = _settle(session, change, silent)
    counters = {"settled": row.settled + len(silent), "entries": row.entries + len(silent)}
    change.finish("close", {kind: len(silent)}, awaited=row.awaited - sum(is_awaited(row, t) for t in silent), **counters)


def _settle(session: Session, change: entries.Change, silent: list[int]) -> str:
    """Append the entries of decisions that passed in silence; their kind."""
    default = session.spec.default_reward
    kind = "missing" if default is None else "default"
    change.add_rewards(silent, kind, [default] * len(silent))
    return kind


def _misfits(made: Policy, data: Data) -> list[str]:
    """How the model does not fit the rewards, as far as that is serious."""
    if data.x is not None:
        seen = seen_rows(made.built.agent, data)
        return wrong_spread(made.built.model, np.asarray(seen.obs), np.asarray(seen.action), data.rewards)
    found = misfit.misfits(made.built.model, data.arms, data.rewards, made.labels)
    return [one.sentence for one in found if one.serious]


def _compile(session: Session, current: Policy) -> None:
    """Compile the program of propensities, the largest, before rewards are read: both at once take the most memory."""
    if len(current.active) not in session.compiled_laws:
        make_room()
        policy.freeze(current.built.agent, current.frozen.state, session.spec.draw, current.built.obs)
        session.compiled_laws.add(len(current.active))
        give_back_memory()


def last_moment(session: Session, c: sa.Connection) -> float | None:
    """The cutoff of the last refresh, or where silence is weighed the moment that it was weighed for."""
    table = schema.policies
    own = sa.select(table.c.about).where(table.c.experiment == session.id, table.c.kind == "refresh")
    last = c.execute(own.order_by(table.c.version.desc()).limit(1)).scalar()
    return None if last is None else json.loads(last).get("cutoff" if session.spec.delay is None else "weighed_at")


def _not_yet(row: DbRow, why: str, awaited: int | None = None) -> Refreshed:
    return Refreshed(False, row.version, True, row.batch, why, row.awaited if awaited is None else awaited, {})


def _why_not(row: DbRow, awaited: int, windows: bool) -> str:
    """Why a batch cannot be closed yet."""
    if windows:
        return f"batch {row.batch} awaits the end of {awaited} window{'' if awaited == 1 else 's'}"
    return f"batch {row.batch} awaits {rewards_in_words(awaited)}"


def _cadence(session: Session, c: sa.Connection, row: DbRow, now: float) -> bool:
    """Whether a refresh is due although the batch is open."""
    last, new = entries.policy_row(c, session.id, row.versions), 0
    if session.spec.refresh_rewards is not None:
        table = schema.rewards
        query = sa.select(sa.func.count()).where(table.c.experiment == session.id, table.c.position > last.watermark)
        new = c.execute(query).scalar_one()
    return by_cadence(session.spec, now - last.at, new)


def _last_data(session: Session, c: sa.Connection, row: DbRow) -> str:
    """The digest of the rewards that the last version learned from."""
    return entries.policy_row(c, session.id, row.versions).data


def learned(session: Session, current: Policy, rows: ledger.Rewards, t: int, repeat: int) -> tuple[Policy, dict[str, Any]]:
    """What the agent makes of some rewards, with its diagnostics. A prior that is learned is fitted to them first."""
    prior = session.prior(current.prior, rows.arms, rows.rewards)
    built = session.build(current.active, current.arms, prior)
    state, info = learn(session.key, built.agent, current.frozen.state, rows.data.of(current.active), t=t, repeat=repeat)
    made = current._replace(built=built, frozen=policy.freeze(built.agent, state, session.spec.draw, built.obs), prior=prior)
    return made, diagnostics(info)


def _commit(session: Session, c: sa.Connection, new: Computed, row: DbRow) -> Refreshed:
    """Write the policy version, and the entries of decisions whose window has passed, in the caller's transaction.

    Args:
        session: the experiment.
        c: a connection that holds the lock.
        new: the refresh.
        row: the experiment as it stands now, perhaps after more decisions.

    Returns:
        The answer.
    """
    current, silent = new.current, new.silent
    change = entries.Change(session, c, row)
    change.now = new.now
    kind = _settle(session, change, silent)
    version, in_use = row.versions + 1, not new.failings
    settings = {"repeat": new.repeat, "force": new.force, "cutoff": new.cutoff, "since": new.since, "known": new.row.t}
    settings["weighed_at"] = new.weighed_at
    about = entries.about(
        session,
        current.arms,
        current.active,
        new.made.built,
        new.made.frozen.state,
        counts=new.counts,
        diagnostics=new.diagnostics,
        prior=new.made.prior,
        misfit=new.misfit,
        privacy=None if new.released is None else new.released.about,
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
        data=new.digest,
        failings=new.failings,
    )
    detail = {"version": version, "in_use": in_use, "failings": new.failings, "force": new.force, kind: len(silent)}
    if new.released is not None:
        detail["not_learned"] = new.not_learned
    began = next_began(bool(row.due), row.closing, row.t)
    after = {
        "versions": version,
        "version": version if in_use else row.version,
        "batch": row.batch + 1,
        "began": began,
        "due": False,
        "closing": 0,
        "awaited": row.t - began - settled_after(c, session.id, began),
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


def _repeats(session: Session, c: sa.Connection, t: int) -> int:
    """How many refreshes there were since the last decision."""
    table = schema.policies
    query = sa.select(sa.func.count()).select_from(table)
    return c.execute(query.where(table.c.experiment == session.id, table.c.t == t, table.c.kind == "refresh")).scalar_one()
