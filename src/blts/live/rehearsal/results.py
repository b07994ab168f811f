"""What a rehearsal found: numbers with their Monte Carlo standard errors, and nothing more precise than these allow."""

from __future__ import annotations

import math
import os
import pathlib
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np


class Measured(NamedTuple):
    """A mean over replications and its Monte Carlo standard error."""

    value: float
    se: float

    @staticmethod
    def of(values: np.ndarray) -> Measured:
        """Of one number a replication; NaN where there are none, and no standard error of a single one."""
        n = len(values)
        value = float(np.mean(values)) if n else math.nan
        return Measured(value, float(np.std(values, ddof=1) / math.sqrt(n)) if n > 1 else math.nan)

    def __str__(self) -> str:
        """Rounded to the first digit of the standard error, or to its second where the first is a 1."""
        if math.isnan(self.value):
            return "–"
        if not self.se > 0:
            return f"{self.value:,.4g}" if abs(self.value) < 1e4 else f"{self.value:,.0f}"
        digits = -math.floor(math.log10(self.se))
        if round(self.se * 10.0**digits) <= 1:
            digits += 1
        shown = max(digits, 0)
        return f"{round(self.value, digits) + 0.0:,.{shown}f} ± {round(self.se, digits):,.{shown}f}"


class Share(NamedTuple):
    """How many of the replications."""

    some: int
    of: int

    @property
    def value(self) -> float:
        return self.some / self.of

    @property
    def se(self) -> float:
        """The standard error; of none or all, of which it would be 0, that of half a replication."""
        p = min(max(self.value, 0.5 / self.of), 1 - 0.5 / self.of)
        return math.sqrt(p * (1 - p) / self.of)

    def __str__(self) -> str:
        """In per cent. Of none or all, the 95 % bound: 3/n."""
        bound = 100 * min(1.0, 3 / self.of)
        if self.some == 0:
            return f"below {bound:.2g} %"
        if self.some == self.of:
            return f"above {100 - bound:.3g} %"
        return f"{Measured(100 * self.value, 100 * self.se)} %"


@dataclass(frozen=True)
class Rehearsal:
    """The outcomes of all replications of a rehearsal. `print` shows the table, `figure` draws, `to_dict` is for JSON.

    Arrays have one row for each replication.
    """

    specification: str
    assumed: list[str]
    """What was assumed beside the arms, in sentences."""
    labels: list[str]
    means: np.ndarray
    """What each arm is assumed to earn a unit."""
    words: list[str]
    units: int
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

    def share(self, which: np.ndarray) -> Share:
        """The share of replications for which something holds."""
        return Share(int(which.sum()), len(which))

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
                "decisions": _json(Measured.of(self.plays[:, k])),
                "share": _json(Measured.of(share[:, k])),
                "share_at_the_end": _json(Measured.of(last[:, k] / np.maximum(last.sum(1), 1))),
                "named": _json(self.share(self.winner == k)),
            }
            for k, label in enumerate(self.labels)
        ]
        return {
            "specification": self.specification,
            "assumed": self.assumed,
            "replications": self.replications,
            "units": self.units,
            "decisions": _json(Measured.of(decisions)),
            "arms": arms,
            "best": None if self.all_equal else self.labels[self.best],
            "loss_against_best": _json(Measured.of(self.loss)),
            "gain_over_equal_split": _json(Measured.of(self.gain)),
            "refreshes": _json(Measured.of(self.refreshes)),
            "refreshes_out_of_use": _json(Measured.of(self.unused)),
            "winner_named": _json(self.share(named)),
            "wrong_winner": _json(self.share(self.wrong)),
            "units_until_named": _json(Measured.of(self.named_at[named])),
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


def _json(figure: Measured | Share) -> dict[str, float | None]:
    number = lambda x: float(x) if math.isfinite(x) else None  # noqa: E731
    return {"value": number(figure.value), "se": number(figure.se)}


def _lines(found: Rehearsal) -> list[str]:
    """The table and the sentences below it."""
    decisions = found.plays.sum(1)
    named = found.winner >= 0
    share = found.plays / np.maximum(decisions, 1)[:, None]
    rows = [["arm", "assumed", "decisions", "share, %", "named winner"]]
    for k, label in enumerate(found.labels):
        mine = Measured.of(found.plays[:, k]), Measured.of(100 * share[:, k])
        rows.append([label, found.words[k], *map(str, mine), str(found.share(found.winner == k))])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    out = [f"{found.replications} rehearsals of {found.specification}", *found.assumed, ""]
    for row in rows:
        cells = [cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))]
        out.append("  ".join(cells).rstrip())
    out.append("")
    facts: list[tuple[str, str]] = []
    without = found.units - decisions
    if without.any():
        facts.append(("units without a decision", f"{Measured.of(without)}, while a closed batch awaited its rewards"))
    if not found.all_equal:
        all_best = Measured.of(100 * found.loss / np.maximum(decisions * abs(found.means.max()), 1e-300))
        relative = f", {all_best} % of what it earns" if found.means.max() != 0 else ""
        facts.append((f"loss against {found.labels[found.best]} alone", f"{Measured.of(found.loss)}{relative}"))
        facts.append(("gain over an equal split", str(Measured.of(found.gain))))
    facts.append(("refreshes", str(Measured.of(found.refreshes))))
    if found.unused.any():
        facts.append(("of them kept out of use", str(Measured.of(found.unused))))
    facts.append(("a winner is named", f"{found.share(named)} of the time{_when(found, named)}"))
    wrong = "a false one, as all arms are equal" if found.all_equal else "a wrong one"
    facts.append((wrong, f"{found.share(found.wrong)} of the time"))
    width = max(len(name) for name, _ in facts)
    return [*out, *(f"{name.ljust(width)}  {text}" for name, text in facts)]


def _when(found: Rehearsal, named: np.ndarray) -> str:
    return f", then after {Measured.of(found.named_at[named])} units" if named.any() else ""
