"""Linear-quadratic control of one state by one action."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm

from .. import _random
from .._module import array, finite, is_concrete, module, positive
from .._typing import Array, Bool, Float, Numbers, Row, Scalar
from ..declared import rests_on
from ..errors import ConfigError
from ..models.linear import Linear
from ..models.nig import HALF_LOG_2PI
from .base import Certified, Dynamics
from .bounds import clipped, digits, within

MOST = 10.0  # |a| and |b| that are planned for
LEAST_B = 1e-2  # below it an unstable state is taken as out of reach
SPREAD = 7.0  # standard deviations of the best action that an actuator must allow: beyond them lies 1e-12 of it
MOVES = ("sample", "log_likelihood")


class Feedback(NamedTuple):
    """The policy u = -K x.

    >>> from blts.dynamics import LinearQuadratic
    >>> world = LinearQuadratic()
    >>> feedback = world.plan(world.true)
    >>> type(feedback).__name__, bool(feedback.stabilises)
    ('Feedback', True)
    """

    gain: Scalar
    stabilises: Bool[Array, ""]
    """False where θ cannot be stabilised: then K = 0."""


@module
class LinearQuadratic(Dynamics):
    """x' = a x + b u + w with w ~ N(0, sd²), cost q x² + r u² a round, θ = (a, b), prior N(prior_mean, prior_sd² I).

    The plan solves the Riccati equation P = q + a² P - (a b P)²/(r + b² P): K = a b P/(r + b² P), average cost P sd². An
    actuator gives at most |u| = `limit`, so that a plan for a wrong θ cannot blow up a stable world. The plan does not know
    the limit: it is 10, or 7 standard deviations of the best action where those are more, and a smaller one is refused.

    Args:
        a: how much of the state stays, in simulations.
        b: how much an action moves it, in simulations.
        q: cost of the state.
        r: cost of the action.
        sd: of the noise, known.
        prior_mean: of (a, b).
        prior_sd: of both.
        limit: the largest |u|; None for as much as the best policy needs.

    >>> from blts.dynamics import LinearQuadratic
    >>> lq = LinearQuadratic()
    >>> print(f"{lq.gain(lq.true):.4f}, K = {lq.plan(lq.true).gain:.4f}")
    -1.2452, K = 1.3624
    """

    a: Numbers = array(default=0.9)
    b: Numbers = array(default=0.5)
    q: Numbers = array(default=1.0)
    r: Numbers = array(default=0.1)
    sd: Numbers = array(default=1.0)
    prior_mean: Numbers = array(default=(0.5, 0.5), ndim=1)
    prior_sd: Numbers = array(default=0.5)
    limit: Numbers = array(default=None)
    dim: ClassVar[int] = 2
    actions: ClassVar[int] = 0

    def check(self):
        finite(self, "a", "b", "prior_mean")
        positive(self, "q", "r", "sd", "prior_sd", *(() if self.limit is None else ("limit",)))
        if np.shape(self.prior_mean) != (2,):
            raise ConfigError(f"LinearQuadratic: prior_mean must have two numbers, for a and b; got {np.shape(self.prior_mean)}.")
        if is_concrete(self.a) and is_concrete(self.b) and np.abs(self.a) >= 1 and np.abs(self.b) < LEAST_B:
            raise ConfigError(
                "LinearQuadratic: a system with |a| ≥ 1 needs |b| ≥ 0.01 to be stabilised; "
                f"got a = {float(self.a):.4g}, b = {float(self.b):.4g}."
            )

        if all(map(is_concrete, (self.a, self.b, self.q, self.r, self.sd, self.limit))):
            needed = float(self._reach(self.true))
            if self.limit is None:
                object.__setattr__(self, "limit", np.asarray(max(10.0, needed)))
            elif (why := self.why_cut(self.true)) is not None:
                raise ConfigError(why)
        elif self.limit is None:
            raise ConfigError("LinearQuadratic: give limit=… where the other numbers are traced.")

    def why_cut(self, theta=None) -> str | None:
        """The sentence that says what the limit cuts off for θ or, without one, for the prior; None where nothing."""
        if theta is None:
            return (
                "LinearQuadratic: the prior holds systems that no bounded action stabilises, and those have no optimum; give theta."
            )
        needed = float(self._reach(jnp.asarray(theta, float)))
        if needed <= float(self.limit) * (1 + 1e-5):
            return None
        return (
            f"LinearQuadratic: limit={float(self.limit):.4g} cuts off the best actions, of which {SPREAD:g} standard deviations "
            f"are {needed:.4g}; give that or more, or leave it out."
        )

    def _reach(self, theta):
        """As many standard deviations of the best action as the actuator should allow."""
        return SPREAD * self._spread(theta)

    def _spread(self, theta):
        """The standard deviation of u = -K x under θ: K sd/√(1 - (a - b K)²)."""
        a, b = clipped(theta, -MOST, MOST)
        K = self._riccati(theta)[1].gain
        return jnp.abs(K) * self.sd / jnp.sqrt(jnp.maximum(1.0 - jnp.square(a - b * K), 1e-6))

    def __str__(self) -> str:
        return (
            f"Linear-quadratic control of x' = a x + b u + noise of sd {float(self.sd):.4g} with cost "
            f"{float(self.q):.4g} x² + {float(self.r):.4g} u²; a = {float(self.a):.4g}, b = {float(self.b):.4g} in simulations."
        )

    @property
    def true(self):
        return jnp.stack([jnp.asarray(self.a, float), jnp.asarray(self.b, float)])

    # The belief: Gaussian regression of x' on (x, u)

    @property
    def regression(self) -> Linear:
        """x' as a linear reward with the context (x, u); it has the exact posterior."""
        return Linear(self.prior_mean, self.prior_sd, self.sd)

    @staticmethod
    def _pull(row: Row) -> Row:
        return Row(jnp.stack([row.obs, row.action]), jnp.zeros((), int), row.next_obs)

    @rests_on("log_prior")
    def init(self, key):
        return self.regression.init(key)

    @rests_on("init")
    def log_prior(self, theta):
        return self.regression.log_prior(theta)

    @rests_on("sample", "regression")
    def log_likelihood(self, theta, row):
        # As regression.log_likelihood, written out: a product of 2-vectors is slow inside a chain's loop.
        residual = (row.next_obs - theta[0] * row.obs - theta[1] * row.action) / self.sd
        return -0.5 * jnp.square(residual) - jnp.log(self.sd) - HALF_LOG_2PI

    @rests_on(*MOVES)
    def information(self, theta):
        """E(x² + u²)/sd² where θ is true and its own plan is played; the curvature of a row lies along (x, u) alone."""
        a, b = clipped(theta, -MOST, MOST)
        K = self._riccati(theta)[1].gain
        variance = 1.0 / (1.0 - jnp.minimum(jnp.square(a - b * K), 0.9))
        return jnp.full(2, variance * (1.0 + jnp.minimum(jnp.square(K), MOST)))

    @rests_on("log_prior")
    def prior_precision(self):
        return self.regression.prior_precision()

    @rests_on(*MOVES)
    def empty(self):
        return self.regression.empty()

    @rests_on(*MOVES)
    def add(self, summary, row):
        return self.regression.add(summary, self._pull(row))

    @rests_on(*MOVES)
    def log_likelihood_of(self, theta, summary):
        return self.regression.log_likelihood_of(theta, summary)

    @rests_on(*MOVES, "log_prior", "init", "empty", "add")
    def draw(self, key, summary):
        """A draw from the exact posterior."""
        return self.regression.draw(key, summary)

    @rests_on(*MOVES, "log_prior", "init", "empty", "add", "regression")
    def posterior(self, summary) -> tuple[Float[Array, " 2"], Float[Array, "2 2"]]:
        """Mean and covariance of the exact posterior."""
        precision = jnp.eye(2) / jnp.square(self.prior_sd) + summary.gram.value / jnp.square(self.sd)
        covariance = jnp.linalg.inv(precision)
        return self.prior_mean + covariance @ summary.moment.value / jnp.square(self.sd), covariance

    # The decision

    def _riccati(self, theta) -> tuple[Scalar, Feedback]:
        """b² P² + m P - q r = 0 with m = r (1 - a²) - q b²: the positive root, in the form that does not cancel."""
        a, b = clipped(theta, -MOST, MOST)
        reachable = (jnp.abs(a) < 1.0) | (jnp.abs(b) >= LEAST_B)
        m = self.r * (1.0 - a * a) - self.q * b * b
        root = jnp.sqrt(m * m + 4.0 * b * b * self.q * self.r)
        b2 = jnp.maximum(b * b, LEAST_B**2)  # used where m < 0, which a reachable system has with b² ≥ LEAST_B² only
        P = jnp.where(m >= 0, 2.0 * self.q * self.r / jnp.maximum(m + root, 1e-12), (root - m) / (2.0 * b2))
        K = jnp.where(reachable, a * b * P / (self.r + b * b * P), 0.0)
        return P, Feedback(K, reachable)

    @rests_on(*MOVES, "act")
    def plan(self, theta):
        return self._riccati(theta)[1]

    @rests_on(*MOVES)
    def gain(self, theta):
        return -self._riccati(theta)[0] * jnp.square(self.sd)

    @rests_on(*MOVES, "act", "plan", "gain")
    def certify(self, theta) -> Certified:
        """An action u loses (r + b² P) (u + K x)² against the best one, and the limit cuts off (|K x| - limit)⁺ of it.

        Its square is taken for x as without the limit. To that comes by how much P misses the Riccati equation.
        """
        a, b = clipped(theta, -MOST, MOST)
        P, policy = self._riccati(theta)
        missed = jnp.abs(self.q + a * a * P - jnp.square(a * b * P) / (self.r + b * b * P) - P) * jnp.square(self.sd)
        spread = jnp.maximum(self._spread(theta), 1e-30)
        z = self.limit / spread
        cut = 2.0 * jnp.maximum((1.0 + z * z) * norm.sf(z) - z * norm.pdf(z), 0.0) * jnp.square(spread)
        lost = missed + (self.r + b * b * P) * cut + digits(P * jnp.square(self.sd))
        planned = within(theta, -MOST, MOST) & policy.stabilises
        return Certified(policy, -P * jnp.square(self.sd), jnp.where(planned, lost, jnp.inf))

    @rests_on(*MOVES, "act")
    def gain_of(self, theta, policy):
        """-(q + r K²) sd²/(1 - (a - b K)²), or -∞ where K does not stabilise θ."""
        slack = 1.0 - jnp.square(theta[0] - theta[1] * policy.gain)
        cost = (self.q + self.r * jnp.square(policy.gain)) * jnp.square(self.sd) / jnp.where(slack > 0, slack, 1.0)
        return jnp.where(slack > 0, -cost, -jnp.inf)

    def act(self, policy, obs):
        return jnp.clip(-policy.gain * obs, -self.limit, self.limit)

    # The world

    def start(self):
        return jnp.zeros(())

    @rests_on("log_likelihood", "regression")
    def sample(self, key, theta, obs, action):
        noise = self.sd * _random.normal(key)
        return theta[0] * obs + theta[1] * action + noise, -(self.q * jnp.square(obs) + self.r * jnp.square(action))
