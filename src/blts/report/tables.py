"""Tables of a study: one quantity of all conditions, and the comparisons with the reference."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from .. import diagnosis
from ..statistics import Difference, Summary
from ..statistics import differences as paired_differences
from .comparing import Agreement
from .csvs import Row
from .outcome import PROBLEM, Measured, Outcome, Printed
from .words import Metric, decimals, fixed, interval, metric_of, name_of

SETTING = "setting"
ACROSS = 4
"""Values that fit in the columns of a table where a study does not say what goes there."""


TESTED = {"difference": "difference", "difference_low": "low", "difference_high": "high", "p": "p", "verdict": "verdict"}
"""Columns of a table's CSV, and what they have of an agreement."""


class Entry(NamedTuple):
    """One cell of a table."""

    measured: Measured
    summary: Summary | None
    printed: Printed | None


class Line(NamedTuple):
    label: str
    note: str
    entries: tuple[Entry | None, ...]


class Group(NamedTuple):
    label: str
    lines: tuple[Line, ...]


class Table(NamedTuple):
    """One metric of all conditions: lines of rows, columns, and groups of lines for what else varies."""

    name: str
    metric: Metric
    corner: str
    columns: tuple[str, ...]
    groups: tuple[Group, ...]
    places: int

    def entries(self) -> list[Entry]:
        return [e for group in self.groups for line in group.lines for e in line.entries if e is not None]

    def shown(self, value: float) -> str:
        return fixed(value * self.metric.scale, self.places)

    def mean_sd(self, summary: Summary | None) -> str:
        if summary is None:
            return "not finite"
        if summary.sd == 0:
            mean = summary.mean * self.metric.scale
            return fixed(mean, 0 if float(mean).is_integer() else self.places)
        return f"{self.shown(summary.mean)} ± {self.shown(summary.sd)}"

    def precision(self, summary: Summary) -> str:
        ends = interval(summary.low * self.metric.scale, summary.high * self.metric.scale, self.places)
        return f"se {self.shown(summary.se)}, 95 % {ends}"

    def quantiles(self, summary: Summary) -> str:
        """Half of the runs, and 95 % of them, have at most these: a few that never recover are not seen in mean and median."""
        return f"median {self.shown(summary.median)}, 95 % quantile {self.shown(summary.q95)}"

    def against(self, agreement: Agreement) -> str:
        """Ours less a published number, with the interval that the verdict is from."""
        ends = interval(agreement.low * self.metric.scale, agreement.high * self.metric.scale, self.places)
        return f"ours less the paper's {self.shown(agreement.difference)}, 99 % {ends}"

    def printed(self, printed: Printed) -> str:
        """A published number as it was published, as far as its decimals can be told."""
        places = max(_places(printed.mean * self.metric.scale), _places((printed.sd or 0.0) * self.metric.scale))
        mean = fixed(printed.mean * self.metric.scale, places)
        if printed.sd is None:
            return mean
        return f"{mean} ± {fixed(printed.sd * self.metric.scale, places)}"


class Comparison(NamedTuple):
    """A condition against the reference on common seeds."""

    label: str
    reference: str
    difference: Difference
    measured: Measured

    @property
    def verdict(self) -> str:
        return self.difference.verdict


def table(outcome: Outcome, metric: str) -> Table:
    """The table of one metric. What follows from the row alone is a note beside it."""
    rows, columns, others = axes(outcome)
    aside = outcome.study.columns
    note = aside if aside in outcome.varying and aside not in (*rows, *columns, *others) else ""
    quantity = metric_of(metric, outcome.study.labels)
    head_of = {id(m): outcome.label(m, columns, quantity.words) for m in outcome.measured}
    heads = list(dict.fromkeys(head_of.values()))
    lines: dict[str, dict[tuple[str, str], list[Entry | None]]] = {}
    for m in outcome.measured:
        group = lines.setdefault(outcome.label(m, others), {})
        label = outcome.label(m, rows or ["agent"], "all")
        noted = outcome.label(m, [note]) if note else ""
        row = group.setdefault((label, "" if noted == label else noted), [None] * len(heads))
        row[heads.index(head_of[id(m)])] = Entry(m, m.summary(metric), outcome.printed(m, metric))
    return Table(
        name=f"{outcome.study.name}-{metric}",
        metric=quantity,
        corner=" · ".join(name_of(outcome.study.labels, name) for name in rows) or "condition",
        columns=tuple(heads),
        groups=tuple(Group(g, tuple(Line(*key, tuple(e)) for key, e in rows_of.items())) for g, rows_of in lines.items()),
        places=decimals((m.summary(metric) for m in outcome.measured), quantity.scale),
    )


def axes(outcome: Outcome) -> tuple[list[str], list[str], list[str]]:
    """Names of rows, names of columns, and what else is needed to tell conditions apart.

    A study whose rows or columns are its "setting" has there all that varies and is not on the other side. Problems and settings
    that labels would not say are said as well, though conditions can be told apart without them: another T is another group.
    """
    study = outcome.study
    if study.rows == SETTING:
        columns = [name for name in (study.columns,) if name in outcome.varying]
        rows = outcome.keep(columns)
        return [*rows, *outcome.unsaid_problem([*rows, *columns]), *outcome.unsaid_settings(rows, columns)], columns, []
    if study.columns == SETTING:
        rows = [name for name in (study.rows,) if name in outcome.varying]
        columns = outcome.keep(rows)
        return rows, [*columns, *outcome.unsaid_problem([*rows, *columns]), *outcome.unsaid_settings(columns, rows)], []
    rows, columns, others = _arranged(outcome)
    others = [*others, *outcome.unsaid_problem([*rows, *columns, *others])]
    return [*rows, *outcome.unsaid_settings(rows, [*columns, *others])], columns, others


