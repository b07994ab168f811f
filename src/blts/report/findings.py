"""What the results of a study say, in sentences that are computed from them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ..statistics import UNKNOWN, Difference
from ..studies.spec import Condition
from .comparing import Agreement, agreement, totals
from .growth import FASTER
from .judging import UNTOLD, holds, judged
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
    first: int = 0
    """Its place on the first page; 0 where the study does not say."""
    short: str = ""
    """The sentence of the first page, where it is another."""
    measured: str = ""
    """The numbers alone."""

    @property
    def holds(self) -> bool | None:
        """Whether the results speak for the claim (True) or against it (False); None where they leave it open."""
        return holds(self.verdict)


def findings(outcome: Outcome) -> list[Finding]:
    """The findings that a study asks for."""
    kinds = {"difference": difference, "printed": published, "runs": runs, "growth": grown, "bound": bound}
    found = []
    for asked in outcome.study.findings:
        some = among(outcome, asked.get("among", {}))
        told = kinds[str(asked["find"])](some, asked) if some.measured else _nothing(asked)
        found.append(told._replace(first=int(asked.get("first", 0))))
    return found


def among(outcome: Outcome, names: Condition) -> Outcome:
    """A study's results, only those of conditions that match."""
    return Outcome(outcome.study, [m for m in outcome.measured if matches(names, m.condition)]) if names else outcome


def _nothing(asked: Condition) -> Finding:
    names = ", ".join(f"{name} = {value}" for name, value in asked["among"].items())
    return Finding(f"No condition has {names}.", str(asked.get("claim", "")), "open: nothing was measured")


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
    verdict = judged(asked.get("expect"), asked.get("margin"), found, metric, quantity.scale)
    short, measured = compared(outcome, found, metric, (left, right))
    short = capital(": ".join(filter(None, (_named(outcome, asked.get("among", {})), short))))
    return Finding(sentence, str(asked.get("claim", "")), verdict, short=short, measured=measured)


NAMED = 4
"""Comparisons whose numbers a short sentence has; of more it has the smallest and the largest difference."""


def compared(
    outcome: Outcome, found: list[tuple[Measured, Measured, Difference]], metric: str, sides: tuple[str, str]
) -> tuple[str, str]:
    """Short sentences of differences, and their numbers: both means and the difference with its interval."""
    quantity = metric_of(metric, outcome.study.labels)
    places = decimals((d for _, _, d in found), quantity.scale)
    names = [name for name in label_names(outcome) if len({repr(m.key([name])) for m, _, _ in found}) > 1]
    told: dict[str, list[tuple[float, str]]] = {}
    for m, r, d in found:
        means = [fixed(float(x.values(metric).mean()) * quantity.scale, places) + quantity.unit for x in (m, r)]
        ends = interval(d.low * quantity.scale, d.high * quantity.scale, places)
        gap = "a difference of" if len(found) == 1 else "difference"
        numbers = f"{means[0]} against {means[1]}, {gap} {fixed(d.mean * quantity.scale, places)} {ends}"
        told.setdefault(d.verdict, []).append((d.mean, ": ".join(filter(None, (outcome.label(m, names), numbers)))))
    left, right = sides
    heads = {
        "lower": f"{left} has {quantity.lower()} than {right}",
        "higher": f"{left} has {quantity.higher()} than {right}",
        UNKNOWN: f"{left} and {right} are not told apart in {quantity.called}",
    }
    then = {"lower": "it is lower", "higher": "it is higher", UNKNOWN: "they are not told apart"}
    sentences = []
    for verdict, some in told.items():
        all_of = "" if len(found) == 1 else " in both comparisons" if len(found) == 2 else f" in all {len(found)} comparisons"
        share = f"{len(some)} of {len(found)}"
        if sentences:
            head = f"In {share} {then[verdict]}"
        else:
            head = heads[verdict] + (all_of if len(some) == len(found) else f" in {share} comparisons")
        sentences.append(f"{head} ({_numbers(some)}).")
    if len(found) <= NAMED:
        return " ".join(sentences), "; ".join(words for some in told.values() for _, words in some)
    shares = [f"{verdict} in {len(some)} of {len(found)} ({_numbers(some)})" for verdict, some in told.items()]
    return " ".join(sentences), "; ".join(shares)


