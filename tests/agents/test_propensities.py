"""Propensities against quadrature, against enumeration, and against what the agents then do."""

from __future__ import annotations

from functools import cache
from itertools import pairwise, product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, special

from blts import random
from blts._typing import Played, Row
from blts.agents import Exact, Perturb, Pool, Thompson, propensity
from blts.models import Gaussian, GaussianUnknownVariance
from blts.models.marginal import NormalLaw, StudentTLaw
from blts.samplers import mala, sgld, ula
from laws import LEVEL, counts_p

DRAWS = 20_000
of_laws = jax.jit(propensity.of_laws)
of_values = jax.jit(propensity.of_values)


def by_quadrature(means, sds):
    """∫ f_a ∏ F_b by adaptive quadrature in double precision, split where any arm's law bends."""
    means, sds = np.asarray(means, float), np.asarray(sds, float)
    out = []
    for a in range(means.size):

        def integrand(x, a=a):
            z = (x - means[a]) / sds[a]
            others = np.prod([special.ndtr((x - means[b]) / sds[b]) for b in range(means.size) if b != a])
            return np.exp(-0.5 * z * z) / (sds[a] * np.sqrt(2 * np.pi)) * others

        low, high = means[a] - 10 * sds[a], means[a] + 10 * sds[a]
        bends = (means[:, None] + sds[:, None] * np.array([-4.0, 0.0, 4.0])).ravel()
        cuts = np.unique([low, high, *bends[(bends > low) & (bends < high)]])
        out.append(sum(integrate.quad(integrand, u, v, epsabs=1e-13, epsrel=1e-9, limit=200)[0] for u, v in pairwise(cuts)))
    return np.array(out)


rng = np.random.default_rng(0)
CASES = {
    "two equal, one rare": ([0.0, 5.25], [1.0, 1.0]),
    "narrow leader": ([0.0, 1.0], [1.0, 0.01]),
    "wide leader": ([0.0, 1.0], [0.01, 1.0]),
    "rare and wide": ([0.0, 3.7], [1.0, 0.01]),
    "rare and narrow": ([0.0, 3.0], [0.1, 1.0]),
    "the paper's arms": (np.linspace(14, 20, 15), [0.4] * 12 + [0.2, 0.1, 0.05]),
    "far from zero": (1000 + np.linspace(0, 0.3, 15), [0.1] * 15),
    "identical": ([2.0] * 7, [0.3] * 7),
    **{
        f"{n} arms, sds over two decades, {i}": (rng.normal(0, 1, n), 10 ** rng.uniform(-2, 0.3, n))
        for n in (3, 6, 15)
        for i in range(2)
    },
}


@cache
def of_case(name):
    means, sds = (np.asarray(x, np.float32).astype(float) for x in CASES[name])
    p = np.asarray(of_laws(NormalLaw(jnp.asarray(means), jnp.asarray(sds))), float)
    return p, by_quadrature(means, sds)


@pytest.mark.parametrize("name", CASES)
def test_quadrature_of_gaussian_laws(name):
    p, exact = of_case(name)
    assert exact.sum() == pytest.approx(1, abs=1e-8)
    assert p.sum() == pytest.approx(1, abs=1e-6)
    assert (p >= 0).all()
    seen = exact > 1e-5
    np.testing.assert_allclose(p[seen], exact[seen], rtol=1e-3)
    np.testing.assert_allclose(p, exact, atol=2e-7, rtol=1e-4)


def test_rare_arms_are_among_the_cases():
    rare = [p for name in CASES for p in of_case(name)[1] if 1e-5 < p < 1e-3]
    assert len(rare) >= 5
    assert min(rare) < 1.5e-4


def test_two_arms_have_a_closed_form():
    for gap, s1, s2 in ((0.3, 1.0, 1.0), (1.0, 0.01, 3.0), (4.0, 1.0, 1.0)):
        p = of_laws(NormalLaw(jnp.array([gap, 0.0]), jnp.array([s1, s2])))
        assert float(p[1]) == pytest.approx(special.ndtr(-gap / np.hypot(s1, s2)), rel=1e-4)


def test_heavy_tails_too():
    """Student laws without a variance against a million independent draws."""
    df, loc, scale = np.array([1.5, 3.0, 30.0]), np.array([0.0, 1.0, 1.5]), np.array([1.0, 0.5, 0.2])
    p = np.asarray(of_laws(StudentTLaw(jnp.asarray(df), jnp.asarray(loc), jnp.asarray(scale))), float)
    draws = np.random.default_rng(1).standard_t(df, (1_000_000, 3)) * scale + loc
    counts = np.bincount(draws.argmax(1), minlength=3)
    assert counts_p(counts, p) > LEVEL
    assert counts_p(counts, (p + np.array([0.003, -0.003, 0.0]))) < LEVEL


# Pools


