"""BAOAB and the exponential integrator against their exact laws; every statistical test has a mutant that it finds."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import linalg, stats

from blts import _random, random, samplers
from blts._module import array, module
from blts.errors import ConfigError
from blts.models import Gaussian
from blts.samplers import BAOAB, Chain, ExponentialIntegrator, Langevin, Sampler, laws, potential
from blts.samplers.exponential import _lag, _spread
from laws import LEVEL, gaussian_p, ks_p, mean_p, second_moment_p
from targets import CHAINS, MU, PRECISION, QUADRATIC, SCALE, Logistic, log_of, refresh, rows_of, share

START, STEPS, STEP, FRICTION = 3.0, 6, 0.7, 1.3
KERNELS = {"baoab": (BAOAB, laws.baoab), "exponential": (ExponentialIntegrator, laws.exponential)}


def iterate(kernel, target, x, steps=STEPS, key=0):
    """All chains from one key."""

    def run(kernel, key, x):
        return jax.lax.fori_loop(0, steps, lambda i, s: kernel.step(random.fold_in(key, i), s, target)[0], kernel.init(x)).position

    return np.asarray(share("flat", target, steps, run)(kernel, random.key(key), x))


def decay(i):
    return 0.9 / (1.0 + i)


# The laws themselves


def test_the_law_of_langevin_is_the_textbook_recursion():
    mean, variance = START - MU, np.zeros(2)
    for _ in range(STEPS):
        shrink = 1 - 0.3 * PRECISION
        mean, variance = shrink * mean, shrink**2 * variance + 0.6
    np.testing.assert_allclose(laws.langevin(PRECISION, 0.3).after(STEPS, START - MU, 0.0), (mean, variance), rtol=1e-12)


@pytest.mark.parametrize("precision", [0.0, 1.0, 4.0])
def test_the_exponential_integrator_solves_its_equation(precision):
    """Van Loan's matrix exponential of the linear equation with the force -λx₀ as a third, constant coordinate."""
    h, γ = STEP, FRICTION
    drift = np.array([[0.0, 1.0, 0.0], [0.0, -γ, 1.0], [0.0, 0.0, 0.0]])
    diffusion = np.diag([0.0, 2 * γ, 0.0])
    block = linalg.expm(h * np.block([[-drift, diffusion], [np.zeros((3, 3)), drift.T]]))
    flow = block[3:, 3:].T
    step = laws.exponential(precision, h, γ)
    np.testing.assert_allclose(step.matrix, flow[:2, :2] - precision * np.outer(flow[:2, 2], [1.0, 0.0]), rtol=1e-10)
    np.testing.assert_allclose(step.noise, (flow @ block[:3, 3:])[:2, :2], rtol=1e-10)


def test_baoab_has_no_bias_in_positions_on_a_gaussian():
    """The exponential integrator has one, and so has Langevin."""
    far = 4000
    assert laws.baoab(2.0, 0.9, 0.7).after(far, 1.0, 1.0)[1] == pytest.approx(0.5, rel=1e-9)
    assert laws.exponential(2.0, 0.9, 0.7).after(far, 1.0, 1.0)[1] > 0.55
    assert laws.langevin(2.0, 0.3).after(far, 1.0, 1.0)[1] == pytest.approx(0.5 / 0.7, rel=1e-9)


@pytest.mark.parametrize(
    ("law", "condition", "steps", "h", "friction"),
    [
        (laws.langevin, 1, 9, np.geomspace(0.05, 1.9, 400), None),
        (laws.langevin, 100, 221, np.geomspace(0.002, 0.019, 400), None),
        (laws.exponential, 1, 6, np.geomspace(0.2, 1.0, 40), np.geomspace(0.5, 4.0, 40)),
        (laws.baoab, 1, 2, np.geomspace(0.5, 1.9, 40), np.geomspace(0.5, 8.0, 40)),
        (laws.baoab, 10, 5, np.geomspace(0.3, 0.63, 40), np.geomspace(0.5, 8.0, 40)),
        (laws.baoab, 100, 13, np.geomspace(0.1, 0.2, 40), np.geomspace(0.5, 8.0, 40)),
    ],
)
def test_gradients_that_a_refresh_takes(law, condition, steps, h, friction):
    """From N(1 sd, 2Σ) to a tenth of an sd a coordinate, with the best step and friction: so many steps, and not one fewer."""
    precision = np.geomspace(1.0, condition, 20)[:, None, None]
    setting = (h[:, None],) if friction is None else (h[:, None], friction)

    def least_error(steps: int) -> float:
        with np.errstate(all="ignore"):
            mean, variance = law(precision, *setting).after(steps, precision**-0.5, 2 / precision)
            squares = precision * mean**2 + (np.sqrt(precision * variance) - 1) ** 2
        return float(np.nanmin(np.sqrt(squares.mean(0))))

    assert least_error(steps) <= 0.1 < least_error(steps - 1)


