"""Intervals of conversion rates after a bandit cover, also where conversions are few. The mutant is the normal interval."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy import stats

from blts.live.conclusions import estimates
from laws import LEVEL

RUNS, FLOOR = 500, 0.05
CELLS = [(T, K, rate) for T in (512, 2048) for K in (2, 4) for rate in (0.02, 0.1, 0.5)]
OUTSIDE = [(512, 2, 0.02), (512, 4, 0.02), (512, 4, 0.1), (2048, 4, 0.02)]
"""Where normal intervals cover less than 93 % of the time."""


@cache
def bandit(T: int, rates: tuple[float, ...], runs: int = RUNS, drift: float = 0.0):
    """Thompson sampling with Beta(1, 1) priors in 16 or 32 batches, with a floor: arms, rewards, p.

    A batch's propensities are the shares of arms among 200 posterior draws, and arms are drawn from these.
    """
    rng, K, count = np.random.default_rng(0), len(rates), 16 if T <= 512 else 32
    size = T // count
    n, ones = np.zeros((runs, K)), np.zeros((runs, K))
    arms, rewards, ps = [], [], []
    for i in range(count):
        best = rng.beta(1 + ones[:, None], 1 + (n - ones)[:, None], size=(runs, 200, K)).argmax(2)
        p = FLOOR + (1 - K * FLOOR) * np.stack([(best == k).mean(1) for k in range(K)], 1)
        a = (rng.random((runs, size, 1)) > p.cumsum(1)[:, None]).sum(-1).clip(0, K - 1)
        r = (rng.random(a.shape) < np.array(rates)[a] * (1 + drift * (2 * i / (count - 1) - 1))).astype(float)
        n += np.stack([(a == k).sum(1) for k in range(K)], 1)
        ones += np.stack([((a == k) & (r > 0)).sum(1) for k in range(K)], 1)
        arms.append(a)
        rewards.append(r)
        ps.append(np.repeat(p[:, None], size, 1))
    return np.concatenate(arms, 1), np.concatenate(rewards, 1), np.concatenate(ps, 1)


def terms_of(kind, arms, rewards, p):
    """The terms of IPW or AIPW, written once more."""
    m = estimates.earlier_means(arms, rewards, p.shape[1]) * (kind == "aipw")
    terms = m + (arms[:, None] == np.arange(p.shape[1])) * (rewards[:, None] - m) / p
    return terms[kind == "aipw" :]  # without the first decision, which nothing predicts


def normal(kind, *data):
    """The mutant: the mean of the terms and a normal interval with their spread."""
    terms = terms_of(kind, *data)
    return estimates.Estimate(terms.mean(0), terms.std(0) / np.sqrt(len(terms)))


def score(kind, *data):
    return estimates.ipw(*data) if kind == "ipw" else estimates.aipw(*data)


def coverage(interval_of, kind, T, rates, **settings) -> np.ndarray:
    """The share of runs whose 95 % interval has the arm's rate, for each arm."""
    arms, rewards, p = bandit(T, rates, **settings)
    hits = []
    for i in range(len(arms)):
        low, high = interval_of(kind, arms[i], rewards[i], p[i]).interval(0.95)
        hits.append((low <= rates) & (np.array(rates) <= high))
    return np.mean(hits, 0)


@pytest.mark.parametrize("kind", ["ipw", "aipw"])
@pytest.mark.parametrize(("T", "K", "rate"), CELLS)
def test_intervals_of_rates_cover(T, K, rate, kind):
    found = coverage(score, kind, T, (rate,) * K).mean()
    print(f"{T} decisions, {K} arms, rate {rate:.0%}, {kind}: {found:.1%}")
    assert 0.93 <= found <= 0.97


@pytest.mark.parametrize("kind", ["ipw", "aipw"])
@pytest.mark.parametrize(("T", "K", "rate"), OUTSIDE)
def test_normal_intervals_do_not(T, K, rate, kind):
    assert coverage(normal, kind, T, (rate,) * K).mean() < 0.93


@pytest.mark.parametrize("rates", [(0.02, 0.04), (0.1, 0.15), (0.5, 0.6), (0.1, 0.1, 0.1, 0.2)])
def test_intervals_of_starved_arms_cover(rates):
    """The worse arms are mostly at the floor. Up to chance: 500 runs have a standard error of one point."""
    for kind in ("ipw", "aipw"):
        found = coverage(score, kind, 512, rates)
        assert found.min() > 0.92
        assert found.max() < 0.985
    if rates[0] < 0.5:
        assert coverage(normal, "ipw", 512, rates)[0] < 0.92


@pytest.mark.parametrize("drift", [-0.8, 0.8])
def test_intervals_cover_where_rates_drift(drift):
    """Rates from 20 to 180 % of their average: the arms' rates on average over time are what is estimated."""
    for rate in (0.05, 0.5):
        for kind in ("ipw", "aipw"):
            assert coverage(score, kind, 512, (rate, rate), drift=drift).mean() > 0.93


