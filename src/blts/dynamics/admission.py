"""Admission to a queue with Poisson arrivals and one exponential server (M/M/1)."""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .. import _random
from .._module import array, at_least, is_concrete, module, positive, static
from .._typing import Array, Bool, Float, Int, Numbers, Scalar
from ..declared import rests_on
from ..errors import ConfigError
from ..models import rate
from ..models.moments import Sum
from .base import Certified, Dynamics
from .bounds import clipped, digits

BOX = 10.0  # log rates that are planned for
PRIOR_TAIL = 1e-6  # the prior probability of rates whose best threshold may be left out
MOST_CAPACITY = 1 << 14
MOST_LOOKED_AT = 1 << 22  # thresholds among which the best one is looked for when a world is built
SLOT = ("sample", "log_likelihood")


class Queue(NamedTuple):
    """What is seen after an event: customers in the system, whether it was an arrival, and the time since the last event.

    >>> from blts.dynamics import Queue
    >>> Queue(customers=3, arrived=True, elapsed=0.4)
    Queue(customers=3, arrived=True, elapsed=0.4)
    """

    customers: Int[Array, ""]
    arrived: Bool[Array, ""]
    elapsed: Scalar


class Events(NamedTuple):
    rows: Int[Array, ""]
    arrivals: Int[Array, ""]
    time: Sum


