"""Mirror maps and the kernel that runs in their dual, against exact laws; every statistical test has its mutant."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from blts import random
from blts._module import module
from blts.errors import ConfigError
from blts.samplers import MALA, Chain, Langevin, Potential, Sampler, State, StepInfo
from blts.samplers.mirror import Entropic, EntropicOrthant, Identity, LogBarrier
from blts.samplers.mirrored import Mirrored
from laws import LEVEL, ks_p
from targets import share

CHAINS = 10_000
SHAPE = np.array([0.7, 3.0])  # two Gamma laws with rate 1
A = np.array([0.8, 2.0, 5.0])  # a Dirichlet law
SHAPES, AS = jnp.asarray(SHAPE), jnp.asarray(A)
GAMMA = Potential(
    lambda x: jnp.sum(x - (SHAPES - 1) * jnp.log(x), -1), lambda key, x: 1 - (SHAPES - 1) / x, 1 / jnp.maximum(SHAPES, 1)
)
DIRICHLET = Potential(lambda x: -jnp.sum((AS - 1) * jnp.log(x), -1), lambda key, x: -(AS - 1) / x, 1 / AS.sum())


def iterate(kernel, target, x, steps, key=0):
    def run(kernel, key, x):
        body = lambda i, state: kernel.step(random.fold_in(key, i), state, target)[0]  # noqa: E731
        return jax.lax.fori_loop(0, steps, body, kernel.init(x)).position

    return np.asarray(share("mirrored", target, steps, run)(kernel, random.key(key), x))


def gamma_p(kernel, target=GAMMA, steps=300) -> float:
    x = iterate(kernel, target, jnp.ones((CHAINS, 2)), steps)
    return min(ks_p(x[:, j], stats.gamma(SHAPE[j]).cdf) for j in range(2))


def dirichlet_p(kernel, steps=150) -> float:
    x = iterate(kernel, DIRICHLET, jnp.full((CHAINS, 3), 1 / 3), steps)
    return min(ks_p(x[:, j], stats.beta(A[j], A.sum() - A[j]).cdf) for j in range(3))


# The maps

MAPS = {"identity": (Identity(), 3), "simplex": (Entropic(), 3), "logarithm": (EntropicOrthant(), 2), "barrier": (LogBarrier(), 2)}


@pytest.mark.parametrize("name", MAPS)
def test_a_map_goes_there_and_back_and_knows_its_slope(name):
    """`slope` is the gradient of W by automatic differentiation, and `log_det` the determinant of the Jacobian."""
    mirror, dim = MAPS[name]
    x = random.uniform(random.key(1), (5, dim)) + 0.1
    x = x / x.sum(-1, keepdims=True) if name == "simplex" else x
    U = lambda x: jnp.sum(jnp.sin(3 * x) + x**2, -1)  # noqa: E731
    W = lambda y: U(mirror.primal(y)) - mirror.log_det(y)  # noqa: E731

    @jax.jit
    @jax.vmap
    def looked_at(x):
        y = mirror.dual(x)
        jacobian = jax.jacobian(mirror.primal)(y)[: y.size]
        return mirror.primal(y), mirror.log_det(y), jacobian, mirror.slope(y, x, jax.grad(U)(x)), jax.grad(W)(y)

    back, log_det, jacobian, slope, gradient = looked_at(x)
    np.testing.assert_allclose(back, x, rtol=2e-5)
    np.testing.assert_allclose(log_det, np.linalg.slogdet(np.asarray(jacobian))[1], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(slope, gradient, rtol=1e-3, atol=1e-4)


def test_the_simplex_may_lie_along_the_first_axis():
    x = jax.nn.softmax(random.normal(random.key(0), (4, 7)), 0)

    @jax.jit
    def looked_at(mirror, x):
        y = mirror.dual(x)
        return y, mirror.primal(y), mirror.log_det(y), mirror.slope(y, x, x**2)

    first, last = looked_at(Entropic(axis=0), x), looked_at(Entropic(), x.T)
    assert first[0].shape == (3, 7)
    np.testing.assert_allclose(first[0], last[0].T, rtol=1e-6)
    np.testing.assert_allclose(first[1], x, rtol=1e-5)
    np.testing.assert_allclose(first[2], last[2], rtol=1e-5)
    np.testing.assert_allclose(first[3], last[3].T, rtol=1e-5)


def test_the_dual_survives_an_underflow():
    """∇W = A x - a where x is far below the smallest float32, and a zero in a start is no infinity."""
    y = jnp.array([-500.0, 0.5])
    x = Entropic().primal(y)
    a = jnp.array([0.2, 4.0, 1e6])
    slope = Entropic().slope(y, x, -(a - 1) / x)
    np.testing.assert_allclose(slope, (a.sum() * jax.nn.softmax(jnp.append(y, 0.0)) - a)[:2], rtol=1e-5)
    assert np.isfinite(Entropic().dual(jnp.array([0.0, 0.3, 0.7]))).all()
    kernel = Mirrored(Langevin(1e-9), Entropic())
    potential = Potential(DIRICHLET.value, lambda key, x: -(a - 1) / x, jnp.asarray(1 / a.sum()))
    state = kernel.init(jnp.array([0.0, 0.5, 0.5]))
    state = state._replace(inner=state.inner._replace(position=y))
    state, _ = kernel.step(random.key(0), state, potential)
    np.testing.assert_allclose(state.inner.position, y, atol=1e-3)


# The kernel


@pytest.mark.parametrize("inner", [Langevin(0.2), MALA(0.4)])
def test_the_identity_map_changes_nothing(inner):
    """Coupled keys: the numbers are those of the inner kernel, to the last bit."""
    target = Potential(lambda x: 0.5 * jnp.sum(x**4, -1), lambda key, x: 2 * x**3, jnp.ones(2))
    kernel = Mirrored(inner, Identity())
    x = random.normal(random.key(3), (50, 2))
    plain, mirrored = inner.init(x), kernel.init(x)
    for i in range(3):  # not compiled: a fusion may round differently
        (plain, _), (mirrored, _) = (k.step(random.key(i), state, target) for k, state in ((inner, plain), (kernel, mirrored)))
    assert not np.array_equal(plain.position, x)
    assert np.array_equal(mirrored.position, plain.position)
    assert mirrored.iteration == plain.iteration == 3


def test_mala_in_the_dual_has_the_exact_law():
    assert gamma_p(Mirrored(MALA(0.8), EntropicOrthant())) > LEVEL
    assert dirichlet_p(Mirrored(MALA(0.8), Entropic())) > LEVEL


def barrier_p(mirror) -> float:
    """1/x has the laws Exp(1), which the boundary cuts where it is largest, and Gamma(3)."""
    shape = jnp.array([1.0, 3.0])
    target = Potential(
        lambda x: jnp.sum(1 / x + (shape + 1) * jnp.log(x), -1), lambda key, x: (shape + 1) / x - 1 / x**2, jnp.array([1.0, 3.0])
    )
    x = iterate(Mirrored(MALA(0.5), mirror), target, jnp.ones((CHAINS, 2)), 300)
    assert (x > 0).all()
    return min(ks_p(x[:, j], stats.invgamma(float(shape[j])).cdf) for j in range(2))


def test_the_log_barrier_reflects():
    assert barrier_p(LogBarrier()) > LEVEL
    assert barrier_p(NoJacobianBarrier()) < LEVEL


def w1_in_sds(x, law) -> float:
    return float(np.mean(np.abs(np.sort(x) - law.ppf((np.arange(x.size) + 0.5) / x.size))) / law.std())


def test_langevin_in_the_dual_is_nearly_right():
    """The discretisation leaves a bias that shrinks with the step."""
    law = [stats.beta(A[j], A.sum() - A[j]) for j in range(3)]
    far = []
    for step, steps in ((2.0, 100), (0.1, 800)):
        x = iterate(Mirrored(Langevin(step), Entropic()), DIRICHLET, jnp.full((CHAINS, 3), 1 / 3), steps)
        far.append(max(w1_in_sds(x[:, j], law[j]) for j in range(3)))
    assert far[1] < 0.04 < far[0]
    x = iterate(Mirrored(Langevin(0.05), EntropicOrthant()), GAMMA, jnp.ones((CHAINS, 2)), 1500)
    assert max(w1_in_sds(x[:, j], stats.gamma(SHAPE[j])) for j in range(2)) < 0.04


@module
class NoJacobian(Entropic):
    def log_det(self, y):
        return jnp.zeros(y.shape[:-1])

    def slope(self, y, x, g):
        return super().slope(y, x, g + 1 / x)


@module
class NoJacobianOrthant(EntropicOrthant):
    def log_det(self, y):
        return jnp.zeros(y.shape[:-1])

    def slope(self, y, x, g):
        return x * g


@module
class NoJacobianBarrier(LogBarrier):
    def log_det(self, y):
        return jnp.zeros(y.shape[:-1])

    def slope(self, y, x, g):
        return -jnp.sign(y) * x * x * g


@module
class HalfNoise(Sampler):
    """Langevin with noise √h."""

    def init(self, theta):
        return State(theta, jnp.zeros((), int))

    def step(self, key, state, potential):
        h, y = 0.1 * potential.scale, state.position
        noise = jnp.sqrt(h) * random.normal(key, y.shape)
        return State(y - h * potential.grad(key, y) + noise, state.iteration + 1), StepInfo(jnp.ones(()))


def test_a_wrong_dual_is_found():
    assert dirichlet_p(Mirrored(MALA(0.8), NoJacobian())) < LEVEL
    assert gamma_p(Mirrored(MALA(0.8), NoJacobianOrthant())) < LEVEL
    x = iterate(Mirrored(HalfNoise(), Entropic()), DIRICHLET, jnp.full((CHAINS, 3), 1 / 3), 1000)
    assert max(w1_in_sds(x[:, j], stats.beta(A[j], A.sum() - A[j])) for j in range(3)) > 0.1


# What it tells its users


def test_mirrored_passes_on_what_the_inner_kernel_needs():
    assert Mirrored(MALA(0.5), Entropic()).needs_value
    assert not Mirrored(Langevin(0.5), Entropic()).needs_value
    with pytest.raises(ConfigError, match="full gradient"):
        Chain(Mirrored(MALA(0.5), Entropic()), minibatch=8)


def test_what_is_not_a_kernel_or_a_map_is_refused():
    with pytest.raises(ConfigError, match="mirror is the class Entropic; give an object"):
        Mirrored(MALA(0.5), Entropic)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="inner must be an object"):
        Mirrored(0.5, Entropic())  # type: ignore[arg-type]
    kernel = Mirrored(Langevin(0.5), Entropic())
    with pytest.raises(ConfigError, match="dual units"):
        kernel.step(random.key(0), kernel.init(jnp.full(3, 1 / 3)), DIRICHLET._replace(scale=jnp.ones(3)))
