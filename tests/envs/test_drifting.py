"""The laws of means that drift, and the regret against the best arm of each round."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from blts import (
    AbruptChanges,
    Aged,
    Bandit,
    Bernoulli,
    Drift,
    Drifting,
    Exact,
    Gaussian,
    RandomWalk,
    Seasonal,
    Thompson,
    random,
    simulate,
)
from blts.batching import DoublingCounts, Fixed
from blts.errors import ConfigError
from laws import LEVEL, counts_p, mean_p, variance_p

MEANS = (0.2, 0.5, 0.9)
GAUSSIAN = Bandit.with_means(Gaussian(sd=0.5), MEANS)


def paths(env, rounds: int, runs: int, action: int = 0):
    """Means before each round, rewards and regrets of playing one arm: `[runs, rounds, …]`."""

    def run(key):
        def step(state, k):
            after, out = env.step(k, state, jnp.asarray(action))
            return after, (state.means, out.reward, out.regret)

        return jax.lax.scan(step, env.reset(key)[0], random.split(key, rounds))[1]

    return tuple(np.asarray(x) for x in jax.jit(jax.vmap(run))(random.split(random.key(0), runs)))


def test_a_random_walk_has_independent_normal_steps():
    means, rewards, regrets = paths(Drifting(GAUSSIAN, RandomWalk(0.1)), 50, 4000)
    assert np.allclose(means[:, 0], MEANS)
    for arm in range(3):
        moved = means[:, 49, arm] - MEANS[arm]
        assert mean_p(moved, 0.0, 0.7) > LEVEL
        assert variance_p(moved, 0.7) > LEVEL  # 49 steps of 0.1
        assert variance_p(moved, np.sqrt(60) * 0.1) < LEVEL  # mutants: other numbers of steps
    assert abs(stats.pearsonr(means[:, 49, 0], means[:, 49, 1])[0]) < 4 / np.sqrt(4000)
    assert mean_p(rewards[:, 49] - means[:, 49, 0], 0.0, 0.5) > LEVEL
    np.testing.assert_allclose(regrets, means.max(-1) - means[..., 0], atol=1e-6)


def test_a_reflected_walk_stays_within_its_limits_and_fills_them():
    means, _, _ = paths(Drifting(GAUSSIAN, RandomWalk(0.2, low=0.0, high=1.0)), 120, 4000)
    assert means.min() >= 0
    assert means.max() <= 1
    assert stats.kstest(means[:, -1].ravel(), "uniform").pvalue > LEVEL  # a reflected walk ends up uniform
    stuck = np.clip(np.cumsum(0.2 * np.random.default_rng(0).normal(size=(4000, 120)), 1)[:, -1], 0, 1)
    assert stats.kstest(stuck, "uniform").pvalue < LEVEL  # the mutant: cut off at the limits


def test_abrupt_changes_come_when_they_are_said_to():
    means, _, _ = paths(Drifting(GAUSSIAN, AbruptChanges(times=(3, 10))), 15, 600)
    changed = np.any(means[:, 1:] != means[:, :-1], -1)
    assert (np.flatnonzero(changed.any(0)) + 1).tolist() == [3, 10]
    assert changed[:, [2, 9]].all()
    assert (np.sort(means, -1) == np.float32(MEANS)).all()
    assert (means[:, 3].argmax(-1) != 2).all()
    assert counts_p(np.bincount(means[:, 3].argmax(-1), minlength=3)[:2], [0.5, 0.5]) > LEVEL


def test_random_changes_have_their_rate():
    means, _, _ = paths(Drifting(GAUSSIAN, AbruptChanges(rate=0.05)), 101, 1000)
    changes = int(np.any(means[:, 1:] != means[:, :-1], -1).sum())
    assert stats.binomtest(changes, 100_000, 0.05).pvalue > LEVEL
    assert stats.binomtest(changes, 100_000, 0.055).pvalue < LEVEL


def test_seasons_are_a_sine_of_the_round():
    means, _, _ = paths(Drifting(GAUSSIAN, Seasonal(period=20, amplitude=0.1)), 41, 1)
    t = np.arange(1, 42)[:, None]
    expected = np.array(MEANS) + 0.1 * np.sin(2 * np.pi * (t / 20 + np.arange(3) / 3))
    np.testing.assert_allclose(means[0], expected, atol=1e-5)
    assert np.abs(means[0, 1:] - expected[:-1]).max() > 0.01  # the mutant: one round late


def test_recorded_regret_is_dynamic():
    """With Bernoulli rewards, through the loop: the regret of a trace is the sum of the gaps of its rounds."""
    env = Drifting(Bandit.with_means(Bernoulli(), [0.2, 0.5, 0.7]), Seasonal(period=30, amplitude=0.1))
    trace = simulate(0, env, Thompson(Bernoulli(), Exact(), 3), Fixed(5), horizon=60, replications=4, keep_actions=True)
    t = np.arange(1, 61)[:, None]
    means = np.array([0.2, 0.5, 0.7]) + 0.1 * np.sin(2 * np.pi * (t / 30 + np.arange(3) / 3))
    assert trace.actions is not None
    gaps = means.max(1)[None] - means[np.arange(60)[None], trace.actions]
    np.testing.assert_allclose(trace.final_regret, gaps.sum(1), rtol=1e-4)
    assert "Regret is dynamic: against the best arm of each round." in trace.env


class _Jump(Drift):
    """A drift of a user's own."""

    def after(self, key, t, base, means):
        return jnp.where(t >= 5, base[::-1], base)

    def limits(self, base):
        return base.min(), base.max()


def test_a_drift_of_ones_own():
    means, _, _ = paths(Drifting(GAUSSIAN, _Jump()), 8, 1)
    np.testing.assert_allclose(means[0, 4], MEANS)
    np.testing.assert_allclose(means[0, 5], MEANS[::-1])


class _Bonus(Bandit):
    def step(self, key, state, action):
        return super().step(key, state, action)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: Drifting(Bandit(Gaussian(), arms=2), RandomWalk(0.1)), "must say which means the drift begins with"),
        (lambda: Drifting(GAUSSIAN, Gaussian()), "Drifting: drift"),  # type: ignore[arg-type]
        (lambda: Drifting(Bandit.with_means(Bernoulli(), [0.2, 0.5]), RandomWalk(0.1)), "are not all possible for Bernoulli"),
        (lambda: Drifting(Bandit.with_means(Bernoulli(), [0.2, 0.5]), Seasonal(9, 0.3)), "are not all possible for Bernoulli"),
        (lambda: Drifting(_Bonus(Gaussian(), [[0.0], [1.0]]), RandomWalk(0.1)), "_Bonus overrides step"),
        (lambda: Drifting(GAUSSIAN, RandomWalk(0.1, high=0.5)), "must begin between low and high"),
        (lambda: RandomWalk(0.1, low=1.0, high=0.0), "low must be below high"),
        (lambda: AbruptChanges(), "give either times"),
        (lambda: AbruptChanges(times=(0,)), "rounds from 1 upwards"),
        (lambda: AbruptChanges(rate=0.0), "rate must be a probability above 0"),
        (lambda: Seasonal(0, 1), "period must be"),
        (lambda: Aged(DoublingCounts(), 0), "rounds must be a whole number ≥ 1"),
    ],
)
def test_what_cannot_drift_is_refused(build, words):
    with pytest.raises(ConfigError, match=words):
        build()
