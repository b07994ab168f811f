"""Algorithm 2's belief: draws around one chain's end."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ... import _random, theory
from ..._module import array, module, positive, short
from ..._typing import Array, Float, Info, Int, Numbers, Thetas, Tree
from ...declared import fact, provides, rests_on
from ...history.summaries import counts_of
from ...models import marginal
from ...models.base import Normal
from ...models.drawing import arms_of, mean_and_slope, prior_draws
from ...samplers.chain import Chain
from ...samplers.comparing import ChainInfo
from .base import Belief
from .diagnostics import all_finite, least_of_seen, mean_over_seen, oracle_distance
from .on_chain import OnChain, check_chain


class PerturbState(NamedTuple):
    theta: Thetas
    """Chain ends, θ_a^k."""
    n: Int[Array, " arms"]
    root: Any = ()
    """A square root of each arm's covariance at its mode, `[arms, dim, dim]`, where the chain looks for modes."""


@module
class Perturb(OnChain, Belief):
    """Algorithm 2: each round draws N(θ_a^k, I/(n_a L γ)) around the chain's end; an arm without data draws its prior.

    L is the model's information at θ_a^k: the L of the theory where that exists, its local value elsewhere. Chains that look for
    the mode (`Chain.scale`) draw N(θ_a^k, Σ/γ), with the covariance Σ that the rewards and the prior have there.
    Chain ends have the covariance Σ themselves, so that over batches draws have (1 + 1/γ) Σ about the mode; with a kernel of
    temperature T it is (T + 1/γ) Σ, and T = 1/2 with γ = 2 gives the posterior's own.

    Args:
        chain: what runs at a refresh.
        gamma: γ, which narrows the draws around the chain's end; "theorem" for what the theory says.

    >>> from blts import Laplace, Perturb, Thompson, sgld
    >>> print(Thompson(Laplace(prior_mean=[0.0, 1.0]), Perturb(sgld())))
    Thompson sampling, 50 Langevin steps of 0.1 times the posterior variance on minibatches of 32, each round
    drawing around the chain's end with γ = 1.
    2 arms with Laplace rewards (prior mean [0, 1], prior sd 1 (×2), scale 1 (×2)), outside the paper's theory: log
    p has a kink at r = θ and is linear elsewhere, so neither m, L nor ν exists.
    """

    chain: Chain
    draws_posterior = fact("init", "empty", "remember", "refresh", "draw", "spread")
    gamma: Numbers = array(default=1.0, words=("theorem",))

    def check(self):
        check_chain(self, self.chain)
        positive(self, "gamma")

    def __str__(self) -> str:
        return f"{self.chain}, each round drawing around the chain's end with γ = {short(self.gamma)}"

    def check_model(self, model):
        if self.gamma == "theorem":
            theory.constants_of(model)
        return dataclasses.replace(self, chain=self.chain.resolved(model))

    def init(self, key, model):
        start, none = prior_draws(key, model), jnp.zeros(arms_of(model), int)
        return PerturbState(start, none, jnp.zeros((*start.shape, start.shape[1])) if self.chain.scale == "mode" else ())

    def refresh(self, keys, model, state, history):
        n = counts_of(history)
        ends, info = self.chain.run(keys, model, state.theta[:, :, None], history, n)
        info, root = info._replace(root=()), info.root
        new = PerturbState(jnp.where((n > 0)[..., None], ends[:, :, 0], state.theta), n, root)

        def report(one: PerturbState, info: ChainInfo, history: Tree) -> Info:
            distance = oracle_distance(model, history, one.n, lambda: self.moments(model, one, ()))
            acceptance, least = mean_over_seen(info.acceptance, one.n), least_of_seen(info.acceptance, one.n)
            return Info.of(all_finite(one.theta, one.n), acceptance, distance=distance, least=least)

        return new, jax.vmap(report)(new, info, history)

    def spread(self, model, state) -> Thetas | Float[Array, "arms dim dim"]:
        """The sd of the perturbation, 1/√(n L γ), infinite without data, where the prior is drawn instead; or Σ^½/√γ. Where rows
        have weights, the precision of the prior is added to n L."""
        g = theory.gamma(theory.constants_of(model), state.theta.shape[-1])[:, None] if isinstance(self.gamma, str) else self.gamma
        if isinstance(state.root, Array):
            return state.root / jnp.sqrt(jnp.asarray(g)[..., None] if isinstance(self.gamma, str) else g)
        precision = state.n[:, None] * jax.vmap(lambda single, x: single.information(x))(model, state.theta)
        if jnp.issubdtype(state.n.dtype, jnp.floating):  # rows with weights, that may count for less than one reward
            precision = precision + jax.vmap(lambda single: single.prior_precision())(model)
        return 1 / jnp.sqrt(precision * g)

    @rests_on("normal")  # which says what it draws from
    def draw(self, key, model, state):
        # Only one of the two draws is ever used, so one key serves both.
        spread, xi = self.spread(model, state), _random.normal(key, state.theta.shape)
        around = state.theta + (spread * xi if spread.ndim == 2 else jnp.sum(spread * xi[:, None], -1))
        return jnp.where(state.n[:, None] > 0, around, prior_draws(key, model))

    def moments(self, model, state, obs):
        """Mean and sd of the mean reward within the batch, to first order in the perturbation."""
        mean, slope = mean_and_slope(model, state.theta, obs)
        spread = self.spread(model, state)
        along = slope * spread if spread.ndim == 2 else jnp.sum(slope[:, :, None] * spread, 1)
        return mean, jnp.linalg.norm(along, axis=-1)

    @rests_on("draw", "moments")
    def laws(self, model, state, obs) -> marginal.Marginal | None:
        """Normal laws, exact where the mean reward is linear in θ and the prior is Gaussian; None elsewhere."""
        if not model.gaussian_prior_and_linear_mean:
            return None
        mean, sd = self.moments(model, state, obs)
        arms = jnp.arange(arms_of(model))
        prior_mean, prior_sd = jax.vmap(lambda single, x, a: single.prior_mean_reward(x, a))(model, obs, arms)
        seen = state.n > 0
        return marginal.NormalLaw(jnp.where(seen, mean, prior_mean), jnp.maximum(jnp.where(seen, sd, prior_sd), marginal.LEAST_SD))

    @rests_on("draw")
    def normal(self, model, state) -> Normal | None:
        """The distributions that `draw` draws θ from, where the prior is normal too."""
        if not (model.gaussian_prior_and_linear_mean and provides(model, "init_from")):
            return None
        spread, none = self.spread(model, state), jnp.zeros(state.theta.shape[-1])
        root = spread if spread.ndim == 3 else jax.vmap(jnp.diag)(spread)
        prior = jax.vmap(lambda single: Normal(single.init_from(none), jax.jacobian(single.init_from)(none)))(model)
        seen = (state.n > 0)[:, None]
        return Normal(jnp.where(seen, state.theta, prior.mean), jnp.where(seen[..., None], root, prior.root))
