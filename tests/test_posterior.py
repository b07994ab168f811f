"""`blts.posterior`: draws of one posterior, compared with quadrature; wrong samplers are flagged and wrong arguments refused."""

from __future__ import annotations

import dataclasses
import sys

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import blts
import grids
from blts._typing import Row
from blts.errors import ConfigError, UnknownName
from blts.grid import GridPosterior, grid

RNG = np.random.default_rng(0)
TWO_GROUPS = np.concatenate([RNG.normal(-4, 0.3, 10), RNG.normal(4, 0.3, 10)])
"""A Student-t location has a mode at each group, about 13 of its widths apart."""
CASES = {
    "Gaussian": (blts.Gaussian(prior_mean=0.5, prior_sd=2.0, sd=0.7), RNG.normal(1, 0.7, 30), {}),
    "Bernoulli": (blts.Bernoulli(), [0, 1, 1, 0, 1, 0, 0, 0], {}),
    "Student-t with two modes": (blts.StudentT(prior_sd=5.0, scale=0.3), TWO_GROUPS, {}),
    "Gumbel, two parameters": (grids.gumbel().model, RNG.gumbel(0, 0.4, 30), {"arm": 0}),
}


def rows_of(rewards) -> Row:
    rewards = np.asarray(rewards, float)
    return Row((), np.zeros(len(rewards), int), rewards)  # type: ignore[arg-type]


# The grid


@pytest.mark.parametrize("prior_sd", [0.01, 1.0, 1e4])
def test_the_grid_finds_a_gaussian_posterior_wherever_it_is(prior_sd):
    """Also where it is 10⁶ times as narrow as the prior."""
    r = RNG.normal(300, 1, 200)
    found = grid(blts.Gaussian(prior_mean=-20.0, prior_sd=prior_sd), rows_of(r))
    precision = prior_sd**-2 + len(r)
    mean, sd = found.moments(found.points[:, 0])
    assert sd == pytest.approx(precision**-0.5, rel=1e-9)
    assert abs(mean - (-20.0 * prior_sd**-2 + r.sum()) / precision) < 1e-6 * sd
    at = mean + sd * np.linspace(-4, 4, 101)
    assert np.abs(found.cdf(found.points[:, 0], at) - stats.norm.cdf(at, mean, sd)).max() < 1e-5
    assert found.error < 1e-9


def test_the_grid_is_the_exact_law_in_two_dimensions():
    """Unknown variance: log σ has the law of ½ log of an inverse Gamma variable, and μ that of a Student-t one."""
    r = RNG.normal(3, 2, 12)
    found = grid(blts.GaussianUnknownVariance(prior_mean=0.0, weight=1.0, a=2.0, b=2.0), rows_of(r))
    weight, a = 13.0, 8.0
    mean, b = r.sum() / 13, 2.0 + 0.5 * np.sum((r - r.mean()) ** 2) + 0.5 * 12 / 13 * r.mean() ** 2
    x = np.linspace(0.0, 1.5, 50)
    assert np.abs(found.cdf(found.points[:, 1], x) - stats.invgamma.cdf(np.exp(2 * x), a, scale=b)).max() < 1e-3
    x = np.linspace(0, 6, 50)
    law = stats.t(2 * a, loc=mean, scale=np.sqrt(b / (a * weight)))
    assert np.abs(found.cdf(found.points[:, 0], x) - law.cdf(x)).max() < 1e-3


def test_the_grid_covers_both_modes():
    """Against plain trapezoids on a range that is given, and a mutant that sees the higher mode alone."""
    model, rewards, _ = CASES["Student-t with two modes"]
    x = np.linspace(-12, 12, 200_001)
    log_density = stats.norm.logpdf(x, 0, 5) + stats.t.logpdf(rewards[:, None], 3, loc=x, scale=0.3).sum(0)
    p = np.exp(log_density - log_density.max())
    p /= p.sum()
    found = grid(model, rows_of(rewards))
    mean, sd = found.moments(found.points[:, 0])
    assert mean == pytest.approx(p @ x, abs=1e-6)
    assert sd == pytest.approx(np.sqrt(p @ (x - p @ x) ** 2), abs=1e-6)
    both = found.points[:, 0][found.weights > 1e-6]
    assert both.min() < -3
    assert both.max() > 3
    alone = np.where(x > 0, p, 0)
    assert alone @ x / alone.sum() != pytest.approx(mean, abs=0.05)


