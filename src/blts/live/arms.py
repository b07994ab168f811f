"""Arms that come and go: each change is a policy version of its own, and what is known of the others is carried over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import sqlalchemy as sa

from .. import _random
from .._typing import PRNGKey, Tree
from ..agents import Agent, Thompson
from ..errors import ConfigError, Conflict, UnknownName, shown
from . import encoding, entries, policy, schema
from .checks import LARGEST, check_alike, check_reason, check_text, look, metadata_as_json
from .database import DbRow
from .parts import Arm
from .policy import Built

if TYPE_CHECKING:
    from .session import Policy, Session

GROWN = policy.LAST - 1  # no decision has this index either: it is for the starting values of arms that come later


def add_arm(session: Session, label: str, metadata: dict[str, Any] | None, options: dict[str, float], reason: str) -> int:
    check_reason(reason)
    check_text("An arm's label", label)
    for name, value in options.items():
        if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) <= LARGEST:
            raise ConfigError(f"{name} of the arm {label!r} must be a number; got {shown(value)}.")
    arm = Arm(label, metadata_as_json({} if metadata is None else metadata), options)
    with session.database.write() as c:
        row = _running(session, c)
        current = session.policy(c, row.version)
        if label in [a.label for a in current.arms]:
            raise Conflict(f"There is an arm {label!r} already; take another label.")
        check_alike("The arms", [*(a.label for a in current.arms if look(a.label) == look(label)), label])
        active = (*current.active, len(current.arms))
        if session.spec.floor * len(active) + session.spec.control_share >= 1:
            raise ConfigError(f"With {len(active)} arms the floors and the control share leave nothing to the agent.")
        _check_features(session, arm)
        audit = "add arm", {"arm": label, "options": options} | ({"reason": reason} if reason else {})
        change = entries.Change(session, c, row)
        change.add_arms([arm], len(current.arms), row.versions + 1)
        return _rearm(change, current, arms=(*current.arms, arm), active=active, audit=audit)


def _check_features(session: Session, arm: Arm) -> None:
    """Refuse an arm without its declared features, and one more arm where a θ that all share has a number for each."""
    if session.spec.arm_features:
        session.spec.arm_numbers(arm)
    elif session.spec.shared:
        raise ConfigError(
            "The θ that all arms share has a number for each arm; declare arm_features in a new experiment to add arms."
        )


def retire_arm(session: Session, label: str, reason: str) -> int:
    check_reason(reason)
    check_text("An arm's label", label)
    with session.database.write() as c:
        row = _running(session, c)
        current = session.policy(c, row.version)
        if label not in current.labels:
            raise UnknownName("active arm", label, current.labels)
        if len(current.active) == 1:
            raise ConfigError(f"{label!r} is the last active arm; pause the experiment instead.")
        index = current.active[current.labels.index(label)]
        active = tuple(i for i in current.active if i != index)
        audit = "retire arm", {"arm": label, "reason": reason}
        version = _rearm(entries.Change(session, c, row), current, arms=current.arms, active=active, audit=audit)
        table = schema.arms
        c.execute(sa.update(table).where(table.c.experiment == session.id, table.c.arm == index).values(retired=version))
        return version


def _running(session: Session, c: sa.Connection) -> DbRow:
    """The locked row of an experiment whose arms may still change."""
    row = session.row(c, lock=True)
    if row.stopped is not None:
        raise Conflict(f"The experiment {session.name!r} is stopped; create another one.")
    return row


def stop(session: Session, promote: str | None, reason: str) -> int:
    """End the experiment: from now on every decision is the promoted arm, or there are none."""
    check_reason(reason)
    if promote is not None:
        check_text("The arm to promote", promote)
    with session.database.write() as c:
        row = session.row(c, lock=True)
        if row.stopped is not None:
            raise Conflict(f"The experiment {session.name!r} is stopped already.")
        change, detail = entries.Change(session, c, row), {"promote": promote, "reason": reason}
        if promote is None:
            change.finish("stop", detail, stopped="", paused=True)
            return row.version
        current = session.policy(c, row.version)
        if promote not in current.labels:
            raise UnknownName("active arm", promote, current.labels)
        kept = current.active[current.labels.index(promote)]
        version = _rearm(change, current, arms=current.arms, active=(kept,), audit=("stop", detail), stopped=promote)
        table, others = schema.arms, [i for i in current.active if i != kept]
        c.execute(sa.update(table).where(table.c.experiment == session.id, table.c.arm.in_(others)).values(retired=version))
        return version


def _rearm(
    change: entries.Change,
    current: Policy,
    *,
    arms: tuple[Arm, ...],
    active: tuple[int, ...],
    audit: tuple[str, dict[str, Any]],
    **changed: Any,
) -> int:
    """Write a policy version for other active arms, and finish the change; the version's number."""
    session, row, (what, detail) = change.session, change.row, audit
    version = row.versions + 1
    built = session.build(active, arms, current.prior)
    before = Held(current.active, current.frozen.state, session.ticks(row, current))
    frozen, ticks = carried(session.key, before, active, built, version, session.spec.draw)
    change.add_policy(
        version=version,
        kind="arms",
        batch=row.batch,
        t=row.t,
        position=change.position + 1,
        watermark=entries.policy_row(change.c, session.id, current.version).watermark,
        active=active,
        frozen=frozen,
        about=entries.about(session, arms, active, built, frozen.state, prior=current.prior),
    )
    change.finish(
        what, detail | {"version": version}, versions=version, version=version, clock=encoding.clock_text(ticks), **changed
    )
    return version


