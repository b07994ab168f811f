"""What the results of a study say, in sentences that are computed from them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..statistics import Difference
from ..studies.spec import Condition
from .comparing import Agreement, agreement, totals
from .outcome import PROBLEM, Measured, Outcome, matches
from .tables import differences, label_names
from .words import METRICS, capital, decimals, fixed, interval, listed, metric_of

MOST_RUNS = 20
"""Numbers of runs that are tried for a printed mean that the stated number does not admit."""


class Finding(NamedTuple):
    """A sentence about results and, where something was claimed, what they say of the claim."""

    sentence: str
    claim: str = ""
    verdict: str = ""


def findings(outcome: Outcome) -> list[Finding]:
    """The findings that a study asks for."""
    kinds = {"difference": difference, "printed": published, "runs": runs}
    return [kinds[str(asked["find"])](outcome, asked) for asked in outcome.study.findings]


def difference(outcome: Outcome, asked: Condition) -> Finding:
    """How conditions differ from others that are alike but for what is named, on common seeds and as one family."""
    metric, of, than = str(asked.get("metric", outcome.score)), asked["of"], asked["than"]
    quantity = metric_of(metric, outcome.study.labels)
    pairs = [(m, r) for m in outcome.measured if matches(of, m.condition) and (r := _alike(outcome, m, of, than)) is not None]
    found = differences(pairs, metric)
    if not found:
        return Finding(
            f"No difference in {quantity.words} can be computed: some numbers are not finite.", str(asked.get("claim", ""))
        )
    places = decimals((d for _, _, d in found), quantity.scale)
    names = [name for name in label_names(outcome) if name not in of]
    told: dict[str, list[str]] = {}
    for m, _, d in found:
        ends = interval(d.low * quantity.scale, d.high * quantity.scale, places)
        label = outcome.label(m, names, "default" if len(found) > 1 else "")
        words = " ".join(filter(None, (label, fixed(d.mean * quantity.scale, places), ends)))
        told.setdefault(d.verdict, []).append(words)
    left, right = (_named(outcome, some) for some in (of, than))
    if of.items() <= than.items():
        left = f"the others ({left})" if of else "the others"
    counts = [f"{verdict} in {len(some)} of {len(found)} ({'; '.join(some)})" for verdict, some in told.items()]
    sentence = f"{capital(quantity.words)} with simultaneous 95 % intervals, {left} less {right}: {', '.join(counts)}."
    return Finding(sentence, str(asked.get("claim", "")), _judged(asked.get("expect"), [d for _, _, d in found]))


AGAINST = {
    "same": ("higher", "lower"),
    "higher": ("lower",),
    "lower": ("higher",),
    "no higher": ("higher",),
    "no lower": ("lower",),
}
"""Verdicts that contradict a claim, by what it expects."""


def _judged(expected: object, found: list[Difference]) -> str:
    """What differences say of a claim about all of them."""
    if expected is None:
        return ""
    verdicts = [d.verdict for d in found]
    against = [v for v in verdicts if v in AGAINST[str(expected)]]
    if against:
        return f"contradicted in {len(against)} of {len(found)}"
    if expected not in ("higher", "lower"):
        return "not contradicted"
    borne = verdicts.count(str(expected))
    return "borne out" if borne == len(found) else f"borne out in {borne} of {len(found)}, open in the others"


def _alike(outcome: Outcome, measured: Measured, of: Condition, than: Condition) -> Measured | None:
    """The condition that matches `than`, of the same problem unless that is what is compared, otherwise as alike as there is."""
    problem = [name for name in PROBLEM if name not in than and name not in of]
    fit = [
        m for m in outcome.measured if m is not measured and matches(than, m.condition) and m.key(problem) == measured.key(problem)
    ]
    return max(fit, key=lambda m: sum(m.condition.get(n) == measured.condition.get(n) for n in outcome.varying), default=None)


def published(outcome: Outcome, asked: Condition) -> Finding:
    """Which published numbers agree, and for those that do not, whether they agree with another condition of ours."""
    metric = str(asked.get("metric", outcome.score))
    quantity, names = metric_of(metric, outcome.study.labels), label_names(outcome)
    tested: list[tuple[Measured, float, Agreement]] = []
    others: dict[float, list[str]] = {}
    for m in outcome.measured:
        printed = outcome.printed(m, metric)
        if printed is None or printed.agreement is None or printed.sd is None or not printed.n:
            continue
        tested.append((m, printed.mean, printed.agreement))
        if printed.agreement.verdict == "differs":
            row = outcome.study.rows
            same = [o for o in outcome.measured if o is not m and o.condition.get(row) == m.condition.get(row)]
            fit = [
                o
                for o in same
                if (s := o.summary(metric)) and agreement(s, printed.mean, printed.sd, printed.n).verdict == "agrees"
            ]
            others.setdefault(printed.mean, []).extend(outcome.label(o, names) for o in fit)
    if not tested:
        return Finding(f"No published {quantity.words} can be compared here.")
    places = decimals((m.summary(metric) for m, _, _ in tested), quantity.scale)
    gaps = [
        f"{outcome.label(m, names)} {fixed(a.difference * quantity.scale, places)} "
        f"{interval(a.low * quantity.scale, a.high * quantity.scale, places)}"
        for m, _, a in tested
        if a.verdict == "differs"
    ]
    agree = len(tested) - len(gaps)
    sentence = f"Published {quantity.words}: {agree} of {len(tested)} comparisons agree."
    if gaps:
        sentence += f" Those that differ, ours less the paper's with 99 % intervals: {'; '.join(gaps)}."
    near = [f"{mean:.6g} agrees with ours of {listed(dict.fromkeys(labels))}" for mean, labels in others.items() if labels]
    lost = [f"{mean:.6g}" for mean, labels in others.items() if not labels]
    if near:
        sentence += f" {'; '.join(near)}."
    if lost:
        sentence += f" {listed(lost)} {'agrees' if len(lost) == 1 else 'agree'} with none of ours under the same name."
    return Finding(sentence)


def runs(outcome: Outcome, asked: Condition) -> Finding:
    """Published means of whole numbers that cannot be means of as many runs as are stated, and what runs they can be of."""
    del asked
    whole = [row for row in outcome.study.printed if METRICS.get(row.get("metric", outcome.score), METRICS["regret"]).whole]
    rows = {float(row["mean"]): row for row in whole if row.get("n")}
    odd = {mean: row for mean, row in rows.items() if not totals(mean, int(row["n"]))}
    if not odd:
        return Finding(f"All {len(rows)} published means of whole numbers can be means of the runs that are stated.")
    stated = sorted({int(row["n"]) for row in odd.values()})
    named = [f"{mean:.10g} ({', '.join(_about(outcome, row))})" for mean, row in odd.items()]
    both = [n for n in range(1, MOST_RUNS + 1) if all(totals(mean, n) for mean in odd)]
    they = {1: "it can be", 2: "both can be"}.get(len(odd), "all can be")
    fractions = [f"{n} ({', '.join(f'{totals(mean, n)[0]}/{n}' for mean in odd)})" for n in both]
    can = (
        f"of at most {MOST_RUNS} runs {they} of {listed(fractions)}"
        if both
        else f"no number of runs up to {MOST_RUNS} admits {'them all' if len(odd) > 1 else 'it'}"
    )
    cannot = "cannot be the mean" if len(odd) == 1 else "cannot be means"
    return Finding(f"{listed(named)} {cannot} of {listed(map(str, stated))} whole numbers; {can}.")


def _about(outcome: Outcome, row: Condition) -> Iterable[str]:
    """Where a printed number stands, and what it is of."""
    labels = outcome.study.labels
    names = [outcome.word(name, row[name]) for name in ("agent", "batching") if name in row]
    return filter(None, (str(row.get("where", "")), " ".join((metric_of(str(row.get("metric", "")), labels).words, "of", *names))))


def _named(outcome: Outcome, names: Condition) -> str:
    return " · ".join(outcome.word(name, value) for name, value in names.items())
