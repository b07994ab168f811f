"""Kernels, potentials, chains and beliefs against exact laws; every statistical test has a mutant that it finds."""

from __future__ import annotations

import dataclasses
from functools import cache, partial
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, optimize, stats

from blts import _random, random, theory
from blts._module import array, module
from blts._typing import Row
from blts.agents import Perturb, Pool, Thompson
from blts.agents.beliefs import split_rhat
from blts.errors import ConfigError
from blts.history import Log
from blts.models import Gaussian, GaussianUnknownVariance, StudentT
from blts.models.base import Model, Moments, stack
from blts.samplers import MALA, BlackJAX, Chain, Langevin, Potential, State, StepInfo, hmc, mala, nuts, potential, sgld, ula
from blts.samplers.chain import SCORING_ROWS
from laws import LEVEL, counts_p, gaussian_p, ks_p, mean_p, second_moment_p, variance_p

CHAINS = 20_000


@module
class Logistic(Model):
    """Rewards θ + Logistic noise, prior N(0, 3²): log-concave, not conjugate, no summary."""

    prior_sd: jax.Array = array(3.0)
    dim: ClassVar[int] = 1

    def init(self, key):
        return self.prior_sd * random.normal(key, (1,))

    def log_prior(self, theta):
        return -0.5 * jnp.square(theta[0] / self.prior_sd)

    def log_likelihood(self, theta, row):
        z = row.reward - theta[0]
        return -z - 2 * jax.nn.softplus(-z)

    def mean_reward(self, theta, obs, action):
        return theta[0]

    def information(self, theta):
        return jnp.full(1, 1 / 3)

    def prior_precision(self):
        return jnp.reshape(1 / self.prior_sd**2, (1,))


def row(action=0, reward=0.0):
    return Row((), jnp.asarray(action), jnp.asarray(reward, float))


def log_of(actions, rewards, arms: int, capacity: int | None = None) -> Log:
    """A full log at once; `Log.append` itself is tested in test_history."""
    actions, rewards = np.asarray(actions), np.asarray(rewards, np.float32)
    n = actions.size
    pad = (capacity or n) - n
    rank = np.array([np.sum(actions[:i] == a) for i, a in enumerate(actions)]) if arms > 1 else np.arange(n)
    counts = np.bincount(actions, minlength=arms)
    fill = lambda x: jnp.asarray(np.pad(x, (0, pad)))  # noqa: E731
    return Log(Row((), fill(actions), fill(rewards), ()), fill(rank), jnp.asarray(counts), jnp.asarray(0), jnp.asarray(n))


def moments_of(rewards) -> Moments:
    """Summaries of arms with one row of rewards each."""
    rewards = np.asarray(rewards, float)
    n = jnp.full(rewards.shape[0], rewards.shape[1])
    return Moments(n, n, jnp.asarray(rewards.mean(1)), jnp.asarray(rewards.var(1) * rewards.shape[1]), jnp.zeros(rewards.shape[0]))


def rows_of(rewards) -> potential.Rows:
    """The rows of one arm."""
    rewards = jnp.asarray(np.asarray(rewards, np.float32))
    n = jnp.asarray(rewards.shape[0])
    return potential.Rows(Row((), jnp.zeros(rewards.shape, int), rewards, ()), jnp.asarray(0), n, n)


def refresh(chain, key, model, theta, history):
    """`Chain.run` for one replication: theta is [arms, chains, dim]."""
    block = lambda tree: jax.tree.map(lambda x: jnp.asarray(x)[None], tree)  # noqa: E731
    n = history.counts if isinstance(history, Log) else history.rows
    return jax.tree.map(lambda x: x[0], chain.run(block(key), model, theta[None], block(history), n[None]))


_compiled: dict = {}


def _share(kind, target, steps, build):
    """One compilation for all kernels of a type on a target: their numbers are traced."""
    return _compiled.setdefault((kind, id(target), steps), (target, jax.jit(build)))[1]


def iterate_lanes(kernel, target, x, steps, key=0):
    """Every chain with its own key and its own minibatches."""

    def run(kernel, keys, x):
        body = lambda key, x: jax.lax.fori_loop(  # noqa: E731
            0, steps, lambda i, state: kernel.step(random.fold_in(key, i), state, target)[0], kernel.init(x)
        )
        return jax.vmap(lambda key, x: body(key, x).position)(keys, x)

    return np.asarray(_share("lanes", target, steps, run)(kernel, random.split(random.key(key), x.shape[0]), x))


def iterate(kernel, target, x, steps, key=0):
    """All chains from one key."""

    def run(kernel, key, x):
        return jax.lax.fori_loop(
            0, steps, lambda i, state: kernel.step(random.fold_in(key, i), state, target)[0], kernel.init(x)
        ).position

    return np.asarray(_share("flat", target, steps, run)(kernel, random.key(key), x))


# (a) ULA on a Gaussian: the law after k steps is known, discretisation bias included

MU, PRECISION, SCALE = np.array([1.0, -2.0]), np.array([1.0, 4.0]), np.array([1.0, 0.2])
START, STEPS = 3.0, 6
QUADRATIC = Potential(
    lambda x: 0.5 * jnp.sum(PRECISION * (x - MU) ** 2, -1), lambda key, x: PRECISION * (x - MU), jnp.asarray(SCALE)
)


def ula_law(steps: list[float]):
    """Mean and variance after ULA steps h_1, h_2, … from START."""
    mean, variance = np.full(2, START), np.zeros(2)
    for h in steps:
        shrink = 1 - h * SCALE * PRECISION
        mean, variance = MU + shrink * (mean - MU), shrink**2 * variance + 2 * h * SCALE
    return mean, np.sqrt(variance)


def ula_p(kernel, steps: list[float], target=QUADRATIC) -> float:
    x = iterate(kernel, target, jnp.full((CHAINS, 2), START), len(steps))
    mean, sd = ula_law(steps)
    return min(gaussian_p(x[:, j], mean[j], sd[j]) for j in range(2))


def decay(i):
    return 0.4 / (1.0 + i)


def test_ula_has_its_exact_law():
    assert ula_p(Langevin(0.3), [0.3] * STEPS) > LEVEL
    x = iterate(Langevin(0.3), QUADRATIC, jnp.full((CHAINS, 2), START), STEPS)
    mean, sd = ula_law([0.3] * STEPS)
    assert min(ks_p(x[:, j], stats.norm(mean[j], sd[j]).cdf) for j in range(2)) > LEVEL
    assert abs(stats.pearsonr(x[:, 0], x[:, 1])[0]) < 4 / np.sqrt(CHAINS)


def test_the_noise_follows_the_schedule():
    assert ula_p(Langevin(decay), [decay(i) for i in range(STEPS)]) > LEVEL


