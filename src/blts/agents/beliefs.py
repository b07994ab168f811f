"""What is frozen within a batch, and how each round draws from it: exactly, around a chain's end, or from a pool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp

from .. import _random, theory
from .._module import array, at_least, module, positive, short, static
from .._typing import Array, Bool, Float, Info, Int, Key, Numbers, PRNGKey, Row, Tree
from ..errors import ConfigError
from ..history import Log
from ..models import marginal
from ..models.base import Conjugate, Model, draws
from ..samplers.chain import Chain, ChainInfo, has_oracle, remember_summary

Thetas = Float[Array, "arms dim"]


class Belief(Protocol):
    """How a stacked model's posterior is represented between refreshes."""

    def check_model(self, model: Model) -> Any: ...
    def incremental(self, model: Model) -> bool: ...
    def init(self, key: PRNGKey, model: Model) -> Tree: ...
    def empty(self, model: Model, row: Row, capacity: int) -> Tree: ...
    def remember(self, model: Model, history: Tree, row: Row, live: Bool[Array, ""]) -> Tree: ...
    def refresh(self, keys: Key[Array, " block"], model: Model, state: Tree, history: Tree) -> tuple[Tree, Info]:
        """For a block of replications, in front of every array."""
        ...

    def draw(self, key: PRNGKey, model: Model, state: Tree) -> Thetas: ...


def arms_of(model: Any) -> int:
    return jax.tree.leaves(model)[0].shape[0]


def prior_draws(key: PRNGKey, model: Model) -> Thetas:
    return draws(key, model, "init")


def all_finite(theta: Array, n: Int[Array, " arms"]) -> Bool[Array, ""]:
    return jnp.all(jnp.isfinite(theta).reshape(theta.shape[0], -1).all(-1) | (n == 0))


def counts_of(history: Tree) -> Int[Array, "*block arms"]:
    """How many rewards each arm has: from the log, or from a summary's count of rows."""
    return history.counts if isinstance(history, Log) else history.rows


def mean_over_seen(x: Float[Array, "arms chains"], n: Int[Array, " arms"]) -> Array:
    return jnp.sum(jnp.mean(x, 1) * (n > 0)) / jnp.maximum(jnp.sum(n > 0), 1)


@module
class Exact:
    """Draws from the exact posterior of a conjugate model, anew each round."""

    def check_model(self, model):
        if not isinstance(model, Conjugate):
            raise ConfigError(
                f"Exact needs a conjugate model, and {type(model).__name__} has no closed posterior; "
                "use Perturb(sgld()) or Pool(mala()) (agents blts, mala-ts)."
            )
        return self

    def __str__(self) -> str:
        return "exact posterior draws each round"

    def incremental(self, model):
        return True

    def init(self, key, model):
        return self._held(model, self.empty(model, None, 0))

    def _held(self, model, summary):
        """What draws need: the law of the mean reward where they are a function of it, the summary elsewhere."""
        return self._marginals(model, summary, ()) if hasattr(model, "draw_from") else summary

    def _marginals(self, model, summary, obs) -> marginal.Marginal | None:
        return jax.vmap(lambda single, s, a: single.marginal(s, obs, a))(model, summary, jnp.arange(arms_of(model)))

    def empty(self, model, row, capacity):
        return jax.vmap(lambda single: single.empty())(model)

    def remember(self, model, history, row, live):
        return remember_summary(model, history, row, live)

    def refresh(self, keys, model, state, history):
        state = jax.vmap(lambda summary: self._held(model, summary))(history)
        return state, Info.of(jnp.ones(keys.shape, bool), distance=jnp.zeros(keys.shape))

    def draw(self, key, model, state):
        return draws(key, model, "draw", state)

    def laws(self, model, state, obs) -> marginal.Marginal | None:
        """The laws of the arms' mean rewards, stacked."""
        return state if hasattr(model, "draw_from") else self._marginals(model, state, obs)


class PerturbState(NamedTuple):
    theta: Thetas
    """Chain ends, θ_a^k."""
    n: Int[Array, " arms"]


