"""A pool of parallel chains: each round draws one of their ends."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp

from ... import _random, diagnosis
from ..._module import at_least, module, static
from ..._typing import Array, Bool, Float, Info, Int, Tree
from ...declared import fact
from ...history.summaries import counts_of
from ...models.drawing import arms_of, mean_rewards, prior_draws
from ...samplers.chain import Chain
from ...samplers.comparing import ChainInfo
from .base import Belief
from .diagnostics import all_finite, least_of_seen, mean_over_seen, oracle_distance, split_rhat
from .on_chain import OnChain, check_chain


class PoolState(NamedTuple):
    thetas: Float[Array, "arms size dim"]
    """Chain ends; where there are no data, what the chains will start from."""
    n: Int[Array, " arms"]


@module
class Pool(OnChain, Belief):
    """`size` parallel chains an arm; each round draws one of their ends for each arm, and adds no noise.

    One chain end is one draw that the whole batch then shares; a pool stands for the posterior itself, the more so the
    larger it is. The study `chain-end` of `blts paper` compares sizes with exact draws. An arm without data draws from its
    prior, anew each round.

    Args:
        chain: what runs at a refresh.
        size: chains an arm.

    >>> from blts import Laplace, Pool, Thompson, mala
    >>> print(Thompson(Laplace(prior_mean=[0.0, 1.0]), Pool(mala(), size=64)))
    Thompson sampling, 20 MALA steps of 0.5 times the posterior variance on all data, 64 chains an arm, whose final
    states are the draws.
    2 arms with Laplace rewards (prior mean [0, 1], prior sd 1 (×2), scale 1 (×2)), outside the paper's theory: log
    p has a kink at r = θ and is linear elsewhere, so neither m, L nor ν exists.
    """

    chain: Chain
    draws_posterior = fact("init", "empty", "remember", "refresh", "draw")
    size: int = static(default=256)

    def check(self):
        check_chain(self, self.chain)
        at_least(self, "size", 2)

    def __str__(self) -> str:
        return f"{self.chain}, {self.size} chains an arm, whose final states are the draws"

    def check_model(self, model):
        return dataclasses.replace(self, chain=self.chain.resolved(model))

    def init(self, key, model):
        keys = _random.split(key, self.size)
        start = jnp.swapaxes(jax.vmap(lambda k: prior_draws(k, model))(keys), 0, 1)
        return PoolState(start, jnp.zeros(arms_of(model), int))

    def refresh(self, keys, model, state, history):
        n = counts_of(history)
        ends, info = self.chain.run(keys, model, state.thetas, history, n)
        info = info._replace(root=())
        stuck = jax.vmap(jax.vmap(stuck_chains))(info.place, info.acceptance)
        ends = jax.vmap(jax.vmap(restarted))(ends, stuck)
        new = PoolState(jnp.where((n > 0)[..., None, None], ends, state.thetas), n)

        def report(one: PoolState, info: ChainInfo, stuck: Bool[Array, "arms size"], history: Tree) -> Info:
            rhat, ess = split_rhat(jax.vmap(without_lost)(info), stuck)
            seen = (one.n > 0)[:, None]
            values = lambda: self.values(model, one.thetas, ())  # noqa: E731
            return Info.of(
                all_finite(one.thetas, one.n),
                mean_over_seen(info.acceptance, one.n),
                jnp.min(jnp.where(seen, jnp.minimum(ess, self.size), jnp.inf)),  # only the ends are drawn from
                jnp.max(jnp.where(seen, rhat, 1.0)),
                oracle_distance(model, history, one.n, lambda: (values().mean(-1), values().std(-1))),
                stuck=jnp.max(jnp.where(one.n > 0, jnp.mean(stuck, 1), 0.0)),
                least=least_of_seen(info.acceptance, one.n),
            )

        return new, jax.vmap(report)(new, info, stuck, history)

    def draw(self, key, model, state):
        def one(key, single, thetas, n):
            # Only one of the two draws is ever used, so one key serves both.
            member = thetas[(_random.uniform(key) * self.size).astype(int)]
            return jnp.where(n > 0, member, single.init(key))

        return jax.vmap(one)(_random.split(key, arms_of(model)), model, state.thetas, state.n)

    draws_members = fact("draw", "members", "values")

    def members(self, state) -> Float[Array, "arms size dim"]:
        """What an arm with data draws from, each with the same probability."""
        return state.thetas

    def values(self, model, thetas: Float[Array, "arms size dim"], obs) -> Float[Array, "arms size"]:
        """The mean reward at every member of the pools."""
        return jax.vmap(lambda theta: mean_rewards(model, theta, obs), 1, 1)(thetas)


def stuck_chains(ends: Float[Array, "size coordinates"], acceptance: Float[Array, " size"]) -> Bool[Array, " size"]:
    """The chains of an arm that hardly moved, or that ended far from the others in what they are compared by (`ChainInfo`)."""
    finite = jnp.all(jnp.isfinite(ends), -1)
    known = jnp.where(finite[:, None], ends, jnp.nan)
    middle = jnp.nanmedian(known, 0)
    spread = jnp.nanmedian(jnp.abs(known - middle), 0) / 0.6745  # of a normal law, its sd
    far = jnp.any(jnp.abs(known - middle) > diagnosis.STUCK_SDS * spread, -1)
    return (acceptance < diagnosis.STUCK_ACCEPTANCE) | far | ~finite


def without_lost(info: ChainInfo) -> ChainInfo:
    """The moments of an arm's chains, those that are not finite replaced by those of others.

    Such a chain counts as stuck. It would also make R-hat of all others NaN, which is above no limit.
    """
    moments = jnp.concatenate([info.half_means, info.half_variances], -1)
    size, halves, _ = moments.shape
    lost = ~jnp.isfinite(moments).all((1, 2))
    means, variances = jnp.split(restarted(moments.reshape(size, -1), lost).reshape(size, halves, -1), 2, -1)
    return info._replace(half_means=means, half_variances=variances)


def restarted(ends: Float[Array, "size dim"], stuck: Bool[Array, " size"]) -> Float[Array, "size dim"]:
    """The ends, with those of stuck chains replaced by those of others: the k-th stuck one takes the k-th of the rest.

    All are kept where most are stuck: then it is not known who is right, and `Info.stuck` says so.
    """
    size = stuck.shape[0]
    others = jnp.argsort(stuck, stable=True)  # those that are not stuck come first
    kth = jnp.cumsum(stuck) - 1
    again = stuck & (2 * jnp.sum(stuck) < size)
    return jnp.where(again[:, None], ends[others[jnp.clip(kth, 0, size - 1)]], ends)
