"""ULA and MALA against exact laws; every statistical test has a mutant that it finds."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from blts import random
from blts._module import array, module
from blts.errors import ConfigError
from blts.samplers import MALA, BlackJAX, Chain, Langevin, Potential, State, StepInfo, potential
from laws import LEVEL, gaussian_p, ks_p, second_moment_p
from targets import CHAINS, MU, PRECISION, QUADRATIC, SCALE, Logistic, rows_of, share, tempered


def iterate(kernel, target, x, steps, key=0):
    """All chains from one key."""

    def run(kernel, key, x):
        return jax.lax.fori_loop(
            0, steps, lambda i, state: kernel.step(random.fold_in(key, i), state, target)[0], kernel.init(x)
        ).position

    return np.asarray(share("flat", target, steps, run)(kernel, random.key(key), x))


# ULA on a Gaussian: the law after k steps is known, discretisation bias included

START, STEPS = 3.0, 6


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


# Coupled keys


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


# MALA leaves the target as it is

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
    step = jax.jit(lambda kernel, x: kernel.step(random.key(0), kernel.init(x), LOGISTIC)[1].acceptance)
    start = START_EXACT.astype(np.float32)[:, None]
    assert 0.999 < step(MALA(1e-4), start) <= 1
    assert 0 < step(MALA(30.0), start) < 0.7


def test_mala_refuses_a_minibatch_and_stays_where_the_target_is_not_a_number():
    with pytest.raises(ConfigError, match="MALA's acceptance test needs the full gradient; leave minibatch=None"):
        Chain(MALA(), minibatch=32)
    with pytest.raises(ConfigError, match="BlackJAX's acceptance test needs the full gradient; leave minibatch=None"):
        Chain(BlackJAX(tempered), minibatch=32)
    edge = Potential(lambda x: jnp.where(x[..., 0] > 0, x[..., 0], jnp.nan), lambda key, x: jnp.ones_like(x), jnp.ones(1))
    x = iterate(MALA(1.0), edge, jnp.ones((500, 1)), 20)
    assert (x > 0).all()
    assert ks_p(iterate(MALA(1.0), edge, jnp.ones((2000, 1)), 60), stats.expon.cdf) > LEVEL
