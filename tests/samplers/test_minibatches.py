"""Gradients of minibatches by enumeration, SGLD against its exact moments, and control variates."""

from __future__ import annotations

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, stats

from blts import _random, random
from blts.models import Gaussian, StudentT
from blts.samplers import Chain, Langevin, potential
from blts.samplers.chain import SCORING_ROWS
from blts.samplers.modes import find_modes, surface_of_rows
from laws import LEVEL, counts_p, gaussian_p, ks_p, mean_p, second_moment_p, variance_p
from targets import CHAINS, Logistic, rows_of, share


def iterate_lanes(kernel, target, x, steps, key=0):
    """Every chain with its own key and its own minibatches."""

    def run(kernel, keys, x):
        body = lambda key, x: jax.lax.fori_loop(  # noqa: E731
            0, steps, lambda i, state: kernel.step(random.fold_in(key, i), state, target)[0], kernel.init(x)
        )
        return jax.vmap(lambda key, x: body(key, x).position)(keys, x)

    return np.asarray(share("lanes", target, steps, run)(kernel, random.split(random.key(key), x.shape[0]), x))


# Minibatches of one, by enumeration


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


# Samples of the rows: where to look for modes, and the anchor of the control variate


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
        surface = surface_of_rows(model, rows, size)
        surface = surface if polish is None else surface._replace(polish=polish, sampled=False)
        return find_modes(surface, starts, model.prior_precision(), rows.n)

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


def test_masses_of_a_million_rows_are_compared_in_single_precision():
    """U of two modes differs by less than a nat; plain sums (the mutant), each some millions, by several more."""
    half = np.random.default_rng(3).normal(3, 0.5, 500_000).astype(np.float32)
    rewards = np.random.default_rng(4).permutation(np.concatenate([half, -half, np.float32([0.3])]))
    rows, model = rows_of(rewards), StudentT(prior_sd=3.0, scale=1.0)
    places = np.float32([[2.3], [-2.3]])
    right, left = (stats.t.logpdf(rewards.astype(float), 3, loc=float(x[0])).sum() for x in places)
    surface = surface_of_rows(model, rows, None)
    found = np.diff(jax.jit(jax.vmap(lambda x: surface.value(x, True)))(places))[0]
    assert found == pytest.approx(right - left, abs=0.6)  # two roundings of U
    plain = np.diff(jax.jit(jax.vmap(potential.from_rows(model, rows, jnp.ones(1)).value))(places))[0]
    assert abs(plain - (right - left)) > 2


# The control variate at n = 10⁵


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
    newton = lambda x, g: g / (1 / 9 + n / 3)  # noqa: E731
    anchor = jax.jit(lambda x: Chain(Langevin())._mode(model, rows, scale, newton, x))(np.float32([mode + 300 * sd]))
    assert abs(float(anchor[0]) - mode) < 0.1 * sd
    sample = potential.from_sample(model, rows, SCORING_ROWS, scale)
    slope = jax.jit(lambda x: sample.grad(None, x[None])[0])
    near = float(optimize.brentq(lambda x: float(slope(np.float32(x))), -1.0, 2.0))
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
