"""Health: whether the numbers can be trusted. Every check has a verdict, a number and a sentence."""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import charts, numbers, scales
from ..facts import Facts
from ..tables import Column, Table
from .base import View

STALE = 3.0  # times the usual pause between refreshes after which rewards that wait are called stale
TONES = ("bad", "warn", "info", "good")


class Check(NamedTuple):
    """One thing that was looked at."""

    tone: str
    """good, info (nothing to check yet), warn or bad."""
    name: str
    value: str
    words: str
    term: str | None = None


def health(facts: Facts) -> View:
    """The page of an experiment's checks, the worst first."""
    found = sorted(checks(facts), key=lambda check: TONES.index(check.tone))
    bad = sum(check.tone == "bad" for check in found)
    warn = sum(check.tone == "warn" for check in found)
    drawn = tuple(chart for chart in (_ratio_chart(facts), _fates(facts)) if chart is not None)
    values = {"checks": found, "bad": bad, "warn": warn, "notes": [] if facts.report is None else facts.report["notes"]}
    return View("Health", "health", values, drawn)


def checks(facts: Facts) -> list[Check]:
    """Everything that is looked at."""
    report = facts.report
    out = [_refresh(facts), _chains(facts)]
    if report is None:
        return out
    out += [_sample_ratio(report), _model(facts, report), _missing(report), *_share(report), *_weights(report), *_alarms(report)]
    return out


def _sample_ratio(report: dict[str, Any]) -> Check:
    ratio, name = report["sample_ratio"], "Sample ratio"
    if ratio is None or ratio["p_value"] is None:
        return Check("info", name, numbers.NONE, "There are too few decisions to compare with their propensities.", "sample-ratio")
    p = f"p = {numbers.number(ratio['p_value'], 2)}"
    if ratio["alarm"]:
        words = "Arms were not played as often as their propensities say. Find out which decisions are lost or doubled first."
        return Check("bad", name, p, words, "sample-ratio")
    return Check("good", name, p, "Arms were played about as often as their propensities say.", "sample-ratio")


def _model(facts: Facts, report: dict[str, Any]) -> Check:
    if report["misfit"]:
        return Check("bad", "Model fit", "does not fit", " ".join(report["misfit"]))
    if report["posterior_failings"]:
        return Check("bad", "Posterior", "not reliable", "; ".join(report["posterior_failings"]))
    if not report["rewards"]:
        return Check("info", "Model fit", numbers.NONE, "There are no rewards yet to compare with the model.")
    if facts.contextual:
        return Check(
            "info",
            "Model fit",
            "not checked",
            "With contexts the model is not compared with single rewards; values rest on propensities.",
        )
    return Check("good", "Model fit", "fits", f"The rewards look like those of the model ({report['model']}).")


def _missing(report: dict[str, Any]) -> Check:
    rate = report["missing_feedback_rate"]
    if rate is None:
        return Check("info", "Silent decisions", numbers.NONE, "No window has ended yet.")
    silent = [
        (arm["missing"] + arm["defaulted"]) / max(1, arm["units"] - arm["pending"] - arm["cancelled"]) for arm in report["arms"]
    ]
    apart = max(silent, default=0.0) - min(silent, default=0.0)
    words = "Decisions without a reward when their window ended, or that count as the default."
    if any(arm["missing"] for arm in report["arms"]) and apart > 0.1:
        words = f"Arms differ by {numbers.percent(apart, 2)} in how many decisions stay silent; leaving these out is biased."
        return Check("warn", "Silent decisions", numbers.percent(rate), words)
    return Check("good", "Silent decisions", numbers.percent(rate), words)


def _share(report: dict[str, Any]) -> list[Check]:
    share, name = report.get("feedback_share"), "Feedback by arm"
    if share is None:
        return []
    p = f"p = {numbers.number(share['p_value'], 2)}"
    if share["alarm"]:
        return [Check("bad", name, p, share["words"], "feedback-share")]
    return [Check("good", name, p, "Decisions of all arms count about equally often.", "feedback-share")]


def _weights(report: dict[str, Any]) -> list[Check]:
    """The smallest propensity and the effective sample size, of the arm that has it worst."""
    known = [arm for arm in report["arms"] if arm["rewards"] and arm.get("smallest_propensity") is not None]
    if not known:
        return []
    least = min(known, key=lambda arm: arm["smallest_propensity"])
    worst = min(known, key=lambda arm: arm["effective_rewards"] / arm["rewards"])
    p, share = least["smallest_propensity"], worst["effective_rewards"] / worst["rewards"]
    least_words = f"The least probability of a decision for its own arm ({numbers.short(least['arm'])})."
    rare = f"{least_words} Below {numbers.percent(0.001)} it is a warning."
    even = (
        f"Weighted by propensities, the {numbers.plural(worst['rewards'], 'reward')} of {numbers.short(worst['arm'])} are worth "
        f"{numbers.number(worst['effective_rewards'])} equal ones."
    )
    return [
        Check("warn" if p < 0.001 else "good", "Smallest propensity", numbers.percent(p, 2), rare, "propensity"),
        Check("warn" if share < 0.1 else "good", "Effective sample size", numbers.percent(share, 2), even, "effective"),
    ]


