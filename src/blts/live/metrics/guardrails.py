"""Is an arm worse than the control on a metric, by more than is tolerated? Pure functions on arrays, without a database.

Somebody looks after every refresh, so a rule with a fixed level would raise a false alarm sooner or later. The evidence below is an
e-value: where the arm is not worse, the chance that it ever reaches 1/α is at most α, however often one looks and however the
allocation adapts.

Shapes: T decisions, K arms; `p[t, a]` is the probability that decision t had of arm a.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy import special

from ..conclusions.blocks import Propensities, blocks

DRAWS = 20_000
TIGHTEST = 50.0
"""The mixture's variance, in effective pairs of units (`Terms.weight`): evidence is least conservative from about 100 to 10,000 of
them, a few hundred to tens of thousands of units."""


class Question(NamedTuple):
    """What "worse" means: the loss of an arm b against the control a is positive where b is worse than is tolerated."""

    sign: float
    """1 where higher is better, -1 where lower is."""
    scale: float = 1.0
    """The tolerated share of the control's mean: 0.95 where an arm may be 5 % lower."""
    margin: float = 0.0
    """The tolerated difference."""

    def loss(self, mine: np.ndarray, control: np.ndarray) -> np.ndarray:
        """The loss, from two means.

        Args:
            mine: the arm's mean.
            control: the control's.

        Returns:
            sign (scale μ_a - μ_b) - margin.
        """
        return self.sign * (self.scale * control - mine) - self.margin


class Terms(NamedTuple):
    """One term for every decision: its expectation, given what came before, is `weight` times the loss."""

    term: np.ndarray
    weight: np.ndarray
    """p_a p_b / (p_a + p_b): how much a decision can say of both arms. A quarter where both have probability 1/2."""
    value: np.ndarray
    """What came of a decision for one of the two arms; 0 for others."""
    unit: np.ndarray
    """1 for a decision for one of the two arms, 0 for others."""

    def sums(self) -> Sums:
        """The sums after each decision."""
        return Sums(*(np.cumsum(each, -1) for each in self._summed()))

    def added_to(self, before: Sums | None) -> Sums:
        """The sums after all decisions, the same to the last bit; `before` are those of earlier ones."""
        start = np.zeros(len(Sums._fields)) if before is None else before
        return Sums(*(np.append(first, _running(each, first))[-1] for each, first in zip(self._summed(), start, strict=True)))

    def _summed(self) -> Iterator[np.ndarray]:
        t, h, x, n = self
        pairs = ((t, None), (h, None), (t, t), (t, h), (h, h), (x, None), (x, x), (n, None))
        return (a if b is None else a * b for a, b in pairs)


class Sums(NamedTuple):
    """Sums over decisions, from which estimates and evidence are computed."""

    term: np.ndarray
    weight: np.ndarray
    term_term: np.ndarray
    term_weight: np.ndarray
    weight_weight: np.ndarray
    value: np.ndarray
    value_value: np.ndarray
    units: np.ndarray

    def at(self, index: int) -> Sums:
        """The sums up to a decision, counted from 0; -1 for all of them."""
        return Sums(*(x[..., index] for x in self))

    @property
    def loss(self) -> np.ndarray:
        """The estimated loss; NaN where no decision could play both arms."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return self.term / self.weight

    @property
    def variance(self) -> np.ndarray:
        """Of the sum of the terms: their squared distances from what they are expected to be, and not less than if both arms had
        the variance of all their values. An arm that is played rarely may have seen none of its large values."""
        own = self.term_term - 2 * self.loss * self.term_weight + self.loss**2 * self.weight_weight
        with np.errstate(invalid="ignore", divide="ignore"):
            pooled = self.value_value / self.units - (self.value / self.units) ** 2
        return np.maximum(own, pooled * self.weight)

    @property
    def se(self) -> np.ndarray:
        """The standard error of the estimated loss."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.sqrt(self.variance) / self.weight

    def log_evidence(self) -> np.ndarray:
        """The logarithm of the e-value against "the arm is not worse than is tolerated".

        The sum of the terms, in units of their standard deviation, is compared with a martingale by mixing
        exp(λ S - λ² V / 2) over λ > 0 with half a normal density (Robbins 1970). That the standard deviation is estimated makes it
        an asymptotic statement; `tests/live/test_guardrails.py` has how often it is wrong.
        """
        with np.errstate(invalid="ignore", divide="ignore"):
            s = self.term / np.sqrt(self.variance / self.weight)
            v = self.weight + TIGHTEST
            log = np.log(2.0) + 0.5 * np.log(TIGHTEST / v) + 0.5 * s * s / v + special.log_ndtr(s / np.sqrt(v))
        return np.where(np.isfinite(log), log, -np.inf)


class Earlier(NamedTuple):
    """What came before some decisions: how many of them were one of the two arms, the arm and the control, and their sums."""

    either: tuple[float, float] = (0, 0.0)
    mine: tuple[float, float] = (0, 0.0)
    control: tuple[float, float] = (0, 0.0)


