"""Rewards that come late, or never, in any environment."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import _random
from .._module import module, require_part, static
from .._typing import Array, Int, Scalar
from ..delays import LONGEST, NEVER, Delay, check_arms, delay_of
from ..errors import ConfigError, counted, whole
from .base import Arrival, Env

SILENCES = ("missing", "zero")


@module
class Late(Env):
    """Another environment, whose rewards agents are told late.

    The reward of round t with a delay of D rounds can be used in round t + 1 + D at the earliest: it is learned at the first end of
    a batch from round t + D on. Until then the play is in flight: agents know that it was made (`Played.counts`), not what it
    earned.
    Regret and mean reward are those of the environment.

    Args:
        env: any environment.
        delay: the law of the delays, such as `GeometricDelay(50)`, or its words: "geometric 50".
        window: rewards that are later than so many rounds never come; None to wait for ever.
        silence: "missing": every reward is told, zeros too; one that never comes is known to be missing, and is not learned from.
            "zero": zeros are not told. What is not told by the end of the window is learned as 0 then; without a window silence
            never ends, and only agents that count plays in flight (`Conversions`) can learn.

    >>> from blts import Bandit, Bernoulli
    >>> from blts.envs import Late
    >>> print(Late(Bandit.with_means(Bernoulli(), [0.2, 0.3]), "geometric 50", window=200, silence="zero"))
    A bandit of 2 arms with mean rewards [0.2, 0.3]. Rewards are late by a geometric delay of mean 50 rounds, and come within 200 \
rounds or not at all; silence is a reward of zero.
    """

    env: Env
    delay: Delay
    window: int | None = static(default=None)
    silence: str = static(default="missing")

    def check(self):
        require_part("Late: env", self.env, Env, "Bandit.with_means(Gaussian(), [0.0, 1.0])")
        if isinstance(self.env, Late):
            raise ConfigError("Late: env is late already; give the environment inside it.")
        object.__setattr__(self, "delay", delay_of(self.delay))
        check_arms("Late", self.delay, self.env.actions)
        if self.window is not None:
            whole("window", self.window, 0)
        if self.silence not in SILENCES:
            raise ConfigError(f"Late: silence must be one of {', '.join(map(repr, SILENCES))}; got {self.silence!r}.")

    def __str__(self) -> str:
        window = "" if self.window is None else f", and come within {counted(self.window, 'round')} or not at all"
        zero = "; silence is a reward of zero" if self.silence == "zero" else ""
        return f"{str(self.env).rstrip('.')}. Rewards are {self.delay}{window}{zero}."

    @property
    def actions(self) -> int:
        return self.env.actions

    @property
    def states(self) -> int | None:
        return self.env.states

    @property
    def support(self) -> str | None:
        """That of the environment, and 0 where silence is told as 0."""
        return "nonnegative" if self.silence == "zero" and self.env.support == "positive" else self.env.support

    @property
    def model(self) -> Any:
        return self.env.model

    @property
    def shared(self) -> bool:
        return self.env.shared

    @property
    def features(self) -> Any:
        return self.env.features

    @property
    def dynamics(self) -> Any:
        return self.env.dynamics

    @property
    def truth(self) -> Any:
        return self.env.truth

    @property
    def gain(self) -> Any:
        return self.env.gain

    def reset(self, key):
        state, obs = self.env.reset(key)
        return (state, obs), obs

    def step(self, key, state, action):
        inner, obs = state
        inner, step = self.env.step(key, inner, action)
        delay = self._whole(self.delay.sample(_random.far(key), obs, action))
        return (inner, step.obs), step._replace(arrival=self._arrival(delay, step.reward))

    def _whole(self, delay: Any) -> Int[Array, ""]:
        """The delay, refused while the round is traced if it is not one whole number."""
        if not isinstance(delay, jax.Array | np.ndarray | np.generic | int | float) or isinstance(delay, bool):
            got = "None" if delay is None else f"of the type {type(delay).__name__}"
            raise ConfigError(f"Late: the delay of {type(self.delay).__name__} must be one whole number; it is {got}.")
        delay = jnp.asarray(min(delay, LONGEST) if isinstance(delay, int) else delay)
        if delay.shape or not jnp.issubdtype(delay.dtype, jnp.integer):
            got = f"numbers of the type {delay.dtype}" if not delay.shape else f"an array of the shape {list(delay.shape)}"
            owner = type(self.delay).__name__
            raise ConfigError(
                f"Late: the delay of {owner} must be one whole number, such as jnp.floor(x).astype(int); it is {got}."
            )
        return delay

    def _arrival(self, delay: Int[Array, ""], reward: Scalar) -> Arrival:
        """When the reward is told, and as what: after the window it is silence, as a zero is where zeros are not told."""
        silent = delay < 0
        if self.window is not None:
            silent = silent | (delay > self.window)
        if self.silence == "missing":
            return Arrival(jnp.where(silent, NEVER, delay), reward)
        silent = silent | (reward == 0)
        end = NEVER if self.window is None else self.window
        return Arrival(jnp.where(silent, end, delay), jnp.where(silent, 0.0, reward))