@pytest.mark.parametrize(("arms", "size"), [(2, 4), (3, 3), (4, 3)])
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_pools_by_enumeration_with_ties(arms, size, seed):
    """Every combination of members is as likely as any other, and `argmax` plays the first of the largest."""
    values = np.random.default_rng(seed).integers(0, 4, (arms, size)).astype(float)
    wins = np.zeros(arms)
    for pick in product(range(size), repeat=arms):
        wins[np.argmax([values[a, pick[a]] for a in range(arms)])] += 1
    np.testing.assert_allclose(of_values(jnp.asarray(values)), wins / size**arms, atol=1e-6)


def test_an_arm_that_never_wins_has_probability_zero():
    assert of_values(jnp.array([[0.0, 1.0], [2.0, 3.0], [2.5, 2.5]])).tolist() == [0.0, 0.5, 0.5]


# What the agents do

MEANS = np.array([0.0, 0.25, 0.4, 0.3])
SD = 0.5


def played_agent(belief, model=None, refreshes=3, arms=4):
    """An agent and its states after each of a few batches of ten rounds; the last arm is never played."""
    agent = Thompson(Gaussian(prior_mean=0.2, prior_sd=0.3, sd=SD) if model is None else model, belief, arms=arms)
    noise = np.random.default_rng(3).normal(size=10 * refreshes)
    actions = np.tile([0, 1, 2, 2, 1], 2 * refreshes)
    rewards = (MEANS[actions] + SD * noise).astype(np.float32)

    @jax.jit
    def batch(key, state, history, actions, rewards):
        def remember(history, x):
            return agent.remember(history, Row((), *x), jnp.asarray(True)), ()

        history = jax.lax.scan(remember, history, (actions, rewards))[0]
        block = lambda tree: jax.tree.map(lambda x: x[None], tree)  # noqa: E731
        return jax.tree.map(lambda x: x[0], agent.observe(block(key), block(state), block(history))[0]), history

    states = [agent.init(random.key(0))]
    history = agent.empty(Row((), jnp.zeros((), int), jnp.zeros(())), 10 * refreshes)
    for k in range(refreshes):
        now = slice(10 * k, 10 * k + 10)
        state, history = batch(random.key(k + 1), states[-1], history, actions[now], rewards[now])
        states.append(state)
    return agent, states


@jax.jit
def acts(agent, state):
    played = Played(jnp.asarray(31), jnp.zeros(4, int))
    return jax.vmap(lambda key: agent.act(key, state, (), played))(random.split(random.key(99), DRAWS))


def frequencies(agent, state):
    return np.bincount(acts(agent, state), minlength=4)


@jax.jit
def propensities(agent, state):
    return agent.propensities(state)


BELIEFS = {
    "exact": Exact(),
    "perturb": Perturb(ula(0.1, steps=30)),
    "perturb sgld": Perturb(sgld(0.1, steps=30, minibatch=4), gamma=0.5),
    "pool": Pool(mala(0.9, steps=20), 64),
}


@pytest.mark.parametrize("name", BELIEFS)
def test_propensities_are_the_frequencies_of_act(name):
    agent, states = played_agent(BELIEFS[name])
    p = np.asarray(propensities(agent, states[-1]), float)
    counts = frequencies(agent, states[-1])
    assert p.sum() == pytest.approx(1, abs=1e-6)
    assert p.min() > 0.001  # every arm, the unplayed one too, has its chance
    assert counts_p(counts, p) > LEVEL, (counts / DRAWS, p)
    # Mutants: two arms' figures exchanged, and those of the states before.
    assert counts_p(counts, p[[1, 0, 2, 3]]) < LEVEL
    for wrong in states[:-1]:
        assert counts_p(counts, propensities(agent, wrong)) < LEVEL
    if name == "perturb":  # and a perturbation that is 15 % too wide
        wide = Thompson(agent.model, Perturb(ula(0.1, steps=30), gamma=1 / 1.15**2))
        assert counts_p(counts, propensities(wide, states[-1])) < LEVEL


@pytest.mark.slow
def test_propensities_without_a_closed_law_come_from_draws():
    """The mean reward's law is not Gaussian under Perturb with this prior: fixed draws stand in, and say the same each time."""
    agent, (*_, state) = played_agent(Perturb(ula(0.1, steps=30)), GaussianUnknownVariance(prior_mean=0.2))
    p = np.asarray(propensities(agent, state), float)
    assert (p == np.asarray(propensities(agent, state), float)).all()
    assert p.sum() == pytest.approx(1, abs=1e-6)
    assert np.abs(frequencies(agent, state) / DRAWS - p).max() < 2 / np.sqrt(4096)


def test_propensities_map_and_compile():
    agent, states = played_agent(Exact(), refreshes=2)
    both = jax.tree.map(lambda *x: jnp.stack(x), *states[1:])
    np.testing.assert_allclose(jax.jit(jax.vmap(agent.propensities))(both)[1], propensities(agent, states[2]), rtol=1e-5)