def _arranged(outcome: Outcome) -> tuple[list[str], list[str], list[str]]:
    """Rows, columns and groups with no more names than tell all conditions apart."""
    study = outcome.study
    rows, columns = ([name] if name in outcome.varying else [] for name in (study.rows, study.columns))
    if columns and rows and outcome.follows(columns[0], rows):
        columns = []
    others = outcome.keep([*rows, *columns])
    if rows and any(name in PROBLEM for name in others):  # a group is a problem: options of some conditions stay with their lines
        own = [name for name in others if any(name not in m.condition for m in outcome.measured)]
        rows, others = [*rows, *own], [name for name in others if name not in own]
    if not rows and others:
        rows = [max(others, key=outcome.count)]
        others.remove(rows[0])
    few = [name for name in others if outcome.count(name) <= ACROSS]
    if not columns and few:
        columns = few[:1]
        others.remove(few[0])
    return (rows, columns, others) if rows else (columns, [], others)


def csv_rows(outcome: Outcome, metric: str) -> list[Row]:
    """A table in long format: a row a condition, in the units of the results."""
    names = list(dict.fromkeys(name for m in outcome.measured for name in m.condition if name != "times"))
    found: list[Row] = []
    for m in outcome.measured:
        summary, printed = m.summary(metric), outcome.printed(m, metric)
        tested = printed.agreement if printed else None
        row = {name: _plain(m.condition.get(name)) for name in names} | {"metric": metric, "replications": len(m.values(metric))}
        row |= {field: getattr(summary, field, None) for field in ("mean", "sd", "se", "low", "high", "median", "q95")}
        row |= {f"paper_{field}": getattr(printed, field, None) for field in ("mean", "sd", "n")}
        row |= {name: getattr(tested, field, None) for name, field in TESTED.items()}
        found.append(row | {f"first_{field}": getattr(printed and printed.first, field, None) for field in ("mean", "sd", "n")})
    return found


def comparisons(outcome: Outcome) -> list[Comparison]:
    """The score of every condition less that of its reference, all of them one family.

    None for a score of which neither less nor more is better, unless the study names a reference.
    """
    if not metric_of(outcome.score, {}).better and not outcome.study.reference:
        return []
    names = label_names(outcome)
    pairs = [(m, r) for m in outcome.measured if (r := outcome.reference(m)) is not None and r is not m]
    return [
        Comparison(outcome.label(m, names), outcome.label(r, names), difference, m)
        for m, r, difference in differences(pairs, outcome.score)
    ]


def differences(pairs: Sequence[tuple[Measured, Measured]], metric: str) -> list[tuple[Measured, Measured, Difference]]:
    """Pairs of conditions with their differences in a metric, as one family; without those that are not finite."""
    known = [(m, r) for m, r in pairs if metric in m.metrics() and metric in r.metrics()]
    finite = [(m, r) for m, r in known if np.isfinite(m.values(metric)).all() and np.isfinite(r.values(metric)).all()]
    found = paired_differences([m.values(metric) for m, _ in finite], [r.values(metric) for _, r in finite])
    return [(m, r, difference) for (m, r), difference in zip(finite, found, strict=True)]


def comparison_rows(found: Sequence[Comparison]) -> list[Row]:
    return [
        {
            "condition": c.label,
            "reference": c.reference,
            **{k: v for k, v in c.difference._asdict().items() if k != "quantity"},
            "verdict": c.verdict,
        }
        for c in found
    ]


def label_names(outcome: Outcome) -> list[str]:
    """The names that tell all conditions apart, rows first."""
    rows, columns, others = axes(outcome)
    return [*rows, *columns, *others]


def unfinished(outcome: Outcome) -> list[str]:
    """A warning for every condition with refreshes that were not finite, or whose chains may not be believed."""
    found = []
    for m in outcome.measured:
        finite = m.arrays.get("finite")
        if finite is not None and not finite.all():
            lost = int((~finite.astype(bool)).sum())
            label = outcome.label(m, label_names(outcome), "The study")
            found.append(f"{label}: {lost} of {len(finite)} replications had a refresh that was not finite.")
        if "unsound" in m.arrays:
            label = outcome.label(m, label_names(outcome), "The study")
            found += [f"{label}: {sentence}" for sentence in _unsound(m.arrays)]
    return found


def _unsound(arrays: Mapping[str, np.ndarray]) -> list[str]:
    """What `diagnosis` says of a condition's refreshes, over all replications."""
    worst = {"rhat": np.max, "stuck": np.max, "least": np.min}
    figures = {name: arrays[name][np.isfinite(arrays[name])] for name in worst}
    found = {name: float(worst[name](values)) if len(values) else math.nan for name, values in figures.items()}
    return diagnosis.warnings(int(arrays["refreshes"].sum()), int(arrays["unsound"].sum()), True, **found)


def _places(value: float) -> int:
    text = f"{value:.6g}"
    return 0 if "e" in text or "." not in text else len(text.split(".")[1])


def _plain(value: object) -> str | float | int | None:
    return value if isinstance(value, str | float | int) and not isinstance(value, bool) else None if value is None else str(value)
