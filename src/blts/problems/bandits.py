"""Named bandits. `informative` and `uninformative` are the two priors of the paper's experiments.

The arms are in the order of their means. Agents break ties in a random order, so the order of the arms does not matter.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import envs, models
from ..errors import whole
from ..registry import register
from .base import Problem


def _of(env: Any, informative: Any, uninformative: Any, horizon: int = 650) -> Problem:
    return Problem(env, {"informative": informative, "uninformative": uninformative}, horizon)


@register("environment", "gaussian")
def gaussian(arms=15) -> Problem:
    """The paper's Gaussian bandit: means evenly spaced in [1, 20], sd 0.5."""
    whole("arms", arms, 2)
    env = envs.Bandit.with_means(models.Gaussian(sd=0.5), np.linspace(1, 20, arms))
    informative = models.Gaussian(prior_mean=np.linspace(14, 20, arms), prior_sd=0.375**-0.5, sd=0.5)
    return _of(env, informative, models.Gaussian(prior_mean=14.0, prior_sd=8.0**0.5, sd=0.5))


@register("environment", "gaussian-close")
def gaussian_close() -> Problem:
    """Arms that are hard to distinguish: 5 Gaussian arms, means evenly spaced in [0, 0.4], sd 1."""
    means = np.linspace(0, 0.4, 5)
    env = envs.Bandit.with_means(models.Gaussian(sd=1.0), means)
    informative = models.Gaussian(prior_mean=means, prior_sd=0.2, sd=1.0)
    return _of(env, informative, models.Gaussian(prior_mean=0.0, prior_sd=1.0, sd=1.0), horizon=4000)


@register("environment", "laplace")
def laplace() -> Problem:
    """The paper's Laplace bandit: 10 arms, means evenly spaced in [1, 10], sd 0.8."""
    env = envs.Bandit.with_means(models.Laplace.with_sd(sd=0.8), np.linspace(1, 10, 10))
    informative = models.Laplace.with_sd(sd=0.8, prior_mean=np.linspace(4, 10, 10), prior_sd=0.875**-0.5)
    return _of(env, informative, models.Laplace.with_sd(sd=0.8, prior_mean=7.0, prior_sd=2.0))


@register("environment", "student-t")
def student_t() -> Problem:
    """Heavy tails: 10 Student-t arms with 3 degrees of freedom, means evenly spaced in [0, 2], scale 0.5."""
    means = np.linspace(0, 2, 10)
    env = envs.Bandit.with_means(models.StudentT(scale=0.5, df=3.0), means)
    informative = models.StudentT(prior_mean=means, prior_sd=0.5, scale=0.5, df=3.0)
    return _of(env, informative, models.StudentT(prior_mean=1.0, prior_sd=1.0, scale=0.5, df=3.0))


@register("environment", "bernoulli")
def bernoulli() -> Problem:
    """Clicks: 10 Bernoulli arms with rates evenly spaced in [0.05, 0.5]."""
    rates = np.linspace(0.05, 0.5, 10)
    env = envs.Bandit.with_means(models.Bernoulli(), rates)
    return _of(env, models.Bernoulli(a=10 * rates, b=10 * (1 - rates)), models.Bernoulli())


@register("environment", "poisson")
def poisson() -> Problem:
    """Counts: 8 Poisson arms with rates evenly spaced in [1, 4]."""
    rates = np.linspace(1, 4, 8)
    env = envs.Bandit.with_means(models.Poisson(), rates)
    return _of(env, models.Poisson(a=5 * rates, b=5.0), models.Poisson(a=2.0, b=1.0))


@register("environment", "exponential")
def exponential() -> Problem:
    """Waiting times: 8 exponential arms with means evenly spaced in [1, 4]."""
    means = np.linspace(1, 4, 8)
    env = envs.Bandit.with_means(models.Exponential(), means)
    return _of(env, models.Exponential(a=6.0, b=5 * means), models.Exponential(a=3.0, b=4.0))