@module
class Wrong:
    """Langevin with the drift and the noise scale to choose."""

    step_size: object = array(0.3)
    drift: jax.Array = array(1.0)
    noise: object = None

    def init(self, theta):
        return State(theta, jnp.zeros((), int))

    def step(self, key, state, U):
        h = (self.step_size(state.iteration) if callable(self.step_size) else self.step_size) * U.scale
        noise = jnp.sqrt(2 * h) if self.noise is None else self.noise(h)
        x = state.position
        return State(x - self.drift * h * U.grad(key, x) + noise * random.normal(key, x.shape), state.iteration + 1), StepInfo(
            jnp.ones(())
        )


MUTANTS = {
    "temperature 5 % high": (Langevin(0.3, temperature=1.05), [0.3] * STEPS),
    "temperature 5 % low": (Langevin(0.3, temperature=0.95), [0.3] * STEPS),
    "noise √h": (Wrong(0.3, noise=jnp.sqrt), [0.3] * STEPS),
    "drift uphill": (Wrong(0.3, drift=-1.0), [0.3] * STEPS),
    "drift 3 % off": (Wrong(0.3, drift=1.03), [0.3] * STEPS),
    "noise frozen at the first step": (
        Wrong(decay, noise=lambda h: jnp.sqrt(2 * decay(0) * SCALE)),
        [decay(i) for i in range(STEPS)],
    ),
    "schedule one step late": (Langevin(lambda i: decay(jnp.maximum(i - 1, 0))), [decay(i) for i in range(STEPS)]),
    "continuous-time law": (Langevin(0.3), [0.003] * 100 * STEPS),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_ula_is_found(name):
    kernel, steps = MUTANTS[name]
    if name == "continuous-time law":  # the law without discretisation bias is not the law of the chain
        x = iterate(kernel, QUADRATIC, jnp.full((CHAINS, 2), START), STEPS)
        mean, sd = ula_law(steps)
        assert min(gaussian_p(x[:, j], mean[j], sd[j]) for j in range(2)) < LEVEL
    else:
        assert ula_p(kernel, steps) < LEVEL


def test_the_correct_copy_of_the_mutant_passes():
    assert ula_p(Wrong(0.3), [0.3] * STEPS) > LEVEL


# (b) Coupled keys


def test_temperature_zero_is_gradient_descent_exactly():
    kernel, x = Langevin(decay, temperature=0.0), jnp.full((5, 2), START)
    state = kernel.init(x)
    for i in range(STEPS):
        state, info = kernel.step(random.fold_in(random.key(0), i), state, QUADRATIC)
        h = decay(jnp.asarray(i)) * QUADRATIC.scale
        x = x - h * QUADRATIC.grad(None, x)
        assert (state.position == x).all()
        assert info.acceptance == 1
    assert int(state.iteration) == STEPS


def test_a_full_minibatch_is_the_full_gradient():
    rows, x, one = rows_of(np.random.default_rng(1).normal(1.0, 1.0, 21)), jnp.array([0.3]), jnp.ones(1)

    @jax.jit
    def gradients(key, rows):
        plain = [potential.from_minibatch(Logistic(), rows, size, one, few=size > 20).grad(key, x) for size in (20, 21, 30)]
        control = potential.from_control_variate(Logistic(), rows, 21, jnp.array([-1.0]), one, few=True).grad(key, x)
        plain += [potential.from_sample(Logistic(), rows, size, one).grad(key, x) for size in (21, 30)]
        return potential.from_rows(Logistic(), rows, one).grad(None, x), plain, control

    full, (smaller, *same), control = gradients(random.key(0), rows)
    np.testing.assert_allclose([*same], [full] * 4, rtol=1e-6)
    np.testing.assert_allclose(control, full, rtol=2e-5)
    assert abs(smaller - full) > 0.01
    again = gradients(random.key(1), rows)
    assert all(a == b for a, b in zip(again[1][1:], same, strict=True))  # nothing random is left
    assert again[1][0] != smaller
    _, plain, control = gradients(random.key(0), rows._replace(n=jnp.asarray(0)))
    np.testing.assert_allclose([*plain, control], np.full((6, 1), 0.3 / 9), rtol=1e-6)  # no data: the prior alone


# (c) Minibatches of one, by enumeration


def draws_of_gradient(U, x: float, key=0):
    g = jax.jit(jax.vmap(lambda key: U.grad(key, jnp.array([x]))))(random.split(random.key(key), CHAINS))
    return np.asarray(g, float)[:, 0]


@pytest.mark.parametrize("with_control", [False, True])
def test_minibatch_gradients_are_unbiased(with_control):
    rewards = np.array([-2.0, -1.1, 0.3, 0.35, 1.9, 2.4, 4.0])
    n, one = rewards.size, jnp.ones(1)
    # Another arm's rows lie on both sides in the shared store and must not be reached.
    rows = potential.Rows(rows_of([50.0, 60.0, *rewards, 70.0, 80.0]).store, jnp.asarray(2), jnp.asarray(n), jnp.asarray(n))
    score = lambda t: -np.tanh((rewards - t) / 2)  # noqa: E731
    if with_control:
        U = potential.from_control_variate(Logistic(), rows, 1, jnp.array([0.7]), one)
        expected = n * (score(-0.4) - score(0.7)) + np.sum(score(0.7)) - 0.4 / 9
    else:
        U = potential.from_minibatch(Logistic(), rows, 1, one)
        expected = n * score(-0.4) - 0.4 / 9
    g = draws_of_gradient(U, -0.4)
    # Every index gives its own value, so the values enumerate the minibatches of one.
    which = np.argmin(np.abs(g[:, None] - expected), axis=1)
    np.testing.assert_allclose(g, expected[which], rtol=1e-4, atol=1e-4)
    counts = np.bincount(which, minlength=n)
    assert (counts > 0).all()
    np.testing.assert_allclose(
        expected.mean(), potential.from_rows(Logistic(), rows, one).grad(None, jnp.array([-0.4]))[0], rtol=1e-5
    )
    assert counts_p(counts, np.full(n, 1 / n)) > LEVEL
    assert counts_p(counts, np.r_[np.full(n - 1, 1 / (n - 0.5)), 0.5 / (n - 0.5)]) < LEVEL  # an index drawn half as often


def test_minibatch_lanes_are_drawn_with_replacement_and_independently():
    rewards = np.array([0.0, 1.0, 10.0, 100.0])
    U = potential.from_minibatch(Gaussian(prior_sd=1e6, sd=1.0), rows_of(rewards), 2, jnp.ones(1))
    g = draws_of_gradient(U, 0.0, key=5)  # -(4/2) (r_i + r_j)
    values, weights = np.unique(np.add.outer(rewards, rewards).ravel() * -2.0, return_counts=True)
    counts = np.array([np.sum(np.abs(g - v) < 1e-3) for v in values])
    assert counts.sum() == CHAINS
    assert counts_p(counts, weights / 16) > LEVEL
    without = np.where(np.isin(values, -4.0 * rewards), 1e-9, weights)
    assert counts_p(counts, without / without.sum()) < LEVEL


def test_chains_and_steps_draw_their_own_minibatches():
    """No two lanes of a minibatch, chains or steps share indices: the numbers of a refresh are all different."""

    def numbers(c, i):
        key = random.split(random.fold_in(random.fold_in(random.key(0), c), i))[0]
        return jnp.stack([jnp.stack(_random.uniform_pair(key, j)) for j in range(16)])

    blocks = jax.jit(jax.vmap(lambda c: jax.vmap(lambda i: numbers(c, i))(jnp.arange(50))))(jnp.arange(40))
    u = np.asarray(blocks, float).reshape(40, 50, 32)
    assert ks_p(u, "uniform") > LEVEL
    for axis in range(3):
        a, b = np.moveaxis(u, axis, 0)[:-1].ravel(), np.moveaxis(u, axis, 0)[1:].ravel()
        assert abs(np.corrcoef(a, b)[0, 1]) < 4 / np.sqrt(a.size)
    assert np.unique(u).size > 0.99 * u.size


SGLD_N, SGLD_SIZE, SGLD_H, SGLD_STEPS = 64, 8, 0.3, 5


SGLD_REWARDS = np.random.default_rng(0).normal(1.0, 0.5, SGLD_N).astype(np.float32).astype(float)
SGLD_PRECISION = 1 / 4 + SGLD_N * 4.0


@cache
def sgld_target():
    return potential.from_minibatch(
        Gaussian(prior_mean=0.5, prior_sd=2.0, sd=0.5), rows_of(SGLD_REWARDS), SGLD_SIZE, jnp.full(1, 1 / SGLD_PRECISION)
    )


def sgld_p(kernel, *, factor=1.0, steps=SGLD_STEPS) -> float:
    """Against the exact mean and variance: the estimate's noise n²/(|D| σ⁴) · Var(X) adds to the injected one.

    The noise does not depend on θ for Gaussian rewards, so V ← (1 - hΛ)² V + h² v + 2h holds exactly at every step.
    `factor` is a mutant of the formula: 0 forgets the minibatch noise, (n - |D|)/(n - 1) is drawing without replacement.
    """
    mode = (0.5 / 4 + 4 * SGLD_REWARDS.sum()) / SGLD_PRECISION
    noise = factor * SGLD_N**2 / SGLD_SIZE * 16 * SGLD_REWARDS.var()
    h, start = SGLD_H / SGLD_PRECISION, mode + 0.3
    mean, variance = start, 0.0
    for _ in range(steps):
        mean, variance = mode + (1 - SGLD_H) * (mean - mode), (1 - SGLD_H) ** 2 * variance + h**2 * noise + 2 * h
    x = iterate_lanes(kernel, sgld_target(), jnp.full((CHAINS, 1), start), steps, key=1)[:, 0]
    return min(mean_p(x, mean, np.sqrt(variance)), second_moment_p(x, mean, variance))


def test_sgld_has_its_exact_moments():
    assert sgld_p(Langevin(SGLD_H)) > LEVEL
    assert sgld_p(Langevin(SGLD_H), steps=40) > LEVEL  # stationary


def test_a_wrong_sgld_is_found():
    assert sgld_p(Langevin(SGLD_H), factor=0.0) < LEVEL
    assert sgld_p(Langevin(SGLD_H), factor=(SGLD_N - SGLD_SIZE) / (SGLD_N - 1)) < LEVEL
    for temperature in (0.85, 1.15):  # a fifth of the variance is injected here; test_a_wrong_ula finds 5 %
        assert sgld_p(Langevin(SGLD_H, temperature=temperature)) < LEVEL
    assert sgld_p(Langevin(SGLD_H, temperature=0.0)) < LEVEL


# (d) Samples of the rows: where to look for modes, and the anchor of the control variate


@pytest.mark.parametrize("period", [2, 3, 7])
def test_a_sample_of_periodic_rewards_is_like_all_of_them(period):
    """Of rewards that repeat with the stride of evenly spaced rows, those (the mutant) are all alike."""
    rewards = np.tile(np.linspace(-3.0, 3.0, period), SCORING_ROWS)
    rows, x, one = rows_of(rewards), jnp.array([0.2]), jnp.ones(1)
    sampled = potential.from_sample(Logistic(), rows, SCORING_ROWS, one).grad(None, x)[0]
    scores = np.tanh((rewards - 0.2) / 2)
    error = len(rewards) * scores.std() / np.sqrt(SCORING_ROWS)
    exact = 0.2 / 9 - scores.sum()
    assert abs(float(sampled) - exact) < 4 * error
    assert abs(0.2 / 9 - period * scores[::period].sum() - exact) > 20 * error


def test_modes_looked_for_on_a_sample_are_those_of_all_rows():
    """Their places, widths and masses; on the sample alone (the mutant) one of the two has none."""
    half = np.random.default_rng(3).normal(3, 0.5, 1500)
    rewards = np.random.default_rng(4).permutation(np.concatenate([half, -half, [0.3]]))
    rows, model = rows_of(rewards), StudentT(prior_sd=3.0, scale=1.0)
    starts = jnp.linspace(-4.0, 4.0, 8)[:, None]

    def modes(size, polish: int | None = None):
        surface = potential.surface_of_rows(model, rows, size)
        surface = surface if polish is None else surface._replace(polish=polish, sampled=False)
        return potential.modes(surface, starts, model.prior_precision(), rows.n)

    def shares(found):
        """The masses right and left of 0, and where the modes are, in sds of the posterior there."""
        centre, share = np.asarray(found.white.centre[:, 0]), np.asarray(found.share)
        return share[centre > 0].sum(), np.sort(centre[share > 0]) / float(found.white.root[0, 0, 0])

    (right, at), (right_of_all, at_of_all) = shares(modes(SCORING_ROWS)), shares(modes(None))
    assert 0.05 < right_of_all < 0.95
    assert right == pytest.approx(right_of_all, abs=0.02)
    np.testing.assert_allclose(at, at_of_all, atol=0.05)
    (alone, _) = shares(modes(SCORING_ROWS, 0))
    assert min(alone, 1 - alone) < 1e-3


# (e) The control variate at n = 10⁵


def test_a_control_variate_keeps_the_law_where_a_plain_minibatch_does_not(record_property):
    n, h, chains = 100_000, 0.1, 4_000
    rewards = np.random.default_rng(3).logistic(0.4, 1.0, n)
    model = Logistic()
    score = lambda t: np.sum(np.tanh((rewards - t) / 2)) - t / 9  # noqa: E731
    mode = 0.4
    for _ in range(20):
        curvature = np.sum(0.5 / np.cosh((rewards - mode) / 2) ** 2) + 1 / 9
        mode += score(mode) / curvature
    sd = curvature**-0.5  # at this n the posterior is Gaussian to 1e-3

    rows, scale = rows_of(rewards), jnp.full(1, 1 / (1 / 9 + n / 3))
    theta = mode + sd * random.normal(random.key(9), (chains, 1))
    # Chain's own Fisher scoring finds the anchor from far away: by a sample of the rows, and one pass over all of them.
    curve = lambda x: jnp.full(1, 1 / 9 + n / 3)  # noqa: E731
    anchor = Chain(Langevin())._mode(model, rows, scale, curve, jnp.array([mode + 300 * sd]))
    assert abs(float(anchor[0]) - mode) < 0.1 * sd
    sample = potential.from_sample(model, rows, SCORING_ROWS, scale)
    near = float(optimize.brentq(lambda x: float(sample.grad(None, jnp.array([x]))[0]), -1.0, 2.0))
    assert 1 < abs(near - mode) / sd < 4 * np.sqrt(n / SCORING_ROWS)  # where the sample alone leads

    def ends(control_variate):
        U = (
            potential.from_control_variate(model, rows, 32, anchor, scale)
            if control_variate
            else potential.from_minibatch(model, rows, 32, scale)
        )
        return iterate_lanes(Langevin(h), U, theta, 80, key=4)[:, 0]

    fixed, plain = (np.asarray(ends(cv), float) for cv in (True, False))
    # The step is h/(prior precision + n/3), with 1/3 the expected and not the observed curvature.
    step = h * curvature / (1 / 9 + n / 3)
    bias = 1 / np.sqrt(1 - step / 2)  # ULA's own stationary sd, in posterior sds
    record_property("sd_ratio_control_variate", float(fixed.std() / sd))
    record_property("sd_ratio_plain", float(plain.std() / sd))
    print(
        f"n = {n}: sd / posterior sd = {fixed.std() / sd:.3f} with control variate (ULA {bias:.3f}), {plain.std() / sd:.2f} without"
    )
    assert gaussian_p((fixed - mode) / sd, 0.0, bias) > LEVEL
    # Without it the variance is 1 + (h/2) n Var(score)/(|D| · information) = 1 + h n / (2 |D|) times the posterior's: 12.5 sds.
    assert plain.std() / sd == pytest.approx(np.sqrt(1 + h * n / 64) * bias, rel=0.1)
    assert variance_p((plain - mode) / sd, bias) < 1e-100


def anchored_gradients(anchor: float, forget_prior: bool = False) -> tuple[np.ndarray, float]:
    """Draws of the control-variate gradient at 0.5, and the exact one. The mutant forgets ∇log λ at the anchor."""
    rows, one = rows_of(np.random.default_rng(5).logistic(0.4, 1.0, 200)), jnp.ones(1)
    exact = float(potential.from_rows(Logistic(), rows, one).grad(None, jnp.array([0.5]))[0])
    U = potential.from_control_variate(Logistic(), rows, 4, jnp.array([anchor]), one)
    lost = jax.grad(Logistic().log_prior)(jnp.array([anchor])) if forget_prior else 0.0
    return draws_of_gradient(U._replace(grad=lambda key, x: U.grad(key, x) - lost), 0.5, key=2), exact


def test_the_anchor_may_be_off_the_mode():
    """The control variate is unbiased around any anchor; only its variance depends on it."""
    sds = []
    for anchor in (0.5, 0.7, 3.0):
        g, exact = anchored_gradients(anchor)
        sds.append(g.std())
        assert abs(g.mean() - exact) < 4 * g.std() / np.sqrt(CHAINS) + 1e-3
    wrong, exact = anchored_gradients(0.5, forget_prior=True)
    assert abs(wrong.mean() - exact) > 4 * wrong.std() / np.sqrt(CHAINS) + 1e-3
    assert sds[0] < 1e-3 < sds[1] < sds[2]


# (f) MALA leaves the target as it is

LOGISTIC = Potential(
    lambda x: jnp.sum(x + 2 * jax.nn.softplus(-x), -1), lambda key, x: jnp.tanh(x / 2), jnp.ones(1)
)  # the logistic density, with heavier tails than a Gaussian
START_EXACT = np.log(1 / (1 - (np.arange(CHAINS) + 0.5) / CHAINS) - 1)  # its quantiles


@module
class WrongMALA:
    """MALA with the weight of its proposal correction, and the drift and the variance in it, to choose."""

    correction: jax.Array = array(1.0)
    drift: jax.Array = array(1.0)
    half: jax.Array = array(1.0)

    def init(self, theta):
        return State(theta, jnp.zeros((), int))

    def step(self, key, state, U):
        key_noise, key_accept = random.split(key)
        x, h = state.position, 2.5
        y = x - h * U.grad(key, x) + jnp.sqrt(2 * h) * random.normal(key_noise, x.shape)
        q = lambda to, at: -jnp.sum((to - at + self.drift * h * U.grad(key, at)) ** 2, -1) / (4 * h * self.half)  # noqa: E731
        ratio = U.value(x) - U.value(y) + self.correction * (q(x, y) - q(y, x))
        accept = jnp.log(random.uniform(key_accept, ratio.shape)) < ratio
        return State(jnp.where(accept[..., None], y, x), state.iteration + 1), StepInfo(jnp.mean(accept, dtype=float))


def mala_p(kernel) -> float:
    x = iterate(kernel, LOGISTIC, jnp.asarray(START_EXACT)[:, None], 8)[:, 0]
    # Starting on the quantiles themselves only makes the test stricter on a kernel that moves too little.
    return min(ks_p(x, stats.logistic.cdf), second_moment_p(x, 0.0, np.pi**2 / 3))


def test_mala_is_exact():
    assert mala_p(MALA(2.5)) > LEVEL
    assert mala_p(WrongMALA()) > LEVEL
    x = iterate(MALA(2.5), LOGISTIC, jnp.asarray(START_EXACT)[:, None], 8)[:, 0]
    assert abs(np.corrcoef(x, START_EXACT)[0, 1]) < 0.2  # it has moved


@pytest.mark.parametrize(
    "wrong",
    [
        WrongMALA(correction=0.0),
        WrongMALA(drift=-1.0),
        WrongMALA(half=0.5),
        WrongMALA(correction=-1.0),
        Langevin(2.5),
    ],
    ids=[
        "no proposal correction",
        "drift's sign flipped in the density",
        "variance h for 2h",
        "ratio upside down",
        "no acceptance",
    ],
)
def test_a_wrong_mala_is_found(wrong):
    assert mala_p(wrong) < LEVEL


def test_mala_reports_its_acceptance():
    _, info = MALA(1e-4).step(random.key(0), MALA(1e-4).init(jnp.asarray(START_EXACT)[:, None]), LOGISTIC)
    assert 0.999 < info.acceptance <= 1
    _, info = MALA(30.0).step(random.key(0), MALA(30.0).init(jnp.asarray(START_EXACT)[:, None]), LOGISTIC)
    assert 0 < info.acceptance < 0.7


def test_mala_refuses_a_minibatch_and_stays_where_the_target_is_not_a_number():
    with pytest.raises(ConfigError, match="MALA's acceptance test needs the full gradient; leave minibatch=None"):
        Chain(MALA(), minibatch=32)
    with pytest.raises(ConfigError, match="BlackJAX's acceptance test needs the full gradient; leave minibatch=None"):
        Chain(BlackJAX(tempered), minibatch=32)
    edge = Potential(lambda x: jnp.where(x[..., 0] > 0, x[..., 0], jnp.nan), lambda key, x: jnp.ones_like(x), jnp.ones(1))
    x = iterate(MALA(1.0), edge, jnp.ones((500, 1)), 20)
    assert (x > 0).all()
    assert ks_p(iterate(MALA(1.0), edge, jnp.ones((2000, 1)), 60), stats.expon.cdf) > LEVEL


# (g) Potentials agree


def brute(model, actions, rewards, a, theta):
    """-log posterior of one arm, term by term."""
    single = jax.tree.map(lambda leaf: jnp.asarray(leaf)[a], model)
    total = -single.log_prior(theta)
    for action, reward in zip(actions, rewards, strict=True):
        total = total - jnp.where(action == a, single.log_likelihood(theta, row(action, reward)), 0.0)
    return total


@pytest.mark.parametrize(
    "model",
    [Gaussian(prior_mean=[0.0, 1.0, 5.0], sd=0.7), GaussianUnknownVariance(prior_mean=[0.0, 1.0, 5.0])],
    ids=["known", "unknown"],
)
def test_potentials_from_rows_and_summaries_are_the_sum(model):
    model, rng = stack(model, 3), np.random.default_rng(2)
    actions = np.array([0, 2, 0, 0, 2, 2, 0, 2, 0])  # arm 1 is never played
    rewards = rng.normal(actions, 1.0).astype(np.float32)
    log = log_of(actions, rewards, 3, capacity=16)
    log = log._replace(rows=log.rows._replace(reward=log.rows.reward.at[9:].set(1e6)))  # beyond the cursor there may be anything
    summary = jax.vmap(lambda single: single.empty())(model)
    remember = jax.jit(ula().remember)
    for action, reward in zip(actions, rewards, strict=True):
        summary = remember(model, summary, row(action, reward), jnp.asarray(True))
    summary = remember(model, summary, row(1, 1e6), jnp.asarray(False))  # not live
    grouped, one = log.grouped(), jnp.ones(model.dim)

    @jax.jit
    def both(arm, x):
        single, own = (jax.tree.map(lambda leaf: jnp.asarray(leaf)[arm], tree) for tree in (model, summary))
        rows = potential.Rows(grouped.rows, grouped.start[arm], grouped.counts[arm], grouped.counts.max())
        exact = [potential.from_rows(single, rows, one), potential.from_summary(single, own, one)]
        exact += [potential.from_log_density(lambda x: -brute(model, actions, rewards, arm, x), one)]
        return [U.value(x) for U in exact], [
            U.grad(random.key(0), x) for U in (*exact, potential.from_minibatch(single, rows, 16, one, few=True))
        ]

    for arm in range(3):
        x = 0.5 * random.normal(random.fold_in(random.key(1), arm), (model.dim,))
        values, grads = both(arm, x)
        np.testing.assert_allclose(values, np.full(3, values[2]), rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(grads, np.broadcast_to(grads[2], (4, model.dim)), rtol=1e-4, atol=1e-3)


def test_a_minibatch_has_no_value():
    with pytest.raises(TypeError, match=r"minibatch potential has no exact value; use the full potential \(minibatch=None\)"):
        potential.from_minibatch(Logistic(), rows_of([1.0]), 1, jnp.ones(1)).value(jnp.zeros(1))


# (h) The theorem's settings


class TheoremEnd(NamedTuple):
    """Independent chain ends under Theorem 1's settings, from a start 60 posterior sds off, and what they are compared with."""

    ends: np.ndarray
    mean: float
    variance: float
    """The exact mean and variance of an end: the chain is linear here, and its minibatch noise has a known variance."""
    w2: float
    """The distance to the posterior, in posterior sds."""
    share: float
    """The same as a share of the theorem's bound."""

    @property
    def p(self) -> float:
        return min(mean_p(self.ends, self.mean, self.variance**0.5), second_moment_p(self.ends, self.mean, self.variance))


@cache
def theorem_end(n: int, chains: int = 1000, steps="theorem", temperature: float = 1.0, minibatch: int = 32) -> TheoremEnd:
    model = stack(Gaussian(prior_mean=0.0, prior_sd=100.0, sd=0.5), 1)  # flat enough: the theorem's m n + prior ≈ m n
    rewards = np.random.default_rng(n).normal(2.0, 0.5, n)
    chain = dataclasses.replace(sgld("theorem", steps, "theorem"), kernel=Langevin(1.0, temperature)).resolved(model)
    assert chain.minibatch == 32
    log = log_of([0] * n, rewards, 1)
    start = 2.0 + 60 * 0.5 / np.sqrt(n)
    theta = jnp.full((1, chains, 1), start)
    chain = dataclasses.replace(chain, minibatch=minibatch)
    ends = np.asarray(jax.jit(lambda: refresh(chain, random.key(n), model, theta, log)[0])(), float)[0, :, 0]

    seen, precision = rewards.astype(np.float32).astype(float), 1e-4 + 4 * n
    exact = stats.norm(4 * np.sum(seen) / precision, precision**-0.5)
    # x' - μ = (1 - hΛ)(x - μ) + √(2h) ξ + h ζ, and ζ has variance (4n)² Var(r)/32 where a minibatch of 32 is drawn.
    constants = theory.constants_of(model)
    h, k = float(theory.step_size(constants, jnp.array([n]))[0]), int(theory.iterations(constants, jnp.array([n]))[0])
    shrink, noise = 1 - h * precision, 2 * h + (n > 32) * (h * 4 * n) ** 2 * np.var(seen) / 32
    mean = exact.mean() + shrink**k * (start - exact.mean())
    variance = noise * (1 - shrink ** (2 * k)) / (1 - shrink**2)

    w2 = np.sqrt(np.mean((np.sort(ends) - exact.ppf((np.arange(chains) + 0.5) / chains)) ** 2))  # in one dimension, by quantiles
    bound = float(theory.wasserstein_bound(constants, n)[0])
    return TheoremEnd(ends, mean, variance, float(w2 / exact.std()), float(w2 / bound))


@pytest.mark.parametrize("n", [1, 64, 8192, *(pytest.param(n, marks=pytest.mark.slow) for n in (512, 131_072))])
def test_the_theorem_holds_at_its_settings(n, record_property):
    """The bound holds, and the constant minibatch alone explains the distance that is left: √(1 + n/2048) - 1 posterior sds."""
    found = theorem_end(n)
    record_property("w2_in_posterior_sds", found.w2)
    record_property("w2_over_bound", found.share)
    print(f"n = {n}: W2 = {found.w2:.3f} posterior sds, {found.share:.4f} of the bound, p = {found.p:.3g}")
    assert found.share < 1
    assert found.p > LEVEL
    if n > 32:  # the exact variance is near its limit: with hΛ = 1/32, in posterior variances, (1 + n/2048) / (1 - 1/64)
        assert found.variance * 4 * n == pytest.approx((1 + n / 2048) / (1 - 1 / 64), rel=0.05)


def test_a_wrong_chain_breaks_the_theorem():
    assert theorem_end(64, steps=10).share > 1  # not enough steps to come back from so far
    assert theorem_end(64, temperature=1.3).p < LEVEL
    assert theorem_end(8192, minibatch=24).p < LEVEL


@pytest.mark.slow
def test_a_smaller_minibatch_breaks_the_theorem():
    assert theorem_end(131_072, minibatch=24).p < LEVEL


def test_the_theorem_preset_has_the_papers_numbers():
    chain = sgld("theorem", "theorem", "theorem").resolved(stack(Gaussian(sd=0.5), 3))
    assert chain.minibatch == 32
    assert chain.scale == chain.steps == "theorem"
    with pytest.raises(
        ConfigError, match=r'"theorem" needs a model inside the theory, and Logistic is not: .* Give numbers instead\.'
    ):
        sgld("theorem").resolved(stack(Logistic(), 3))


# (i) Pools and their diagnostics


def one_refresh(belief, key, model, state, history):
    """`Belief.refresh` for one replication."""
    block = lambda tree: jax.tree.map(lambda x: jnp.asarray(x)[None], tree)  # noqa: E731
    return jax.tree.map(lambda x: x[0], jax.jit(belief.refresh)(block(key), model, block(state), block(history)))


def pool_refresh(chain, rewards, start=None, size=256, key=0):
    model = stack(Gaussian(prior_mean=0.0, prior_sd=1.0, sd=1.0), len(rewards))
    belief, summary = Pool(chain, size), moments_of(rewards)
    state = jax.jit(belief.init)(random.key(100 + key), model)
    state = state if start is None else state._replace(thetas=start)
    return one_refresh(belief, random.key(key), model, state, summary)


REWARDS = np.random.default_rng(8).normal([[1.0], [2.0]], 1.0, (2, 99))


def test_a_converged_pool_says_so():
    pool, info = pool_refresh(mala(0.9, steps=200), REWARDS)
    assert bool(info.finite)
    assert 1.0 <= info.rhat < 1.02
    assert info.ess == 256
    assert info.distance < 3 / np.sqrt(256) * np.sqrt(2)
    assert 0.7 < info.acceptance < 1
    law = stats.norm(REWARDS.sum(1) / 100, 0.1)
    assert min(ks_p(pool.thetas[a, :, 0], partial(stats.norm.cdf, loc=law.mean()[a], scale=0.1)) for a in range(2)) > LEVEL


def run_of_pool(chain, size):
    """R-hat and the effective number of draws of the whole run."""
    model, summary = stack(Gaussian(prior_mean=0.0, prior_sd=1.0, sd=1.0), len(REWARDS)), moments_of(REWARDS)
    thetas = jax.jit(Pool(chain, size).init)(random.key(100), model).thetas
    block = lambda tree: jax.tree.map(lambda x: jnp.asarray(x)[None], tree)  # noqa: E731
    counts = jnp.full((1, len(REWARDS)), REWARDS.shape[1])
    run = jax.jit(lambda: chain.run(random.key(0)[None], model, block(thetas), block(summary), counts)[1])
    return split_rhat(jax.tree.map(lambda x: x[0], run()))


@pytest.mark.slow
def test_ess_is_that_of_an_autoregression():
    """ULA on a Gaussian is AR(1) with ρ = 1 - h: the ESS of its mean is steps · (1 - ρ)/(1 + ρ)."""
    size, steps, h = 2000, 4000, 0.1
    expected = pytest.approx(size * (steps / 2) * h / (2 - h), rel=0.15)
    rhat, ess = run_of_pool(ula(h, steps=steps), size)
    assert float(jnp.min(ess)) == expected
    assert float(jnp.max(rhat)) == pytest.approx(1.0, abs=0.02)
    _, faster = run_of_pool(ula(1.5 * h, steps=steps), size)  # what a chain of other ρ has is told apart
    assert float(jnp.min(faster)) != expected


def test_an_unconverged_pool_says_so():
    _, info = pool_refresh(ula(0.001, steps=40), REWARDS)  # prior sd 1 around a posterior sd of 0.1, and hardly moved
    assert info.rhat > 2
    assert info.ess < 2 * 256
    assert info.distance > 1
    drifting = jnp.broadcast_to(jnp.linspace(4.0, 4.1, 256)[None, :, None], (2, 256, 1))
    _, info = pool_refresh(ula(0.02, steps=40), REWARDS, start=drifting)  # all chains on the same slope: the split finds it
    assert info.rhat > 1.5


def test_a_wrong_pool_is_at_a_distance():
    good = pool_refresh(mala(0.9, steps=100), REWARDS, size=2000)[1].distance
    hot = pool_refresh(Chain(Langevin(0.1, temperature=1.5), steps=100), REWARDS, size=2000)[1].distance
    assert good < 0.1
    assert float(hot) == pytest.approx(np.sqrt(1.5 / 0.95) - 1, abs=0.1)


def test_sgld_reports_its_distance_though_it_keeps_a_log():
    """The log carries the summary that the oracle needs: a pool of SGLD chains is as near as its minibatch noise allows."""
    model = stack(Gaussian(prior_mean=0.0, prior_sd=1.0, sd=1.0), 2)
    row_zero = row(0, 0.0)

    def distance(chain):
        belief = Pool(chain, 2000)
        history = belief.empty(model, row_zero, 2 * REWARDS.shape[1])
        remember = jax.jit(lambda history, r: belief.remember(model, history, r, jnp.asarray(True)))
        for a, rewards in enumerate(REWARDS):
            for r in rewards:
                history = remember(history, row(a, r))
        return float(one_refresh(belief, random.key(0), model, belief.init(random.key(1), model), history)[1].distance)

    # With 99 rewards in minibatches of 32 the variance is (1 + h n / (2 |D|)) / (1 - h/2) times the posterior's.
    assert distance(sgld(0.02, steps=300)) == pytest.approx(np.sqrt((1 + 0.02 * 99 / 64) / 0.99) - 1, abs=0.06)
    hot = Chain(Langevin(0.02, temperature=1.5), steps=300, minibatch=32)
    assert distance(hot) > 0.15


def test_divergence_is_flagged_and_not_raised():
    with np.errstate(all="ignore"):
        _, info = pool_refresh(ula(50.0, steps=60), REWARDS)
        assert not bool(info.finite)
        model = stack(Gaussian(), 2)
        belief = Perturb(ula(50.0, steps=60))
        _, info = one_refresh(belief, random.key(0), model, belief.init(random.key(1), model), moments_of(REWARDS))
        assert not bool(info.finite)
        _, info = pool_refresh(mala(50.0, steps=60), REWARDS)
        assert bool(info.finite)
        assert info.acceptance < 0.1


def test_split_rhat_is_the_textbook_formula():
    rng = np.random.default_rng(1)
    draws = rng.normal(size=(3, 6, 1, 50, 2)).cumsum(3)  # [arm, chain, …]: two halves of 25
    halves = draws.reshape(3, 6, 2, 25, 2)
    means, variances = halves.mean(3), halves.var(3, ddof=1)
    info = type("Info", (), {})()
    info.half_means, info.half_variances = jnp.asarray(means), jnp.asarray(variances)  # [arms, chains, 2, dim]
    info.half_steps = jnp.full((3, 6), 25.0)
    rhat, _ = split_rhat(info)
    between = 25 * means.reshape(3, 12, 2).var(1, ddof=1)
    within = variances.reshape(3, 12, 2).mean(1)
    np.testing.assert_allclose(rhat, np.sqrt((24 / 25 * within + between / 25) / within), rtol=1e-5)


def test_chain_moments_are_those_of_the_last_half():
    """The running moments equal those of the stored path, arm by arm with different numbers of steps."""
    model, summary = stack(Gaussian(), 2), moments_of(REWARDS)
    summary = summary._replace(rows=jnp.array([8, 20]))
    theta, key, limits = random.normal(random.key(0), (2, 3, 1)), random.key(1), (8, 20)
    _, info = refresh(Chain(Langevin(0.1), steps=lambda n: n), key, model, theta, summary)
    end = jax.jit(lambda k: refresh(Chain(Langevin(0.1), steps=lambda n: k + 0 * n), key, model, theta, summary)[0])
    path = np.stack([end(k) for k in range(1, 21)])
    for a, limit in enumerate(limits):
        quarter = limit // 4
        third, last = path[limit - 2 * quarter : limit - quarter, a], path[limit - quarter : limit, a]
        np.testing.assert_allclose(info.half_means[a], np.stack([third.mean(0), last.mean(0)], 1), rtol=1e-4)
        np.testing.assert_allclose(
            info.half_variances[a], np.stack([third.var(0, ddof=1), last.var(0, ddof=1)], 1), rtol=1e-3, atol=1e-6
        )
        assert (info.half_steps[a] == quarter).all()


# (j) Algorithm 2's perturbation


def test_the_spread_is_one_over_root_n_L_gamma():
    model = stack(Gaussian(sd=[0.5, 1.0, 2.0]), 3)
    for gamma in (1.0, 0.25):
        belief = Perturb(ula(), gamma)
        state = belief.init(random.key(0), model)._replace(n=jnp.array([1, 100, 7]))
        expected = 1 / np.sqrt(np.array([1 * 4, 100 * 1, 7 * 0.25]) * gamma)
        np.testing.assert_allclose(belief.spread(model, state)[:, 0], expected, rtol=1e-6)
    state = state._replace(n=jnp.array([1, 1, 1]))
    expected = np.sqrt(640 / np.array([4, 1, 0.25]))
    np.testing.assert_allclose(Perturb(ula(), "theorem").spread(model, state)[:, 0], expected, rtol=1e-5)


def test_draws_have_the_law_of_algorithm_2():
    model = stack(Gaussian(prior_mean=[0.0, 3.0], prior_sd=[1.0, 0.3], sd=0.5), 2)
    belief = Perturb(ula(), 0.5)
    state = belief.init(random.key(0), model)._replace(n=jnp.array([9, 0]))
    draw = jax.jit(jax.vmap(lambda key: belief.draw(key, model, state)))
    draws = np.asarray(draw(random.split(random.key(2), CHAINS)), float)[..., 0]
    sd = 1 / np.sqrt(9 * 4 * 0.5)
    assert gaussian_p(draws[:, 0], float(state.theta[0, 0]), sd) > LEVEL
    assert gaussian_p(draws[:, 1], 3.0, 0.3) > LEVEL  # no data: the prior, not the chain's start
    assert abs(np.corrcoef(draws.T)[0, 1]) < 4 / np.sqrt(CHAINS)
    assert gaussian_p(draws[:, 0], float(state.theta[0, 0]), 1 / np.sqrt(10 * 4 * 0.5)) < LEVEL  # n off by one
    assert gaussian_p(draws[:, 0], float(state.theta[0, 0]), 1 / np.sqrt(9 * 4)) < LEVEL  # γ forgotten
    assert gaussian_p(draws[:, 1], float(state.theta[1, 0]), 0.3) < LEVEL  # around one prior draw, kept for ever


@pytest.mark.parametrize(
    "belief",
    [Perturb(sgld(steps=80)), Perturb(ula(steps=80)), Pool(mala(steps=80), 4), Perturb(sgld(steps=80, control_variate=True))],
    ids=["sgld", "ula", "mala pool", "control variate"],
)
def test_unplayed_arms_receive_no_data(belief):
    """Only arm 1 is played, with rewards that nothing else explains; the other arms must not move."""
    agent = Thompson(Gaussian(prior_mean=[0.0, 0.0, 0.0], sd=0.5), belief)
    state = jax.jit(agent.init)(random.key(0))
    history = agent.empty(row(), 50)
    remember = jax.jit(agent.remember)
    for _ in range(40):
        history = remember(history, row(1, 30.0), jnp.asarray(True))
    new, info = one_refresh(agent.belief, random.key(1), agent.model, state, history)
    old_theta, new_theta = (s.theta if isinstance(belief, Perturb) else s.thetas for s in (state, new))
    assert (new_theta[jnp.array([0, 2])] == old_theta[jnp.array([0, 2])]).all()
    assert (jnp.abs(new_theta[1] - 30.0) < 3).all()
    assert bool(info.finite)
    assert new.n.tolist() == [0, 40, 0]


# BlackJAX kernels on the same potentials


def blackjax_p(chain, chains, model=None):
    model = stack(Gaussian(prior_mean=[0.0, 1.0], prior_sd=1.0, sd=0.5) if model is None else model, 2)
    rewards = np.random.default_rng(0).normal(0.7, 0.5, (2, 7)).astype(np.float32)
    history = moments_of(rewards) if isinstance(model, Gaussian) else log_of([0] * 7 + [1] * 7, rewards.ravel(), 2)
    ends, info = jax.jit(lambda theta: refresh(chain, random.key(1), model, theta, history))(
        random.normal(random.key(0), (2, chains, 1))
    )
    sd = (1 + 28) ** -0.5
    means = (np.array([0.0, 1.0]) + 4 * rewards.astype(float).sum(1)) / 29
    p = min(min(gaussian_p(x, mean, sd), ks_p(x, stats.norm(mean, sd).cdf)) for x, mean in zip(ends[..., 0], means, strict=True))
    return p, float(info.acceptance.mean())


@module
class RowsOnly(Model):
    """The Gaussian model without its summary, so that the potential is a sum over the log."""

    prior_mean: jax.Array = array(0.0)
    dim: ClassVar[int] = 1

    def full(self):
        return Gaussian(self.prior_mean, 1.0, 0.5)

    def log_prior(self, theta):
        return self.full().log_prior(theta)

    def log_likelihood(self, theta, row):
        return self.full().log_likelihood(theta, row)

    def information(self, theta):
        return jnp.full(1, 4.0)

    def prior_precision(self):
        return jnp.ones(1)


def tempered(log_density, scale):
    import blackjax

    return blackjax.hmc(lambda x: 1.05 * log_density(x), 0.7, scale, 3)


def tempered_nuts(log_density, scale):
    import blackjax

    return blackjax.nuts(lambda x: 1.15 * log_density(x), 0.8, scale)


def test_blackjax_hmc_has_the_posterior_law():
    pytest.importorskip("blackjax")
    p, acceptance = blackjax_p(hmc(0.7, leapfrogs=3, steps=25), CHAINS)
    assert p > LEVEL
    assert 0.9 < acceptance < 1
    assert blackjax_p(Chain(BlackJAX(tempered), steps=25), CHAINS)[0] < LEVEL


@pytest.mark.slow
def test_blackjax_nuts_has_the_posterior_law():
    pytest.importorskip("blackjax")
    p, acceptance = blackjax_p(nuts(0.8, steps=25), 4000, RowsOnly(prior_mean=[0.0, 1.0]))
    assert p > LEVEL
    assert 0.8 < acceptance < 1
    assert blackjax_p(Chain(BlackJAX(tempered_nuts), steps=25), 4000, RowsOnly(prior_mean=[0.0, 1.0]))[0] < LEVEL


def test_a_blackjax_kernel_without_an_acceptance_reports_one():
    pytest.importorskip("blackjax")
    import blackjax

    kernel = BlackJAX(
        lambda log_density, scale: blackjax.elliptical_slice(lambda x: 0.0 * log_density(x), mean=jnp.zeros(1), cov=scale)
    )
    state, info = kernel.step(
        random.key(0), kernel.init(jnp.zeros(1)), Potential(lambda x: jnp.sum(x), lambda key, x: jnp.ones(1), jnp.ones(1))
    )
    assert info.acceptance == 1
    assert state.position.shape == (1,)


def test_blackjax_says_what_to_install_and_what_it_needs(monkeypatch):
    with pytest.raises(ConfigError, match=r"BlackJAX: build must be a function \(log_density, scale\)"):
        BlackJAX("nuts")
    with pytest.raises(ConfigError, match="leapfrogs must be a whole number ≥ 1"):
        hmc(leapfrogs=0)
    kernel = BlackJAX(tempered)
    with pytest.raises(ConfigError, match=r"a kernel moves one chain of shape \(dim,\)"):
        kernel.step(random.key(0), kernel.init(jnp.zeros((5, 2))), QUADRATIC)
    monkeypatch.setitem(__import__("sys").modules, "blackjax", None)
    with pytest.raises(ConfigError, match=r'run pip install "blts\[blackjax\]"'):
        nuts()


# Settings that cannot be right


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: Langevin(-1.0), "Langevin: step_size must be > 0 and finite; got -1."),
        (lambda: Langevin(0.1, temperature=-1.0), "Langevin: temperature must be ≥ 0 and finite; got -1."),
        (lambda: MALA(0.0), "MALA: step_size must be > 0 and finite; got 0."),
        (lambda: ula(steps=0), "Chain: steps must be a whole number ≥ 1; got 0."),
        (lambda: sgld(minibatch=0), "Chain: minibatch must be a whole number ≥ 1; got 0."),
        (
            lambda: Chain(Langevin(), control_variate=True),
            "Chain: control_variate corrects a minibatch gradient; give minibatch too.",
        ),
        (lambda: sgld("fast"), "sgld: step_size must be a number, a schedule or \"theorem\"; got 'fast'."),
        (lambda: sgld(steps="many"), "Chain: steps must be a number or 'theorem'; got 'many'."),
        (lambda: Perturb(ula(), gamma=0.0), "Perturb: gamma must be > 0 and finite; got 0."),
        (lambda: Perturb(ula(), gamma="big"), "Perturb: gamma must be a number or an array of numbers or 'theorem'; got 'big'."),
        (lambda: Pool(ula(), 1), "Pool: size must be a whole number ≥ 2; got 1."),
    ],
)
def test_bad_settings_are_refused_in_a_sentence(build, sentence):
    with pytest.raises(ConfigError) as error:
        build()
    assert str(error.value) == sentence


