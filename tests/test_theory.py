"""The paper's settings at the paper's constants, its bounds recomputed, and refusals outside the theory."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
import pytest

from blts import random, theory
from blts.agents import Perturb, Thompson
from blts.errors import ConfigError
from blts.models import Gaussian, GaussianUnknownVariance, Laplace, Theory
from blts.models.arms import stack
from blts.samplers import sgld

PAPER = Theory(True, "", 4.0, 4.0, 4.0)  # Gaussian rewards with sd 0.5
OTHER = Theory(True, "", 0.5, 3.0, 0.8)


def test_the_papers_constants_are_those_of_its_model():
    constants = theory.constants_of(Gaussian(sd=0.5))
    assert (float(constants.m), float(constants.L), float(constants.nu)) == (4.0, 4.0, 4.0)
    stacked = theory.constants_of(stack(Gaussian(sd=[0.5, 1.0]), 2))
    assert stacked.m.tolist() == stacked.L.tolist() == stacked.nu.tolist() == [4.0, 1.0]


def test_presets_at_the_papers_constants():
    assert float(theory.kappa(PAPER)) == 1
    assert float(theory.sigma(PAPER)) == 20
    assert float(theory.gamma(PAPER)) == pytest.approx(1 / 640)
    assert int(theory.minibatch(PAPER)) == 32
    assert int(theory.iterations(PAPER, 1)) == 5120
    assert float(theory.step_size(PAPER, 1)) == pytest.approx(1 / (32 * 4 * 4))
    assert float(theory.step_size(PAPER, 9)) == pytest.approx(9 / (32 * 4 * 100))


@pytest.mark.parametrize("constants", [PAPER, OTHER, Theory(True, "", 0.1, 7.3, 2.0)], ids=["paper", "other", "bad condition"])
@pytest.mark.parametrize("dim", [1, 3])
def test_presets_are_the_appendix_formulas(constants, dim):
    m, L, nu = constants.m, constants.L, constants.nu
    sigma = 16 + 4 * dim * L**2 / (nu * m)
    assert float(theory.kappa(constants)) == pytest.approx(max(L / m, L / nu))
    assert float(theory.sigma(constants, dim)) == pytest.approx(sigma)
    assert float(theory.gamma(constants, dim)) == pytest.approx(m / (32 * L * sigma))
    assert float(theory.gamma(constants, dim)) == pytest.approx(m / (32 * L * (16 + 4 * dim * L**2 / (nu * m))))
    assert int(theory.minibatch(constants)) == math.ceil(32 * L**2 / (m * nu) - 1e-4)
    for n in (1, 2, 17, 1000):
        assert float(theory.step_size(constants, n)) == pytest.approx(m * n / (32 * L**2 * (n + 1) ** 2))
        assert int(theory.iterations(constants, n)) == pytest.approx(1280 * L**2 * (n + 1) ** 2 / (m**2 * n**2), rel=1e-5, abs=1.01)


def test_the_number_of_steps_falls_from_5120_to_1280_at_any_n():
    """n² does not fit in 32 bits from n = 46,341 on; the formula must not overflow there."""
    n = jnp.array([1, 2, 3, 10, 100, 1000, 46_340, 46_341, 65_536, 10**6, 2**31 - 2])
    steps = np.asarray(theory.iterations(PAPER, n))
    assert (np.diff(steps) <= 0).all()
    assert (steps[0], steps[1], steps[2]) == (5120, 2880, 2276)
    assert set(steps[6:].tolist()) <= {1280, 1281}
    assert steps[-1] == 1280
    step = np.asarray(theory.step_size(PAPER, n), float)
    assert (np.diff(step[1:]) < 0).all()
    np.testing.assert_allclose(step[-1] * float(n[-1]) * 32 * 4, 1.0, rtol=1e-5)  # η → m / (32 L² n)


def test_presets_do_not_divide_by_an_arm_without_data():
    n = jnp.array([0, 1])
    assert theory.iterations(PAPER, n).tolist() == [5120, 5120]
    assert (theory.step_size(PAPER, n) == theory.step_size(PAPER, 1)).all()


def test_the_step_satisfies_the_lemmas_condition():
    """η ≤ m̂ / (32 L̂²) with m̂ = m n, L̂ = L (n + 1), with equality."""
    for n in (1, 5, 400):
        assert float(theory.step_size(OTHER, n)) == pytest.approx(OTHER.m * n / (32 * (OTHER.L * (n + 1)) ** 2))
        # and N of them contract the start by at least e^-5: (1 - m̂ η / 8)^N.
        shrink = (1 - OTHER.m * n * float(theory.step_size(OTHER, n)) / 8) ** int(theory.iterations(OTHER, n))
        assert shrink == pytest.approx(math.exp(-5), rel=0.05)


def test_the_wasserstein_bound():
    for n in (1, 8, 1000):
        assert float(theory.wasserstein_bound(PAPER, n)) == pytest.approx(math.sqrt(12 / (4 * n) * (1 + 40 * 2)))
        expected = math.sqrt(12 / (n * 0.5)) * math.sqrt(3 + 0.7 + (32 + 8 * 3 * 36) * 4)
        assert float(theory.wasserstein_bound(OTHER, n, dim=3, p=4, log_q=0.7)) == pytest.approx(expected)
    n = jnp.array([1, 2, 4, 8])
    bounds = theory.wasserstein_bound(PAPER, n)
    np.testing.assert_allclose(bounds[:-1] / bounds[1:], math.sqrt(2), rtol=1e-6)
    base = float(theory.wasserstein_bound(PAPER, 10))
    assert float(theory.wasserstein_bound(PAPER, 10, log_q=1.0)) > base
    assert float(theory.wasserstein_bound(PAPER, 10, dim=2)) > base
    assert float(theory.wasserstein_bound(PAPER._replace(nu=1.0), 10)) > base


def regret_of_the_paper(m, L, nu, gaps, T, d, log_q1, log_q):
    """The last display of the appendix's proof, line by line."""
    sigma = 16 + 4 * d * L**2 / (m * nu)
    total = 0.0
    for gap in gaps:
        if gap <= 0:
            continue
        total += (
            4
            * 36
            * math.sqrt(math.exp(log_q1))
            * 144
            * math.e
            / (m * gap)
            * (d + log_q1 + 4 * sigma * (math.log(T) + 3 * d * math.log(2)))
            + gap
        )
        total += gap + 4 * 144 * math.e / (m * gap) * (d + log_q + 10 * d * sigma * math.log(T)) + 2 * gap
    return total


