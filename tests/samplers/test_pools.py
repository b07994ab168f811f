"""Pools and their diagnostics, and the perturbation of Algorithm 2."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from blts import random
from blts.agents import Perturb, Pool, Thompson
from blts.agents.beliefs.diagnostics import split_rhat
from blts.models import Gaussian
from blts.models.arms import stack
from blts.samplers import Chain, Langevin, mala, sgld, ula
from laws import LEVEL, gaussian_p, ks_p
from targets import CHAINS, Logistic, moments_of, refresh, row

# Pools and their diagnostics


@jax.jit
def one_refresh(belief, key, model, state, history):
    """`Belief.refresh` for one replication. Beliefs that differ in their numbers share a program."""
    block = lambda tree: jax.tree.map(lambda x: jnp.asarray(x)[None], tree)  # noqa: E731
    return jax.tree.map(lambda x: x[0], belief.refresh(block(key), model, block(state), block(history)))


@jax.jit
def begun(belief, key, model):
    return belief.init(key, model)


@jax.jit
def remembering(belief, model, history, row):
    return belief.remember(model, history, row, jnp.asarray(True))


def pool_refresh(chain, rewards, start=None, size=256, key=0):
    model = stack(Gaussian(prior_mean=0.0, prior_sd=1.0, sd=1.0), len(rewards))
    belief, summary = Pool(chain, size), moments_of(rewards)
    state = begun(belief, random.key(100 + key), model)
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
    thetas = begun(Pool(chain, size), random.key(100), model).thetas
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
        for a, rewards in enumerate(REWARDS):
            for r in rewards:
                history = remembering(belief, model, history, row(a, r))
        return float(one_refresh(belief, random.key(0), model, begun(belief, random.key(1), model), history)[1].distance)

    # With 99 rewards in minibatches of 32 the variance is (1 + h n / (2 |D|)) / (1 - h/2) times the posterior's.
    assert distance(sgld(0.02, steps=300)) == pytest.approx(np.sqrt((1 + 0.02 * 99 / 64) / 0.99) - 1, abs=0.06)
    hot = Chain(Langevin(0.02, temperature=1.5), steps=300, minibatch=32)
    assert distance(hot) > 0.15


def test_divergence_is_flagged_and_not_raised():
    with np.errstate(all="ignore"):
        _, info = pool_refresh(ula(50.0, steps=40), REWARDS)
        assert not bool(info.finite)
        model = stack(Gaussian(), 2)
        belief = Perturb(ula(50.0, steps=60))
        _, info = one_refresh(belief, random.key(0), model, begun(belief, random.key(1), model), moments_of(REWARDS))
        assert not bool(info.finite)
        _, info = pool_refresh(mala(50.0, steps=200), REWARDS)
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


# Algorithm 2's perturbation


def test_the_spread_is_one_over_root_n_L_gamma():
    model = stack(Gaussian(sd=[0.5, 1.0, 2.0]), 3)
    spread = jax.jit(lambda belief, n: belief.spread(model, belief.init(random.key(0), model)._replace(n=n))[:, 0])
    for gamma in (1.0, 0.25):
        expected = 1 / np.sqrt(np.array([1 * 4, 100 * 1, 7 * 0.25]) * gamma)
        np.testing.assert_allclose(spread(Perturb(ula(), gamma), np.array([1, 100, 7])), expected, rtol=1e-6)
    expected = np.sqrt(640 / np.array([4, 1, 0.25]))
    np.testing.assert_allclose(spread(Perturb(ula(), "theorem"), np.array([1, 1, 1])), expected, rtol=1e-5)


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