@register("environment", "gamma")
def gamma() -> Problem:
    """Durations: 8 Gamma arms of shape 2 with means evenly spaced in [1, 4]."""
    means = np.linspace(1, 4, 8)
    env = envs.Bandit.with_means(models.Gamma(shape=2.0), means)
    return _of(env, models.Gamma(shape=2.0, a=6.0, b=2.5 * means), models.Gamma(shape=2.0, a=3.0, b=2.0))


@register("environment", "gaussian-unknown-variance")
def gaussian_unknown_variance() -> Problem:
    """Gaussian rewards whose spread must be learned too: 8 arms, means in [0, 2], sds in [0.5, 1]."""
    means = np.linspace(0, 2, 8)
    theta = np.stack([means, np.log(np.linspace(1.0, 0.5, 8))], 1)
    env = envs.Bandit(models.GaussianUnknownVariance(), theta)
    informative = models.GaussianUnknownVariance(prior_mean=means, weight=5.0, a=3.0, b=2.0)
    return _of(env, informative, models.GaussianUnknownVariance(prior_mean=1.0, weight=1.0, a=2.0, b=1.0))


@register("environment", "log-normal")
def log_normal() -> Problem:
    """Order values: 6 log-normal arms, means of the logs evenly spaced in [3, 3.5], sd of the logs 0.5."""
    mu = np.linspace(3, 3.5, 6)
    env = envs.Bandit(models.LogNormal(), np.stack([mu, np.full(6, math.log(0.5))], 1))
    informative = models.LogNormal(prior_mean=mu, weight=5.0, a=10.0, b=2.5)
    return _of(env, informative, models.LogNormal(prior_mean=3.0, weight=1.0, a=10.0, b=2.5))


@register("environment", "revenue")
def revenue() -> Problem:
    """Revenue per visitor: 5 zero-inflated log-normal arms; more buyers in one arm, larger orders in another."""
    rate = np.array([0.10, 0.12, 0.10, 0.15, 0.12])
    mu = np.array([3.0, 3.0, 3.4, 2.9, 3.3])
    env = envs.Bandit(models.ZeroInflatedLogNormal(), np.stack([np.log(rate / (1 - rate)), mu, np.full(5, math.log(0.7))], 1))
    informative = models.ZeroInflatedLogNormal(paid=2.0, unpaid=15.0, prior_mean=mu, weight=5.0, a=10.0, b=5.0)
    return _of(env, informative, models.ZeroInflatedLogNormal(prior_mean=3.0, weight=1.0, a=10.0, b=5.0), horizon=5000)


RAND_PRIORS = {
    "informative": models.ZeroInflatedLogNormal(paid=7.0, unpaid=3.0, prior_mean=4.0, weight=5.0, a=10.0, b=18.0),
    "uninformative": models.ZeroInflatedLogNormal(prior_mean=4.0, weight=1.0, a=10.0, b=18.0),
    # The spread of the dollars is about 700, and most of it comes from few people.
    "gaussian": models.GaussianUnknownVariance(prior_mean=200.0, weight=1.0, a=2.0, b=500_000.0),
}


@register("environment", "rand-hie")
def rand_hie() -> Problem:
    """Recorded medical dollars of the five coinsurance arms of the RAND Health Insurance Experiment."""
    return Problem(envs.rand_hie(), RAND_PRIORS, 5000)


@register("environment", "rand-hie-fitted")
def rand_hie_fitted() -> Problem:
    """The same arms as zero-inflated log-normal distributions fitted to the recorded dollars: the model is right here."""
    rewards, counts = (np.asarray(x) for x in (envs.rand_hie().rewards, envs.rand_hie().counts))
    theta = []
    for row, count in zip(rewards, counts, strict=True):
        paid = np.log(row[:count][row[:count] > 0])
        theta.append([math.log(paid.size / (count - paid.size)), paid.mean(), math.log(paid.std())])
    return Problem(envs.Bandit(models.ZeroInflatedLogNormal(), np.array(theta)), RAND_PRIORS, 5000)
