"""Means over replications with bootstrap-t intervals and bands, in NumPy. All resamples are one matrix product."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from .errors import ConfigError

LEVEL = 0.95
RESAMPLES = 2000
SEED = 20230608
CHUNK = 250
"""Resamples in one matrix product: 250 rows of weights for 10,000 replications are 20 MB."""
FAMILY = 10_000
"""Resamples for simultaneous intervals, which need more extreme quantiles."""
UNKNOWN = "not told apart"
"""The verdict on a difference whose interval has 0 in it."""
NO_SPREAD = 0.01
"""A resample whose sd is below this fraction of the sample's is degenerate and cannot be studentised."""
DEGENERATE = 0.01
"""With a larger fraction of degenerate resamples, Student's t replaces the bootstrap-t."""


class Summary(NamedTuple):
    """A mean over replications with its sd (n − 1), standard error and 95 % interval, and quantiles of the replications."""

    mean: float
    sd: float
    se: float
    n: int
    low: float
    high: float
    median: float
    q95: float
    """The 95 % quantile of the replications."""


class Band(NamedTuple):
    """A mean curve with a simultaneous confidence band."""

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    critical: float
    """Half-width of the band in standard errors."""


def summarise(values: np.ndarray) -> Summary:
    """Mean, sd, standard error, 95 % bootstrap-t interval and quantiles of one quantity.

    Args:
        values: one number per replication.

    Returns:
        The summary.

    >>> import numpy as np
    >>> from blts.statistics import summarise
    >>> summarise(np.array([3.0, 3.0, 3.0]))
    Summary(mean=3.0, sd=0.0, se=0.0, n=3, low=3.0, high=3.0, median=3.0, q95=3.0)
    """
    x = _checked(values)
    mean, sd = float(_means(x)[0]), float(_sds(x)[0])
    low, high = intervals(x)
    median, q95 = np.quantile(x, (0.5, 0.95)).tolist()
    return Summary(mean, sd, sd / len(x) ** 0.5, len(x), float(low[0]), float(high[0]), median, q95)


def intervals(values: np.ndarray, level: float = LEVEL) -> tuple[np.ndarray, np.ndarray]:
    """Bootstrap-t intervals of the means of all columns, on the same resamples:

        [mean − q(1 − α/2) · se,  mean − q(α/2) · se],    q the quantiles of t* = (mean* − mean) / se*.

    Args:
        values: `[replications, columns]`.
        level: of each interval.

    Returns:
        The lower and upper ends, which are equal for a constant column.
    """
    x = _checked(values)
    n, mean, sd = len(x), _means(x), _sds(x)
    t = np.concatenate(list(_studentised(x, mean, sd)))
    lost = np.isnan(t).mean(0)
    wide = -student(n, level)
    tails = np.empty((2, x.shape[1]))
    for j in range(x.shape[1]):
        usual = lost[j] <= DEGENERATE
        tails[:, j] = np.nanquantile(t[:, j], [(1 - level) / 2, (1 + level) / 2]) if usual else (wide, -wide)
    se = sd / np.sqrt(n)
    return mean - tails[1] * se, mean - tails[0] * se


class Simultaneous(NamedTuple):
    """Means of several columns with simultaneous intervals, and p-values that agree with them."""

    mean: np.ndarray
    se: np.ndarray
    low: np.ndarray
    high: np.ndarray
    p: np.ndarray
    """P-values of "the mean is 0", adjusted for all columns: below 0.05 exactly where the interval excludes 0."""
    critical: np.ndarray
    """Half-widths of the intervals in standard errors."""


