"""What is known of an experiment, with what to make of it: estimates, checks, a recommendation, never an action."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import sqlalchemy as sa

from ..models import Model
from ..models.support import support_of_likelihood
from . import schema
from .conclusions import estimates, evidence, misfit
from .conclusions.counted import Counted, counted
from .conclusions.lift import lifts
from .conclusions.posterior import LEVEL, PosteriorSummary, posterior
from .conclusions.recommendation import recommend
from .conclusions.words import number, rounded
from .export import WAITING, DecisionTable, table_of
from .learning import Data, chains_in_words
from .metrics import stopping
from .status import allocation, last_failings

if TYPE_CHECKING:
    from .context import Policy
    from .experiment import Experiment

KINDS = {"pending": (WAITING,), "observed": ("told", "corrected", "aggregate"), "defaulted": ("default",)}
KINDS |= {"missing": ("missing",), "cancelled": ("cancelled",)}
"""What became of decisions, by the statuses of a table."""
WHY = (
    "The naive mean is an arm's mean reward. After an adaptive allocation it is biased, mostly downwards: an arm whose first "
    "rewards were unlucky is played less, and keeps them. IPW and AIPW weight each reward by the probability of its decision, "
    "which undoes that; AIPW is the steadier of the two where rewards are far from zero."
)
NOT_ADAPTED = (
    "All decisions had the same probabilities so far, so the naive means are not biased, and their intervals are the narrowest. "
    "IPW and AIPW weight each reward by the probability of its decision, which is needed once these differ."
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
        current, failings = compared(experiment, c), last_failings(experiment.context, c)
    spec, table = experiment.spec, table_of(experiment)
    table = dataclasses.replace(table, active=[k in current.active for k in range(len(table.labels))])
    known = counted(table, spec, experiment.context.now())
    seen = _Seen(table, known, spec.cap, binary=support_of_likelihood(current.built.model) == "binary")
    every = _data(table, known)
    data, model = every.of(current.active), _model(experiment, current, every)
    found = posterior(model, data.arms, data.rewards, rhat_limit=spec.rhat) if len(data.arms) else None
    wrong = misfit.misfits(model, data.arms, data.rewards, current.labels)
    entry = experiment.policy(row.version)
    settled = ~np.isin(known.status, ("cancelled", WAITING))
    ratio = estimates.sample_ratio(table.arms, table.p) if len(table.t) else None
    gain = estimates.value_against_equal(seen.arms, seen.rewards, seen.p) if seen.any else None
    control = spec.arms[0].label if spec.control is None else spec.control
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
        "last_refresh_failed": failings or None,
        "paused": bool(row.paused),
        "burn_in": spec.burn_in,
        "cap": spec.cap,
        "capped_rewards": known.capped,
        "level": LEVEL,
        "rewards": seen.n,
        "open": known.open,
        "control": control,
        "posterior": None if found is None else found.how,
        "posterior_failings": [] if found is None else found.failings,
        "misfit": [one.sentence for one in wrong if one.serious],
        "notes": [one.sentence for one in wrong if not one.serious],
        "policy_in_use": _policy_in_use(experiment, current, len(data.arms)),
        "arms": _arms(table, known, seen, current, found, control),
        "missing_feedback_rate": _share(np.isin(known.status, ("missing", "default")).sum(), settled.sum()),
        "pending": int((known.status == WAITING).sum()),
        "sample_ratio": None
        if ratio is None
        else {
            "p_value": number(ratio.p_value),
            "alarm": ratio.alarm,
            "expected": dict(zip(table.labels, map(float, ratio.expected), strict=True)),
            "observed": dict(zip(table.labels, map(int, ratio.observed), strict=True)),
        },
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
    }
    report["evidence"] = _evidence(report["arms"], seen, current, found)
    report["winner"], report["recommendation"] = recommend(report)
    if row.stopped is not None:
        left = f"every new decision is {row.stopped!r}" if row.stopped else "there are no more decisions"
        sentence = report["recommendation"].removeprefix("Keep on: ")
        report["recommendation"] = f"Stopped: {left}. What is known: {sentence}"
        report["policy_in_use"] = f"The experiment is stopped: {left}."
    report |= stopping.concluded(experiment, table, report)
    if row.stopped is not None:  # from now on
        for arm in report["arms"]:
            arm["active"] = arm["arm"] == row.stopped if row.stopped else arm["active"]
            arm["allocation"] = float(arm["arm"] == row.stopped)
    return report


def compared(experiment: Experiment, c: sa.Connection) -> Policy:
    """The policy version whose arms are compared: that in use, or where an arm was promoted the one before."""
    row, log, table = experiment.database.find(c, experiment.name), schema.audit, schema.policies
    if not row.stopped:
        return experiment.context.policy(c, row.version)
    detail = c.execute(sa.select(log.c.detail).where(log.c.experiment == experiment.id, log.c.what == "stop")).scalar_one()
    promoted = json.loads(detail)["version"]
    used = table.c.experiment == experiment.id, table.c.in_use == sa.true(), table.c.version < promoted
    return experiment.context.load(c, c.execute(sa.select(sa.func.max(table.c.version)).where(*used)).scalar_one())


def model_and_data(experiment: Experiment, table: DecisionTable, current: Policy) -> tuple[Model, Data]:
    """What the posterior that a report shows is made of: the model of the active arms, and their rewards that count."""
    every = _data(table, counted(table, experiment.spec, experiment.context.now()))
    return _model(experiment, current, every), every.of(current.active)


def _model(experiment: Experiment, current: Policy, data: Data) -> Model:
    """The model of the active arms; a prior that is learned is fitted to all rewards that count."""
    ctx = experiment.context
    return ctx.build(current.active, current.arms, ctx.prior(current.prior, data.arms, data.rewards)).model


def _data(table: DecisionTable, known: Counted) -> Data:
    has = ~np.isnan(known.rewards)
    return Data(table.arms[has], known.rewards[has])


class _Seen:
    """The decisions whose reward counts, with capped rewards."""

    def __init__(self, table: DecisionTable, known: Counted, cap: float | None, *, binary: bool):
        has = ~np.isnan(known.rewards)
        rewards = known.rewards[has]
        self.n, self.any = int(has.sum()), bool(has.any())
        self.arms, self.rewards = table.arms[has], rewards if cap is None else np.minimum(rewards, cap)
        self.p = table.p[has]
        self.adapted = bool(self.any and (self.p != self.p[:1]).any())
        """Whether not all decisions had the same probabilities."""
        self.binary = binary and cap is None
        """Whether rewards are 0 or 1, now and later."""
        K = len(table.labels)
        if self.any:
            self.estimates = {
                "naive": estimates.naive(self.arms, self.rewards, K, binary=self.binary),
                "ipw": estimates.ipw(self.arms, self.rewards, self.p),
                "aipw": estimates.aipw(self.arms, self.rewards, self.p),
            }
        else:
            nothing = estimates.Estimate(np.full(K, np.nan), np.full(K, np.nan))
            self.estimates = {"naive": nothing, "ipw": nothing, "aipw": nothing}


def _arms(
    table: DecisionTable, known: Counted, seen: _Seen, current: Policy, found: PosteriorSummary | None, control: str
) -> list[dict[str, Any]]:
    K = len(table.labels)
    total = lambda which: np.bincount(table.arms[which], minlength=K).tolist()  # noqa: E731
    counts = {name: total(np.isin(known.status, kinds)) for name, kinds in KINDS.items()}
    units, rewards = total(slice(None)), np.bincount(seen.arms, minlength=K).tolist()
    varied = rewards if seen.binary else evidence.varied(seen.arms, seen.rewards, K).tolist()
    place = {k: i for i, k in enumerate(current.active)}
    law = allocation(current)
    base = next((i for i, k in enumerate(current.active) if table.labels[k] == control and rewards[k]), None)
    lift = [None] * len(current.active) if found is None or base is None else lifts(found, base)
    alone = len(current.active) > 1 and sum(rewards[k] > 0 for k in current.active) == 1
    out = []
    for k, label in enumerate(table.labels):
        i = place.get(k)
        arm: dict[str, Any] = {"arm": label, "active": table.active[k], "units": units[k]}
        arm |= {name: count[k] for name, count in counts.items()}
        arm |= {"rewards": rewards[k], "varied": varied[k], "allocation": 0.0 if i is None else number(law[i])}
        has = i is not None and rewards[k] > 0
        arm |= _posterior(found if has else None, i or 0)
        arm["note"] = None if rewards[k] else "no data yet"
        if has and alone:  # the best of one says nothing
            arm |= {"p_best": None, "expected_loss": None, "note": "no data of the others"}
        arm["lift"] = lift[i] if i is not None and has and i != base else None
        for name, estimate in seen.estimates.items():
            low, high = estimate.interval(LEVEL)
            values = {"value": estimate.value[k], "se": estimate.se[k], "low": low[k], "high": high[k]}
            arm[name] = {key: number(value) for key, value in values.items()}
        out.append(arm)
    return out


def _posterior(found: PosteriorSummary | None, place: int) -> dict[str, Any]:
    """What is shown of an arm's posterior, with the digits that its error allows."""
    out: dict[str, Any] = {}
    errors: dict[str, Any] = {}
    for name in ("mean", "median", "low", "high", "best", "loss"):
        key = {"best": "p_best", "loss": "expected_loss"}.get(name, f"posterior_{name}")
        x, error = (np.nan, np.nan) if found is None else (getattr(of, name)[place] for of in (found.shown, found.error))
        out[key], errors[key.removeprefix("posterior_")] = number(rounded(x, error)), number(error)
    return out | {"posterior_error": errors}


