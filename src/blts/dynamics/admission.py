"""Admission to a queue with Poisson arrivals and one exponential server (M/M/1)."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from .. import _random
from .._module import array, at_least, module, positive, static
from .._typing import Array, Bool, Float, Int, Numbers, Scalar
from ..models import rate
from ..models.base import Sum
from .base import BestOf, clipped


class Queue(NamedTuple):
    """What is seen after an event: customers in the system, whether it was an arrival, and the time since the last event."""

    customers: Int[Array, ""]
    arrived: Bool[Array, ""]
    elapsed: Scalar


class Events(NamedTuple):
    rows: Int[Array, ""]
    arrivals: Int[Array, ""]
    time: Sum


@module
class Admission(BestOf):
    """Customers arrive at rate λ and are served at rate μ; one admitted earns `reward`, one in the system costs `cost` a time unit.

    A round is a slot of the uniformised queue: the time to the next event, an arrival with probability λ/(λ + μ) and a tick
    of the server's clock otherwise, which runs on where nobody waits. The action says beforehand whether an arrival would be
    admitted (1) or not (0). θ = (log λ, log μ), with priors Gamma(a, rate b) on both rates; posteriors are exact Gammas.

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
    capacity: int = static(default=20)
    dim: ClassVar[int] = 2
    actions: ClassVar[int] = 2

    def check(self):
        positive(self, "arrival", "service", "reward", "cost", "a", "b")
        at_least(self, "capacity", 1)

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

    def init(self, key):
        key_arrival, key_service = _random.split(key)
        a = jnp.asarray(self.a, float)
        return jnp.stack([rate.draw(key_arrival, a, self.b), rate.draw(key_service, a, self.b)])

    def log_prior(self, theta):
        return rate.log_density(theta[0], self.a, self.b) + rate.log_density(theta[1], self.a, self.b)

    def log_likelihood(self, theta, row):
        seen = row.next_obs
        return jnp.where(seen.arrived, theta[0], theta[1]) - (jnp.exp(theta[0]) + jnp.exp(theta[1])) * seen.elapsed

    def information(self, theta):
        """(p, 1 - p), the Fisher information of one slot, kept from 0 where one kind of event has not been seen."""
        return jnp.maximum(jax.nn.softmax(theta), 0.02)

    def prior_precision(self):
        return jnp.stack([jnp.asarray(self.a, float)] * 2)

    def empty(self):
        zero = jnp.zeros((), int)
        return Events(zero, zero, Sum.zero())

    def add(self, summary, row):
        rows, arrivals, time = summary
        return Events(rows + 1, arrivals + row.next_obs.arrived, time.plus(row.next_obs.elapsed))

    def log_likelihood_of(self, theta, summary):
        arrivals, services = summary.arrivals, summary.rows - summary.arrivals
        return arrivals * theta[0] + services * theta[1] - (jnp.exp(theta[0]) + jnp.exp(theta[1])) * summary.time.value

    def posterior(self, summary) -> tuple[Float[Array, " 2"], Scalar]:
        """Shapes and rate of the exact posterior: λ and μ are independent Gammas."""
        events = jnp.stack([summary.arrivals, summary.rows - summary.arrivals])
        return self.a + events, self.b + summary.time.value

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
        theta = clipped(theta, -10.0, 10.0)
        n = jnp.arange(self.capacity + 1)
        weight = jnp.where(n <= n[:, None], n * (theta[0] - theta[1]), -jnp.inf)
        pi = jax.nn.softmax(weight, axis=1)
        share, length = jax.nn.sigmoid(theta[0] - theta[1]), jnp.exp(-jnp.logaddexp(theta[0], theta[1]))
        return share * self.reward * (1.0 - jnp.diagonal(pi)) - self.cost * length * (pi @ n.astype(pi.dtype))

    def table(self, theta) -> tuple[Array, Array]:
        """The same world as a finite MDP over customers 0 … capacity: transitions and expected rewards."""
        n, size = jnp.arange(self.capacity + 1), self.capacity + 1
        share, length = jax.nn.sigmoid(theta[0] - theta[1]), jnp.exp(-jnp.logaddexp(theta[0], theta[1]))
        down, stay = jnp.eye(size)[jnp.maximum(n - 1, 0)], jnp.eye(size)
        up = jnp.eye(size)[jnp.minimum(n + 1, self.capacity)]
        transitions = jnp.stack([share * stay + (1 - share) * down, share * up + (1 - share) * down], 1)
        paid = share * self.reward * (n < self.capacity)
        waiting = -self.cost * length * n
        return transitions, jnp.stack([waiting, waiting + paid], 1)

    def act(self, policy, obs):
        return (obs.customers < policy).astype(int)

    # The world

    def start(self):
        return Queue(jnp.zeros((), int), jnp.zeros((), bool), jnp.zeros(()))

    def sample(self, key, theta, obs, action):
        key_event, key_time = _random.split(key)
        n = obs.customers
        arrived = _random.uniform(key_event) < jax.nn.sigmoid(theta[0] - theta[1])
        elapsed = -jnp.log1p(-_random.uniform(key_time)) * jnp.exp(-jnp.logaddexp(theta[0], theta[1]))
        admitted = arrived & (action == 1) & (n < self.capacity)
        after = jnp.where(arrived, n + admitted, jnp.maximum(n - 1, 0))
        return Queue(after, arrived, elapsed), self.reward * admitted - self.cost * n * elapsed
