"""Stopping rules: an agent wrapped in one plays until the best arm is known, and from then on that arm.

A rule is looked at with every refresh. What it rests on is not the wrapped agent's belief but all rewards, so any agent can be
wrapped and two agents are stopped by the same rule. `simulate` reports when it held, and the simple regret of the arm.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .. import evidence, models
from .._module import array, module, positive, require, require_part, short, static
from .._typing import Array, Bool, Float, Int, Numbers, Row, Tree
from ..errors import ConfigError
from ..history import remember_summary
from ..models.drawing import marginals
from ..models.marginal import Marginal
from ..models.moments import Moments
from ..record import Conclusion
from . import propensity
from .base import Agent, argmax
from .beliefs.private import holds_private


class Watched(NamedTuple):
    """The state of the wrapped agent, and what the rule says."""

    inner: Tree
    arm: Int[Array, ""]
    """The arm that is ahead; once the rule has held, the one that it held for."""
    stopped: Int[Array, ""]
    """The round with whose refresh it held; 0 before."""


class Both(NamedTuple):
    """What the wrapped agent remembers, and what the rule does."""

    inner: Tree
    seen: Tree


class Verdict(NamedTuple):
    """What a rule says of some rewards."""

    arm: Int[Array, ""]
    """The arm that is ahead."""
    holds: Bool[Array, ""]


class Stopping(Agent):
    """What all rules share: they differ in what they remember (`nothing`, `added`) and in when they hold (`verdict`)."""

    agent: Agent
    incremental = False  # a look costs more than a round, so replications wait for each other

    def nothing(self) -> Tree:
        """A memory of no rewards of any arm."""
        raise NotImplementedError

    def added(self, seen: Tree, row: Row, live: Bool[Array, ""]) -> Tree:
        """A memory with one more round, as in `remember`."""
        raise NotImplementedError

    def rounds(self, seen: Tree) -> Int[Array, ""]:
        """How many rounds a memory has."""
        raise NotImplementedError

    def verdict(self, seen: Tree) -> Verdict:
        """What the rule says of all rewards."""
        raise NotImplementedError

    def check(self):
        require_part(f"{type(self).__name__}: agent", self.agent, Agent, "Uniform(3)")
        if self.agent.observes_first or not self.agent.actions:
            raise ConfigError(f"{type(self).__name__} stops agents that compare arms; {type(self.agent).__name__} plans in an MDP.")
        if holds_private(self.agent):
            raise ConfigError(
                f"{type(self).__name__} looks at rewards without noise, and what a private agent plays must not depend on them; "
                "leave out one of them."
            )
        if self.agent.model is not None and self.agent.model.contextual:
            raise ConfigError(f"{type(self).__name__} compares arms without contexts, and the model of the agent has contexts.")

    @property
    def actions(self) -> int:
        return self.agent.actions

    @property
    def model(self):
        return self.agent.model

    def init(self, key):
        zero = jnp.zeros((), int)
        return Watched(self.agent.init(key), zero, zero)

    def act(self, key, state, obs, played):
        return jnp.where(state.stopped > 0, state.arm, self.agent.act(key, state.inner, obs, played))

    def empty(self, row, capacity):
        return Both(self.agent.empty(row, capacity), self.nothing())

    def remember(self, history, row, live):
        return Both(self.agent.remember(history.inner, row, live), self.added(history.seen, row, live))

    def observe(self, keys, states, histories):
        inner, info = self.agent.observe(keys, states.inner, histories.inner)
        arm, stopped = jax.vmap(self._looked)(states, histories.seen)
        return Watched(inner, arm, stopped), info

    def _looked(self, state: Watched, seen: Tree) -> tuple[Array, Array]:
        found = self.verdict(seen)
        before = state.stopped > 0
        return jnp.where(before, state.arm, found.arm), jnp.where(~before & found.holds, self.rounds(seen), state.stopped)

    def conclusion(self, state) -> Conclusion:
        return Conclusion(state.arm, state.stopped)


class Counted(NamedTuple):
    """The rewards of an arm, for evidence."""

    moments: Moments
    nonzero: Int[Array, ""]
    """Rewards that are not 0: of revenue the payments."""

    def add(self, summary: Counted, row) -> Counted:
        """One more reward."""
        return Counted(summary.moments.plus(row.reward), summary.nonzero + (row.reward != 0))


@module
class StopAtEvidence(Stopping):
    """Stop at an arm that has evidence against every other: at any means of the arms the chance of a wrong one is at most `error`.

    The evidence is the e-value by which reports of live experiments name a winner (`blts.evidence`). It holds at every look and
    under every allocation, without a prior. Rewards that are not 0 or 1 are treated as in a t-test, from 30 an arm on.

    Args:
        agent: who plays until then.
        error: the chance of a wrong arm.
        binary: whether all rewards are 0 or 1, for which the evidence is exact.

    >>> from blts import StopAtEvidence, Uniform
    >>> print(StopAtEvidence(Uniform(3)))
    Uniform play of 3 arms. Stops at evidence for the best arm, with error 0.05.
    """

    agent: Agent
    error: Numbers = array(default=evidence.ERROR)
    binary: bool = static(default=False)

    def check(self):
        super().check()
        require(self, 0 < self.error < 1, f"error must be a probability between 0 and 1; got {short(self.error)}.")

    def __str__(self) -> str:
        return f"{self.agent} Stops at evidence for the best arm, with error {short(self.error)}."

    def nothing(self):
        return jax.vmap(lambda _: Counted(Moments.zero(), jnp.zeros((), int)))(jnp.arange(self.actions))

    def added(self, seen, row, live):
        return remember_summary(seen, seen, row, live)

    def rounds(self, seen):
        return jnp.sum(seen.moments.rows)

    def verdict(self, seen: Counted) -> Verdict:
        n, mean = seen.moments.n, seen.moments.mean
        top = argmax(jnp.where(n > 0, mean, -jnp.inf))
        every = evidence.ArmRewards(n * 1.0, mean, seen.moments.m2)
        leader = evidence.ArmRewards(*(jnp.broadcast_to(x[top], x.shape) for x in every))
        log_E = evidence.log_evidence(leader, every, binary=self.binary, xp=jnp)
        others = jnp.arange(self.actions) != top
        enough = (n >= evidence.LEAST_BINARY) if self.binary else (seen.nonzero >= evidence.LEAST)
        needed = jnp.log(evidence.needed(self.actions, self.error))
        return Verdict(top, jnp.all(enough) & jnp.all(jnp.where(others, log_E >= needed, True)))


class OnPosterior(Stopping):
    """Rules on the exact posterior of a model."""

    agent: Agent
    believed: models.Model

    def check(self):
        super().check()
        name = type(self).__name__
        models.require_model(name, self.believed)
        object.__setattr__(self, "believed", models.stack(self.believed, self.actions))
        if jax.eval_shape(lambda: self.laws_of(self.nothing())) is None:
            raise ConfigError(
                f"{name} needs the posterior of the mean reward, and {type(self.believed).__name__} has no closed one."
            )

    def nothing(self):
        if not self.believed.has_posterior:
            raise ConfigError(
                f"{type(self).__name__} needs a model with an exact posterior; {type(self.believed).__name__} has none."
            )
        return jax.vmap(lambda single: single.empty())(self.believed)

    def added(self, seen, row, live):
        return remember_summary(self.believed, seen, row, live)

    def rounds(self, seen):
        return jnp.sum(seen.rows)

    def laws_of(self, seen) -> Marginal | None:
        """The posterior distributions of the arms' mean rewards."""
        return marginals(self.believed, seen, ())


