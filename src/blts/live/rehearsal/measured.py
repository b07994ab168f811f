"""Numbers with their Monte Carlo standard errors, and nothing more precise than these allow."""

from __future__ import annotations

import math
from typing import NamedTuple

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

    def to_dict(self) -> dict[str, float | None]:
        """As JSON can hold it."""
        return _json(self)

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

    @staticmethod
    def of_those(which: np.ndarray) -> Share:
        """The share of replications for which something holds."""
        return Share(int(which.sum()), len(which))

    @property
    def value(self) -> float:
        return self.some / self.of

    @property
    def se(self) -> float:
        """The standard error; of none or all, of which it would be 0, that of half a replication."""
        p = min(max(self.value, 0.5 / self.of), 1 - 0.5 / self.of)
        return math.sqrt(p * (1 - p) / self.of)

    def to_dict(self) -> dict[str, float | None]:
        """As JSON can hold it."""
        return _json(self)

    def __str__(self) -> str:
        """In per cent. Of none or all, the 95 % bound: 3/n."""
        bound = 100 * min(1.0, 3 / self.of)
        if self.some == 0:
            return f"below {bound:.2g} %"
        if self.some == self.of:
            return f"above {100 - bound:.3g} %"
        return f"{Measured(100 * self.value, 100 * self.se)} %"


def _json(figure: Measured | Share) -> dict[str, float | None]:
    number = lambda x: float(x) if math.isfinite(x) else None  # noqa: E731
    return {"value": number(figure.value), "se": number(figure.se)}
