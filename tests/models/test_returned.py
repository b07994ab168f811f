"""What is said of a model whose methods return something of another shape or type."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
import pytest

from blts import Bandit, ConfigError, Fixed, Gaussian, Model, Pool, Thompson, mala, posterior, random, simulate
from blts.models.returned import check_returns


class Plain(Model):
    """A normal mean, in every method that a model must define."""

    dim = 1

    def init(self, key):
        return random.normal(key, (1,))

    def log_prior(self, theta):
        return -0.5 * theta[0] ** 2

    def log_likelihood(self, theta, row):
        return -0.5 * (row.reward - theta[0]) ** 2

    def mean_reward(self, theta, obs, action):
        return theta[0]

    def information(self, theta):
        return jnp.ones(1)

    def prior_precision(self):
        return jnp.ones(1)


WRONG = {
    "init a list": ({"init": lambda self, key: [0.0]}, "init of Own is of the type list; it must return a JAX array"),
    "init whole numbers": ({"init": lambda self, key: jnp.zeros(1, int)}, "init of Own has the type int32; it must return a JAX"),
    "init another shape": ({"init": lambda self, key: jnp.zeros(2)}, r"Own has dim = 1, and its init draws θ of shape \(2,\)"),
    "log_prior": ({"log_prior": lambda self, theta: -theta}, r"log_prior of Own has the shape \(1,\); it must return one number"),
    "log_prior None": ({"log_prior": lambda self, theta: None}, "log_prior of Own is None; it must return one number"),
    "log_likelihood": (
        {"log_likelihood": lambda self, theta, row: -((row.reward - theta) ** 2)},
        r"log_likelihood of Own has the shape \(1,\); it must return one number",
    ),
    "mean_reward text": ({"mean_reward": lambda self, theta, obs, action: "x"}, "mean_reward of Own is of the type str"),
    "information": (
        {"information": lambda self, theta: jnp.ones(2)},
        r"information of Own has the shape \(2,\); it must return 1 num",
    ),
    "prior_precision": (
        {"prior_precision": lambda self: 1.0},
        r"prior_precision of Own has the shape \(\); it must return 1 number",
    ),
    "if": ({"log_likelihood": lambda self, theta, row: 0.0 if row.reward > 0 else -1.0}, "use jnp.where in place of if"),
    "math": ({"log_likelihood": lambda self, theta, row: math.sin(theta[0])}, "jax.numpy in place of math and lists"),
    "NumPy": ({"log_likelihood": lambda self, theta, row: np.sin(theta[0])}, "must not call NumPy"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_return_is_one_sentence(name):
    methods, words = WRONG[name]
    own = type("Own", (Plain,), methods)()
    with pytest.raises(ConfigError, match=f"^Thompson: .*{words}"):
        Thompson(own, Pool(mala(steps=3), 4), arms=2)
    with pytest.raises(ConfigError, match=f"^posterior: .*{words}"):
        posterior(own, [0.0, 1.0], draws=10)


def test_numbers_of_python_and_one_for_all_entries_are_fine():
    for methods in ({"mean_reward": lambda self, theta, obs, action: 1}, {"information": lambda self, theta: 1.0}):
        check_returns("Thompson", type("Own", (Plain,), methods)())


class WithContexts(Plain):
    """The same, where the mean depends on a context, wrongly."""

    sd: float = 1.0
    contextual = True

    def mean_reward(self, theta, obs, action):
        return theta * obs

    def log_likelihood(self, theta, row):
        return -0.5 * (row.reward - theta[0] * row.obs[0]) ** 2


def test_a_model_with_contexts_is_looked_at_with_one():
    with pytest.raises(
        ConfigError, match=r"^posterior: mean_reward of WithContexts has the shape \(1,\); it must return one number"
    ):
        posterior(WithContexts(), [0.0, 1.0], contexts=[[1.0], [2.0]], draws=10)


@pytest.mark.parametrize("actions", [2.0, "2", -1, None])
def test_actions_that_are_no_whole_number_are_refused(actions):
    class World(Bandit):
        @property
        def actions(self):
            return actions

    world = World.with_means(Gaussian(), [0.0, 1.0])
    with pytest.raises(ConfigError, match="actions must be a whole number"):
        simulate(0, world, Thompson(Gaussian(prior_mean=[0.0, 0.0])), Fixed(5), horizon=10, replications=2)