@module
class StopAtProbability(OnPosterior):
    """Stop at an arm that is the best with posterior probability `level`.

    If arms are drawn from the model's prior, the arm is wrong in at most 1 - level of the runs, however often one looks. Of arms
    that are nearly equal it is wrong far more often: use `StopAtEvidence` where that matters.

    Args:
        agent: who plays until then.
        believed: the model whose posterior is looked at; it needs an exact one.
        level: P(best) from which it stops.

    >>> from blts import Gaussian, StopAtProbability, Uniform
    >>> print(StopAtProbability(Uniform(3), Gaussian()))
    Uniform play of 3 arms. Stops at P(best) ≥ 0.95.
    """

    agent: Agent
    believed: models.Model
    level: Numbers = array(default=0.95)

    def check(self):
        super().check()
        require(self, 0 < self.level < 1, f"level must be a probability between 0 and 1; got {short(self.level)}.")

    def __str__(self) -> str:
        return f"{self.agent} Stops at P(best) ≥ {short(self.level)}."

    def verdict(self, seen) -> Verdict:
        p = propensity.of_laws(self.laws_of(seen))  # type: ignore[arg-type]
        top = argmax(p)
        return Verdict(top, p[top] >= self.level)


@module
class StopAtLoss(OnPosterior):
    """Stop at an arm whose choice is expected to lose at most `loss` a round: E[max of the means - its own] under the posterior.

    Unlike P(best), it also stops where two arms are equally good.

    Args:
        agent: who plays until then.
        believed: the model whose posterior is looked at; it needs an exact one.
        loss: what may be lost a round, in units of the reward.

    >>> from blts import Gaussian, StopAtLoss, Uniform
    >>> print(StopAtLoss(Uniform(3), Gaussian(), 0.1))
    Uniform play of 3 arms. Stops at an expected loss of 0.1 a round.
    """

    agent: Agent
    believed: models.Model
    loss: Numbers = array()

    def check(self):
        super().check()
        positive(self, "loss")

    def __str__(self) -> str:
        return f"{self.agent} Stops at an expected loss of {short(self.loss)} a round."

    def verdict(self, seen) -> Verdict:
        losses = expected_losses(self.laws_of(seen))  # type: ignore[arg-type]
        top = argmax(-losses)
        return Verdict(top, losses[top] <= self.loss)


POINTS = 257


def expected_losses(laws: Marginal) -> Float[Array, " arms"]:
    """What each arm is expected to earn less than the best one, where the arms' mean rewards are independent.

    E[(max of the others - X_a)⁺] = ∫ F_a(x) (1 - ∏_{b≠a} F_b(x)) dx, by the trapezoid rule on quantiles and mean ± 6 sds of all
    arms; every term is positive, so that small losses keep their digits.

    Args:
        laws: the distributions of the arms' mean rewards, stacked; with finite sds.

    Returns:
        The losses.

    >>> import jax.numpy as jnp
    >>> from blts.models.marginal import NormalLaw
    >>> [round(float(loss), 3) for loss in expected_losses(NormalLaw(jnp.zeros(2), jnp.ones(2)))]  # E|X - Y|/2 = 1/√π
    [0.564, 0.564]
    """
    z = jnp.asarray(np.linspace(-propensity.REACH, propensity.REACH, POINTS))
    x = jnp.sort((laws.mean[:, None] + laws.sd[:, None] * z).ravel())
    F, above = jax.vmap(lambda law: (law.cdf(x), law.survival(x)))(laws)
    logs = jnp.log1p(-jnp.minimum(above, 1.0))
    logs = jnp.maximum(logs, -100.0)  # of a product that is next to nothing, whose other factors must come out
    rest = -jnp.expm1(jnp.sum(logs, axis=0) - logs)
    values = F * rest
    return jnp.sum(0.5 * (values[:, 1:] + values[:, :-1]) * (x[1:] - x[:-1]), axis=1)
