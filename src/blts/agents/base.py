"""What an agent is: it acts every round from a frozen state, and learns once a batch from what it remembered."""

from __future__ import annotations

import jax.numpy as jnp

from .._module import Contract
from .._typing import Array, Bool, Float, Info, Int, Key, Played, PRNGKey, Row, Tree
from ..declared import attribute, default, optional, required
from ..lanes import on_cpu
from ..models.marginal import Marginal
from ..record import Conclusion


class Agent(Contract):
    """What acts and learns: inherit from this to write an agent.

    Within a batch its state is frozen: `act` is called every round and sees no reward, `remember` collects rounds, and when the
    batch closes `observe` makes a new state of all that is remembered. Methods are written in JAX: `simulate` compiles them, and
    maps all but `observe` over replications. A subclass is a frozen dataclass whose annotated fields are its arguments (see
    `module`); it must define `actions`, `init`, `act`, `empty`, `remember` and `observe`. With `propensities` or `propensities_at`
    it can also run a live experiment.

    >>> import jax.numpy as jnp
    >>> from blts import Agent, Info, random
    >>> class Greedy(Agent):
    ...     actions: int
    ...
    ...     def init(self, key):
    ...         return random.uniform(key, (self.actions,))  # the values of the arms: any, at first
    ...
    ...     def act(self, key, state, obs, played):
    ...         return jnp.argmax(state)
    ...
    ...     def empty(self, row, capacity):
    ...         return jnp.zeros((2, self.actions))  # sums of rewards, and counts
    ...
    ...     def remember(self, history, row, live):
    ...         return history.at[:, row.action].add(jnp.where(live, jnp.stack([row.reward, 1.0]), 0.0))
    ...
    ...     def observe(self, keys, states, histories):
    ...         sums, counts = histories[:, 0], histories[:, 1]
    ...         return jnp.where(counts > 0, sums / counts, states), Info.of(jnp.isfinite(sums).all(1))
    >>> Greedy(3).actions
    3
    """

    actions = attribute("How many actions it plays, a whole number: as many as the environment has. A field or a property.")

    @required
    def init(self, key: PRNGKey) -> Tree:
        """Begin a replication.

        Args:
            key: for what is drawn once.

        Returns:
            The state that `act` acts on, any pytree of arrays.
        """
        raise NotImplementedError

    @required
    def act(self, key: PRNGKey, state: Tree, obs: Tree, played: Played) -> Int[Array, ""]:
        """Choose this round's action. It is called every round, so it is to be cheap.

        Args:
            key: this round's own.
            state: as `init` or the last `observe` returned it.
            obs: what the environment shows; `()` for a bandit without contexts.
            played: the round, and how often each action was played so far, those of the running batch included.

        Returns:
            A whole number from 0 to `actions - 1`, of shape `()`; where actions are continuous, a number.
        """
        raise NotImplementedError

    @required
    def empty(self, row: Row, capacity: int) -> Tree:
        """A memory of no rounds.

        Args:
            row: a round of zeros, for its shapes and types.
            capacity: for how many rounds there must be room: at least the horizon, and often more, because sizes are rounded up.

        Returns:
            The memory, any pytree of arrays.
        """
        raise NotImplementedError

    @required
    def remember(self, history: Tree, row: Row, live: Bool[Array, ""]) -> Tree:
        """Add a round to the memory.

        Args:
            history: as `empty` or the last `remember` returned it.
            row: the round, with its reward.
            live: False for a replication that waits; its memory must be returned as it is.

        Returns:
            The new memory, of the same structure, shapes and types.
        """
        raise NotImplementedError

    @required
    def observe(self, keys: Key[Array, " block"], states: Tree, histories: Tree) -> tuple[Tree, Info]:
        """Learn from all that is remembered. It is called once a batch and may be costly.

        Unlike the others this is given a block of replications, in front of every array: a refresh is fastest when all chains of
        all arms of all replications are one flat axis. `jax.vmap` makes it of a function of one replication.

        Args:
            keys: one for each replication, of shape `(block,)`.
            states: those that the replications acted on.
            histories: their memories, with all rounds since the first.

        Returns:
            The new states, of the same structure, shapes and types, and an `Info` of arrays of shape `(block,)`:
            `Info.of(finite)`.
        """
        raise NotImplementedError

    counts_plays = default(False)
    """Whether it is told of plays before their rewards, where these are late: `expect` is then called in the round of the play."""

    @optional
    def expect(self, history: Tree, row: Row, live: Bool[Array, ""]) -> Tree:
        """Add a play whose reward is late to the memory, where `counts_plays`. Its reward is remembered later, or never.

        Args:
            history: as `empty`, the last `expect` or `remember` returned it.
            row: the round `row.t`, with a reward of 0.
            live: False for a replication that waits; its memory must be returned as it is.

        Returns:
            The new memory, of the same structure, shapes and types.
        """
        raise NotImplementedError

    incremental = default(False)
    """Whether `observe` is so cheap (a few operations an arm) that running it in every lane each round beats waiting."""
    observes_first = default(False)
    """Whether `observe` is also called before the first round, on no data: planning agents do, so the planner compiles once."""
    model = default(None)
    """The model of rewards that it learns, stacked over arms, or that it plans with; None where it has none."""
    belief = default(None)
    """How it holds its posterior; None where it has none."""
    shared = default(False)
    """Whether all arms have one θ, and differ in their features alone."""
    features = default(None)
    """What the rewards of an arm depend on, `features(obs, action)`; None for `contexts.features`."""
    plain_memory = default(False)
    """Whether its memory is the model's summary or a log of rows: rewards can then be added many at a time."""
    starts_from_prior = default(False)
    """Whether a refresh on no data leaves the state that `init` gave."""
    holds_posterior = default(False)
    """Whether draws of the belief from a state are draws from the posterior, for those who report it."""
    privacy = default(None)
    """A `privacy.Guarantee`, where what it plays depends on private releases alone."""

    @optional
    def propensities(self, state: Tree, obs: Tree = ()) -> Float[Array, " actions"]:
        """P(a is played) for every action, where it is the same at every round of the batch.

        Args:
            state: that of the batch.
            obs: what the environment shows; `()` for a bandit without contexts.

        Returns:
            The probabilities, of shape `(actions,)`.
        """
        raise NotImplementedError

    @optional
    def propensities_at(self, state: Tree, obs: Tree, played: Played) -> Float[Array, " actions"]:
        """P(a is played) for every action in one round, where it differs between the rounds of a batch.

        Args:
            state: that of the batch.
            obs: what the environment shows; `()` for a bandit without contexts.
            played: the round, and the plays before it.

        Returns:
            The probabilities, of shape `(actions,)`.
        """
        raise NotImplementedError

    @optional
    def conclusion(self, state: Tree) -> Conclusion:
        """Which arm it would recommend, and since when it is sure.

        Such an agent also learns from the last batch, and `simulate` reports the simple regret of what it recommends.

        Args:
            state: after a refresh.

        Returns:
            The arm, and the round after which its stopping rule held, 0 where it has none or it has not held.
        """
        raise NotImplementedError

    def seen(self, row: Row) -> Row:
        """A round as its model sees it.

        Args:
            row: the round as the environment shows it.

        Returns:
            By default the round as it is.
        """
        return row

    def propensities_are_exact(self, state: Tree, obs: Tree = ()) -> bool:
        """Whether `propensities` is exact up to quadrature, rather than estimated from draws.

        Args:
            state: that of the batch.
            obs: what the environment shows; `()` for a bandit without contexts.

        Returns:
            True by default.
        """
        return True

    def laws(self, state: Tree, obs: Tree = ()) -> Marginal | None:
        """The distributions of the arms' mean rewards, in closed form: a round draws from each and plays the largest.

        Args:
            state: that of the batch.
            obs: what the environment shows; `()` for a bandit without contexts.

        Returns:
            The distributions, stacked over arms; None, the default, without a closed form or where it does not play so.
        """
        return None


def argmax(values: Float[Array, " actions"], available: Bool[Array, " actions"] | None = None) -> Int[Array, ""]:
    """The first index of the largest value; a NaN is never the largest.

    On a CPU two plain reductions: XLA's own argmax takes several times as long there.

    Args:
        values: of all actions.
        available: which actions can be played; None where all can.

    Returns:
        The index. Where no action is available, the first of the largest values.
    """
    actions = values.shape[0]
    order = jnp.where(jnp.isnan(values), -jnp.inf, values)
    if available is None and not on_cpu():
        return jnp.argmax(order)
    if available is None:
        return jnp.min(jnp.where(order == jnp.max(order), jnp.arange(actions), actions))
    allowed = available | ~jnp.any(available)
    largest = (order == jnp.max(jnp.where(allowed, order, -jnp.inf))) & allowed
    return jnp.min(jnp.where(largest, jnp.arange(actions), actions))
