"""What decides, without a database: decisions from a frozen state.

Keys come from indices exactly as in the simulation: with k = fold_in(key(seed), 0), decision t acts with k's key for
acting in round t, and a refresh after t decisions learns with that for learning.
Fed a simulation's rewards, with its prior, this makes a simulation's decisions.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .. import _random
from .._module import module, static
from .._typing import Array, Bool, Float, Int, Played, PRNGKey, Tree
from ..agents import Agent
from ..batching import Batching
from ..contexts import Context
from ..decision import Clock, decide
from ..declared import provides, why_lost
from ..errors import ConfigError
from ..models import Model

LAST = 2**32 - 1  # no decision has this index: what folds it in has a key of its own
SIZES = (16, 64, 256, 4096, 16384)  # decisions of a compiled chunk: few, because compiling one takes seconds


class Never(Batching):
    """The batching of somebody else: no decision closes a batch."""

    def init(self, key: PRNGKey, actions: int) -> Tree:
        return ()

    def step(self, state: Tree, obs: Tree, action: Array) -> tuple[Tree, Array]:
        return state, jnp.zeros((), bool)


@module
class Mixture:
    """What is mixed into the agent's own choice, so that no arm starves."""

    added: Float[Array, " arms"]
    """Probability that each arm has whatever the agent says: its floor, and the control's share."""
    burn_in: Int[Array, ""]
    """Units that every arm has first. While some lack them, each of those takes 1/arms of what the agent has."""
    floors_first: bool = static(default=True)
    """Whether floors hold during burn-in too. Experiments of earlier code go on without: there burn-in took its part first."""


class Frozen(NamedTuple):
    """A policy version as decisions need it."""

    state: Tree
    law: Float[Array, " arms"]
    """The agent's propensities, where they are the same for the whole batch."""
    by_law: Bool[Array, ""]
    """Whether arms are drawn from `law` itself, because the agent's own choice has no exact propensities."""


class Built(NamedTuple):
    """The objects that decide among the active arms."""

    model: Model
    agent: Agent
    batching: Batching
    mixture: Mixture
    obs: Tree = ()
    """What a decision is shown, for shapes and types; nothing without features."""


class Decided(NamedTuple):
    arms: Int[Array, " size"]
    propensities: Float[Array, "size arms"]
    live: Bool[Array, " size"]
    """False for the padding, and where `strict` after the end of the batch."""
    closes: Bool[Array, " size"]
    """Whether the batching scheme closed the batch with this decision."""


_replication = jax.jit(lambda key: _random.fold_in(key, 0))


def root_key(seed: int) -> PRNGKey:
    """The key that all others are folded from: that of replication 0."""
    return _replication(_random.as_key(seed))


@jax.jit
def start(key: PRNGKey, agent: Agent) -> Tree:
    return agent.init(_random.split(_random.fold_in(key, 0))[1])


@partial(jax.jit, static_argnames=("arms",))
def start_clock(key: PRNGKey, batching: Batching, arms: int) -> Clock:
    state = batching.init(_random.fold_in(key, LAST), arms)
    return Clock(jnp.zeros((), int), jnp.zeros(arms, int), state, jnp.zeros((), bool))


def check_agent(agent: Agent, name: str) -> None:
    if not provides(agent, "propensities") and not provides(agent, "propensities_at"):
        lost = why_lost(agent, "propensities") or why_lost(agent, "propensities_at")
        raise ConfigError(f"{name} does not say with which probability it plays each arm; {lost or 'use one of the named agents.'}")
    if agent.observes_first:
        raise ConfigError(f"{name} plans in an MDP and cannot run an experiment; use blts, exact-ts or another bandit agent.")


def is_fixed(agent: Agent) -> bool:
    """Whether the propensities are one vector for the whole batch, whatever a decision is shown but for its mask."""
    return provides(agent, "propensities") and not (agent.model is not None and agent.model.contextual)


def has_exact_law(agent: Agent, state: Tree, obs: Tree = ()) -> bool:
    """Whether `propensities` is exact up to quadrature, rather than estimated from draws, whatever the context.

    Of a shared normal θ the error differs between contexts, and is not known before a decision is made.
    """
    by_member = agent.belief is not None and agent.belief.draws_members
    return (by_member or not agent.shared) and agent.propensities_are_exact(state, obs)


