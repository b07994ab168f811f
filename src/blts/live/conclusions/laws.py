"""Distributions of mean rewards in double precision, also in the tails.

They are those of `scipy.stats`, which is not imported because that alone takes 20 MiB and more of a worker.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from ...models import marginal


class Law(NamedTuple):
    """loc + scale · X for each arm, where X has a standard distribution, given by functions."""

    standard_cdf: Callable[[np.ndarray], np.ndarray]
    standard_sf: Callable[[np.ndarray], np.ndarray]
    standard_ppf: Callable[[np.ndarray], np.ndarray]
    standard_isf: Callable[[np.ndarray], np.ndarray]
    standard_mean: np.ndarray | float
    standard_draws: Callable[[np.random.Generator, tuple[int, int]], np.ndarray]
    loc: np.ndarray | float = 0.0
    scale: np.ndarray | float = 1.0

    def cdf(self, x: np.ndarray) -> np.ndarray:
        return self.standard_cdf((x - self.loc) / self.scale)

    def sf(self, x: np.ndarray) -> np.ndarray:
        return self.standard_sf((x - self.loc) / self.scale)

    def ppf(self, q: np.ndarray) -> np.ndarray:
        return self.standard_ppf(q) * self.scale + self.loc

    def isf(self, q: np.ndarray) -> np.ndarray:
        return self.standard_isf(q) * self.scale + self.loc

    def mean(self) -> np.ndarray:
        return np.asarray(self.standard_mean * self.scale + self.loc, float)

    def draws(self, rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        return self.standard_draws(rng, shape) * self.scale + self.loc


def law_of(laws: Any) -> Law:
    """The distributions of all arms.

    Args:
        laws: one of the closed distributions of `models.marginal`, with a number for each arm.

    Returns:
        The same for NumPy.
    """
    x = {name: np.asarray(getattr(laws, name), float) for name in laws.__dataclass_fields__}
    match laws:
        case marginal.NormalLaw():
            return _normal(x["mean"], x["sd"])
        case marginal.BetaLaw():
            return _beta(x["a"], x["b"])
        case marginal.GammaLaw():
            return _gamma(x["a"], 1 / x["b"])
        case marginal.InverseGammaLaw():
            return _inverse_gamma(x["a"], x["b"])
        case _:
            return _student_t(x["df"], x["loc"], x["scale"])


def _normal(mean: np.ndarray, sd: np.ndarray) -> Law:
    upper, isf = (lambda x: special.ndtr(-x)), (lambda q: -special.ndtri(q))
    return Law(special.ndtr, upper, special.ndtri, isf, 0.0, lambda rng, shape: rng.standard_normal(shape), mean, sd)


def _beta(a: np.ndarray, b: np.ndarray) -> Law:
    return Law(
        lambda x: special.betainc(a, b, x),
        lambda x: special.betaincc(a, b, x),
        lambda q: special.betaincinv(a, b, q),
        lambda q: special.betainccinv(a, b, q),
        a / (a + b),
        lambda rng, shape: rng.beta(a, b, shape),
    )


def _gamma(a: np.ndarray, scale: np.ndarray) -> Law:
    return Law(
        lambda x: special.gammainc(a, x),
        lambda x: special.gammaincc(a, x),
        lambda q: special.gammaincinv(a, q),
        lambda q: special.gammainccinv(a, q),
        a,
        lambda rng, shape: rng.standard_gamma(a, shape),
        scale=scale,
    )


def _inverse_gamma(a: np.ndarray, scale: np.ndarray) -> Law:
    return Law(
        lambda x: special.gammaincc(a, _inverse(x)),
        lambda x: special.gammainc(a, _inverse(x)),
        lambda q: _inverse(special.gammainccinv(a, q)),
        lambda q: _inverse(special.gammaincinv(a, q)),
        _inverse(np.maximum(a - 1.0, 0.0)),
        lambda rng, shape: _inverse(special.gammainccinv(a, rng.uniform(size=shape))),
        scale=scale,
    )


def _inverse(x: np.ndarray) -> np.ndarray:
    """1 / x, without a warning for 0."""
    with np.errstate(divide="ignore"):
        return 1.0 / x


def _student_t(df: np.ndarray, loc: np.ndarray, scale: np.ndarray) -> Law:
    return Law(
        lambda x: special.stdtr(df, x),
        lambda x: special.stdtr(df, -x),
        lambda q: special.stdtrit(df, q),
        lambda q: -special.stdtrit(df, q),
        np.where(df > 1, 0.0, np.inf),
        lambda rng, shape: rng.standard_t(df, shape),
        loc,
        scale,
    )
