"""What a simulation records of each replication, and the diagnostics of its refreshes."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from ._typing import Array, Bool, Float, Info, Int, Tree
from .models.moments import Sum


class Diagnostics(NamedTuple):
    """What the refreshes of a replication reported, gathered."""

    refreshes: Int[Array, " replications"]
    finite: Bool[Array, " replications"]
    acceptance: Float[Array, " replications"]
    """Mean over refreshes."""
    ess: Float[Array, " replications"]
    """Smallest of any refresh."""
    rhat: Float[Array, " replications"]
    """Largest of any refresh."""
    distance: Float[Array, " replications"]
    """Mean over refreshes of the distance to the exact posterior, in posterior sds."""
    residual: Float[Array, " replications"]
    """Largest of any refresh: what a plan may lose a round in the model it was made for."""
    stuck: Float[Array, " replications"]
    """Largest of any refresh: the share of an arm's chains that did not move, or ended far from the others."""
    least: Float[Array, " replications"]
    """Smallest of any refresh: the acceptance of an arm's chains."""
    unsound: Int[Array, " replications"]
    """Refreshes that passed a limit of `diagnosis`."""

    @staticmethod
    def start() -> Diagnostics:
        """Of one replication."""
        number = lambda value: jnp.asarray(value, float)  # noqa: E731
        limits = number(jnp.inf), number(-jnp.inf)
        none = jnp.zeros((), int)
        return Diagnostics(none, jnp.ones((), bool), number(0), *limits, number(0), limits[1], limits[1], limits[0], none)

    def plus(self, info: Info) -> Diagnostics:
        k = self.refreshes + 1
        return Diagnostics(
            k,
            self.finite & info.finite,
            self.acceptance + (info.acceptance - self.acceptance) / k,
            jnp.minimum(self.ess, info.ess),
            jnp.maximum(self.rhat, info.rhat),
            self.distance + (info.distance - self.distance) / k,
            jnp.maximum(self.residual, info.residual),
            jnp.maximum(self.stuck, info.stuck),
            jnp.minimum(self.least, info.least),
            self.unsound + ~info.sound,
        )


class Sent(NamedTuple):
    """What several agents sent one another by way of a server (`batching.Exchanges`)."""

    up: Int[Array, "*replications"]
    """Messages to the server, each with the new plays of one agent."""
    down: Int[Array, "*replications"]
    """Messages from the server, each with what one agent needs for its next draws."""
    plays: Int[Array, "*replications"]
    """Plays that the messages to the server were about."""


class Conclusion(NamedTuple):
    """What an agent that looks for the best arm says at a refresh."""

    arm: Int[Array, ""]
    """The arm that it would recommend."""
    stopped: Int[Array, ""]
    """The round with whose refresh its stopping rule first held; 0 where it has not."""


class Concluded(NamedTuple):
    """The conclusions of a run, with the replications last."""

    arm: Int[Array, " replications"]
    """The arm that is recommended after the last round, or was when the rule held."""
    stopped: Int[Array, " replications"]
    """The round after which the stopping rule held; 0 where it never did."""
    simple_regret: Float[Array, " replications"]
    """What the recommended arm earns less a round than the best one."""


class Record(NamedTuple):
    """What is written down of a run, with the replications last, as the loop writes it."""

    regret: Float[Array, "points replications"]
    """Cumulative regret at the recorded times."""
    ends: Int[Array, "batches replications"]
    """The rounds with which batches ended; 0 beyond the last."""
    actions: Array
    """Every action, `[rounds, …, replications]`, where asked for; otherwise no rows."""
    plays: Int[Array, "actions replications"]
    batches: Int[Array, " replications"]
    reward: Sum
    """Over all rounds."""
    best: Int[Array, " replications"]
    """In how many rounds a best action was played; in an MDP, an optimal action of the state."""
    diagnostics: Diagnostics
    sent: Int[Array, "counts replications"]
    """The numbers of `Sent`, a row each; no rows for schemes that exchange nothing."""
    concluded: Concluded | tuple[()] = ()
    """Of agents with a `conclusion`; otherwise nothing."""
    in_flight: Tree = ()
    """Plays whose rewards were not told by the end, one number per replication; `()` where no reward is late."""