@pytest.mark.parametrize("constants", [PAPER, OTHER], ids=["paper", "other"])
@pytest.mark.parametrize(("dim", "log_q"), [(1, 0.0), (3, 0.0), (2, 1.3)])
def test_the_regret_bound_is_the_papers(constants, dim, log_q):
    gaps = [0.0, 0.3, 1.0, 2.5]
    expected = regret_of_the_paper(constants.m, constants.L, constants.nu, gaps, 650, dim, log_q, log_q)
    assert theory.regret_bound(constants, gaps, 650, dim=dim, log_q=log_q) == pytest.approx(expected, rel=1e-6)


def test_the_regret_bound_moves_as_it_should():
    bound = lambda **changes: theory.regret_bound(**{"constants": PAPER, "gaps": [0.0, 1.0], "horizon": 650} | changes)  # noqa: E731
    assert bound(horizon=6500) > bound()
    assert bound(gaps=[0.0, 0.5]) > bound()  # closer arms are harder to tell apart
    assert bound(gaps=[0.0, 1.0, 1.0]) == pytest.approx(2 * bound())
    assert bound(gaps=[0.0, 0.0]) == 0
    assert bound(dim=2) > bound()
    assert bound(log_q=1.0) > bound()
    # Logarithmic in T: equal ratios of T cost equal amounts.
    steps = np.diff([bound(horizon=T) for T in (10**2, 10**4, 10**6, 10**8)])
    np.testing.assert_allclose(steps, steps[0], rtol=1e-9)


def test_the_bounds_of_many_arms_take_the_worst_constants():
    constants = theory.constants_of(stack(Gaussian(sd=[0.5, 1.0]), 2))
    assert theory.regret_bound(constants, [0.0, 1.0], 650) == pytest.approx(
        theory.regret_bound(Theory(True, "", 1.0, 1.0, 1.0), [0.0, 1.0], 650)
    )


def test_batches():
    assert theory.batches_bound(15, 650) == pytest.approx(15 * math.log2(651))
    assert [theory.batches_sharp(1, t) for t in (0, 1, 2, 3, 4, 7, 8)] == [0, 1, 2, 2, 3, 3, 4]
    assert [theory.batches_sharp(2, t) for t in (1, 2, 3, 4, 5, 6)] == [1, 2, 3, 4, 4, 5]
    assert theory.batches_sharp(15, 10) == 10


@pytest.mark.parametrize("model", [GaussianUnknownVariance(), Laplace()], ids=lambda model: type(model).__name__)
def test_theorem_is_refused_outside_the_theory(model):
    name = type(model).__name__
    sentence = rf'^"theorem" needs a model inside the theory, and {name} is not: .+ Give numbers instead\.$'
    with pytest.raises(ConfigError, match=sentence):
        theory.constants_of(model)
    for belief in (
        Perturb(sgld("theorem")),
        Perturb(sgld(steps="theorem")),
        Perturb(sgld(minibatch="theorem")),
        Perturb(sgld(), "theorem"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            Thompson(model, belief, arms=2)


def test_theorem_settings_reach_the_agent():
    agent = Thompson(Gaussian(prior_mean=[0.0, 1.0], sd=0.5), Perturb(sgld("theorem", "theorem", "theorem"), "theorem"))
    assert agent.belief.chain.minibatch == 32
    state = agent.belief.init(random.key(0), agent.model)._replace(n=jnp.array([5, 50]))
    np.testing.assert_allclose(agent.belief.spread(agent.model, state)[:, 0], np.sqrt(640 / (4 * np.array([5, 50]))), rtol=1e-5)
