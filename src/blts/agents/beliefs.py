"""What is frozen within a batch, and how each round draws from it: exactly, around a chain's end, or from a pool."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .. import _random, diagnosis, theory
from .._module import Contract, array, at_least, module, positive, short, static
from .._typing import Array, Bool, Float, Info, Int, Key, Numbers, PRNGKey, Row, Tree
from ..declared import default, fact, optional, provides, required, rests_on, why_lost
from ..errors import ConfigError, require_object
from ..history import Log
from ..models import marginal
from ..models.base import Conjugate, Model, draws, draws_from_marginal, marginals
from ..samplers.base import Sampler
from ..samplers.chain import Chain, ChainInfo, has_oracle, mala, remember_summary

Thetas = Float[Array, "arms dim"]


class Belief(Contract):
    """How `Thompson` holds the posterior of a model within a batch: inherit from this to write a belief.

    Everything is for all arms at once: `model` is stacked, with one more axis in front of every number, and `jax.vmap` over it
    gives one arm. A subclass is a frozen dataclass whose annotated fields are its arguments (see `module`); it must define `init`,
    `empty`, `remember`, `refresh` and `draw`.
    """

    @required
    def init(self, key: PRNGKey, model: Model) -> Tree:
        """What is believed before any reward.

        Args:
            key: for what is drawn once.
            model: of all arms.

        Returns:
            The state that `draw` draws from, any pytree of arrays.
        """
        raise NotImplementedError

    @required
    def empty(self, model: Model, row: Row, capacity: int) -> Tree:
        """A memory of no rounds, any pytree of arrays: see `Agent.empty`.

        Args:
            model: of all arms.
            row: a round of zeros, for its shapes and types.
            capacity: how many rounds there will be.

        Returns:
            The memory.
        """
        raise NotImplementedError

    @required
    def remember(self, model: Model, history: Tree, row: Row, live: Bool[Array, ""]) -> Tree:
        """Add a round to the memory: see `Agent.remember`.

        Args:
            model: of all arms.
            history: as `empty` or the last `remember` returned it.
            row: the round; `row.action` is the arm.
            live: False for a replication that waits; its memory must be returned as it is.

        Returns:
            The new memory, of the same structure, shapes and types.
        """
        raise NotImplementedError

    @required
    def refresh(self, keys: Key[Array, " block"], model: Model, state: Tree, history: Tree) -> tuple[Tree, Info]:
        """The posterior of all that is remembered, for a block of replications, in front of every array: see `Agent.observe`.

        Args:
            keys: one for each replication, of shape `(block,)`.
            model: of all arms, the same for all replications.
            state: their states so far.
            history: their memories.

        Returns:
            The new states, and an `Info` of arrays of shape `(block,)`: `Info.of(finite)`.
        """
        raise NotImplementedError

    @required
    def draw(self, key: PRNGKey, model: Model, state: Tree) -> Thetas:
        """Draw the parameters of every arm, as a round of Thompson sampling does.

        Args:
            key: the round's own.
            model: of all arms.
            state: as `init` or the last `refresh` returned it.

        Returns:
            θ of every arm, of shape `(arms, model.dim)`.
        """
        raise NotImplementedError

    def check_model(self, model: Model) -> Belief:
        """Refuse a model that it cannot hold, or take what it needs from it; called once, by `Thompson`.

        Args:
            model: of all arms.

        Returns:
            The belief that is used: by default itself.

        Raises:
            ConfigError: what the model lacks.
        """
        return self

    def incremental(self, model: Model) -> bool:
        """Whether `refresh` is a few operations an arm, so that running it every round beats waiting.

        Args:
            model: of all arms.

        Returns:
            False by default.
        """
        return False

    starts_from_prior = default(False)
    """Whether a refresh on no data leaves the state that `init` gave."""
    plain_memory = default(False)
    """Whether what is remembered is the model's summary or a log of rows: rewards can then be added many at a time."""
    draws_posterior = default(False)
    """Whether `draw` is a draw from the posterior (of a chain: as near as its chains come)."""
    draws_members = default(False)
    """Whether an arm with data draws one of `members`, each with the same probability, of the mean reward `values`."""

    def laws(self, model: Model, state: Tree, obs: Tree) -> marginal.Marginal | None:
        """The laws of the arms' mean rewards under `draw`.

        Args:
            model: of all arms.
            state: that of the batch.
            obs: the context; `()` without one.

        Returns:
            The laws, stacked over arms; None, the default, where they are not closed.
        """
        return None

    @optional
    def members(self, state: Tree) -> Float[Array, "arms size dim"]:
        """What an arm with data draws from, where `draws_members`.

        Args:
            state: that of the batch.

        Returns:
            The parameters, of shape `(arms, size, dim)`.
        """
        raise NotImplementedError

    @optional
    def values(self, model: Model, thetas: Float[Array, "arms size dim"], obs: Tree) -> Float[Array, "arms size"]:
        """The mean reward at every member.

        Args:
            model: of all arms.
            thetas: the members.
            obs: the context; `()` without one.

        Returns:
            The mean rewards, of shape `(arms, size)`.
        """
        raise NotImplementedError


