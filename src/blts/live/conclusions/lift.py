"""How much better an arm is than the control, as a difference and in percent."""

from __future__ import annotations

from typing import Any

import numpy as np

from .posterior import PosteriorSummary, quantiles
from .words import number, rounded

LEAST_SHARE = 0.2
"""A percentage needs a control that is away from zero: the lower end of its interval is at least this share of its median."""


def lifts(found: PosteriorSummary, control: int) -> list[dict[str, Any]]:
    """The lift of every arm over the control.

    Args:
        found: the posterior of all arms.
        control: the place of the control among them.

    Returns:
        For each arm its "absolute" lift, μ_a - μ_control, and its "relative" one, 100 (μ_a / μ_control - 1): each a table with
        "value" (the posterior mean of the first, the posterior median of the second, whose mean need not exist), "low", "high"
        (95 %) and "error" (the largest standard error of the three), or None where it is undefined.
    """
    draws, base = found.draws, found.draws[:, [control]]
    mean, mean_error = found.shown.mean, found.error.mean
    with np.errstate(all="ignore"):
        difference, ratio = draws - base, 100 * (draws / base - 1)
    away = found.shown.low[control] >= LEAST_SHARE * found.shown.median[control] > 0
    relative = _tables(ratio[base[:, 0] > 0], found.effective) if away else [None] * draws.shape[1]
    absolute = _tables(difference, found.effective)
    for k, table in enumerate(absolute):
        if table is not None:
            error = np.hypot(mean_error[k], mean_error[control])
            table["value"] = number(rounded(mean[k] - mean[control], error))
    return [{"absolute": a, "relative": r} for a, r in zip(absolute, relative, strict=True)]


def _tables(draws: np.ndarray, effective: float) -> list[dict[str, Any] | None]:
    (low, median, high), errors = quantiles(draws, effective)
    found = []
    for k in range(draws.shape[1]):
        if not np.isfinite([low[k], high[k]]).all():
            found.append(None)
            continue
        at = lambda x, i, k=k: number(rounded(x[k], errors[i, k]))  # noqa: E731
        found.append({"value": at(median, 1), "low": at(low, 0), "high": at(high, 2), "error": number(errors[:, k].max())})
    return found
