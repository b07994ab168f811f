"""Delayed conversions: the correction's bias and coverage, the learned delays, and the regret that it recovers."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from blts import (
    Bandit,
    Bernoulli,
    ConfigError,
    Conversions,
    Delay,
    DelayByArm,
    Exact,
    Fixed,
    FixedDelay,
    Late,
    LostRewards,
    Sequential,
    Thompson,
    condition,
    random,
    sgld,
    simulate,
)
from blts._typing import Row
from blts.agents import Perturb
from blts.agents.conversions import Plays, seen_share

RUNS, ROUNDS, MEAN = 400, 240, 50
RATES = np.array([0.05, 0.2, 0.5])


def played(seed: int, mean: float = MEAN) -> Plays:
    """400 runs in which each of three arms is played in turn; conversions are late, and zeros are not told."""
    rng, arms = np.random.default_rng(seed), len(RATES)
    t = np.arange(ROUNDS + 1)
    action = np.broadcast_to(t % arms, (RUNS, ROUNDS + 1))
    delay = rng.geometric(1 / (1 + mean), (RUNS, ROUNDS + 1)) - 1
    told = (rng.random(delay.shape) < RATES[action]) & (t > 0) & (t + delay <= ROUNDS)
    came = np.stack([np.bincount(d[hit], minlength=ROUNDS + 1) for d, hit in zip(delay, told, strict=True)])
    ones = np.stack([np.bincount(a[hit], minlength=arms) for a, hit in zip(action, told, strict=True)])
    rows = Row((), jnp.asarray(action), jnp.asarray(told, float))
    counts = [jnp.asarray(x, float) for x in (came, ones, np.zeros_like(ones))]
    return Plays(rows, jnp.asarray(told), *counts, jnp.full(RUNS, ROUNDS))


class Outcome:
    """Bias and coverage of the posteriors Beta(1 + ones, 1 + zeros) over the runs, by arm."""

    def __init__(self, delay, plays: Plays):
        agent = Conversions(Thompson(Bernoulli(), Exact(), arms=len(RATES)), delay)
        counts = jax.vmap(agent._weighed)(plays)
        ones, zeros = np.asarray(counts.ones), np.asarray(counts.rows - counts.ones)
        estimate = ones / np.maximum(ones + zeros, 1)
        self.bias = (estimate.mean(0) - RATES) / RATES
        self.noise = estimate.std(0) / np.sqrt(RUNS) / RATES
        law = stats.beta(1 + ones, 1 + zeros)
        self.covered = ((law.ppf(0.025) <= RATES) & (law.ppf(0.975) >= RATES)).mean(0)

    @property
    def right(self) -> bool:
        """Bias within 3 standard errors and a hundredth of the rate; coverage of 95 % intervals at least 90 %."""
        return bool((np.abs(self.bias) < 3 * self.noise + 0.01).all() and (self.covered > 0.9).all())


@pytest.fixture(scope="module")
def plays() -> Plays:
    return played(0)


def test_bias_and_coverage_of_known_delays(plays):
    found = Outcome(f"geometric {MEAN}", plays)
    print("known: bias", found.bias.round(3), "coverage", found.covered)
    assert found.right


def test_bias_and_coverage_of_learned_delays(plays):
    """Delays beyond those that can have been seen are unknown: with 4.8 mean delays of history that leaves a small bias."""
    found = Outcome("learned", plays)
    print("learned: bias", found.bias.round(3), "coverage", found.covered)
    assert (np.abs(found.bias) < 0.06).all()
    assert (found.covered > 0.9).all()


@pytest.mark.parametrize("wrong", [None, f"geometric {MEAN / 2}", f"geometric {MEAN * 1.5}"], ids=str)
def test_silence_as_failure_and_wrong_delays_are_biased(plays, wrong):
    found = Outcome(wrong, plays)
    print(wrong, "bias", found.bias.round(3), "coverage", found.covered)
    assert not found.right


def product_limit(delay, age, s) -> float:
    """P(delay ≤ s) from conversions with these delays, of plays of these ages: the definition, one factor a delay."""
    out = 1.0
    for d in np.unique(delay[delay > s]):
        out *= 1 - (delay == d).sum() / ((delay <= d) & (age >= d)).sum()
    return out


def test_learned_delays_are_the_product_limit_estimate():
    rng, now = np.random.default_rng(2), 60
    t = np.arange(now + 1)
    delay = rng.geometric(1 / 20, now + 1)
    converted = (rng.random(now + 1) < 0.6) & (t > 0) & (t + delay <= now)
    came = np.bincount(delay[converted], minlength=now + 1)
    found = np.asarray(seen_share(jnp.asarray(came, float), jnp.asarray(converted), jnp.asarray(now)))
    mine, age = delay[converted], (now - t)[converted]
    np.testing.assert_allclose(found, [product_limit(mine, age, s) for s in range(now + 1)], rtol=1e-4)
    naive = np.cumsum(came) / came.sum()  # without the risk sets
    assert np.abs(found - naive).max() > 0.05


def test_learned_delays_tend_to_the_law(plays):
    shares = jax.vmap(seen_share)(plays.came, plays.told, plays.now)
    pooled, ages = np.asarray(shares).mean(0)[:100], np.arange(100)
    law = 1 - (1 + 1 / MEAN) ** -(ages + 1.0)
    relative = law / (1 - (1 + 1 / MEAN) ** -(ROUNDS + 0.0))
    assert np.abs(pooled - relative).max() < 0.03
    assert np.abs(pooled - law / law[-1]).max() > 0.03


def test_rows_of_a_log_add_up_to_the_weights(plays):
    few = jax.tree.map(lambda x: x[:8], plays)
    model = Bernoulli()
    sums, logs = (
        jax.vmap(Conversions(Thompson(model, belief, arms=len(RATES)), f"geometric {MEAN}")._weighed)(few)
        for belief in (Exact(), Perturb(sgld()))
    )
    ones = jax.vmap(lambda log: jnp.zeros(len(RATES)).at[log.rows.action].add(log.rows.reward))(logs)
    np.testing.assert_array_equal(ones, sums.ones)
    assert np.abs(np.asarray(logs.counts - sums.rows)).max() < 4
    assert np.asarray(logs.counts).sum() < ROUNDS * 8 * 0.95  # it is not all plays


class Swapped(Thompson):
    """An agent that takes every 1 for a 0."""

    def remember(self, history, row, live):
        return super().remember(history, row._replace(reward=1.0 - row.reward), live)


class SwappedBelief(Exact):
    """The same in a belief."""

    def remember(self, model, history, row, live):
        return super().remember(model, history, row._replace(reward=1.0 - row.reward), live)


class SwappedModel(Bernoulli):
    """The same in a model."""

    def add(self, summary, row):
        return super().add(summary, row._replace(reward=1.0 - row.reward))

    def log_likelihood_of(self, theta, summary):
        return super().log_likelihood_of(theta, summary)

    def draw(self, key, summary):
        return super().draw(key, summary)


OWN_MEMORIES = {
    "agent": Swapped(Bernoulli(), Exact(), arms=3),
    "belief": Thompson(Bernoulli(), SwappedBelief(), arms=3),
    "model": Thompson(SwappedModel(), Exact(), arms=3),
}


@pytest.mark.parametrize("name", OWN_MEMORIES)
def test_who_remembers_otherwise_is_told_row_by_row(plays, name):
    """The plays are counted as often as by weights, but for a few, and each 1 is a 0."""
    some = jax.tree.map(lambda x: x[:20], plays)
    swapped = jax.vmap(Conversions(OWN_MEMORIES[name], f"geometric {MEAN}")._weighed)(some)
    plain = jax.vmap(Conversions(Thompson(Bernoulli(), Exact(), arms=3), f"geometric {MEAN}")._weighed)(some)
    assert (np.asarray(swapped.rows - swapped.ones) == np.asarray(plain.ones)).all()
    silent = np.asarray(plain.rows - plain.ones)
    off = np.abs(np.asarray(swapped.ones) - silent)
    assert off.max() < 6
    assert off.mean() < 2
    assert silent.min() > 20
    late = Late(Bandit.with_means(Bernoulli(), RATES), 5, silence="zero")
    mine = simulate(0, late, Conversions(OWN_MEMORIES[name]), Fixed(50), horizon=200, replications=2)
    assert np.isfinite(mine.final_regret).all()


def test_without_delays_nothing_changes():
    parts = condition("bernoulli", "exact-ts", prior="uninformative")
    plain, wrapped = (
        simulate(0, parts.env, agent, Fixed(10), horizon=60, replications=10) for agent in (parts.agent, Conversions(parts.agent))
    )
    np.testing.assert_array_equal(plain.plays, wrapped.plays)


def recovered(correction, replications: int, horizon: int = 650) -> float:
    """Which share of the regret that silence as failure costs a correction saves."""
    parts = condition("bernoulli", "exact-ts", prior="uninformative")
    env = Late(parts.env, f"geometric {MEAN}", silence="zero")
    settings = {"horizon": horizon, "replications": replications, "times": [horizon]}
    mean = lambda env, agent: simulate(0, env, agent, Sequential(), **settings).final_regret.mean()  # noqa: E731
    none, off = mean(parts.env, parts.agent), mean(env, Conversions(parts.agent))
    on = mean(env, Conversions(parts.agent, correction))
    print(f"{correction}: {none:.2f} without delays, {off:.2f} uncorrected, {on:.2f} corrected")
    return (off - on) / (off - none)


@pytest.mark.slow
@pytest.mark.parametrize("correction", [f"geometric {MEAN}", "learned"])
def test_the_correction_recovers_more_than_half_of_the_regret(correction):
    assert recovered(correction, 1000) > 0.5


@pytest.mark.slow
def test_a_correction_for_other_delays_does_not():
    assert recovered(f"geometric {MEAN / 10}", 1000) < 0.5


class OwnDelay(Delay):
    """At most three rounds, each as likely."""

    def sample(self, key, obs, action):
        return jnp.floor(3 * random.uniform(key)).astype(int)


def with_shares(share_by):
    return type("Stated", (OwnDelay,), {"share_by": share_by})()


WRONG_SHARES = {
    "none": (OwnDelay(), "OwnDelay does not say which share of rewards has come; give it share_by"),
    "none within": (LostRewards(0.5, OwnDelay()), "OwnDelay does not say which share"),
    "none in the second": (DelayByArm((FixedDelay(1), LostRewards(0.5, OwnDelay()))), "OwnDelay does not say which share"),
    "None": (
        with_shares(lambda self, age, action: None),
        "share_by of Stated must return a number for each age; it returned no num",
    ),
    "shape": (with_shares(lambda self, age, action: jnp.ones(3)), r"each age; it returned an array of the shape \[3\] for ages of"),
    "above one": (with_shares(lambda self, age, action: 0.1 * age), "must return shares from 0 to 1 that do not decrease"),
    "what has not come": (with_shares(lambda self, age, action: jnp.exp(-0.1 * age)), "must return shares from 0 to 1 that do not"),
    "not a number": (with_shares(lambda self, age, action: jnp.log(age - 5.0)), "must return shares from 0 to 1 that do not"),
    "if": (with_shares(lambda self, age, action: 1.0 if age > 2 else 0.5), "use jnp.where in place of if"),
}


@pytest.mark.parametrize("name", WRONG_SHARES)
def test_shares_that_are_wrong_are_one_sentence(name):
    delay, words = WRONG_SHARES[name]
    with pytest.raises(ConfigError, match=f"^Conversions: .*{words}"):
        Conversions(Thompson(Bernoulli(), Exact(), arms=2), delay)


def test_shares_may_be_one_number():
    Conversions(Thompson(Bernoulli(), Exact(), arms=2), with_shares(lambda self, age, action: 1.0))