def arms_of(model: Any) -> int:
    return jax.tree.leaves(model)[0].shape[0]


def prior_draws(key: PRNGKey, model: Model) -> Thetas:
    return draws(key, model, "init")


def all_finite(theta: Array, n: Int[Array, " arms"]) -> Bool[Array, ""]:
    return jnp.all(jnp.isfinite(theta).reshape(theta.shape[0], -1).all(-1) | (n == 0))


def finite_numbers(states: Tree, block: tuple[int, ...]) -> Bool[Array, " block"]:
    """Whether all numbers of each state are finite: a reward that a model cannot give may have made one that is not."""
    leaves = [x for x in jax.tree.leaves(states) if jnp.issubdtype(x.dtype, jnp.floating)]
    return functools.reduce(lambda ok, x: ok & jnp.isfinite(x).reshape(x.shape[0], -1).all(-1), leaves, jnp.ones(block, bool))


def counts_of(history: Tree) -> Int[Array, "*block arms"]:
    """How many rewards each arm has: from the log, or from a summary's count of rows."""
    return history.counts if isinstance(history, Log) else history.rows


def least_of_seen(x: Float[Array, "arms chains"], n: Int[Array, " arms"]) -> Array:
    """The smallest mean of an arm with data; 1 where there is none."""
    return jnp.min(jnp.where(n > 0, jnp.mean(x, 1), 1.0))


def mean_over_seen(x: Float[Array, "arms chains"], n: Int[Array, " arms"]) -> Array:
    return jnp.sum(jnp.mean(x, 1) * (n > 0)) / jnp.maximum(jnp.sum(n > 0), 1)


@module
class Exact(Belief):
    """Draws from the exact posterior of a conjugate model, anew each round."""

    def check_model(self, model):
        if not provides(model, Conjugate):
            why = (why_lost(model, "draw") or why_lost(model, "log_likelihood_of") or "").rstrip(".")
            raise ConfigError(
                f"Exact needs a conjugate model, and {type(model).__name__} has no closed posterior{f' ({why})' if why else ''}; "
                "leave out the belief, or use Perturb(sgld()) or Pool(mala()) (agents thompson, blts, mala-ts)."
            )
        return self

    def __str__(self) -> str:
        return "exact posterior draws each round"

    @rests_on("refresh")
    def incremental(self, model):
        return True

    starts_from_prior = fact("init")
    plain_memory = fact("empty", "remember")
    draws_posterior = fact("init", "empty", "remember", "refresh", "draw")

    def init(self, key, model):
        return self._held(model, self.empty(model, None, 0))

    def _held(self, model, summary):
        """What draws need: the law of the mean reward where they are a function of it, the summary elsewhere."""
        return marginals(model, summary, ()) if draws_from_marginal(model) else summary

    def empty(self, model, row: Row | None, capacity):
        return jax.vmap(lambda single: single.empty())(model)

    def remember(self, model, history, row, live):
        return remember_summary(model, history, row, live)

    def refresh(self, keys, model, state, history):
        state = jax.vmap(lambda summary: self._held(model, summary))(history)
        return state, Info.of(finite_numbers(state, keys.shape), distance=jnp.zeros(keys.shape))

    def draw(self, key, model, state):
        return draws(key, model, "draw", state)

    @rests_on("draw")
    def laws(self, model, state, obs) -> marginal.Marginal | None:
        """The laws of the arms' mean rewards, stacked."""
        return state if draws_from_marginal(model) else marginals(model, state, obs)


class _OnChain:
    """What beliefs that run chains share: the chain says what is remembered."""

    chain: Chain

    @property
    def plain_memory(self) -> bool:
        return self._remembers_as_chain and self.chain.plain_memory

    _remembers_as_chain = fact("empty", "remember")
    starts_from_prior = fact("init")

    def empty(self, model, row, capacity):
        return self.chain.empty(model, row, capacity)

    def remember(self, model, history, row, live):
        return self.chain.remember(model, history, row, live)


