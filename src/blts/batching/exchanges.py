"""Several agents that play one problem and exchange what they know at batch ends only."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from .. import _random
from .._module import at_least, module, static
from .._typing import Array, Bool, Int, PRNGKey, Tree
from ..arrays import where
from ..declared import fact, rests_on
from ..errors import ConfigError
from ..record import Sent
from .asking import Asking, PlaysDoubled, rule_of
from .base import Batching


class Meeting(NamedTuple):
    """The state of `Exchanges`."""

    key: PRNGKey
    rounds: Int[Array, ""]
    """Rounds that have ended."""
    turn: Int[Array, ""]
    """The agent that plays next."""
    present: Bool[Array, " agents"]
    unsent: Int[Array, " agents"]
    """Each agent's plays that the others do not know of, and that it has not handed over."""
    rule: Tree
    sent: Sent


@module
class Exchanges(Batching):
    """`agents` agents play one problem in turns and exchange what they know when a rule says so; an exchange ends a batch.

    A round of the agents is one play of each agent present, so `horizon` = agents × rounds where none is ever absent. Between two
    exchanges all draw from the same posterior, that of the plays exchanged so far: an agent does not learn from its own new plays
    either. That is what an agent of `simulate` does within a batch, so M agents need no loop of their own. An exchange takes
    place at the end of a round: each agent present sends its new plays to a server, and is sent what it needs for its next draws.

    With `leave` > 0 agents drop out: after a round each one present leaves with that probability, and each one absent is back with
    probability `back`. Whoever leaves hands over its new plays, which count from the next exchange on; whoever returns is sent what
    the others got at the last exchange. The last agent present does not leave.

    Args:
        agents: how many there are.
        when: the rule: `PlaysDoubled()`, a `Determinant` (see `PrecisionGrown`), or a scheme of rounds (see `Clocked`).
        leave: the probability that an agent leaves after a round.
        back: the probability that one who is absent returns after a round.

    >>> from blts.batching import Exchanges, Fixed
    >>> print(Exchanges(10, Fixed(65), leave=0.1, back=0.3))
    10 agents exchange what they know every 65 rounds; after a round an agent leaves with probability 0.1 and returns with
    probability 0.3.
    """

    agents: int = static()
    when: Asking = PlaysDoubled()
    leave: float = static(default=0.0)
    back: float = static(default=0.1)

    def check(self):
        at_least(self, "agents", 1)
        object.__setattr__(self, "when", rule_of(self.when))
        if not _is_number(self.leave) or not 0 <= self.leave < 1:
            raise ConfigError(f"Exchanges: leave must be a probability below 1; got {self.leave!r}.")
        if not _is_number(self.back) or not 0 < self.back <= 1:
            raise ConfigError(f"Exchanges: back must be a probability above 0; got {self.back!r}.")

    @property
    def by_rounds(self) -> bool:
        """Whether that holds for the rule."""
        return self._steps_by_rule and self.when.by_rounds

    _steps_by_rule = fact("init", "step")

    def __str__(self) -> str:
        who = "1 agent exchanges what it knows" if self.agents == 1 else f"{self.agents} agents exchange what they know"
        chances = f"an agent leaves with probability {self.leave:g} and returns with probability {self.back:g}"
        absent = f"; after a round {chances}" if self.leave else ""
        return f"{who} {self.when}{absent}.".replace("{agents}", str(self.agents))

    def init(self, key, actions):
        zero, everyone = jnp.zeros((), int), jnp.ones(self.agents, bool)
        rule = self.when.init(_random.fold_in(key, 0), self.agents, actions)
        return Meeting(_random.fold_in(key, 1), zero, zero, everyone, jnp.zeros(self.agents, int), rule, Sent(zero, zero, zero))

    def step(self, state, obs, action):
        who = jnp.arange(self.agents)
        state = state._replace(unsent=state.unsent + (who == state.turn), rule=self.when.play(state.rule, state.turn, obs, action))
        later = state.present & (who > state.turn)
        ends = ~jnp.any(later)
        ended, due = self._end_round(state)
        state = where(ends, ended, state._replace(turn=jnp.argmax(later)))
        return state, ends & due

    def _end_round(self, state: Meeting) -> tuple[Meeting, Bool[Array, ""]]:
        """The state when a round has ended: after its exchange, and with those present who play the next round."""
        rule, due = self.when.end_round(state.rule)
        rounds, there = state.rounds + 1, jnp.sum(state.present)
        sent = state.sent
        sent = where(due, Sent(sent.up + there, sent.down + there, sent.plays + jnp.sum(state.unsent)), sent)
        unsent = jnp.where(due, 0, state.unsent)
        present = self._present(state.key, rounds, state.present)
        gone, new = state.present & ~present, present & ~state.present
        handed = gone & (unsent > 0)
        sent = Sent(sent.up + jnp.sum(handed), sent.down + jnp.sum(new), sent.plays + jnp.sum(jnp.where(handed, unsent, 0)))
        unsent = jnp.where(handed, 0, unsent)
        return Meeting(state.key, rounds, jnp.argmax(present), present, unsent, rule, sent), due

    def _present(self, key: PRNGKey, rounds: Int[Array, ""], present: Bool[Array, " agents"]) -> Bool[Array, " agents"]:
        """Who plays the next round."""
        if not self.leave:
            return present
        u = _random.uniform(_random.fold_in(key, rounds), (self.agents,))
        stays = jnp.where(present, u >= self.leave, u < self.back)
        # Where nobody would be left, the one of those present who was least about to leave stays.
        # By the maximum: XLA fuses the generator into an argmax of u, and LLVM then takes minutes for 1000 agents.
        rank = jnp.where(present, u, -1.0)
        last = jnp.argmax(rank == jnp.max(rank))
        return stays | (~jnp.any(stays) & (jnp.arange(self.agents) == last))

    @rests_on("init", "step")
    def sent(self, state):
        return state.sent

    @rests_on("init", "step")
    def max_batches(self, horizon, actions):
        # Absent agents make rounds of fewer plays, so there may be as many rounds as plays.
        rounds = horizon if self.leave else horizon // self.agents
        return self.when.max_exchanges(rounds, horizon, self.agents, actions)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
