"""An environment: arms whose means drift, so that old rewards become misleading."""

import jax.numpy as jnp

from blts import Env, Gaussian, Problem, Step, random


class Drifting(Env):
    """Gaussian arms; their means start from N(0, 1) and move by N(0, drift²) each round."""

    actions: int
    drift: float
    sd: float

    def reset(self, key):
        return random.normal(key, (self.actions,)), ()

    def step(self, key, state, action):
        key_reward, key_move = random.split(key)
        reward = state[action] + self.sd * random.normal(key_reward)
        moved = state + self.drift * random.normal(key_move, (self.actions,))
        return moved, Step((), reward, regret=jnp.max(state) - state[action])


def drifting(arms=5, drift=0.05, sd=0.5):
    """Gaussian arms whose means drift, and a model that assumes that they do not."""
    return Problem(Drifting(arms, drift, sd), {"uninformative": Gaussian(sd=sd)}, horizon=500)