@pytest.mark.parametrize("a", [1e-4, 1e-2, 0.3, 0.499, 0.5, 2.0, 20.0])
def test_coefficients_do_not_cancel_in_single_precision(a):
    exact = np.longdouble(np.float32(a))
    for ours, formula in ((_lag, exact - 1 + np.exp(-exact)), (_spread, 2 * exact - 3 + 4 * np.exp(-exact) - np.exp(-2 * exact))):
        assert float(ours(np.float32(a))) == pytest.approx(float(formula), rel=3e-6 if a > 1e-3 else 1e-3)
    plain = np.float32(2) * np.float32(0.01) - 3 + 4 * np.exp(-np.float32(0.01)) - np.exp(-2 * np.float32(0.01))
    assert abs(plain / float(_spread(np.float32(0.01))) - 1) > 0.01  # the mutant


# The kernels against them: 20,000 chains


def law_after(name: str, steps: list[float], frictions: list[float]):
    """Mean and sd of x after these steps from START; z = (x - MU)/√SCALE has the precision PRECISION · SCALE."""
    of = KERNELS[name][1]
    whole = None
    for h, γ in zip(steps, frictions, strict=True):
        step = of(PRECISION * SCALE, h, γ)
        whole = step if whole is None else whole.then(step)
    assert whole is not None
    mean, variance = whole.after(1, (START - MU) / np.sqrt(SCALE), 0.0)
    return MU + np.sqrt(SCALE) * mean, np.sqrt(SCALE * variance)


def law_p(name: str, kernel, steps=(STEP,) * STEPS, frictions=(FRICTION,) * STEPS) -> float:
    x = iterate(kernel, QUADRATIC, jnp.full((CHAINS, 2), START), len(steps))
    mean, sd = law_after(name, list(steps), list(frictions))
    return min(gaussian_p(x[:, j], mean[j], sd[j]) for j in range(2))


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_has_its_exact_law(name):
    make = KERNELS[name][0]
    assert law_p(name, make(STEP, FRICTION)) > LEVEL
    x = iterate(make(STEP, FRICTION), QUADRATIC, jnp.full((CHAINS, 2), START))
    mean, sd = law_after(name, [STEP] * STEPS, [FRICTION] * STEPS)
    assert min(ks_p(x[:, j], stats.norm(mean[j], sd[j]).cdf) for j in range(2)) > LEVEL
    assert abs(stats.pearsonr(x[:, 0], x[:, 1])[0]) < 4 / np.sqrt(CHAINS)
    schedule = [decay(i) for i in range(STEPS)]
    assert law_p(name, make(decay, FRICTION), schedule) > LEVEL
    assert law_p(name, make(STEP, decay), frictions=schedule) > LEVEL


@module
class Wrong(Sampler):
    """A kernel of this file with its velocity at the start, its noise or its kicks changed."""

    inner: Sampler
    start: str = "drawn"
    spread: jax.Array = array(1.0)
    """Multiplies the velocity after each step."""

    def init(self, theta):
        state = self.inner.init(theta)
        return state if self.start == "drawn" else state._replace(iteration=jnp.ones((), int))  # at rest, with a whole first kick

    def step(self, key, state, U):
        state, info = self.inner.step(key, state, U)
        return state._replace(velocity=self.spread * state.velocity), info


@module
class Uncorrelated(Sampler):
    """The exponential integrator with independent noise in position and velocity: only the diagonal of the covariance."""

    def init(self, theta):
        return ExponentialIntegrator().init(theta)

    def step(self, key, state, U):
        exact, info = ExponentialIntegrator(STEP, FRICTION, 0.0).step(key, state, U)
        first = jnp.where(state.iteration == 0, random.normal(random.fold_in(key, 1), state.position.shape), 0.0)
        step, root = laws.exponential(0.0, STEP, FRICTION), jnp.sqrt(U.scale)
        one, two = random.normal(random.fold_in(key, 2), (2, *state.position.shape))
        x = exact.position + root * (step.matrix[0, 1] * first + np.sqrt(step.noise[0, 0]) * one)
        return exact._replace(
            position=x, velocity=exact.velocity + step.matrix[1, 1] * first + np.sqrt(step.noise[1, 1]) * two
        ), info


