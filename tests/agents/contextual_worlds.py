"""Contextual bandits of known difficulty, with exact agents."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from blts import Context, Env, Exact, Linear, Step, Thompson, _random, array
from blts.arrays import pick

ARMS, SD = 5, 0.5


class Disjoint(Env):
    """Contexts x ~ N(0, diag(scales²)) anew each round; θ of each arm ~ N(0, I) for each replication; noise of sd 0.5."""

    scales: list = array(ndim=1)
    actions: int = ARMS

    def reset(self, key):
        key_theta, key_context = _random.split(key)
        x = self._context(key_context)
        return (_random.normal(key_theta, (self.actions, len(self.scales))), x), x

    def _context(self, key):
        return jnp.asarray(self.scales) * _random.normal(key, (len(self.scales),))

    def step(self, key, state, action):
        key_reward, key_context = _random.two(key)
        theta, x = state
        means = jnp.sum(theta * x, 1)
        mean = pick(means, action)
        following = self._context(key_context)
        regret = jnp.where(action == jnp.argmax(means), 0.0, jnp.maximum(jnp.max(means) - mean, 0.0))
        return (theta, following), Step(following, mean + SD * _random.normal(key_reward), regret)


class Shared(Env):
    """One θ on the unit sphere; each round shows a unit vector for every arm (the linear problem of Xu et al. 2022)."""

    dim: int = 20
    actions: int = 50

    def reset(self, key):
        key_theta, key_context = _random.split(key)
        theta, obs = self._unit(key_theta, (self.dim,)), self._shown(key_context)
        return (theta, obs), obs

    def _unit(self, key, shape):
        z = _random.normal(key, shape)
        return z / jnp.linalg.norm(z, axis=-1, keepdims=True)

    def _shown(self, key):
        return Context(arms=self._unit(key, (self.actions, self.dim)))

    def step(self, key, state, action):
        key_reward, key_context = _random.two(key)
        theta, obs = state
        means = jnp.sum(obs.arms * theta, 1)
        mean = pick(means, action)
        following = self._shown(key_context)
        regret = jnp.where(action == jnp.argmax(means), 0.0, jnp.maximum(jnp.max(means) - mean, 0.0))
        return (theta, following), Step(following, mean + SD * _random.normal(key_reward), regret)


def disjoint_agent(dim: int = 4, sd: float = SD, arms: int = ARMS) -> Thompson:
    """The exact posterior of each arm's θ under the prior N(0, I), for noise of this sd."""
    return Thompson(Linear(prior_mean=np.zeros((arms, dim)), sd=sd), Exact())


def shared_agent(dim: int = 20, arms: int = 50) -> Thompson:
    """The exact posterior of the common θ under the prior N(0, I/dim)."""
    return Thompson(Linear(prior_mean=np.zeros(dim), prior_sd=dim**-0.5, sd=SD), Exact(), arms=arms, shared=True)