@module
class Perturb:
    """Algorithm 2: each round draws N(θ_a^k, I/(n_a L γ)) around the chain's end; an arm without data draws its prior.

    L is the model's information at θ_a^k: the L of the theory where that exists, its local value elsewhere.
    """

    chain: Chain
    gamma: Numbers = array(default=1.0, words=("theorem",))

    def check(self):
        positive(self, "gamma")

    def __str__(self) -> str:
        return f"{self.chain}, each round drawing around the chain's end with γ = {short(self.gamma)}"

    def check_model(self, model):
        if self.gamma == "theorem":
            theory.constants_of(model)
        return Perturb(self.chain.resolved(model), self.gamma)

    def incremental(self, model):
        return False

    def init(self, key, model):
        return PerturbState(prior_draws(key, model), jnp.zeros(arms_of(model), int))

    def empty(self, model, row, capacity):
        return self.chain.empty(model, row, capacity)

    def remember(self, model, history, row, live):
        return self.chain.remember(model, history, row, live)

    def refresh(self, keys, model, state, history):
        n = counts_of(history)
        ends, info = self.chain.run(keys, model, state.theta[:, :, None], history, n)
        new = PerturbState(jnp.where((n > 0)[..., None], ends[:, :, 0], state.theta), n)

        def report(one: PerturbState, info: ChainInfo, history: Tree) -> Info:
            distance = oracle_distance(model, history, one.n, lambda: self.moments(model, one, ()))
            return Info.of(all_finite(one.theta, one.n), mean_over_seen(info.acceptance, one.n), distance=distance)

        return new, jax.vmap(report)(new, info, history)

    def spread(self, model, state) -> Thetas:
        """The sd of the perturbation, 1/√(n L γ); infinite without data, where the prior is drawn instead."""
        L = jax.vmap(lambda single, x: single.information(x))(model, state.theta)
        g = theory.gamma(theory.constants_of(model), state.theta.shape[-1])[:, None] if isinstance(self.gamma, str) else self.gamma
        return 1 / jnp.sqrt(state.n[:, None] * L * g)

    def draw(self, key, model, state):
        # Only one of the two draws is ever used, so one key serves both.
        around = state.theta + self.spread(model, state) * _random.normal(key, state.theta.shape)
        return jnp.where(state.n[:, None] > 0, around, prior_draws(key, model))

    def moments(self, model, state, obs):
        """Mean and sd of the mean reward within the batch, to first order in the perturbation."""
        arms = jnp.arange(arms_of(model))
        mean, slope = jax.vmap(lambda single, x, a: jax.value_and_grad(single.mean_reward)(x, obs, a))(model, state.theta, arms)
        return mean, jnp.linalg.norm(slope * self.spread(model, state), axis=-1)

    def laws(self, model, state, obs) -> marginal.Marginal | None:
        """Normal laws, exact where the mean reward is linear in θ and the prior is Gaussian; None elsewhere."""
        if not getattr(model, "gaussian_prior_and_linear_mean", False):
            return None
        mean, sd = self.moments(model, state, obs)
        prior_mean, prior_sd = jax.vmap(lambda single, a: single.prior_mean_reward(obs, a))(model, jnp.arange(arms_of(model)))
        seen = state.n > 0
        return marginal.NormalLaw(jnp.where(seen, mean, prior_mean), jnp.where(seen, sd, prior_sd))


class PoolState(NamedTuple):
    thetas: Float[Array, "arms size dim"]
    """Chain ends; where there are no data, what the chains will start from."""
    n: Int[Array, " arms"]


