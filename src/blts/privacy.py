"""What noise costs and what it buys: zero-concentrated differential privacy (zCDP, Bun & Steinke 2016).

Two data sets are adjacent if one person's rows are replaced by any others. A release of numbers with Gaussian noise of sd σ, which
change by at most Δ in Euclidean norm between adjacent data sets, is ρ-zCDP with ρ = Δ²/(2σ²). Releases that see the same person
add up: ρ₁ + ρ₂ + …, also if a later one depends on an earlier. Releases of which only one sees any given person do not: the whole
has the largest of their ρ.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from .errors import ConfigError

DELTA = 1e-6
"""δ of the (ε, δ) that is printed beside ρ."""
LARGE = 50.0
"""|log(α - 1)| up to which orders α are looked at."""


def epsilon(rho: float, delta: float = DELTA) -> float:
    """The ε of (ε, δ)-differential privacy that ρ-zCDP implies.

    ε = min over α > 1 of ρα + log(1 - 1/α) - (log δ + log α)/(α - 1) (Canonne, Kamath & Steinke 2020, Proposition 12).

    Args:
        rho: ρ.
        delta: δ.

    Returns:
        ε.

    Raises:
        ConfigError: ρ is not above 0, or δ not between 0 and 1.

    >>> from blts.privacy import epsilon
    >>> round(epsilon(0.5, 1e-6), 2)
    5.22
    """
    if not (0 < rho < math.inf):
        raise ConfigError(f"rho must be a number > 0; got {rho!r}.")
    if not 0 < delta < 1:
        raise ConfigError(f"delta must be between 0 and 1; got {delta!r}.")

    def of(order: Any) -> Any:
        a = np.exp(order)  # α - 1
        return rho * (1 + a) + np.log(a) - np.log1p(a) - (math.log(delta) + np.log1p(a)) / a

    from scipy import optimize  # a fifth of a second that every command would wait for

    grid = np.linspace(-LARGE, LARGE, 2001)
    best = grid[int(np.argmin(of(grid)))]
    found = optimize.minimize_scalar(of, bounds=(best - 0.1, best + 0.1), method="bounded", options={"xatol": 1e-10})
    return max(0.0, float(found.fun))  # type: ignore[union-attr]


def rho_for(epsilon_wanted: float, delta: float = DELTA) -> float:
    """The largest ρ whose ε is at most the one wanted.

    Args:
        epsilon_wanted: ε.
        delta: δ.

    Returns:
        ρ.

    Raises:
        ConfigError: ε is not above 0, or δ not between 0 and 1.

    >>> from blts.privacy import epsilon, rho_for
    >>> round(epsilon(rho_for(1.0, 1e-6), 1e-6), 6)
    1.0
    """
    if not 0 < epsilon_wanted < math.inf:
        raise ConfigError(f"epsilon must be a number > 0; got {epsilon_wanted!r}.")
    excess = lambda log_rho: epsilon(math.exp(log_rho), delta) - epsilon_wanted  # noqa: E731
    from scipy import optimize

    return math.exp(optimize.brentq(excess, -60.0, math.log(epsilon_wanted)))  # type: ignore[arg-type]


class Guarantee(NamedTuple):
    """What is promised to each person, and at what price."""

    rho: float
    """Of all releases together."""
    rows: int
    """How many rows of one person it covers."""
    hides_actions: bool
    """Whether actions are protected too: they tell of contexts. Batch ends must then not depend on them."""
    clipped: str
    """What is clipped to what, in words."""
    noise: str
    """The noise of one release, in words."""

    def __str__(self) -> str:
        what = "context, action and reward" if self.hides_actions else "reward"
        whose = f"the {what} of a row" if self.rows == 1 else f"the {what} of {self.rows} rows of one person"
        return (
            f"Private: {whose} replaced by others changes all releases together by ρ = {self.rho:g} (zCDP), which is "
            f"ε = {epsilon(self.rho):.3g} at δ = {DELTA:g}; a row is in one release, so batches do not add up. {self.clipped}; "
            f"each release has {self.noise}."
        )