def _check_chain(belief: Any) -> None:
    where, name = f"{type(belief).__name__}: chain", type(belief.chain).__name__
    if isinstance(belief.chain, Belief):
        raise ConfigError(f"{where} must be a chain such as sgld(), ula() or mala(); {name} draws by itself: give it to Thompson.")
    if isinstance(belief.chain, Sampler):
        raise ConfigError(f"{where} must say how a kernel is run; give Chain({name}(…)), not the kernel {name} alone.")
    require_object(where, belief.chain, ("resolved", "run", "empty", "remember"), "sgld(), ula() or mala()")


class PerturbState(NamedTuple):
    theta: Thetas
    """Chain ends, θ_a^k."""
    n: Int[Array, " arms"]
    root: Any = ()
    """A square root of each arm's covariance at its mode, `[arms, dim, dim]`, where the chain looks for modes."""


@module
class Perturb(_OnChain, Belief):
    """Algorithm 2: each round draws N(θ_a^k, I/(n_a L γ)) around the chain's end; an arm without data draws its prior.

    L is the model's information at θ_a^k: the L of the theory where that exists, its local value elsewhere. Chains that look for
    the mode (`Chain.scale`) draw N(θ_a^k, Σ/γ), with the covariance Σ that the rewards and the prior have there.

    Args:
        chain: what runs at a refresh.
        gamma: γ, which narrows the draws around the chain's end; "theorem" for what the theory says.
    """

    chain: Chain
    draws_posterior = fact("init", "empty", "remember", "refresh", "draw", "spread")
    gamma: Numbers = array(default=1.0, words=("theorem",))

    def check(self):
        _check_chain(self)
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
        """The sd of the perturbation, 1/√(n L γ), infinite without data, where the prior is drawn instead; or Σ^½/√γ."""
        g = theory.gamma(theory.constants_of(model), state.theta.shape[-1])[:, None] if isinstance(self.gamma, str) else self.gamma
        if isinstance(state.root, Array):
            return state.root / jnp.sqrt(jnp.asarray(g)[..., None] if isinstance(self.gamma, str) else g)
        L = jax.vmap(lambda single, x: single.information(x))(model, state.theta)
        return 1 / jnp.sqrt(state.n[:, None] * L * g)

    def draw(self, key, model, state):
        # Only one of the two draws is ever used, so one key serves both.
        spread, xi = self.spread(model, state), _random.normal(key, state.theta.shape)
        around = state.theta + (spread * xi if spread.ndim == 2 else jnp.sum(spread * xi[:, None], -1))
        return jnp.where(state.n[:, None] > 0, around, prior_draws(key, model))

    def moments(self, model, state, obs):
        """Mean and sd of the mean reward within the batch, to first order in the perturbation."""
        arms = jnp.arange(arms_of(model))
        mean, slope = jax.vmap(lambda single, x, a: jax.value_and_grad(single.mean_reward)(x, obs, a))(model, state.theta, arms)
        spread = self.spread(model, state)
        along = slope * spread if spread.ndim == 2 else jnp.sum(slope[:, :, None] * spread, 1)
        return mean, jnp.linalg.norm(along, axis=-1)

    @rests_on("draw", "moments")
    def laws(self, model, state, obs) -> marginal.Marginal | None:
        """Normal laws, exact where the mean reward is linear in θ and the prior is Gaussian; None elsewhere."""
        if not model.gaussian_prior_and_linear_mean:
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
class Pool(_OnChain, Belief):
    """`size` parallel chains an arm; each round draws one of their ends for each arm, and adds no noise.

    One chain end is one draw that the whole batch then shares; a pool stands for the posterior itself, the more so the
    larger it is. The study `chain-end` of `blts paper` compares sizes with exact draws. An arm without data draws from its
    prior, anew each round.

    Args:
        chain: what runs at a refresh.
        size: chains an arm.
    """

    chain: Chain
    draws_posterior = fact("init", "empty", "remember", "refresh", "draw")
    size: int = static(default=256)

    def check(self):
        _check_chain(self)
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
            rhat, ess = split_rhat(info, stuck)
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
        by_arm = lambda single, xs, a: jax.vmap(lambda x: single.mean_reward(x, obs, a))(xs)  # noqa: E731
        return jax.vmap(by_arm)(model, thetas, jnp.arange(arms_of(model)))


