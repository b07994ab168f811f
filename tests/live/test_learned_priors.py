"""Priors learned from all arms: 95 % intervals of equal and unequal arms cover, and a new arm gets about its share."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from blts.live import population, priors
from blts.models import (
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


def numbers_inside(fit, K: int, n: int, sd: float, runs: int, seed: int) -> np.ndarray:
    """For arms with rewards N(μ, 20²), μ ~ N(50, sd²), whether the interval of the posterior has μ."""
    rng = np.random.default_rng(seed)
    truth = 50 + sd * rng.standard_normal((runs, K))
    rewards = truth[..., None] + 20 * rng.standard_normal((runs, K, n))
    fits = [fit(np.repeat(np.arange(K), n), one.reshape(-1)) for one in rewards]
    m, w, a, b = (np.array([f[name] for f in fits])[:, None] for name in ("prior_mean", "weight", "a", "b"))
    mean, square = rewards.mean(-1), rewards.var(-1) * n
    a, b = a + n / 2, b + 0.5 * (square + w * n / (w + n) * (mean - m) ** 2)
    low, high = stats.t.interval(0.95, 2 * a, (w * m + n * mean) / (w + n), np.sqrt(b / a / (w + n)))
    return (low < truth) & (truth < high)


def learn_numbers(arms, rewards):
    return priors.fitted(GaussianUnknownVariance(), arms, rewards)


def known_spread(arms, rewards):
    """The mutant: N(0, 1) for the mean, and a spread of 1 that nothing changes."""
    return {"prior_mean": 0.0, "weight": 1.0, "a": 1e6, "b": 1e6}


@pytest.mark.parametrize("K", [2, 3, 5])
@pytest.mark.parametrize("n", [20, 200])
def test_intervals_of_numbers_cover(K, n):
    runs = 3000 // K
    for sd in (0.0, 5.0, 20.0):
        assert 0.93 <= numbers_inside(learn_numbers, K, n, sd, runs, seed=n + K).mean() <= 0.97
    assert numbers_inside(known_spread, K, n, 0.0, runs, seed=n + K).mean() < 0.5


def test_a_prior_that_uses_the_rewards_twice_is_found(monkeypatch):
    """The mutant: a prior as narrow as the arms seem equal, worth all their rewards."""
    monkeypatch.setattr(population, "LIMIT", 10.0)
    assert numbers_inside(learn_numbers, 2, 20, 0.0, 1500, seed=1).mean() < 0.93


def revenue_inside(fit, n: int, runs: int, seed: int, K: int = 3, pays: float = 0.3) -> np.ndarray:
    """For arms that pay with probability 0.3 and then exp(N(3, 1)), whether the interval of the mean has the truth."""
    rng = np.random.default_rng(seed)
    paid = rng.random((runs, K, n)) < pays
    rewards = np.where(paid, np.exp(3 + rng.standard_normal(paid.shape)), 0.0)
    fits = [fit(np.repeat(np.arange(K), n), one.reshape(-1)) for one in rewards]
    names = ("paid", "unpaid", "prior_mean", "weight", "a", "b")
    prior = {name: np.array([f[name] for f in fits])[:, None] for name in names}
    logs, count = np.log(np.where(paid, rewards, 1.0)), paid.sum(-1)
    mean = logs.sum(-1) / np.maximum(count, 1)
    square = np.where(paid, (logs - mean[..., None]) ** 2, 0.0).sum(-1)
    w = prior["weight"] + count
    a = prior["a"] + count / 2
    b = prior["b"] + 0.5 * (square + prior["weight"] * count / w * (mean - prior["prior_mean"]) ** 2)
    m = (prior["weight"] * prior["prior_mean"] + count * mean) / w
    draws = 2000
    variance = b / rng.standard_gamma(a, (draws, *a.shape))
    location = m + np.sqrt(variance / w) * rng.standard_normal(variance.shape)
    rate = rng.beta(prior["paid"] + count, prior["unpaid"] + n - count, variance.shape)
    low, high = np.quantile(rate * np.exp(location + 0.5 * variance), [0.025, 0.975], axis=0)
    truth = pays * np.exp(3.5)
    return (low < truth) & (truth < high)


def learn_revenue(arms, rewards):
    return priors.fitted(ZeroInflatedLogNormal(), arms, rewards)


def default_revenue(arms, rewards):
    return {"paid": 1.0, "unpaid": 1.0, "prior_mean": 0.0, "weight": 1.0, "a": 10.0, "b": 10.0}


@pytest.mark.parametrize("n", [20, 200])
def test_intervals_of_revenue_cover(n):
    assert 0.93 <= revenue_inside(learn_revenue, n, 400, seed=n).mean() <= 0.97
    assert n > 20 or revenue_inside(default_revenue, n, 400, seed=n).mean() < 0.93  # the mutant


@pytest.mark.parametrize("n", [20, 200])
def test_intervals_of_rates_and_counts_cover(n):
    rng, K, runs = np.random.default_rng(n), 3, 700
    arms = np.repeat(np.arange(K), n)
    inside: dict[str, list] = {"rates": [], "counts": []}
    for _ in range(runs):
        rewards = (rng.random(K * n) < 0.1).astype(float)
        ones, prior = np.bincount(arms, rewards), priors.fitted(Bernoulli(), arms, rewards)
        low, high = (stats.beta.ppf(u, prior["a"] + ones, prior["b"] + n - ones) for u in (0.025, 0.975))
        inside["rates"] += list((low < 0.1) & (high > 0.1))
        rewards = rng.poisson(3.0, K * n).astype(float)
        total, prior = np.bincount(arms, rewards), priors.fitted(Poisson(), arms, rewards)
        low, high = (stats.gamma.ppf(u, prior["a"] + total, scale=1 / (prior["b"] + n)) for u in (0.025, 0.975))
        inside["counts"] += list((low < 3) & (high > 3))
    assert all(0.93 <= np.mean(hits) <= 0.975 for hits in inside.values()), {k: np.mean(v) for k, v in inside.items()}


def share_of_a_new_arm(rates, prior_of, rng) -> float:
    """Of 100 decisions, after 1,000 of arms with these rates, all in batches of 50; the new arm's rate is the others' mean."""
    arms, rewards, truth = np.zeros(0, int), np.zeros(0), np.array([*rates, np.mean(rates)])
    size, K = 50, len(rates)
    for batch in range(22):
        K = len(rates) + (batch >= 20)
        n, ones, prior = np.bincount(arms, minlength=K), np.bincount(arms, rewards, K), prior_of(arms, rewards)
        chosen = rng.beta(prior["a"] + ones, prior["b"] + n - ones, (size, K)).argmax(1)
        arms = np.concatenate([arms, chosen])
        rewards = np.concatenate([rewards, (rng.random(size) < truth[chosen]).astype(float)])
    return float((arms[1000:] == K - 1).sum())


def test_a_new_arm_gets_about_its_share():
    """A quarter would be fair. Beta(1, 1), the mutant, gives it most of the decisions."""
    flat = {"a": 1.0, "b": 1.0}
    rng = np.random.default_rng(0)
    learned = [share_of_a_new_arm((0.08, 0.1, 0.12), lambda a, r: flat | priors.fitted(Bernoulli(), a, r), rng) for _ in range(60)]
    assert 15 <= np.mean(learned) <= 45
    assert np.mean([share_of_a_new_arm((0.08, 0.1, 0.12), lambda a, r: flat, rng) for _ in range(60)]) > 55


def test_a_learned_prior_is_the_population_of_the_arms():
    """Of many arms with many rewards: their mean, their spread and the spread of rewards."""
    rng = np.random.default_rng(3)
    arms = np.repeat(np.arange(200), 100)
    means = rng.normal(50, 10, 200)
    numbers = priors.fitted(GaussianUnknownVariance(), arms, rng.normal(means[arms], 20))
    assert numbers["prior_mean"] == pytest.approx(50, abs=3)
    assert np.sqrt(numbers["b"] / numbers["a"] / numbers["weight"]) == pytest.approx(10, rel=0.25)
    assert np.sqrt(numbers["b"] / numbers["a"]) == pytest.approx(20, rel=0.02)
    numbers = priors.fitted(Gaussian(sd=20.0), arms, rng.normal(means[arms], 20))
    assert (numbers["prior_mean"], numbers["prior_sd"]) == (pytest.approx(50, abs=3), pytest.approx(10, rel=0.25))


MODELS = (Bernoulli(), Poisson(), Gaussian(), Laplace(), StudentT(), GaussianUnknownVariance(), Gamma(), LogNormal())


@pytest.mark.parametrize("model", [*MODELS, ZeroInflatedLogNormal()], ids=lambda model: type(model).__name__)
def test_few_or_odd_rewards_give_a_proper_prior(model):
    """One reward, equal rewards, extreme ones: the model takes every learned number, in single precision."""
    assert priors.fitted(model, np.zeros(0, int), np.zeros(0)) == {}
    binary = isinstance(model, Bernoulli)
    positive = isinstance(model, Gamma | LogNormal)
    for rewards in (
        [1.0],
        [1.0, 1.0, 1.0],
        [1.0] * 500,
        *([] if positive else ([0.0], [0.0] * 9)),
        *([] if binary else ([1e30, 2.0],)),
    ):
        numbers = priors.fitted(model, np.arange(len(rewards)) % 3, np.array(rewards))
        priors.with_numbers(model, numbers)
        assert all(np.float32(value) == value and np.isfinite(value) for value in numbers.values())