_propensities = jax.jit(lambda agent, state: agent.propensities(state))


def propensities_of(agent: Agent, state: Tree) -> Float[Array, " arms"]:
    """The propensities of a state, of an agent that has one vector for the whole batch."""
    return _propensities(agent, state)


def freeze(agent: Agent, state: Tree, draw: str, obs: Tree = ()) -> Frozen:
    """A state with its propensities, where they are one vector.

    Args:
        agent: who decides.
        state: its state.
        draw: who chooses: "agent", "vector", or "auto" for the one that is exact.
        obs: what a decision is shown, for shapes and types.

    Returns:
        The policy version.
    """
    by_law = jnp.asarray(draws_from_law(agent, state, draw, obs))
    return Frozen(state, propensities_of(agent, state) if is_fixed(agent) else jnp.full(agent.actions, jnp.nan), by_law)


def draws_from_law(agent: Agent, state: Tree, draw: str, obs: Tree = ()) -> bool:
    """Whether arms are drawn from the propensities rather than chosen by the agent; the arguments are those of `freeze`."""
    if not provides(agent, "propensities"):
        return False
    return draw == "vector" or (draw == "auto" and not has_exact_law(agent, state, obs))


# Decisions


def chunk_size(n: int) -> int:
    """The compiled size that holds n decisions; more than the largest are decided in several."""
    return next((size for size in SIZES if size >= n), SIZES[-1])


def decide_many(
    key: PRNGKey,
    agent: Agent,
    batching: Batching,
    frozen: Frozen,
    clock: Clock,
    mixture: Mixture,
    limit: int,
    obs: Tree = (),
    *,
    size: int,
    strict: bool,
) -> tuple[Clock, Decided]:
    """Up to `limit` decisions.

    Args:
        key: the experiment's.
        agent: who decides.
        batching: when batches close.
        frozen: the policy version in use.
        clock: after the last decision.
        mixture: floors and burn-in.
        limit: how many decisions are wanted.
        obs: what they are shown, `[size, …]`; nothing without contexts.
        size: the compiled size (`chunk_size`).
        strict: make none after the end of the batch.

    Returns:
        The clock after them, and the decisions.
    """
    options = {"size": size, "by_law": bool(frozen.by_law)}
    return _decide_many(key, agent, batching, frozen, clock, mixture, np.int32(limit), np.bool_(strict), obs, **options)


def decide_for_many(
    keys: PRNGKey,
    agent: Agent,
    batching: Batching,
    frozen: Frozen,
    clocks: Clock,
    mixture: Mixture,
    limits: Int[Array, " experiments"],
    *,
    size: int,
    strict: bool,
    by_law: bool,
) -> tuple[Clock, Decided]:
    """`decide_many` for several experiments of one specification: all but batching and mixture have an axis more in front.

    `by_law` is taken for all of them, whatever their versions say.
    """
    return _decide_for_many(keys, agent, batching, frozen, clocks, mixture, limits, np.bool_(strict), size=size, by_law=by_law)


@partial(jax.jit, static_argnames=("size", "by_law"))
def _decide_for_many(keys, agent, batching, frozen, clocks, mixture, limits, strict, *, size: int, by_law: bool):
    one = lambda key, agent, version, clock, limit: _decide_many(  # noqa: E731
        key, agent, batching, version, clock, mixture, limit, strict, size=size, by_law=by_law
    )
    return jax.vmap(one)(keys, agent, frozen, clocks, limits)


_propensities_of_many = jax.jit(jax.vmap(lambda agent, state: agent.propensities(state)))


def propensities_of_many(agents: Agent, states: Tree) -> Float[Array, "experiments arms"]:
    """The propensities of several states, each of its agent, which has one vector for the whole batch."""
    return _propensities_of_many(agents, states)


