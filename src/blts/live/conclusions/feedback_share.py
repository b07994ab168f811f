"""Whether decisions of all arms are equally often answered: averages over those with a reward are of all decisions only then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .blocks import Propensities, Sums, blocks
from .sample_ratio import ALARM, cells_of, chance
from .words import number

if TYPE_CHECKING:
    from ..export import DecisionTable
    from ..spec import Spec
    from .counted import Counted

TOGETHER = 200
"""Consecutive decisions that are compared with their own mean share: newer ones are less often answered, whatever their arm."""
FEWEST = 10.0
"""Expected decisions of a cell that count, and that do not; smaller cells are put together."""
SHOWN = 4  # arms whose shares are all in the sentence; of more the smallest and the largest
LEAST_P = 1e-6  # a smaller p-value is not shown


class ShareTest(NamedTuple):
    p_value: float
    """Not a number where there is nothing to compare."""
    alarm: bool


def share_test(arms: np.ndarray, p: np.ndarray | Propensities, counts: np.ndarray) -> ShareTest:
    """Do decisions of all arms count equally often? A quadratic form of Σ_t (c_t - m_t) (e_t - p_t).

    c_t is 1 where a decision counts, m_t the mean of those about it, e_t the indicator of its arm. If whether a decision counts
    has nothing to do with its arm, arms are draws from p_t whatever the c are. So the sum has mean 0 and the covariance
    Σ_t (c_t - m_t)² (diag p_t - p_t p_tᵀ), also where p_t changes with time or the context, and the c with it. Where p_t is the
    same for all, it is the score test of Cochran, Mantel and Haenszel, in blocks of consecutive decisions.

    Args:
        arms: of the decisions, in their order.
        p: their propensities.
        counts: which of them count.

    Returns:
        The p-value, and whether it is an alarm.
    """
    if not len(arms) or counts.all() or not counts.any():
        return ShareTest(float("nan"), False)
    K, block, c = p.shape[1], np.arange(len(arms)) // TOGETHER, counts.astype(float)
    w = c - (np.bincount(block, c) / np.bincount(block))[block]
    sums, products, observed = Sums(), np.zeros((K, K)), np.bincount(arms, w, K)
    for some in blocks(len(arms)):
        q, own = p[some], w[some, None]
        sums.add(counted=c[some, None] * q, left=(1 - c[some, None]) * q, gap=own * q, squares=own**2 * q)
        products += (own * q).T @ (own * q)
    cells = cells_of(np.minimum(sums.counted, sums.left), FEWEST)
    p_value = chance(cells @ (observed - sums.gap), cells @ (np.diag(sums.squares) - products) @ cells.T)
    return ShareTest(p_value, p_value < ALARM)


def feedback_share(spec: Spec, table: DecisionTable, known: Counted) -> dict[str, Any] | None:
    """Whether decisions of all active arms count equally often.

    Cancelled decisions are left out, and where silence has no reward those whose window is open. Totals do not say which decisions
    they are of, so rewards that came as totals are not compared.

    Args:
        spec: of the experiment.
        table: all decisions.
        known: what each has earned.

    Returns:
        "p_value", "alarm", the "shares" of decisions that count, and "words" where it is an alarm; None where nothing is compared.
    """
    active, settles = np.flatnonzero(table.active), spec.default_reward is not None and spec.window is not None
    if len(active) < 2 or (not settles and known.are("aggregate").any()):
        return None
    counts, which = ~np.isnan(known.rewards), np.isin(table.arms, active) & ~known.are("cancelled")
    if settles:
        counts |= known.waits  # they will
    else:
        which &= ~known.waits
    arms, counts = np.searchsorted(active, table.arms[which]), counts[which]
    found = share_test(arms, _among(table.propensities.of(which), active), counts)
    if np.isnan(found.p_value):
        return None
    asked, counted = (np.bincount(arms, weights, len(active)) for weights in (None, counts))
    shares = {table.labels[k]: float(n / all_) for k, n, all_ in zip(active, counted, asked, strict=True) if all_}
    words = _words(spec, shares, found.p_value, settles) if found.alarm else None
    return {"p_value": number(found.p_value), "alarm": found.alarm, "shares": shares, "words": words}


def alarming(share: dict[str, Any] | None) -> list[str]:
    """The sentence of an alarm, if there is one."""
    return [share["words"]] if share is not None and share["alarm"] else []


def _among(p: Propensities, active: np.ndarray) -> Propensities:
    """The propensities of active arms among themselves."""
    mine = p.vectors[:, active]
    return Propensities(mine / np.maximum(mine.sum(1, keepdims=True), np.finfo(float).tiny), p.which)


def _words(spec: Spec, shares: dict[str, float], p_value: float, settles: bool) -> str:
    order = list(shares) if len(shares) <= SHOWN else sorted(shares, key=shares.__getitem__)[:: len(shares) - 1]
    said = (", " if len(shares) <= SHOWN else " to ").join(f"{label} {100 * shares[label]:.3g} %" for label in order)
    p = f"p < {LEAST_P:.0e}".replace("e-0", "e-") if p_value < LEAST_P else f"p = {p_value:.2g}"
    what = "that were exposed" if settles else "with a reward"
    advice = "Find out why exposures are lost."
    if not settles:
        advice = "Give a window and a default reward if silence means 0; otherwise find out why answers are lost."
    return (
        f"The share of decisions {what} differs by arm ({said}; {p}): averages over those "
        f"{'that were exposed' if settles else 'that were answered'} need not be what an arm earns, and IPW is the most affected. "
        f"{advice}"
    )
