"""Draws of transition rows against the Dirichlet law, quadrature and weighted draws; every statistical test has its mutant."""

from __future__ import annotations

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from blts import _random, random
from blts.errors import ConfigError
from blts.samplers import Langevin, Potential
from blts.samplers.mirror import Entropic
from blts.samplers.mirrored import Mirrored
from blts.samplers.rows import ExactRows, LogGammaRows, MirroredRows, log_gamma, mirrored
from laws import LEVEL, ks_p, mean_p, second_moment_p

LANES, S = 20_000, 5
SHARES = {"seen": np.array([0.1, 0.1, 0.2, 0.2, 0.4]), "zeros": np.array([0.0, 0.6, 0.0, 0.1, 0.3])}
NEAR = 0.1  # W1 in posterior sds; 20,000 exact draws are 0.01 to 0.02 away


def counts_of(n: int, kind: str) -> np.ndarray:
    return np.round(n * SHARES[kind])


@cache
def compiled(log_prior):
    """One program for all samplers of a kind: their numbers are traced."""
    return jax.jit(lambda sampler, keys, alpha, counts, start: sampler.draw(keys, alpha, counts, start, log_prior))


def draw(sampler, alpha, counts, start=None, log_prior=None, lanes=LANES, key=0):
    """One row, `lanes` times."""
    counts = np.asarray(counts, np.float32)
    wide = lambda x: jnp.broadcast_to(jnp.asarray(x, float), (lanes, counts.size))  # noqa: E731
    start = wide(1 / counts.size) if start is None else start
    found, acceptance = compiled(log_prior)(sampler, random.split(random.key(key), lanes), wide(alpha), wide(counts), start)
    assert found.shape == (lanes, counts.size)
    assert acceptance.shape == (lanes,)
    return np.asarray(found, float)


