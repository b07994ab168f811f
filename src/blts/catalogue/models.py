"""Reward models by name, for specifications that are text."""

from __future__ import annotations

from .. import models
from ..registry import register


@register("model", "gaussian")
def gaussian(prior_mean=0.0, prior_sd=1.0, sd=1.0):
    """Gaussian rewards of known spread."""
    return models.Gaussian(prior_mean, prior_sd, sd)


@register("model", "gaussian-unknown-variance")
def gaussian_unknown_variance(prior_mean=0.0, weight=1.0, a=2.0, b=2.0):
    """Gaussian rewards whose spread is learned too."""
    return models.GaussianUnknownVariance(prior_mean, weight, a, b)


@register("model", "laplace")
def laplace(prior_mean=0.0, prior_sd=1.0, scale=1.0):
    """Rewards around a location with exponential tails."""
    return models.Laplace(prior_mean, prior_sd, scale)


@register("model", "student-t")
def student_t(prior_mean=0.0, prior_sd=1.0, scale=1.0, df=3.0):
    """Rewards around a location with heavy tails."""
    return models.StudentT(prior_mean, prior_sd, scale, df)


@register("model", "bernoulli")
def bernoulli(a=1.0, b=1.0):
    """Rewards 0 or 1: a click, a conversion."""
    return models.Bernoulli(a, b)


@register("model", "poisson")
def poisson(a=1.0, b=1.0):
    """Rewards that count: visits, sales."""
    return models.Poisson(a, b)


@register("model", "exponential")
def exponential(a=1.0, b=1.0):
    """Waiting times."""
    return models.Exponential(a, b)


@register("model", "gamma")
def gamma(shape=1.0, a=1.0, b=1.0):
    """Amounts above zero with a known shape."""
    return models.Gamma(shape, a, b)


@register("model", "log-normal")
def log_normal(prior_mean=0.0, weight=1.0, a=10.0, b=10.0):
    """Amounts above zero whose logarithm is Gaussian."""
    return models.LogNormal(prior_mean, weight, a, b)


@register("model", "zero-inflated-log-normal")
def zero_inflated_log_normal(paid=1.0, unpaid=1.0, prior_mean=0.0, weight=1.0, a=10.0, b=10.0):
    """Revenue: nothing, or a log-normal amount."""
    return models.ZeroInflatedLogNormal(paid, unpaid, prior_mean, weight, a, b)
