"""The statistics of reports: coverage in simulation, exact cases, and mutants that must fail."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from blts import statistics
from blts.errors import ConfigError
from blts.report.comparing import agreement, totals
from blts.report.growth import growth, last_half, slope
from blts.statistics import UNKNOWN, Summary, band, differences, intervals, percentiles, resampled_means, simultaneous, summarise

SIMULATIONS = 2000


def coverage(low, high, truth: float) -> float:
    return float(np.mean((low <= truth) & (truth <= high)))


def near(rate: float, target: float = 0.95, slack: float = 0.02) -> bool:
    """Whether a rate is what it should be: three standard errors of 2000 simulations are 0.015."""
    return abs(rate - target) <= slack


# Intervals


def skewed(n: int) -> np.ndarray:
    """Exponential numbers of mean 1: the law for which intervals of small samples go wrong."""
    return np.random.default_rng(1).exponential(size=(n, SIMULATIONS))


def test_bootstrap_t_covers_the_mean_of_a_skewed_law():
    assert near(coverage(*intervals(skewed(20)), 1.0))


@pytest.mark.parametrize("mutant", ["normal", "percentile", "tails"])
def test_intervals_that_do_not_studentise_are_found(mutant):
    x = skewed(20)
    mean, se = x.mean(0), x.std(0, ddof=1) / np.sqrt(20)
    if mutant == "normal":
        low, high = mean - 1.96 * se, mean + 1.96 * se
    elif mutant == "percentile":
        low, high = np.quantile(resampled_means(x), [0.025, 0.975], axis=0)
    else:  # quantiles of t* on the wrong sides
        right = intervals(x)
        low, high = 2 * mean - right[1], 2 * mean - right[0]
    assert not near(coverage(low, high, 1.0))


def test_mean_sd_and_se_are_those_of_the_sample():
    x = np.random.default_rng(0).normal(3, 2, 50)
    found = summarise(x)
    np.testing.assert_allclose(found[:4], (x.mean(), x.std(ddof=1), x.std(ddof=1) / np.sqrt(50), 50))
    assert found.low < found.mean < found.high
    assert np.sum(x < found.median) == 25
    assert np.sum(x > found.q95) == 3


def test_an_interval_moves_and_scales_with_the_data():
    x = np.random.default_rng(0).gamma(2.0, size=40)
    low, high = intervals(x)
    moved = intervals(1000 - 3 * x)
    np.testing.assert_allclose(np.concatenate(moved), np.concatenate([1000 - 3 * high, 1000 - 3 * low]), rtol=1e-9)


@pytest.mark.parametrize("constant", [0.0, 0.1, -7.0, 1e9])
def test_constant_data_give_a_point(constant):
    assert summarise(np.full(10, constant)) == Summary(constant, 0.0, 0.0, 10, *[constant] * 4)


@pytest.mark.parametrize("others", [np.zeros(9), np.linspace(0, 1e-6, 9)])
def test_ten_numbers_of_which_nine_are_alike_do_not_blow_up(others):
    """A third of the resamples miss the tenth number and have no spread; t* of those would be infinite, or a million."""
    found = summarise(np.append(others, 1.0))
    assert -0.2 < found.low < 0.1 < found.high < 0.4


def test_two_numbers_have_students_interval():
    found = summarise(np.array([1.0, 2.0]))
    np.testing.assert_allclose((found.low, found.high), 1.5 + 0.5 * np.array(stats.t(1).interval(0.95)))


def test_all_columns_share_their_resamples():
    x = np.random.default_rng(0).normal(size=(30, 3))
    one_by_one = [intervals(x[:, j]) for j in range(3)]
    np.testing.assert_allclose(np.array(intervals(x)), np.array(one_by_one)[:, :, 0].T, rtol=1e-12)
    first, again = (np.concatenate(list(statistics._weights(30))) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first.sum(1), 30)
    assert abs(first.var() - (1 - 1 / 30)) < 0.02  # multinomial, not one of a kind


@pytest.mark.parametrize("values", [np.array([1.0]), np.zeros((3, 2, 2)), np.array([1.0, np.nan]), np.array([1.0, np.inf])])
def test_what_has_no_statistics_is_refused(values):
    with pytest.raises(ConfigError, match="A statistic needs"):
        summarise(values)


# Bands


def walks(rng: np.random.Generator, n: int = 40, times: int = 40) -> np.ndarray:
    """Curves with dependent, skewed increments, and one time at which all are equal. Their mean is zero."""
    steps = rng.exponential(size=(n, times)) - 1
    steps[:, 0] = 0
    return steps.cumsum(1)


def whole_curve_coverage(of) -> float:
    rng = np.random.default_rng(3)
    held = []
    for _ in range(400):
        low, high = of(walks(rng))
        held.append(bool(np.all((low <= 0) & (high >= 0))))
    return float(np.mean(held))


def test_the_band_covers_the_whole_curve_and_the_pointwise_one_does_not():
    def simultaneous(x):
        found = band(x)
        return found.low, found.high

    def pointwise(x):  # the mutant: right at each time
        half = stats.t(len(x) - 1).ppf(0.975) * x.std(0, ddof=1) / np.sqrt(len(x))
        return x.mean(0) - half, x.mean(0) + half

    assert near(whole_curve_coverage(simultaneous), slack=0.03)
    assert not near(whole_curve_coverage(pointwise), slack=0.1)


def test_times_without_spread_do_not_widen_a_band():
    x = walks(np.random.default_rng(0))
    odd = np.zeros((40, 1))
    odd[0] = 1.0  # one replication in forty: most of its t* are infinite, or undefined
    found = band(np.concatenate([x, odd, np.ones((40, 3))], axis=1))
    np.testing.assert_allclose(found.critical, band(x).critical)
    assert found.low[0] == found.high[0] == 0
    assert np.isfinite([found.low, found.high]).all()


def test_a_band_at_one_time_is_an_interval():
    x = np.random.default_rng(0).normal(size=(400, 1))
    found = band(x)
    assert abs(found.critical - stats.t(399).ppf(0.975)) < 0.12


# Comparisons


def test_one_pair_is_near_the_paired_t_test():
    rng = np.random.default_rng(0)
    common = rng.normal(0, 10, 60)
    x, y = common + rng.normal(0.4, 1, 60), common + rng.normal(0, 1, 60)
    (found,) = differences([x], [y])
    test = stats.ttest_rel(x, y)
    ends = test.confidence_interval(0.95)  # type: ignore[attr-defined]
    np.testing.assert_allclose((found.low, found.high), ends, atol=0.02)
    np.testing.assert_allclose(found.p, test[1], atol=0.01)
    np.testing.assert_allclose((found.mean, found.sd, found.n), ((x - y).mean(), (x - y).std(ddof=1), 60))
    assert found.p < 0.1 < float(np.asarray(stats.ttest_ind(x, y))[1])  # common seeds are worth something


def test_a_column_of_outliers_does_not_widen_the_others():
    """The mutant is one critical value for all columns, as in a band: there the outliers decide it."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 5))
    odd = np.where(np.arange(40) < 2, 50.0, 0.0)[:, None] + 0.5 * rng.normal(size=(40, 1))
    both = np.concatenate([x, odd], axis=1)
    assert (simultaneous(both).critical[:5] < 1.1 * simultaneous(x).critical).all()
    assert simultaneous(both).critical[5] > 2 * simultaneous(x).critical.max()
    assert band(both).critical > 2 * band(x).critical


