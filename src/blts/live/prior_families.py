"""How each model is given a prior: from what was said of the arms' mean rewards, or from the rewards of all arms.

`population` is what the rewards say of arms as a group; this translates means and spreads into the numbers of each model.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy import special

from ..errors import ConfigError
from ..models import (
    Bernoulli,
    Gamma,
    Gaussian,
    GaussianUnknownVariance,
    Laplace,
    LogNormal,
    Poisson,
    StudentT,
    ZeroInflatedLogNormal,
)
from .population import LEAST, SHARE, Moments, population

LEVEL = 0.95  # probability of an interval that is said or shown
TAILS = 0.5 - 0.5 * LEVEL, 0.5 + 0.5 * LEVEL
Numbers: TypeAlias = "dict[str, float]"


class Said(NamedTuple):
    """What a text or a table says: a mean with an sd, or an interval of 95 %."""

    mean: float | tuple[float, float] | None = None
    sd: float | None = None
    rate: float | tuple[float, float] | None = None
    spread: float | None = None


def _mean_sd(said: Said) -> tuple[float, float]:
    """The mean and sd that were said."""
    if isinstance(said.mean, int | float) and said.sd is not None:
        if not said.sd > 0:
            raise ConfigError(f"The sd of a prior must be > 0; got {said.sd:g}.")
        return said.mean, said.sd
    raise ConfigError('This model needs a mean and an sd of the arms\' mean rewards: give prior="40 ± 15".')


def _ends(interval: tuple[float, float]) -> tuple[float, float]:
    if not interval[0] < interval[1]:
        raise ConfigError(f"An interval goes from the smaller to the larger number; got {interval[0]:g} to {interval[1]:g}.")
    return interval


# Models


class Family(NamedTuple):
    """How one kind of model is given a prior."""

    names: tuple[str, ...]
    """The model's numbers that are the prior's."""
    takes: tuple[str, ...]
    """What can be said of it: fields of `Said`."""
    said: Callable[[Any, Said], Numbers]
    fitted: Callable[[Any, np.ndarray, np.ndarray], Numbers]
    words: Callable[[Any], str]


def _rewards(n: float) -> str:
    return "1 reward" if f"{n:.3g}" == "1" else f"{n:.3g} rewards"


def _percent(x: float) -> str:
    return f"{100 * x:.3g}%"


# Rates: Beta(a, b)


def _rates_said(model: Bernoulli, said: Said) -> Numbers:
    a, b = _beta(said.mean if said.rate is None else said.rate, said.sd)
    return {"a": a, "b": b}


def _beta(rate: Any, sd: float | None) -> tuple[float, float]:
    """Beta(a, b) with an interval, or with a mean and an sd."""
    if isinstance(rate, tuple):
        low, high = _ends(rate)
        if not 0 < low < high < 1:
            percent = f'; for percentages write "{low:g}% to {high:g}%"' if 1 <= high <= 100 else ""
            raise ConfigError(f"Rates are between 0% and 100%; got {low:g} to {high:g}{percent}.")
        return _beta_of_interval(low, high)
    mean, sd = _mean_sd(Said(rate, sd))
    if not 0 < mean < 1:
        raise ConfigError(f"Rates are between 0% and 100%; got {mean:g}.")
    worth = mean * (1 - mean) / sd**2 - 1
    if not worth > 0:
        raise ConfigError(f"Rates around {_percent(mean)} cannot have an sd of {_percent(sd)}; give a smaller one.")
    return mean * worth, (1 - mean) * worth


def _beta_of_interval(low: float, high: float) -> tuple[float, float]:
    """For every a + b one mean has P(X ≤ low) = 2.5 %; the larger a + b, the larger is then P(X ≤ high)."""

    def shape(log_worth: float) -> tuple[float, float]:
        a = lambda logit: math.exp(log_worth) * float(special.expit(logit))  # noqa: E731
        logit = _root(lambda x: special.betainc(a(x), a(-x), low) - TAILS[0], -60, 60)
        return a(logit), a(-logit)

    return shape(_root(lambda x: special.betainc(*shape(x), high) - TAILS[1], *SHAPES))


SHAPES = math.log(1e-2), math.log(1e12)  # logarithms of shapes that are looked through


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    from scipy import optimize  # a tenth of a second, before the first decision of every process

    found: Any = optimize.brentq(function, low, high, xtol=1e-13)
    return float(found)


def _rates_fitted(model: Bernoulli, arms: np.ndarray, rewards: np.ndarray) -> Numbers:
    a, b = _beta_fitted(Moments.of(arms, rewards))
    return {"a": a, "b": b}


def _beta_fitted(data: Moments) -> tuple[float, float]:
    # One success and one failure more: of few rewards, a rate of 0 is no finding.
    N = data.total
    p = (data.grand * N + 1) / (N + 2)
    mean, variance = population(data, p * (1 - p), SHARE * min(p, 1 - p))
    mean = (mean * N + 1) / (N + 2)
    worth = max(mean * (1 - mean) / variance - 1, LEAST / min(mean, 1 - mean))
    return mean * worth, (1 - mean) * worth


def _rates_words(model: Bernoulli) -> str:
    return f"an arm's rate is {_beta_words(model.a, model.b)}, as after {_rewards(float(model.a) + float(model.b))}"


def _beta_words(a: Any, b: Any) -> str:
    low, high = (float(special.betaincinv(float(a), float(b), u)) for u in TAILS)
    return f"{_percent(low)} to {_percent(high)} (95%), mean {_percent(float(a) / (float(a) + float(b)))}"


# Counts: Gamma(a, rate b)


def _counts_said(model: Poisson, said: Said) -> Numbers:
    if isinstance(said.mean, tuple):
        low, high = _ends(said.mean)
        if not low > 0:
            raise ConfigError(f"Mean counts are above 0; got {low:g} to {high:g}.")
        ends = lambda a: [float(special.gammaincinv(a, u)) for u in TAILS]  # noqa: E731
        a = math.exp(_root(lambda x: high / low - ends(math.exp(x))[1] / max(ends(math.exp(x))[0], 1e-300), *SHAPES))
        return {"a": a, "b": float(special.gammaincinv(a, TAILS[1])) / high}
    mean, sd = _above_zero(said)
    return {"a": (mean / sd) ** 2, "b": mean / sd**2}


def _above_zero(said: Said) -> tuple[float, float]:
    mean, sd = _mean_sd(said)
    if not mean > 0:
        raise ConfigError(f"Mean rewards of this model are above 0; got {mean:g}.")
    return mean, sd


def _counts_fitted(model: Poisson, arms: np.ndarray, rewards: np.ndarray) -> Numbers:
    data = Moments.of(arms, rewards)
    within = data.grand + 1 / data.total  # one more event, as for rates
    mean, variance = population(data, within, SHARE * within)
    mean += 1 / data.total
    worth = max(mean / variance, LEAST / mean)
    return {"a": mean * worth, "b": worth}


def _counts_words(model: Poisson) -> str:
    low, high = (float(special.gammaincinv(float(model.a), u)) / float(model.b) for u in TAILS)
    mean = float(model.a) / float(model.b)
    return f"an arm's mean is {low:.3g} to {high:.3g} (95%), mean {mean:.3g}, as after {_rewards(float(model.b))}"


# A location with a known spread: N(prior_mean, prior_sd²)


def _known_said(model: Gaussian | Laplace | StudentT, said: Said) -> Numbers:
    if isinstance(said.mean, tuple):
        low, high = _ends(said.mean)
        return {"prior_mean": 0.5 * (low + high), "prior_sd": (high - low) / (2 * float(special.ndtri(TAILS[1])))}
    mean, sd = _mean_sd(said)
    return {"prior_mean": mean, "prior_sd": sd}


def _known_fitted(model: Gaussian | Laplace | StudentT, arms: np.ndarray, rewards: np.ndarray) -> Numbers:
    if isinstance(model, Gaussian):
        variance = np.mean(np.square(model.sd))
    else:  # with df ≤ 3 a Student-t has no variance to speak of
        tails = 2.0 if isinstance(model, Laplace) else np.mean(np.maximum(model.df, 3.0) / (np.maximum(model.df, 3.0) - 2))
        variance = tails * np.mean(np.square(model.scale))
    mean, between = population(Moments.of(arms, rewards), float(variance), SHARE * math.sqrt(float(variance)))
    return {"prior_mean": mean, "prior_sd": math.sqrt(between)}


def _known_words(model: Gaussian | Laplace | StudentT) -> str:
    return f"an arm's mean is {float(model.prior_mean):.4g} ± {float(model.prior_sd):.3g}"


# A location with a spread that is learned: normal-inverse-gamma


def _numbers_said(model: GaussianUnknownVariance, said: Said) -> Numbers:
    # The mean is a Student-t with 2a degrees of freedom, scale √(b / (a weight)) and variance b / ((a - 1) weight).
    a = 2.0 if said.spread is None else 5.0
    if isinstance(said.mean, tuple):
        low, high = _ends(said.mean)
        mean, half = 0.5 * (low + high), 0.5 * (high - low)
        sd = half / float(special.stdtrit(2 * a, TAILS[1])) * math.sqrt(a / (a - 1))
    else:
        mean, sd = _mean_sd(said)
    spread = sd if said.spread is None else said.spread
    if not spread > 0:
        raise ConfigError(f"The spread of rewards must be > 0; got {spread:g}.")
    return {"prior_mean": mean, "weight": a / (a - 1) * (spread / sd) ** 2, "a": a, "b": a * spread**2}


def _numbers_fitted(model: GaussianUnknownVariance, arms: np.ndarray, rewards: np.ndarray) -> Numbers:
    data = Moments.of(arms, rewards)
    within = data.within((0.5 * data.grand) ** 2 or 1.0)
    mean, variance = population(data, within, SHARE * math.sqrt(within))
    a = min(2.0, 0.5 + data.freedom / 20)  # of few rewards the spread is not known either
    return {"prior_mean": mean, "weight": within / variance, "a": a, "b": a * within}


def _numbers_words(model: GaussianUnknownVariance) -> str:
    mean, weight, a, b = (float(x) for x in (model.prior_mean, model.weight, model.a, model.b))
    half = float(special.stdtrit(2 * a, TAILS[1])) * math.sqrt(b / (a * weight))
    ends = f"{mean - half:.4g} to {mean + half:.4g} (95%)"
    return f"an arm's mean is {ends}, as after {_rewards(weight)}; single rewards have an sd of about {math.sqrt(b / a):.3g}"


# Amounts with a known shape: λ ~ Gamma(a, rate b), and the mean is shape/λ


def _gamma_said(model: Gamma, said: Said) -> Numbers:
    mean, sd = _above_zero(said)
    a = 2 + (mean / sd) ** 2
    return {"a": a, "b": mean * (a - 1) / float(np.mean(model.shape))}


def _gamma_fitted(model: Gamma, arms: np.ndarray, rewards: np.ndarray) -> Numbers:
    data, shape = Moments.of(arms, rewards), float(np.mean(model.shape))
    mean, variance = population(data, data.grand**2 / shape, SHARE * data.grand)
    a = 2 + mean**2 / variance
    return {"a": a, "b": mean * (a - 1) / shape}


def _gamma_words(model: Gamma) -> str:
    low, high = (
        float(np.mean(model.shape)) * float(model.b) / float(special.gammaincinv(float(model.a), u)) for u in reversed(TAILS)
    )
    return f"an arm's mean is {low:.3g} to {high:.3g} (95%)"


# Amounts whose logarithm is Gaussian, and revenue, which is often zero

SPREAD = 1.0  # sd of the logarithms of single amounts, where a prior is said and the rewards have not shown theirs


def _amounts_said(mean: float, variance: float) -> Numbers:
    """Amounts with this mean, where the logarithm of an arm's mean has this variance: a quarter is that of σ²/2, the rest of μ."""
    a = max(10.0, 2 + SPREAD**4 / variance)
    of_mean = variance - SPREAD**4 / (4 * (a - 2))
    location = math.log(mean) - 0.5 * SPREAD**2 - 0.5 * variance
    return {"prior_mean": location, "weight": SPREAD**2 / of_mean, "a": a, "b": (a - 1) * SPREAD**2}


