"""A model of one's own whose prior is not finite is refused: chains of unadjusted steps would not notice."""

from __future__ import annotations

import jax.numpy as jnp
import pytest

from blts import _random, posterior, simulate
from blts._module import array
from blts._typing import Numbers
from blts.agents import UCB1, Perturb, Thompson
from blts.batching import Fixed
from blts.envs import Bandit
from blts.errors import ConfigError
from blts.models import Gaussian, Model
from blts.samplers import sgld

SHARP = Perturb(sgld(steps=10))
WORLD = Bandit.with_means(Gaussian(), [0.0, 0.5, 1.0])


class Mine(Model):
    sd: Numbers = array(default=1.0)
    dim = 1

    def init(self, key):
        return _random.normal(key, (1,))

    def log_prior(self, theta):
        return -(theta[0] ** 2) / 2

    def prior_precision(self):
        return jnp.ones(1)

    def information(self, theta):
        return jnp.ones(1)

    def log_likelihood(self, theta, row):
        return -(((row.reward - theta[0]) / self.sd) ** 2) / 2

    def mean_reward(self, theta, obs, action):
        return theta[0]

    def sample(self, key, theta, obs, action):
        return theta[0] + self.sd * _random.normal(key)


class NotANumber(Mine):
    def log_prior(self, theta):
        return jnp.log(-1.0 - theta[0] ** 2)


class Outside(Mine):
    def log_prior(self, theta):
        return jnp.where(jnp.abs(theta[0]) > 50.0, 0.0, -jnp.inf)


class LastArm(Mine):
    def log_prior(self, theta):
        return jnp.where(self.sd > 2.5, jnp.nan, super().log_prior(theta))


class NoDraw(Mine):
    def init(self, key):
        return jnp.full(1, jnp.nan)


class Raises(Mine):
    def log_prior(self, theta):
        raise ValueError("not yet")


PRIORS = {
    NotANumber: r"log_prior of NotANumber is nan at a prior draw, θ = \[.*\]; it must be a finite number wherever init draws\.$",
    Outside: "log_prior of Outside is -inf at a prior draw",
    LastArm: "log_prior of LastArm is nan at a prior draw",
    NoDraw: r"init of NoDraw draws θ = \[nan\]; it must draw finite numbers\.$",
}


def played(env, agent):
    return simulate(0, env, agent, Fixed(5), horizon=10, replications=2)


@pytest.mark.parametrize("kind", PRIORS)
def test_a_prior_that_is_not_finite_is_refused(kind):
    model = kind([1.0, 2.0, 3.0])
    with pytest.raises(ConfigError, match=PRIORS[kind]):
        played(WORLD, Thompson(model, SHARP))
    with pytest.raises(ConfigError, match=PRIORS[kind]):
        posterior(model, [1.0, 2.0], sgld(steps=10), arm=2)
    with pytest.raises(ConfigError, match=PRIORS[kind]):
        played(Bandit(model), UCB1(3))


def test_other_priors_are_played():
    model = Mine([1.0, 2.0, 3.0])
    assert played(Bandit(model), Thompson(model, SHARP)).regret.shape == (2, 10)
    assert posterior(Mine(), [1.0, 2.0], sgld(steps=10), draws=10).draws.shape == (10, 1)


def test_a_prior_that_nothing_uses_is_not_looked_at():
    """A world with given arms draws none, and an error of one's own is left as it is."""
    assert played(Bandit(NoDraw(), [[0.0], [1.0]]), UCB1(2)).regret.shape == (2, 10)
    assert played(Bandit(Raises(), arms=2), UCB1(2)).regret.shape == (2, 10)