def simultaneous(values: np.ndarray, level: float = LEVEL) -> Simultaneous:
    """Balanced simultaneous intervals mean ± c · se of the means of all columns (Beran, 1988).

    c is the same quantile of |t*| for every column, chosen so that all columns cover together with probability `level`. A column
    with outliers thus has a wide interval and does not widen the others. c is at least Student's critical value. Constant columns
    get points; columns with too many degenerate resamples get Student's t with Bonferroni's correction.

    Args:
        values: `[replications, columns]`.
        level: of all intervals together.

    Returns:
        Means, intervals and p-values.

    >>> import numpy as np
    >>> from blts.statistics import simultaneous
    >>> found = simultaneous(np.array([[1.0, 0.0], [1.0, 1.0], [1.0, -1.0]]))
    >>> bool(found.low[0] == found.high[0] == 1), float(found.p[0]), float(found.p[1])
    (True, 0.0, 1.0)
    """
    from scipy.special import stdtr

    x = _checked(values)
    n, mean, sd = len(x), _means(x), _sds(x)
    se = sd / np.sqrt(n)
    spread = int((sd > 0).sum())
    t = np.divide(np.abs(mean), se, out=np.where(mean == 0, 0.0, np.inf), where=se > 0)
    alone = np.where(se > 0, 2 * stdtr(n - 1, -t), (mean == 0).astype(float))
    draws = np.concatenate([np.abs(t) for t in _studentised(x, mean, sd, FAMILY)])
    kept = (sd > 0) & (np.isnan(draws).mean(0) <= DEGENERATE)
    critical = np.full(len(mean), student(n, 1 - (1 - level) / max(1, spread)))
    p = np.where(se > 0, np.minimum(1.0, alone * spread), alone)
    if kept.any():
        quantiles, adjusted = _balanced(np.nan_to_num(draws[:, kept]), t[kept], level)
        critical[kept] = np.maximum(student(n, level), quantiles)
        p[kept] = np.maximum(alone[kept], adjusted)
    half = critical * se
    return Simultaneous(mean, se, mean - half, mean + half, p, critical)