def test_a_grid_that_does_not_resolve_says_so():
    coarse = GridPosterior(np.array([[0.0], [1.0]]), np.array([0.5, 0.5]), (2,))
    assert coarse.cdf(coarse.points[:, 0], np.array([-1.0, 0.5, 2.0])).tolist() == [0.0, 0.5, 1.0]
    narrow = blts.from_functions(
        lambda theta: -0.5 * theta[0] ** 2,
        lambda theta, reward: -0.5 * ((jnp.abs(theta[0]) - 1.0) * 3e4) ** 2,  # two modes, 60,000 sds apart
        L=1.0,
        init=lambda key: blts.random.normal(key, (1,)),
    )
    with pytest.raises(ConfigError, match="The grid does not resolve this posterior"):
        blts.posterior(narrow, [0.0], draws=16).check()


# The draws


@pytest.mark.parametrize("case", CASES)
def test_the_default_draws_from_the_posterior(case):
    model, rewards, which = CASES[case]
    found = blts.posterior(model, rewards, **which)
    assert found.draws.shape == (1000, found.model.dim)
    assert found.mean_reward.shape == (1000,)
    assert found.warnings == []
    check = found.check()
    assert check.ok, str(check)
    assert check.quadrature_error < 1e-3
    assert "cannot be distinguished from exact ones" in str(check)
    again = blts.posterior(model, rewards, **which)
    assert np.array_equal(again.draws, found.draws)
    other = blts.posterior(model, rewards, seed=1, **which)
    assert not np.array_equal(other.draws, found.draws)
    assert other.check().ok


HALF = np.random.default_rng(3).normal(3, 0.5, 1024)
MANY = {
    "two modes of the same mass": (1.0, np.random.default_rng(4).permutation(np.concatenate([HALF, -HALF]))),
    "two modes, rewards in turns": (0.5, np.tile([-3.0, 3.0], 1024)),
    "one mode, rewards in turns": (0.5, np.tile([-0.3, 0.3], 1024)),
    "one wide mode, rewards in turns": (5.0, np.tile([-1.0, 1.0], 1024)),
}


@pytest.mark.parametrize("case", MANY)
def test_the_modes_of_many_rewards_are_those_of_all_of_them(case):
    """A sample of the rewards says neither which modes there are nor what mass each has. The mutant sees those right of 0."""
    scale, rewards = MANY[case]
    found = blts.posterior(blts.StudentT(prior_sd=3.0, scale=scale), rewards, draws=400)
    assert found.warnings == []
    check = found.check()
    assert check.ok, str(check)
    assert abs(check.comparisons[0].mean_error) < 0.1
    assert not dataclasses.replace(found, draws=np.abs(found.draws)).check().ok


@pytest.mark.parametrize("case", ["Gaussian", "Gumbel, two parameters"])
def test_too_long_unadjusted_steps_are_flagged(case):
    """The mutant: on a Gaussian, steps of 1.5 have twice the posterior's sd. Only quadrature sees it."""
    model, rewards, which = CASES[case]
    found = blts.posterior(model, rewards, blts.ula(1.5), **which)
    assert dataclasses.replace(found, chosen=False).warnings == []
    assert "not from the posterior: by quadrature" in found.warnings[0]
    check = found.check()
    assert not check.ok
    assert "not draws from the posterior" in str(check)
    assert all(c.sd_error > 0.3 for c in check.comparisons)
    if case == "Gaussian":
        assert blts.posterior(model, rewards, blts.ula(0.05, steps=200)).check().ok


def test_draws_that_are_shifted_or_not_finite_are_flagged():
    model, rewards, _ = CASES["Gaussian"]
    found = blts.posterior(model, rewards)
    sd = found.draws.std()
    for theta in (found.draws + 0.3 * sd, np.full_like(found.draws, np.nan)):
        assert not dataclasses.replace(found, draws=theta).check().ok


def test_algorithm_2_draws_twice_as_widely():
    """`Perturb` adds noise of the posterior's variance to a chain's end: √2 times its sd, one refresh for each draw."""
    model, rewards, _ = CASES["Gaussian"]
    found = blts.posterior(model, rewards, blts.Perturb(blts.ula(0.05, steps=200)), draws=4000)
    (theta, _) = found.check().comparisons
    assert theta.sd_error == pytest.approx(2**0.5 - 1, abs=0.06)


