"""What is known of conversions before windows are over: the learned delays, what is still to come, and rates corrected for it."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from ...errors import counted
from ..delays import LEAST_AT_RISK, Delays, Silence
from ..durations import in_words
from ..export import DecisionTable
from ..ledger import Fold
from ..spec import Spec
from .posterior import LEVEL
from .words import few_digits, number

PARTS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)
"""Ages for which shares are stated, as parts of the window."""
POINTS = 50  # of the curve
FAILURES = 3.0
"""Failures that an interval counts at least: were the rate below 1 - 3/n, n of n would convert with a chance below 5 %."""


def delayed(table: DecisionTable, spec: Spec, now: float) -> dict[str, Any]:
    """The learned delays, and rates of all decisions corrected for conversions that are still to come.

    Args:
        table: all decisions.
        spec: with delay="learned", a window and a default reward of 0.
        now: seconds, on the clock of `asked_at`.

    Returns:
        "conversions" that the delays are estimated from, "after_window" those left out; "curve" and "by_age", which share of
        conversions has come after so many seconds; "oldest", the age of the oldest decision; "pending" decisions, the conversions
        "expected" of them and the "share_to_come" of all conversions; "arms" with a rate and its interval; "words", a sentence.
    """
    fold = Fold(
        0, 0, table.arms, table.asked_at, table.exposed_at, table.rewards, table.kinds > 0, entered=table.told_at.astype(float)
    )
    known = Silence.at(fold, spec.exposure == "explicit", now, spec.window or 0.0)
    delays, arms = known.delays, range(len(table.labels))
    rates = [rate(known, table.arms == k) for k in arms]
    to_come = [
        (r["value"] or 0.0) * (1 - known.share[known.counts & (table.arms == k)]).sum() for k, r in zip(arms, rates, strict=True)
    ]
    expected, seen = float(np.sum(to_come)), int(known.converted.sum())
    ages = np.array(PARTS) * delays.window
    found = {
        "conversions": delays.conversions,
        "after_window": delays.after_window,
        "window": delays.window,
        "oldest": number(known.ages[known.counts].max(initial=0.0)),
        "curve": _curve(delays),
        "by_age": [{"seconds": float(a), "share": number(s)} for a, s in zip(ages, delays.by(ages), strict=True)],
        "pending": int(known.pending.sum()),
        "expected": number(expected),
        "share_to_come": number(expected / (expected + seen)) if expected + seen else None,
        "arms": [{"arm": label, **r} for label, r in zip(table.labels, rates, strict=True)],
    }
    return found | {"words": in_a_sentence(found)}


def rate(known: Silence, mine: np.ndarray) -> dict[str, Any]:
    """The rate of conversions of some decisions, p = conversions / Σ F(age), with an interval on the scale of log p.

    The variance of log p has two parts: conversions are independent of each other, each with probability p F(age), and F is
    estimated: with q = n / R the hazards of the product limit, Σ F has the variance Σ_j (Σ_{age < s_j} F)² q_j / ((1 - q_j) R_j).
    Where fewer than 3 decisions did not convert, the first part is that of 3: all of n conversions do not make a rate of 1 certain.

    Args:
        known: all decisions, weighed.
        mine: which of them.

    Returns:
        "conversions", "trials" (Σ F), "value", "low" and "high"; these are None without trials, the interval without conversions.
    """
    mine = mine & known.counts
    share, ages, ones = known.share[mine], known.ages[mine], int((known.converted & mine).sum())
    trials = float(share.sum())
    value = min(ones / trials, 1.0) if trials else None
    found = {"conversions": ones, "trials": number(trials), "value": value, "low": None, "high": None}
    if not ones or value is None:
        return found
    order = np.argsort(ages, kind="stable")
    younger = np.concatenate([[0.0], np.cumsum(share[order])])[np.searchsorted(ages[order], known.delays.seconds, side="left")]
    q, free = known.delays.hazard, known.delays.hazard < 1
    of_share = np.sum(younger[free] ** 2 * q[free] / ((1 - q[free]) * known.delays.at_risk[free])) / trials**2
    of_ones = max(1 - value * float((share**2).sum()) / trials, min(FAILURES / trials, 1.0)) / ones
    half = special.ndtri(0.5 + LEVEL / 2) * np.sqrt(of_ones + of_share)
    return found | {"low": float(value * np.exp(-half)), "high": float(min(value * np.exp(half), 1.0))}


def _curve(delays: Delays) -> dict[str, Any]:
    """Where the share rises, at most at so many points."""
    if not delays.conversions:
        return {"seconds": [], "share": []}
    chosen = np.unique(np.ceil(np.linspace(0, len(delays.seconds) - 1, POINTS)).astype(int))
    return {"seconds": few_digits(delays.seconds[chosen]), "share": few_digits(delays.share[chosen])}


def in_a_sentence(found: dict[str, Any]) -> str:
    """The learned delays in words."""
    if not found["conversions"]:
        return "Delays are not known yet: no conversion has come, and silence counts as failure."
    if found["conversions"] < LEAST_AT_RISK:
        came = f"{counted(found['conversions'], 'conversion')} came within the window, of {LEAST_AT_RISK} that are needed"
        return f"Delays are not known yet: {came}, and silence counts as failure from the shortest of their delays on."
    half = next((one for one in found["by_age"] if one["share"] >= 0.5), found["by_age"][-1])
    early = (
        f" No decision is as old as the window yet: what comes later than {in_words(found['oldest'])} is not known."
        if found["oldest"] < found["window"]
        else ""
    )
    return (
        f"By {found['conversions']:,} conversions so far, {100 * half['share']:.0f} % come within {in_words(half['seconds'])}; "
        f"{_pending(found)}.{early}"
    )


def _pending(found: dict[str, Any]) -> str:
    """How many decisions are still silent, and what is expected of them."""
    if not found["pending"]:
        return "no decision is pending"
    if found["pending"] == 1:
        silent = f"1 decision is pending, and will convert with probability {found['expected']:.2g}"
    else:
        silent = f"{found['pending']:,} decisions are pending, and about {found['expected']:.1f} of them will convert"
    return f"{silent}, {100 * (found['share_to_come'] or 0):.0f} % of all conversions"
