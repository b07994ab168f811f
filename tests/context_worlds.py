"""Small contextual bandits for tests of chains: Gaussian contexts of any scales, disjoint or shared arms."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from blts import Context, Env, Step, array, contexts, random, static
from blts._typing import Numbers
from blts.models import Model


class Disjoint(Env):
    """Each arm has its own θ ~ `model`; each round shows one context x = sds · ξ."""

    model: Model
    sds: Numbers = array(ndim=1)
    actions: int = static(default=5)

    def context(self, key):
        return self.sds * random.normal(key, jnp.shape(self.sds))

    def theta(self, key):
        return jax.vmap(self.model.init)(random.split(key, self.actions))

    def of(self, theta, action):
        return theta[action]

    def reset(self, key):
        key_theta, key_context = random.split(key)
        obs = self.context(key_context)
        return (self.theta(key_theta), obs), obs

    def step(self, key, state, action):
        key_reward, key_context = random.split(key)
        theta, obs = state
        means = jax.vmap(lambda a: self.model.mean_reward(self.of(theta, a), contexts.features(obs, a), a))(
            jnp.arange(self.actions)
        )
        reward = self.model.sample(key_reward, self.of(theta, action), contexts.features(obs, action), action)
        following = self.context(key_context)
        regret = jnp.where(action == jnp.argmax(means), 0.0, jnp.max(means) - means[action])
        return (theta, following), Step(following, reward, jnp.maximum(regret, 0.0))


class Shared(Disjoint):
    """All arms have one θ ~ `model`; each round shows features of every arm, sds · ξ."""

    def context(self, key):
        return Context(arms=self.sds * random.normal(key, (self.actions, *jnp.shape(self.sds))))

    def theta(self, key):
        return self.model.init(key)

    def of(self, theta, action):
        return theta
