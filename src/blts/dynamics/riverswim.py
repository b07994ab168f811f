"""RiverSwim with a multinomial logit for the stroke: two parameters for any length of river."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .. import _random
from .._module import array, at_least, module, positive, static
from .._typing import Array, Float, Int, Numbers
from ..declared import rests_on
from ..errors import ConfigError
from ..models.nig import HALF_LOG_2PI
from .base import Certified, Dynamics
from .bounds import clipped, digits, inside, within
from .finite import stationary_reward

BOX = 20.0  # θ that is planned for
MOVES = ("sample", "log_likelihood")


class Strokes(NamedTuple):
    rows: Int[Array, ""]
    kinds: Float[Array, " kinds"]
    """How often a stroke drifted, held and advanced away from the banks; drifted or held at 0; held or advanced at the end."""


@module
class LogitRiverSwim(Dynamics):
    """States 0 … length - 1. Left (action 0) always gets one state left; right (1) drifts left, holds or advances.

    Their probabilities are softmax(θ₀, 0, θ₁) in every state, and a move over a bank holds. Left in state 0 earns `small`,
    right in the last state `large`. The prior is N(0, prior_sd² I): two parameters in place of length · 2 · length.

    Args:
        stroke: the probabilities of right to drift left, hold or advance, in simulations.
        small: reward of left in state 0.
        large: reward of right in the last state.
        prior_sd: of θ.
        length: how many states there are.

    >>> from blts.dynamics import LogitRiverSwim
    >>> river = LogitRiverSwim()
    >>> print(f"{river.gain(river.true):.6f}")
    0.857150
    """

    stroke: Numbers = array(default=(0.05, 0.6, 0.35), ndim=1)
    small: Numbers = array(default=0.005)
    large: Numbers = array(default=1.0)
    prior_sd: Numbers = array(default=2.0)
    length: int = static(default=6)
    dim: ClassVar[int] = 2
    actions: ClassVar[int] = 2

    def check(self):
        at_least(self, "length", 2)
        if np.shape(self.stroke) != (3,):
            raise ConfigError(
                f"LogitRiverSwim: stroke must be three probabilities (left, hold, right); got {np.shape(self.stroke)}."
            )
        holds = lambda p: (p > 0).all() and np.isclose(p.sum(), 1, atol=1e-5)  # noqa: E731
        inside(self, "stroke", holds, "be three probabilities > 0 that sum to 1")
        positive(self, "small", "large", "prior_sd")

    def __str__(self) -> str:
        p = ", ".join(f"{float(x):.4g}" for x in np.asarray(self.stroke))
        return f"A RiverSwim of {self.length} states whose strokes (left, hold, right) follow a logit; ({p}) in simulations."

    @property
    def states(self) -> int:
        return self.length

    @property
    def true(self):
        p = jnp.log(jnp.asarray(self.stroke, float))
        return jnp.stack([p[0] - p[1], p[2] - p[1]])

    @staticmethod
    def _logits(theta):
        return jnp.stack([theta[0], jnp.zeros_like(theta[0]), theta[1]])

    # The belief

    @rests_on("log_prior")
    def init(self, key):
        return self.prior_sd * _random.normal(key, (2,))

    @rests_on("init")
    def log_prior(self, theta):
        return -0.5 * jnp.sum(jnp.square(theta / self.prior_sd)) - 2.0 * (jnp.log(self.prior_sd) + HALF_LOG_2PI)

    def _log_kinds(self, theta) -> Float[Array, " kinds"]:
        drift, hold, advance = jax.nn.log_softmax(self._logits(theta))
        return jnp.stack([drift, hold, advance, jnp.logaddexp(drift, hold), jnp.logaddexp(hold, advance)])

    def _kind(self, row) -> Int[Array, ""]:
        held = row.next_obs == row.obs
        move = jnp.sign(row.next_obs - row.obs) + 1
        return jnp.where(held & (row.obs == 0), 3, jnp.where(held & (row.obs == self.length - 1), 4, move))

    @rests_on("sample", "transitions")
    def log_likelihood(self, theta, row):
        return jnp.where(row.action == 1, self._log_kinds(theta)[self._kind(row)], 0.0)

    @rests_on("log_likelihood")
    def information(self, theta):
        """p (1 - p) of a drift and of an advance, kept from 0 so that a far start does not make the steps too long."""
        p = jax.nn.softmax(self._logits(theta))[jnp.asarray([0, 2])]
        return jnp.maximum(p * (1.0 - p), 0.03)

    @rests_on("log_prior")
    def prior_precision(self):
        return jnp.full(2, 1.0 / jnp.square(self.prior_sd))

    @rests_on(*MOVES)
    def empty(self):
        return Strokes(jnp.zeros((), int), jnp.zeros(5))

    @rests_on(*MOVES)
    def add(self, summary, row):
        seen = (jnp.arange(5) == self._kind(row)) & (row.action == 1)
        return Strokes(summary.rows + 1, summary.kinds + seen)

    @rests_on(*MOVES)
    def log_likelihood_of(self, theta, summary):
        return jnp.sum(summary.kinds * self._log_kinds(theta))

    # The decision

    def gains(self, theta) -> Float[Array, " 2"]:
        """Of always left and of always right; every other policy keeps to one bank or earns nothing.

        Swimming right, π(s) ∝ (p_right/p_left)^s, for between any two neighbours as many cross either way.
        """
        theta = clipped(theta, -BOX, BOX)
        pi = jax.nn.softmax(jnp.arange(self.length) * (theta[1] - theta[0]))
        return jnp.stack([self.small + 0.0 * pi[-1], self.large * pi[-1]])

    @rests_on(*MOVES, "act", "transitions", "rewards", "_logits")
    def plan(self, theta) -> Int[Array, " states"]:
        return jnp.full(self.length, jnp.argmax(self.gains(theta)))

    @rests_on(*MOVES, "transitions", "rewards", "_logits")
    def gain(self, theta):
        return jnp.max(self.gains(theta))

    @rests_on(*MOVES, "act", "transitions", "rewards", "_logits", "plan", "gain", "gains")
    def certify(self, theta) -> Certified:
        gains = self.gains(theta)
        lost = jnp.where(within(theta, -BOX, BOX), digits(gains), jnp.inf)
        return Certified(self.plan(theta), jnp.max(gains), lost)

    @rests_on(*MOVES, "act", "start")
    def gain_of(self, theta, policy):
        return stationary_reward(self.transitions(theta), self.rewards(), policy)

    def transitions(self, theta) -> Float[Array, "states actions states"]:
        """P(s'|s, a; θ), which the plan does not need."""
        states = jnp.arange(self.length)
        at = lambda move: states == jnp.clip(states[:, None] + move, 0, self.length - 1)  # noqa: E731
        drift, hold, advance = jax.nn.softmax(self._logits(theta))
        return jnp.stack([at(-1).astype(float), drift * at(-1) + hold * at(0) + advance * at(1)], axis=1)

    def rewards(self) -> Float[Array, "states actions"]:
        return jnp.zeros((self.length, 2)).at[0, 0].set(self.small).at[-1, 1].set(self.large)

    @rests_on(*MOVES)
    def table(self, theta) -> tuple[Array, Array]:
        """Transitions and rewards as a finite MDP."""
        return self.transitions(theta), self.rewards()

    def act(self, policy, obs):
        return policy[obs]

    # The world

    def start(self):
        return jnp.zeros((), int)

    @rests_on("log_likelihood", "transitions", "rewards")
    def sample(self, key, theta, obs, action):
        drift, hold, _ = jax.nn.softmax(self._logits(theta))
        u = _random.uniform(key)
        stroke = (u >= drift).astype(int) + (u >= drift + hold) - 1
        next_obs = jnp.clip(obs + jnp.where(action == 1, stroke, -1), 0, self.length - 1)
        earned = jnp.where(action == 1, self.large * (obs == self.length - 1), self.small * (obs == 0))
        return next_obs, earned
