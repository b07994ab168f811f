"""An agent: Thompson sampling that plays the runner-up of a second draw in a fraction of the rounds."""

import jax.numpy as jnp

from blts import Thompson, array, random


class RunnerUp(Thompson):
    """Thompson sampling that plays, with probability `share`, the best of the other arms in a second draw."""

    share: float = array(default=0.5)

    def act(self, key, state, obs, played):
        key_first, key_second, key_coin = random.split(key, 3)
        first = super().act(key_first, state, obs, played)
        values = self.mean_rewards(self.belief.draw(key_second, self.model, state), obs)
        second = jnp.argmax(jnp.where(jnp.arange(self.actions) == first, -jnp.inf, values))
        return jnp.where(random.uniform(key_coin) < self.share, second, first)
