"""What a report says where decisions have contexts: values of policies, and of arms by segment. It names no winner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import counted
from . import segments, values
from .feedback_share import alarming
from .posterior import LEVEL
from .words import number

if TYPE_CHECKING:
    from ..export import DecisionTable
    from ..spec import Spec
    from .comparing import Seen

THIS = "this experiment"
WHY = (
    "With contexts an arm's naive mean is that of the units it was chosen for, so arms cannot be compared by it. IPW and AIPW "
    "weight each reward by the probability of its decision in its context, which undoes that: they estimate what an arm would earn "
    "if every unit had it. AIPW also predicts rewards from contexts, by ridge regression on earlier decisions, and is the steadier."
)
NAMED = 4
"""Arms that a sentence names; of more it has the number."""
HOLDS = (
    "Intervals of values hold for one look at a time that does not depend on them, and differences for all arms together. With few "
    "conversions of an arm they may be too narrow."
)
NOTHING: dict[str, Any] = {"values": [], "values_hold": HOLDS, "segments": [], "comparisons": 0, "segment_level": LEVEL}
"""What there is without rewards."""


def by_context(spec: Spec, table: DecisionTable, has: np.ndarray, seen: Seen) -> dict[str, Any]:
    """Values and segments.

    Args:
        spec: of the experiment.
        table: all decisions.
        has: which of them have a reward that counts.
        seen: those.

    Returns:
        Entries of a report, as JSON could hold it.
    """
    K, labels, p = seen.K, table.labels, seen.p[:]
    beyond = values.unplayable(p)
    scored, rewards = seen.scored, seen.rewards
    constant = values.interval(values.constant_arms(seen.arms, p, scored), LEVEL)
    gaps = values.mean_of(rewards[:, None] - scored, ~np.isnan([one["value"] for one in constant]))
    gaps = values.interval(gaps, values.bonferroni(LEVEL, K))
    earned = _numbers(values.interval(values.mean_of(rewards), LEVEL)[0])
    found = [{"policy": THIS, "rewards": seen.n, **earned, "difference": None, "beyond": 0}]
    for k, label in enumerate(labels):
        own = {"policy": f"always {label}", "rewards": int(seen.counts[k])}
        found.append(own | _numbers(constant[k]) | {"difference": _numbers(gaps[k]), "beyond": int(beyond[k])})
    left = without_value(labels, beyond, seen.n)
    contexts = [context for context, counts in zip(table.contexts or [], has, strict=True) if counts]
    parts = segments.segments_of(spec.features, contexts)
    return {
        "values": found,
        "values_hold": HOLDS + left,
        "why_estimates_differ": WHY + left,
        "value_against_equal": _against_equal(rewards, scored),
        **segments.by_segment(parts, labels, seen.arms, rewards, p, scored, LEVEL),
    }


def without_value(labels: list[str], beyond: np.ndarray, n: int) -> str:
    """Which arms some decisions could not have been, so that they have no value, in words.

    Args:
        labels: of the arms.
        beyond: how many decisions could not have been each (`values.unplayable`).
        n: decisions whose reward counts.

    Returns:
        Sentences with a space in front; empty where there is no such arm.
    """
    some = [f"{label!r} in {count}" for label, count in zip(labels, beyond.tolist(), strict=True) if count]
    if not some:
        return ""
    rest = len(some) - NAMED
    more = f" and {counted(rest, 'more arm')} in some" if rest > 0 else ""
    return (
        f" This experiment could not play {', '.join(some[:NAMED])}{more} of the {n} contexts whose reward counts. Nothing is "
        "known of that, so there is no value of always playing such an arm, and it is not compared with the others."
    )


def _numbers(one: dict[str, float]) -> dict[str, float | None]:
    return {key: number(value) for key, value in one.items()}


def _against_equal(rewards: np.ndarray, scored: np.ndarray) -> dict[str, float | None]:
    """What the experiment earned a unit more than equal shares of the arms that could be played would have."""
    known = ~np.isnan(scored).all(1)
    terms = rewards[known] - np.nanmean(scored[known], axis=1)
    one = _numbers(values.interval(values.mean_of(terms), LEVEL)[0])
    return {"per_unit": one.pop("value"), **one, "total": number(terms.sum())}


def recommendation(report: dict[str, Any]) -> str:
    """What is shown, and that nothing is recommended.

    Args:
        report: with the values.

    Returns:
        A sentence.
    """
    ratio = report["sample_ratio"]
    if ratio is not None and ratio["alarm"]:
        return "Look into the assignment first: arms were not played as often as their propensities say."
    for sentence in alarming(report["feedback_share"]):
        return f"Look into the feedback first. {sentence}"
    if report["last_refresh_failed"]:
        return f"Look into the sampler first: the last refresh is not used ({'; '.join(report['last_refresh_failed'])})."
    found: list[dict[str, Any]] = report["values"]
    if not found or found[0]["value"] is None:
        return "Keep on: there are too few rewards yet."
    this, *arms = found
    why = "Nothing is recommended: which arm is best depends on the context, and the intervals hold for one look, not for many."
    shown = [arm for arm in arms if arm["value"] is not None and arm["difference"]["low"] is not None]
    if not shown:
        return f"{why} The experiment earned {this['value']:.3g} a unit."
    best, few = max(shown, key=lambda arm: arm["value"]), any(arm["beyond"] for arm in arms)
    among = "of the single arms that every decision could have been" if few else "of single arms"
    gap = best["difference"]
    more = f"{gap['value']:+.3g} [{gap['low']:.3g}, {gap['high']:.3g}]"
    return (
        f"{why} The experiment earned {this['value']:.3g} a unit; {among}, {best['policy']!r} has the largest estimate, "
        f"{best['value']:.3g}; the experiment less that is {more}."
    )
