"""Totals from a warehouse as rewards: rows with the same sufficient statistics, so that the posterior is the same.

A total stands for `count` decisions. Where a model's likelihood depends on its rewards through sums alone, any rows with
those sums give the same posterior; these rows are then ordinary rewards to everything else. Which decision has which row is left to
chance: propensities and ages differ between decisions, and estimates that weigh rows by them are then right in expectation.
"""

from __future__ import annotations

import math

import numpy as np

from ..errors import ConfigError, shown
from ..models import Bernoulli, Gamma, Gaussian, GaussianUnknownVariance, LogNormal, Model, Poisson, ZeroInflatedLogNormal
from .checks import LARGEST, outside

NEEDS: dict[type, tuple[str, ...]] = {
    Bernoulli: ("total",),
    Poisson: ("total",),
    Gamma: ("total",),
    Gaussian: ("total", "total_of_squares"),
    GaussianUnknownVariance: ("total", "total_of_squares"),
    LogNormal: ("total_of_logs", "total_of_squared_logs"),
    ZeroInflatedLogNormal: ("positive", "total_of_logs", "total_of_squared_logs"),
}
"""What a total must say besides its count."""


def rows(model: Model, count: int, totals: dict[str, float | None]) -> list[float]:
    """`count` rewards with the given totals."""
    needs = NEEDS.get(type(model))
    if needs is None:
        raise ConfigError(
            f"Totals do not determine the posterior of {type(model).__name__}; tell its rewards one by one with their decision ids."
        )
    given = {name for name, value in totals.items() if value is not None}
    if given != set(needs):
        raise ConfigError(
            f"A total for {type(model).__name__} needs {' and '.join(needs)}; got {', '.join(sorted(given)) or 'none'}."
        )
    for name in needs:
        value = totals[name]
        if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) <= LARGEST**2:
            raise ConfigError(f"{name} must be a number between {-(LARGEST**2):g} and {LARGEST**2:g}; got {shown(value)}.")
    try:
        found = _rows(model, count, {name: float(totals[name] or 0.0) for name in needs})
    except OverflowError:
        raise ConfigError(f"No rewards have these totals: {', '.join(f'{n} {totals[n]:g}' for n in needs)}.") from None
    for reward in set(found):
        sentence = outside(model, reward)
        if sentence:
            raise ConfigError(f"These totals are those of rewards such as {reward:g}, and {sentence}.")
    return found


def scattered(model: Model, found: list[float], rng: np.random.Generator) -> list[float]:
    """Rows with the same totals as chance spreads them over decisions: given the totals, every order is as likely.

    Conversions, counts and Gamma rewards have the law that rewards of the model have given their sum, so also its variance.
    All others are rows as they were found, in random order.

    Args:
        model: of the arm's rewards.
        found: of `rows`.
        rng: where chance comes from.

    Returns:
        As many rewards.
    """
    count, total = len(found), math.fsum(found)
    if isinstance(model, Poisson) and total < 2**63:  # what NumPy can draw
        return rng.multinomial(int(total), np.full(count, 1.0 / count)).astype(float).tolist()
    if isinstance(model, Gamma):
        parts = rng.dirichlet(np.full(count, np.ravel(model.shape)[0], float))
        drawn = np.maximum(total * parts, min(total / count, 1 / LARGEST))  # a part of a small shape may be rounded to zero
        if drawn.max() <= LARGEST:
            return drawn.tolist()
    return rng.permutation(found).tolist()


def _rows(model: Model, count: int, totals: dict[str, float]) -> list[float]:
    if isinstance(model, Bernoulli | Poisson):
        total = totals["total"]
        most = count if isinstance(model, Bernoulli) else math.inf
        if total != int(total) or not 0 <= total <= most:
            raise ConfigError(f"total must be a whole number from 0{'' if most == math.inf else f' to {count}'}; got {total:g}.")
        each, more = divmod(int(total), count)
        return [float(each + (i < more)) for i in range(count)]
    if isinstance(model, Gamma):
        if totals["total"] <= 0:
            raise ConfigError(f"total must be > 0; got {totals['total']:g}.")
        return [totals["total"] / count] * count
    if isinstance(model, Gaussian | GaussianUnknownVariance):
        return _spread(count, totals["total"], totals["total_of_squares"], "total_of_squares")
    positive = int(totals.get("positive", count))
    if not 0 <= positive <= count or totals.get("positive", count) != positive:
        raise ConfigError(f"positive must be a whole number from 0 to {count}; got {totals['positive']:g}.")
    if positive == 0:
        return [0.0] * count
    logs = _spread(positive, totals["total_of_logs"], totals["total_of_squared_logs"], "total_of_squared_logs")
    return [math.exp(x) for x in logs] + [0.0] * (count - positive)


def _spread(count: int, total: float, squares: float, name: str) -> list[float]:
    """Numbers with a given sum and sum of squares: pairs on both sides of the mean, and the mean where one is left."""
    mean = total / count
    rest = squares - count * mean * mean
    if rest < -1e-9 * max(squares, 1e-300) or (count == 1 and rest > 1e-9 * max(squares, 1e-300)):
        raise ConfigError(f"{name} is {squares:g}, which {count} numbers with the total {total:g} cannot have.")
    pairs = count // 2
    away = math.sqrt(max(rest, 0.0) / (2 * pairs)) if pairs else 0.0
    return [mean + away] * pairs + [mean - away] * pairs + [mean] * (count - 2 * pairs)
