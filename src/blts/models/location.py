"""Rewards around an unknown location, with tails heavier than a Gaussian's. Neither model has a closed posterior."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln

from .._module import array, finite, is_concrete, module, positive, require, short
from .._typing import Numbers
from ..declared import fact, rests_on
from .arms import arm_count
from .base import Model, Theory
from .normal import NormalPrior
from .printing import low_high


@module
class Laplace(NormalPrior, Model):
    """Rewards with density exp(-|r - θ|/scale) / (2 scale) and a prior N(prior_mean, prior_sd²) on θ.

    Args:
        prior_mean: of θ, one number or one for each arm.
        prior_sd: of θ.
        scale: of the rewards, known: their sd is √2 times it.

    >>> from blts.models import Laplace
    >>> Laplace.with_sd(prior_mean=[4.0, 10.0], prior_sd=1.0, sd=1.0)
    Laplace(prior_mean=[4, 10], prior_sd=1, scale=0.7071)
    """

    prior_mean: Numbers = array(default=0.0)
    prior_sd: Numbers = array(default=1.0)
    scale: Numbers = array(default=1.0)
    noun: ClassVar[str] = "Laplace rewards"

    @classmethod
    def with_sd(cls, prior_mean: Numbers = 0.0, prior_sd: Numbers = 1.0, sd: Numbers = 1.0) -> Laplace:
        """The model whose rewards have the given standard deviation, √2 · scale."""
        scale: Any = np.asarray(sd, float) / math.sqrt(2.0)
        return cls(prior_mean, prior_sd, scale)

    def check(self):
        arm_count(self)
        finite(self, "prior_mean")
        positive(self, "prior_sd", "scale")

    def log_likelihood(self, theta, row):
        return -jnp.abs(row.reward - theta[0]) / self.scale - jnp.log(2.0 * self.scale)

    @rests_on("log_likelihood")
    def sample(self, key, theta, obs, action):
        return theta[0] + self.scale * jax.random.laplace(key)

    information_sets_step = fact("log_likelihood", "log_prior", "information")

    @rests_on("log_likelihood")
    def information(self, theta):
        # The Fisher information. It stands in for L, which a density with a kink does not have.
        return jnp.reshape(1.0 / jnp.square(self.scale), (1,))

    @rests_on("log_likelihood")
    def theory(self):
        return Theory(False, "log p has a kink at r = θ and is linear elsewhere, so neither m, L nor ν exists.")


@module
class StudentT(NormalPrior, Model):
    """Rewards θ + scale · t with `df` degrees of freedom, and a prior N(prior_mean, prior_sd²) on θ.

    Args:
        prior_mean: of θ, one number or one for each arm.
        prior_sd: of θ.
        scale: of the rewards, known.
        df: their degrees of freedom.

    >>> from blts.models import StudentT
    >>> StudentT(prior_mean=[0.0, 1.0], df=4.0)
    StudentT(prior_mean=[0, 1], prior_sd=1, scale=1, df=4)
    """

    prior_mean: Numbers = array(default=0.0)
    prior_sd: Numbers = array(default=1.0)
    scale: Numbers = array(default=1.0)
    df: Numbers = array(default=3.0)
    noun: ClassVar[str] = "Student-t rewards"

    def check(self):
        arm_count(self)
        finite(self, "prior_mean")
        positive(self, "prior_sd", "scale", "df")
        above_one = self.df > 1 if is_concrete(self.df) else True
        require(self, above_one, f"df must be > 1, for a mean reward to exist; got {short(self.df)}.")

    def log_likelihood(self, theta, row):
        z = (row.reward - theta[0]) / self.scale
        half = 0.5 * (self.df + 1.0)
        norm = gammaln(half) - gammaln(0.5 * self.df) - 0.5 * jnp.log(math.pi * self.df) - jnp.log(self.scale)
        return norm - half * jnp.log1p(jnp.square(z) / self.df)

    @rests_on("log_likelihood")
    def sample(self, key, theta, obs, action):
        return theta[0] + self.scale * jax.random.t(key, self.df)

    information_sets_step = fact("log_likelihood", "log_prior", "information")

    @rests_on("log_likelihood")
    def information(self, theta):
        return jnp.reshape((self.df + 1.0) / ((self.df + 3.0) * jnp.square(self.scale)), (1,))

    @rests_on("log_likelihood")
    def theory(self):
        L = (self.df + 1.0) / (self.df * self.scale**2)
        return Theory(
            False, f"L = {low_high(L)}, but log p is not concave in θ, nor in r, far from r = θ: m and ν do not exist.", L=L
        )
