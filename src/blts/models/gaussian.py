"""Gaussian rewards: known variance (the paper's bandit), and unknown variance."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp

from .. import _random
from .._module import array, finite, module, positive
from .._typing import Numbers
from ..declared import fact, rests_on
from . import marginal, nig
from .arms import arm_count
from .base import Model, Theory
from .moments import Moments
from .nig import NormalInverseGammaPrior
from .normal import HALF_LOG_2PI, NormalPrior
from .printing import low_high


@module
class Gaussian(NormalPrior, Model):
    """Rewards N(θ, sd²) with a prior N(prior_mean, prior_sd²) on θ.

    Args:
        prior_mean: of θ, one number or one for each arm.
        prior_sd: of θ.
        sd: of the rewards, known.

    >>> from blts.models import Gaussian
    >>> print(Gaussian(prior_mean=[14.0, 17.0, 20.0], prior_sd=1.6, sd=0.5))
    3 arms with Gaussian rewards (prior mean [14, 17, 20], prior sd 1.6, sd 0.5), inside the paper's theory: m = L = ν = 4.
    """

    prior_mean: Numbers = array(default=0.0)
    prior_sd: Numbers = array(default=1.0)
    sd: Numbers = array(default=1.0)
    noun: ClassVar[str] = "Gaussian rewards"

    def check(self):
        arm_count(self)
        finite(self, "prior_mean")
        positive(self, "prior_sd", "sd")

    def log_likelihood(self, theta, row):
        return -0.5 * jnp.square((row.reward - theta[0]) / self.sd) - jnp.log(self.sd) - HALF_LOG_2PI

    @rests_on("log_likelihood")
    def sample(self, key, theta, obs, action):
        return theta[0] + self.sd * _random.normal(key)

    @rests_on("sample", "empty", "add")
    def sample_summary(self, key, theta, n):
        return Moments.of_mean(n, theta[0] + self.sd / jnp.sqrt(jnp.maximum(n, 1)) * _random.normal(key))

    information_sets_step = fact("log_likelihood", "log_prior", "information")

    @rests_on("log_likelihood")
    def information(self, theta):
        return jnp.reshape(1.0 / jnp.square(self.sd), (1,))

    @rests_on("log_likelihood")
    def theory(self):
        m = 1.0 / self.sd**2
        return Theory(True, f"m = L = ν = {low_high(m)}.", m, m, m)

    # The exact posterior

    def empty(self):
        return Moments.zero()

    def add(self, summary, row):
        return summary.plus(row.reward)

    @rests_on("log_likelihood", "empty", "add")
    def log_likelihood_of(self, theta, summary):
        return -0.5 * summary.about(theta[0]) / jnp.square(self.sd) - summary.n * (jnp.log(self.sd) + HALF_LOG_2PI)

    def _posterior(self, summary):
        tau, data = 1.0 / jnp.square(self.prior_sd), summary.n / jnp.square(self.sd)
        # From the data's mean towards the prior's, which rounds only once where n is large.
        pull = tau / (tau + data) * ((self.prior_mean - summary.mean) - summary.low)
        return marginal.NormalLaw(summary.mean + (summary.low + pull), 1.0 / jnp.sqrt(tau + data))

    @rests_on(
        "init", "init_from", "log_prior", "log_likelihood", "log_likelihood_of", "empty", "add", "draw", "draw_from", "mean_reward"
    )
    def marginal(self, summary, obs, action):
        return self._posterior(summary)

    @rests_on("init", "init_from", "log_prior", "log_likelihood", "log_likelihood_of", "empty", "add", "draw_from", "marginal")
    def draw(self, key, summary):
        posterior = self._posterior(summary)
        return posterior.mean + posterior.sd * _random.normal(key, (1,))

    @rests_on("draw", "marginal", "mean_reward")
    def draw_from(self, z, marginal):
        return marginal.mean + marginal.sd * z


@module
class GaussianUnknownVariance(NormalInverseGammaPrior, Model):
    """Rewards N(μ, σ²), θ = (μ, log σ), with the prior σ² ~ InverseGamma(a, b), μ | σ ~ N(prior_mean, σ²/weight).

    `weight` is worth that many rewards about the mean; `a` and `b` say that σ² is about b/a.

    Args:
        prior_mean: of μ, one number or one for each arm.
        weight: how many rewards the prior mean is worth.
        a: shape of the inverse Gamma prior of σ².
        b: scale of that prior.

    >>> from blts.models import GaussianUnknownVariance
    >>> GaussianUnknownVariance(prior_mean=[0.0, 1.0])
    GaussianUnknownVariance(prior_mean=[0, 1], weight=1, a=2, b=2)
    """

    prior_mean: Numbers = array(default=0.0)
    weight: Numbers = array(default=1.0)
    a: Numbers = array(default=2.0)
    b: Numbers = array(default=2.0)
    noun: ClassVar[str] = "Gaussian rewards of unknown variance"

    def log_likelihood(self, theta, row):
        return nig.log_likelihood(theta, row.reward)

    @rests_on("log_likelihood")
    def mean_reward(self, theta, obs, action):
        return theta[0]

    @rests_on("log_likelihood")
    def sample(self, key, theta, obs, action):
        return theta[0] + jnp.exp(theta[1]) * _random.normal(key)

    @rests_on("log_likelihood")
    def theory(self):
        return Theory(False, "log p is not concave in (μ, log σ) for every reward, so m and L do not exist.")

    # The exact posterior

    def add(self, summary, row):
        return summary.plus(row.reward)

    @rests_on("log_likelihood", "empty", "add")
    def log_likelihood_of(self, theta, summary):
        return nig.log_likelihood_of(theta, summary)

    @rests_on("init", "log_prior", "log_likelihood", "log_likelihood_of", "empty", "add", "draw", "mean_reward")
    def marginal(self, summary, obs, action):
        mean, weight, a, b = self._prior.after(summary)
        return marginal.StudentTLaw(2.0 * a, mean, jnp.sqrt(b / (a * weight)))
