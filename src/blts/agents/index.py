"""Agents without posterior draws: UCB1, Bayes-UCB, ε-greedy, batched elimination, sequential halving, uniform.

They know what they played before they know what it earned: bonuses count plays inside the batch, means are of
observed rewards. Equal values are broken by an order drawn once a replication, which has the same distribution as
shuffling the arms.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .. import _random, contexts, models
from .._module import array, at_least, module, positive, static
from .._typing import Array, Bool, Float, Info, Int, Numbers, Row, Tree
from ..declared import fact, rests_on
from ..errors import ConfigError
from ..history import remember_summary
from ..models.drawing import marginals
from ..models.moments import Moments
from ..record import Conclusion
from .base import Agent, argmax
from .beliefs.diagnostics import finite_numbers


class Known(NamedTuple):
    """What an index agent acts on: the summary of each arm's observed rewards, and its order for ties."""

    order: Float[Array, " actions"]
    seen: Tree


class Survivors(NamedTuple):
    """`Known`, with the arms that were not dropped: one that is dropped stays so, whatever the others earn later."""

    order: Float[Array, " actions"]
    seen: Tree
    alive: Bool[Array, " actions"]


def _order(key, actions: int) -> Float[Array, " actions"]:
    return _random.uniform(key, (actions,))


def _best(values: Float[Array, " actions"], order: Float[Array, " actions"], obs: Tree = ()) -> Int[Array, ""]:
    """The index of the largest value that is available, the first in the order among equals."""
    mask = contexts.available(obs)
    if mask is None:
        return argmax(jnp.where(values == jnp.max(values), 1.0 + order, 0.0))
    most = jnp.max(jnp.where(mask, values, -jnp.inf))
    return argmax(jnp.where(values == most, 1.0 + order, 0.0), mask)


def _any(key, actions: int, obs: Tree) -> Int[Array, ""]:
    """An available action, each with the same probability."""
    mask = contexts.available(obs)
    if mask is None:
        return (_random.uniform(key) * actions).astype(int)
    return argmax(_random.uniform(key, (actions,)), mask)


def _shares(actions: int, obs: Tree) -> Float[Array, " actions"]:
    """The probabilities of `_any`."""
    mask = contexts.available(obs)
    if mask is None:
        return jnp.full(actions, 1 / actions)
    allowed = mask | ~jnp.any(mask)
    return jnp.where(allowed, 1.0, 0.0) / jnp.sum(allowed)


class _Index:
    """Plays the largest index, so its propensities are 0 and 1; they change with the round and the plays."""

    actions: Any
    best: Any
    """The arm of the largest index, without a key: `best(state, obs, played)`."""

    def act(self, key, state, obs, played):
        return self.best(state, obs, played)

    @rests_on("act")
    def propensities_at(self, state, obs, played) -> Float[Array, " actions"]:
        """P(a is played) in this round of the batch."""
        return jnp.where(jnp.arange(self.actions) == self.best(state, obs, played), 1.0, 0.0)


class _Means(NamedTuple):
    """The least that `remember_summary` needs of a model: how a reward is added."""

    def add(self, summary: Moments, row: Row) -> Moments:
        return summary.plus(row.reward)


_MEANS = _Means()


class _RewardMeans:
    """Remembers the count and mean of each arm's rewards."""

    incremental = fact("observe")
    actions: int

    def init(self, key) -> Tree:
        return Known(_order(key, self.actions), self.empty(None, 0))

    def empty(self, row, capacity):
        return jax.vmap(lambda _: Moments.zero())(jnp.arange(self.actions))

    def remember(self, history, row, live):
        return remember_summary(_MEANS, history, row, live)

    def observe(self, keys, states, histories):
        return states._replace(seen=histories), Info.of(jnp.all(jnp.isfinite(histories.mean), -1))


