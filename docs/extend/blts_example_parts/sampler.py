"""A sampler: random-walk Metropolis, which needs no gradient."""

import jax.numpy as jnp

from blts import Chain, Sampler, array, random, samplers


class RandomWalk(Sampler):
    """Propose x + √(step_size · scale) ξ, accept with probability min(1, e^(U(x) - U(y)))."""

    step_size: float = array(default=2.0)
    needs_value = True  # it has an acceptance test

    def init(self, theta):
        return samplers.State(theta, jnp.zeros((), int))

    def step(self, key, state, potential):
        key_move, key_accept = random.split(key)
        x = state.position
        y = x + jnp.sqrt(self.step_size * potential.scale) * random.normal(key_move, x.shape)
        log_ratio = potential.value(x) - potential.value(y)
        accept = jnp.log(random.uniform(key_accept, log_ratio.shape)) < log_ratio
        return samplers.State(jnp.where(accept[..., None], y, x), state.iteration + 1), samplers.StepInfo(
            jnp.mean(accept, dtype=float)
        )


def random_walk(step_size=2.0, steps=50):
    """Random-walk Metropolis around the mode."""
    return Chain(RandomWalk(step_size), steps, scale="mode")
