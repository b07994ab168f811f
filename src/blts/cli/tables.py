"""The main tables of a report in the terminal, published numbers below ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table as RichTable

if TYPE_CHECKING:
    from ..report import Outcome
    from ..report.tables import Line, Table

FEW = 2
"""Studies of which all tables are shown; of more, those that stand beside published numbers."""


def show(console: Console, outcomes: Sequence[Outcome]) -> None:
    """One table a study, and how many published numbers agree."""
    from ..report.tables import table

    chosen = [outcome for outcome in outcomes if len(outcomes) <= FEW or outcome.study.printed]
    verdicts = []
    for outcome in chosen:
        found = table(outcome, outcome.score)
        console.print(_rich(outcome, found))
        metrics = dict.fromkeys((outcome.score, *outcome.study.metrics))
        entries = [entry for metric in metrics for entry in table(outcome, metric).entries()]
        verdicts += [e.printed.agreement.verdict for e in entries if e.printed and e.printed.agreement]
    if verdicts:
        console.print(
            f"{verdicts.count('agrees')} of {len(verdicts)} comparisons with published numbers agree; the report says which."
        )


def _rich(outcome: Outcome, found: Table) -> RichTable:
    study = outcome.study
    title = (
        f"{study.title or study.name}: {found.metric.words}, mean ± sd over {study.replications} runs, standard error in brackets"
    )
    table = RichTable(title=title, title_justify="left", title_style="bold")
    table.add_column(found.corner)
    for heading in found.columns:
        table.add_column(heading, justify="right")
    for group in found.groups:
        if group.label and len(found.groups) > 1:
            table.add_row(f"[italic]{group.label}[/]")
        for line in group.lines:
            table.add_row(line.label, *(_ours(found, line, i) for i in range(len(found.columns))))
            if any(entry and entry.printed for entry in line.entries):
                table.add_row("  paper", *(_paper(found, line, i) for i in range(len(found.columns))), style="dim")
    return table


def _ours(found: Table, line: Line, column: int) -> str:
    entry = line.entries[column]
    if entry is None:
        return ""
    error = f" ({found.shown(entry.summary.se)})" if entry.summary and entry.summary.se else ""
    return found.mean_sd(entry.summary) + error


def _paper(found: Table, line: Line, column: int) -> str:
    entry = line.entries[column]
    if entry is None or entry.printed is None:
        return ""
    differs = entry.printed.agreement is not None and entry.printed.agreement.verdict != "agrees"
    return found.printed(entry.printed) + (" differs" if differs else "")