@module
class Admission(Dynamics):
    """Customers arrive at rate λ and are served at rate μ; one admitted earns `reward`, one in the system costs `cost` a time unit.

    A round is a slot of the uniformised queue: the time to the next event, an arrival with probability λ/(λ + μ) and a tick
    of the server's clock otherwise, which runs on where nobody waits. The action says beforehand whether an arrival would be
    admitted (1) or not (0). θ = (log λ, log μ), with priors Gamma(a, rate b) on both rates; posteriors are exact Gammas.

    Args:
        arrival: λ in simulations.
        service: μ in simulations.
        reward: of a customer admitted.
        cost: of a customer in the system, a time unit.
        a: shape of the priors of both rates.
        b: rate of these priors.
        capacity: the longest queue, and so the largest threshold, that is looked at; by default as much as the rates and the
            prior need. Less than the rates need is refused.

    >>> from blts.dynamics import Admission
    >>> desk = Admission()
    >>> print(f"admit below {desk.plan(desk.true)} for {desk.gain(desk.true):.4f} a slot")
    admit below 3 for 1.5236 a slot
    """

    arrival: Numbers = array(default=0.8)
    service: Numbers = array(default=1.0)
    reward: Numbers = array(default=6.0)
    cost: Numbers = array(default=1.0)
    a: Numbers = array(default=2.0)
    b: Numbers = array(default=2.0)
    capacity: Any = static(default=None)  # a number as soon as it is checked
    dim: ClassVar[int] = 2
    actions: ClassVar[int] = 2

    def check(self):
        positive(self, "arrival", "service", "reward", "cost", "a", "b")
        if self.capacity is not None:
            at_least(self, "capacity", 1)
        if not all(map(is_concrete, (self.arrival, self.service, self.reward, self.cost, self.a, self.b))):
            if self.capacity is None:
                raise ConfigError("Admission: give capacity=… where the other numbers are traced.")
            return
        capacity = self.capacity
        if capacity is None:
            need = max(self._need(np.log([float(self.arrival), float(self.service)])), min(self._prior_need(), MOST_CAPACITY), 16)
            capacity = 1 << (need - 1).bit_length()
            object.__setattr__(self, "capacity", capacity)
        if capacity > MOST_CAPACITY:
            raise ConfigError(
                f"Admission: queues of up to {MOST_CAPACITY} customers are planned for, and these rates need {capacity}; "
                "lower reward · service / cost."
            )
        if (why := self.why_cut(self.true)) is not None:
            raise ConfigError(why)

    def why_cut(self, theta=None) -> str | None:
        """The sentence that says what the capacity cuts off for θ or, without one, for the prior; None where nothing."""
        need = self._prior_need() if theta is None else self._need(np.asarray(theta, float))
        if need <= self.capacity:
            return None
        whose = "the prior" if theta is None else "these rates"
        return (
            f"Admission: capacity={self.capacity} cuts off thresholds that {whose} may need; give capacity={need}, or leave it out."
        )

    def _prior_need(self) -> int:
        """A customer who waits longer than reward/cost is worth nothing (Naor 1969): no threshold is above reward · μ/cost."""
        from scipy.special import gammainccinv

        fastest = float(gammainccinv(float(self.a), PRIOR_TAIL)) / float(self.b)
        return math.ceil(float(self.reward) * fastest / float(self.cost))

    def _need(self, theta: np.ndarray) -> int:
        """The best threshold, looked for up to reward · μ/cost; in NumPy, and one more."""
        most = float(self.reward) * math.exp(min(theta[1], 700.0)) / float(self.cost)
        if not most < MOST_LOOKED_AT or np.abs(theta).max() > BOX:
            return MOST_CAPACITY + 1
        return int(np.argmax(gains_of(np, theta[0], theta[1], float(self.reward), float(self.cost), math.ceil(most) + 1))) + 1

    def __str__(self) -> str:
        return (
            f"Admission to an M/M/1 queue of at most {self.capacity}: {float(self.reward):.4g} a customer admitted, "
            f"{float(self.cost):.4g} a customer and time unit; rates {float(self.arrival):.4g} and {float(self.service):.4g} "
            "in simulations."
        )

    @property
    def true(self):
        return jnp.log(jnp.stack([jnp.asarray(self.arrival, float), jnp.asarray(self.service, float)]))

    # The belief: a slot is an arrival λ exp(-(λ + μ) τ) or a service μ exp(-(λ + μ) τ)

    @rests_on("log_prior")
    def init(self, key):
        key_arrival, key_service = _random.split(key)
        a = jnp.asarray(self.a, float)
        return jnp.stack([rate.draw(key_arrival, a, self.b), rate.draw(key_service, a, self.b)])

    @rests_on("init")
    def log_prior(self, theta):
        return rate.log_density(theta[0], self.a, self.b) + rate.log_density(theta[1], self.a, self.b)

    @rests_on("sample")
    def log_likelihood(self, theta, row):
        seen = row.next_obs
        return jnp.where(seen.arrived, theta[0], theta[1]) - (jnp.exp(theta[0]) + jnp.exp(theta[1])) * seen.elapsed

    @rests_on(*SLOT)
    def information(self, theta):
        """(p, 1 - p), the Fisher information of one slot, kept from 0 where one kind of event has not been seen."""
        return jnp.maximum(jax.nn.softmax(theta), 0.02)

    @rests_on("log_prior")
    def prior_precision(self):
        return jnp.stack([jnp.asarray(self.a, float)] * 2)

    @rests_on(*SLOT)
    def empty(self):
        zero = jnp.zeros((), int)
        return Events(zero, zero, Sum.zero())

    @rests_on(*SLOT)
    def add(self, summary, row):
        rows, arrivals, time = summary
        return Events(rows + 1, arrivals + row.next_obs.arrived, time.plus(row.next_obs.elapsed))

    @rests_on(*SLOT)
    def log_likelihood_of(self, theta, summary):
        arrivals, services = summary.arrivals, summary.rows - summary.arrivals
        return arrivals * theta[0] + services * theta[1] - (jnp.exp(theta[0]) + jnp.exp(theta[1])) * summary.time.value

    @rests_on(*SLOT, "log_prior", "init", "empty", "add")
    def posterior(self, summary) -> tuple[Float[Array, " 2"], Scalar]:
        """Shapes and rate of the exact posterior: λ and μ are independent Gammas."""
        events = jnp.stack([summary.arrivals, summary.rows - summary.arrivals])
        return self.a + events, self.b + summary.time.value

    @rests_on(*SLOT, "log_prior", "init", "empty", "add", "posterior")
    def draw(self, key, summary):
        """A draw from the exact posterior."""
        shapes, total = self.posterior(summary)
        key_arrival, key_service = _random.split(key)
        return jnp.stack([rate.draw(key_arrival, shapes[0], total), rate.draw(key_service, shapes[1], total)])

    # The decision

    def gains(self, theta) -> Float[Array, " thresholds"]:
        """The gain a slot of admitting below k, for k = 0 … capacity: π(n) ∝ (λ/μ)^n for n ≤ k.

        Some threshold is best, because waiting costs more the longer the queue (Naor 1969).
        """
        theta = clipped(theta, -BOX, BOX)
        return gains_of(jnp, theta[0], theta[1], self.reward, self.cost, self.capacity)

    @rests_on(*SLOT, "act")
    def plan(self, theta) -> Int[Array, ""]:
        return jnp.argmax(self.gains(theta))

    @rests_on(*SLOT)
    def gain(self, theta):
        return jnp.max(self.gains(theta))

    @rests_on(*SLOT, "act")
    def gain_of(self, theta, policy):
        return self.gains(theta)[policy]

    @rests_on(*SLOT, "act", "plan", "gain", "gains")
    def certify(self, theta) -> Certified:
        """Gains rise to the best threshold and fall after it, and none above reward · μ/cost is best (Naor 1969). Where the best
        one is the capacity itself, at most what all arrivals together would pay is lost."""
        gains = self.gains(theta)
        best = jnp.argmax(gains)
        share, needed = jax.nn.sigmoid(theta[0] - theta[1]), self.reward * jnp.exp(theta[1]) / self.cost
        cut = (best == self.capacity) & (needed > self.capacity)
        lost = jnp.where(cut, share * self.reward - gains[best], 0.0) + digits(jnp.append(gains, share * self.reward))
        planned = (theta[0] <= BOX) & (jnp.abs(theta[1]) <= BOX)  # arrivals below the box are too few to matter
        return Certified(best, gains[best], jnp.where(planned, lost, jnp.inf))

    def act(self, policy, obs):
        return (obs.customers < policy).astype(int)

    # The world

    def start(self):
        return Queue(jnp.zeros((), int), jnp.zeros((), bool), jnp.zeros(()))

    @rests_on("log_likelihood")
    def sample(self, key, theta, obs, action):
        key_event, key_time = _random.split(key)
        n = obs.customers
        arrived = _random.uniform(key_event) < jax.nn.sigmoid(theta[0] - theta[1])
        elapsed = -jnp.log1p(-_random.uniform(key_time)) * jnp.exp(-jnp.logaddexp(theta[0], theta[1]))
        admitted = arrived & (action == 1) & (n < self.capacity)
        after = jnp.where(arrived, n + admitted, jnp.maximum(n - 1, 0))
        return Queue(after, arrived, elapsed), self.reward * admitted - self.cost * n * elapsed


def gains_of(xp, log_arrival, log_service, reward, cost, capacity: int):
    """The gain a slot of every threshold 0 … capacity, in NumPy or in JAX. With ρ = λ/μ and j counted from the empty queue
    where ρ ≤ 1, from the full one where not, π_k(j) = e^{-j |log ρ|}/Z_k: sums of positive terms only."""
    slope = log_arrival - log_service
    j = xp.arange(capacity + 1)
    weight = xp.exp(-j * xp.abs(slope))
    Z = xp.cumsum(weight)
    mean = xp.cumsum(j * weight) / Z
    heavy = slope > 0
    customers = xp.where(heavy, j - mean, mean)
    admitted = (Z - xp.where(heavy, 1.0, weight)) / Z
    share, length = 1 / (1 + xp.exp(-slope)), xp.exp(-xp.logaddexp(log_arrival, log_service))
    return share * reward * admitted - cost * length * customers
