"""Beliefs that forget, against posteriors that are computed by hand, by quadrature, or from the rows that are not forgotten."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from blts import (
    Bernoulli,
    Discounted,
    Exact,
    Gaussian,
    GaussianUnknownVariance,
    Laplace,
    LaplaceApproximation,
    LastLayer,
    Linear,
    Perturb,
    Poisson,
    Pool,
    Restarting,
    Thompson,
    Windowed,
    mala,
    random,
    sgld,
)
from blts._typing import Row
from blts.agents.beliefs.restarting import last_change
from blts.catalogue import models as _registered  # noqa: F401  registers the models
from blts.errors import ConfigError
from blts.models import stack
from blts.registry import build, entries
from compiling import optimised
from laws import LEVEL, counts_p, mean_p, second_moment_p

ARMS, FACTOR, WINDOW = 3, 0.9, 12
RNG = np.random.default_rng(3)
PLAYED = RNG.integers(0, 2, 40)  # the third arm is never played
NOISE = RNG.normal(size=40)


def told(belief, model, rewards, played=PLAYED, obs=None, refreshes=(), block=1):
    """The state of a belief after rounds, some of which wait in between, and after refreshes at some rounds and at the end."""
    model = stack(model, ARMS)
    belief = belief.check_model(model)
    shown = (lambda t: ()) if obs is None else (lambda t: jnp.asarray(obs[t]))
    rows = [
        Row(shown(t), jnp.asarray(int(a)), jnp.asarray(float(r)), ()) for t, (a, r) in enumerate(zip(played, rewards, strict=True))
    ]
    history = belief.empty(model, jax.tree.map(jnp.zeros_like, rows[0]), len(rows))
    state = jax.vmap(lambda key: belief.init(key, model))(random.split(random.key(1), block))
    remember, refresh = jax.jit(belief.remember), jax.jit(belief.refresh)

    def refreshed(key, state, history):
        many = jax.tree.map(lambda x: jnp.broadcast_to(x, (block, *x.shape)), history)
        return refresh(random.split(key, block), model, state, many)[0]

    for t, row in enumerate(rows, 1):
        history = remember(model, history, row, jnp.asarray(True))
        if t % 5 == 0:  # a replication that waits is told rounds that do not count
            history = remember(model, history, row._replace(reward=jnp.asarray(99.0)), jnp.asarray(False))
        if t in refreshes:
            state = refreshed(random.key(t), state, history)
    return belief, model, refreshed(random.key(0), state, history)


def laws(belief, model, state, obs=()):
    law = belief.laws(model, jax.tree.map(lambda x: x[0], state), obs)
    return np.stack([np.asarray(law.mean), np.asarray(law.sd)])


def weights(rows: int = 40) -> np.ndarray:
    return FACTOR ** np.arange(rows - 1, -1, -1)


# Conjugate posteriors with row weights, by hand


def gaussian_by_hand(rewards, w, model=None):
    out = []
    for a in range(ARMS):
        mine = w * (a == PLAYED)
        precision = 1 / 0.5**2 + mine.sum() / 0.7**2
        out.append(((0.3 / 0.5**2 + (mine * rewards).sum() / 0.7**2) / precision, precision**-0.5))
    return np.array(out).T


def bernoulli_by_hand(rewards, w):
    ones = [(w * (a == PLAYED) * rewards).sum() for a in range(ARMS)]
    zeros = [(w * (a == PLAYED) * (1 - rewards)).sum() for a in range(ARMS)]
    beta = [stats.beta(2 + one, 3 + zero) for one, zero in zip(ones, zeros, strict=True)]
    return np.array([[law.mean() for law in beta], [law.std() for law in beta]])


def poisson_by_hand(rewards, w):
    gamma = [stats.gamma(2 + (w * (a == PLAYED) * rewards).sum(), scale=1 / (1.5 + (w * (a == PLAYED)).sum())) for a in range(ARMS)]
    return np.array([[law.mean() for law in gamma], [law.std() for law in gamma]])


def unknown_variance_by_hand(rewards, w):
    """The mean of a Student law with 2a degrees of freedom, by the weighted sums of the normal-inverse-gamma update."""
    out = []
    for a in range(ARMS):
        mine = w * (a == PLAYED)
        n, weight, shape = mine.sum(), 1.0, 2.0
        mean = (mine * rewards).sum() / n if n else 0.0
        m2 = (mine * (rewards - mean) ** 2).sum()
        post_shape, post_weight = shape + n / 2, weight + n
        post_scale = 2.0 + 0.5 * m2 + 0.5 * weight * n / post_weight * (mean - 0.3) ** 2
        law = stats.t(2 * post_shape, (weight * 0.3 + n * mean) / post_weight, np.sqrt(post_scale / (post_shape * post_weight)))
        out.append((law.mean(), law.std()))
    return np.array(out).T


CONJUGATE = {
    "gaussian": (Gaussian(prior_mean=0.3, prior_sd=0.5, sd=0.7), 0.4 + 0.7 * NOISE, gaussian_by_hand),
    "bernoulli": (Bernoulli(a=2.0, b=3.0), (NOISE > 0).astype(float), bernoulli_by_hand),
    "poisson": (Poisson(a=2.0, b=1.5), np.floor(np.exp(NOISE)), poisson_by_hand),
    "unknown variance": (GaussianUnknownVariance(prior_mean=0.3), 0.4 + 0.7 * NOISE, unknown_variance_by_hand),
}


@pytest.mark.parametrize("name", CONJUGATE)
def test_a_discounted_posterior_is_the_conjugate_one_with_weights(name):
    model, rewards, by_hand = CONJUGATE[name]
    found = laws(*told(Discounted(Exact(), FACTOR), model, rewards))
    np.testing.assert_allclose(found, by_hand(rewards, weights()), rtol=2e-5)
    for wrong in (weights() / FACTOR, weights() * FACTOR, np.ones(40)):  # an age one too small, one too large, no age
        assert np.abs(found / by_hand(rewards, wrong) - 1).max() > 1e-3


class _TooFew(Windowed):
    """Forgets one row too few."""

    def empty(self, model, row, capacity):
        return Windowed.empty(dataclasses.replace(self, rounds=self.rounds + 1), model, row, capacity)


class _TooMany(Windowed):
    """Forgets one row too many."""

    def empty(self, model, row, capacity):
        return Windowed.empty(dataclasses.replace(self, rounds=self.rounds - 1), model, row, capacity)


@pytest.mark.parametrize("name", CONJUGATE)
def test_a_window_is_the_posterior_of_its_last_rounds(name):
    model, rewards, by_hand = CONJUGATE[name]
    inside = (np.arange(40) >= 40 - WINDOW).astype(float)
    by_hand_law = by_hand(rewards, inside)
    np.testing.assert_allclose(laws(*told(Windowed(Exact(), WINDOW), model, rewards)), by_hand_law, rtol=2e-5)
    for mutant in (_TooFew(Exact(), WINDOW), _TooMany(Exact(), WINDOW)):
        assert np.abs(laws(*told(mutant, model, rewards)) / by_hand_law - 1).max() > 1e-3


def test_a_window_longer_than_the_run_forgets_nothing():
    model, rewards, by_hand = CONJUGATE["gaussian"]
    np.testing.assert_allclose(laws(*told(Windowed(Exact(), 100), model, rewards)), by_hand(rewards, np.ones(40)), rtol=2e-5)


@pytest.mark.parametrize("belief", [Discounted(Exact(), FACTOR), Windowed(Exact(), WINDOW)], ids=["discounted", "windowed"])
def test_ages_count_in_rounds_whatever_batches_end(belief):
    model, rewards, _ = CONJUGATE["gaussian"]
    once = laws(*told(belief, model, rewards))
    np.testing.assert_array_equal(once, laws(*told(belief, model, rewards, refreshes=(1, 2, 10, 33))))


SUMMARISED = [name for name, entry in entries("model").items() if not entry.about.get("contextual") and entry.build().has_summary]


@pytest.mark.parametrize("name", SUMMARISED)
def test_a_scaled_summary_has_a_scaled_likelihood(name):
    """For every registered model: the log-likelihood of a faded summary with one more row, at several θ."""
    model = build("model", name)
    rewards = jax.vmap(lambda key: model.sample(key, model.init(random.key(5)), (), 0))(random.split(random.key(2), 9))
    row = lambda r: Row((), jnp.asarray(0), r, ())  # noqa: E731
    summary = model.empty()
    for reward in rewards[:8]:
        summary = model.add(summary, row(reward))
    faded = model.add(summary.scaled(0.25), row(rewards[8]))
    thetas = jax.vmap(model.init)(random.split(random.key(4), 6))
    found = np.array([model.log_likelihood_of(theta, faded) for theta in thetas])
    each = np.array([[model.log_likelihood(theta, row(r)) for r in rewards] for theta in thetas])
    expected = each @ np.array([0.25] * 8 + [1.0])
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=1e-3)
    assert np.abs(found - each.sum(1)).max() > 0.05


# Contexts


def linear_by_hand(rewards, x, w):
    out = []
    for a in range(ARMS):
        mine = w * (a == PLAYED)
        precision = np.eye(2) + (mine[:, None] * x).T @ x / 0.5**2
        mean = np.linalg.solve(precision, (mine[:, None] * x).T @ rewards / 0.5**2)
        out.append((x[0] @ mean, np.sqrt(x[0] @ np.linalg.solve(precision, x[0]))))
    return np.array(out).T


@pytest.mark.parametrize(
    ("belief", "w"),
    [
        (Discounted(Exact(), FACTOR), weights()),
        (Discounted(LaplaceApproximation(), FACTOR), weights()),
        (Windowed(Exact(), WINDOW), (np.arange(40) >= 28).astype(float)),
        (Windowed(LaplaceApproximation(), WINDOW), (np.arange(40) >= 28).astype(float)),
    ],
    ids=lambda value: str(value)[:24] if isinstance(value, Discounted | Windowed) else "",
)
def test_linear_contexts_are_forgotten_too(belief, w):
    x = np.random.default_rng(8).normal(size=(40, 2))
    rewards = x @ [0.5, -1.0] + 0.5 * NOISE
    belief, model, state = told(belief, Linear(prior_mean=[0.0, 0.0], sd=0.5), rewards, obs=x)
    found = laws(belief, model, state, jnp.broadcast_to(jnp.asarray(x[0]), (ARMS, 2)))
    by_hand = linear_by_hand(rewards, x, w)
    np.testing.assert_allclose(found, by_hand, rtol=1e-3, atol=1e-4)
    assert np.abs(found - linear_by_hand(rewards, x, np.ones(40))).max() > 0.01


# Chains: the rows themselves, with weights


def laplace_by_quadrature(rewards, w, arm):
    """Mean and sd of θ, prior N(0, 2²), Laplace rewards of scale 0.5 with weights."""
    grid = np.linspace(-4, 4, 40001)
    mine = w * (arm == PLAYED)
    log = -0.5 * (grid / 2) ** 2 - np.abs(rewards[mine > 0, None] - grid).T @ mine[mine > 0] / 0.5
    p = np.exp(log - log.max())
    p /= p.sum()
    mean = (p * grid).sum()
    return mean, np.sqrt((p * (grid - mean) ** 2).sum())


@pytest.mark.parametrize("kind", ["discounted", "windowed"])
def test_pools_draw_from_what_is_not_forgotten(kind):
    rewards = 0.4 + 0.7 * NOISE + np.where(np.arange(40) > 20, 1.0, 0.0)
    pool = Pool(mala(steps=120), 2000)
    belief = Discounted(pool, FACTOR) if kind == "discounted" else Windowed(pool, WINDOW)
    w = weights() if kind == "discounted" else (np.arange(40) >= 28).astype(float)
    belief, model, state = told(belief, Laplace(prior_mean=0.0, prior_sd=2.0, scale=0.5), rewards)
    members = np.asarray(belief.members(jax.tree.map(lambda x: x[0], state)))[:, :, 0]
    for arm in (0, 1):
        mean, sd = laplace_by_quadrature(rewards, w, arm)
        assert mean_p(members[arm], mean, sd) > LEVEL
        assert second_moment_p(members[arm], mean, sd**2) > LEVEL
        wrong, wrong_sd = laplace_by_quadrature(rewards, np.ones(40), arm)
        assert mean_p(members[arm], wrong, wrong_sd) < LEVEL
    drawn = jax.vmap(lambda key: belief.draw(key, model, jax.tree.map(lambda x: x[0], state)))(random.split(random.key(9), 2000))
    assert stats.kstest(np.asarray(drawn)[:, 2, 0] / 2, "norm").pvalue > LEVEL  # the arm that was not played draws its prior


def test_chains_on_weighted_rows_have_the_law_of_langevin_steps():
    """Steps of h = 0.2 in units of the discounted posterior leave the variance Σ/(1 - h/2), whatever the number of rows."""
    model, rewards, by_hand = CONJUGATE["gaussian"]
    chain = sgld(step_size=0.2, steps=60, minibatch=64)  # more than there are rows: the gradient itself
    _, _, state = told(Discounted(Perturb(chain), FACTOR), model, rewards, block=8000)
    mean, sd = by_hand(rewards, weights())
    for arm in (0, 1):
        ends = np.asarray(state.theta)[:, arm, 0]
        right, as_if_rows_counted_one = sd[arm] / np.sqrt(0.9), sd[arm] / np.sqrt(0.97)
        assert mean_p(ends, mean[arm], right) > LEVEL
        assert second_moment_p(ends, mean[arm], right**2) > LEVEL
        assert second_moment_p(ends, mean[arm], as_if_rows_counted_one**2) < LEVEL
        n = (weights() * (arm == PLAYED)).sum()
        np.testing.assert_allclose(np.asarray(state.n)[:, arm], n, rtol=2e-3)  # up to rows of a weight below 1/1000


def test_draws_around_a_chain_end_are_no_wider_than_the_prior():
    """An arm that was last played long ago: 1/√(n L) alone would be 30 sds of a reward."""
    played = np.r_[0, np.ones(39, int)]
    belief, model, state = told(Discounted(Perturb(sgld()), 0.85), CONJUGATE["gaussian"][0], np.zeros(40), played=played)
    sd = laws(belief, model, state)[1]
    assert 0.49 < sd[0] <= 0.5
    assert sd[2] == np.float32(0.5)


@pytest.mark.parametrize(
    "belief",
    [
        Discounted(Exact(), FACTOR),
        Windowed(Exact(), WINDOW),
        Restarting(Exact()),
        Discounted(Perturb(sgld()), FACTOR),
        Windowed(Pool(mala(), 64), WINDOW),
        Restarting(Pool(mala(), 64)),
    ],
    ids=lambda belief: f"{type(belief).__name__} {type(belief.belief).__name__}",
)
def test_propensities_are_the_frequencies_of_actions(belief):
    model, rewards, _ = CONJUGATE["gaussian"]
    agent = Thompson(model, belief, ARMS)
    _, _, state = told(agent.belief, model, rewards)
    one = jax.tree.map(lambda x: x[0], state)
    p = np.asarray(agent.propensities(one))
    act = jax.jit(jax.vmap(lambda key: agent.act(key, one, (), None)))
    counts = np.bincount(np.asarray(act(random.split(random.key(7), 20000))), minlength=ARMS)
    closed = belief.belief.__class__ is not Pool
    assert counts_p(counts, p) > (LEVEL if closed else 0)
    assert np.abs(counts / 20000 - p).max() < 0.02
    assert counts_p(counts, np.roll(p, 1)) < LEVEL


# Restarts


def change_by_hand(rewards, alarm, least):
    """The definition, split by split."""
    n, best, place = len(rewards), -np.inf, 0
    total = ((rewards - rewards.mean()) ** 2).sum()
    for s in range(least, n - least + 1):
        within = sum(((part - part.mean()) ** 2).sum() for part in (rewards[:s], rewards[s:]))
        extra = 4 * total / n
        ratio = n / 2 * np.log((total + extra) / (within + extra))
        if ratio > best:
            best, place = ratio, s
    return place if best > 1.5 * np.log(n) - np.log(alarm) else 0


def test_changes_are_found_where_the_definition_has_them():
    rng = np.random.default_rng(0)
    for size in (0.0, 1.0, 3.0):
        rewards = rng.normal(size=60) + np.where(np.arange(60) >= 37, size, 0.0)
        found = int(last_change(jnp.asarray(rewards), jnp.ones(60, bool), 0.01, 5))
        assert found == change_by_hand(rewards, 0.01, 5)
    assert found == 37  # the largest change


def test_a_changed_arm_forgets_what_is_before_the_change():
    played = np.tile([0, 1], 40)
    rewards = 0.1 * RNG.normal(size=80) + np.where((played == 0) & (np.arange(80) >= 40), 3.0, 0.0)
    model = Gaussian(prior_mean=0.0, prior_sd=1.0, sd=0.1)

    def of(belief):
        belief, stacked, state = told(belief, model, rewards, played=played, refreshes=(30, 60))
        return laws(belief, stacked, state), np.asarray(state.start)[0]

    found, start = of(Restarting(Exact(), least=5))
    assert start[1:].tolist() == [0, 0]
    assert 39 <= start[0] <= 40
    precision = np.array([1 + 20 / 0.01, 1 + 40 / 0.01, 1.0])
    late = np.where(np.arange(80) >= 40, 1.0, 0.0)
    sums = np.array([(rewards * (played == 0) * late).sum(), (rewards * (played == 1)).sum(), 0.0]) / 0.01
    np.testing.assert_allclose(found, np.stack([sums / precision, precision**-0.5]), rtol=1e-4, atol=1e-6)
    everywhere, start = of(Restarting(Exact(), least=5, everywhere=True))
    assert len(set(start.tolist())) == 1
    assert start[0] >= 39
    assert everywhere[1][1] > found[1][1]


def alarms(draw, alarm, threshold=None, runs=2000, rounds=300):
    """The share of runs with an alarm at any of the refreshes after 10, 20, … rounds."""
    rewards = jnp.asarray(draw(np.random.default_rng(1), (runs, rounds)))

    def ever(one):
        at = lambda n: last_change(one, jnp.arange(rounds) < n, alarm if threshold is None else threshold(n, alarm), 20) > 0  # noqa: E731
        return jnp.any(jax.vmap(at)(jnp.arange(10, rounds + 1, 10)))

    with optimised():
        return float(np.mean(jax.jit(jax.vmap(ever))(rewards)))


@pytest.mark.parametrize(
    "draw",
    [lambda rng, shape: rng.normal(size=shape), lambda rng, shape: (rng.uniform(size=shape) < 0.02).astype(float)],
    ids=["gaussian", "rare clicks"],
)
def test_false_alarms_are_as_rare_as_asked_for(draw):
    for alarm in (0.01, 0.1):
        assert alarms(draw, alarm) <= alarm + 3 * np.sqrt(alarm * (1 - alarm) / 2000)
    # The mutant: a threshold that does not grow with the number of rewards.
    assert alarms(draw, 0.1, lambda n, alarm: alarm * n**1.5) > 0.1 + 3 * np.sqrt(0.09 / 2000)


# Refusals


@pytest.mark.parametrize(
    ("build_it", "words"),
    [
        (lambda: Windowed(Exact(), 0), "rounds must be a whole number ≥ 1"),
        (lambda: Discounted(Exact(), 1.0), "factor must be above 0 and below 1; got 1"),
        (lambda: Restarting(Exact(), 0.0), "alarm must be a probability"),
        (lambda: Windowed(sgld(), 5), "Windowed: belief"),
        (lambda: Thompson(Gaussian(), Discounted(Windowed(Exact(), 5)), 2), "does not weigh its rewards; use Windowed"),
        (lambda: Thompson(Linear(prior_mean=[0.0]), Restarting(Exact()), 2), "change with what a round shows"),
        (lambda: Thompson(build("model", "network", inputs=2), Discounted(LastLayer()), 2), "LastLayer does not weigh"),
    ],
)
def test_what_cannot_be_forgotten_is_refused(build_it, words):
    with pytest.raises(ConfigError, match=words):
        build_it()