class Held(NamedTuple):
    """What is known when arms change."""

    active: tuple[int, ...]
    state: Tree
    clock: policy.Clock


def carried(
    key: PRNGKey, before: Held, active: tuple[int, ...], built: Built, version: int, draw: str
) -> tuple[policy.Frozen, policy.Clock]:
    """The state and the clock of other arms, with all that is known of those that stay.

    Args:
        key: the experiment's.
        before: what is known.
        active: numbers of the arms from now on.
        built: the objects that decide among them.
        version: the number of the policy version that this makes.
        draw: who chooses, as in `policy.freeze`.

    Returns:
        The policy version, and the clock.
    """
    fresh, ticks = _start(key, built.agent, version), before.clock
    shared = isinstance(built.agent, Thompson) and built.agent.shared
    state = before.state if shared else _carry(before.state, fresh, before.active, active)
    zero = policy.start_clock(key, built.batching, len(active))
    plays, batching = _carry((ticks.plays, ticks.batching), (zero.plays, zero.batching), before.active, active)
    return policy.freeze(built.agent, state, draw, built.obs), policy.Clock(ticks.t, plays, batching, ticks.due)


def _carry(old: Tree, fresh: Tree, before: tuple[int, ...], after: tuple[int, ...]) -> Tree:
    """`fresh` with what `old` knows of the arms that both have. Arrays have their arms in front; numbers are kept."""
    kept = [arm for arm in after if arm in before]
    source = [before.index(arm) for arm in kept]
    place = [after.index(arm) for arm in kept]

    def move(a, b):
        if jnp.ndim(b) == 0:
            return a
        if jnp.shape(a)[0] != len(before) or jnp.shape(b)[0] != len(after):
            raise ConfigError("This agent or batching keeps numbers that are not one for each arm, so its arms cannot change.")
        return jnp.asarray(b).at[np.array(place, int)].set(jnp.asarray(a)[np.array(source, int)])

    return jax.tree.map(move, old, fresh)


@jax.jit
def _start(key: PRNGKey, agent: Agent, version: int) -> Tree:
    """Starting values for a policy version with other arms."""
    return agent.init(_random.fold_in(_random.fold_in(key, GROWN), version))