@module
class UCB1(_Index, _RewardMeans, Agent):
    """Mean of observed rewards + scale · √(2 log t / plays), every arm played once first (Auer et al. 2002).

    `scale` is the width of the rewards' range, or their sub-Gaussian scale times two.

    Args:
        actions: how many arms.
        scale: of the bonus.

    >>> from blts import UCB1
    >>> print(UCB1(10))
    UCB1 on 10 arms: mean + 1·√(2 log t / plays).
    """

    actions: int = static()
    scale: Numbers = array(default=1.0)

    def check(self):
        at_least(self, "actions", 1)
        positive(self, "scale")

    def __str__(self) -> str:
        return f"UCB1 on {self.actions} arms: mean + {self.scale:g}·√(2 log t / plays)."

    def best(self, state, obs, played):
        bonus = self.scale * jnp.sqrt(2 * jnp.log(played.t.astype(float)) / jnp.maximum(played.counts, 1))
        # An arm played in this batch but not observed yet has no mean: it waits for its reward.
        mean = jnp.where(state.seen.n > 0, state.seen.mean, -jnp.inf)
        return _best(jnp.where(played.counts == 0, jnp.inf, mean + bonus), state.order, obs)


@module
class EpsilonGreedy(_RewardMeans, Agent):
    """With probability ε_t = min(1, c·N/t) a random arm, otherwise the best observed mean (Auer et al. 2002, decaying ε).

    Args:
        actions: how many arms.
        c: how much is explored: ε_t = min(1, c·N/t).

    >>> from blts import EpsilonGreedy
    >>> print(EpsilonGreedy(10, c=0.5))
    Decaying ε-greedy on 10 arms: ε = min(1, 5/t).
    """

    actions: int = static()
    c: Numbers = array(default=1.0)

    def check(self):
        at_least(self, "actions", 1)
        positive(self, "c")

    def __str__(self) -> str:
        return f"Decaying ε-greedy on {self.actions} arms: ε = min(1, {self.c * self.actions:g}/t)."

    def act(self, key, state, obs, played):
        key_explore, key_arm = _random.split(key)
        explore = _random.uniform(key_explore) < self.c * self.actions / played.t
        return jnp.where(explore, _any(key_arm, self.actions, obs), self._greedy(state, obs))

    def _greedy(self, state, obs) -> Int[Array, ""]:
        return _best(jnp.where(state.seen.n > 0, state.seen.mean, -jnp.inf), state.order, obs)

    @rests_on("act")
    def propensities_at(self, state, obs, played) -> Float[Array, " actions"]:
        """P(a is played) in this round of the batch."""
        explore = jnp.minimum(1.0, self.c * self.actions / played.t)
        greedy = jnp.arange(self.actions) == self._greedy(state, obs)
        return explore * _shares(self.actions, obs) + jnp.where(greedy, 1.0 - explore, 0.0)


@module
class SuccessiveElimination(_Index, _RewardMeans, Agent):
    """BaSE (Gao et al. 2019): play the surviving arms in turn; after each batch drop those clearly below the best.

    Arm a is dropped when its mean is below the best by more than √(width · log(T·N) / n), n the fewest rewards of a
    surviving arm.

    Args:
        actions: how many arms.
        horizon: the number of rounds T.
        width: of the confidence radius.

    >>> from blts import SuccessiveElimination
    >>> print(SuccessiveElimination(10, horizon=1000))
    Batched successive elimination (BaSE) on 10 arms for horizon 1000.
    """

    actions: int = static()
    horizon: int = static()
    width: Numbers = array(default=2.0)
    incremental = fact("observe")

    def check(self):
        at_least(self, "actions", 1)
        at_least(self, "horizon", 1)
        positive(self, "width")

    def __str__(self) -> str:
        return f"Batched successive elimination (BaSE) on {self.actions} arms for horizon {self.horizon}."

    def init(self, key):
        return Survivors(_order(key, self.actions), self.empty(None, 0), jnp.ones(self.actions, bool))

    def best(self, state, obs, played):
        return _best(jnp.where(state.alive, -played.counts.astype(float), -jnp.inf), state.order, obs)

    def observe(self, keys, states, histories):
        info = Info.of(jnp.all(jnp.isfinite(histories.mean), -1))
        return states._replace(seen=histories, alive=jax.vmap(self._still_alive)(states.alive, histories)), info

    def _still_alive(self, alive, seen: Moments):
        fewest = jnp.min(jnp.where(alive, seen.n, jnp.iinfo(seen.n.dtype).max))
        best = jnp.max(jnp.where(alive, seen.mean, -jnp.inf))
        radius = jnp.sqrt(self.width * math.log(self.horizon * self.actions) / jnp.maximum(fewest, 1))
        return alive & ((best - seen.mean <= radius) | (fewest == 0))