def total(arms: np.ndarray, values: np.ndarray, p: Propensities, pair: tuple[int, int], question: Question) -> Sums:
    """The sums of `terms` over all decisions, some at a time; the arguments are those of `terms`."""
    found, earlier = None, Earlier()
    for some in blocks(len(arms)):
        new, earlier = _terms(arms[some], values[some], p[some], pair, question, earlier)
        found = new.added_to(found)
    assert found is not None
    return found


def terms(arms: np.ndarray, values: np.ndarray, p: np.ndarray, pair: tuple[int, int], question: Question) -> Terms:
    """The difference of two arms' augmented IPW scores, weighted by how much a decision can say of both.

    With the weight p_a p_b / (p_a + p_b) the scores are bounded where values are: no small propensity makes a single value count
    for thousands. The mean of an arm's earlier values is subtracted from each; it depends on what came before alone, so every term
    is unbiased whatever it is.

    Args:
        arms: the arm of each decision.
        values: what came of it.
        p: propensities.
        pair: the arm, and the control.
        question: what worse means.

    Returns:
        The terms, in the order of the decisions.
    """
    return _terms(arms, values, p, pair, question, Earlier())[0]


def _terms(
    arms: np.ndarray, values: np.ndarray, p: np.ndarray, pair: tuple[int, int], question: Question, earlier: Earlier
) -> tuple[Terms, Earlier]:
    b, a = pair
    is_a, is_b = arms == a, arms == b
    both = p[:, a] + p[:, b]
    share = np.divide(p[:, b], both, out=np.zeros_like(both), where=both > 0)  # of b: the weight of the control's values
    either = is_a | is_b
    # Decisions before the first value are left out: nothing predicts theirs, which would drown those of a metric far from zero.
    weight = np.where(_running(either, earlier.either[0]) > either, p[:, a] * share, 0.0)
    any_mean, of_either = _mean_before(either, values, np.zeros(len(values)), earlier.either)
    m_a, of_a = _mean_before(is_a, values, any_mean, earlier.control)
    m_b, of_b = _mean_before(is_b, values, any_mean, earlier.mine)
    control = weight * m_a + is_a * (values - m_a) * share
    mine = weight * m_b + is_b * (values - m_b) * (1 - share)
    term = np.where(weight > 0, question.sign * (question.scale * control - mine) - weight * question.margin, 0.0)
    unit = either.astype(float)
    return Terms(term, weight, values * unit, unit), Earlier(of_either, of_b, of_a)


def _running(terms: np.ndarray, start: float | np.ndarray) -> np.ndarray:
    """The sum after each term, going on from `start`."""
    return np.cumsum(np.append(start, terms))[1:]


def _mean_before(
    which: np.ndarray, values: np.ndarray, otherwise: np.ndarray, earlier: tuple[float, float]
) -> tuple[np.ndarray, tuple[float, float]]:
    """The mean of some decisions' values before each one, `otherwise` where there are none; and their number and sum after all."""
    own = np.where(which, values, 0.0)
    counts, sums = _running(which, earlier[0]), _running(own, earlier[1])
    count = counts - which
    after = (float(counts[-1]), float(sums[-1])) if len(own) else earlier
    return np.divide(sums - own, count, out=otherwise.astype(float), where=count > 0), after


def probability_worse(support: str, prior: tuple[float, float], mine: np.ndarray, control: np.ndarray, q: Question) -> float:
    """The posterior probability that an arm is worse than is tolerated.

    Conversions have a Beta and counts a Gamma posterior; elsewhere the mean has a Student distribution around the naive mean.

    Args:
        support: of the metric's model.
        prior: a and b of the Beta or the Gamma prior.
        mine: the arm's values.
        control: the control's.
        q: what worse means.

    Returns:
        The probability, from `DRAWS` draws with a fixed seed; NaN where an arm has fewer than two values, or only equal ones that
        say nothing of their spread.
    """
    if min(len(mine), len(control)) < 2:
        return float("nan")
    rng = np.random.default_rng(0)
    loss = q.loss(_means(rng, support, prior, mine), _means(rng, support, prior, control))
    return float("nan") if np.isnan(loss).any() else float((loss > 0).mean())


def _means(rng: np.random.Generator, support: str, prior: tuple[float, float], values: np.ndarray) -> np.ndarray:
    n, total = len(values), values.sum()
    if support == "binary":
        return rng.beta(prior[0] + total, prior[1] + n - total, DRAWS)
    if support == "count":
        return rng.gamma(prior[0] + total, 1 / (prior[1] + n), DRAWS)
    if np.ptp(values) == 0:
        return np.full(DRAWS, np.nan)
    return values.mean() + values.std(ddof=1) / np.sqrt(n) * rng.standard_t(n - 1, DRAWS)
