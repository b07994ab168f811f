"""Where an experiment stands: its row, its policy versions, its audit log."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import sqlalchemy as sa

from ..agents.thompson import PROPENSITY_DRAWS
from ..errors import ConfigError, Conflict, whole
from . import contextual, entries, policy, priors, releases, reports, schema
from .answers import rewards_in_words
from .checks import check_reason
from .learning import chains_in_words
from .metrics.definition import control_of
from .parts import EXTERNAL
from .standing import is_paused, rewards_awaited

if TYPE_CHECKING:
    from .session import Policy, Session
    from .spec import Spec


def status(session: Session) -> dict[str, Any]:
    with session.database.read() as c:
        row = session.row(c)
        current = session.policy(c, row.version)
        entry = entries.policy_row(c, session.id, row.version)
        failings = last_failings(session, c)
        awaited = rewards_awaited(session, c, row)
        budget = releases.budget(session, c, row.position)
        differs = reports.differing_feedback(c, session.id)
    return {
        "name": session.name,
        "paused": is_paused(row),
        "stopped": row.stopped is not None,
        "promoted": row.stopped or None,
        "arms": [a.label for a in current.arms],
        "active": current.labels,
        "decisions": row.t,
        "entries": row.entries,
        "without_reward": row.t - row.settled,
        "batch": row.batch,
        "batch_size": row.t - row.began,
        "feedback_due": bool(row.due),
        "awaited": awaited,
        "policy": row.version,
        "policies": row.versions,
        "allocation": dict(zip(current.labels, allocation(current).tolist(), strict=True))
        if policy.is_fixed(current.built.agent)
        else None,
        "allocation_error": allocation_error(current),
        "last_refresh_failed": failings or None,
        "chains": chains_in_words(json.loads(entry.about)["diagnostics"]) or None,
        "warnings": warnings(session.spec, json.loads(entry.about) | {"feedback_share": differs}),
        "waits": held_up(session.spec, bool(row.due), row.batch, awaited),
        "model": session.spec.model.words,
        "prior": prior_in_words(session, current),
        "sampler": session.spec.sampler.words,
        "batching": session.spec.batching.words,
        "seed": session.spec.seed,
        "floor": session.spec.floor,
        "control": control_of(session.spec),
        "control_share": session.spec.control_share,
        "burn_in": session.spec.burn_in,
        "window": session.spec.window,
        "forget": session.spec.forget,
        "delay": session.spec.delay,
        "privacy": budget,
        "default_reward": session.spec.default_reward,
        "learn": session.spec.learn,
        "exposure": session.spec.exposure,
        "strict": session.spec.strict,
        "metrics": [metric.name for metric in session.spec.metrics],
        "stopping_rule": None
        if session.spec.stop is None
        else {k: v for k, v in session.spec.stop._asdict().items() if v is not None},
        "created_at": row.created_at,
        "refreshed_at": entry.at,
    } | declared_in_words(session.spec)


def held_up(spec: Spec, due: bool, batch: int, awaited: int) -> str | None:
    """What learning waits for, where it may wait for ever: rewards of a closed batch without a window; None elsewhere."""
    if not due or not awaited or not never_ends(spec):
        return None
    return (
        f"Batch {batch} is closed and awaits {rewards_in_words(awaited)}. There is no window, so one that never comes holds up "
        "learning: tell or cancel them, or refresh with force"
    )


def never_ends(spec: Spec) -> bool:
    """Whether a batch could wait for a reward for ever: there is neither a window nor a cadence."""
    return spec.window is None and spec.refresh_rewards is None and spec.refresh_seconds is None and spec.batching.name != EXTERNAL


def declared_in_words(spec: Spec) -> dict[str, Any]:
    """The declared features and how they become numbers; nothing where there are none."""
    if spec.encoding is None:
        return {}
    theta = "every arm has its own θ of the features"
    if spec.shared:
        theta = "all arms have one θ, of the features and " + (
            "their products with those of the arms" if spec.arm_features else "an indicator of each arm"
        )
    arms = {"arm_features": [feature.encoding for feature in spec.arm_features]} if spec.arm_features else {}
    return {"features": spec.encoding.words, **arms, "theta": theta}


def prior_in_words(session: Session, current: Policy) -> str:
    """What is believed of an arm without rewards."""
    if session.spec.features:
        return contextual.prior_in_words(session.spec, session.single_model)
    said = session.spec.prior
    if said is not None and said.learned and not current.prior:
        return "learned from the rewards of all arms, once there are some; until then all arms are equal"
    numbers = current.prior if said is None else said.numbers | current.prior
    words = priors.in_words(priors.with_numbers(session.single_model, numbers))
    return (f"learned from all arms: {words}" if said is not None and said.learned else words) or "that of its class"


def warnings(spec: Spec, about: dict[str, Any]) -> list[str]:
    """What a person should know before trusting an experiment.

    Args:
        spec: the experiment's.
        about: of the policy in use; with "feedback_share", the sentence of a report that arms are not answered equally often.

    Returns:
        Sentences.
    """
    found = [f"The model does not fit the rewards, so nothing is recommended. {sentence}" for sentence in about.get("misfit", [])]
    found += [f"Answers differ by arm, so nothing is recommended. {sentence}" for sentence in about.get("feedback_share", [])]
    if spec.window is not None and spec.learn == "open":
        found.append(
            "Rewards are learned from while windows are open: arms whose successes come fast look better than they are. "
            'Leave out learn="open" unless silence says nothing.'
        )
    return found


def allocation(current: Policy) -> np.ndarray:
    """The propensities of the active arms after burn-in; NaN where they are not the same for the whole batch."""
    return mixed(current.built.mixture, current.frozen.law)


def mixed(mixture: policy.Mixture, law: Any) -> np.ndarray:
    """The propensities after burn-in of arms that the agent itself would play with those of `law`."""
    added = np.asarray(mixture.added, float)
    return added + (1 - added.sum()) * np.asarray(law, float)


def allocation_error(current: Policy) -> float | None:
    """The standard error of the propensities as those of the posterior; None where they are exact. Arms are then drawn from the
    estimate itself, so the probabilities of decisions are exact all the same."""
    agent, law = current.built.agent, np.asarray(current.frozen.law, float)
    if not policy.is_fixed(agent) or policy.has_exact_law(agent, current.frozen.state) or law.size == 1:
        return None
    return float(np.sqrt(np.max(law * (1 - law)) / PROPENSITY_DRAWS))


def policy_entry(session: Session, version: int | None) -> dict[str, Any]:
    """A policy version as it was written; by default the one in use."""
    chosen = None if version is None else whole("version", version, 1, 2**62)
    with session.database.read() as c:
        row = session.row(c)
        if chosen is not None and chosen > row.versions:
            raise ConfigError(f"There is no policy version {chosen}; the last is {row.versions}.")
        entry = entries.policy_row(c, session.id, row.version if chosen is None else chosen)
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


def last_failings(session: Session, c: sa.Connection) -> list[str]:
    """Why the last refresh is not in use; empty where it is, or there was none. Arms may have come and gone since."""
    table = schema.policies
    mine = table.c.experiment == session.id, table.c.kind == "refresh"
    last = c.execute(sa.select(table.c.in_use, table.c.failings).where(*mine).order_by(table.c.version.desc()).limit(1)).first()
    return [] if last is None or last.in_use else json.loads(last.failings)


def audit(session: Session) -> list[dict[str, Any]]:
    table = schema.audit
    with session.database.read() as c:
        found = c.execute(sa.select(table).where(table.c.experiment == session.id).order_by(table.c.position)).all()
    return [line(row) for row in found]


def line(row: Any) -> dict[str, Any]:
    """A row of the audit log for a reader."""
    return {"position": row.position, "at": row.at, "actor": row.actor, "what": row.what, "detail": json.loads(row.detail)}


def set_paused(session: Session, paused: bool, reason: str) -> None:
    check_reason(reason)
    with session.database.write() as c:
        row = session.row(c, lock=True)
        if row.stopped is not None:
            raise Conflict(f"The experiment {session.name!r} is stopped; create another one.")
        if bool(row.paused) == paused:
            return
        entries.Change(session, c, row).finish("pause" if paused else "resume", {"reason": reason}, paused=paused)