@module
class SequentialHalving(_Index, _RewardMeans, Agent):
    """The best arm with a fixed budget (Karnin et al. 2013): play the surviving arms in turn, and drop the worse half of them.

    The horizon is divided into ⌈log₂ N⌉ equal phases. With the batching `halving`, which ends a batch with each phase, that is all
    the feedback it needs; under others it drops arms at the first refresh after a phase. Means are of all rewards of an arm, where
    the paper forgets those of earlier phases.

    Args:
        actions: how many arms.
        horizon: the number of rounds T.

    >>> from blts import SequentialHalving
    >>> SequentialHalving(8, 600).ends
    (200, 400, 600)
    """

    actions: int = static()
    horizon: int = static()
    incremental = fact("observe")

    def check(self):
        at_least(self, "actions", 1)
        at_least(self, "horizon", 1)
        least = self.actions + len(self.ends) - 1
        if self.horizon < least:
            raise ConfigError(
                f"SequentialHalving: horizon must be at least {least}, so that every arm is played; got {self.horizon}."
            )

    def __str__(self) -> str:
        return f"Sequential halving of {self.actions} arms in {len(self.ends)} phases for horizon {self.horizon}."

    @property
    def ends(self) -> tuple[int, ...]:
        """The rounds with which phases end."""
        return phase_ends(self.actions, self.horizon)

    def init(self, key):
        return Survivors(_order(key, self.actions), self.empty(None, 0), jnp.ones(self.actions, bool))

    def best(self, state, obs, played):
        return _best(jnp.where(state.alive, -played.counts.astype(float), -jnp.inf), state.order, obs)

    def observe(self, keys, states, histories):
        info = Info.of(jnp.all(jnp.isfinite(histories.mean), -1))
        return states._replace(seen=histories, alive=jax.vmap(self._still_alive)(states, histories)), info

    def _still_alive(self, state: Survivors, seen: Moments):
        over = jnp.sum(jnp.sum(seen.rows) >= jnp.asarray(self.ends))
        kept = jnp.asarray([-(-self.actions // 2**phase) for phase in range(len(self.ends) + 1)])[over]
        value = jnp.where(state.alive & (seen.n > 0), seen.mean, -jnp.inf)
        ahead = (value > value[:, None]) | ((value == value[:, None]) & (state.order > state.order[:, None]))
        return state.alive & (jnp.sum(ahead & state.alive, axis=1) < kept)

    def conclusion(self, state) -> Conclusion:
        """The survivor with the best mean."""
        value = jnp.where(state.alive & (state.seen.n > 0), state.seen.mean, -jnp.inf)
        return Conclusion(_best(value, state.order), jnp.zeros((), int))


def phase_ends(actions: int, horizon: int) -> tuple[int, ...]:
    """The rounds with which the phases of sequential halving end.

    Args:
        actions: how many arms.
        horizon: the number of rounds.

    Returns:
        ⌈log₂ actions⌉ rounds, at least one; the last is the horizon. In the first phase every arm is played at least once.
    """
    phases = max(1, (actions - 1).bit_length())
    if phases == 1:
        return (horizon,)
    first = max(actions, horizon // phases)
    return tuple(first + (horizon - first) * later // (phases - 1) for later in range(phases))


@module
class Uniform(_RewardMeans, Agent):
    """Every arm with the same probability, whatever was earned: the baseline of an ordinary randomised trial.

    Args:
        actions: how many arms.

    >>> from blts import Uniform
    >>> print(Uniform(3))
    Uniform play of 3 arms.
    """

    actions: int = static()

    def check(self):
        at_least(self, "actions", 1)

    def __str__(self) -> str:
        return f"Uniform play of {self.actions} arms."

    def act(self, key, state, obs, played):
        return _any(key, self.actions, obs)

    @rests_on("act")
    def propensities(self, state, obs=()):
        return _shares(self.actions, obs)


@module
class BayesUCB(_Index, Agent):
    """The posterior quantile 1 - 1/(t (log T)^c) of each arm's mean reward (Kaufmann et al. 2012).

    With `count="plays"` the interval also shrinks with plays whose reward is not in yet, as UCB1's bonus does, so a
    long batch is not spent on one arm; `count="observed"` is the textbook index on observed rewards alone.

    Args:
        model: a model with an exact posterior whose mean reward has a distribution in closed form.
        horizon: the number of rounds T.
        c: the exponent of log T.
        count: "plays" or "observed".
        arms: how many arms, where the model's numbers do not say it.

    >>> from blts import BayesUCB, Gaussian
    >>> print(BayesUCB(Gaussian(prior_mean=[0.0, 1.0]), horizon=1000))
    Bayes-UCB for horizon 1000: posterior quantile 1 - 1/(t (log T)^0), counting plays.
    2 arms with Gaussian rewards (prior mean [0, 1], prior sd 1 (×2), sd 1 (×2)), inside the paper's theory: m = L =
    ν = 1.
    """

    model: models.Model
    horizon: int = static()
    c: Numbers = array(default=0.0)
    count: str = static(default="plays")
    arms: int | None = static(default=None)

    incremental = fact("observe")

    def check(self):
        at_least(self, "horizon", 1)
        if self.count not in ("plays", "observed"):
            raise ConfigError(f'BayesUCB: count must be "plays" or "observed"; got {self.count!r}.')
        models.require_model("BayesUCB", self.model)
        arms = self.arms or models.arm_count(self.model)
        if arms is None:
            raise ConfigError("BayesUCB: the model does not say how many arms there are; give arms=…, or one number per arm.")
        if not self.model.has_posterior:
            raise ConfigError(f"BayesUCB needs a model with an exact posterior, and {type(self.model).__name__} has none.")
        object.__setattr__(self, "model", models.stack(self.model, arms))
        object.__setattr__(self, "arms", arms)
        if self.model.contextual:
            raise ConfigError("BayesUCB is for bandits without contexts; use UCB (the agent lin-ucb) with contexts.")
        if jax.eval_shape(lambda: self._laws(self.empty(None, 0))) is None:
            raise ConfigError(f"BayesUCB needs the law of the mean reward, and {type(self.model).__name__} has no closed one.")

    def __str__(self) -> str:
        quantile = f"1 - 1/(t (log T)^{self.c:g})"
        return f"Bayes-UCB for horizon {self.horizon}: posterior quantile {quantile}, counting {self.count}.\n{self.model}"

    @property
    def actions(self) -> int:
        assert self.arms is not None
        return self.arms

    def _laws(self, seen) -> Any:
        return marginals(self.model, seen, ())

    def init(self, key) -> Tree:
        return Known(_order(key, self.actions), self.empty(None, 0))

    def empty(self, row: Row | None, capacity):
        return jax.vmap(lambda single: single.empty())(self.model)

    def remember(self, history, row, live):
        return remember_summary(self.model, history, row, live)

    def observe(self, keys, states, histories):
        return states._replace(seen=histories), Info.of(finite_numbers(histories, keys.shape), distance=jnp.zeros(keys.shape))

    def best(self, state, obs, played):
        log_T = max(math.log(self.horizon), 1.0)
        u = 1 - 1 / (played.t * log_T**self.c)
        laws = self._laws(state.seen)
        u = jnp.broadcast_to(jnp.clip(u, 0.5, 1 - 1e-6), (self.actions,))  # the first index, at t = 1, is the median
        quantile = jax.vmap(lambda law, level: law.quantile(level))(laws, u)
        if self.count == "plays":
            quantile = laws.mean + (quantile - laws.mean) * self._shrink(state.seen, played.counts)
        return _best(quantile, state.order, obs)

    def _shrink(self, seen, plays):
        """√((κ + observed)/(κ + plays)) with κ the prior's worth in rewards: exact for Gaussian rewards."""

        def prior_worth(single):
            theta = single.init(_random.as_key(0))
            return jnp.mean(single.prior_precision() / single.information(theta))

        worth = jax.vmap(prior_worth)(self.model)
        return jnp.sqrt((worth + seen.rows) / (worth + jnp.maximum(plays, seen.rows)))