def test_quadrature_agrees_with_a_pool_on_a_model_without_a_posterior():
    """The whole path for a non-conjugate model: log, full potential, MALA, pool."""
    rewards = np.random.default_rng(6).logistic(1.0, 1.0, 12)
    agent = Thompson(Logistic(), Pool(mala(1.0, steps=60), 4000), arms=2)
    history = agent.empty(row(), 12)
    remember = jax.jit(agent.remember)
    for r in rewards:
        history = remember(history, row(1, r), jnp.asarray(True))
    pool, info = one_refresh(agent.belief, random.key(0), agent.model, jax.jit(agent.init)(random.key(1)), history)
    density = lambda t: np.exp(-0.5 * (t / 3) ** 2 - np.sum((rewards - t) + 2 * np.log1p(np.exp(t - rewards))))  # noqa: E731
    grid = np.linspace(-3, 5, 4001)
    cdf = integrate.cumulative_trapezoid([density(t) for t in grid], grid, initial=0)
    assert ks_p(pool.thetas[1, :, 0], lambda t: np.interp(t, grid, cdf / cdf[-1])) > LEVEL
    assert ks_p(pool.thetas[0, :, 0], stats.norm(0, 3).cdf) > LEVEL
    assert info.rhat < 1.05  # each chain has its own step, and some are short
