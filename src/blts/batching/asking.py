"""When several agents exchange what they know: rules that an agent can follow without knowing what the others did since.

A rule counts each agent's own plays since the last exchange and the plays that all agents know of. It is asked at the end of each
round, when every agent present has played once.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax.numpy as jnp

from .. import theory
from .._module import Contract, module, require_part
from .._typing import Array, Bool, Int, PRNGKey, Tree
from ..arrays import pick, where
from ..declared import default, fact, provides, required, rests_on
from ..errors import ConfigError
from .base import Batching
from .determinant import Determinant


class Asking(Contract):
    """A rule of `Exchanges`: inherit from this to write one.

    A subclass is a frozen dataclass (see `module`); it must define `init`, `play` and `end_round`.

    >>> from blts import PlaysDoubled
    >>> from blts.batching import Asking
    >>> isinstance(PlaysDoubled(), Asking)
    True
    """

    by_rounds = default(False)
    """Whether exchanges depend on the number of rounds alone, and not on what is played."""

    @required
    def init(self, key: PRNGKey, agents: int, actions: int) -> Tree:
        """Begin a replication.

        Args:
            key: for random rules.
            agents: how many agents there are, present or not.
            actions: how many actions there are.

        Returns:
            The rule's state, any pytree of arrays.
        """
        raise NotImplementedError

    @required
    def play(self, state: Tree, agent: Int[Array, ""], obs: Tree, action: Int[Array, ""]) -> Tree:
        """Count one play.

        Args:
            state: as `init`, `play` or `end_round` returned it.
            agent: who played.
            obs: the observation before the action.
            action: what was played.

        Returns:
            The new state.
        """
        raise NotImplementedError

    @required
    def end_round(self, state: Tree) -> tuple[Tree, Bool[Array, ""]]:
        """Decide whether all agents exchange now.

        Args:
            state: after the plays of a round.

        Returns:
            The state after the exchange, if there is one, and whether there is one.
        """
        raise NotImplementedError

    def max_exchanges(self, rounds: int, plays: int, agents: int, actions: int) -> int:
        """An upper bound on the number of exchanges.

        Args:
            rounds: how many rounds there are at most.
            plays: how many plays, of all agents together.
            agents: how many agents.
            actions: how many actions.

        Returns:
            The bound, which must not decrease with the rounds; by default one exchange a round.
        """
        del plays, agents, actions
        return rounds


@module
class Clocked(Asking):
    """An exchange after the rounds with which a batch of one agent would end: `Sequential`, `Fixed`, `StaticDoubling`, `Grid`.

    Args:
        scheme: a batching scheme that depends on the round alone.

    >>> from blts.batching import Clocked, Exchanges, Fixed
    >>> print(Exchanges(10, Clocked(Fixed(65))))
    10 agents exchange what they know every 65 rounds.
    """

    scheme: Batching
    by_rounds = fact("init", "play", "end_round")

    def check(self):
        require_part("Clocked: scheme", self.scheme, Batching, "Fixed(10)")
        if not self.scheme.by_rounds:
            raise ConfigError(
                f"Exchanges: the batches of {type(self.scheme).__name__} depend on plays, and no agent knows those of others "
                "before they are exchanged; use PlaysDoubled(), a Determinant, or a scheme of rounds such as Fixed(10)."
            )

    def __str__(self) -> str:
        return str(self.scheme).removeprefix("Rewards are seen ").removesuffix(".")

    def init(self, key, agents, actions):
        return self.scheme.init(key, actions)

    def play(self, state, agent, obs, action):
        return state

    def end_round(self, state):
        return self.scheme.step(state, (), jnp.zeros((), int))

    @rests_on("init", "end_round")
    def max_exchanges(self, rounds, plays, agents, actions):
        return self.scheme.max_batches(rounds, actions)


class Plays(NamedTuple):
    """The state of `PlaysDoubled`."""

    common: Int[Array, " actions"]
    """Plays of each action that all agents know of."""
    own: Int[Array, "agents actions"]
    """Each agent's plays since the last exchange."""