@partial(jax.jit, static_argnames=("size", "by_law"))
def _decide_many(
    key, agent, batching, frozen: Frozen, clock: Clock, mixture: Mixture, limit, strict, obs: Tree = (), *, size: int, by_law: bool
):
    ts = clock.t + 1 + jnp.arange(size)
    keys = jax.vmap(lambda t: _random.round_key(key, _random.Round.of(t), _random.ACT))(ts)
    contextual = len(jax.tree.leaves(obs)) > 0
    fixed = is_fixed(agent) and not contextual
    act = jax.vmap(lambda k, t: agent.act(k, frozen.state, (), Played(t, clock.plays)))
    # Where nothing depends on the decisions before, all are drawn at once; and where arms are drawn from the law, the agent
    # is not asked: a model without a closed law takes many seconds to compile.
    own = act(keys, ts) if fixed and not by_law else ts
    # An agent splits its key into as many as it has arms; the last index is none of them.
    coins = jax.vmap(lambda k: _random.uniform(_random.fold_in(k, LAST), (2,)))(keys)

    def step(clock: Clock, x):
        t, k, arm, coin, inside, seen = x
        live = inside & ~(clock.due & strict)

        def choose(played: Played) -> tuple[Array, Array]:
            if contextual:  # here and not for all at once, so that every size of a chunk computes the same bits
                own, law = _shown(k, agent, frozen.state, seen, played, coin[1], by_law=by_law)
                return mix(coin, own, law, mixture, played.counts, seen.available)
            if fixed:
                own, law = arm, frozen.law
            else:
                own, law = agent.act(k, frozen.state, (), played), agent.propensities_at(frozen.state, (), played)
            return mix(coin, pick(coin[1], law) if by_law else own, law, mixture, played.counts)

        after, arm, law = decide(choose, batching, clock, t, seen, live)
        return after._replace(due=clock.due | after.due), Decided(arm, law, live, after.due)

    return lax.scan(step, clock, (ts, keys, own, coins, jnp.arange(size) < limit, obs))


def _shown(key, agent: Agent, state: Tree, seen: Context, played: Played, coin: Array, *, by_law: bool) -> tuple[Array, Array]:
    """The agent's choice and its propensities, of a decision with a context. Where an agent does not know of masks, a choice that
    is not available is drawn again from its propensities of the arms that are, or if these are zero from all of them."""
    law = agent.propensities(state, seen) if provides(agent, "propensities") else agent.propensities_at(state, seen, played)
    law = jnp.where(seen.available, law, 0.0)
    law = jnp.where(jnp.sum(law) > 0, law, jnp.where(seen.available, 1.0, 0.0))
    law = law / jnp.sum(law)
    if by_law:
        return pick(coin, law), law
    own = agent.act(key, state, seen, played)
    return jnp.where(seen.available[own], own, pick(coin, law)), law


def mix(
    coin: Float[Array, " 2"], arm: Array, law: Array, mixture: Mixture, plays: Array, available: Bool[Array, " arms"] | None = None
) -> tuple[Array, Array]:
    """The arm played and its propensities: every arm's floor, then burn-in, then the agent.

    Args:
        coin: two uniform numbers: one for who chooses, one for which arm.
        arm: the agent's choice.
        law: its propensities.
        mixture: what is mixed in.
        plays: of each arm so far.
        available: which arms can be played; None where all can. What is mixed in for the others is left to the agent.

    Returns:
        The arm, and the probability that each had.
    """
    arms = plays.shape[0]
    lacking = jnp.where(plays < mixture.burn_in, 1.0, 0.0)
    if available is not None:
        lacking = jnp.where(available, lacking, 0.0)
        mixture = Mixture(jnp.where(available, mixture.added, 0.0), mixture.burn_in, mixture.floors_first)
    burning = jnp.sum(lacking) / arms
    added = jnp.sum(mixture.added)
    which, within = coin
    if mixture.floors_first:
        arm = jnp.where(which < added + (1 - added) * burning, pick(within, lacking), arm)
        arm = jnp.where(which < added, pick(within, mixture.added), arm)
        return arm, mixture.added + (1 - added) * (lacking / arms + (1 - burning) * law)
    arm = jnp.where(which < burning + (1 - burning) * added, pick(within, mixture.added), arm)
    arm = jnp.where(which < burning, pick(within, lacking), arm)
    return arm, lacking / arms + (1 - burning) * (mixture.added + (1 - added) * law)


def pick(u: Array, weights: Array) -> Array:
    """The arm that u ∈ [0, 1) falls on; one without weight is never picked."""
    total = jnp.cumsum(weights)
    last = weights.shape[0] - 1 - jnp.argmax((weights > 0)[::-1])  # where rounding carries u beyond the end
    return jnp.minimum(jnp.sum(u * total[-1] >= total), last)