def test_paired_without_spread_is_certain():
    same, other = differences([np.ones(5), np.full(5, 2.0)], [np.ones(5)] * 2)
    assert (same.p, same.verdict) == (1, UNKNOWN)
    assert (other.p, other.verdict) == (0, "higher")
    assert differences([], []) == []
    with pytest.raises(ConfigError, match="the same replications"):
        differences([np.ones(5)], [np.ones(4)])


def family(rng: np.random.Generator, n: int = 30, m: int = 12) -> np.ndarray:
    """Skewed differences with a common part: all conditions less one reference. Their means are zero."""
    return (rng.exponential(size=(n, m)) - 1) + (rng.exponential(size=(n, 1)) - 1)


def test_an_interval_excludes_zero_where_its_p_value_says_so_and_nowhere_else():
    """One procedure. The mutant is what a report once did: a bootstrap-t interval beside the p-value of a t-test."""
    rng = np.random.default_rng(0)
    told = mutant = 0
    for _ in range(100):
        x = family(rng) + rng.normal(0, 0.8, 12)
        found = differences(list(x.T), [np.zeros(30)] * 12)
        assert all((d.p < 0.05) == (d.low > 0 or d.high < 0) == (d.verdict != UNKNOWN) for d in found)
        told += sum(d.verdict != UNKNOWN for d in found)
        low, high = intervals(x)
        mutant += int(((np.asarray(stats.ttest_1samp(x, 0)[1]) < 0.05) != ((low > 0) | (high < 0))).sum())
    assert 200 < told < 1000  # both verdicts are common
    assert mutant > 10


