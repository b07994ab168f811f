"""The paper's example of a general parametrisation: a recommender of points of interest."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import betaln

from .. import _random, planning
from .._module import array, is_concrete, module, positive
from .._typing import Array, Float, Int, Numbers, Scalar
from ..declared import rests_on
from ..errors import ConfigError
from .base import Certified, Dynamics
from .bounds import clipped, inside, within
from .finite import categorical, stationary_reward

# The largest information f log²f/(1 - f) of a follow / not follow with probability f, which it has at f = 0.203.
MOST_INFORMATION = 0.6476
BOX = 30.0  # logits of φ that are planned for
MOVES = ("sample", "log_likelihood")
LEAST_SHARE = 0.05  # of it where φ is near 1: a start there must not make the steps too long for a posterior elsewhere


class Follows(NamedTuple):
    """How often each recommendation was followed and not, by (point, recommended point)."""

    rows: Int[Array, ""]
    followed: Float[Array, "points points"]
    ignored: Float[Array, "points points"]
    base: Float[Array, ""]
    """Σ of what in the log-likelihood does not depend on θ."""


def log_follow(log_phi: Scalar, log_p: Scalar, followed) -> Scalar:
    """log f or log(1 - f) for f = p^φ. It is concave in φ, and in 1/φ it is not.

    For small x = φ |log p| it is log(1 - e^-x) = log x - x/2, which keeps its digits and its slope where φ underflows.
    """
    x = -jnp.exp(log_phi) * log_p
    small = x < 1e-3
    near = log_phi + jnp.log(-log_p) - 0.5 * x
    far = jnp.log(-jnp.expm1(-jnp.where(small, 1.0, x)))
    return jnp.where(followed, -x, jnp.where(small, near, far))


@module
class Recommender(Dynamics):
    """A visitor at point s moves by a known law p(·|s); recommending point a lifts the chance of a to p(a|s)^φ.

    The other points share the rest in proportion to p (the paper's P(s'|s, a; θ) with φ = 1/θ ∈ (0, 1]). A visit to s'
    earns `rewards[s']`. The prior is φ ~ Beta(a, b), and θ = logit φ, so that no step can leave the domain. In φ the
    log-likelihood is concave; in the paper's θ = 1/φ it is not.

    Args:
        passive: p(s'|s) without a recommendation, `[points, points]`.
        rewards: of a visit to each point.
        phi: φ in simulations.
        a: first parameter of the prior of φ.
        b: second parameter of that prior.

    >>> from blts.dynamics import recommender
    >>> print(recommender(points=5))
    A recommender of 5 points of interest whose suggestions lift p to p^φ; φ = 0.5 in simulations, with a prior Beta(1, 1).
    """

    passive: Numbers = array(ndim=2)
    rewards: Numbers = array(ndim=1)
    phi: Numbers = array(default=0.5)
    a: Numbers = array(default=1.0)
    b: Numbers = array(default=1.0)
    dim: ClassVar[int] = 1

    def check(self):
        S = self.states
        if S < 2 or np.shape(self.passive) != (S, S):
            raise ConfigError(f"Recommender: passive must be S × S with S ≥ 2; got shape {np.shape(self.passive)}.")
        if np.shape(self.rewards) != (S,):
            raise ConfigError(
                f"Recommender: rewards must have one number for each of the {S} points; got {np.shape(self.rewards)}."
            )
        if is_concrete(self.passive):
            p = np.asarray(self.passive)
            if not (p > 0).all() or not np.allclose(p.sum(1), 1, atol=1e-5):
                raise ConfigError(
                    "Recommender: each row of passive must be probabilities > 0 that sum to 1; "
                    f"got entries from {p.min():.4g} and sums from {p.sum(1).min():.4g} to {p.sum(1).max():.4g}."
                )
        inside(self, "phi", lambda x: (x > 0) & (x < 1), "lie in (0, 1)")
        positive(self, "a", "b")

    @property
    def states(self) -> int:
        return np.shape(self.rewards)[-1]

    @property
    def actions(self) -> int:
        return self.states

    def __str__(self) -> str:
        return (
            f"A recommender of {self.states} points of interest whose suggestions lift p to p^φ; "
            f"φ = {float(self.phi):.4g} in simulations, with a prior Beta({float(self.a):.4g}, {float(self.b):.4g})."
        )

    @property
    def true(self):
        return jnp.log(jnp.asarray(self.phi, float) / (1.0 - self.phi))[None]

    # The belief

    @rests_on("log_prior")
    def init(self, key):
        key_a, key_b = _random.split(key)
        draw = _random.log_gamma(key_a, jnp.asarray(self.a, float)) - _random.log_gamma(key_b, jnp.asarray(self.b, float))
        return draw[None]

    @rests_on("init")
    def log_prior(self, theta):
        return self.a * jax.nn.log_sigmoid(theta[0]) + self.b * jax.nn.log_sigmoid(-theta[0]) - betaln(self.a, self.b)

    def _log_p(self):
        return jnp.log(jnp.asarray(self.passive, float))

    def _rest(self, s, a, next_s):
        """log of the share of s' among the points other than a."""
        p = jnp.asarray(self.passive, float)
        return jnp.where(next_s == a, 0.0, jnp.log(p[s, next_s]) - jnp.log1p(-p[s, a]))

    @rests_on("sample", "expect", "transitions", "_follow")
    def log_likelihood(self, theta, row):
        s, a = row.obs, row.action
        follow = log_follow(jax.nn.log_sigmoid(theta[0]), jnp.log(jnp.asarray(self.passive, float)[s, a]), row.next_obs == a)
        return follow + self._rest(s, a, row.next_obs)

    @rests_on("log_likelihood")
    def information(self, theta):
        """That of a recommendation with f = 0.2 in logit φ: f log²f/(1 - f) · (1 - φ)²."""
        return MOST_INFORMATION * jnp.maximum(jnp.square(jax.nn.sigmoid(-theta)), LEAST_SHARE)

    @rests_on("log_prior")
    def prior_precision(self):
        # The curvature (a + b) φ (1 - φ) of -log prior at its mode.
        return jnp.reshape(self.a * self.b / (self.a + self.b), (1,))

    @rests_on(*MOVES)
    def empty(self):
        zero = jnp.zeros((self.states, self.states))
        return Follows(jnp.zeros((), int), zero, zero, jnp.zeros(()))

    @rests_on(*MOVES)
    def add(self, summary, row):
        places = jnp.arange(self.states)
        pair = (places[:, None] == row.obs) & (places == row.action)
        followed = row.next_obs == row.action
        rest = self._rest(row.obs, row.action, row.next_obs)
        rows, yes, no, base = summary
        return Follows(rows + 1, yes + (pair & followed), no + (pair & ~followed), base + rest)

    @rests_on(*MOVES)
    def log_likelihood_of(self, theta, summary):
        log_phi, log_p = jax.nn.log_sigmoid(theta[0]), self._log_p()
        yes, no = log_follow(log_phi, log_p, True), log_follow(log_phi, log_p, False)
        return jnp.sum(summary.followed * yes + summary.ignored * no) + summary.base

    # The decision

    def _follow(self, theta):
        return jnp.exp(jax.nn.sigmoid(clipped(theta, -BOX, BOX)[0]) * self._log_p())

    def expect(self, theta, values: Float[Array, " points"]) -> Float[Array, "points points"]:
        """E[v(s') | s, a] in O(S²): f v(a) + (1 - f) (E_p v - p(a|s) v(a))/(1 - p(a|s)) with f = p(a|s)^φ."""
        p, f = jnp.asarray(self.passive, float), self._follow(theta)
        return f * values + (1 - f) * (p @ values[:, None] - p * values) / (1 - p)

    @rests_on(*MOVES, "transitions")
    def solve(self, theta) -> planning.Plan:
        """Policy, gain and bias by relative value iteration."""
        return planning.relative_value_iteration(
            lambda v: self.expect(theta, v), self.expect(theta, jnp.asarray(self.rewards, float))
        )

    @rests_on(*MOVES, "act")
    def plan(self, theta):
        return self.solve(theta).policy

    @rests_on(*MOVES)
    def gain(self, theta):
        return self.solve(theta).gain

    @rests_on(*MOVES, "act", "plan", "gain")
    def certify(self, theta) -> Certified:
        found = self.solve(theta)
        return Certified(found.policy, found.gain, jnp.where(within(theta, -BOX, BOX), found.residual, jnp.inf))

    def transitions(self, theta) -> Float[Array, "points points points"]:
        """P(s'|s, a; θ), which the plan does not need."""
        return jax.vmap(lambda v: self.expect(theta, v), out_axes=2)(jnp.eye(self.states))

    @rests_on(*MOVES)
    def table(self, theta) -> tuple[Array, Array]:
        """Transitions and expected rewards as a finite MDP."""
        return self.transitions(theta), self.expect(theta, jnp.asarray(self.rewards, float))

    @rests_on(*MOVES, "act", "start")
    def gain_of(self, theta, policy):
        return stationary_reward(self.transitions(theta), self.expect(theta, jnp.asarray(self.rewards, float)), policy)

    def act(self, policy, obs):
        return policy[obs]

    # The world

    def start(self):
        return jnp.zeros((), int)

    @rests_on("log_likelihood", "expect", "transitions", "_follow")
    def sample(self, key, theta, obs, action):
        p = jnp.asarray(self.passive, float)[obs]
        f = jnp.exp(jax.nn.sigmoid(theta[0]) * jnp.log(p[action]))
        others = p * (1 - f) / (1 - p[action])
        next_obs = categorical(key, jnp.where(jnp.arange(self.states) == action, f, others))
        return next_obs, jnp.asarray(self.rewards, float)[next_obs]


def recommender(points: int = 8, width: float = 1.5, phi: float = 0.5, a: float = 1.0, b: float = 1.0) -> Recommender:
    """Points 0, 1, … on a line: p(s'|s) ∝ exp(-(s - s')²/(2 width²)), and the reward rises from 0 to 1 along it.

    Args:
        points: how many there are.
        width: of the kernel.
        phi: the true φ of simulations.
        a: first parameter of the prior of φ, Beta(a, b).
        b: second parameter of that prior.

    Returns:
        The world.

    >>> from blts.dynamics import recommender
    >>> print(recommender(points=4))
    A recommender of 4 points of interest whose suggestions lift p to p^φ; φ = 0.5 in simulations, with a prior
    Beta(1, 1).
    """
    if points < 2 or not width > 0:
        raise ConfigError(f"recommender: points must be ≥ 2 and width > 0; got {points} and {width}.")
    line = np.arange(points)
    kernel = np.exp(-0.5 * np.square((line[:, None] - line) / width))
    return Recommender(kernel / kernel.sum(1, keepdims=True), line / (points - 1), phi, a, b)