MUTANTS = {
    "baoab, temperature 5 % high": ("baoab", BAOAB(STEP, FRICTION, 1.05)),
    "baoab, temperature 5 % low": ("baoab", BAOAB(STEP, FRICTION, 0.95)),
    "baoab, friction 10 % high": ("baoab", BAOAB(STEP, 1.1 * FRICTION)),
    "baoab, step 3 % long": ("baoab", BAOAB(1.03 * STEP, FRICTION)),
    "baoab, at rest at the start": ("baoab", Wrong(BAOAB(STEP, FRICTION), "at rest")),
    "baoab, velocities 5 % wide": ("baoab", Wrong(BAOAB(STEP, FRICTION), spread=1.05)),
    "baoab for the other": ("exponential", BAOAB(STEP, FRICTION)),
    "exponential, temperature 5 % high": ("exponential", ExponentialIntegrator(STEP, FRICTION, 1.05)),
    "exponential, temperature 5 % low": ("exponential", ExponentialIntegrator(STEP, FRICTION, 0.95)),
    "exponential, friction 10 % high": ("exponential", ExponentialIntegrator(STEP, 1.1 * FRICTION)),
    "exponential, noise uncorrelated": ("exponential", Uncorrelated()),
    "exponential for the other": ("baoab", ExponentialIntegrator(STEP, FRICTION)),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_kernel_is_found(name):
    assert law_p(*MUTANTS[name]) < LEVEL


def test_a_schedule_one_step_late_is_found():
    for name, (make, _) in KERNELS.items():
        assert law_p(name, make(lambda i: decay(jnp.maximum(i - 1, 0)), FRICTION), [decay(i) for i in range(STEPS)]) < LEVEL


# Coupled keys


def test_temperature_zero_is_damped_descent_whatever_the_key():
    """BAOAB as it is written in papers, with two half kicks a step and a gradient for each."""
    x, root = np.full((5, 2), START), np.sqrt(SCALE)
    v, c, slope = np.zeros((5, 2)), np.exp(-FRICTION * STEP), lambda x: PRECISION * (x - MU)
    for _ in range(STEPS):
        v = v - STEP / 2 * root * slope(x)
        x = x + STEP / 2 * root * v
        v = c * v
        x = x + STEP / 2 * root * v
        v = v - STEP / 2 * root * slope(x)
    for key in (0, 1):
        cold = iterate(BAOAB(STEP, FRICTION, 0.0), QUADRATIC, jnp.full((5, 2), START), key=key)
        np.testing.assert_allclose(cold, x, rtol=1e-5)
    step = laws.exponential(PRECISION * SCALE, STEP, FRICTION)
    mean, _ = step.after(STEPS, (START - MU) / root, 0.0, temperature=0.0)
    for key in (0, 1):
        cold = iterate(ExponentialIntegrator(STEP, FRICTION, 0.0), QUADRATIC, jnp.full((5, 2), START), key=key)
        np.testing.assert_allclose(cold, np.broadcast_to(MU + root * mean, (5, 2)), rtol=1e-5)


def test_one_gradient_a_step():
    for make, _ in KERNELS.values():
        calls = []
        counted = QUADRATIC._replace(grad=lambda key, x: calls.append(0) or QUADRATIC.grad(key, x))  # noqa: B023
        kernel = make(STEP)
        kernel.step(random.key(0), kernel.init(jnp.zeros((3, 2))), counted)
        assert len(calls) == 1


def test_a_full_minibatch_is_the_full_gradient():
    rewards = np.random.default_rng(1).normal(1.0, 1.0, 21)
    theta = jnp.asarray(np.random.default_rng(2).normal(1.0, 0.3, (1, 64, 1)), float)
    history, model = log_of(np.zeros(21, int), rewards, 1), jax.tree.map(lambda x: jnp.asarray(x)[None], Logistic())

    def ends(chain):
        return np.asarray(jax.jit(lambda key: refresh(chain, key, model, theta, history)[0])(random.key(3)))

    for preset in (samplers.baoab, samplers.ulmc):
        full = ends(preset(steps=5))
        np.testing.assert_allclose(ends(preset(steps=5, minibatch=21)), full, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(ends(preset(steps=5, minibatch=30, control_variate=True)), full, rtol=1e-4, atol=1e-4)
        assert np.abs(ends(preset(steps=5, minibatch=20)) - full).max() > 0.01


# Minibatches

N, SIZE = 64, 8
REWARDS = np.random.default_rng(0).normal(1.0, 0.5, N).astype(np.float32).astype(float)
WIDTH = 1 / np.sqrt(1 / 4 + 4.0 * N)


def minibatch_p(kernel, *, factor=1.0) -> float:
    """BAOAB on minibatches against its exact moments: each kick adds its length squared times the variance of the estimate.

    It does not depend on θ for Gaussian rewards. `factor` is a mutant of the formula: 0 forgets the noise.
    """
    mode = (0.5 / 4 + 4 * REWARDS.sum()) * WIDTH**2
    noise = factor * N**2 / SIZE * 16 * REWARDS.var() * WIDTH**2
    zero, c = np.zeros(()), np.exp(-FRICTION * 0.5)
    A = np.array([[1.0, 0.25], [0.0, 1.0]])
    mean, covariance = np.array([0.3, 0.0]), np.diag([0.0, 1.0])
    for i in range(STEPS):
        kick = 0.25 if i == 0 else 0.5
        B = np.array([[1.0, 0.0], [-kick, 1.0]])
        M = A @ np.diag([1.0, c]) @ A @ B
        before, after = A @ np.diag([1.0, c]) @ A @ np.diag([zero, kick**2 * noise]), A @ np.diag([zero, 1 - c**2])
        mean = M @ mean
        covariance = M @ covariance @ M.T + before @ (A @ np.diag([1.0, c]) @ A).T + after @ A.T
    target = potential.from_minibatch(Gaussian(prior_mean=0.5, prior_sd=2.0, sd=0.5), rows_of(REWARDS), SIZE, jnp.full(1, WIDTH**2))

    def run(keys):
        def body(key):
            start = kernel.init(jnp.full(1, mode + 0.3 * WIDTH))
            return jax.lax.fori_loop(0, STEPS, lambda i, s: kernel.step(_random.step_key(key, i), s, target)[0], start).position[0]

        return jax.vmap(body)(keys)

    z = (np.asarray(jax.jit(run)(random.split(random.key(1), CHAINS)), float) - mode) / WIDTH
    return min(mean_p(z, mean[0], np.sqrt(covariance[0, 0])), second_moment_p(z, mean[0], covariance[0, 0]))


def test_baoab_on_minibatches_has_its_exact_moments():
    assert minibatch_p(BAOAB(0.5, FRICTION)) > LEVEL
    assert minibatch_p(BAOAB(0.5, FRICTION), factor=0.0) < LEVEL
    assert minibatch_p(BAOAB(0.5, 1.3 * FRICTION)) < LEVEL


# Settings that cannot be right, and words


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: BAOAB(-1.0), "BAOAB: step_size must be > 0 and finite; got -1."),
        (lambda: BAOAB(friction=0.0), "BAOAB: friction must be > 0 and finite; got 0."),
        (lambda: ExponentialIntegrator(temperature=-1.0), "ExponentialIntegrator: temperature must be ≥ 0 and finite; got -1."),
        (lambda: samplers.baoab(control_variate=True), "Chain: control_variate corrects a minibatch gradient; give minibatch too."),
        (lambda: samplers.ulmc(scale="sd"), "Chain: scale must be a number or"),
    ],
)
def test_bad_settings_are_refused_in_a_sentence(build, sentence):
    with pytest.raises(ConfigError) as error:
        build()
    assert str(error.value).startswith(sentence)


def test_a_chain_says_what_its_steps_are_in():
    assert str(samplers.baoab(1.5, 4)) == "4 BAOAB steps of 1.5 times the posterior sd on all data"
    assert str(Chain(Langevin(0.1), 4)) == "4 Langevin steps of 0.1 times the posterior variance on all data"
    cold = Chain(BAOAB(0.8, temperature=0.5), 4)
    assert str(cold) == "4 BAOAB steps of 0.8 times the posterior sd at temperature 0.5 on all data"