def test_a_family_of_intervals_covers_and_intervals_one_by_one_do_not():
    rng = np.random.default_rng(1)
    held, mutant = [], []
    for _ in range(500):
        x = family(rng)
        found = simultaneous(x)
        held.append(bool(np.all((found.low <= 0) & (found.high >= 0))))
        low, high = intervals(x)
        mutant.append(bool(np.all((low <= 0) & (high >= 0))))
    assert near(float(np.mean(held)), slack=0.03)
    assert not near(float(np.mean(mutant)), slack=0.1)


def test_a_family_still_finds_what_one_comparison_finds():
    x = family(np.random.default_rng(0))
    x[:, 3] += 2.0
    found = differences(list(x.T), [np.zeros(30)] * 12)
    assert [d.verdict for d in found] == [UNKNOWN] * 3 + ["higher"] + [UNKNOWN] * 8


@pytest.mark.parametrize(("mean", "runs"), [(15.33, (3, 6, 9, 12, 15, 18)), (22.93, (14, 15)), (12.0, range(1, 21))])
def test_numbers_of_runs_that_a_printed_mean_admits(mean, runs):
    """By trying every total."""
    tried = [n for n in range(1, 21) if any(round(t / n, 2) == mean for t in range(500))]
    assert [n for n in range(1, 21) if totals(mean, n)] == tried == list(runs)
    assert totals(15.33, 15) == [230]
    assert totals(22.93, 15) == [344]


def test_agreement_is_welchs_test():
    ours = Summary(99.12, 13.98, 0.7, 400, 0, 0, 0, 0)
    found = agreement(ours, 110.0, 13.09, 10)
    np.testing.assert_allclose(found.p, stats.ttest_ind_from_stats(99.12, 13.98, 400, 110.0, 13.09, 10, equal_var=False).pvalue)
    np.testing.assert_allclose(found.difference, 99.12 - 110)
    se, freedom = np.sqrt(13.98**2 / 400 + 13.09**2 / 10), 9.52
    np.testing.assert_allclose(found.high - found.difference, stats.t(freedom).ppf(0.995) * se, rtol=0.01)
    assert found.verdict == "agrees"
    assert agreement(ours, 160.55, 25.75, 10).verdict == "differs"


def test_agreement_has_its_level_and_the_pooled_test_has_not():
    """Ten runs of a wide law against four hundred of a narrow one, equal means."""
    rng = np.random.default_rng(0)
    few, many = rng.normal(0, 10, (4000, 10)), rng.normal(0, 1, (4000, 400))
    differs = pooled = 0
    for a, b in zip(few, many, strict=True):
        ours = Summary(b.mean(), b.std(ddof=1), 0.0, 400, 0, 0, 0, 0)
        found = agreement(ours, a.mean(), a.std(ddof=1), 10)
        assert (found.p < 0.01) == (found.verdict == "differs") == (found.low > 0 or found.high < 0)
        differs += found.verdict == "differs"
        pooled += stats.ttest_ind_from_stats(b.mean(), b.std(ddof=1), 400, a.mean(), a.std(ddof=1), 10).pvalue < 0.01
    assert abs(differs / 4000 - 0.01) < 0.005
    assert pooled / 4000 > 0.1


