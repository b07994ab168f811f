"""A network that is refitted at each refresh, with the exact posterior of its last layer."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from ... import _random
from ..._module import array, at_least, module, positive, static
from ..._typing import Float, Info, Int, Numbers, PRNGKey, Row, Theta, Tree
from ...declared import fact, rests_on, why_lost
from ...errors import ConfigError
from ...factors import cholesky, solve, solve_transposed
from ...history import Log
from ...models.base import Model, Normal
from ...models.drawing import arms_of, laws_of_normal, prior_draws
from ...models.network import Network
from ...samplers.potential import Rows, log_likelihood, sum_sample
from .base import Belief
from .diagnostics import finite_numbers


class LastLayerState(NamedTuple):
    fitted: Float
    """The weights of every arm's network, where the next refit starts, `[arms, dim]`."""
    normal: Normal
    """What rounds draw from: the fitted weights below the last layer, and the posterior of the last."""
    n: Int


@module
class LastLayer(Belief):
    """Neural Thompson sampling: at a refresh Adam refits the network, and its last layer is drawn from its exact posterior.

    Given what the layers below make of the features, rewards are linear in the last layer, whose posterior is normal. The spread of
    the layers below is left out: draws are narrower than those of the whole posterior, which `Pool` runs chains on.

    Args:
        steps: how many steps of Adam a refresh takes, from where the last one ended.
        rate: the length of a step of Adam.
        minibatch: how many rewards a gradient is estimated from.

    >>> from blts.agents import LastLayer, Thompson
    >>> from blts.contexts import WithOffsets
    >>> from blts.models import Network
    >>> Thompson(Network(inputs=4), LastLayer(), arms=2, shared=True, features=WithOffsets(2)).belief.steps
    200
    """

    steps: int = static(default=200)
    rate: Numbers = array(default=0.05)
    minibatch: int = static(default=64)

    def check(self):
        at_least(self, "steps", 1)
        at_least(self, "minibatch", 1)
        positive(self, "rate")

    def check_model(self, model):
        if not isinstance(model, Network):
            raise ConfigError(f"LastLayer: the model must be a Network; a {type(model).__name__} has no last layer.")
        if not model.gaussian_last_layer:
            why = why_lost(model, "gaussian_last_layer")
            raise ConfigError(f"LastLayer: the posterior of the last layer is that of a plain Network; {why}")
        return self

    def __str__(self) -> str:
        return f"{self.steps} steps of Adam at a refresh, each round drawing the last layer from its exact posterior"

    plain_memory = fact("empty", "remember")
    starts_from_prior = fact("init")

    def init(self, key, model):
        assert isinstance(model, Network), "check_model refuses others"
        fitted = prior_draws(key, model)
        root = jnp.diag(jnp.where(jnp.arange(model.dim) < model.dim - model.last, 0.0, 1.0))
        mean = jnp.where(jnp.diagonal(root) > 0, 0.0, fitted)
        none = jnp.zeros(arms_of(model), int)
        return LastLayerState(fitted, Normal(mean, jnp.broadcast_to(root, (arms_of(model), *root.shape))), none)

    def empty(self, model, row, capacity):
        return Log.empty(row, capacity, arms_of(model))

    def remember(self, model, history, row, live):
        return history.append(row, live)

    def refresh(self, keys, model, state, history):
        arms = jnp.arange(arms_of(model))

        def of_replication(key: PRNGKey, state: LastLayerState, log: Log) -> LastLayerState:
            grouped = log.grouped()
            one = lambda a, single, fitted, start, n: self._refit(  # noqa: E731
                _random.fold_in(key, a), single, fitted, Rows(grouped.rows, start, n, jnp.max(log.counts))
            )
            fitted, normal = jax.vmap(one)(arms, model, state.fitted, grouped.start, log.counts)
            seen = lambda new, old: jnp.where((log.counts > 0).reshape(-1, *[1] * (old.ndim - 1)), new, old)  # noqa: E731
            return LastLayerState(seen(fitted, state.fitted), jax.tree.map(seen, normal, state.normal), log.counts)

        new = jax.vmap(of_replication)(keys, state, history)
        return new, Info.of(finite_numbers(new, keys.shape))

    def _refit(self, key: PRNGKey, model: Network, theta: Theta, rows: Rows) -> tuple[Theta, Normal]:
        """The refitted network of one arm, and the posterior of its last layer."""

        def slope(i: Int, x: Theta) -> Theta:
            places = (_random.uniform(_random.fold_in(key, i), (self.minibatch,)) * rows.n).astype(int)
            weights = jnp.full(self.minibatch, rows.n / self.minibatch)
            return -jax.grad(model.log_prior)(x) - jax.grad(log_likelihood, 1)(model, x, rows.at(places), weights)

        theta = adam(slope, theta, self.steps, self.rate)
        k = model.last

        def equations(some: Row, weights: Float) -> Tree:
            phi = jax.vmap(lambda obs: jax.grad(model.mean_reward)(theta, obs, jnp.asarray(0))[-k:])(some.obs)
            return (weights[:, None] * phi).T @ phi, phi.T @ (weights * some.reward)

        gram, moment = sum_sample(equations, rows, None, True, (jnp.zeros((k, k)), jnp.zeros(k)))
        variance = jnp.square(model.sd)
        factor = cholesky(jnp.diag(model.prior_precision()[-k:]) + gram / variance)
        last = solve(factor, moment / variance)
        root = jnp.zeros((model.dim, model.dim)).at[-k:, -k:].set(solve_transposed(factor, jnp.eye(k)))
        return theta.at[-k:].set(last), Normal(theta.at[-k:].set(last), root)

    @rests_on("normal")  # which says what it draws from
    def draw(self, key, model, state):
        z = _random.normal(key, state.normal.mean.shape)
        return state.normal.mean + jnp.sum(state.normal.root * z[:, None], -1)

    @rests_on("draw")
    def laws(self, model, state, obs):
        """Normal distributions: the mean reward is linear in what is drawn."""
        return laws_of_normal(model, state.normal, obs)

    @rests_on("draw")
    def normal(self, model: Model, state: LastLayerState) -> Normal:
        """The distributions that `draw` draws θ from: the mean reward is linear along their roots."""
        return state.normal


def adam(slope, x: Theta, steps: int, rate) -> Theta:
    """Minimise by Adam (Kingma and Ba 2015), with a length of step that falls to zero.

    Args:
        slope: the gradient at step i, or an estimate of it: `slope(i, x)`.
        x: where to begin.
        steps: how many.
        rate: the length of the first step.

    Returns:
        The last point.
    """

    def step(i, carry):
        x, m, v = carry
        g = slope(i, x)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * jnp.square(g)
        t = i + 1.0
        move = (m / (1 - 0.9**t)) / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8)
        return x - rate * (1 - i / steps) * move, m, v

    return lax.fori_loop(0, steps, step, (x, jnp.zeros_like(x), jnp.zeros_like(x)))[0]