def _numbers(some: list[tuple[float, str]]) -> str:
    """The numbers of a few differences, or the smallest and the largest of many."""
    if len(some) <= NAMED:
        return "; ".join(words for _, words in some)
    ordered = sorted(some, key=lambda pair: abs(pair[0]))
    return f"least {ordered[0][1]}; most {ordered[-1][1]}"


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
    claim = str(asked.get("claim", ""))
    if not tested:
        return Finding(f"No published {quantity.words} can be compared here.", claim, "open: nothing to compare" if claim else "")
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
    verdict = f"contradicted in {len(gaps)} of {len(tested)}" if gaps else UNTOLD
    numbers = [
        f"{label}{fixed(float(m.values(metric).mean()) * quantity.scale, places)}, published {mean * quantity.scale:.6g}"
        for m, mean, _ in tested
        for label in (f"{outcome.label(m, names)}: " if len(tested) > 1 else "",)
    ]
    whom = " · ".join(dict.fromkeys(outcome.word(n, v) for n, v in asked.get("among", {}).items()))
    many = len(tested)
    if many == 1:
        which = f"the published mean {'differs from ours' if gaps else 'is not told apart from ours'}"
    elif len(gaps) in (0, many):
        which = f"all {many} published means differ from ours" if gaps else f"none of the {many} published means differs from ours"
    else:
        which = f"{len(gaps)} of {many} published means {'differs' if len(gaps) == 1 else 'differ'} from ours"
    short = f"{capital(quantity.words)}{f' of {whom}' if whom else ''}: {which}, by 99 % intervals ({'; '.join(numbers)})."
    return Finding(sentence, claim, verdict if claim else "", short=short, measured="; ".join(numbers))


def grown(outcome: Outcome, asked: Condition) -> Finding:
    """Whether regret or batches grow no faster with T than claimed."""
    from .figures.growth import ARRAYS, claim_of, why

    metric, names, claim = str(asked.get("metric", "regret")), label_names(outcome), str(asked["claim"])
    told: dict[str, list[str]] = {}
    for m in outcome.measured:
        growth = m.growth(ARRAYS[metric]) if ARRAYS.get(metric) in m.arrays else None
        stated = claim_of(outcome, m, metric)
        verdict = growth.judged(stated) if growth else ""
        if growth and verdict:
            label = outcome.label(m, names)
            told.setdefault(f"{verdict}, {stated}", []).append(f"{label}: {why(growth, stated)}" if label else why(growth, stated))
    total = sum(map(len, told.values()))
    if not total:
        return Finding(f"The growth of {metric} cannot be compared with a claim.", claim, "open: nothing to compare")
    faster = sum(len(some) for verdict, some in told.items() if verdict.startswith(FASTER))
    whom = " · ".join(outcome.word(n, v) for n, v in asked.get("among", {}).items())
    words = ", ".join(f"{verdict}, in {len(some)} of {total} ({'; '.join(some)})" for verdict, some in told.items())
    sentence = f"Over the last half of log T, the {metric}{f' of {whom}' if whom else ''} {_grow(metric)} {words}."
    verdict = f"contradicted in {faster} of {total}" if faster else "not contradicted"
    return Finding(sentence, claim, verdict, measured="; ".join(n for some in told.values() for n in some))


def _grow(metric: str) -> str:
    return "grow" if metric == "batches" else "grows"


def bound(outcome: Outcome, asked: Condition) -> Finding:
    """The most batches that any run closed, against the theorem's bound."""
    claim, names = str(asked["claim"]), label_names(outcome)
    pairs = [(m, float(np.ravel(b)[-1])) for m in outcome.measured if (b := m.about.get("batches_bound")) is not None]
    pairs = [(m, limit) for m, limit in pairs if "batches" in m.metrics()]
    if not pairs:
        return Finding("No bound on batches was stored.", claim, "open: nothing to compare")
    over = [m for m, limit in pairs if m.values("batches").max() > limit]
    m, limit = max(pairs, key=lambda pair: pair[0].values("batches").max() / pair[1])
    label = outcome.label(m, names, outcome.study.title or outcome.study.name)
    closed = fixed(float(m.values("batches").max()), 0)
    most = f"{closed} of at most {limit:.1f}"
    sentence = (
        f"Runs closed more batches than the bound in {len(over)} of {len(pairs)} conditions; the furthest beyond it closed {most}"
        if over
        else f"No run closed more batches than the bound; the one that came nearest closed {most}"
    )
    sentence += f" ({label})."
    verdict = f"contradicted in {len(over)} of {len(pairs)}" if over else "held in every run"
    return Finding(sentence, claim, verdict, measured=most)


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