def _log_normal_said(model: LogNormal, said: Said) -> Numbers:
    mean, sd = _above_zero(said)
    return _amounts_said(mean, math.log1p((sd / mean) ** 2))


def _amounts_fitted(arms: np.ndarray, logs: np.ndarray) -> Numbers:
    if not len(logs):
        return {}
    data = Moments.of(arms, logs)
    within = data.within(1.0)
    mean, variance = population(data, within, SHARE)  # an sd of logarithms is a share of the mean
    a = float(np.clip(0.5 * (data.freedom + 1), 3.0, 10.0))  # below 3, draws of exp(σ²/2) are wild
    return {"prior_mean": mean, "weight": within / variance, "a": a, "b": a * within}


def _log_normal_fitted(model: LogNormal, arms: np.ndarray, rewards: np.ndarray) -> Numbers:
    return _amounts_fitted(arms, np.log(rewards))


def _amounts_words(model: Any) -> str:
    sd = math.sqrt(float(model.b) / float(model.a))
    typical, arms = math.exp(min(float(model.prior_mean), 700.0)), sd / math.sqrt(float(model.weight))
    return (
        f"typical amounts are {typical:.3g}, give or take a factor of {math.exp(min(arms, 700.0)):.3g} between arms, "
        f"sd of logarithms {sd:.3g}"
    )


