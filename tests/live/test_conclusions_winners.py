"""A/A tests under Thompson sampling, looked at after every batch: how many have a winner. The mutant is the rule P(best) ≥ 0.95."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import pytest

import blts.evidence
from blts.live import Spec, rehearse
from blts.live.conclusions import evidence
from blts.live.conclusions.evidence import ArmRewards, log_evidence, needed
from blts.live.conclusions.posterior import posterior
from blts.live.conclusions.recommendation import WINNER

BATCH, DRAWS = 50, 128


class Totals(NamedTuple):
    """Sums over the rewards of each arm, [experiments, arms]: of all, and of the logarithms of those above zero."""

    n: np.ndarray
    total: np.ndarray
    square: np.ndarray
    varied: np.ndarray
    logs: np.ndarray
    squared_logs: np.ndarray


def beta(rng, s: Totals, size):
    return rng.beta(1 + s.total[:, None], 1 + (s.n - s.total)[:, None], size)


def gamma(rng, s: Totals, size):
    return rng.gamma(1 + s.total[:, None], 1 / (1 + s.n)[:, None], size)


def normal(rng, s: Totals, size):
    precision = s.n / 20**2 + 100.0**-2
    return (s.total / 20**2 / precision)[:, None] + rng.normal(size=size) / np.sqrt(precision)[:, None]


def revenue(rng, s: Totals, size):
    """ZeroInflatedLogNormal with its default prior, but a prior mean of 3."""
    n, weight = s.varied, 1 + s.varied
    mean = s.logs / np.maximum(n, 1)
    scale = 10 + 0.5 * (s.squared_logs - n * mean**2) + 0.5 * n / weight * (mean - 3) ** 2
    variance = scale[:, None] / rng.gamma(np.broadcast_to((10 + 0.5 * n)[:, None], size))
    mu = ((3 + s.logs) / weight)[:, None] + np.sqrt(variance / weight[:, None]) * rng.normal(size=size)
    return rng.beta(1 + n[:, None], 1 + (s.n - n)[:, None], size) * np.exp(mu + 0.5 * variance)


WORLDS = {
    "2 %": (beta, lambda rng, shape: rng.random(shape) < 0.02),
    "10 %": (beta, lambda rng, shape: rng.random(shape) < 0.1),
    "50 %": (beta, lambda rng, shape: rng.random(shape) < 0.5),
    "normal": (normal, lambda rng, shape: rng.normal(50, 20, shape)),
    "counts": (gamma, lambda rng, shape: rng.poisson(0.5, shape)),
    "revenue": (revenue, lambda rng, shape: np.where(rng.random(shape) < 0.1, rng.lognormal(3, 1, shape), 0)),
}


def winners(name: str, arms: int, runs: int, units: int) -> tuple[float, float]:
    """The shares of A/A tests that ever name a winner: by P(best) alone, and with evidence."""
    draw, pay = WORLDS[name]
    rng, each, binary = np.random.default_rng(5), np.arange(runs), name.endswith("%")
    s = Totals(*np.zeros((6, runs, arms)))
    by_posterior, by_evidence = np.zeros(runs, bool), np.zeros(runs, bool)
    for look in range(units // BATCH + 1):
        best = draw(rng, s, (runs, BATCH + DRAWS, arms)).argmax(-1)
        if look:
            p_best = (best[:, BATCH:, None] == np.arange(arms)).mean(1)
            top = p_best.argmax(1)
            sure = p_best.max(1) >= WINNER
            by_posterior |= sure
            mean = s.total / np.maximum(s.n, 1)
            seen = ArmRewards(s.n, mean, np.maximum(s.square - s.n * mean**2, 0))
            against = [log_evidence(seen.at((each, top)), seen.at((each, (top + j) % arms)), binary=binary) for j in range(1, arms)]
            enough = (s.n >= evidence.LEAST_BINARY) if binary else (s.varied >= evidence.LEAST)
            by_evidence |= sure & enough.all(1) & (np.min(against, 0) >= np.log(needed(arms)))
        played = best[:, :BATCH, None] == np.arange(arms)
        rewards = np.asarray(pay(rng, (runs, BATCH)), float)
        logs = np.log(np.where(rewards > 0, rewards, 1))
        parts = np.ones_like(rewards), rewards, rewards**2, rewards != 0, logs, logs**2
        s = Totals(*(x + (played * part[..., None]).sum(1) for x, part in zip(s, parts, strict=True)))
    return by_posterior.mean(), by_evidence.mean()


@pytest.mark.parametrize(
    ("arms", "runs", "units"),
    [(2, 200, 1500), *(pytest.param(arms, 1000, 5000, marks=pytest.mark.slow) for arms in (2, 5))],
)
@pytest.mark.parametrize("name", WORLDS)
def test_equal_arms_have_no_winner(name, arms, runs, units):
    chance = 0.05 + 2 * np.sqrt(0.05 * 0.95 / runs)
    by_posterior, by_evidence = winners(name, arms, runs, units)
    print(f"{name}, {arms} arms, {runs} experiments: {by_posterior:.3f} by P(best), {by_evidence:.3f} with evidence")
    assert by_evidence <= chance
    if arms == 2:  # the mutant; of five equal arms, none is often that far ahead
        assert by_posterior > 3 * chance


def pairs(rates, n: int, runs: int):
    rng = np.random.default_rng(1)
    ones = rng.binomial(n, rates, (runs, 2)) / n
    return [ArmRewards(np.full(runs, float(n)), x, n * x * (1 - x)) for x in ones.T]


@pytest.mark.parametrize("binary", [True, False])
def test_a_difference_is_found(binary):
    """12 % against 10 % with 2.5 times the 3,800 units an arm that a single test needs: most find it, none the wrong way round."""
    better, worse = pairs([0.12, 0.10], 9600, 400)
    found = log_evidence(better, worse, binary=binary) >= np.log(needed(2))
    assert found.mean() > 0.7
    assert not (log_evidence(worse, better, binary=binary) >= np.log(needed(2))).any()


def test_evidence_for_what_is_not_so_is_one_at_most_on_average():
    """By enumeration of all rewards of 12 units, with an arm that is played on while it wins. The mutant has no mixture."""
    rewards = np.array(list(itertools.product((0, 1), repeat=12)))
    each, arm, (n, ones) = np.arange(len(rewards)), np.zeros(len(rewards), int), np.zeros((2, len(rewards), 2))
    for reward in rewards.T:
        n[each, arm] += 1
        ones[each, arm] += reward
        arm = np.where(reward, arm, 1 - arm)
    seen, total = ArmRewards(n, ones / np.maximum(n, 1), n), rewards.sum(1)
    first, second = (seen.at((each, k)) for k in (0, 1))
    E = np.exp(np.maximum(log_evidence(first, second, binary=True), log_evidence(second, first, binary=True)))
    likelihood = lambda p, ones, n: p**ones * (1 - p) ** (n - ones)  # noqa: E731
    maximum = likelihood(seen.mean, ones, n).prod(1) / likelihood(total / 12, total, 12)
    for rate in (0.1, 0.3, 0.5):
        chance = likelihood(rate, total, 12)
        assert chance.sum() == pytest.approx(1)
        assert 0.1 < chance @ E <= 1
        assert chance @ maximum > 1


@pytest.mark.parametrize("binary", [True, False])
def test_the_grid_finds_the_minimum(monkeypatch, binary):
    rng = np.random.default_rng(2)
    n = rng.integers(10, 3000, (2, 60)).astype(float)
    mean = rng.binomial(n.astype(int), rng.beta(0.5, 3, (2, 60))) / n
    arms = [ArmRewards(n[k], mean[k], n[k] * mean[k] * (1 - mean[k]) + 0.01) for k in (0, 1)]
    coarse = log_evidence(*arms, binary=binary)
    ahead = mean[0] > mean[1]
    assert (coarse[~ahead] == -np.inf).all()
    monkeypatch.setattr(blts.evidence, "NODES", 10_001)
    monkeypatch.setattr(blts.evidence, "PASSES", 1)
    fine = log_evidence(*arms, binary=binary)
    some = fine > 1
    assert some.sum() > 10
    assert (np.abs(coarse[some] - fine[some]) <= 1e-3 * fine[some]).all()
    if binary:  # and no m of the whole interval is lower
        m = np.broadcast_to(np.linspace(1e-5, 1 - 1e-5, 4001), (60, 4001))
        column = lambda arm: ArmRewards(*(x[:, None] for x in arm))  # noqa: E731
        one = lambda arm, r: blts.evidence._log_ratio_binary(column(arm), m, r, m, np)  # noqa: E731
        M = [one(arms[0], r) + one(arms[1], r) for r in blts.evidence.EFFECTS]
        lowest = np.logaddexp.reduce(M).min(-1) - np.log(len(M))
        assert (coarse[some] <= lowest[some] + 2e-3 * fine[some]).all()


def test_rewards_that_vary():
    arms, rewards = np.array([0, 1, 0, 1, 1, 0, 2]), np.array([0.0, 2.0, 0.0, 3.0, 2.0, 5.0, 1.0])
    assert evidence.varied(arms, rewards, 4).tolist() == [1, 1, 0, 0]
    assert evidence.varied(arms[:0], rewards[:0], 2).tolist() == [0, 0]
    found = evidence.summarise(arms, rewards, 4)
    assert found.n.tolist() == [3, 3, 1, 0]
    assert found.mean.tolist() == pytest.approx([5 / 3, 7 / 3, 1, 0])
    assert found.squares.tolist() == pytest.approx([2 * (5 / 3) ** 2 + (10 / 3) ** 2, 2 / 3, 0, 0])


# Whole experiments: their own decisions, batches, learned priors and reports


EQUAL = {"conversions": "0.1", "numbers": "50±20", "counts": "3", "revenue": "0.1x40±15"}


def by_probability(model, arms, rewards, active) -> int | None:
    """The mutant: P(best) ≥ 0.95, with at least twenty rewards of every arm."""
    if np.bincount(arms, minlength=len(active)).min() < 20:
        return None
    best = posterior(model, arms, rewards).shown.best
    return active[int(best.argmax())] if best.max() >= WINNER else None


def named(model: str, runs: int, **settings) -> int:
    """How many of so many experiments with equal arms, each read daily for twenty days, ever name a winner."""
    truth = dict.fromkeys("AB", EQUAL[model])
    found = rehearse(Spec.of(["A", "B"], model), truth, units=2000, per_day=100, step="1d", replications=runs, **settings)
    return int((found.winner >= 0).sum())


@pytest.mark.parametrize("model", EQUAL)
@pytest.mark.slow
def test_whole_experiments_with_equal_arms_have_no_winner(model):
    assert named(model, 1000) <= 1000 * 0.05 + 2 * np.sqrt(1000 * 0.05 * 0.95)


@pytest.mark.slow
def test_probability_alone_names_false_winners():
    assert named("conversions", 200, winner_of=by_probability) > 200 * 0.05 + 4 * np.sqrt(200 * 0.05 * 0.95)
