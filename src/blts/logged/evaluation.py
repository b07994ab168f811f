"""The value of a policy from a log of another one: weighting, models, and both.

With π(a|x) the policy, p the propensity of the logged action, w = π(A|X)/p, and q(x, a) a model of the reward that has not seen
the row:

    IPW      mean of w r                                       unbiased
    SNIPW    Σ w r / Σ w                                       a ratio: small bias, less variance
    direct   mean of Σ_a π(a|x) q(x, a)                        as good as the model; its interval leaves out the model's error
    DR       mean of Σ_a π(a|x) q(x, a) + w (r - q(x, A))      unbiased, and the better q, the smaller the variance (AIPW)
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from ..errors import ConfigError, shown
from ..statistics import noise_of_squares
from .learned import learned_from
from .log import Log
from .policies import probabilities
from .reward_models import RewardModel, cross_fitted, ridge

DF = 3.0  # degrees of freedom that an interval needs
DOMINANT = 0.05  # a row with more of all weight than this is mentioned
FEW = 0.1  # an effective size below this share of the rows is mentioned
UNBALANCED = 4.0  # standard errors by which the mean weight may miss 1
METHODS = {"ipw": "IPW", "snipw": "self-normalised IPW", "direct": "direct method", "dr": "doubly robust"}


class Value(NamedTuple):
    """An estimated mean reward with its standard error and interval.

    >>> from blts.logged import Value
    >>> print(Value(value=0.8, se=0.04, low=0.72, high=0.88))
    0.8000 [0.7200, 0.8800]
    """

    value: float
    se: float
    low: float
    """The limits of the interval; NaN where it is refused."""
    high: float
    why: str = ""
    """Why there is no interval; empty where there is one."""

    def __str__(self) -> str:
        return (
            f"{self.value:.4f} [{self.low:.4f}, {self.high:.4f}]" if not self.why else f"{self.value:.4f} (no interval: {self.why})"
        )


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """The value of a policy, or the difference of two, by four estimators.

    Attributes:
        ipw: inverse propensity weighting.
        snipw: the same, self-normalised.
        direct: the model of rewards alone; its interval leaves out the model's error.
        dr: doubly robust: the model, corrected by weighting (AIPW).
        rows: of the log.
        effective_size: how many rows of equal weight would say as much: (Σw)²/Σw².
        largest_weight: the largest w.
        warnings: sentences, where the log says little of this policy.

    >>> from blts import logged
    >>> log = logged.read_log({"action": [0, 1] * 50, "reward": [0, 1, 1, 1] * 25}, propensity=0.5)
    >>> found = logged.evaluate(log, [0.0, 1.0])
    >>> found.rows, found.effective_size, round(found.ipw.value, 2)
    (100, 50.0, 1.0)
    """

    ipw: Value
    snipw: Value
    direct: Value
    dr: Value
    rows: int
    effective_size: float
    largest_weight: float
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"{words:20s} {getattr(self, name)}" for name, words in METHODS.items()]
        lines.append(f"{self.rows} rows, effective size {self.effective_size:.0f}, largest weight {self.largest_weight:.3g}")
        lines.append("The interval of the direct method leaves out the error of its model.")
        return "\n".join([*lines, *(f"WARNING: {warning}" for warning in self.warnings)])


def evaluate(log: Log, policy: Any, *, model: RewardModel = ridge, folds: int = 5, level: float = 0.95) -> Evaluation:
    """What a policy would have earned a row.

    Rows are taken as independent. Whether propensities are right cannot be seen from a log; whether weights average 1 can, and is
    checked.

    Args:
        log: what another policy did.
        policy: an action that is always played (its label or number), probabilities `[rows, actions]` or `[actions]`, or a function
            from contexts to such; of an agent, `policy_of(agent, state)`.
        model: of rewards, for the direct and the doubly robust estimates: `fit(contexts, actions, rewards, K)` returns a function
            from contexts to predictions `[rows, K]`. By default a ridge regression for each action.
        folds: a row is predicted by a model that was fitted to the other folds.
        level: of the intervals.

    Returns:
        The estimates.

    Raises:
        ConfigError: it is no policy for this log, or the model failed.

    >>> import numpy as np
    >>> from blts import logged
    >>> rng = np.random.default_rng(0)
    >>> action = rng.integers(0, 2, 1000)
    >>> log = logged.read_log({"action": action, "reward": action + rng.normal(size=1000)}, propensity=0.5)
    >>> found = logged.evaluate(log, [0.2, 0.8])  # its value is 0.8
    >>> print(found.dr)
    0.8223 [0.7525, 0.8921]
    """
    pi, q = probabilities(log, policy), cross_fitted(log, model, folds)
    found = _evaluation(log, pi, q, level)
    return dataclasses.replace(found, warnings=(*learned_from(log, policy), *found.warnings))


def constant_values(log: Log, *, model: RewardModel = ridge, folds: int = 5, level: float = 0.95) -> dict[str, Evaluation]:
    """What each action would have earned a row, always played.

    Args:
        log: what a policy did.
        model, folds, level: as of `evaluate`.

    Returns:
        An evaluation for each label.

    >>> from blts import logged
    >>> log = logged.read_log({"action": ["a", "b"] * 50, "reward": [0, 1, 1, 1] * 25}, propensity=0.5)
    >>> {label: round(found.dr.value, 2) for label, found in logged.constant_values(log).items()}
    {'a': 0.5, 'b': 1.0}
    """
    q = cross_fitted(log, model, folds)
    return {label: _evaluation(log, probabilities(log, a), q, level) for a, label in enumerate(log.labels)}


def logged_value(log: Log, *, level: float = 0.95) -> Value:
    """What the policy that wrote the log earned a row: the mean of its rewards.

    Args:
        log: what it did.
        level: of the interval.

    Returns:
        The mean.

    >>> from blts import logged
    >>> log = logged.read_log({"action": [0, 1] * 50, "reward": [0, 1, 1, 1] * 25}, propensity=0.5)
    >>> print(logged.logged_value(log))
    0.7500 [0.6636, 0.8364]
    """
    return mean_value(log.rewards, level)


def compare(log: Log, policy: Any, other: Any, *, model: RewardModel = ridge, folds: int = 5, level: float = 0.95) -> Evaluation:
    """How much more one policy would have earned a row than another, from the same rows.

    The two share rewards and weights, so the interval of the difference is narrower than those of its parts suggest.

    Args:
        log: what a third policy, or one of the two, did.
        policy, other: as of `evaluate`.
        model, folds, level: as of `evaluate`.

    Returns:
        The differences. The effective size and the largest weight are those of the policy for which the log says less.

    >>> from blts import logged
    >>> log = logged.read_log({"action": [0, 1] * 50, "reward": [0, 1, 1, 1] * 25}, propensity=0.5)
    >>> print(logged.compare(log, [0.0, 1.0], [1.0, 0.0]).dr)
    0.4994 [0.3575, 0.6413]
    """
    q = cross_fitted(log, model, folds)
    both = [probabilities(log, one) for one in (policy, other)]
    seen = [warning for one in (policy, other) for warning in learned_from(log, one)]
    found = [_evaluation(log, pi, q, level) for pi in both]
    first, second = (_terms(log, pi, q) for pi in both)
    values = {name: mean_value(first[name] - second[name], level) for name in METHODS}
    return Evaluation(
        **values,
        rows=len(log),
        effective_size=min(one.effective_size for one in found),
        largest_weight=max(one.largest_weight for one in found),
        warnings=tuple(dict.fromkeys([*seen, *(warning for one in found for warning in one.warnings)])),
    )


def _weights(log: Log, pi: np.ndarray) -> np.ndarray:
    return pi[np.arange(len(log)), log.actions] / log.propensities


def _terms(log: Log, pi: np.ndarray, q: np.ndarray) -> dict[str, np.ndarray]:
    """What each row adds to the estimates, whose values are the means of these."""
    w, r, own = _weights(log, pi), log.rewards, q[np.arange(len(log)), log.actions]
    direct = (pi * q).sum(1)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = (w * r).sum() / w.sum()
        return {"ipw": w * r, "snipw": ratio + w * (r - ratio) / w.mean(), "direct": direct, "dr": direct + w * (r - own)}


def _evaluation(log: Log, pi: np.ndarray, q: np.ndarray, level: float) -> Evaluation:
    w, terms = _weights(log, pi), _terms(log, pi, q)
    total = w.sum()
    size = float(total**2 / np.square(w).sum()) if total > 0 else 0.0
    values = {name: mean_value(terms[name], level) for name in METHODS}
    return Evaluation(
        **values, rows=len(log), effective_size=size, largest_weight=float(w.max()), warnings=_warnings(log, pi, w, size)
    )


def mean_value(terms: np.ndarray, level: float) -> Value:
    """A mean with Student's interval, with as many degrees of freedom as normal terms would need to know their spread as well.

    Args:
        terms: one number a row.
        level: of the interval.

    Returns:
        The mean; without an interval where the terms are too few or too unequal.

    Raises:
        ConfigError: the level is no probability.
    """
    if not (isinstance(level, int | float) and 0 < level < 1):
        raise ConfigError(f"level must be between 0 and 1; got {shown(level)}.")
    n, mean = len(terms), float(terms.mean())
    if n < 2 or not np.isfinite(mean):
        return Value(mean, np.nan, np.nan, np.nan, "its rows have no weight" if n >= 2 else "there are fewer than two rows")
    squares = np.square(terms - mean)
    if not squares.sum() > 1e-24 * np.square(terms).sum():
        return Value(mean, np.nan, np.nan, np.nan, "the terms are all equal, and say nothing of their spread")
    se = float(np.sqrt(squares.sum() / (n - 1) / n))
    noise = float(noise_of_squares(squares.sum(), np.square(squares).sum(), n))
    df = min(2.0 / max(noise, 1e-6) ** 2, n - 1.0)
    if df < DF:
        return Value(mean, se, np.nan, np.nan, f"its weighted rewards say as much of their spread as {df:.1f} equal ones would")
    half = float(special.stdtrit(df, 0.5 + 0.5 * level)) * se
    return Value(mean, se, mean - half, mean + half)


def _constants(log: Log) -> list[str]:
    """One constant column is an intercept; a second one, or zeros, are a mistake."""
    same = (log.contexts == log.contexts[0]).all(0)
    useless = np.flatnonzero(same & (log.contexts[0] == 0) if same.sum() < 2 else same)
    if len(log) < 2 or not len(useless):
        return []
    named = ", ".join(log.features[i] if log.features else str(i) for i in useless)
    return [f"The context never varies in {named}, which say nothing of rewards; leave them out."]


def _warnings(log: Log, pi: np.ndarray, w: np.ndarray, size: float) -> tuple[str, ...]:
    n, found = len(log), _constants(log)
    missing = [
        (label, share) for label, share, plays in zip(log.labels, pi.mean(0), log.plays, strict=True) if share > 0 and not plays
    ]
    for label, share in missing:
        found.append(f"The log never plays {label}, which the policy plays in {share:.1%} of rows; weighting says nothing of it.")
    certain = (log.propensities == 1) & (pi[np.arange(n), log.actions] < 1)
    if certain.any():
        found.append(
            f"In {certain.sum()} of {n} rows the logged action had probability 1, and the policy plays others; "
            "the log says nothing of these there."
        )
    if w.max() <= 0:
        return (*found, "The log has no row that the policy could have played.")
    if size < FEW * n:
        found.append(f"The weights are worth {size:.0f} rows of equal weight, of {n}; intervals are wide and may be too short.")
    if w.max() > DOMINANT * w.sum():
        found.append(f"One row has {w.max() / w.sum():.0%} of all weight; the estimates rest on few rows.")
    off = abs(w.mean() - 1) / max(float(w.std(ddof=1)) / np.sqrt(n), 1e-12) if n > 1 else 0.0
    if off > UNBALANCED and not missing and abs(w.mean() - 1) > 1e-6:
        found.append(
            f"The weights average {w.mean():.3f} and not 1; propensities are wrong, or actions could not have been played."
        )
    return tuple(found)