def test_a_sampler_by_name_is_the_object():
    model, rewards, _ = CASES["Gaussian"]
    assert np.array_equal(blts.posterior(model, rewards, "ula").draws, blts.posterior(model, rewards, blts.ula()).draws)


def test_one_arm_of_several_is_that_arm():
    """The arm's own prior decides, and the others do not."""
    r = [0.3, 0.1]
    several = blts.Gaussian(prior_mean=[0.0, 5.0, 9.0], prior_sd=0.5)
    assert blts.posterior(several, r, arm=1).check().ok
    gap = blts.posterior(several, r, arm=1).draws.mean() - blts.posterior(several, r, arm=0).draws.mean()
    assert gap == pytest.approx(5.0 * 4 / 6, abs=0.1)
    assert np.array_equal(
        blts.posterior(several, r, arm=1).draws, blts.posterior(blts.Gaussian(prior_mean=5.0, prior_sd=0.5), r).draws
    )


def test_contexts():
    x = RNG.normal(size=(60, 2))
    r = x @ [1.0, -2.0] + RNG.normal(size=60)
    found = blts.posterior(blts.Linear(prior_mean=[0.0, 0.0]), r, contexts=x)
    check = found.check()
    assert check.ok, str(check)
    assert [c.name for c in check.comparisons] == ["θ[0]", "θ[1]", "mean reward"]
    precision = np.eye(2) + x.T @ x
    assert np.allclose(found.draws.mean(0), np.linalg.solve(precision, x.T @ r), atol=0.03)
    assert np.allclose(found.mean_reward, found.draws @ x.mean(0), atol=1e-4)


def test_how_it_prints():
    model, rewards, _ = CASES["Student-t with two modes"]
    found = blts.posterior(model, rewards, draws=64)
    assert repr(found).startswith("Posterior of StudentT given 20 rewards, by 40 MALA steps")
    assert "64 draws.\nθ has mean" in repr(found)
    assert "Chains: R-hat" in repr(found)
    assert "<p>Posterior of StudentT" in found._repr_html_()
    assert "given 1 reward, by exact" in repr(blts.posterior(blts.Gaussian(), [1.0], draws=8))


def test_chains_that_fail_are_warned_of():
    """An adjusted sampler whose steps are never accepted: the figures say so, and so does the check."""
    found = blts.posterior(blts.Gaussian(prior_sd=10.0, sd=0.1), RNG.normal(3, 0.1, 100), blts.mala(1e4))
    assert "an arm's chains accept 0 % of their proposals" in found.warnings[0]
    assert "WARNING: in 1 of 1 refreshes" in repr(found)
    assert not found.check().ok


def test_three_parameters_are_drawn_and_not_checked():
    found = blts.posterior(blts.ZeroInflatedLogNormal(), [0.0, 2.0, 3.0], draws=16)
    assert found.draws.shape == (16, 3)
    with pytest.raises(ConfigError, match=r"A grid is for one or two parameters, and ZeroInflatedLogNormal has 3; .*\."):
        found.check()


