"""Rewards above zero: waiting times, amounts, and revenue, which is often nothing at all."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax.scipy.special import gammaln

from .. import _draws, _random
from .._module import array, finite, module, positive
from .._typing import Numbers
from ..declared import fact, rests_on
from . import marginal, nig, rate
from .arms import arm_count
from .base import Model, Theory
from .bernoulli import draw_logit, log_density_of_logit, logit_precision
from .moments import Moments
from .nig import NormalInverseGamma, NormalInverseGammaPrior


@module
class Gamma(Model):
    """Rewards Gamma(shape, rate λ) with mean shape/λ; θ = log λ, with the prior λ ~ Gamma(a, rate b).

    Args:
        shape: of the rewards' Gamma law, known.
        a: shape of the Gamma prior of their rate, one number or one for each arm.
        b: rate of that prior.

    >>> from blts.models import Gamma
    >>> Gamma(shape=2.0, a=3.0, b=[3.0, 6.0])
    Gamma(shape=2, a=3, b=[3, 6])
    """

    shape: Numbers = array(default=1.0)
    a: Numbers = array(default=1.0)
    b: Numbers = array(default=1.0)
    dim: ClassVar[int] = 1
    noun: ClassVar[str] = "Gamma rewards"
    support: ClassVar[str] = "positive"

    def check(self):
        arm_count(self)
        positive(self, "shape", "a", "b")

    @rests_on("log_prior")
    def init(self, key):
        return rate.draw(key, self.a, self.b)[None]

    @rests_on("init")
    def log_prior(self, theta):
        return rate.log_density(theta[0], self.a, self.b)

    def _base(self, reward):
        return (self.shape - 1.0) * jnp.log(reward) - gammaln(self.shape)

    @rests_on("support")
    def log_likelihood(self, theta, row):
        return self.shape * theta[0] - jnp.exp(theta[0]) * row.reward + self._base(row.reward)

    @rests_on("log_likelihood")
    def mean_reward(self, theta, obs, action):
        return self.shape * jnp.exp(-theta[0])

    @rests_on("mean_reward")
    def theta_of_mean(self, mean):
        return (jnp.log(self.shape) - jnp.log(mean))[None]

    @rests_on("log_likelihood")
    def sample(self, key, theta, obs, action):
        return jnp.exp(_random.log_gamma(key, self.shape) - theta[0])

    @rests_on("sample", "empty", "add")
    def sample_summary(self, key, theta, n):
        shape = self.shape * jnp.maximum(n, 1)
        return rate.Totals.of_sum(n, jnp.exp(_draws.log_gamma(key, shape) - theta[0]))

    information_sets_step = fact("log_likelihood", "log_prior", "information")

    @rests_on("log_likelihood")
    def information(self, theta):
        return jnp.reshape(self.shape + 0.0 * theta[0], (1,))

    @rests_on("init", "log_prior")
    def prior_precision(self):
        # The curvature b·λ of -log prior at its mode λ = a/b.
        return jnp.reshape(self.a + 0.0 * self.b, (1,))

    @rests_on("log_likelihood")
    def theory(self):
        return Theory(False, "the curvature λ r in θ has no bounds m and L over all rewards, and that in r falls to zero, so no ν.")

    # The exact posterior

    def empty(self):
        return rate.Totals.zero()

    def add(self, summary, row):
        return summary.plus(row.reward, self._base(row.reward))

    @rests_on("log_likelihood", "empty", "add")
    def log_likelihood_of(self, theta, summary):
        return summary.rows * self.shape * theta[0] - jnp.exp(theta[0]) * summary.rewards.total + summary.base.value

    def _posterior(self, summary):
        return self.a + summary.rows * self.shape, self.b + summary.rewards.total

    @rests_on("init", "log_prior", "log_likelihood", "log_likelihood_of", "empty", "add", "marginal")
    def draw(self, key, summary):
        return rate.draw(key, *self._posterior(summary))[None]

    @rests_on("init", "log_prior", "log_likelihood", "log_likelihood_of", "empty", "add", "draw", "mean_reward")
    def marginal(self, summary, obs, action):
        a, b = self._posterior(summary)
        return marginal.InverseGammaLaw(a, self.shape * b)


def Exponential(a: Numbers = 1.0, b: Numbers = 1.0) -> Gamma:
    """Exponential rewards with rate λ ~ Gamma(a, rate b): Gamma rewards of shape 1.

    Args:
        a: shape of the prior of λ, one number or one for each arm.
        b: rate of that prior.

    Returns:
        The model.

    >>> from blts.models import Exponential
    >>> Exponential(a=3.0, b=[3.0, 6.0])
    Gamma(shape=1, a=3, b=[3, 6])
    """
    one: Any = 1.0
    return Gamma(one, a, b)


@module
class LogNormal(NormalInverseGammaPrior, Model):
    """Rewards whose logarithm is N(μ, σ²), θ = (μ, log σ); σ² ~ InverseGamma(a, b), μ | σ ~ N(prior_mean, σ²/weight).

    The mean reward is exp(μ + σ²/2). Its *expectation* is infinite under any inverse gamma law of σ², because large σ²
    are only polynomially rare; Thompson sampling needs draws alone, and those are tame where `a` is large. With the
    default a = b = 10, σ² is about 1 and above 8 once in 10⁶ draws.

    Args:
        prior_mean: of μ, the mean of log rewards, one number or one for each arm.
        weight: how many rewards the prior mean is worth.
        a: shape of the inverse Gamma prior of σ².
        b: scale of that prior.

    >>> from blts.models import LogNormal
    >>> LogNormal(prior_mean=[0.0, 1.0])
    LogNormal(prior_mean=[0, 1], weight=1, a=10, b=10)
    """

    prior_mean: Numbers = array(default=0.0)
    weight: Numbers = array(default=1.0)
    a: Numbers = array(default=10.0)
    b: Numbers = array(default=10.0)
    noun: ClassVar[str] = "log-normal rewards"
    support: ClassVar[str] = "positive"

    @rests_on("support")
    def log_likelihood(self, theta, row):
        log_reward = jnp.log(row.reward)
        return nig.log_likelihood(theta, log_reward) - log_reward

    @rests_on("log_likelihood")
    def mean_reward(self, theta, obs, action):
        return jnp.exp(theta[0] + 0.5 * jnp.exp(2.0 * theta[1]))

    @rests_on("log_likelihood")
    def sample(self, key, theta, obs, action):
        return jnp.exp(theta[0] + jnp.exp(theta[1]) * _random.normal(key))

    @rests_on("log_likelihood")
    def theory(self):
        return Theory(False, "log p is not concave in (μ, log σ) for every reward, nor in the reward, so m, L and ν do not exist.")

    # The exact posterior

    def add(self, summary, row):
        return summary.plus(jnp.log(row.reward))

    @rests_on("log_likelihood", "empty", "add")
    def log_likelihood_of(self, theta, summary):
        return nig.log_likelihood_of(theta, summary) - summary.total

    @rests_on("init", "log_prior", "log_likelihood", "log_likelihood_of", "empty", "add", "draw", "mean_reward")
    def marginal(self, summary, obs, action):
        return None


@module
class ZeroInflatedLogNormal(Model):
    """Revenue: a reward is above zero with probability p, and then its logarithm is N(μ, σ²); θ = (logit p, μ, log σ).

    p ~ Beta(paid, unpaid): the rewards above zero and the zeros that the prior is worth. (μ, σ) has the prior of
    `LogNormal`, and what is said there about `a` holds here: the mean reward p exp(μ + σ²/2) has no finite expectation.

    Args:
        paid: pseudo-count of payments of the Beta prior.
        unpaid: pseudo-count of zeros.
        prior_mean: of μ, the mean of log payments, one number or one for each arm.
        weight: how many payments the prior mean is worth.
        a: shape of the inverse Gamma prior of σ².
        b: scale of that prior.

    >>> from blts.models import ZeroInflatedLogNormal
    >>> ZeroInflatedLogNormal(paid=[1.0, 2.0], unpaid=20.0, prior_mean=3.0)
    ZeroInflatedLogNormal(paid=[1, 2], unpaid=20, prior_mean=3, weight=1, a=10, b=10)
    """

    paid: Numbers = array(default=1.0)
    unpaid: Numbers = array(default=1.0)
    prior_mean: Numbers = array(default=0.0)
    weight: Numbers = array(default=1.0)
    a: Numbers = array(default=10.0)
    b: Numbers = array(default=10.0)
    dim: ClassVar[int] = 3
    noun: ClassVar[str] = "rewards that are zero or log-normal"
    support: ClassVar[str] = "nonnegative"

    def check(self):
        arm_count(self)
        finite(self, "prior_mean")
        positive(self, "paid", "unpaid", "weight", "a", "b")

    @property
    def _prior(self):
        return NormalInverseGamma(self.prior_mean, self.weight, self.a, self.b)

    @staticmethod
    def _draw(key, paid, unpaid, amount: NormalInverseGamma):
        key_pay, key_amount = _random.split(key)
        return jnp.concatenate([draw_logit(key_pay, paid, unpaid)[None], amount.draw(key_amount)])

    @rests_on("log_prior")
    def init(self, key):
        return self._draw(key, self.paid, self.unpaid, self._prior)

    @rests_on("init")
    def log_prior(self, theta):
        return log_density_of_logit(theta[0], self.paid, self.unpaid) + self._prior.log_density(theta[1:])

    @rests_on("support")
    def log_likelihood(self, theta, row):
        pays = row.reward > 0
        log_reward = jnp.log(jnp.where(pays, row.reward, 1.0))
        amount = nig.log_likelihood(theta[1:], log_reward) - log_reward
        return jnp.where(pays, amount - jax.nn.softplus(-theta[0]), -jax.nn.softplus(theta[0]))

    @rests_on("log_likelihood")
    def mean_reward(self, theta, obs, action):
        return jax.nn.sigmoid(theta[0]) * jnp.exp(theta[1] + 0.5 * jnp.exp(2.0 * theta[2]))

    @rests_on("log_likelihood")
    def sample(self, key, theta, obs, action):
        key_pay, key_amount = _random.split(key)
        amount = jnp.exp(theta[1] + jnp.exp(theta[2]) * _random.normal(key_amount))
        return jnp.where(_random.uniform(key_pay) < jax.nn.sigmoid(theta[0]), amount, 0.0)

    information_sets_step = fact("log_likelihood", "log_prior", "information")

    @rests_on("log_likelihood")
    def information(self, theta):
        p = jax.nn.sigmoid(theta[0])
        return jnp.concatenate([(p * jax.nn.sigmoid(-theta[0]))[None], p * nig.information(theta[1:])])

    @rests_on("init", "log_prior")
    def prior_precision(self):
        return jnp.concatenate([jnp.reshape(logit_precision(self.paid, self.unpaid), (1,)), self._prior.precision])

    @rests_on("log_likelihood")
    def theory(self):
        return Theory(False, "log p is not concave in (μ, log σ), and a reward that can be exactly zero has no density.")

    # The exact posterior; the summary has the logarithms of the rewards above zero, and counts all rows

    def empty(self):
        return Moments.zero()

    def add(self, summary, row):
        pays = row.reward > 0
        return summary.plus(jnp.log(jnp.where(pays, row.reward, 1.0)), pays)

    @rests_on("log_likelihood", "empty", "add")
    def log_likelihood_of(self, theta, summary):
        pays = -summary.n * jax.nn.softplus(-theta[0]) - (summary.rows - summary.n) * jax.nn.softplus(theta[0])
        return pays + nig.log_likelihood_of(theta[1:], summary) - summary.total

    @rests_on("init", "log_prior", "log_likelihood", "log_likelihood_of", "empty", "add", "marginal")
    def draw(self, key, summary):
        zeros = summary.rows - summary.n
        return self._draw(key, self.paid + summary.n, self.unpaid + zeros, self._prior.after(summary))

    @rests_on("init", "log_prior", "log_likelihood", "log_likelihood_of", "empty", "add", "draw", "mean_reward")
    def marginal(self, summary, obs, action):
        return None
