"""What is known of an experiment, with what to make of it: estimates, checks, a recommendation, never an action."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import sqlalchemy as sa

from ..compilation import give_back_memory
from ..models import Model
from . import entries, releases, schema
from .conclusions import estimates, history
from .conclusions.comparing import Seen, Version, compare, data_of
from .conclusions.counted import counted
from .conclusions.delayed import delayed
from .conclusions.feedback import feedback
from .conclusions.posterior import LEVEL, compile_draws
from .conclusions.words import number, probability
from .durations import in_words
from .export import WAITING, DecisionTable, table_of
from .learning import Data, chains_in_words
from .metrics import stopping
from .metrics.summary import METHOD, current_values, summary
from .refreshing import last_moment
from .standing import is_paused
from .status import allocation, allocation_error, declared_in_words, last_failings

if TYPE_CHECKING:
    from .experiment import Experiment
    from .session import Policy

WHY = (
    "The naive mean is an arm's mean reward. After an adaptive allocation it is biased, mostly downwards: an arm whose first "
    "rewards were unlucky is played less, and keeps them. IPW and AIPW weight each reward by the probability of its decision, "
    "which undoes that; AIPW is the steadier of the two where rewards are far from zero."
)
SMALL = 0.01
"""A propensity below which a reward counts for more than a hundred others."""
NOT_ADAPTED = (
    "All decisions had the same probabilities so far, so the naive means are not biased, and their intervals are the narrowest. "
    "IPW and AIPW weight each reward by the probability of its decision, which is needed once these differ."
)

OF_REWARDS = (
    "Estimates, posterior and recommendation of this report are of the rewards without noise, for those who may see them; the "
    "policy has learned from noisy sums."
)


def report_of(experiment: Experiment) -> dict[str, Any]:
    """A report on all rewards that count, as JSON could hold it.

    Args:
        experiment: what it is about.

    Returns:
        The report; what does not exist is None.
    """
    with experiment.database.read() as c:
        row = experiment.database.find(c, experiment.name)
        current, failings = compared(experiment, c), last_failings(experiment.session, c)
        labels = entries.labels(experiment.session, c)
        versions = history.versions(experiment.session, c, row.versions, labels)
        budget = releases.budget(experiment.session, c, row.position)
    if not experiment.spec.features:
        compile_draws(current.built.model)
    spec, table = experiment.spec, table_of(experiment)
    table = dataclasses.replace(table, active=[k in current.active for k in range(len(table.labels))])
    now = _now(experiment)
    known = counted(table, spec, now)
    seen = Seen(table, known, spec, current.built.model)
    version = Version(current.active, lambda data: _model(experiment, current, data), allocation(current), failings)
    entry = experiment.policy(row.version)
    settled = ~known.are("cancelled", WAITING)
    gain = estimates.value_against_equal(seen.arms, seen.rewards, seen.p) if seen.any and not spec.features else None
    report = {
        "name": experiment.name,
        "model": spec.model.words,
        "sampler": spec.sampler.words,
        "batching": spec.batching.words,
        "outside_theory": _outside_theory(experiment, current),
        "decisions": len(table.t),
        "batch": row.batch,
        "policy": row.version,
        "watermark": entry["watermark"],
        "chains": chains_in_words(entry["diagnostics"]) or None,
        "paused": is_paused(row),
        "stopped": row.stopped is not None,
        "allocation_error": allocation_error(current),
        "cap": spec.cap,
        "capped_rewards": known.capped,
        "level": LEVEL,
        "rewards": seen.n,
        "policy_in_use": _policy_in_use(experiment, current, int(np.isin(seen.arms, current.active).sum())),
        "missing_feedback_rate": _share(known.are("missing", "default").sum(), settled.sum()),
        "pending": int(known.are(WAITING).sum()),
        "value_against_equal": None
        if gain is None
        else {
            "per_unit": number(gain.per_unit),
            "se": number(gain.se),
            "low": number(gain.low),
            "high": number(gain.high),
            "total": number(gain.total),
        },
        "why_estimates_differ": WHY if seen.adapted else NOT_ADAPTED,
        "feedback": feedback(table, known, now),
        "history": {"policies": versions, **history.cumulative(table, known)},
    }
    report |= compare(spec, table, known, seen, version)
    report["why_estimates_differ"] += _why_wide(report["arms"])
    if spec.delay is not None:
        report["delay"] = delayed(table, spec, now)
    if budget is not None:
        report["privacy"] = budget | {"words": f"{OF_REWARDS} {budget['words']}"}
    if row.stopped is not None:
        left = f"every new decision is {row.stopped!r}" if row.stopped else "there are no more decisions"
        sentence = report["recommendation"].removeprefix("Keep on: ")
        report["recommendation"] = f"Stopped: {left}. What is known: {sentence}"
        report["policy_in_use"] = f"The experiment is stopped: {left}."
    give_back_memory()  # what compiling left
    report |= declared_in_words(spec)
    metrics = summary(spec, table, current_values(experiment, table))
    standing = {"decisions": len(table.t), "stopped": row.stopped is not None}
    report |= stopping.concluded(spec, report, metrics, standing, experiment.session.now())
    if metrics:
        report["why_metrics"] = METHOD
    if row.stopped is not None:  # from now on
        for arm in report["arms"]:
            arm["active"] = arm["arm"] == row.stopped if row.stopped else arm["active"]
            arm["allocation"] = float(arm["arm"] == row.stopped)
    return report


def compared(experiment: Experiment, c: sa.Connection) -> Policy:
    """The policy version whose arms are compared: that in use, or where an arm was promoted the one before."""
    row, log, table = experiment.database.find(c, experiment.name), schema.audit, schema.policies
    if not row.stopped:
        return experiment.session.policy(c, row.version)
    detail = c.execute(sa.select(log.c.detail).where(log.c.experiment == experiment.id, log.c.what == "stop")).scalar_one()
    promoted = json.loads(detail)["version"]
    used = table.c.experiment == experiment.id, table.c.in_use == sa.true(), table.c.version < promoted
    return experiment.session.load(c, c.execute(sa.select(sa.func.max(table.c.version)).where(*used)).scalar_one())


def model_and_data(experiment: Experiment, table: DecisionTable, current: Policy) -> tuple[Model, Data]:
    """What the posterior that a report shows is made of: the model of the active arms, and their rewards that count."""
    every = data_of(table, counted(table, experiment.spec, _now(experiment)))
    return _model(experiment, current, every), every.of(current.active)


def _now(experiment: Experiment) -> float:
    """The time, and where a clock was set back not before that of the last refresh: what counted once still counts."""
    session = experiment.session
    with experiment.database.read() as c:
        before = last_moment(session, c)
    ahead = (session.spec.window or 0.0) if session.spec.delay is None else 0.0
    return session.now() if before is None else max(session.now(), before + ahead)


def _model(experiment: Experiment, current: Policy, data: Data) -> Model:
    """The model of the active arms; a prior that is learned is fitted to all rewards that count."""
    session = experiment.session
    return session.build(current.active, current.arms, session.prior(current.prior, data.arms, data.rewards)).model


def _policy_in_use(experiment: Experiment, current: Policy, rewards: int) -> str:
    """How the policy in use differs from what the report says."""
    version, entry = current.version, experiment.policy(current.version)
    while version > 1 and not (entry["kind"] == "refresh" and entry["in_use"]):  # another set of arms keeps what was learned
        version -= 1
        entry = experiment.policy(version)
    learned = sum(n for label, n in entry["n"].items() if label in current.labels)
    law = allocation(current)
    plays = "" if np.isnan(law).any() else f"; it plays {_most_played(current.labels, law)}"
    of = f"{learned} rewards of active arms, this report from {rewards}"
    if (forget := experiment.spec.forget) is not None:
        of += f": it forgets decisions older than {in_words(forget)}, and estimates, posterior and recommendation here do not"
    if experiment.spec.delay is not None:
        of += ": it weighs silence by its age, and estimates, posterior and recommendation here await the ends of windows"
    return f"The policy in use (version {current.version}) has learned from {of}{plays}."


def _why_wide(arms: Sequence[dict[str, Any]]) -> str:
    """Why IPW and AIPW say little where an arm was hardly ever chosen; empty where none was."""
    least = min((p for arm in arms if arm["active"] and (p := arm.get("smallest_propensity"))), default=1.0)
    if least >= SMALL:
        return ""
    return (
        f" Some decisions had a probability of {least:.1g}, which makes their intervals wide; a floor, such as 0.05, prevents that."
    )


def _most_played(labels: Sequence[str], law: np.ndarray) -> str:
    """Which arm has the largest probability, or that none has."""
    if np.ptp(law) < 1e-6:
        return "all active arms with the same probability"
    return f"{labels[int(law.argmax())]!r} most, with probability {probability(float(law.max()))}"


def _outside_theory(experiment: Experiment, current: Policy) -> str | None:
    """Why the paper's theorem says nothing of this experiment's regret; None where it does."""
    if experiment.spec.batching.name == "external":
        why = "it needs batches that close when an arm's plays double, and these are external"
    else:
        theory = current.built.model.theory()
        if theory.inside:
            return None
        why = theory.why.rstrip(".")
    return f"The theorem that bounds what learning costs does not cover this experiment ({why}). No number here rests on it."


def _share(part: float, whole: float) -> float | None:
    return float(part) / float(whole) if whole else None
