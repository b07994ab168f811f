"""Propensities of jointly normal mean rewards: against an exact case, draws, quadrature, and their own estimate of the error."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from blts.agents import joint, propensity
from blts.agents.base import argmax
from blts.agents.joint import half_spaces, lines
from blts.errors import ConfigError
from blts.models.marginal import NormalLaw
from laws import LEVEL, counts_p

X = np.array([[0.03, 1.36, 1.22], [-0.51, -0.3, -0.53], [0.57, -0.06, 0.75], [-1.85, 1.57, -0.1], [0.68, -0.14, -0.38]])
MEAN = np.array([0.3, -0.2, 0.1])
COVARIANCE = np.array([[0.331, 0.1677, -0.0602], [0.1677, 0.413875, 0.269625], [-0.0602, 0.269625, 0.820275]])
EXACT = np.array([0.316749, 0.195153, 0.159803, 0.040011, 0.288284])

of_joint = jax.jit(joint.of_joint, static_argnames="points")


@jax.jit
def by_lines(mean, root):
    parts = lines.parts(mean, root, jnp.ones(mean.shape, bool), 2048)
    return parts.mean(0)


@jax.jit
def by_half_spaces(mean, root):
    parts = half_spaces.parts(mean, root, jnp.ones(mean.shape, bool), 512)
    return parts.mean(0)


def problem(arms: int, rank: int, seed: int):
    """Unit features, and the posterior of θ after 3 · rank rewards."""
    rng = np.random.default_rng([arms, rank, seed])
    features, seen = rng.normal(size=(arms, rank)), rng.normal(size=(3 * rank, rank))
    features, seen = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (features, seen))
    precision = rank * np.eye(rank) + 4 * seen.T @ seen
    theta = rng.normal(size=rank) / np.sqrt(rank)
    return features @ theta, features @ np.linalg.inv(np.linalg.cholesky(precision)).T


def drawn_anew(mean, root):
    """The mutant's values: a θ of its own for every arm."""
    return mean, np.diag(np.linalg.norm(root, axis=1))


def test_the_exact_case():
    mean, root = X @ MEAN, X @ np.linalg.cholesky(COVARIANCE)
    p, error = of_joint(mean, root)
    assert abs(np.asarray(p) - EXACT).max() < 5e-5
    assert float(error) < 1e-4
    anew, _ = of_joint(*drawn_anew(mean, root))
    sds = np.linalg.norm(root, axis=1)
    assert abs(np.asarray(anew) - np.asarray(propensity.of_laws(NormalLaw(jnp.asarray(mean), jnp.asarray(sds))))).max() < 1e-5
    assert abs(np.asarray(anew) - EXACT).max() > 0.1  # the mutant


@pytest.mark.parametrize("rule", [by_half_spaces, by_lines])
def test_each_rule_alone_has_the_exact_case(rule):
    p = np.asarray(rule(X @ MEAN, X @ np.linalg.cholesky(COVARIANCE)), float)
    assert abs(p - EXACT).max() < 1e-4
    assert p.sum() == pytest.approx(1, abs=2e-4)


@pytest.mark.parametrize(("arms", "rank", "points", "blocks"), [(10, 5, 1024, 8), (6, 50, 512, 8), (20, 10, 8192, 2)])
def test_frequencies_of_the_largest_draw(arms, rank, points, blocks):
    mean, root = problem(arms, rank, 0)
    p, error = of_joint(mean, root, points=points)
    rng, counts = np.random.default_rng(1), np.zeros(arms)
    for _ in range(blocks):
        values = mean[:, None] + root @ rng.standard_normal((rank, 125_000))
        counts += np.bincount(values.argmax(0), minlength=arms)
    assert counts_p(counts, np.asarray(p, float)) > LEVEL
    assert float(error) < 2.5e-3
    wrong, _ = of_joint(*drawn_anew(mean, root), points=points)  # the mutants: a θ for every arm, and a covariance 10 % too wide
    assert counts_p(counts, np.asarray(wrong, float)) < LEVEL
    wrong, _ = of_joint(mean, 1.1 * root, points=points)
    assert counts_p(counts, np.asarray(wrong, float)) < LEVEL


@pytest.mark.parametrize("arms", [4, 8, 15])
def test_independent_arms_have_the_numbers_of_quadrature(arms):
    """Some of them are rare. The mutant takes variances for standard deviations."""
    rng = np.random.default_rng(arms)
    mean, sd = rng.normal(0, 1, arms), 10 ** rng.uniform(-1, 0.3, arms)
    mean[:2], sd[:2] = (mean.max() + 1, mean.max() - 2), (0.3, 0.6)
    exact = np.asarray(propensity.of_laws(NormalLaw(jnp.asarray(mean), jnp.asarray(sd))), float)
    p, error = (np.asarray(x, float) for x in of_joint(mean, np.diag(sd), points=2048))
    assert ((exact > 1e-6) & (exact < 3e-4)).any()
    assert abs(p - exact).max() < error
    if arms <= joint.FEW:  # half-spaces have relative accuracy too, lines have not
        assert error < 1e-4
        rare = (exact > 1e-6) & (exact < 1e-2)
        np.testing.assert_allclose(p[rare], exact[rare], rtol=0.02)
    wrong, _ = of_joint(mean, np.diag(sd**2), points=2048)
    assert abs(np.asarray(wrong) - exact).max() > 1e-3


