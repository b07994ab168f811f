"""What posterior sampling believes of transitions, and how a model is drawn from it: rows of a table, or θ ∈ R^d."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .. import _random
from .._module import Contract, module, require_part
from .._typing import Array, Bool, Float, Info, Int, Key, PRNGKey, Row, Tree
from ..arrays import count
from ..declared import required
from ..dynamics.base import why_not
from ..dynamics.transitions import Transitions
from ..errors import ConfigError
from ..history import counts_of, remember_summary
from ..models.tabular import Sampled, Tabular
from ..samplers.chain import Chain
from ..samplers.rows import ExactRows, RowSampler
from .beliefs.on_chain import check_chain

SMALL = 512  # entries up to which a comparison in every entry beats XLA's scatter on a CPU


class TransitionBelief(Contract):
    """How `PSRL` draws a model of transitions at each refresh, the first of them on no data. As `Belief`, without `draw`."""

    @required
    def init(self, key: PRNGKey, model: Any) -> Tree:
        """Where the first refresh starts from."""
        raise NotImplementedError

    @required
    def empty(self, model: Any, row: Row, capacity: int) -> Tree:
        """A memory of no transitions."""
        raise NotImplementedError

    @required
    def remember(self, model: Any, history: Tree, row: Row, live: Bool[Array, ""]) -> Tree:
        """The memory with one more transition where `live`."""
        raise NotImplementedError

    @required
    def refresh(self, keys: Key[Array, " block"], model: Any, thetas: Tree, histories: Tree) -> tuple[Tree, Info]:
        """A draw from the posterior of what is remembered, for a block of replications, in front of every array."""
        raise NotImplementedError

    def check_model(self, model: Any) -> None:
        """Refuse a model that it cannot draw, with ConfigError."""


class Visits(NamedTuple):
    counts: Int[Array, " triples"]
    """How often each (s, a, s') was seen, flat."""
    rewards: Tree
    """A summary of each pair's rewards, where they are learned."""

    @staticmethod
    def none(model: Tabular) -> Visits:
        S, A, _ = model.shape
        return Visits(jnp.zeros(S * A * S, int), model.no_rewards())

    def plus(self, model: Tabular, row: Row, live: Bool[Array, ""]) -> Visits:
        """With one more transition where `live`."""
        S, A, _ = model.shape
        place, triples = (row.obs * A + row.action) * S + row.next_obs, S * A * S
        if triples <= SMALL:
            counts = count(self.counts, place, live)
        else:
            counts = self.counts.at[jnp.where(live, place, triples)].add(1, mode="drop")
        rewards = remember_summary(model.rewards, self.rewards, model.pair_row(row), live) if model.learns_rewards else ()
        return Visits(counts, rewards)


@module
class Rows(TransitionBelief):
    """Every row of a table drawn by a row sampler: exact Dirichlet, mirrored Langevin, or the log-gamma chain.

    Args:
        sampler: what draws the rows of the table.

    >>> from blts import PSRL, ExactRows, Rows, Tabular
    >>> from blts.envs import riverswim
    >>> PSRL(Tabular(riverswim(states=6).rewards), Rows(ExactRows())).actions
    2
    """

    sampler: RowSampler

    def check(self):
        require_part("Rows: sampler", self.sampler, RowSampler, "ExactRows(), LogGammaRows() or MirroredRows()")

    def check_model(self, model):
        if not isinstance(model, Tabular):
            raise ConfigError(
                f"Rows draws the rows of a Tabular model, not of {type(model).__name__}; use Parameters(sgld()) for θ ∈ R^d."
            )
        if model.log_prior is not None and isinstance(self.sampler, ExactRows):
            raise ConfigError("ExactRows draws Dirichlet rows only; with a log_prior use LogGammaRows or MirroredRows.")

    def __str__(self) -> str:
        return f"rows drawn by {self.sampler!r}"

    def init(self, key, model):
        """The prior mean: where chains start; `refresh` on no data then draws from the prior."""
        del key
        S, A, _ = model.shape
        return Sampled(model.weights / jnp.sum(model.weights, -1, keepdims=True), jnp.zeros((S, A)))

    def empty(self, model, row, capacity):
        return Visits.none(model)

    def remember(self, model, history, row, live):
        return history.plus(model, row, live)

    def refresh(self, keys, model, thetas, histories):
        R, (S, A, _) = keys.shape[0], model.shape
        lanes = lambda x: jnp.broadcast_to(x, (R, *model.shape)).reshape(R * S * A, S)  # noqa: E731
        # A key for each row of each replication, and one more for its rewards.
        row_keys = jax.vmap(lambda key: jax.vmap(lambda pair: _random.fold_in(key, pair))(jnp.arange(S * A + 1)))(keys)
        drawn = self.sampler.draw(
            row_keys[:, :-1].reshape(R * S * A),
            lanes(model.weights),
            lanes(histories.counts.reshape(R, *model.shape)),
            lanes(thetas.rows),
            model.log_prior,
        )
        rewards = jax.vmap(model.draw_rewards)(row_keys[:, -1], histories.rewards)
        new = Sampled(drawn.rows.reshape(R, *model.shape), jnp.broadcast_to(rewards, (R, S, A)))
        finite = jnp.isfinite(new.rows).all((1, 2, 3)) & jnp.isfinite(new.rewards).all((1, 2))
        return new, Info.of(finite, drawn.acceptance.reshape(R, S * A).mean(1))


def _arm(dynamics: Any) -> Any:
    """The dynamics as chains want it: one arm that holds all transitions."""
    return Transitions(dynamics).stacked()


@module
class Parameters(TransitionBelief):
    """θ ∈ R^d of a dynamics, drawn as the end of a chain on all transitions (Algorithm 3 with SGLD).

    Args:
        chain: what draws θ at a refresh.

    >>> from blts.agents import Parameters
    >>> from blts.samplers import sgld
    >>> print(Parameters(sgld()))
    θ drawn by 50 Langevin steps of 0.1 times the posterior variance on minibatches of 32
    """

    chain: Chain

    def check(self):
        check_chain(self, self.chain)

    def check_model(self, model):
        if isinstance(model, Tabular):
            raise ConfigError("Parameters draws θ of a dynamics, and Tabular is none; use Rows(LogGammaRows()) for tables.")
        if (why := why_not(model, "gain", "gain_of", "start", "sample", "true")) is not None:
            raise ConfigError(f"Parameters draws θ of a dynamics: {why}")

    def __str__(self) -> str:
        return f"θ drawn by {self.chain}"

    def init(self, key, model):
        return model.init(key)

    def empty(self, model, row, capacity):
        return self.chain.empty(_arm(model), Transitions.row(*row), capacity)

    def remember(self, model, history, row, live):
        return self.chain.remember(_arm(model), history, Transitions.row(*row), live)

    def refresh(self, keys, model, thetas: Float[Array, "block dim"], histories):
        n = counts_of(histories)
        # What transitions tell of θ depends on where the world was, and under one policy often of one direction only: the
        # step is a matrix, set by the transitions seen.
        chain = dataclasses.replace(self.chain, scale="data") if self.chain.scale == "information" else self.chain
        ends, info = chain.run(keys, _arm(model), thetas[:, None, None], histories, n)
        # A chain without data stays where it is, at a draw from the prior.
        new = ends[:, 0, 0]
        return new, Info.of(jnp.isfinite(new).all(-1), info.acceptance[:, 0, 0])
