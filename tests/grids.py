"""Models without a closed posterior, and their exact posterior on a grid: what samplers and defaults are measured against."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from blts import Bandit, Belief, random
from blts._module import module, static
from blts._typing import Info, Row
from blts.history import Log, counts_of
from blts.models import StudentT, from_functions, from_numpyro
from blts.models.drawing import arms_of, prior_draws

EULER = 0.5772156649


class World(NamedTuple):
    model: Any
    theta: np.ndarray
    """The true parameters, [arms, dim], on the real line."""

    @property
    def env(self):
        return Bandit(self.model, theta=self.theta)


# Gumbel: θ = (location, log-scale). The curvature of one reward, e^{-2 θ₁} at the mode, has no bound; L = 7.4 is e².


def gumbel_prior(theta):
    return -0.5 * (theta[0] / 2.0) ** 2 - 0.5 * ((theta[1] + 1.0) / 0.5) ** 2


def gumbel_likelihood(theta, reward):
    z = (reward - theta[0]) * jnp.exp(-theta[1])
    return -z - jnp.exp(-z) - theta[1]


def gumbel_mean(theta):
    return theta[0] + EULER * jnp.exp(theta[1])


def gumbel_init(key):
    return jnp.array([0.0, -1.0]) + jnp.array([2.0, 0.5]) * random.normal(key, (2,))


def gumbel_sample(key, theta):
    return theta[0] - jnp.exp(theta[1]) * jnp.log(-jnp.log(jax.random.uniform(key, minval=1e-12)))


@cache
def gumbel() -> World:
    model = from_functions(
        gumbel_prior, gumbel_likelihood, L=7.4, dim=2, mean_reward=gumbel_mean, init=gumbel_init, sample=gumbel_sample, arms=4
    )
    return World(model, np.array([[0.0, -1.0], [0.5, -1.0], [1.0, -1.0], [1.5, -1.0]]))


@cache
def gamma() -> World:
    import numpyro.distributions as dist

    model = from_numpyro(
        lambda shape, mean: dist.Gamma(shape, shape / mean),
        {"shape": dist.LogNormal(0.5, 0.5), "mean": dist.LogNormal(1.0, 0.5)},
        arms=4,
    )
    return World(model, np.log([[2.0, 2.0], [2.0, 2.5], [2.0, 3.0], [2.0, 3.5]]))


@cache
def zip_poisson() -> World:
    import numpyro.distributions as dist

    model = from_numpyro(
        lambda gate, rate: dist.ZeroInflatedPoisson(gate, rate), {"gate": dist.Beta(2.0, 2.0), "rate": dist.Gamma(2.0, 0.5)}, arms=4
    )
    logit = lambda p: np.log(p / (1 - p))  # noqa: E731
    return World(model, np.array([[logit(g), np.log(r)] for g, r in ((0.5, 4.0), (0.4, 4.0), (0.3, 4.0), (0.3, 4.8))]))


def logistic_likelihood(theta, reward):
    return reward * theta[0] - jnp.logaddexp(0.0, theta[0])


@cache
def logistic() -> World:
    model = from_functions(
        lambda theta: -0.5 * (theta[0] / 1.5) ** 2,
        logistic_likelihood,
        L=0.25,
        mean_reward=lambda theta: jax.nn.sigmoid(theta[0]),
        init=lambda key: 1.5 * random.normal(key, (1,)),
        sample=lambda key, theta: (jax.random.uniform(key) < jax.nn.sigmoid(theta[0])) * 1.0,
        support="binary",
        arms=4,
    )
    p = np.array([0.3, 0.4, 0.5, 0.6])
    return World(model, np.log(p / (1 - p))[:, None])


@cache
def student() -> World:
    return World(StudentT(prior_mean=[0.0] * 4, prior_sd=1.0, scale=1.0, df=3.0), np.array([[0.0], [0.25], [0.5], [0.75]]))


WORLDS = {"gumbel": gumbel, "gamma": gamma, "zero-inflated Poisson": zip_poisson, "logistic": logistic, "Student-t": student}


# The posterior on a grid


class GridState(NamedTuple):
    low: Any
    """[arms, dim]"""
    width: Any
    """Of a cell, [arms, dim]."""
    cumulative: Any
    """[arms, cells]"""
    n: Any


ROWS = 16  # rows added to the log-density at once


@module
class OnGrid(Belief):
    """The posterior by its values on a grid of cells, which is moved and narrowed three times; draws are uniform in their cell."""

    size: int = static(default=64)
    passes: int = static(default=4)

    def _box(self, model):
        middle = jax.vmap(lambda k: prior_draws(k, model))(random.split(random.key(7), 512))
        sd = jnp.std(middle, 0)
        return jnp.mean(middle, 0) - 6 * sd, 12 * sd

    def init(self, key, model):
        low, extent = self._box(model)
        cells = self.size ** low.shape[1]
        return GridState(low, extent / self.size, jnp.ones((arms_of(model), cells)), jnp.zeros(arms_of(model), int))

    def empty(self, model, row, capacity):
        return Log.empty(row, capacity, arms_of(model))

    def remember(self, model, history, row, live):
        return history.append(row, live)

    def refresh(self, keys, model, state, history):
        n = counts_of(history)

        def one(log: Log):
            grouped = log.grouped()

            def arm(single, low, extent, start, count):
                return posterior(single, low, extent, grouped.rows, start, count, self.size, self.passes)

            return jax.vmap(arm)(model, *self._box(model), grouped.start, log.counts)

        low, width, p = jax.lax.map(one, history)
        return GridState(low, width, jnp.cumsum(p, -1), n), Info.of(jnp.ones(keys.shape, bool))

    def draw(self, key, model, state):
        def one(key, low, width, cumulative):
            dim = low.shape[0]
            key_cell, key_place = random.split(key)
            cell = jnp.searchsorted(cumulative, random.uniform(key_cell) * cumulative[-1])
            place = jnp.stack(jnp.unravel_index(cell, (self.size,) * dim)) + random.uniform(key_place, (dim,))
            return low + width * place

        key_grid, key_prior = random.split(key)
        drawn = jax.vmap(one)(random.split(key_grid, arms_of(model)), state.low, state.width, state.cumulative)
        return jnp.where(state.n[:, None] > 0, drawn, prior_draws(key_prior, model))


def posterior(model, low, extent, rows: Row, start, n, size: int, passes: int):
    """The corner and width of the cells, and their probabilities, of the rows start … start + n - 1."""
    dim = low.shape[0]
    index = jnp.stack(jnp.meshgrid(*[jnp.arange(size)] * dim, indexing="ij"), -1).reshape(-1, dim) + 0.5

    def log_density(x):
        capacity = rows.reward.shape[0]

        def add(c, total):
            i = c * ROWS + jnp.arange(ROWS)
            some = jax.tree.map(lambda leaf: leaf[jnp.minimum(start + jnp.minimum(i, n - 1), capacity - 1)], rows)
            values = jax.vmap(lambda x: jax.vmap(lambda row: model.log_likelihood(x, row))(some))(x)
            return total + jnp.where(i < n, values, 0.0).sum(1)

        return jax.lax.fori_loop(0, (n + ROWS - 1) // ROWS, add, jax.vmap(model.log_prior)(x))

    for k in range(passes):
        width = extent / size
        x = low + index * width
        p = jax.nn.softmax(jnp.nan_to_num(log_density(x), nan=-jnp.inf, posinf=-jnp.inf))
        if k < passes - 1:
            mean = p @ x
            reach = 6.5 * jnp.sqrt(p @ jnp.square(x - mean)) + 2 * width
            high = jnp.minimum(mean + reach, low + extent)
            low = jnp.maximum(mean - reach, low)
            extent = high - low
    return low, width, p


def log_of_arms(rewards: list[np.ndarray]) -> Log:
    """A log of each arm's rewards, one arm after the other."""
    counts = np.array([len(r) for r in rewards])
    actions, rank = np.repeat(np.arange(len(rewards)), counts), np.concatenate([np.arange(n) for n in counts])
    row = Row((), jnp.asarray(actions), jnp.asarray(np.concatenate(rewards), float), ())
    return Log(row, jnp.asarray(rank), jnp.asarray(counts), jnp.asarray(0), jnp.asarray(int(counts.sum())))