def _revenue_said(model: ZeroInflatedLogNormal, said: Said) -> Numbers:
    mean, sd = _above_zero(said)
    if said.rate is None:
        raise ConfigError(
            'Revenue needs the share of units that pay too: give prior="40 ± 15, 2% to 4% pay", or take prior="learned".'
        )
    variance = math.log1p((sd / mean) ** 2)
    if isinstance(said.rate, tuple):
        paid, unpaid = _beta(said.rate, None)
    else:
        paid, unpaid = _beta(said.rate, said.rate * math.sqrt(math.expm1(0.5 * variance)))
    rate = paid / (paid + unpaid)
    left = variance - math.log1p(unpaid / paid / (paid + unpaid + 1))
    if not left > 0.05 * variance:
        raise ConfigError(f"A rate that varies so much makes means vary by more than {sd:g}; give a larger sd or a narrower rate.")
    return {"paid": paid, "unpaid": unpaid} | _amounts_said(mean / rate, left)


def _revenue_fitted(model: ZeroInflatedLogNormal, arms: np.ndarray, rewards: np.ndarray) -> Numbers:
    pays = rewards > 0
    paid, unpaid = _beta_fitted(Moments.of(arms, pays.astype(float)))
    return {"paid": paid, "unpaid": unpaid} | _amounts_fitted(arms[pays], np.log(rewards[pays]))