def _refresh(facts: Facts) -> Check:
    status, name = facts.status, "Last refresh"
    since = numbers.ago(status["refreshed_at"], facts.now)
    if status["last_refresh_failed"]:
        return Check(
            "bad", name, "not used", f"{'; '.join(status['last_refresh_failed'])}. The policy before it stays in use.", "batch"
        )
    later = 0 if facts.report is None else facts.report["as_of"]["later_entries"]
    late = facts.now - status["refreshed_at"] > STALE * max(status["window"] or 0.0, 86400.0)
    if later and late and not status["stopped"]:
        return Check(
            "warn",
            name,
            since,
            f"{numbers.plural(later, 'reward entry', 'reward entries')} wait to be learned from; is the worker running?",
        )
    if status["policies"] <= 1:
        return Check("info", name, "none yet", "The first policy plays by the prior; the first refresh follows the first batch.")
    return Check("good", name, since, f"Policy version {status['policy']} is in use.")


def _chains(facts: Facts) -> Check:
    said = facts.status["chains"]
    if said:
        return Check("good", "Sampler", "chains", said, "rhat")
    return Check("good", "Sampler", "exact", "Posterior draws are exact: there are no chains that could disagree.", "rhat")


def _alarms(report: dict[str, Any]) -> list[Check]:
    out = []
    for metric in report["metrics"]:
        if metric["role"] != "guardrail":
            continue
        alarms = metric["alarms"]
        words = (
            f"{'; '.join(alarms)}."
            if alarms
            else f"No arm is shown to be worse than {metric['control']} by more than is tolerated."
        )
        out.append(Check("bad" if alarms else "good", f"Guardrail: {metric['metric']}", "alarm" if alarms else "no alarm", words))
    return out


def _ratio_chart(facts: Facts) -> charts.Chart | None:
    """How often arms were played, and how often they should have been."""
    ratio = None if facts.report is None else facts.report["sample_ratio"]
    if ratio is None or ratio["p_value"] is None:
        return None
    rows = []
    for label, n in ratio["observed"].items():
        e = ratio["expected"][label]
        share = n / e - 1 if e else None
        rows.append([label, n, e, share])
    shown = [row for row in rows if row[3] is not None]
    if not shown:
        return None
    spread = [3 / max(row[2], 1) ** 0.5 for row in shown]
    axis = scales.linear([*(row[3] for row in shown), *spread, *(-s for s in spread)], zero=True, label=_signed)
    marks = []
    for (label, n, e, share), s in zip(shown, spread, strict=True):
        text = f"{n:,} played, {e:,.0f} expected"
        marks.append(charts.Interval(label, facts.looks[label], share, share - s * 2 / 3, share + s * 2 / 3, text))
    said = "; ".join(f"{row.label}: {row.text}" for row in marks)
    svg = charts.intervals(marks, axis, about=("ratio", f"Decisions of each arm against what propensities say: {said}."), zero=0.0)
    columns = [Column("arm", "arm"), Column("played", "count"), Column("expected", "number"), Column("difference", "share")]
    table = Table("ratio", "Decisions of each arm", columns, rows)
    note = "difference from what propensities say; the line is about two standard errors"
    return charts.Chart("Played as often as planned?", note, svg, [], table)


def _signed(value: float) -> str:
    return f"{'+' if value > 0 else ''}{numbers.percent(value, 2)}"


FATES = {"observed": 0, "defaulted": 2, "pending": 6, "missing": 1, "cancelled": 4}
"""What becomes of decisions, with the looks of their bars."""


def _fates(facts: Facts) -> charts.Chart | None:
    """What became of each arm's decisions."""
    if not any(arm["units"] for arm in facts.arms):
        return None
    groups = []
    for arm in facts.arms:
        whole = max(1, arm["units"])
        parts = [charts.Bar(f"{arm['arm']}, {fate}", charts.Look(k), arm[fate] / whole) for fate, k in FATES.items() if arm[fate]]
        groups.append((numbers.short(arm["arm"], 14), parts))
    said = "; ".join(f"{arm['arm']}: " + ", ".join(f"{arm[fate]:,} {fate}" for fate in FATES if arm[fate]) for arm in facts.arms)
    svg = charts.bars(groups, scales.shares(), about=("fates", f"What became of each arm's decisions: {said}."), height=180)
    columns = [Column("arm", "arm"), Column("decisions", "count"), *(Column(fate, "count") for fate in FATES)]
    table = Table(
        "fates",
        "What became of each arm's decisions",
        columns,
        [[a["arm"], a["units"], *(a[f] for f in FATES)] for a in facts.arms],
    )
    legend = [(fate, charts.Look(k)) for fate, k in FATES.items() if any(arm[fate] for arm in facts.arms)]
    return charts.Chart("What became of the decisions?", "share of each arm's decisions", svg, legend, table, filled=True)
