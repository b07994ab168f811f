"""When to replace a machine that wears out."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .. import _random
from .._module import array, at_least, finite, module, positive, static
from .._typing import Array, Float, Int, Numbers
from ..declared import rests_on
from ..errors import ConfigError
from ..models.nig import HALF_LOG_2PI
from .base import Certified, Dynamics
from .bounds import clipped, digits, within

BOX = 20.0  # θ that is planned for
MOVES = ("sample", "log_likelihood")


class Wear(NamedTuple):
    """How often the machine wore by one level and how often it did not, by its level."""

    rows: Int[Array, ""]
    wore: Float[Array, " levels"]
    held: Float[Array, " levels"]


@module
class Replacement(Dynamics):
    """A machine at wear s = 0 … levels wears by one with probability σ(θ₀ + θ₁ s/levels) a round, until it is replaced.

    Running it costs `running` · s²; replacing it (action 1) costs `replacing` instead, and the next round starts at 0. Wear
    stops at the last level. The prior is N(0, prior_sd² I).

    Args:
        theta: (θ₀, θ₁) in simulations.
        running: cost of running, times s².
        replacing: cost of a replacement.
        prior_sd: of θ.
        levels: the largest wear.

    >>> from blts.dynamics import Replacement
    >>> press = Replacement()
    >>> print(f"replace from {press.plan(press.true)} at {-press.gain(press.true):.4f} a round")
    replace from 3 at 0.9453 a round
    """

    theta: Numbers = array(default=(-1.0, 2.0), ndim=1)
    running: Numbers = array(default=0.15)
    replacing: Numbers = array(default=8.0)
    prior_sd: Numbers = array(default=2.0)
    levels: int = static(default=10)
    dim: ClassVar[int] = 2
    actions: ClassVar[int] = 2

    def check(self):
        if np.shape(self.theta) != (2,):
            raise ConfigError(
                f"Replacement: theta must be two numbers, of wear at level 0 and its slope; got {np.shape(self.theta)}."
            )
        finite(self, "theta")
        positive(self, "running", "replacing", "prior_sd")
        at_least(self, "levels", 1)

    def __str__(self) -> str:
        return (
            f"A machine with {self.levels} levels of wear: running costs {float(self.running):.4g} s², replacing "
            f"{float(self.replacing):.4g}; wear σ({float(self.theta[0]):.4g} + {float(self.theta[1]):.4g} s/{self.levels}) "
            "in simulations."
        )

    @property
    def true(self):
        return jnp.asarray(self.theta, float)

    def _logits(self, theta):
        """Of wear at the levels 0 … levels - 1."""
        return theta[0] + theta[1] * jnp.arange(self.levels) / self.levels

    # The belief

    @rests_on("log_prior")
    def init(self, key):
        return self.prior_sd * _random.normal(key, (2,))

    @rests_on("init")
    def log_prior(self, theta):
        return -0.5 * jnp.sum(jnp.square(theta / self.prior_sd)) - 2.0 * (jnp.log(self.prior_sd) + HALF_LOG_2PI)

    @rests_on("sample", "_logits")
    def log_likelihood(self, theta, row):
        z = theta[0] + theta[1] * row.obs / self.levels
        informs = (row.action == 0) & (row.obs < self.levels)
        return jnp.where(informs, jax.nn.log_sigmoid(jnp.where(row.next_obs > row.obs, z, -z)), 0.0)

    @rests_on("log_likelihood")
    def information(self, theta):
        """The largest curvature 1/4 of a logistic row, times E(1, (s/levels)²) for an even spread of wear."""
        del theta  # a curvature that vanishes with p (1 - p) would make the first steps from a far start too long
        return jnp.asarray([1 / 4, 1 / 12])

    @rests_on("log_prior")
    def prior_precision(self):
        return jnp.full(2, 1.0 / jnp.square(self.prior_sd))

    @rests_on(*MOVES)
    def empty(self):
        return Wear(jnp.zeros((), int), jnp.zeros(self.levels), jnp.zeros(self.levels))

    @rests_on(*MOVES)
    def add(self, summary, row):
        mine = (jnp.arange(self.levels) == row.obs) & (row.action == 0)
        wore = row.next_obs > row.obs
        return Wear(summary.rows + 1, summary.wore + (mine & wore), summary.held + (mine & ~wore))

    @rests_on(*MOVES)
    def log_likelihood_of(self, theta, summary):
        z = self._logits(theta)
        return jnp.sum(summary.wore * jax.nn.log_sigmoid(z) + summary.held * jax.nn.log_sigmoid(-z))

    # The decision

    def gains(self, theta) -> Float[Array, " limits"]:
        """The gain of replacing from wear k on, for k = 0 … levels, and last of never replacing.

        Level s lasts 1/p(s) rounds, so a cycle to k costs `replacing` + Σ_{s<k} c(s)/p(s) and takes 1 + Σ_{s<k} 1/p(s).
        Wear moves up by one or back to 0, so every stationary policy is one of these.
        """
        z = clipped(self._logits(clipped(theta, -BOX, BOX)), -BOX, BOX)
        rounds = 1.0 + jnp.exp(-z)
        cost = self.running * jnp.square(jnp.arange(self.levels)) * rounds
        before = lambda x: jnp.concatenate([jnp.zeros(1), jnp.cumsum(x)])  # noqa: E731
        cycles = -(self.replacing + before(cost)) / (1.0 + before(rounds))
        return jnp.concatenate([cycles, -self.running * jnp.full(1, float(self.levels)) ** 2])

    @rests_on(*MOVES, "act")
    def plan(self, theta) -> Int[Array, ""]:
        """The number of the best of `gains`."""
        return jnp.argmax(self.gains(theta))

    @rests_on(*MOVES)
    def gain(self, theta):
        return jnp.max(self.gains(theta))

    @rests_on(*MOVES, "act")
    def gain_of(self, theta, policy):
        return self.gains(theta)[policy]

    @rests_on(*MOVES, "act", "plan", "gain", "gains")
    def certify(self, theta) -> Certified:
        gains = self.gains(theta)
        planned = within(theta, -BOX, BOX) & within(self._logits(theta), -BOX, BOX)
        return Certified(jnp.argmax(gains), jnp.max(gains), jnp.where(planned, digits(gains), jnp.inf))

    @rests_on(*MOVES, "_logits")
    def table(self, theta) -> tuple[Array, Array]:
        """The same world as a finite MDP over wear 0 … levels: transitions and rewards."""
        s, size = jnp.arange(self.levels + 1), self.levels + 1
        p = jax.nn.sigmoid(theta[0] + theta[1] * s / self.levels)[:, None]
        run = p * jnp.eye(size)[jnp.minimum(s + 1, self.levels)] + (1 - p) * jnp.eye(size)
        replace = jnp.broadcast_to(jnp.eye(size)[0], (size, size))
        rewards = jnp.stack([-self.running * jnp.square(s), jnp.full(size, -jnp.asarray(self.replacing, float))], 1)
        return jnp.stack([run, replace], 1), rewards

    def act(self, policy, obs):
        return (obs >= policy).astype(int)

    # The world

    def start(self):
        return jnp.zeros((), int)

    @rests_on("log_likelihood", "_logits")
    def sample(self, key, theta, obs, action):
        wears = _random.uniform(key) < jax.nn.sigmoid(theta[0] + theta[1] * obs / self.levels)
        kept = jnp.minimum(obs + wears, self.levels)
        cost = jnp.where(action == 1, self.replacing, self.running * jnp.square(obs))
        return jnp.where(action == 1, 0, kept), -cost
