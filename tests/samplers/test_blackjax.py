"""BlackJAX kernels on the same potentials."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from blts import random
from blts._module import array, module
from blts.errors import ConfigError
from blts.models import Gaussian
from blts.models.arms import stack
from blts.models.base import Model
from blts.samplers import BlackJAX, Chain, Potential, hmc, nuts
from laws import LEVEL, gaussian_p, ks_p
from targets import CHAINS, QUADRATIC, log_of, moments_of, refresh, tempered

# BlackJAX kernels on the same potentials


def blackjax_p(chain, chains, model=None):
    model = stack(Gaussian(prior_mean=[0.0, 1.0], prior_sd=1.0, sd=0.5) if model is None else model, 2)
    rewards = np.random.default_rng(0).normal(0.7, 0.5, (2, 7)).astype(np.float32)
    history = moments_of(rewards) if isinstance(model, Gaussian) else log_of([0] * 7 + [1] * 7, rewards.ravel(), 2)
    ends, info = jax.jit(lambda theta: refresh(chain, random.key(1), model, theta, history))(
        random.normal(random.key(0), (2, chains, 1))
    )
    sd = (1 + 28) ** -0.5
    means = (np.array([0.0, 1.0]) + 4 * rewards.astype(float).sum(1)) / 29
    p = min(min(gaussian_p(x, mean, sd), ks_p(x, stats.norm(mean, sd).cdf)) for x, mean in zip(ends[..., 0], means, strict=True))
    return p, float(info.acceptance.mean())


@module
class RowsOnly(Model):
    """The Gaussian model without its summary, so that the potential is a sum over the log."""

    prior_mean: jax.Array = array(0.0)
    dim: ClassVar[int] = 1

    def full(self):
        return Gaussian(self.prior_mean, 1.0, 0.5)

    def log_prior(self, theta):
        return self.full().log_prior(theta)

    def log_likelihood(self, theta, row):
        return self.full().log_likelihood(theta, row)

    def information(self, theta):
        return jnp.full(1, 4.0)

    def prior_precision(self):
        return jnp.ones(1)


def tempered_nuts(log_density, scale):
    import blackjax

    return blackjax.nuts(lambda x: 1.15 * log_density(x), 0.8, scale)


def test_blackjax_hmc_has_the_posterior_law():
    pytest.importorskip("blackjax")
    p, acceptance = blackjax_p(hmc(0.7, leapfrogs=3, steps=25), CHAINS)
    assert p > LEVEL
    assert 0.9 < acceptance < 1
    assert blackjax_p(Chain(BlackJAX(tempered), steps=25), CHAINS)[0] < LEVEL


@pytest.mark.slow
def test_blackjax_nuts_has_the_posterior_law():
    pytest.importorskip("blackjax")
    p, acceptance = blackjax_p(nuts(0.8, steps=25), 4000, RowsOnly(prior_mean=[0.0, 1.0]))
    assert p > LEVEL
    assert 0.8 < acceptance < 1
    assert blackjax_p(Chain(BlackJAX(tempered_nuts), steps=25), 4000, RowsOnly(prior_mean=[0.0, 1.0]))[0] < LEVEL


def test_a_blackjax_kernel_without_an_acceptance_reports_one():
    pytest.importorskip("blackjax")
    import blackjax

    kernel = BlackJAX(
        lambda log_density, scale: blackjax.elliptical_slice(lambda x: 0.0 * log_density(x), mean=jnp.zeros(1), cov=scale)
    )
    state, info = kernel.step(
        random.key(0), kernel.init(jnp.zeros(1)), Potential(lambda x: jnp.sum(x), lambda key, x: jnp.ones(1), jnp.ones(1))
    )
    assert info.acceptance == 1
    assert state.position.shape == (1,)


def test_blackjax_says_what_to_install_and_what_it_needs(monkeypatch):
    with pytest.raises(ConfigError, match=r"BlackJAX: build must be a function \(log_density, scale\)"):
        BlackJAX("nuts")
    pytest.importorskip("blackjax")
    with pytest.raises(ConfigError, match="leapfrogs must be a whole number ≥ 1"):
        hmc(leapfrogs=0)
    kernel = BlackJAX(tempered)
    with pytest.raises(ConfigError, match=r"a kernel moves one chain of shape \(dim,\)"):
        kernel.step(random.key(0), kernel.init(jnp.zeros((5, 2))), QUADRATIC)
    monkeypatch.setitem(__import__("sys").modules, "blackjax", None)
    with pytest.raises(ConfigError, match=r'run pip install "blts\[blackjax\]"'):
        nuts()