@pytest.mark.parametrize(("arms", "rank"), [(6, 4), (15, 8)])
def test_the_error_is_honest(arms, rank):
    """Few points, whose error is hardly ever larger than their limit; a tenth of it is no limit."""
    cases = [problem(arms, rank, seed) for seed in range(16)]
    ratios = []
    for mean, root in cases:
        exact = np.asarray(of_joint(mean, root, points=2048)[0], float)
        p, error = of_joint(mean, root, points=256)
        ratios.append(abs(np.asarray(p, float) - exact).max() / float(error))
    assert np.mean(np.array(ratios) > 1) <= 0.07
    assert np.mean(np.array(ratios) > 0.1) > 0.5  # the mutant


def test_one_coordinate_is_exact():
    """Values mean + slope · z: the upper envelope of lines, by a fine grid of z."""
    mean, slope = np.array([0.0, 0.3, -0.2, 0.1]), np.array([1.0, -0.5, 0.2, -2.0])
    z = (np.arange(400_000) + 0.5) / 400_000
    from scipy.special import ndtri

    exact = np.bincount((mean[:, None] + slope[:, None] * ndtri(z)).argmax(0), minlength=4) / len(z)
    p, error = of_joint(mean, slope[:, None])
    assert abs(np.asarray(p) - exact).max() < 5e-6
    assert float(error) < 5e-6
    many = of_joint(np.tile(mean, 4) - np.repeat([0.0, 9.0, 9.0, 9.0], 4), np.tile(slope, 4)[:, None])[0]  # by lines
    assert abs(np.asarray(many)[:4] - exact).max() < 5e-6


@pytest.mark.parametrize("arms", [6, 16])
def test_what_is_not_available_has_probability_zero(arms):
    mean, root = problem(arms, 4, 1)
    there = np.arange(arms) % 3 != 1
    p, _ = of_joint(mean, root, there)
    alone, error = of_joint(mean[there], root[there], points=4096)
    assert (np.asarray(p)[~there] == 0).all()
    assert abs(np.asarray(p)[there] - np.asarray(alone)).max() < 1e-3
    for nothing in (-np.inf, np.nan):
        same, _ = of_joint(np.where(there, mean, nothing), root)
        assert (np.asarray(same) == np.asarray(p)).all()
    everything, _ = of_joint(mean, root)
    assert abs(np.asarray(everything)[there] - np.asarray(alone)).max() > 4e-3  # the mutant: without the mask
    assert float(error) < 1e-3


@pytest.mark.parametrize("arms", [6, 16])
def test_the_first_of_equal_arms_wins(arms):
    mean, root = problem(arms, 4, 2)
    best = int(mean.argmax())
    twice = np.concatenate([[best], np.arange(arms), [best]])
    p, _ = of_joint(mean[twice], root[twice])
    once, error = of_joint(mean[twice[:-1]][: arms + 1], root[twice[:-1]][: arms + 1])
    assert np.asarray(p)[[best + 1, arms + 1]].tolist() == [0.0, 0.0]
    assert np.asarray(p)[0] > 0.05
    assert abs(np.asarray(p)[: arms + 1] - np.asarray(once)).max() < 2 * float(error)
    level, _ = of_joint(np.array([1.0, 2.0, 2.0]), np.zeros((3, 2)))  # nothing is uncertain
    assert level.tolist() == [0.0, 1.0, 0.0]
    assert int(argmax(jnp.array([1.0, 2.0, 2.0]))) == 1


def test_features_that_depend_on_each_other():
    """An intercept beside indicators of three groups: four coordinates, of which three are free."""
    rng = np.random.default_rng(3)
    features = np.concatenate([np.ones((6, 1)), np.eye(3)[[0, 1, 2, 0, 1, 2]], rng.normal(size=(6, 1))], 1)
    mean, root = features @ np.array([0.1, 0.0, 0.1, -0.1, 0.2]), features @ np.diag([1.0, 0.5, 0.4, 0.7, 0.3])
    full = np.linalg.svd(root, full_matrices=False)
    p, error = of_joint(mean, root)
    short, _ = of_joint(mean, full[0][:, :4] * full[1][:4])
    assert full[1][4] < 1e-6
    assert float(error) < 2e-4
    assert abs(np.asarray(p) - np.asarray(short)).max() < 2e-4


def test_it_repeats_itself_and_maps():
    mean, root = problem(5, 3, 4)
    one = of_joint(mean, root)
    assert (np.asarray(one[0]) == np.asarray(of_joint(mean, root)[0])).all()
    many, _ = jax.jit(jax.vmap(joint.of_joint, in_axes=(0, None)))(np.stack([mean, mean + 0.1, mean[::-1]]), root)
    assert abs(np.asarray(many)[0] - np.asarray(one[0])).max() < 1e-6
    assert abs(np.asarray(many)[1] - np.asarray(one[0])).max() < 1e-5


def test_what_has_no_answer_is_not_a_number():
    mean, root = problem(5, 3, 4)
    for case in ((mean, root, np.zeros(5, bool)), (np.where(np.arange(5) == 1, np.inf, mean), root), (mean, root * np.inf)):
        p, error = of_joint(*case)
        assert np.isnan(np.asarray(p)).all()
        assert np.isnan(float(error))
    with pytest.raises(ConfigError, match="power of two"):
        joint.of_joint(jnp.asarray(mean), jnp.asarray(root), points=100)