def _balanced(draws: np.ndarray, t: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Critical values of |t| for all columns, and adjusted p-values: `t > critical` exactly where p < 1 − level."""
    order, ranks = np.argsort(draws, axis=0), np.empty(draws.shape, int)
    sorted_draws = np.take_along_axis(draws, order, 0)
    # Looked up in their order, which is four times as fast.
    np.put_along_axis(ranks, order, np.stack([np.searchsorted(s, s, side="left") for s in sorted_draws.T], axis=1), 0)
    most = np.sort(ranks.max(1))
    own = np.array([np.searchsorted(s, value, side="left") for s, value in zip(sorted_draws.T, t, strict=True)])
    p = (1 + len(most) - np.searchsorted(most, own, side="left")) / (1 + len(most))
    few = int(np.ceil((1 - level) * (1 + len(most)) - 1))  # how many of the largest ranks may lie above
    return sorted_draws[most[len(most) - few]], p


class Difference(NamedTuple):
    """One of a family of mean differences, ours less the reference's, replication by replication on the same seeds.

    Interval, p-value and verdict come from one procedure: the verdict is whether the interval excludes 0, and the p-value is the
    least level at which it would.

    >>> from blts import Difference
    >>> Difference(mean=-2.0, sd=4.0, se=0.4, n=100, low=-2.8, high=-1.2, p=0.0001).verdict
    'lower'
    """

    mean: float
    sd: float
    se: float
    n: int
    low: float
    high: float
    """With probability 95 % the intervals of the whole family cover."""
    p: float
    """Adjusted for the family: below 0.05 where the interval excludes 0, and only there."""
    quantity: str = ""
    """What differs, in words; empty where nobody said."""

    @property
    def verdict(self) -> str:
        """Whether the first is "higher", "lower" or "not told apart"."""
        return "higher" if self.low > 0 else "lower" if self.high < 0 else UNKNOWN

    def __repr__(self) -> str:
        of = f" in {self.quantity}" if self.quantity else ""
        return (
            f"The difference{of} is {self.mean:.4g}, 95 % interval {self.low:.4g} to {self.high:.4g} "
            f"(p = {self.p:.2g}, {self.n} replications): {self.verdict}."
        )


def differences(values: Sequence[np.ndarray], references: Sequence[np.ndarray]) -> list[Difference]:
    """Mean differences on common seeds as one family, with intervals that all cover with probability 95 %.

    Args:
        values: the numbers of each condition, one per replication.
        references: those that each is compared with, on the same replications.

    Returns:
        A difference for each condition.

    >>> import numpy as np
    >>> from blts.statistics import differences
    >>> base = np.arange(20.0)
    >>> [d.verdict for d in differences([base + 3, base], [base, base])]
    ['higher', 'not told apart']
    """
    if not values:
        return []
    shapes = {np.shape(x) for x in (*values, *references)}
    if len(shapes) > 1 or len(values) != len(references):
        raise ConfigError(f"Paired conditions need the same replications; got arrays of the shapes {sorted(shapes)}.")
    x = np.stack([np.asarray(a, float) - np.asarray(b, float) for a, b in zip(values, references, strict=True)], axis=1)
    found = simultaneous(x)
    columns = zip(found.mean, found.se, found.low, found.high, found.p, strict=True)
    n = len(x)
    return [Difference(float(m), float(se * n**0.5), float(se), n, float(a), float(b), float(p)) for m, se, a, b, p in columns]


def band(curves: np.ndarray, level: float = LEVEL) -> Band:
    """The sup-t band of curves: mean ± c · se, with c the quantile of the maximum over times of |t*|.

    Times that are constant, or at which too many resamples are degenerate, are left out of the maximum: for example where the
    regret is zero in all but one of four hundred replications. Where all replications are equal, se is 0 and the band has no width:
    it does not cover what further replications would add there.

    Args:
        curves: `[replications, times]`.
        level: of the whole band.

    Returns:
        The mean curve, the band, and c.
    """
    x = _checked(curves)
    n, mean, sd = len(x), _means(x), _sds(x)
    chunks = [np.abs(t) for t in _studentised(x, mean, sd)]
    lost = np.mean([np.isnan(t).mean(0) for t in chunks], axis=0)
    kept = (sd > 0) & (lost <= DEGENERATE)
    critical = student(n, level)  # a band for all times is at least as wide as the interval at one
    if kept.any():
        most = np.concatenate([np.nanmax(t[:, kept], axis=1, initial=0.0) for t in chunks])
        critical = max(critical, float(np.quantile(most, level)))
    half = critical * sd / np.sqrt(n)
    return Band(mean, mean - half, mean + half, critical)


def interval_of(values: np.ndarray, function: Function, gradient: Function, level: float = LEVEL) -> tuple[float, float] | None:
    """A bootstrap-t interval for a smooth function f of the column means m:

        t* = (f(m*) − f(m)) / se*,    se* from the resample's variance of ∇f(m*) · x.

    Args:
        values: `[replications, columns]`.
        function: f, of means `[..., columns]`.
        gradient: ∇f, likewise.
        level: of the interval.

    Returns:
        The interval; None where f is undefined for too many resamples.
    """
    x = _checked(values)
    n, mean = len(x), _means(x)
    found, error = [], _slope_error(np.ones((1, n)), x, gradient(mean[None]))
    for w in _weights(n):
        means = w @ x / n
        with np.errstate(invalid="ignore", divide="ignore"):
            change, spread = function(means) - function(mean[None]), _slope_error(w, x, gradient(means))
            found.append(np.where(spread > NO_SPREAD * error, change / spread, np.nan))
    t = np.concatenate(found)
    value = float(function(mean[None])[0])
    if error[0] <= 1e-12 * abs(value):
        return value, value
    if not np.isfinite(t).mean() >= 1 - DEGENERATE:
        return None
    low, high = np.nanquantile(np.where(np.isfinite(t), t, np.nan), [(1 - level) / 2, (1 + level) / 2])
    return value - float(high) * float(error[0]), value - float(low) * float(error[0])


Function = Callable[[np.ndarray], np.ndarray]
"""A function of means `[..., columns]`."""


def _slope_error(w: np.ndarray, x: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """Standard errors of the means of ∇f · x under weights."""
    n = len(x)
    u = gradient @ x.T
    first, second = (w * u).sum(1) / n, (w * u**2).sum(1) / n
    return np.sqrt(np.maximum(second - first**2, 0.0) / (n - 1))


def resampled_means(values: np.ndarray) -> np.ndarray:
    """The means of all resamples.

    Args:
        values: `[replications, columns]`.

    Returns:
        `[resamples, columns]`.
    """
    x = _checked(values)
    centre = _means(x)
    return np.concatenate([w @ (x - centre) / len(x) for w in _weights(len(x))]) + centre


def percentiles(draws: np.ndarray, level: float = LEVEL) -> tuple[float, float]:
    """The central interval of a bootstrap distribution.

    Args:
        draws: of one statistic.
        level: the probability inside.

    Returns:
        The lower and upper end.
    """
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def student(n: int, level: float = LEVEL) -> float:
    """Student's critical value for a mean.

    Args:
        n: how many numbers.
        level: of the interval.

    Returns:
        The half-width of the interval in standard errors.
    """
    from scipy.special import stdtrit

    return float(stdtrit(n - 1, (1 + level) / 2))


def noise_of_squares(total: Any, fourth: Any, n: Any) -> Any:
    """The relative standard error of a sum of n squares, from the sum of their squares.

    The variance of a mean is such a sum. Normal terms know it as well with 2/noise² degrees of freedom.

    Args:
        total: the sum of squares.
        fourth: the sum of fourth powers.
        n: how many.

    Returns:
        The standard error of `total`, divided by `total`.

    >>> from blts.statistics import noise_of_squares
    >>> float(noise_of_squares(4.0, 4.0, 4))  # four squares that are all 1
    0.0
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.sqrt(np.maximum(fourth / np.square(total) - 1.0 / n, 0.0))


def _studentised(x: np.ndarray, mean: np.ndarray, sd: np.ndarray, resamples: int = RESAMPLES) -> Iterator[np.ndarray]:
    """t* = (mean* − mean) / (sd*/√n) of all resamples and columns; NaN where a resample is degenerate."""
    n = len(x)
    z = np.divide(x - mean, sd, out=np.zeros_like(x), where=sd > 0)
    both = np.concatenate([z, z**2], axis=1)
    for w in _weights(n, resamples):
        moments = w @ both / n
        first, second = np.split(moments, 2, axis=1)
        spread = np.sqrt(np.maximum(second - first**2, 0.0) * (n / (n - 1)))
        yield np.divide(first * np.sqrt(n), spread, out=np.full_like(first, np.nan), where=spread > NO_SPREAD)


def _weights(n: int, resamples: int = RESAMPLES) -> Iterator[np.ndarray]:
    """How often each of n replications is in each resample, in chunks of rows."""
    for chunk in range(0, resamples, CHUNK):
        yield _counts(n, resamples)[chunk : chunk + CHUNK].astype(float)


@functools.lru_cache(maxsize=4)
def _counts(n: int, resamples: int) -> np.ndarray:
    """Multinomial weights; always the same for n replications."""
    rng = np.random.default_rng([SEED, n])
    equal = np.full(n, 1 / n)
    return np.concatenate([rng.multinomial(n, equal, size=CHUNK).astype(np.uint8) for _ in range(0, resamples, CHUNK)])


def _means(x: np.ndarray) -> np.ndarray:
    """Column means; that of a constant column is exactly its value."""
    return np.where(np.ptp(x, axis=0) == 0, x[0], x.mean(0))


def _sds(x: np.ndarray) -> np.ndarray:
    return np.where(np.ptp(x, axis=0) == 0, 0.0, x.std(0, ddof=1))


def _checked(values: np.ndarray) -> np.ndarray:
    x = np.asarray(values, float)
    x = x[:, None] if x.ndim == 1 else x
    if x.ndim != 2 or len(x) < 2:
        raise ConfigError(f"A statistic needs numbers of at least 2 replications; got an array of shape {np.shape(values)}.")
    if not np.isfinite(x).all():
        raise ConfigError("A statistic needs finite numbers; leave out the replications that are not.")
    return x