def _evidence(arms: list[dict[str, Any]], seen: _Seen, current: Policy, found: PosteriorSummary | None) -> dict[str, Any] | None:
    """The evidence for the arm with the largest P(best) against every other active arm with data."""
    if found is None:
        return None
    binary, K = seen.binary, len(arms)
    best = np.full(K, -1.0)
    best[list(current.active)] = np.nan_to_num(found.shown.best, nan=-1.0)
    top = int(best.argmax())
    others = [k for k in current.active if k != top and arms[k]["rewards"]]
    summaries = evidence.summarise(seen.arms, seen.rewards, K)
    E = np.exp(np.minimum(evidence.log_evidence(summaries.at([top] * len(others)), summaries.at(others), binary=binary), 600.0))
    return {
        "leader": arms[top]["arm"],
        "against": {arms[k]["arm"]: float(e) for k, e in zip(others, E, strict=True)},
        "needed": evidence.needed(K),
        "exact": binary,
        "least": evidence.LEAST_BINARY if binary else evidence.LEAST,
        "assumes": evidence.ASSUMES if binary else f"{evidence.ASSUMES} {evidence.ASSUMES_NUMBERS}",
    }


def _policy_in_use(experiment: Experiment, current: Policy, rewards: int) -> str:
    """How the policy in use differs from what the report says."""
    version, entry = current.version, experiment.policy(current.version)
    while version > 1 and not (entry["kind"] == "refresh" and entry["in_use"]):  # another set of arms keeps what was learned
        version -= 1
        entry = experiment.policy(version)
    learned = sum(n for label, n in entry["n"].items() if label in current.labels)
    law = allocation(current)
    plays = (
        "" if np.isnan(law).any() else f"; it plays {current.labels[int(law.argmax())]!r} most, with probability {law.max():.2g}"
    )
    of = f"{learned} rewards of active arms, this report from {rewards}"
    return f"The policy in use (version {current.version}) has learned from {of}{plays}."


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
