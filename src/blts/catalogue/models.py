"""Named reward models, for live experiments and the command line. Defaults are those of the classes."""

from __future__ import annotations

from .. import models
from ..registry import register

register("model", "gaussian", "Gaussian rewards of known spread.")(models.Gaussian)
register("model", "gaussian-unknown-variance", "Gaussian rewards whose spread is learned too.")(models.GaussianUnknownVariance)
register("model", "laplace", "Rewards around a location with exponential tails.")(models.Laplace)
register("model", "student-t", "Rewards around a location with heavy tails.")(models.StudentT)
register("model", "bernoulli", "Rewards 0 or 1: a click, a conversion.")(models.Bernoulli)
register("model", "poisson", "Rewards that count: visits, sales.")(models.Poisson)
register("model", "exponential", "Waiting times.")(models.Exponential)
register("model", "gamma", "Amounts above zero with a known shape.")(models.Gamma)
register("model", "log-normal", "Amounts above zero whose logarithm is Gaussian.")(models.LogNormal)
register("model", "zero-inflated-log-normal", "Revenue: nothing, or a log-normal amount.")(models.ZeroInflatedLogNormal)
# Models of the features of a round, which a live experiment or an environment must have.
for _name, _builder, _summary in (
    ("linear", models.Linear, "Rewards that are linear in the features of a round."),
    ("linear-unknown-variance", models.LinearUnknownVariance, "The same, with a spread that is learned too."),
    ("logistic", models.Logistic, "Rewards 0 or 1 that depend on the features of a round."),
    ("poisson-regression", models.PoissonRegression, "Counts that depend on the features of a round."),
    ("network", models.Network, "A small neural network of the features of a round."),
):
    register("model", _name, _summary, contextual=True)(_builder)
