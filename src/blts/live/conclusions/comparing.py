"""How the arms of an experiment compare, from its decisions alone: the part of a report that names a winner or none.

Reports and rehearsals call the same functions, on the same table of decisions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ...models import Model
from ...models.support import support_of_likelihood
from ..export import WAITING, DecisionTable
from ..learning import Data
from ..private import fits_bounds
from ..spec import Spec
from . import estimates, evidence, misfit, values
from .by_context import NOTHING, by_context, recommendation
from .counted import Counted
from .feedback_share import alarming, feedback_share
from .lift import lifts
from .posterior import EXACT_DRAWS, LEVEL, PosteriorSummary, posterior
from .recommendation import recommend
from .sample_ratio import sample_ratio
from .weights import weights
from .words import number, rounded

OF_SHAPES = ("spread", "shape", "tails", "ties")
"""Checks of a model that is only said to have the largest sd that rewards can have."""
KINDS = {"pending": (WAITING,), "observed": ("told", "corrected", "aggregate"), "defaulted": ("default",)}
KINDS |= {"missing": ("missing",), "cancelled": ("cancelled",)}
"""What became of decisions, by the statuses of a table."""


class Version(NamedTuple):
    """The policy version whose arms are compared."""

    active: tuple[int, ...]
    model: Callable[[Data], Model]
    """Of the active arms; a prior that is learned is fitted to all rewards that count."""
    allocation: np.ndarray
    """The propensities of the active arms; NaN where they are not the same for the whole batch."""
    failings: list[str]
    """Why the last refresh is not in use; empty where it is."""


def data_of(table: DecisionTable, known: Counted) -> Data:
    """The rewards that count, of all arms."""
    has = ~np.isnan(known.rewards)
    return Data(table.arms[has], known.rewards[has])


class Seen:
    """The decisions whose reward counts, with capped rewards.

    Args:
        table: all decisions.
        known: what each has earned.
        spec: with the cap.
        model: of any arms, for the support of its likelihood.
    """

    def __init__(self, table: DecisionTable, known: Counted, spec: Spec, model: Model):
        has = ~np.isnan(known.rewards)
        rewards = known.rewards[has]
        self.K, self.n, self.any = len(table.labels), int(has.sum()), bool(has.any())
        self.arms, self.rewards = table.arms[has], rewards if spec.cap is None else np.minimum(rewards, spec.cap)
        self.p = table.propensities.of(has)
        self.x = None
        """The numbers of the contexts, `[decisions, columns]`; None where there are none."""
        if spec.encoding is not None and table.contexts is not None:
            shown = [spec.encoding.encoded(one) for one, counts in zip(table.contexts, has, strict=True) if counts]
            self.x = np.array(shown, float).reshape(len(shown), len(spec.encoding.columns))
        self.adapted = self.any and self.p.differ
        """Whether not all decisions had the same probabilities."""
        self.binary = support_of_likelihood(model) == "binary" and spec.cap is None
        """Whether rewards are 0 or 1, now and later."""

    @cached_property
    def counts(self) -> np.ndarray:
        """Rewards of each arm."""
        return np.bincount(self.arms, minlength=self.K)

    @cached_property
    def varied(self) -> np.ndarray:
        """Rewards of each arm that count towards the least number that evidence needs."""
        return self.counts if self.binary else evidence.varied(self.arms, self.rewards, self.K)

    @property
    def least(self) -> int:
        """That number."""
        return evidence.LEAST_BINARY if self.binary else evidence.LEAST

    @cached_property
    def summaries(self) -> evidence.ArmRewards:
        """Count, mean and squares of each arm."""
        return evidence.summarise(self.arms, self.rewards, self.K)

    @cached_property
    def estimates(self) -> dict[str, estimates.Estimate]:
        """Naive, IPW and AIPW estimates of the mean rewards."""
        if not self.any:
            nothing = estimates.Estimate(np.full(self.K, np.nan), np.full(self.K, np.nan))
            return {"naive": nothing, "ipw": nothing, "aipw": nothing}
        if self.x is not None:
            p = self.p[:]
            return {
                "naive": estimates.naive(self.arms, self.rewards, self.K),
                "ipw": values.constant_arms(self.arms, p, values.scores(self.arms, self.rewards, p, np.zeros(p.shape))),
                "aipw": values.constant_arms(self.arms, p, self.scored),
            }
        return {
            "naive": estimates.naive(self.arms, self.rewards, self.K, binary=self.binary),
            "ipw": estimates.ipw(self.arms, self.rewards, self.p),
            "aipw": estimates.aipw(self.arms, self.rewards, self.p),
        }

    @cached_property
    def scored(self) -> np.ndarray:
        """The scores of decisions with contexts (`values.scores`); the first, before which nothing is known, is left out."""
        found = values.scores(self.arms, self.rewards, self.p[:], self.predicted)
        found[:1] = np.nan
        return found

    @cached_property
    def predicted(self) -> np.ndarray:
        """What earlier decisions predict of each with its context (`values.predictions`)."""
        assert self.x is not None
        return values.predictions(self.x, self.arms, self.rewards, self.K)

    def log_evidence(self, top: int, others: list[int]) -> np.ndarray:
        """log E that an arm's mean reward is above those of others."""
        return evidence.log_evidence(self.summaries.at([top] * len(others)), self.summaries.at(others), binary=self.binary)


