"""What a rehearsal found, as a table, for JSON and as a figure."""

from __future__ import annotations

import os
import pathlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from .measured import Measured, Share
from .rules import COLUMNS, GuardrailArm, Stops, false_alarms

WITHOUT = ("while a closed batch awaited its rewards", "while the stopping rule had paused it")
"""Why units have no decision: in strict experiments, and in those that a rule may pause."""


@dataclass(frozen=True)
class Rehearsal:
    """The outcomes of all replications of a rehearsal. `print` shows the table, `figure` draws, `to_dict` is for JSON.

    Arrays have one row for each replication.

    >>> from blts.live import Spec, rehearse
    >>> spec = Spec.of(["A", "B"], "bernoulli", batching={"name": "fixed", "size": 50})
    >>> found = rehearse(spec, {"A": 0.1, "B": 0.9}, units=200, replications=4)
    >>> found.labels, found.plays.sum(1).tolist()
    (['A', 'B'], [200, 200, 200, 200])
    """

    specification: str
    assumed: list[str]
    """What was assumed beside the arms, in sentences."""
    labels: list[str]
    means: np.ndarray
    """What each arm is assumed to earn a unit."""
    words: list[str]
    units: int
    strict: bool
    """Whether units go without a decision while a closed batch awaits its rewards."""
    pauses: bool
    """Whether the stopping rule may pause the experiment."""
    edges: np.ndarray
    """The ends of the bins of units."""
    counts: np.ndarray
    """Decisions in each bin for each arm, [replications, bins, arms]."""
    refreshes: np.ndarray
    unused: np.ndarray
    """Refreshes that were kept out of use."""
    winner: np.ndarray
    """The number of the arm that was named first; -1 where none was."""
    named_at: np.ndarray
    """After how many units it was named; NaN where none was."""
    stops: Stops | None
    """When the stopping rule holds; None without one."""
    guardrails: list[GuardrailArm]
    """Alarms of each arm on each guardrail."""

    @property
    def replications(self) -> int:
        return len(self.refreshes)

    @property
    def plays(self) -> np.ndarray:
        """Decisions for each arm, [replications, arms]."""
        return self.counts.sum(1)

    @property
    def best(self) -> int:
        """The arm that earns most; the first of them."""
        return int(np.argmax(self.means))

    @property
    def all_equal(self) -> bool:
        """Whether no arm is better than another, so that a winner is always a false one."""
        return bool((self.means == self.means[0]).all())

    @property
    def loss(self) -> np.ndarray:
        """What the decisions earned less, in expectation, than the best arm for all of them would have."""
        return self.plays @ (self.means.max() - self.means)

    @property
    def gain(self) -> np.ndarray:
        """What the decisions earned more, in expectation, than an equal split of them would have."""
        return self.plays @ (self.means - self.means.mean())

    @property
    def wrong(self) -> np.ndarray:
        """Whether an arm was named that is not the best, or any where all are equal."""
        worse = self.means < self.means.max()
        return (self.winner >= 0) & (worse[self.winner] | self.all_equal)

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON can hold it; what does not exist is None."""
        named = self.winner >= 0
        decisions = self.plays.sum(1)
        share = self.plays / np.maximum(decisions, 1)[:, None]
        last = self.counts[:, -max(1, self.counts.shape[1] // 10) :].sum(1)
        arms = [
            {
                "arm": label,
                "assumed": self.words[k],
                "mean": float(self.means[k]),
                "decisions": Measured.of(self.plays[:, k]).to_dict(),
                "share": Measured.of(share[:, k]).to_dict(),
                "share_at_the_end": Measured.of(last[:, k] / np.maximum(last.sum(1), 1)).to_dict(),
                "named": Share.of_those(self.winner == k).to_dict(),
            }
            for k, label in enumerate(self.labels)
        ]
        return {
            "specification": self.specification,
            "assumed": self.assumed,
            "replications": self.replications,
            "units": self.units,
            "decisions": Measured.of(decisions).to_dict(),
            "arms": arms,
            "best": None if self.all_equal else self.labels[self.best],
            "loss_against_best": Measured.of(self.loss).to_dict(),
            "gain_over_equal_split": Measured.of(self.gain).to_dict(),
            "refreshes": Measured.of(self.refreshes).to_dict(),
            "refreshes_out_of_use": Measured.of(self.unused).to_dict(),
            "winner_named": Share.of_those(named).to_dict(),
            "wrong_winner": Share.of_those(self.wrong).to_dict(),
            "units_until_named": Measured.of(self.named_at[named]).to_dict(),
            "stopping": None if self.stops is None else self.stops.to_dict(),
            "guardrails": [one.to_dict() for one in self.guardrails],
            "false_alarm": false_alarms(self.guardrails, self.replications).to_dict() if self.guardrails else None,
        }

    def __str__(self) -> str:
        return "\n".join(_lines(self))

    def figure(self, path: str | os.PathLike[str]) -> pathlib.Path:
        """Write a figure as SVG: traffic, gain and winners over units.

        Args:
            path: of the file.

        Returns:
            The path.

        Raises:
            ConfigError: matplotlib is not installed, or the file cannot be written.
        """
        from .figure import draw

        return draw(self, path)


def _lines(found: Rehearsal) -> list[str]:
    """The table and the sentences below it."""
    decisions = found.plays.sum(1)
    named = found.winner >= 0
    share = found.plays / np.maximum(decisions, 1)[:, None]
    rows = [["arm", "assumed", "decisions", "share, %", "named winner"]]
    for k, label in enumerate(found.labels):
        mine = Measured.of(found.plays[:, k]), Measured.of(100 * share[:, k])
        rows.append([label, found.words[k], *map(str, mine), str(Share.of_those(found.winner == k))])
    out = [f"{found.replications} rehearsals of {found.specification}", *found.assumed, "", *_table(rows, 1), ""]
    facts: list[tuple[str, str]] = []
    without = found.units - decisions
    if without.any():
        why = [found.strict, found.pauses]
        reasons = [text for text, holds in zip(WITHOUT, why, strict=True) if holds]
        facts.append(("units without a decision", f"{Measured.of(without)}, {' or '.join(reasons)}"))
    if not found.all_equal:
        all_best = Measured.of(100 * found.loss / np.maximum(decisions * abs(found.means.max()), 1e-300))
        relative = f", {all_best} % of what it earns" if found.means.max() != 0 else ""
        facts.append((f"loss against {found.labels[found.best]} alone", f"{Measured.of(found.loss)}{relative}"))
        facts.append(("gain over an equal split", str(Measured.of(found.gain))))
    facts.append(("refreshes", str(Measured.of(found.refreshes))))
    if found.unused.any():
        facts.append(("of them kept out of use", str(Measured.of(found.unused))))
    facts.append(("a winner is named", f"{Share.of_those(named)} of the time{_when(found, named)}"))
    wrong = "a false one, as all arms are equal" if found.all_equal else "a wrong one"
    facts.append((wrong, f"{Share.of_those(found.wrong)} of the time"))
    if found.stops is not None:
        facts += [("", ""), *found.stops.facts(equal=found.all_equal)]
    width = max(len(name) for name, _ in facts)
    out += [f"{name.ljust(width)}  {text}".rstrip() for name, text in facts]
    if found.guardrails:
        out += ["", *_table([COLUMNS, *(one.cells() for one in found.guardrails)], 2)]
        wrong = false_alarms(found.guardrails, found.replications)
        out.append(f"a false alarm, of an arm that is not worse than is tolerated: {wrong} of the time")
    return out


def _table(rows: list[list[str]], left: int) -> list[str]:
    """Lines with aligned columns, of which the first so many are text."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    cells = lambda row: [cell.ljust(w) if i < left else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))]  # noqa: E731
    return ["  ".join(cells(row)).rstrip() for row in rows]


def _when(found: Rehearsal, named: np.ndarray) -> str:
    return f", then after {Measured.of(found.named_at[named])} units" if named.any() else ""