def warm(alpha, counts):
    """Rows of the last refresh, when there were half the counts."""
    return jnp.asarray(draw(ExactRows(), alpha, counts // 2, key=1), float)


@cache
def quantiles(a: float, b: float, size: int) -> np.ndarray:
    return stats.beta.ppf((np.arange(size) + 0.5) / size, a, b)


def distance(found, a) -> float:
    """The largest W1 over the coordinates, between the draws and their Beta law, in sds of that law."""
    found, total = np.sort(found, axis=0), np.sum(a)
    apart = [np.mean(np.abs(found[:, i] - quantiles(float(x), float(total - x), len(found)))) for i, x in enumerate(a)]
    return float(np.max(np.array(apart) / stats.beta.std(a, total - a)))


# The Dirichlet law

CASES = [(alpha, n, kind) for alpha in (1.0, 0.2) for n in (0, 10, 1000, 100_000) for kind in SHARES if n or kind == "zeros"]


@pytest.mark.parametrize(("alpha", "n", "kind"), CASES)
def test_log_gamma_rows_are_dirichlet(alpha, n, kind):
    counts = counts_of(n, kind)
    assert distance(draw(LogGammaRows(), alpha, counts), alpha + counts) < 0.04
    assert distance(draw(ExactRows(), alpha, counts), alpha + counts) < 0.04


def affordable(alpha: float, n: int, kind: str) -> bool:
    counts = counts_of(n, kind) + alpha
    return counts.sum() / counts.min() < 60


@pytest.mark.parametrize(("alpha", "n", "kind"), [case for case in CASES if affordable(*case)])
def test_mirrored_rows_are_dirichlet(alpha, n, kind):
    counts = counts_of(n, kind)
    assert distance(draw(MirroredRows(), alpha, counts, warm(alpha, counts)), alpha + counts) < NEAR


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [1.0, 0.2])
def test_mirrored_rows_need_iterations_in_proportion_to_n(alpha):
    """A state without counts: 8n/alpha iterations suffice, a quarter of them does not."""
    n = 1000 if alpha == 1 else 200
    counts = counts_of(n, "zeros")
    a = alpha + counts
    start = warm(alpha, counts)[:5000]
    need = int(MirroredRows().needed(jnp.asarray(a)))
    assert need == pytest.approx(8 * a.sum() / alpha, abs=1)
    few = need // 4 if alpha == 1 else need // 16
    assert distance(draw(MirroredRows(), alpha, counts, start, lanes=5000), a) < NEAR
    assert distance(draw(MirroredRows(steps=few), alpha, counts, start, lanes=5000), a) > NEAR


def test_iterations_depend_on_the_rarest_state():
    """A fixed number when all states have their share, O(n) when one has none."""
    need = lambda alpha, n, kind: int(MirroredRows().needed(jnp.asarray(alpha + counts_of(n, kind))))  # noqa: E731
    assert need(1.0, 100_000, "seen") <= need(1.0, 1000, "seen") + 2 <= 85
    assert need(1.0, 10_000, "zeros") == pytest.approx(10 * need(1.0, 1000, "zeros"), rel=0.01)
    assert int(MirroredRows(steps=7).needed(jnp.ones(3))) == 7
    assert int(MirroredRows(steps=lambda a: 2 * a.shape[0]).needed(jnp.ones(3))) == 6


@pytest.fixture
def mutate(monkeypatch):
    """Replace a function of a module of `rows`, and compile what uses it anew, before and after."""

    def replace(where, name, function):
        compiled.cache_clear()
        monkeypatch.setattr(where, name, function)

    yield replace
    compiled.cache_clear()


def without_test(log_u, log_ratio):
    return jnp.ones(jnp.broadcast_shapes(log_u.shape, log_ratio.shape), bool)


def test_wrong_log_gamma_rows_are_found(mutate):
    counts = counts_of(10, "zeros")
    a = 1 + counts
    assert distance(draw(LogGammaRows(), 0.8, counts), a) > NEAR, "another alpha"
    assert distance(draw(LogGammaRows(steps=1), 1.0, counts), a) > 0.04, "one step"
    mutate(log_gamma, "_accepts", without_test)
    assert distance(draw(LogGammaRows(steps=50), 1.0, counts), a) > NEAR, "no Metropolis test"


def test_shapes_below_one_must_be_lifted(mutate):
    mutate(log_gamma, "lifted", lambda a: a)
    counts = counts_of(10, "zeros")
    assert distance(draw(LogGammaRows(), 0.2, counts), 0.2 + counts) > NEAR


def test_a_minus_one_in_place_of_a_is_found():
    counts = counts_of(10, "seen")
    for sampler in (LogGammaRows(), MirroredRows()):
        assert distance(draw(sampler, 1.0, counts - 1 + 1e-3, warm(1.0, counts)), 1 + counts) > NEAR


def test_another_temperature_is_found(mutate):
    noise = mirrored.normals
    mutate(mirrored, "normals", lambda keys, size: np.sqrt(2) * noise(keys, size))
    counts = counts_of(1000, "seen")
    assert distance(draw(MirroredRows(), 1.0, counts, warm(1.0, counts)), 1 + counts) > NEAR


def test_a_rare_reference_is_found(mutate):
    """With the smallest count as reference every coordinate moves with the rarest, S - 1 times slower."""
    counts = np.array([30.0, 60.0, 60.0, 60.0, 300.0])
    sampler = MirroredRows(steps=265)
    assert distance(draw(sampler, 1.0, counts, lanes=4000), 1 + counts) < NEAR
    swap = mirrored._reference_last
    mutate(mirrored, "_reference_last", lambda a: swap(-a))
    assert distance(draw(sampler, 1.0, counts, lanes=4000), 1 + counts) > NEAR


def test_float32_serves_ten_million_transitions():
    counts = counts_of(10_000_000, "seen")
    a = 1 + counts
    mean, sd = a / a.sum(), stats.beta.std(a, a.sum() - a)
    for sampler, wider in ((ExactRows(), 0.0), (LogGammaRows(), 0.0), (MirroredRows(step=0.1), 0.02)):
        found = draw(sampler, 1.0, counts, warm(1.0, counts))
        np.testing.assert_allclose(found.mean(0), mean, atol=0.04 * sd.min(), rtol=1e-6)
        np.testing.assert_allclose(found.std(0), sd, rtol=0.02 + wider)


# A log-density of the user's own


def bump(x):
    return -30 * jnp.square(x[0] - 0.6) + jnp.sin(5 * x[0])


def test_a_prior_on_two_states_has_the_law_of_its_quadrature(mutate):
    alpha, counts = np.array([1.0, 1.0]), np.array([2.0, 6.0])
    grid = np.linspace(0, 1, 20_001)[1:-1]
    density = stats.beta.pdf(grid, *(alpha + counts)) * np.exp(np.asarray(jax.vmap(bump)(grid[:, None])))
    cdf = np.cumsum(density) / density.sum()
    law = lambda x: np.interp(x, grid, cdf)  # noqa: E731
    level = (np.arange(LANES) + 0.5) / LANES
    sd = np.sqrt(np.average(grid**2, weights=density) - np.average(grid, weights=density) ** 2)
    apart = lambda x: float(np.mean(np.abs(np.sort(x[:, 0]) - np.interp(level, cdf, grid))) / sd)  # noqa: E731
    assert ks_p(draw(LogGammaRows(), alpha, counts, log_prior=bump)[:, 0], law) > LEVEL
    assert apart(draw(MirroredRows(step=0.2, steps=100), alpha, counts, log_prior=bump)) < NEAR
    assert apart(draw(MirroredRows(step=0.2, steps=100), alpha, counts)) > NEAR, "without the prior"
    mutate(log_gamma, "_whole_row", lambda log_u, e, new_e: jnp.ones(e.shape, bool))
    assert ks_p(draw(LogGammaRows(), alpha, counts, log_prior=bump)[:, 0], law) < LEVEL


def smooth(x):
    """Neighbouring states are alike, and the first is rarer than the last."""
    return -20 * jnp.sum(jnp.square(jnp.diff(x))) - 3 * jax.nn.relu(x[0] - x[-1])


@pytest.mark.slow
def test_a_prior_on_four_states_has_the_moments_of_weighted_draws(mutate):
    alpha, counts = 0.5, np.array([3.0, 0.0, 8.0, 1.0])
    exact = draw(ExactRows(), alpha, counts, lanes=400_000, key=5)
    weight = np.exp(np.asarray(jax.vmap(smooth)(jnp.asarray(exact))))
    mean = np.average(exact, axis=0, weights=weight)
    variance = np.average((exact - mean) ** 2, axis=0, weights=weight)

    def p(found):
        parts = range(4)
        means = [mean_p(found[:, i], mean[i], variance[i] ** 0.5) for i in parts]
        return min(*means, *(second_moment_p(found[:, i], mean[i], variance[i]) for i in parts))

    assert p(draw(LogGammaRows(), alpha, counts, log_prior=smooth, lanes=10_000)) > LEVEL
    found = draw(MirroredRows(step=0.3), alpha, counts, log_prior=smooth, lanes=4000)
    away = lambda x: np.max(np.abs(x.mean(0) - mean) / np.sqrt(variance))  # noqa: E731
    assert away(found) < NEAR < away(exact)
    np.testing.assert_allclose(found.std(0), np.sqrt(variance), rtol=0.08)
    assert np.max(np.abs(exact.std(0) / np.sqrt(variance) - 1)) > 0.08
    mutate(log_gamma, "_whole_row", lambda log_u, e, new_e: jnp.ones(e.shape, bool))
    assert p(draw(LogGammaRows(), alpha, counts, log_prior=smooth, lanes=10_000)) < LEVEL


def test_the_delayed_chain_keeps_an_exact_start():
    """One step from Dirichlet draws, with a flat prior and shapes on both sides of 1, is Dirichlet still."""
    alpha, counts = 0.3, np.array([0.0, 1.0, 0.0, 4.0, 2.0])
    start = jnp.asarray(draw(ExactRows(), alpha, counts, key=9), float)
    found = draw(LogGammaRows(steps=1), alpha, counts, start, lambda x: jnp.zeros(()))
    assert distance(found, alpha + counts) < 0.04
    assert np.mean(found != np.asarray(start)) > 0.9
    assert distance(draw(LogGammaRows(steps=1), alpha, counts, None, lambda x: jnp.zeros(())), alpha + counts) > NEAR


# Metamorphic equalities


SAMPLERS = {
    "exact": (ExactRows(), None),
    "log-gamma": (LogGammaRows(), None),
    "log-gamma with a prior": (LogGammaRows(steps=4), smooth),
    "mirrored": (MirroredRows(), None),
    "minibatch": (MirroredRows(steps=5, minibatch=4), smooth),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in ("exact", "minibatch") else name for name in SAMPLERS]
)
def test_a_lane_does_not_depend_on_its_company(name):
    sampler, log_prior = SAMPLERS[name]
    keys = random.split(random.key(0), 40)
    counts = jnp.asarray(np.random.default_rng(0).integers(0, 9, (40, S)))
    alpha, start = jnp.full((40, S), 0.7), jnp.full((40, S), 1 / S)
    run = lambda *lanes: compiled(log_prior)(sampler, *lanes).rows  # noqa: E731
    together, some = run(keys, alpha, counts, start), np.array([31, 4, 17])
    apart = run(keys[some], alpha[some], counts[some], start[some])
    assert np.array_equal(apart, together[some])
    np.testing.assert_allclose(together.sum(1), 1, rtol=1e-5)


