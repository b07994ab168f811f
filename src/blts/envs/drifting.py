"""Bandits whose means change while they are played."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .. import _random, models
from .._module import module, require_part, short
from .._typing import Array, Float, Int
from ..arrays import pick
from ..declared import provides, rests_on, why_lost
from ..errors import ConfigError
from ..models.support import support_of_samples
from ..untraceable import untraceable
from .bandit import Bandit
from .base import Env, Step, gaps_of
from .drift import Drift


class Drifted(NamedTuple):
    """The arms of one replication before a round."""

    t: Int[Array, ""]
    """The round, from 1."""
    means: Float[Array, " arms"]


INSIDE = {
    "binary": "limits that they can have, such as low=0.01, high=0.99",
    "positive": "limits that they can have, such as low=0.1",
    "nonnegative": "limits that they can have, such as low=0.1",
    "count": "limits that they can have, such as low=0.1",
}
"""Limits that means of rewards with a support can have."""


@module
class Drifting(Env):
    """A bandit whose means change from round to round, by a drift such as `RandomWalk`, `AbruptChanges` or `Seasonal`.

    Its regret is the **dynamic** regret: in each round, the mean of the arm that is best in that round less that of the arm played.

    Args:
        bandit: the model of the rewards, and the means that the drift begins with; the model needs `theta_of_mean`.
        drift: how the means change.

    >>> from blts import Bandit, Bernoulli
    >>> from blts.envs import Drifting, Seasonal
    >>> Drifting(Bandit.with_means(Bernoulli(), [0.3, 0.5]), Seasonal(period=500, amplitude=0.2)).actions
    2
    """

    bandit: Bandit
    drift: Drift

    def check(self):
        require_part("Drifting: bandit", self.bandit, Bandit, "Bandit.with_means(Bernoulli(), [0.3, 0.5])")
        require_part("Drifting: drift", self.drift, Drift, "RandomWalk(0.01)")
        model, name = self.bandit.model, type(self.bandit.model).__name__
        if self.bandit.theta is None:
            raise ConfigError(
                "Drifting: the bandit must say which means the drift begins with; give Bandit.with_means(model, means)."
            )
        if (lost := why_lost(self.bandit, "pays_as_model")) is not None:
            raise ConfigError(f"Drifting pays rewards of the bandit's model, and would not call what was overridden: {lost}")
        if not provides(model, "theta_of_mean") or model.contextual:
            raise ConfigError(f"Drifting: the means of {name} rewards do not say what θ is; use a model with theta_of_mean.")
        limits = self._limits()
        first = np.asarray(self._of_every_arm("first", lambda drift, base: drift.first(base)), float)
        self._of_every_arm("after", partial(jax.eval_shape, _after))
        slack = 1e-5 * np.abs(first).max()
        if not (first.min() >= limits[0] - slack and first.max() <= limits[1] + slack):
            raise ConfigError(
                f"Drifting: the drift begins with means {short(first)} and promises means between {limits[0]:g} and {limits[1]:g}; "
                "override first and limits so that they agree."
            )
        if not type(self.drift).__module__.startswith("blts."):
            self._check_stays(first, limits)
        for limit in limits:
            if not self._possible(limit):
                raise ConfigError(
                    f"Drifting: means between {limits[0]:g} and {limits[1]:g} are not all possible for {name} rewards; give the "
                    f"drift {INSIDE.get(str(model.support), 'other limits')}."
                )

    def _check_stays(self, first: np.ndarray, limits: tuple[float, float]) -> None:
        """Refuse a drift whose means leave its limits in the first rounds: the model has no rewards of such means."""
        _, means = _tried(self.drift, jnp.asarray(self._base), jnp.asarray(first, float))
        slack = 1e-4 * max(1.0, float(np.abs(first).max()))
        outside = ~((means >= limits[0] - slack) & (means <= limits[1] + slack)).all(1)
        if outside.any():
            t = int(outside.argmax())
            raise ConfigError(
                f"Drifting: {type(self.drift).__name__} promises means from {limits[0]:g} to {limits[1]:g}, and its after returned "
                f"{short(np.asarray(means[t]))} for round {t + 2}; keep them inside, or override limits."
            )

    def _limits(self) -> tuple[float, float]:
        """Those of the drift, refused where they are no pair of numbers."""
        found = self.drift.limits(self._base)
        if np.shape(found) != (2,):
            raise ConfigError(f"Drifting: limits of {type(self.drift).__name__} must return the lowest and the highest mean.")
        return found

    def _of_every_arm(self, name: str, method: Callable[[Drift, Array], Any]) -> Array:
        """What a method of the drift returns at the first means, refused where that is no mean for every arm."""
        base = jnp.asarray(self._base)
        try:
            found = method(self.drift, base)
        except (TypeError, ValueError) as error:
            if (why := untraceable(error)) is None:
                raise
            raise ConfigError(f"Drifting: {why}") from error
        shape = getattr(found, "shape", None)
        if shape != base.shape:
            got = f"{found!r}" if shape is None else f"an array of the shape {list(shape)}"
            wanted = f"the mean of every arm, of the shape {list(base.shape)}"
            raise ConfigError(f"Drifting: {name} of {type(self.drift).__name__} must return {wanted}; it returned {got}.")
        return found

    def _possible(self, mean: float) -> bool:
        if np.isinf(mean):
            return self.bandit.model.support == "real"
        theta = jax.vmap(lambda single: single.theta_of_mean(jnp.asarray(mean)))(self.bandit.model)
        return bool(np.isfinite(np.asarray(theta)).all())

    @property
    def _base(self) -> np.ndarray:
        return np.asarray(self.bandit.means(self.bandit.theta), float)

    def __str__(self) -> str:
        kind = "A bandit" if type(self) is Drifting else f"{type(self).__name__}, changed from a drifting bandit,"
        begins = f"{kind} of {self.actions} arms that begins with mean rewards {short(self._base)}; {self.drift}."
        return f"{begins} Regret is dynamic: against the best arm of each round."

    @property
    def actions(self) -> int:
        return self.bandit.actions

    @rests_on("reset", "step")
    @property
    def support(self) -> str | None:
        """Which rewards can occur, one of `models.support.SUPPORTS`; None where that is not known."""
        return support_of_samples(self.bandit.model)

    def reset(self, key):
        base = self.bandit.means(self.bandit.theta)
        return Drifted(jnp.ones((), int), self.drift.first(base)), ()

    def step(self, key, state, action):
        key_reward, key_drift = _random.split(key)
        single, mean = models.arm(self.bandit.model, action), pick(state.means, action)
        reward = single.sample(key_reward, single.theta_of_mean(mean), (), action)
        after = self.drift.after(key_drift, state.t, self.bandit.means(self.bandit.theta), state.means)
        return Drifted(state.t + 1, after), Step((), reward, pick(gaps_of(state.means), action))


def _after(drift: Drift, base: Array) -> Array:
    return drift.after(_random.as_key(0), jnp.ones((), int), base, base)


TRIED = 1000
"""Rounds for which a drift of somebody's own is tried."""


@jax.jit
def _tried(drift: Drift, base: Array, first: Array) -> tuple[Array, Array]:
    """The last means, and those of each round from the second on."""

    def step(means, t):
        after = drift.after(_random.fold_in(_random.as_key(0), t), t, base, means)
        return after.astype(means.dtype), after

    return jax.lax.scan(step, first, 1 + jnp.arange(TRIED))
