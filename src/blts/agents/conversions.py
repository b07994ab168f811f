"""Learning from conversions that come late, where nobody tells of those that do not come.

A play that has not converted yet may be a failure or may convert later. Counted as a failure at once it makes arms look worse the
more recent their plays are. If F(s) is the share of conversions that have come s rounds after their play, Σ F(age) over all plays
of an arm is how many of them could be known to convert by now, and the conversions that came are that sum times the arm's rate, on
average (Vernade, Cappé and Perchet 2017). So pending plays count as failures with weights that make up the difference.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._module import module, require_part, static
from .._typing import Array, Bool, Float, Int, Row, Tree
from ..arrays import count
from ..delays import Delay, check_arms, check_shares, delay_of
from ..errors import ConfigError, whole
from ..models.bernoulli import Bernoulli, Successes
from .base import Agent
from .beliefs.private import holds_private

LEARNED = "learned"
GOLDEN = 0.6180339887498949  # multiples of it, modulo 1, are spread evenly: which pending plays count is not left to chance


class Plays(NamedTuple):
    """What is remembered: every play, with what is known of its reward. Arrays by round have an entry 0 that is not used."""

    rows: Row
    """By round, `[rounds + 1]`; the reward is 0 until it is told."""
    told: Bool[Array, " rounds"]
    """By round: whether the reward is told."""
    came: Float[Array, " rounds"]
    """By delay: how many conversions came after so many rounds."""
    ones: Float[Array, " arms"]
    """How many conversions of each arm were told."""
    zeros: Float[Array, " arms"]
    """How many failures of each arm were told."""
    now: Int[Array, ""]
    """The last round."""


@module
class Conversions(Agent):
    """Another agent, where silence may still become a conversion: `Late(…, silence="zero")`.

    At the end of a batch the agent is given every play: those whose reward was told, as they are, and pending ones as failures with
    the weights that the delays call for. `Bernoulli` counts take weights as they are; other memories (the rows of Langevin chains,
    or what a subclass remembers) have so many of the pending plays as the weights add up to.

    Args:
        agent: who plays and learns, such as `Thompson(Bernoulli(), arms=3)`.
        delay: the law of the delays, or its words: "geometric 50". "learned": it is estimated from the delays that were seen, one
            law for all arms. None: no correction; every pending play is a failure until its conversion comes.
        window: after so many rounds silence is a failure for certain; None where it never is.

    >>> from blts import Bandit, Bernoulli, Exact, Sequential, Thompson, simulate
    >>> from blts.agents import Conversions
    >>> from blts.envs import Late
    >>> env = Late(Bandit.with_means(Bernoulli(), [0.2, 0.4]), "geometric 20", silence="zero")
    >>> agent = Conversions(Thompson(Bernoulli(), Exact(), arms=2), "geometric 20")
    >>> simulate(0, env, agent, Sequential(), horizon=100, replications=5).in_flight.shape
    (5,)
    """

    agent: Agent
    delay: Delay | None = None
    window: int | None = static(default=None)

    def check(self):
        require_part("Conversions: agent", self.agent, Agent, "Thompson(Bernoulli(), arms=3)")
        if self.delay is not None and not (isinstance(self.delay, str) and self.delay == LEARNED):
            object.__setattr__(self, "delay", delay_of(self.delay))
            check_arms("Conversions", self.delay, self.agent.actions)
            check_shares("Conversions", self.delay)
        if self.window is not None:
            whole("window", self.window, 0)
        if holds_private(self.agent):
            raise ConfigError(
                "Conversions weighs every play anew at each refresh, and a private agent releases each once; leave out one of them."
            )

    def __str__(self) -> str:
        how = {None: "silence is a failure until it ends", LEARNED: "silence weighed by the delays seen so far"}
        known = isinstance(self.delay, Delay)
        weighed = f"silence weighed by conversions that are {self.delay}" if known else how[self.delay]
        first, *rest = str(self.agent).splitlines()
        return "\n".join([f"{first.rstrip('.')}, {weighed}.", *rest])

    counts_plays = True

    @property
    def actions(self) -> int:
        return self.agent.actions

    @property
    def model(self) -> Any:
        return self.agent.model

    @property
    def belief(self) -> Any:
        return self.agent.belief

    @property
    def shared(self) -> bool:
        return self.agent.shared

    @property
    def features(self) -> Any:
        return self.agent.features

    def seen(self, row):
        return self.agent.seen(row)

    def init(self, key):
        """The agent's own, with counts that have fractions."""
        return _with_fractions(self.agent.init(key))

    def act(self, key, state, obs, played):
        return self.agent.act(key, state, obs, played)

    def empty(self, row, capacity):
        rows = jax.tree.map(lambda x: jnp.zeros((capacity + 1, *jnp.shape(x)), jnp.result_type(x)), row._replace(t=()))
        rounds, arms = jnp.zeros(capacity + 1), jnp.zeros(self.actions)
        return Plays(rows, rounds > 0, rounds, arms, arms, jnp.zeros((), int))

    def expect(self, history, row, live):
        """Write the play down, with a reward of 0 that is not told."""
        place = jnp.where(live, row.t, history.told.shape[0])
        rows = jax.tree.map(lambda store, new: store.at[place].set(new, mode="drop"), history.rows, row._replace(t=()))
        return history._replace(rows=rows, now=jnp.where(live, row.t, history.now))

    def remember(self, history, row, live):
        """Write the reward down; where no reward is late, the play too."""
        if isinstance(row.t, tuple):
            row = row._replace(t=history.now + 1)
            history = self.expect(history, row, live)
        outside, one = history.told.shape[0], live & (row.reward != 0)
        place, delay = jnp.where(live, row.t, outside), jnp.where(one, history.now - row.t, outside)
        came = history.came[jnp.minimum(delay, outside - 1)] + 1
        return Plays(
            history.rows._replace(reward=history.rows.reward.at[place].set(row.reward, mode="drop")),
            history.told.at[place].set(True, mode="drop"),
            history.came.at[delay].set(came, mode="drop"),
            count(history.ones, row.action, one),
            count(history.zeros, row.action, live & ~one),
            history.now,
        )

    def observe(self, keys, states, histories):
        return self.agent.observe(keys, states, jax.vmap(self._weighed)(histories))

    def _weighed(self, plays: Plays) -> Tree:
        """The agent's memory of all plays, with pending ones as failures of some weight."""
        row = jax.tree.map(lambda x: jnp.zeros(x.shape[1:], x.dtype), plays.rows)
        empty = self.agent.empty(row, plays.told.shape[0] - 1)
        t = jnp.arange(plays.told.shape[0])
        share = jnp.where((t > 0) & (t <= plays.now), self._share(plays, plays.now - t), 0.0)
        silent = self._silent_failures(plays, share)
        if isinstance(empty, Successes) and self._counts:
            return Successes(plays.ones + plays.zeros + silent, plays.ones)
        pending = jnp.where(plays.told, 0.0, share)
        each = silent / jnp.maximum(self._by_arm(plays, pending), jnp.finfo(share.dtype).tiny)
        counted = plays.told | (t * GOLDEN % 1 < pending * each[plays.rows.action])

        def add(t: Array, history: Tree) -> Tree:
            return self.agent.remember(history, jax.tree.map(lambda x: x[t], plays.rows), counted[t] & (t <= plays.now))

        return _with_fractions(lax.fori_loop(1, plays.told.shape[0], add, empty))

    @property
    def _counts(self) -> bool:
        """Whether the agent's memory is the counts of its rows: not where it, its belief or its model has rows its own way."""
        model = self.agent.model
        return self.agent.plain_memory and isinstance(model, Bernoulli) and model.counts_ones

    def _silent_failures(self, plays: Plays, share: Float[Array, " rounds"]) -> Float[Array, " arms"]:
        """How many failures of each arm are not told: Σ F(age) over all plays but those told to be failures, less conversions."""
        trials = self._by_arm(plays, jnp.where(plays.told & (plays.rows.reward == 0), 0.0, share))
        return silent_failures(trials, plays.ones)

    def _by_arm(self, plays: Plays, x: Float[Array, " rounds"]) -> Float[Array, " arms"]:
        return jnp.zeros(self.actions).at[plays.rows.action].add(x)

    def _share(self, plays: Plays, age: Int[Array, " rounds"]) -> Float[Array, " rounds"]:
        """The share of conversions that have come, by the round of their play."""
        if self.delay is None:
            return jnp.ones(age.shape)
        age = jnp.maximum(age, 0)
        if isinstance(self.delay, str):
            return seen_share(plays.came, plays.told & (plays.rows.reward != 0), plays.now)[age]
        share = self.delay.share_by(age, plays.rows.action)
        if self.window is None:
            return share
        whole_share = self.delay.share_by(jnp.full_like(age, self.window), plays.rows.action)
        # Where no conversion can come within the window, silence says nothing until its end.
        return jnp.where(age >= self.window, 1.0, share / jnp.maximum(whole_share, jnp.finfo(share.dtype).tiny))