@pytest.mark.parametrize("log_prior", [None, smooth])
def test_mirrored_rows_are_the_mirrored_kernel(log_prior):
    """Lane by lane, the numbers of `Mirrored(Langevin(step), Entropic())` on the row's potential."""
    alpha, counts, steps = jnp.full(4, 0.7), jnp.array([3.0, 0.0, 2.0, 1.0]), 30
    order = jnp.array([3, 1, 2, 0])
    a, key, start = (alpha + counts)[order], random.split(random.key(3), 1)[0], jnp.array([0.4, 0.2, 0.3, 0.1])
    extra = jax.grad(lambda x: 0.0 if log_prior is None else log_prior(x[order]))
    potential = Potential(lambda x: x.sum(), lambda key, x: -(a - 1) / x - extra(x), 1 / a.sum())
    kernel = Mirrored(Langevin(0.5), Entropic())
    state = kernel.init(start[order])
    step = lambda i, state: kernel.step(random.fold_in(key, i), state, potential)[0]  # noqa: E731
    state = jax.jit(lambda state: jax.lax.fori_loop(0, steps, step, state))(state)
    found, _ = compiled(log_prior)(MirroredRows(steps=steps), key[None], alpha[None], counts[None], start[None])
    np.testing.assert_allclose(found[0], state.position[order], rtol=1e-3, atol=1e-6)