@module
class PlaysDoubled(Asking):
    """An agent asks for an exchange when its own new plays of an arm reach max(1, common plays of the arm / agents).

    It assumes that the others play as it does. Until somebody asks, the plays of an arm at most double, as in Algorithm 2.

    >>> from blts.batching import Exchanges, PlaysDoubled
    >>> print(Exchanges(10, PlaysDoubled()))
    10 agents exchange what they know when an agent's new plays of an arm reach the common plays divided by 10.
    """

    def __str__(self) -> str:
        return "when an agent's new plays of an arm reach the common plays divided by {agents}"

    def init(self, key, agents, actions):
        return Plays(jnp.zeros(actions, int), jnp.zeros((agents, actions), int))

    def play(self, state, agent, obs, action):
        agents, actions = state.own.shape
        mine = (jnp.arange(agents) == agent)[:, None] & (jnp.arange(actions) == action)
        return Plays(state.common, state.own + mine)

    def end_round(self, state):
        agents = state.own.shape[0]
        most = jnp.max(state.own, 0)
        due = jnp.any(most >= jnp.maximum(1, -(-state.common // agents)))
        after = Plays(state.common + jnp.sum(state.own, 0), jnp.zeros_like(state.own))
        return where(due, after, state), due

    @rests_on("init", "play", "end_round")
    def max_exchanges(self, rounds, plays, agents, actions):
        # After an arm's k-th exchange it has at least c_k common plays, c_0 = 0, c_{k+1} = c_k + max(1, ⌈c_k/agents⌉).
        known = [0]

        def cost(level: int) -> int:
            while len(known) <= level + 1:
                known.append(known[-1] + max(1, -(-known[-1] // agents)))
            return known[level + 1] - known[level]

        return min(rounds, theory.max_closings(actions, plays, cost))


class Precisions(NamedTuple):
    """The state of `PrecisionGrown`."""

    common: Any
    """Of a `Determinant` that saw all plays."""
    own: Any
    """Of one an agent, stacked: it saw what was common at the last exchange, and then its own plays as if all had made them."""
    asked: Bool[Array, ""]


@module
class PrecisionGrown(Asking):
    """An agent asks for an exchange when det(V + agents · ΔV) exceeds `factor` · det V, for contexts.

    V is the precision of θ after the plays that all know of, ΔV what the agent's own new plays add to it. The agent assumes that
    the others play as it does; with one agent this is `Determinant`. Until somebody asks, agents · ΔV ≤ (factor - 1) V for each of
    them, so the posterior variance of no mean reward shrinks by more than `factor`, whatever the others play.

    Args:
        determinant: the scheme of one agent, such as `Determinant.of(agent)`.

    >>> from blts import Linear, Thompson
    >>> from blts.batching import Determinant, Exchanges, PrecisionGrown
    >>> agent = Thompson(Linear(prior_mean=[0.0, 0.0], sd=0.5), arms=3)
    >>> print(Exchanges(10, PrecisionGrown(Determinant.of(agent))))
    10 agents exchange what they know when an agent finds that the determinant of the precision of θ has grown by more than a factor
    of 2 if all play as it does.
    """

    determinant: Determinant

    def check(self):
        require_part("PrecisionGrown: determinant", self.determinant, Determinant, "Determinant.of(agent)")

    def __str__(self) -> str:
        said = str(self.determinant).removeprefix("Rewards are seen when ").removesuffix(".")
        return f"when an agent finds that {said} if all play as it does"

    def init(self, key, agents, actions):
        common = self.determinant.init(key, actions)
        own = _stacked(common, agents)
        return Precisions(common, own, jnp.zeros((), bool))

    def play(self, state, agent, obs, action):
        agents = state.own.growth.shape[0]
        common, _ = self.determinant.step(state.common, obs, action)
        alike = dataclasses.replace(self.determinant, weight=agents * self.determinant.weight)
        mine, asks = alike.step(type(state.own)(*(pick(part, agent) for part in state.own)), obs, action)
        who = jnp.arange(agents) == agent
        put = lambda new, old: jnp.where(who.reshape(-1, *[1] * new.ndim), new, old)  # noqa: E731
        own = type(state.own)(*(put(new, old) for new, old in zip(mine, state.own, strict=True)))
        return Precisions(common, own, state.asked | asks)

    def end_round(self, state):
        agents = state.own.growth.shape[0]
        fresh = state.common._replace(growth=jnp.zeros_like(state.common.growth))
        after = Precisions(fresh, _stacked(fresh, agents), jnp.zeros((), bool))
        return where(state.asked, after, state), state.asked

    @rests_on("init", "play", "end_round")
    def max_exchanges(self, rounds, plays, agents, actions):
        # det(V + ΔV)^agents ≥ det(V + agents ΔV) det(V)^(agents - 1), as log det is concave: an exchange multiplies det V by more
        # than the agents' root of `factor`.
        return min(rounds, agents * (self.determinant.max_batches(plays, actions) + 1))


def _stacked(state: Any, agents: int) -> Any:
    return type(state)(*(jnp.broadcast_to(part, (agents, *part.shape)) for part in state))


def rule_of(when: Any) -> Asking:
    """The rule that an argument of `Exchanges` names: a rule, a scheme of rounds, or a `Determinant`.

    Args:
        when: what was given.

    Returns:
        The rule.

    Raises:
        ConfigError: it is none of these.
    """
    if isinstance(when, Determinant):
        return PrecisionGrown(when)
    if isinstance(when, Batching):
        return Clocked(when)
    if isinstance(when, Asking) and provides(when, "init", "play", "end_round"):
        return when
    known = "a rule such as PlaysDoubled(), a Determinant, or a scheme of rounds such as Fixed(10)"
    raise ConfigError(f"Exchanges: when must be {known}; got {when!r}.")
