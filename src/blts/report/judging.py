"""What differences say of a claim. A difference that is not told apart from none is no evidence that there is none."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..statistics import Difference
from ..studies.spec import margin_of
from .outcome import Measured

UNTOLD = "not told apart"
"""Neither shown nor contradicted: "same" and "no higher" are shown by intervals that lie where the claim has them."""
SHOWN = ("borne out", "held in every run")
"""What verdicts that speak for a claim begin with."""


def holds(verdict: str) -> bool | None:
    """Whether results speak for a claim (True) or against it (False); None where they leave it open."""
    if verdict.startswith("contradicted"):
        return False
    return True if verdict.startswith(SHOWN) and "open in" not in verdict else None


def judged(
    expected: object, margin: object, found: Sequence[tuple[Measured, Measured, Difference]], metric: str, scale: float
) -> str:
    """The verdict on a claim about all of some differences, each as (condition, reference, difference)."""
    if expected is None:
        return ""
    marks = [_judged_one(str(expected), d, _width(margin, r, metric, scale)) for _, r, d in found]
    against, borne = marks.count(False), marks.count(True)
    if against:
        return f"contradicted in {against} of {len(marks)}"
    if not borne:
        return UNTOLD
    within = f" within ±{margin}" if margin and expected == "same" else f" within {margin}" if margin else ""
    return f"borne out{within}" if borne == len(marks) else f"borne out{within} in {borne} of {len(marks)}, open in the others"


def _width(margin: object, reference: Measured, metric: str, scale: float) -> float:
    """The largest difference that does not matter, in the metric's own unit; 0 where none is stated."""
    number, share = margin_of(margin)
    return number * abs(float(np.mean(reference.values(metric)))) if share else number / scale


def _judged_one(expected: str, d: Difference, width: float) -> bool | None:
    """Whether one interval lies where the claim has it (True), beyond it (False), or on both sides (None)."""
    if expected in ("lower", "no higher"):
        d, expected = d._replace(low=-d.high, high=-d.low), {"lower": "higher", "no higher": "no lower"}[expected]
    if expected == "higher":
        return True if d.low > 0 else False if d.high < 0 else None
    if expected == "no lower":
        return True if d.low >= -width else False if d.high < -width else None
    if d.low > width or d.high < -width:
        return False
    return True if -width <= d.low and d.high <= width else None