@pytest.mark.slow
def test_a_minibatch_of_all_transitions_is_the_full_gradient():
    counts = counts_of(10, "zeros")
    full, part = (draw(MirroredRows(steps=20, minibatch=size), 1.0, counts, lanes=50) for size in (None, 10))
    np.testing.assert_allclose(part, full, rtol=1e-5)
    assert not np.allclose(draw(MirroredRows(steps=20, minibatch=9), 1.0, counts, lanes=50), full)


def test_a_minibatch_is_unbiased():
    counts = jnp.asarray(np.array([30.0, 0.0, 60.0, 10.0]))
    wide = jnp.broadcast_to(counts[:, None], (4, LANES))
    found = np.asarray(mirrored.subsample(random.split(random.key(0), LANES), wide, jnp.sum(wide, 0), 8))
    assert (found.sum(0) == 100).all()
    assert (found[1] == 0).all()
    for i, share in ((0, 0.3), (2, 0.6), (3, 0.1)):
        sd = 100 * np.sqrt(share * (1 - share) / 8)
        assert mean_p(found[i], 100 * share, sd) > LEVEL
        assert mean_p(found[i], 105 * share, sd) < LEVEL


@pytest.mark.slow
def test_a_minibatch_widens_the_law():
    counts = counts_of(10_000, "seen")
    start = warm(1.0, counts)
    exact = stats.beta.std(1 + counts, 5 + counts.sum() - 1 - counts)
    sd = lambda size: draw(MirroredRows(minibatch=size), 1.0, counts, start[:2000], lanes=2000).std(0)  # noqa: E731
    assert (sd(8) > 2 * exact).all()
    np.testing.assert_allclose(sd(None), exact, rtol=0.15)


# What is refused


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(ConfigError, match="LogGammaRows or MirroredRows"):
        draw(ExactRows(), 1.0, np.ones(3), log_prior=smooth, lanes=2)
    with pytest.raises(ConfigError, match="steps must be a whole number"):
        LogGammaRows(steps=0)
    with pytest.raises(ConfigError, match="step must be > 0"):
        MirroredRows(step=0)
    with pytest.raises(ConfigError, match='a function of a or "paper"'):
        MirroredRows(steps="theorem")
    with pytest.raises(ConfigError, match="minibatch must be a whole number"):
        MirroredRows(minibatch=0)


@pytest.mark.parametrize(
    "sampler",
    [pytest.param(ExactRows(), marks=pytest.mark.slow), LogGammaRows(), MirroredRows(steps=3)],
    ids=lambda s: type(s).__name__,
)
def test_double_precision_stays_double(sampler):
    with jax.enable_x64(True):
        ones = jnp.ones((3, 4))
        found = compiled(None)(sampler, random.split(_random.as_key(0), 3), ones, ones, ones / 4).rows
        assert found.dtype == jnp.float64
        np.testing.assert_allclose(found.sum(1), 1, rtol=1e-12)