def may_name(seen: Seen, active: tuple[int, ...]) -> bool:
    """Whether the evidence is enough for a winner, which is quick to say; `compare` names none where it is not.

    A winner has evidence against every other active arm, which only the arm of the largest sample mean can have.

    Args:
        seen: the rewards that count.
        active: numbers of the active arms.

    Returns:
        Whether there may be a winner.
    """
    mine = list(active)
    if len(mine) < 2 or seen.varied[mine].min() < max(seen.least, 1):
        return False
    top = mine[int(seen.summaries.mean[mine].argmax())]
    E = seen.log_evidence(top, [k for k in mine if k != top])
    return bool(E.min() >= np.log(evidence.needed(seen.K)) - 1e-9)


def compare(spec: Spec, table: DecisionTable, known: Counted, seen: Seen, version: Version) -> dict[str, Any]:
    """The arms with what is known of each, the checks of an experiment, the winner and the recommendation.

    Args:
        spec: of the experiment.
        table: all decisions.
        known: what each has earned.
        seen: those whose reward counts.
        version: the policy version whose arms are compared.

    Returns:
        Entries of a report, as JSON could hold it.
    """
    active, every = version.active, Data(seen.arms, seen.rewards)
    labels, control = [table.labels[k] for k in active], spec.control or spec.arms[0].label
    found, wrong = None, []
    if not spec.features:
        data, model = every.of(active), version.model(every)
        found = posterior(model, data.arms, data.rewards, rhat_limit=spec.rhat) if len(data.arms) else None
        own_draws = None if found is None or found.how != EXACT_DRAWS else (found.shown.low, found.shown.high)
        wrong = misfit.misfits(model, data.arms, data.rewards, labels, own_draws)
        bounded = fits_bounds(spec, model, data.rewards)
        if bounded is not None and any(one.check in OF_SHAPES for one in wrong):
            wrong = [one for one in wrong if one.check not in OF_SHAPES] + [misfit.Misfit(None, "shape", bounded, False)]
    ratio = sample_ratio(table.arms, table.propensities) if len(table.t) else None
    share = feedback_share(spec, table, known)
    report: dict[str, Any] = {
        "last_refresh_failed": version.failings or None,
        "burn_in": spec.burn_in,
        "open": known.open,
        "control": control,
        "posterior": None if found is None else found.how,
        "posterior_failings": [] if found is None else found.failings,
        "misfit": [one.sentence for one in wrong if one.serious],
        "notes": [*alarming(share), *(one.sentence for one in wrong if not one.serious)],
        "arms": _arms(table, known, seen, version, found, control),
        "sample_ratio": None
        if ratio is None
        else {
            "p_value": number(ratio.p_value),
            "alarm": ratio.alarm,
            "expected": dict(zip(table.labels, map(float, ratio.expected), strict=True)),
            "observed": dict(zip(table.labels, map(int, ratio.observed), strict=True)),
        },
        "feedback_share": share,
    }
    report["evidence"] = _evidence(report["arms"], seen, active, found)
    if spec.features:
        report |= by_context(spec, table, ~np.isnan(known.rewards), seen) if seen.any else NOTHING
        return report | {"winner": None, "recommendation": recommendation(report)}
    report["winner"], report["recommendation"] = recommend(report)
    return report


def _arms(
    table: DecisionTable, known: Counted, seen: Seen, version: Version, found: PosteriorSummary | None, control: str
) -> list[dict[str, Any]]:
    K = len(table.labels)
    total = lambda which: np.bincount(table.arms[which], minlength=K).tolist()  # noqa: E731
    counts = {name: total(known.are(*kinds)) for name, kinds in KINDS.items()}
    units, rewards, varied = total(slice(None)), seen.counts.tolist(), seen.varied.tolist()
    place, law = {k: i for i, k in enumerate(version.active)}, version.allocation
    base = next((i for i, k in enumerate(version.active) if table.labels[k] == control and rewards[k]), None)
    lift = [None] * len(version.active) if found is None or base is None else lifts(found, base)
    alone = sum(rewards[k] > 0 for k in version.active) == 1
    why = "no data of the others" if len(version.active) > 1 else "the only active arm"
    weighted = weights(seen.arms, seen.p, K)
    out = []
    for k, label in enumerate(table.labels):
        i = place.get(k)
        arm: dict[str, Any] = {"arm": label, "active": table.active[k], "units": units[k]}
        arm |= {name: count[k] for name, count in counts.items()}
        arm |= {"rewards": rewards[k], "varied": varied[k], "allocation": 0.0 if i is None else number(law[i])}
        arm |= {"smallest_propensity": number(weighted.smallest[k]), "effective_rewards": number(weighted.effective[k])}
        has = i is not None and rewards[k] > 0
        arm |= _posterior(found if has else None, i or 0)
        arm["note"] = None if rewards[k] else "no data yet"
        if has and alone:  # the best of one says nothing
            arm |= {"p_best": None, "expected_loss": None, "note": why}
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


def _evidence(
    arms: list[dict[str, Any]], seen: Seen, active: tuple[int, ...], found: PosteriorSummary | None
) -> dict[str, Any] | None:
    """The evidence for the arm with the largest P(best) against every other active arm with data."""
    if found is None:
        return None
    best = np.full(seen.K, -1.0)
    best[list(active)] = np.nan_to_num(found.shown.best, nan=-1.0)
    top = int(best.argmax())
    others = [k for k in active if k != top and arms[k]["rewards"]]
    E = np.exp(np.minimum(seen.log_evidence(top, others), 600.0))
    return {
        "leader": arms[top]["arm"],
        "against": {arms[k]["arm"]: float(e) for k, e in zip(others, E, strict=True)},
        "needed": evidence.needed(seen.K),
        "exact": seen.binary,
        "least": seen.least,
        "assumes": evidence.ASSUMES if seen.binary else f"{evidence.ASSUMES} {evidence.ASSUMES_NUMBERS}",
    }