ONE, TWO = blts.Gaussian(), blts.Gaussian(prior_mean=[0.0, 1.0])
REFUSED = {
    "no rewards": ((ONE, []), {}, "there are no rewards"),
    "a NaN": ((ONE, [1.0, float("nan")]), {}, r"number 1 \(from 0\) is nan"),
    "words": ((ONE, ["much"]), {}, "must be a list or array of numbers"),
    "a table of rewards": ((TWO, [[1.0], [2.0]]), {"arm": 0}, r"one list of numbers.*\(2, 1\)"),
    "outside the support": ((blts.Bernoulli(), [0, 1, 2]), {}, "the rewards of Bernoulli are 0 or 1; got 2"),
    "without a density": ((grids.logistic().model, [0.5]), {"arm": 0}, "are 0 or 1; got 0.5"),
    "which arm": ((TWO, [1.0]), {}, "describes 2 arms; say which one with arm=0 … arm=1"),
    "no such arm": ((TWO, [1.0]), {"arm": 2}, "from 0 to 1; got 2"),
    "an arm of one": ((ONE, [1.0]), {"arm": 0}, "leave out arm=0"),
    "too few draws": ((ONE, [1.0]), {"draws": 1}, "draws must be a whole number ≥ 2; got 1"),
    "no contexts": ((blts.Linear(prior_mean=[0.0, 0.0]), [1.0]), {}, "needs a context for each reward"),
    "contexts for nothing": ((ONE, [1.0]), {"contexts": [[1.0]]}, "takes no contexts"),
    "too few contexts": ((blts.Linear(prior_mean=[0.0]), [1.0, 2.0]), {"contexts": [[1.0]]}, r"must be 2 rows.*\(1, 1\)"),
    "a kernel alone": ((ONE, [1.0], blts.MALA()), {}, r"give Chain\(MALA\(…\)\)"),
    "an agent": ((ONE, [1.0], blts.UCB1(2)), {}, "sampler must be an object such as"),
    "no model": (("gaussian", [1.0]), {}, "model must be an object such as"),
    "exact draws of what has none": ((blts.Laplace(), [1.0], blts.Exact()), {}, "Exact needs a conjugate model"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_right_is_refused_in_a_sentence(what):
    arguments, settings, words = REFUSED[what]
    with pytest.raises(ConfigError, match=words) as error:
        blts.posterior(*arguments, **settings)
    assert str(error.value).endswith(".")


def test_an_unknown_sampler_has_a_nearest_one():
    with pytest.raises(UnknownName, match="Did you mean 'sgld'"):
        blts.posterior(ONE, [1.0], "sgdl")


# For ArviZ


@pytest.mark.parametrize(
    ("model", "sampler", "sizes"),
    [
        (blts.Gaussian(), None, (1, 50)),
        (blts.Laplace(), None, (50, 1)),
        (blts.Laplace(), blts.Perturb(blts.ula()), (50, 1)),
        (blts.Laplace(), blts.LaplaceApproximation(), (1, 50)),
    ],
    ids=["exact", "pool", "around chains", "no chains"],
)
def test_draws_for_arviz(model, sampler, sizes):
    """The dimensions `chain` and `draw` in front, every draw once; R-hat is the chains' own, where there are chains."""
    pytest.importorskip("xarray")
    found = blts.posterior(model, [1.0, 2.0, 4.0], sampler, draws=50)
    data = found.to_xarray()
    assert data["θ"].dims == ("chain", "draw", "θ_dim")
    assert data.mean_reward.dims == ("chain", "draw")
    assert data.mean_reward.shape == sizes
    assert np.array_equal(data["θ"].values.reshape(50, 1), found.draws)
    assert np.array_equal(data.mean_reward.values.ravel(), found.mean_reward)
    assert data.attrs["rewards"] == 3
    assert ("r_hat" in data.attrs) == isinstance(found.belief, blts.Pool)
    if "r_hat" in data.attrs:
        assert data.attrs["r_hat"] == found.diagnostics.rhat


def test_a_bad_pool_says_so_to_arviz():
    pytest.importorskip("xarray")
    data = blts.posterior(blts.Laplace(prior_sd=1e3), [1.0, 2.0, 4.0], blts.ula(1e-4, steps=4), draws=50).to_xarray()
    assert data.attrs["r_hat"] > 1.5
    assert "R-hat" in data.attrs["warnings"]


def test_parameters_of_numpyro_keep_their_names_for_arviz():
    numpyro = pytest.importorskip("numpyro.distributions")
    pytest.importorskip("xarray")
    model = blts.from_numpyro(numpyro.Normal, {"loc": numpyro.Normal(0, 1), "scale": numpyro.HalfNormal(1.0)})
    data = blts.posterior(model, [1.0, 2.0, 4.0], draws=50).to_xarray()
    assert sorted(data) == ["loc", "mean_reward", "scale"]
    assert data["scale"].dims == ("chain", "draw")
    assert data["scale"].values.min() > 0


def test_a_missing_xarray_is_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(ConfigError, match="needs xarray; install it with: pip install"):
        blts.posterior(blts.Gaussian(), [1.0], draws=2).to_xarray()


RARE = [1.0] * 28 + [0.0] * 1972


def test_chains_that_have_not_arrived_are_said():
    """All start at the prior and are on their way, so that R-hat does not notice; the mutant looks at R-hat alone."""
    found = blts.posterior(blts.Bernoulli(), RARE, "mala")
    exact = stats.beta(29, 1973)
    assert found.mean_reward.mean() > exact.mean() + 3 * exact.std()
    assert "the draws are not from the posterior: by quadrature" in found.warnings[0]
    assert "WARNING: the draws are not from the posterior" in repr(found)
    assert dataclasses.replace(found, chosen=False).warnings == []
    assert blts.posterior(blts.Bernoulli(), RARE).warnings == []
    assert blts.posterior(blts.Bernoulli(), RARE, blts.mala(steps=400)).warnings == []