def test_agreement_without_spread_is_equality():
    ours = Summary(12.0, 0.0, 0.0, 400, 12, 12, 12, 12)
    assert agreement(ours, 12.0, 0.0, 10) == (0, 0, 0, 1)
    assert agreement(ours, 12.0, 0.0, 10).verdict == "agrees"
    assert agreement(ours, 12.1, 0.0, 10).verdict == "differs"
    assert agreement(ours, 12.1, 0.0, 10).p == 0
    assert agreement(ours, 12.1, 0.5, 10).verdict == "agrees"
    with pytest.raises(ConfigError, match="n ≥ 2"):
        agreement(ours, 12.0, 1.0, 1)


# Growth

TIMES = np.unique(np.geomspace(1, 4096, 60).round())


@pytest.mark.parametrize("power", [0.25, 0.5, 1.0])
def test_a_power_has_its_exponent(power):
    curves = np.outer(np.linspace(1, 2, 20), TIMES**power)
    found = growth(TIMES, curves)
    assert found.exponent is not None
    np.testing.assert_allclose(found.exponent, power, rtol=1e-9)


def test_a_logarithm_adds_the_same_with_every_doubling_and_a_power_does_not():
    found = growth(TIMES, np.outer(np.linspace(1, 2, 20), 5 * np.log2(TIMES)))
    np.testing.assert_allclose((found.last.value, found.before.value), 7.5, rtol=1e-9)
    root = growth(TIMES, np.outer(np.linspace(1, 2, 20), np.sqrt(TIMES)))
    np.testing.assert_allclose(root.last.value / root.before.value, np.sqrt(2), rtol=1e-3)
    assert root.last.low > root.before.high


def test_only_the_last_half_of_log_time_counts():
    """A transient of the first rounds does not change the local exponent; a slope over all rounds, the mutant, it does."""
    curve = np.where(TIMES < 50, 3.0 * TIMES, 150 * np.sqrt(TIMES / 50))
    found = growth(TIMES, np.stack([curve, 1.1 * curve, 0.9 * curve]))
    assert found.exponent is not None
    np.testing.assert_allclose(found.exponent.value, 0.5, rtol=1e-9)
    assert abs(float(slope(TIMES, curve)) - 0.5) > 0.1


def test_a_curve_that_is_not_positive_has_no_exponent():
    curves = np.random.default_rng(0).normal(0, 1, (50, len(TIMES)))
    assert growth(TIMES, curves).exponent is None


def noisy_powers(rng: np.random.Generator) -> np.ndarray:
    """√T with an exponent of its own for every replication, so that the exponent of the mean is uncertain."""
    powers = 0.5 + 0.05 * rng.normal(size=(40, 1))
    return TIMES**powers * rng.gamma(4.0, 0.25, size=(40, 1))


def test_intervals_of_exponents_cover_and_those_of_residuals_do_not():
    """The mutant takes the times for independent and uses the error of the least-squares fit."""
    rng = np.random.default_rng(0)
    late = last_half(TIMES) <= TIMES
    truth = float(slope(TIMES[late], np.mean([noisy_powers(rng).mean(0) for _ in range(4000)], axis=0)[late]))
    held, mutant = [], []
    for _ in range(400):
        curves = noisy_powers(rng)
        found = growth(TIMES, curves).exponent
        assert found is not None
        held.append(found.low <= truth <= found.high)
        (fitted, _), errors = np.polyfit(np.log(TIMES[late]), np.log(curves.mean(0)[late]), 1, cov=True)
        mutant.append(abs(fitted - truth) <= 2 * np.sqrt(errors[0, 0]))
    assert near(float(np.mean(held)), slack=0.03)
    assert not near(float(np.mean(mutant)), slack=0.2)


def test_percentiles_are_the_middle():
    assert percentiles(np.linspace(0, 1, 1001)) == pytest.approx((0.025, 0.975))