@module
class Pool:
    """`size` parallel chains an arm; each round draws one of their ends for each arm, and adds no noise.

    One chain end is one draw that the whole batch then shares; a pool stands for the posterior itself, the more so the
    larger it is. The study `chain-end` of `blts paper` compares sizes with exact draws. An arm without data draws from its
    prior, anew each round.
    """

    chain: Chain
    size: int = static(default=256)

    def check(self):
        at_least(self, "size", 2)

    def __str__(self) -> str:
        return f"{self.chain}, {self.size} chains an arm, each round drawing one of their ends"

    def check_model(self, model):
        return Pool(self.chain.resolved(model), self.size)

    def incremental(self, model):
        return False

    def init(self, key, model):
        keys = _random.split(key, self.size)
        start = jnp.swapaxes(jax.vmap(lambda k: prior_draws(k, model))(keys), 0, 1)
        return PoolState(start, jnp.zeros(arms_of(model), int))

    def empty(self, model, row, capacity):
        return self.chain.empty(model, row, capacity)

    def remember(self, model, history, row, live):
        return self.chain.remember(model, history, row, live)

    def refresh(self, keys, model, state, history):
        n = counts_of(history)
        ends, info = self.chain.run(keys, model, state.thetas, history, n)
        new = PoolState(jnp.where((n > 0)[..., None, None], ends, state.thetas), n)

        def report(one: PoolState, info: ChainInfo, history: Tree) -> Info:
            rhat, ess = split_rhat(info)
            seen = (one.n > 0)[:, None]
            values = lambda: self.values(model, one.thetas, ())  # noqa: E731
            return Info.of(
                all_finite(one.thetas, one.n),
                mean_over_seen(info.acceptance, one.n),
                jnp.min(jnp.where(seen, ess, jnp.inf)),
                jnp.max(jnp.where(seen, rhat, 1.0)),
                oracle_distance(model, history, one.n, lambda: (values().mean(-1), values().std(-1))),
            )

        return new, jax.vmap(report)(new, info, history)

    def draw(self, key, model, state):
        def one(key, single, thetas, n):
            # Only one of the two draws is ever used, so one key serves both.
            member = thetas[(_random.uniform(key) * self.size).astype(int)]
            return jnp.where(n > 0, member, single.init(key))

        return jax.vmap(one)(_random.split(key, arms_of(model)), model, state.thetas, state.n)

    def values(self, model, thetas: Float[Array, "arms size dim"], obs) -> Float[Array, "arms size"]:
        """The mean reward at every member of the pools."""
        by_arm = lambda single, xs, a: jax.vmap(lambda x: single.mean_reward(x, obs, a))(xs)  # noqa: E731
        return jax.vmap(by_arm)(model, thetas, jnp.arange(arms_of(model)))


def split_rhat(info: ChainInfo) -> tuple[Float[Array, "arms dim"], Float[Array, "arms dim"]]:
    """Split R-hat over the half chains of a pool, and the effective number of draws in their last half.

    R̂ = √((W (s-1)/s + B) / W) with W the mean variance within half chains of s steps and B the variance of their
    means (Vehtari et al. 2021). The variance of the chain means, over that of a draw, gives the effective size.
    """
    s = info.half_steps[:, :1]  # [arms, 1]
    within = jnp.mean(info.half_variances, (1, 2))
    arms, chains, _, dim = info.half_means.shape
    between = jnp.var(info.half_means.reshape(arms, 2 * chains, dim), 1, ddof=1)
    total = within * (s - 1) / s + between
    ess = chains * total / jnp.maximum(jnp.var(jnp.mean(info.half_means, 2), 1, ddof=1), 1e-30)
    return jnp.sqrt(total / jnp.maximum(within, 1e-30)), jnp.minimum(ess, 2 * chains * s)


def oracle_distance(model: Any, history: Tree, n: Int[Array, " arms"], moments: Callable[[], tuple[Array, Array]]) -> Array:
    """Largest W2 over arms with data, in posterior sds, of the Gaussians with the moments of the two laws.

    NaN where there is no closed posterior, or where it depends on a context.
    """
    if not has_oracle(model):
        return jnp.asarray(jnp.nan)
    summary = history.summary if isinstance(history, Log) else history
    exact = jax.vmap(lambda single, s, a: single.marginal(s, (), a))(model, summary, jnp.arange(arms_of(model)))
    if exact is None:
        return jnp.asarray(jnp.nan)
    mean, sd = moments()
    gap = jnp.square((mean - exact.mean) / exact.sd) + jnp.square(sd / exact.sd - 1)
    return jnp.sqrt(jnp.max(jnp.where(n > 0, gap, 0.0)))
