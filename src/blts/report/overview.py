"""The first page of a report: what was found in at most twelve sentences, every one computed, and a scorecard of claims."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..statistics import UNKNOWN, Difference
from .findings import Finding, findings
from .outcome import PROBLEM, Measured, Outcome
from .tables import differences, label_names
from .words import capital, decimals, fixed, interval, listed, metric_of

MOST = 12
"""Sentences of a first page."""
PAIRS = 300
"""Pairs of conditions that are compared as one family; 24 conditions have 276."""
NAMED = 4
"""Conditions that a sentence names; of more it has the number."""


class Score(NamedTuple):
    """A row of the scorecard."""

    study: str
    finding: Finding

    @property
    def mark(self) -> str:
        return {True: "holds", False: "fails", None: "open"}[self.finding.holds]


class Sentence(NamedTuple):
    study: str
    text: str
    mark: str = ""
    """"holds", "fails" or "open" where it is about a claim."""


class Overview(NamedTuple):
    sentences: tuple[Sentence, ...]
    scorecard: tuple[Score, ...]
    others: tuple[Score, ...]
    """Claims that are not of the first page."""


def overview(outcomes: Sequence[Outcome]) -> Overview:
    """The first page of studies: the findings that they place there, then who was best in each, then claims that failed."""
    claims = [Score(o.study.name, f) for o in outcomes for f in findings(o) if f.claim]
    placed = sorted((score for score in claims if score.finding.first), key=lambda score: score.finding.first)
    rest = [score for score in claims if not score.finding.first]
    told = [_sentence(score) for score in placed]
    for o in outcomes:
        if len(told) < MOST:
            told += [Sentence(o.study.name, text) for text in best(o)]
    told += [_sentence(score) for score in sorted(rest, key=lambda s: s.mark != "fails") if score.mark == "fails" or not placed]
    return Overview(tuple(told[:MOST]), tuple(placed or rest), tuple(rest if placed else ()))


def _sentence(score: Score) -> Sentence:
    surprise = "Against the claim: " if score.mark == "fails" else ""
    return Sentence(score.study, surprise + (score.finding.short or score.finding.sentence), score.mark)


def best(outcome: Outcome) -> list[str]:
    """For each problem of a study, which condition has the best mean score, by what margin, and which are not told apart from it.

    All pairs are one family of paired differences, so the intervals hold for the one that happens to be best.
    """
    quantity = metric_of(outcome.score, outcome.study.labels)
    problem = [name for name in PROBLEM if name in outcome.varying]
    held: dict[str, list[Measured]] = {}
    for m in outcome.measured:
        if quantity.better and outcome.score in m.metrics() and np.isfinite(m.values(outcome.score)).all():
            held.setdefault(repr(m.key(problem)), []).append(m)
    return [_best(outcome, some, problem) for some in held.values() if len(some) > 1]


def _best(outcome: Outcome, some: list[Measured], problem: list[str]) -> str:
    quantity = metric_of(outcome.score, outcome.study.labels)
    sign = 1.0 if quantity.better == "less" else -1.0
    order = sorted(some, key=lambda m: sign * float(m.values(outcome.score).mean()))
    names = [name for name in label_names(outcome) if name not in problem]
    winner, where = order[0], outcome.label(order[0], problem)
    label = outcome.label(winner, names, "all")
    head = f"{where}: " if where else ""
    summary = winner.summary(outcome.score)
    places = decimals([summary], quantity.scale)
    mean = fixed(float(winner.values(outcome.score).mean()) * quantity.scale, places)
    lead = capital(f"{head}{label} has {quantity.best()}, {mean}{quantity.unit}.")
    if len(some) * (len(some) - 1) // 2 > PAIRS:
        return f"{lead} {len(some)} conditions are too many to compare every two."
    found = [(b, d) for a, b, d in _against(outcome, some, winner) if a is winner]
    level = [b for b, d in found if d.verdict == UNKNOWN]
    beaten = [(b, d) for b, d in found if d.verdict != UNKNOWN]
    words = [lead]
    if level:
        named = listed([outcome.label(m, names) for m in order if any(m is b for b in level)]) if len(level) <= NAMED else ""
        words.append(f"It is not told apart from {named or f'{len(level)} others'}.")
    if beaten:
        nearest, d = min(beaten, key=lambda pair: abs(pair[1].mean))
        margin = (-d.mean, -d.high, -d.low) if sign > 0 else (d.mean, d.low, d.high)
        by, low, high = (x * quantity.scale for x in margin)
        rival = f"{outcome.label(nearest, names)}{{}} by {fixed(by, places)} {interval(low, high, places)}."
        more = "more" if sign > 0 else "less"
        who = f"The other {len(beaten)}" if level else "All others"
        words.append(
            rival.format(f" has {more},") if len(beaten) == 1 else f"{who} have {more}; the nearest is {rival.format(',')}"
        )
    return " ".join(words)


def _against(outcome: Outcome, some: list[Measured], winner: Measured) -> list[tuple[Measured, Measured, Difference]]:
    """Differences of all pairs, the winner's first in its pairs."""
    pairs = [(b, a) if b is winner else (a, b) for a, b in itertools.combinations(some, 2)]
    return differences(pairs, outcome.score)