def test_point_estimates_are_the_means_of_their_terms_and_unbiased():
    arms, rewards, p = bandit(512, (0.02,) * 4)
    for kind in ("ipw", "aipw"):
        values = np.array([score(kind, arms[i], rewards[i], p[i]).value for i in range(RUNS)])
        assert values[0] == pytest.approx(terms_of(kind, arms[0], rewards[0], p[0]).mean(0))
        each = values.mean(1)  # arms of one run are dependent, runs are not
        assert abs(each.mean() - 0.02) / (each.std(ddof=1) / np.sqrt(RUNS)) < stats.norm.isf(LEVEL / 2)
    naive = np.array([estimates.naive(arms[i], rewards[i], 4).value.mean() for i in range(RUNS)])  # the mutant
    assert (naive.mean() - 0.02) / (naive.std(ddof=1) / np.sqrt(RUNS)) < -stats.norm.isf(LEVEL / 2)


GAINS = [(512, (0.02,) * 2), (512, (0.1,) * 4), (512, (0.1, 0.2)), (2048, (0.02, 0.04)), (2048, (0.5,) * 2)]


@pytest.mark.parametrize(("T", "rates"), GAINS)
def test_intervals_of_the_gain_cover(T, rates):
    arms, rewards, p = bandit(T, rates)
    gains = [estimates.value_against_equal(arms[i], rewards[i], p[i]) for i in range(RUNS)]
    truth = (p @ np.array(rates)).mean(1) - np.mean(rates)
    covered = np.mean([g.low <= x <= g.high for g, x in zip(gains, truth, strict=True)])
    assert 0.92 < covered < 0.985
    if min(rates) == 0.02:  # the mutant
        assert np.mean([abs(g.per_unit - x) < 1.96 * g.se for g, x in zip(gains, truth, strict=True)]) < 0.9


def test_with_equal_propensities_the_interval_is_nearly_wilson_s():
    """p = 1/2 always: IPW is the number of conversions over half the decisions, with the variance (2 x - x²)/T."""
    arms, rewards = np.arange(200) % 2, np.zeros(200)
    rewards[:20] = 1.0  # ten conversions an arm
    found = estimates.ipw(arms, rewards, np.full((200, 2), 0.5))
    low, high = found.interval(0.95)
    z2 = float(stats.norm.isf(0.025)) ** 2
    roots = np.sort(np.roots([1 + z2 / 200, -(0.2 + 2 * z2 / 200), 0.01]))
    assert [low[0], high[0]] == pytest.approx(list(roots))
    assert found.value == pytest.approx([0.1, 0.1])


def test_an_arm_without_conversions_has_an_interval():
    arms, rewards = np.arange(200) % 2, np.zeros(200)
    rewards[::2][:30] = 1.0
    found = estimates.ipw(arms, rewards, np.full((200, 2), 0.5))
    low, high = found.interval(0.95)
    assert (found.value[1], low[1]) == (0.0, 0.0)
    assert 0.02 < high[1] < 0.06  # three conversions of a hundred would not be rare
    assert normal("ipw", arms, rewards, np.full((200, 2), 0.5)).interval()[1][1] == 0  # the mutant


def test_intervals_are_refused_where_the_data_are_too_few():
    half = np.full((40, 2), 0.5)
    arms = np.arange(40) % 2
    nothing = estimates.ipw(arms, np.zeros(40), half)
    assert np.isnan(nothing.interval()).all()
    assert "above zero" in nothing.why[0]
    revenue = np.where(np.arange(40) < 6, np.arange(40) + 7.5, 0.0)  # three payments an arm
    few = estimates.ipw(arms, revenue, half)
    assert np.isnan(few.interval()).all()
    assert np.isfinite(few.value).all()
    assert "weigh as much as 2." in few.why[0]
    certain = estimates.aipw(np.zeros(40, int), np.ones(40), np.eye(2)[np.zeros(40, int)])
    assert "chance" in certain.why[0]
    assert np.isnan(certain.value).all()
    equal = estimates.ipw(np.array([0, 1, 0, 1]), np.array([-1.0, 1.0, -1.0, 2.0]), half[:4])
    assert equal.why[0] == ""


@pytest.mark.parametrize("payment", ["equal", "spread"])
def test_intervals_of_revenue_cover_where_they_are_given(payment):
    """One visitor in five pays; sizes are log-normal with sd 0.5 of the logarithm, or 30 for all: then it is a rate, scaled."""
    arms, paid, p = bandit(512, (0.2, 0.2))
    rng = np.random.default_rng(1)
    sizes = np.full(paid.shape, 30.0) if payment == "equal" else 30 * rng.lognormal(-0.125, 0.5, paid.shape)
    hits = []
    for i in range(RUNS):
        low, high = estimates.aipw(arms[i], paid[i] * sizes[i], p[i]).interval()
        given = ~np.isnan(low)
        hits += list((low[given] <= 6) & (high[given] >= 6))
    assert len(hits) > 1.8 * RUNS
    assert 0.92 < np.mean(hits) < 0.98