def _with_fractions(tree: Tree) -> Tree:
    """The same with numbers in place of whole numbers in counts."""
    fraction = lambda x: jax.tree.map(lambda n: n.astype(float), x) if isinstance(x, Successes) else x  # noqa: E731
    return jax.tree.map(fraction, tree, is_leaf=lambda x: isinstance(x, Successes))


def seen_share(came: Float[Array, " rounds"], converted: Bool[Array, " rounds"], now: Int[Array, ""]) -> Float[Array, " rounds"]:
    """The distribution of delays from conversions so far, which are those that came early (Lynden-Bell 1971).

    A conversion with delay s is seen only if its play is s rounds old. Backwards in time that is a risk set: P(delay < s), given
    delay ≤ s, is 1 - n_s / R_s, with n_s conversions of delay s among the R_s of delays up to s whose plays are s rounds
    old at least.

    Args:
        came: by delay, how many conversions came.
        converted: by the round of the play, whether its conversion came.
        now: the last round.

    Returns:
        F(s) for s = 0, 1, …. It is relative to the delays that can have been seen by now, and 1 before the first conversion.
    """
    ages = jnp.arange(came.shape[0])
    of_age = jnp.where(ages <= now, converted[jnp.maximum(now - ages, 0)], False)
    at_risk = jnp.cumsum(came) - (jnp.cumsum(of_age) - of_age)
    return product_limit(came, at_risk)


def product_limit(came: Any, at_risk: Any) -> Any:
    """The share of conversions that have come by each delay, from risk sets: F(s_j) = Π_{k > j} (1 - n_k / R_k).

    Args:
        came: n, how many conversions came with each delay, in ascending order of the delays; a NumPy or a JAX array.
        at_risk: R, how many conversions of delays up to it could have been seen with it.

    Returns:
        F at each delay, of the kind of array that was given.

    >>> import numpy as np
    >>> product_limit(np.array([2.0, 1.0]), np.array([2.0, 4.0]))
    array([0.75, 1.  ])
    """
    xp = jnp if isinstance(came, jax.Array) else np
    before = xp.where(came > 0, 1 - came / xp.maximum(at_risk, 1.0), 1.0)
    return xp.concatenate([xp.cumprod(before[::-1])[::-1][1:], xp.ones(1)])


def silent_failures(trials: Any, ones: Any) -> Any:
    """How many silent plays of each arm count as failures: Σ F(age) over all that are not told to be failures, less conversions."""
    return (jnp if isinstance(trials, jax.Array) else np).maximum(trials - ones, 0.0)