def _revenue_words(model: ZeroInflatedLogNormal) -> str:
    return f"the share that pays is {_beta_words(model.paid, model.unpaid)}; {_amounts_words(model)}"


_MEAN = ("mean", "sd")
_LOCATION = Family(("prior_mean", "prior_sd"), _MEAN, _known_said, _known_fitted, _known_words)
_NIG = ("prior_mean", "weight", "a", "b")
FAMILIES: dict[type, Family] = {
    Bernoulli: Family(("a", "b"), ("mean", "sd", "rate"), _rates_said, _rates_fitted, _rates_words),
    Poisson: Family(("a", "b"), _MEAN, _counts_said, _counts_fitted, _counts_words),
    Gaussian: _LOCATION,
    Laplace: _LOCATION,
    StudentT: _LOCATION,
    GaussianUnknownVariance: Family(_NIG, (*_MEAN, "spread"), _numbers_said, _numbers_fitted, _numbers_words),
    Gamma: Family(("a", "b"), _MEAN, _gamma_said, _gamma_fitted, _gamma_words),
    LogNormal: Family(_NIG, _MEAN, _log_normal_said, _log_normal_fitted, _amounts_words),
    ZeroInflatedLogNormal: Family(("paid", "unpaid", *_NIG), (*_MEAN, "rate"), _revenue_said, _revenue_fitted, _revenue_words),
}
"""By the class itself: a subclass may mean something else by the same numbers."""