def stuck_chains(ends: Float[Array, "size dim"], acceptance: Float[Array, " size"]) -> Bool[Array, " size"]:
    """The chains of an arm that hardly moved, or that ended far from the others."""
    finite = jnp.all(jnp.isfinite(ends), -1)
    known = jnp.where(finite[:, None], ends, jnp.nan)
    middle = jnp.nanmedian(known, 0)
    spread = jnp.nanmedian(jnp.abs(known - middle), 0) / 0.6745  # of a normal law, its sd
    far = jnp.any(jnp.abs(known - middle) > diagnosis.STUCK_SDS * spread, -1)
    return (acceptance < diagnosis.STUCK_ACCEPTANCE) | far | ~finite


def restarted(ends: Float[Array, "size dim"], stuck: Bool[Array, " size"]) -> Float[Array, "size dim"]:
    """The ends, with those of stuck chains replaced by those of others: the k-th stuck one takes the k-th of the rest.

    All are kept where most are stuck: then it is not known who is right, and `Info.stuck` says so.
    """
    size = stuck.shape[0]
    others = jnp.argsort(stuck, stable=True)  # those that are not stuck come first
    kth = jnp.cumsum(stuck) - 1
    again = stuck & (2 * jnp.sum(stuck) < size)
    return jnp.where(again[:, None], ends[others[jnp.clip(kth, 0, size - 1)]], ends)


DEFAULT_STEPS = 40
"""Of a pool by default: on the five models of tests/grids.py its regret is then within 1.1 times that of the exact posterior, up to
the standard errors that tests/test_diagnosis.py states (`make slow`)."""


def default_belief(model: Any, size: int = 256, steps: int = DEFAULT_STEPS) -> Exact | Pool:
    """The belief that is right for any model: exact draws where the posterior is known, elsewhere a pool of adjusted chains.

    Args:
        model: any model; a stacked one too.
        size: chains an arm, where there are chains.
        steps: their number at each refresh.

    Returns:
        A belief for `Thompson`.

    >>> from blts.agents.beliefs import default_belief
    >>> from blts.models import Gaussian, StudentT
    >>> default_belief(Gaussian()), default_belief(StudentT()).chain.scale
    (Exact(), 'mode')
    """
    return Exact() if provides(model, Conjugate) else Pool(mala(steps=steps, scale="mode"), size)


def split_rhat(
    info: ChainInfo, stuck: Bool[Array, "arms chains"] | None = None
) -> tuple[Float[Array, "arms dim"], Float[Array, "arms dim"]]:
    """Split R-hat over the half chains of a pool, and the effective number of draws in their last half.

    R̂ = √((W (s-1)/s + B) / W) with W the mean variance within half chains of s steps and B the variance of their
    means (Vehtari et al. 2021). The variance of the chain means, over that of a draw, gives the effective size of the
    chains that are not stuck, of which the share 1/R̂² is counted: that of the pool's variance that a chain has seen
    itself. Without it, chains that never move would count as that many independent draws.
    """
    s = info.half_steps[:, :1]  # [arms, 1]
    within = jnp.mean(info.half_variances, (1, 2))
    arms, chains, _, dim = info.half_means.shape
    between = jnp.var(info.half_means.reshape(arms, 2 * chains, dim), 1, ddof=1)
    total = within * (s - 1) / s + between
    rhat = jnp.sqrt(total / jnp.maximum(within, 1e-30))
    moving = chains if stuck is None else jnp.sum(~stuck, 1)[:, None]
    ess = moving * total / jnp.maximum(jnp.var(jnp.mean(info.half_means, 2), 1, ddof=1), 1e-30)
    return rhat, jnp.minimum(ess, 2 * moving * s) / jnp.square(jnp.maximum(rhat, 1.0))


def oracle_distance(model: Any, history: Tree, n: Int[Array, " arms"], moments: Callable[[], tuple[Array, Array]]) -> Array:
    """Largest W2 over arms with data, in posterior sds, of the Gaussians with the moments of the two laws.

    NaN where there is no closed posterior, or where it depends on a context.
    """
    if not has_oracle(model):
        return jnp.asarray(jnp.nan)
    summary = history.summary if isinstance(history, Log) else history
    exact = marginals(model, summary, ())
    if exact is None:
        return jnp.asarray(jnp.nan)
    mean, sd = moments()
    gap = jnp.square((mean - exact.mean) / exact.sd) + jnp.square(sd / exact.sd - 1)
    return jnp.sqrt(jnp.max(jnp.where(n > 0, gap, 0.0)))
