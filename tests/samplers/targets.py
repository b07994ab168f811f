"""Potentials, logs and ways to run kernels on them, for the tests of samplers."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from blts import random
from blts._module import array, module
from blts._typing import Row
from blts.history import Log
from blts.models.base import Model
from blts.models.moments import Moments
from blts.samplers import Potential, potential

CHAINS = 20_000


@module
class Logistic(Model):
    """Rewards θ + Logistic noise, prior N(0, 3²): log-concave, not conjugate, no summary."""

    prior_sd: jax.Array = array(3.0)
    dim: ClassVar[int] = 1

    def init(self, key):
        return self.prior_sd * random.normal(key, (1,))

    def log_prior(self, theta):
        return -0.5 * jnp.square(theta[0] / self.prior_sd)

    def log_likelihood(self, theta, row):
        z = row.reward - theta[0]
        return -z - 2 * jax.nn.softplus(-z)

    def mean_reward(self, theta, obs, action):
        return theta[0]

    def information(self, theta):
        return jnp.full(1, 1 / 3)

    def prior_precision(self):
        return jnp.reshape(1 / self.prior_sd**2, (1,))


def row(action=0, reward=0.0):
    return Row((), jnp.asarray(action), jnp.asarray(reward, float))


def log_of(actions, rewards, arms: int, capacity: int | None = None) -> Log:
    """A full log at once; `Log.append` itself is tested in test_history."""
    actions, rewards = np.asarray(actions), np.asarray(rewards, np.float32)
    n = actions.size
    pad = (capacity or n) - n
    rank = np.array([np.sum(actions[:i] == a) for i, a in enumerate(actions)]) if arms > 1 else np.arange(n)
    counts = np.bincount(actions, minlength=arms)
    fill = lambda x: jnp.asarray(np.pad(x, (0, pad)))  # noqa: E731
    return Log(Row((), fill(actions), fill(rewards), ()), fill(rank), jnp.asarray(counts), jnp.asarray(0), jnp.asarray(n))


def moments_of(rewards) -> Moments:
    """Summaries of arms with one row of rewards each."""
    rewards = np.asarray(rewards, float)
    n = jnp.full(rewards.shape[0], rewards.shape[1])
    return Moments(n, n, jnp.asarray(rewards.mean(1)), jnp.asarray(rewards.var(1) * rewards.shape[1]), jnp.zeros(rewards.shape[0]))


def rows_of(rewards) -> potential.Rows:
    """The rows of one arm."""
    rewards = jnp.asarray(np.asarray(rewards, np.float32))
    n = jnp.asarray(rewards.shape[0])
    return potential.Rows(Row((), jnp.zeros(rewards.shape, int), rewards, ()), jnp.asarray(0), n, n)


def refresh(chain, key, model, theta, history):
    """`Chain.run` for one replication: theta is [arms, chains, dim]."""
    block = lambda tree: jax.tree.map(lambda x: jnp.asarray(x)[None], tree)  # noqa: E731
    n = history.counts if isinstance(history, Log) else history.rows
    return jax.tree.map(lambda x: x[0], chain.run(block(key), model, theta[None], block(history), n[None]))


_compiled: dict = {}


def share(kind, target, steps, build):
    """One compilation for all kernels of a type on a target: their numbers are traced."""
    return _compiled.setdefault((kind, id(target), steps), (target, jax.jit(build)))[1]


MU, PRECISION, SCALE = np.array([1.0, -2.0]), np.array([1.0, 4.0]), np.array([1.0, 0.2])
QUADRATIC = Potential(
    lambda x: 0.5 * jnp.sum(PRECISION * (x - MU) ** 2, -1), lambda key, x: PRECISION * (x - MU), jnp.asarray(SCALE)
)


def tempered(log_density, scale):
    import blackjax

    return blackjax.hmc(lambda x: 1.05 * log_density(x), 0.7, scale, 3)
